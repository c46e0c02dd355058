//! The client's side of a buffered file that a server writes: the server's memory is a level between that of the rank and the file.
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_file::{BufferOptions, Capacity, OpenOptions};
//! use aqueduct_stream::{Role, split_io_servers};
//!
//! Launch::threads(3).run(|world| {
//!     match split_io_servers(world, 1)? {
//!         Role::Server(server) => server.memory(16 << 20).serve().map(drop)?,
//!         Role::Compute(compute) => {
//!             let open = OpenOptions::new().read(true).write(true).create(true).delete_on_close(true);
//!             let file = open.open(compute.comm(), "memfs:buffered-by-server")?;
//!             let file = compute.buffered(file, &BufferOptions::new(Capacity::Bytes(1 << 20)))?;
//!             let rank = compute.comm().rank() as u64;
//!             file.at(8000 * rank).all().write(&[rank as f64; 1000])?;
//!             file.close()?;
//!         }
//!     }
//!     Ok::<_, aqueduct_stream::Error>(())
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use aqueduct_file::layout::Strip;
use aqueduct_file::{self as file, BufferOptions, DrainTarget, File};

use super::channel::ServerChannel;
use super::protocol::{BufferGrant, ClientRequest, ServerUpdate};
use super::slot_allocator::SlotAllocator;
use super::split::ComputeGroup;
use crate::error::{Error, Result, agree};

/// Bytes of the largest piece.
const PIECE: u64 = 1 << 20;
/// Slots of a client: one is filled while the server copies from another one.
const SLOTS: u32 = 2;

impl ComputeGroup {
    /// The same file, buffered in the memory of this rank and then in that of its server, which writes it; otherwise as
    /// [`File::buffered`]. The file is open on all compute ranks. Collective over them.
    pub fn buffered(&self, file: File, settings: &BufferOptions) -> Result<File> {
        let client = BufferClient::open(self, file.name());
        let client = agree(self.comm(), "open", file.name(), client)?;
        file.buffered_through(settings, Some(Arc::new(client)))
    }
}

/// The drain target of a rank's buffered file: a channel to its server.
#[derive(Debug)]
struct BufferClient {
    channel: ServerChannel,
    state: Mutex<BufferClientState>,
    change: Condvar,
}

#[derive(Debug)]
struct BufferClientState {
    slots: SlotAllocator,
    update: ServerUpdate,
    /// Pieces that were passed to the server.
    passed: u64,
    /// One of the waiting threads receives updates for all.
    receiving: bool,
    /// The error of a server that is gone.
    server_error: Option<Error>,
    ended: bool,
}

impl BufferClient {
    /// Opens a file at the server. Collective over its clients.
    fn open(compute: &ComputeGroup, name: &str) -> Result<Self> {
        let wanted = BufferGrant { slots: SLOTS, slot: PIECE, allowance: 0 };
        let channel = ServerChannel::open(compute, name, None, wanted)?;
        // Inside a node all pieces are passed in slots, between nodes all in messages.
        let grant = if channel.shares_memory() {
            BufferGrant { allowance: 0, ..channel.grant() }
        } else {
            BufferGrant { slots: 0, ..channel.grant() }
        };
        let state = BufferClientState {
            slots: SlotAllocator::new(grant),
            update: ServerUpdate::default(),
            passed: 0,
            receiving: false,
            server_error: None,
            ended: false,
        };
        Ok(Self { channel, state: Mutex::new(state), change: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, BufferClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ready` returns a value; fails if the server has failed or is gone.
    fn wait<T>(&self, mut ready: impl FnMut(&mut BufferClientState) -> Option<T>) -> Result<T> {
        let mut state = self.lock();
        loop {
            if let Some(found) = ready(&mut state) {
                return Ok(found);
            }
            if let Some(error) = state.server_error.as_ref().or(state.update.failure.as_ref()) {
                return Err(error.clone());
            }
            if state.receiving {
                state = self.change.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.receiving = true;
            drop(state);
            let received = self.channel.receive_update(true);
            state = self.lock();
            state.receiving = false;
            match received {
                Ok(update) => update.into_iter().for_each(|update| self.apply(&mut state, update)),
                Err(error) => state.server_error = Some(error),
            }
            self.change.notify_all();
        }
    }

    fn apply(&self, state: &mut BufferClientState, update: ServerUpdate) {
        if update.failure.is_some() {
            self.channel.mark_induced_failure();
        }
        state.slots.release(update.released);
        state.update.merge(update);
    }
}

impl DrainTarget for BufferClient {
    fn capacity(&self) -> usize {
        self.channel.grant().slot as usize
    }

    fn take(&self, places: &[Strip], bytes: &[u8]) -> file::Result<()> {
        let placement = self.wait(|state| state.slots.take(bytes.len() as u64))?;
        let copy = |slot: &mut [u8]| {
            slot.copy_from_slice(bytes);
            Ok(())
        };
        self.channel.pass(placement, places.to_vec(), bytes.len(), copy)?;
        self.lock().passed += 1;
        Ok(())
    }

    fn written(&self, seen: u64) -> file::Result<u64> {
        self.wait(|state| Some(state.update.visible).filter(|visible| *visible > seen))
    }

    fn sync(&self) -> file::Result<()> {
        let passed = self.lock().passed;
        self.channel.send(&ClientRequest::Sync(self.channel.number()))?;
        self.wait(|state| (state.update.durable >= passed).then_some(()))
    }

    fn end(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.ended, true) {
            return;
        }
        let passed = state.passed;
        drop(state);
        // A server that has failed or is gone does not have the file open.
        let _ = self.channel.send(&ClientRequest::Finish(self.channel.number(), passed));
        let _ = self.wait(|state| state.update.finished.then_some(()));
    }
}

impl Drop for BufferClient {
    fn drop(&mut self) {
        self.end();
    }
}
