//! The messages between clients and servers. Outputs and buffered files use the same ones: each is a *channel* with a number, a
//! grant of memory, data with its places, and updates.

use aqueduct_comm::Comm;
use aqueduct_file::layout::Strip;
use aqueduct_file::write_behind::JobActivity;

use crate::aggregate::MemberShare;
use crate::declare::output_plan::OutputPlan;
use crate::declare::rank_points::RankPoints;
use crate::declare::stream_info::StreamInfo;
use crate::error::{Error, Result};
use crate::target::{BatchEntry, StepBatch};
use crate::wire::{WireEncoding, encode_message, wire_struct};
use aqueduct_file::hyperslab::Hyperslab;

/// The rank of the server among its clients.
pub(crate) const SERVER: usize = 0;
/// The tag of requests.
pub(crate) const REQUEST: u32 = 0;
/// The tag of answers to [`ClientRequest::Open`].
pub(crate) const ANSWER: u32 = 1;

/// The tag of the updates of a channel.
pub(crate) fn update_tag(channel: u32) -> u32 {
    16 + 2 * channel
}

/// The tag of the bytes of a channel that are not in slots.
pub(crate) fn data_tag(channel: u32) -> u32 {
    17 + 2 * channel
}

/// A request of a client.
#[derive(Debug)]
pub(crate) enum ClientRequest {
    /// Opens a channel. Collective: all clients open the same one.
    Open(OpenRequest),
    /// A batch of an output: the data of this number of bytes follows, or the client takes part with its error.
    Batch(u32, StepBatch, Result<u64>),
    /// Data of a channel.
    Data(u32, DataHeader),
    /// A sync of the channel after all data so far.
    Sync(u32),
    /// The end of a channel, after this number of steps or pieces.
    Finish(u32, u64),
    /// The output was dropped without `finish`.
    Drop(u32),
    /// The client opens no more channels, and has closed all.
    Leave,
}

/// Data of a channel and its places.
#[derive(Debug)]
pub(crate) struct DataHeader {
    /// The places in the file; none for an output, whose declaration has them.
    pub(crate) runs: Vec<Strip>,
    /// The number of bytes; 0 if the client could not provide them.
    pub(crate) bytes: u64,
    /// The slot of shared memory that has them; none if they follow in a message.
    pub(crate) slot: Option<u32>,
}

/// What a client opens.
#[derive(Clone, Debug)]
pub(crate) struct OpenRequest {
    pub(crate) name: String,
    /// The memory that the client wants.
    pub(crate) grant: BufferGrant,
    /// None for a buffered file.
    pub(crate) output: Option<OutputRequest>,
}

/// What a server needs to know about an output.
#[derive(Clone, Debug)]
pub(crate) struct OutputRequest {
    pub(crate) streams: Vec<StreamInfo>,
    pub(crate) shares: Vec<MemberShare>,
    pub(crate) durable_every: Option<u64>,
    pub(crate) plan: OutputPlan,
}

/// Memory for the data of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferGrant {
    /// Slots of shared memory, and the bytes of each.
    pub(crate) slots: u32,
    pub(crate) slot: u64,
    /// Bytes that may be on their way in messages.
    pub(crate) allowance: u64,
}

/// The first answer to a request to open a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelGrant {
    pub(crate) channel: u32,
    pub(crate) grant: BufferGrant,
}

/// The progress of a channel at its server, for one client.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerUpdate {
    /// The number of this client's data messages whose memory is free again.
    pub(crate) released: u64,
    /// Steps, or pieces of a file, that are written.
    pub(crate) visible: u64,
    pub(crate) durable: u64,
    /// The channel has ended, and everything is durable.
    pub(crate) finished: bool,
    /// The time that the server has spent writing.
    pub(crate) nanoseconds: u64,
    pub(crate) failure: Option<Error>,
    /// The activity of the thread that writes, for clients that have dropped the output.
    pub(crate) turns: u64,
    pub(crate) waits: bool,
}

impl ServerUpdate {
    /// Merges an update, which may be an older one: several threads of a server send updates.
    pub(crate) fn merge(&mut self, update: Self) {
        self.released = self.released.max(update.released);
        self.visible = self.visible.max(update.visible);
        self.durable = self.durable.max(update.durable);
        self.finished |= update.finished;
        self.nanoseconds = self.nanoseconds.max(update.nanoseconds);
        self.failure = self.failure.take().or(update.failure);
        if update.turns > self.turns {
            (self.turns, self.waits) = (update.turns, update.waits);
        }
    }

    /// The activity of the thread that writes.
    pub(crate) fn activity(&self) -> JobActivity {
        JobActivity { turns: self.turns, waits: self.waits }
    }
}

wire_struct!(Strip { offset, len, stride, count });
wire_struct!(DataHeader { runs, bytes, slot });
wire_struct!(OpenRequest { name, grant, output });
wire_struct!(OutputRequest { streams, shares, durable_every, plan });
wire_struct!(BufferGrant { slots, slot, allowance });
wire_struct!(ChannelGrant { channel, grant });
wire_struct!(ServerUpdate { released, visible, durable, finished, nanoseconds, failure, turns, waits });
wire_struct!(StepBatch { step, closing, entries });
wire_struct!(BatchEntry { stream, samples, items });

/// As in the header of a stream file.
impl WireEncoding for StreamInfo {
    fn put(&self, out: &mut Vec<u8>) {
        self.to_json().put(out);
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        serde_json::from_str(&String::take(input)?).ok()
    }
}

