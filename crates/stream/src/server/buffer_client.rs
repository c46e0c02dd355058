//! The client's side of a buffered file that a server writes: a level below the memory of the rank.
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_file::{BufferOptions, Capacity, OpenOptions};
//! use aqueduct_stream::{Role, split_io_servers};
//!
//! Launch::threads(3).run(|world| {
//!     match split_io_servers(world, 1)? {
//!         Role::Server(server) => server.memory(16 << 20).serve().map(drop)?,
//!         Role::Compute(crew) => {
//!             let open = OpenOptions::new().read(true).write(true).create(true).delete_on_close(true);
//!             let file = open.open(crew.comm(), "memfs:conduit")?;
//!             let file = crew.buffered(file, &BufferOptions::new(Capacity::Bytes(1 << 20)))?;
//!             let rank = crew.comm().rank() as u64;
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

use super::client::{map_shared_slots, receive_answer};
use super::protocol::{
    BufferGrant, REQUEST, SERVER, ServerRequest, ServerUpdate, data_tag, decode_json, send_json, update_tag,
};
use super::shared_slots::SharedSlots;
use super::slot_allocator::{ChunkPlacement, SlotAllocator};
use super::split::{ComputeGroup, ServerLink};
use crate::error::{Error, Result, agree};

/// Bytes of the largest piece that a client hands over at a time.
const PIECE: u64 = 1 << 20;

impl ComputeGroup {
    /// The same file, buffered by the memory of this rank and then by that of its server, which writes it; otherwise as [`File::buffered`]. The file is one of
    /// all ranks that compute. Collective over them.
    pub fn buffered(&self, file: File, settings: &BufferOptions) -> Result<File> {
        let conduit = BufferClient::open(self, file.name());
        let conduit = agree(self.comm(), "open", file.name(), conduit)?;
        file.buffered_through(settings, Some(Arc::new(conduit)))
    }
}

/// A rank's way to the server of a buffered file.
#[derive(Debug)]
struct BufferClient {
    name: Arc<str>,
    link: Arc<ServerLink>,
    number: u32,
    /// Which row of the slots is this client's; none where it shares no memory with its server.
    shared_slots: Option<(SharedSlots, usize)>,
    piece: u64,
    state: Mutex<BufferClientState>,
    change: Condvar,
}

#[derive(Debug)]
struct BufferClientState {
    slots: SlotAllocator,
    update: ServerUpdate,
    /// Pieces that were handed over.
    handed: u64,
    /// One thread listens for all that wait.
    receiving: bool,
    /// The server is gone.
    server_error: Option<Error>,
    ended: bool,
}

impl BufferClient {
    /// Opens a file at the server, together with all other clients of that.
    fn open(crew: &ComputeGroup, name: &str) -> Result<Self> {
        let link = Arc::clone(&crew.link);
        let talk = |error: aqueduct_comm::Error| Error::from_comm("open", name, &error);
        send_json(&link.comm, SERVER, REQUEST, &ServerRequest::Buffer(name.to_owned(), PIECE))
            .map_err(talk)?;
        let (number, room): (u32, BufferGrant) = receive_answer(&link.comm, name)?;
        let symmetric = map_shared_slots(&link.comm, room).map_err(talk);
        receive_answer::<()>(&link.comm, name)?;
        let symmetric = symmetric?;
        // Inside a node everything is fetched, between nodes everything is sent.
        let room = match symmetric {
            Some(_) => BufferGrant { allowance: 0, ..room },
            None => BufferGrant { slots: 0, ..room },
        };
        let state = BufferClientState {
            slots: SlotAllocator::new(room),
            update: ServerUpdate::default(),
            handed: 0,
            receiving: false,
            server_error: None,
            ended: false,
        };
        let (state, change) = (Mutex::new(state), Condvar::new());
        Ok(Self { name: name.into(), link, number, shared_slots: symmetric, piece: room.slot, state, change })
    }

