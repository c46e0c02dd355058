//! The client's side of an output that a server writes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aqueduct_file::write_behind::StallTimer;

use super::channel::ServerChannel;
use super::protocol::{BufferGrant, ClientRequest, OutputRequest, ServerUpdate};
use super::slot_allocator::{ChunkPlacement, SlotAllocator};
use super::split::ComputeGroup;
use crate::aggregate::MemberShare;
use crate::declare::declaration::Declaration;
use crate::error::{Error, Kind, Result};
use crate::pack::packer::Packer;
use crate::target::StepBatch;
use crate::write::progress::{ProgressUpdate, RemoteProgress};
use crate::write::writer::RemoteWriter;

/// How often a client that has dropped an output checks whether its server has ended it.
const POLL: Duration = Duration::from_millis(2);

/// An output that a server writes, on a compute rank. It has no thread: updates are received when a call needs them.
#[derive(Debug)]
pub(crate) struct OutputClient {
    channel: ServerChannel,
    state: Mutex<OutputClientState>,
}

#[derive(Debug)]
struct OutputClientState {
    slots: SlotAllocator,
    last: ServerUpdate,
    /// The end was sent to the server.
    ended: bool,
    /// The output was dropped without `finish`.
    dropped: bool,
}

impl OutputClient {
    /// Opens an output at the server. Collective over the clients of all servers.
    pub(crate) fn open(
        compute: &ComputeGroup,
        name: &str,
        declaration: &Declaration,
        durable_every: Option<u64>,
        grant: BufferGrant,
    ) -> Result<Self> {
        let (streams, shares) = (declaration.streams.clone(), MemberShare::of(declaration));
        let output = OutputRequest { streams, shares, durable_every, plan: declaration.plan };
        let channel = ServerChannel::open(compute, name, Some(output), grant)?;
        channel.prefault_slots();
        let slots = if channel.shares_memory() { channel.grant().slots } else { 0 };
        let slots = SlotAllocator::new(BufferGrant { slots, ..channel.grant() });
        let state = OutputClientState { slots, last: ServerUpdate::default(), ended: false, dropped: false };
        Ok(Self { channel, state: Mutex::new(state) })
    }

    pub(crate) fn is_persistent(&self) -> bool {
        self.channel.is_persistent()
    }

    /// Bytes of the largest chunk.
    pub(crate) fn capacity(&self) -> u64 {
        self.channel.grant().slot
    }

    /// A place for a chunk; waits until there is one.
    fn place(&self, bytes: u64) -> Result<ChunkPlacement> {
        self.receive_updates(false)?;
        loop {
            self.check()?;
            let place = self.lock().slots.take(bytes);
            match place {
                Some(place) => return Ok(place),
                None => self.receive_updates(true)?,
            }
        }
    }

    /// Receives the updates that have arrived, after waiting for one if `wait` is set.
    fn receive_updates(&self, wait: bool) -> Result<()> {
        // Under the lock, so that updates are merged in the order in which they arrive.
        let mut state = self.lock();
        let mut wait = wait;
        while let Some(update) = self.channel.receive_update(wait)? {
            // The end of an output that this client has dropped is not the failure of another rank.
            if update.failure.is_some() && !state.dropped {
                self.channel.mark_induced_failure();
            }
            state.slots.release(update.released);
            state.last.merge(update);
            wait = false;
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.lock().last.failure.clone().map_or(Ok(()), Err)
    }

    fn lock(&self) -> MutexGuard<'_, OutputClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RemoteWriter for OutputClient {
    /// Returns when the last chunk is at the server, or in a slot that it reads.
    fn write(&self, batch: StepBatch, packing: Result<&mut Packer<'_>, Error>) -> Result<()> {
        let step = batch.step;
        let bytes = packing.as_ref().map(|packing| packing.size()).map_err(Clone::clone);
        self.channel.send(&ClientRequest::Batch(self.channel.number(), batch, bytes))?;
        let Ok(packing) = packing else { return Ok(()) };
        loop {
            let length = packing.next_length();
            if length == 0 {
                return Ok(());
            }
            let place = self.place(length as u64)?;
            let fill = |slot: &mut [u8]| {
                packing.fill_slice(slot).map_err(|error| {
                    Error::new(Kind::BadArgument, "commit", self.channel.name(), error.to_string())
                })
            };
            let passed = self.channel.pass(place, Vec::new(), length, fill);
            passed.map_err(|error| error.in_step(step))?;
        }
    }

    fn sync(&self) -> Result<()> {
        self.channel.send(&ClientRequest::Sync(self.channel.number()))
    }

    /// Ends the output and waits until the server has.
    fn finish(&self, steps: u64) -> Result<()> {
        self.channel.send(&ClientRequest::Finish(self.channel.number(), steps))?;
        self.lock().ended = true;
        while !self.lock().last.finished {
            self.receive_updates(true)?;
            self.check()?;
        }
        Ok(())
    }

    /// The failure is not that of the drop itself.
    fn abandon(&self, limit: Option<Duration>) -> Option<(u64, Option<Error>)> {
        let (ended, dropped) = {
            let mut state = self.lock();
            (state.ended, std::mem::replace(&mut state.dropped, true))
        };
        let request = ClientRequest::Drop(self.channel.number());
        if !ended && !dropped && self.channel.send(&request).is_err() {
            return Some((0, None));
        }
        let mut timer = StallTimer::new(limit);
        loop {
            let received = self.receive_updates(false);
            let last = self.lock().last.clone();
            // If the server is gone, or a rank has failed, there is nothing to wait for.
            if ended || received.is_err() || last.finished || last.failure.is_some() {
                return Some((last.visible, last.failure.filter(|error| error.kind() != Kind::Incomplete)));
            }
            if timer.is_over(last.activity()) {
                return None;
            }
            std::thread::sleep(POLL);
        }
    }

    fn usage(&self) -> (u64, Duration) {
        let state = self.lock();
        (state.slots.memory_peak(), Duration::from_nanos(state.last.nanoseconds))
    }
}

impl RemoteProgress for OutputClient {
    fn update(&self, wait: bool) -> Result<ProgressUpdate> {
        self.receive_updates(wait)?;
        let ServerUpdate { visible, durable, failure, .. } = self.lock().last.clone();
        Ok(ProgressUpdate { visible, durable, failure })
    }
}