impl WireEncoding for ClientRequest {
    fn put(&self, out: &mut Vec<u8>) {
        macro_rules! put_all {
            ($($value:expr),*) => {{ $($value.put(out);)* }};
        }
        match self {
            Self::Open(open) => put_all!(0_u8, open),
            Self::Batch(channel, batch, bytes) => put_all!(1_u8, channel, batch, bytes),
            Self::Data(channel, header) => put_all!(2_u8, channel, header),
            Self::Sync(channel) => put_all!(3_u8, channel),
            Self::Finish(channel, count) => put_all!(4_u8, channel, count),
            Self::Drop(channel) => put_all!(5_u8, channel),
            Self::Leave => put_all!(6_u8),
        }
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        Some(match u8::take(input)? {
            0 => Self::Open(WireEncoding::take(input)?),
            1 => Self::Batch(u32::take(input)?, WireEncoding::take(input)?, WireEncoding::take(input)?),
            2 => Self::Data(u32::take(input)?, WireEncoding::take(input)?),
            3 => Self::Sync(u32::take(input)?),
            4 => Self::Finish(u32::take(input)?, u64::take(input)?),
            5 => Self::Drop(u32::take(input)?),
            6 => Self::Leave,
            _ => return None,
        })
    }
}

/// Sends a message to a rank.
pub(crate) fn send_message(
    link: &Comm,
    to: usize,
    tag: u32,
    value: &impl WireEncoding,
) -> aqueduct_comm::Result<()> {
    link.send(to, tag, &encode_message(value))
}

/// Decodes a message as each of the types of the protocol, for the fuzz target: the messages that the decoded values make.
pub fn decoded_forms(message: &[u8]) -> Vec<Vec<u8>> {
    fn form<T: WireEncoding>(message: &[u8]) -> Option<Vec<u8>> {
        crate::wire::decode_message::<T>(message).ok().map(|value| encode_message(&value))
    }
    let forms = [
        form::<ClientRequest>(message),
        form::<Result<ChannelGrant>>(message),
        form::<Result<bool>>(message),
        form::<ServerUpdate>(message),
        form::<Vec<MemberShare>>(message),
    ];
    forms.into_iter().flatten().collect()
}

/// One message of each kind, from which the fuzz target starts.
pub fn sample_messages() -> Vec<Vec<u8>> {
    let run = Strip { offset: -8, len: 3, stride: 16, count: 5 };
    let header = DataHeader { runs: vec![run, run], bytes: 30, slot: Some(1) };
    let grant = BufferGrant { slots: 2, slot: 1 << 20, allowance: 77 };
    let block = Hyperslab::new([0, 2], [4, 5]);
    let points = RankPoints { points: vec![6, 7], before: 8, numbers: vec![2, 0] };
    let shares = vec![MemberShare { block, points }];
    let info =
        r#"{"name":"level","kind":"f64","shape":[4,5],"region":"whole","reduction":"none","every":null}"#;
    let streams: Vec<StreamInfo> = serde_json::from_str(info).into_iter().collect();
    let plan = OutputPlan { replace: true, steps: Some(40), resume_at: Some(7) };
    let output = OutputRequest { streams, shares: shares.clone(), durable_every: Some(3), plan };
    let failure = Error::new(crate::error::Kind::NoSpace, "write", "run.out", "full").in_step(7).on_rank(3);
    let entries = vec![BatchEntry { stream: 1, samples: 2, items: 3 }];
    let batch = StepBatch { step: 9, closing: true, entries };
    let open = |output| ClientRequest::Open(OpenRequest { name: "run.out".to_owned(), grant, output });
    let requests = [
        open(Some(output)),
        open(None),
        ClientRequest::Batch(3, batch.clone(), Ok(80)),
        ClientRequest::Batch(3, batch, Err(failure.clone())),
        ClientRequest::Data(4, header),
        ClientRequest::Sync(5),
        ClientRequest::Finish(6, 70),
        ClientRequest::Drop(7),
        ClientRequest::Leave,
    ];
    let update = ServerUpdate { released: 1, visible: 2, failure: Some(failure), ..ServerUpdate::default() };
    let answers = [
        encode_message(&Ok::<_, Error>(ChannelGrant { channel: 8, grant })),
        encode_message(&Ok::<_, Error>(true)),
        encode_message(&update),
        encode_message(&shares),
    ];
    requests.iter().map(encode_message).chain(answers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqueduct_testkit::rng::SeededRng;

    #[test]
    fn messages_are_decoded_to_what_was_encoded() {
        for message in sample_messages() {
            let forms = decoded_forms(&message);
            assert!(forms.contains(&message), "{message:?}");
        }
    }

    #[test]
    fn truncated_messages_are_refused() {
        for message in sample_messages() {
            for length in 0..message.len() {
                let refused = |form: &Vec<u8>| *form != message[..];
                assert!(decoded_forms(&message[..length]).iter().all(refused), "{length} of {message:?}");
                assert!(crate::wire::decode_message::<ClientRequest>(&message[..length]).is_err());
            }
        }
    }

    /// Changed bytes are refused, or are another message: decoded and encoded again, they are the same.
    #[test]
    fn mutated_messages_are_refused_or_valid() {
        let mut rng = SeededRng::new(7);
        for message in sample_messages() {
            for _ in 0..2000 {
                let mut mutated = message.clone();
                for _ in 0..=rng.below(3) {
                    let at = rng.below(mutated.len());
                    mutated[at] = rng.number() as u8;
                }
                for form in decoded_forms(&mutated) {
                    assert!(decoded_forms(&form).contains(&form), "{mutated:?}");
                }
            }
        }
    }
}
