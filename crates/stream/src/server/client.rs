//! The client's side of an output that a server writes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aqueduct_comm::Comm;
use aqueduct_file::write_behind::StallTimer;

use super::protocol::{
    ANSWER, BufferGrant, DATA, OpenRequest, REQUEST, SERVER, ServerRequest, ServerUpdate, decode_json,
    send_json, update_tag,
};
use super::shared_slots::SharedSlots;
use super::slot_allocator::{ChunkPlacement, SlotAllocator};
use super::split::{ComputeGroup, ServerLink};
use crate::aggregate::MemberShare;
use crate::declare::declaration::Declaration;
use crate::error::{EncodedError, Error, Kind, Result};
use crate::pack::packer::Packer;
use crate::target::StepBatch;
use crate::write::progress::{ProgressUpdate, RemoteProgress};
use crate::write::writer::RemoteWriter;

/// How often a client that lets go of an output looks whether its server has ended it.
const POLL: Duration = Duration::from_millis(2);

/// An output that a server writes, on a rank that computes. It has no thread: what the server says is heard whenever somebody asks.
#[derive(Debug)]
pub(crate) struct OutputClient {
    name: Arc<str>,
    link: Arc<ServerLink>,
    number: u32,
    /// Which row of the symmetric buffers is this client's; none where it shares no memory with its server.
    shared_slots: Option<(SharedSlots, usize)>,
    grant: BufferGrant,
    /// What the server's target says of itself.
    persistent: bool,
    state: Mutex<OutputClientState>,
}

#[derive(Debug)]
struct OutputClientState {
    slots: SlotAllocator,
    last: ServerUpdate,
    /// The server has been told of the end.
    ended: bool,
    /// It was dropped without `finish`.
    dropped: bool,
}

impl OutputClient {
    /// Opens an output at the server, together with all other clients of all servers. An error is that of all clients of a server.
    pub(crate) fn open(
        crew: &ComputeGroup,
        name: &str,
        declared: &Declaration,
        durable_every: Option<u64>,
        room: BufferGrant,
    ) -> Result<Self> {
        let link = Arc::clone(&crew.link);
        let talk = |error: aqueduct_comm::Error| Error::from_comm("create", name, &error);
        let (streams, shares) = (declared.streams.clone(), MemberShare::of(declared));
        let replace = declared.replaces();
        let open = OpenRequest { name: name.to_owned(), streams, shares, durable_every, replace, room };
        send_json(&link.comm, SERVER, REQUEST, &ServerRequest::Open(open)).map_err(talk)?;
        let (number, room): (u32, BufferGrant) = receive_answer(&link.comm, name)?;
        let symmetric = map_shared_slots(&link.comm, room).map_err(talk);
        let persistent = receive_answer(&link.comm, name)?;
        let symmetric = symmetric?;
        // Pages and all: the first steps shall cost no more than the others.
        if let Some((symmetric, row)) = &symmetric {
            (0..room.slots)
                .for_each(|slot| _ = symmetric.fill(*row, slot, room.slot as usize, |slot| slot.fill(0)));
        }
        let slots = if symmetric.is_some() { room.slots } else { 0 };
        let room = BufferGrant { slots, ..room };
        let state = OutputClientState {
            slots: SlotAllocator::new(room),
            last: ServerUpdate::default(),
            ended: false,
            dropped: false,
        };
        Ok(Self {
            name: name.into(),
            link,
            number,
            shared_slots: symmetric,
            grant: room,
            persistent,
            state: Mutex::new(state),
        })
    }

    pub(crate) fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// Bytes of the largest chunk.
    pub(crate) fn capacity(&self) -> u64 {
        self.grant.slot
    }

    /// A place for a chunk; waits, asleep, until there is one.
    fn place(&self, bytes: u64) -> Result<ChunkPlacement> {
        self.receive_update(false)?;
        loop {
            self.check()?;
            let place = self.lock().slots.take(bytes);
            match place {
                Some(place) => return Ok(place),
                None => self.receive_update(true)?,
            }
        }
    }

    /// Packs a chunk where it goes, and tells the server. One that cannot be packed is told as a chunk without bytes.
    fn hand_over(&self, place: ChunkPlacement, length: usize, packing: &mut Packer<'_>) -> Result<()> {
        let mut message = Vec::new();
        let packed = match (place, &self.shared_slots) {
            (ChunkPlacement::Slot(slot), Some((symmetric, row))) => {
                let filled = symmetric.fill(*row, slot, length, |room| packing.fill_slice(room));
                filled.unwrap_or_else(|| packing.fill(&mut message).map(drop))
            }
            _ => packing.fill(&mut message).map(drop),
        };
        let slot = if let ChunkPlacement::Slot(slot) = place { Some(slot) } else { None };
        let bytes = if packed.is_ok() { length as u64 } else { 0 };
        self.send_request(&ServerRequest::Chunk(self.number, bytes, slot))?;
        let refuse = |detail: String| Error::new(Kind::BadArgument, "commit", &self.name, detail);
        packed.map_err(|error| refuse(error.to_string()))?;
        if slot.is_some() {
            return Ok(());
        }
        // It is the server's only when it has left.
        let sending = self.link.comm.start_send(SERVER, DATA, message);
        sending.and_then(aqueduct_comm::SendRequest::wait).map_err(|error| self.server_lost(&error))
    }

    fn send_request(&self, request: &ServerRequest) -> Result<()> {
        send_json(&self.link.comm, SERVER, REQUEST, request).map_err(|error| self.server_lost(&error))
    }