    fn lock(&self) -> MutexGuard<'_, BufferClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send_request(&self, request: &ServerRequest) -> Result<()> {
        send_json(&self.link.comm, SERVER, REQUEST, request).map_err(|error| self.server_lost(&error))
    }

    fn server_lost(&self, error: &aqueduct_comm::Error) -> Error {
        Error::from_comm("write", &self.name, error)
    }

    /// Waits, asleep, until something is so; an error if the server has failed or is gone.
    fn wait<T>(&self, mut ready: impl FnMut(&mut BufferClientState) -> Option<T>) -> Result<T> {
        let mut state = self.lock();
        loop {
            if let Some(found) = ready(&mut state) {
                return Ok(found);
            }
            if let Some(error) = &state.server_error {
                return Err(error.clone());
            }
            if let Some(failure) = &state.update.failure {
                return Err(failure.clone().into_error());
            }
            if state.receiving {
                state = self.change.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.receiving = true;
            drop(state);
            let heard = self.receive_update();
            state = self.lock();
            state.receiving = false;
            match heard {
                Ok(news) => state.apply_update(news),
                Err(error) => state.server_error = Some(error),
            }
            self.change.notify_all();
        }
    }

    fn receive_update(&self) -> Result<ServerUpdate> {
        let heard = self.link.comm.receive::<u8>(SERVER, update_tag(self.number));
        let (bytes, _) = heard.map_err(|error| self.server_lost(&error))?;
        let news: ServerUpdate = decode_json(&bytes)?;
        if news.failure.is_some() {
            self.link.comm.mark_induced_failure(None);
        }
        Ok(news)
    }

    fn hand_over(&self, places: &[Strip], bytes: &[u8]) -> Result<()> {
        let place = self.wait(|state| state.slots.take(bytes.len() as u64))?;
        let slot = match (place, &self.shared_slots) {
            (ChunkPlacement::Slot(slot), Some((symmetric, row))) => {
                symmetric.fill(*row, slot, bytes.len(), |room| room.copy_from_slice(bytes));
                Some(slot)
            }
            _ => None,
        };
        let runs = places.iter().map(|strip| (strip.offset, strip.len, strip.stride, strip.count)).collect();
        self.send_request(&ServerRequest::Piece(self.number, runs, bytes.len() as u64, slot))?;
        if slot.is_none() {
            // It is the server's only when it has left.
            let sending = self.link.comm.start_send(SERVER, data_tag(self.number), bytes.to_vec());
            sending.and_then(aqueduct_comm::SendRequest::wait).map_err(|error| self.server_lost(&error))?;
        }
        self.lock().handed += 1;
        Ok(())
    }
}

impl BufferClientState {
    /// Two threads of the server send news, so that an older one may come later.
    fn apply_update(&mut self, news: ServerUpdate) {
        self.slots.release(news.released);
        self.update.visible = self.update.visible.max(news.visible);
        self.update.durable = self.update.durable.max(news.durable);
        self.update.finished |= news.finished;
        self.update.failure = self.update.failure.take().or(news.failure);
    }
}

impl DrainTarget for BufferClient {
    fn capacity(&self) -> usize {
        self.piece as usize
    }

    fn take(&self, places: &[Strip], bytes: &[u8]) -> file::Result<()> {
        self.hand_over(places, bytes)
    }

    fn written(&self, seen: u64) -> file::Result<u64> {
        let visible =
            |state: &mut BufferClientState| Some(state.update.visible).filter(|visible| *visible > seen);
        self.wait(visible)
    }

    fn sync(&self) -> file::Result<()> {
        let handed = self.lock().handed;
        let durable = |state: &mut BufferClientState| (state.update.durable >= handed).then_some(());
        self.send_request(&ServerRequest::Sync(self.number)).and_then(|()| self.wait(durable))
    }

    fn end(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.ended, true) {
            return;
        }
        let handed = state.handed;
        drop(state);
        // A server that has failed or is gone has no file open.
        let _ = self.send_request(&ServerRequest::Finish(self.number, handed));
        let _ = self.wait(|state| state.update.finished.then_some(()));
    }
}

impl Drop for BufferClient {
    fn drop(&mut self) {
        self.end();
    }
}
