//! What clients and servers say to each other.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use aqueduct_comm::Comm;
use aqueduct_file::write_behind::JobActivity;

use crate::aggregate::MemberShare;
use crate::declare::stream_info::StreamInfo;
use crate::error::{EncodedError, Error, Kind, Result};
use crate::target::StepBatch;

/// The server's rank among its clients.
pub(crate) const SERVER: usize = 0;
/// What clients ask for.
pub(crate) const REQUEST: u32 = 0;
/// Bytes that did not fit.
pub(crate) const DATA: u32 = 1;
/// Answers to an opening.
pub(crate) const ANSWER: u32 = 2;

/// News of an output.
pub(crate) fn update_tag(output: u32) -> u32 {
    16 + output
}

/// Bytes of a buffered file.
pub(crate) fn data_tag(file: u32) -> u32 {
    (1 << 31) + file
}

/// Runs of a file: where the first one begins, bytes of each, from one to the next, and how many.
pub(crate) type StridedRun = (i64, u64, i64, u64);

/// What a client asks its server for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ServerRequest {
    Open(OpenRequest),
    /// A parcel, whose chunks follow: so many bytes; or the error that this client takes part with.
    Parcel(u32, StepBatch, Result<u64, EncodedError>),
    /// A chunk of so many bytes: in a slot of the symmetric buffer, or in a message. One without bytes is an error of the client.
    Chunk(u32, u64, Option<u32>),
    /// A file to be buffered, by its name, in pieces of so many bytes at most.
    Buffer(String, u64),
    /// A piece of a buffered file: where it belongs, so many bytes, in a slot or in a message.
    Piece(u32, Vec<StridedRun>, u64, Option<u32>),
    Sync(u32),
    /// The output ends after so many steps.
    Finish(u32, u64),
    /// The output was dropped.
    Drop(u32),
    /// This client has no outputs any more.
    Bye,
}

/// What a server must know of an output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OpenRequest {
    pub(crate) name: String,
    pub(crate) streams: Vec<StreamInfo>,
    pub(crate) shares: Vec<MemberShare>,
    pub(crate) durable_every: Option<u64>,
    pub(crate) replace: bool,
    pub(crate) room: BufferGrant,
}

/// Room for what a client hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BufferGrant {
    /// Slots of the symmetric buffer, and bytes of each.
    pub(crate) slots: u32,
    pub(crate) slot: u64,
    /// Bytes that may be under way in messages.
    pub(crate) allowance: u64,
}

/// What has become of what a client handed over.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ServerUpdate {
    /// How many chunks of this client are let go.
    pub(crate) released: u64,
    pub(crate) visible: u64,
    pub(crate) durable: u64,
    /// The output has ended, and all is durable.
    pub(crate) finished: bool,
    /// How long the server has written.
    pub(crate) nanoseconds: u64,
    pub(crate) failure: Option<EncodedError>,
    /// The activity of the thread that writes, for clients that have dropped the output.
    pub(crate) turns: u64,
    pub(crate) waits: bool,
}

impl ServerUpdate {
    /// Adds news, which may be older: the threads of a server send some each.
    pub(crate) fn update(&mut self, news: Self) {
        self.released = self.released.max(news.released);
        self.visible = self.visible.max(news.visible);
        self.durable = self.durable.max(news.durable);
        self.finished |= news.finished;
        self.nanoseconds = self.nanoseconds.max(news.nanoseconds);
        self.failure = self.failure.take().or(news.failure);
        if news.turns > self.turns {
            (self.turns, self.waits) = (news.turns, news.waits);
        }
    }

    /// The activity of the thread that writes.
    pub(crate) fn activity(&self) -> JobActivity {
        JobActivity { turns: self.turns, waits: self.waits }
    }
}

/// Tells something to a rank.
pub(crate) fn send_json<T: Serialize>(
    link: &Comm,
    to: usize,
    tag: u32,
    what: &T,
) -> aqueduct_comm::Result<()> {
    let bytes = serde_json::to_vec(what).expect("names, numbers and lists of them are JSON");
    link.send(to, tag, &bytes)
}

/// What a rank has told.
pub(crate) fn decode_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let detail =
        |error| format!("a message that cannot be understood: {error}; all ranks must run the same program");
    serde_json::from_slice(bytes)
        .map_err(|error| Error::new(Kind::Communication, "receive", "the servers", detail(error)))
}