    /// Takes news from the server: what has come, or what comes next.
    fn receive_update(&self, wait: bool) -> Result<()> {
        let tag = update_tag(self.number);
        // One at a time, so that news are taken in the order in which they came.
        let mut state = self.lock();
        let mut wait = wait;
        loop {
            let there =
                self.link.comm.try_probe(SERVER, tag).map_err(|error| self.server_lost(&error))?.is_some();
            if !there && !wait {
                return Ok(());
            }
            let (bytes, _) = self.link.comm.receive(SERVER, tag).map_err(|error| self.server_lost(&error))?;
            let news: ServerUpdate = decode_json(&bytes)?;
            // The end of an output that this client has dropped is its own doing.
            if news.failure.is_some() && !state.dropped {
                self.link.comm.mark_induced_failure(None);
            }
            state.slots.release(news.released);
            state.last.update(news);
            wait = false;
        }
    }

    fn check(&self) -> Result<()> {
        let failure = self.lock().last.failure.clone();
        failure.map_or(Ok(()), |told| Err(told.into_error()))
    }

    fn server_lost(&self, error: &aqueduct_comm::Error) -> Error {
        Error::from_comm("ask the server for", &self.name, error)
    }

    fn lock(&self) -> MutexGuard<'_, OutputClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RemoteWriter for OutputClient {
    /// Hands a parcel over, chunk by chunk: returns when the last one is with the server, or where that will fetch it.
    fn write(&self, parcel: StepBatch, packing: Result<&mut Packer<'_>, Error>) -> Result<()> {
        let step = parcel.step;
        let told = packing.as_ref().map(|packing| packing.size()).map_err(EncodedError::new);
        self.send_request(&ServerRequest::Parcel(self.number, parcel, told))?;
        let Ok(packing) = packing else { return Ok(()) };
        loop {
            let length = packing.next_length();
            if length == 0 {
                return Ok(());
            }
            let place = self.place(length as u64)?;
            let packed = self.hand_over(place, length, packing);
            packed.map_err(|error| error.in_step(step))?;
        }
    }

    fn sync(&self) -> Result<()> {
        self.send_request(&ServerRequest::Sync(self.number))
    }

    /// Ends the output and waits until the server has.
    fn finish(&self, steps: u64) -> Result<()> {
        self.send_request(&ServerRequest::Finish(self.number, steps))?;
        self.lock().ended = true;
        while !self.lock().last.finished {
            self.receive_update(true)?;
            self.check()?;
        }
        Ok(())
    }

    /// The output is dropped, unless it has ended: returns when the server has written every step that all clients have handed over. How many
    /// steps there are, and what has failed other than that the output ends so.
    /// None if other ranks keep the server waiting for longer than `limit`; it can be asked again.
    fn abandon(&self, limit: Option<Duration>) -> Option<(u64, Option<Error>)> {
        let (ended, dropped) = {
            let mut state = self.lock();
            (state.ended, std::mem::replace(&mut state.dropped, true))
        };
        if !ended && !dropped && self.send_request(&ServerRequest::Drop(self.number)).is_err() {
            return Some((0, None));
        }
        let mut timer = StallTimer::new(limit);
        loop {
            let heard = self.receive_update(false);
            let last = self.lock().last.clone();
            // A server that is gone, or a rank that failed: there is nothing to wait for.
            if ended || heard.is_err() || last.finished || last.failure.is_some() {
                let failure = last.failure.map(EncodedError::into_error);
                return Some((last.visible, failure.filter(|error| error.kind() != Kind::Incomplete)));
            }
            if timer.is_over(last.activity()) {
                return None;
            }
            std::thread::sleep(POLL);
        }
    }

    /// The most memory that was used here at a time, and how long the server has written.
    fn usage(&self) -> (u64, Duration) {
        let state = self.lock();
        (state.slots.memory_peak(), Duration::from_nanos(state.last.nanoseconds))
    }
}

impl RemoteProgress for OutputClient {
    fn update(&self, wait: bool) -> Result<ProgressUpdate> {
        self.receive_update(wait)?;
        let state = self.lock();
        let failure = state.last.failure.clone().map(EncodedError::into_error);
        Ok(ProgressUpdate { visible: state.last.visible, durable: state.last.durable, failure })
    }
}

/// An answer of the server to an opening.
pub(super) fn receive_answer<T: serde::de::DeserializeOwned>(link: &Comm, name: &str) -> Result<T> {
    let (bytes, _) =
        link.receive(SERVER, ANSWER).map_err(|error| Error::from_comm("create", name, &error))?;
    decode_json::<Result<T, EncodedError>>(&bytes)?.map_err(EncodedError::into_error)
}

/// Symmetric buffers of the clients that share memory with the server, and which row is this one's; none for the others. Collective over the link.
pub(super) fn map_shared_slots(
    link: &Comm,
    room: BufferGrant,
) -> aqueduct_comm::Result<Option<(SharedSlots, usize)>> {
    let near = link.node_of(link.rank()) == link.node_of(SERVER);
    let Some(near) = link.split(near.then_some(0), 0)? else { return Ok(None) };
    if near.size() < 2 {
        return Ok(None);
    }
    let region = near.shared_region(SharedSlots::bytes(near.size() - 1, room))?;
    Ok(Some((SharedSlots::new(region, room), near.rank().saturating_sub(1))))
}
