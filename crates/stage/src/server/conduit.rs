//! The client's side of a buffered file that a server writes: a level below the memory of the rank.
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_file::{Buffered, Capacity, Mode, Open};
//! use aqueduct_stage::{Role, split};
//!
//! Launch::threads(3).run(|world| {
//!     match split(world, 1)? {
//!         Role::Server(server) => server.memory(16 << 20).serve().map(drop)?,
//!         Role::Compute(crew) => {
//!             let open = Open::new(Mode::read_write().create().delete_on_close());
//!             let file = open.open(crew.comm(), "memfs:conduit")?;
//!             let file = crew.buffered(file, &Buffered::new(Capacity::Bytes(1 << 20)))?;
//!             let rank = crew.comm().rank() as u64;
//!             file.at(8000 * rank).all().write(&[rank as f64; 1000])?;
//!             file.close()?;
//!         }
//!     }
//!     Ok::<_, aqueduct_stage::Error>(())
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use aqueduct_file::layout::Strip;
use aqueduct_file::{self as file, Buffered, File, Reservoir};

use super::client::{answer, share};
use super::protocol::{News, REQUEST, Request, Room, SERVER, data_of, news_of, tell, told};
use super::slots::{Place, Slots};
use super::split::{Crew, Link};
use super::symmetric::Symmetric;
use crate::error::{Error, Result, agree};

/// Bytes of the largest piece that a client hands over at a time.
const PIECE: u64 = 1 << 20;

impl Crew {
    /// The same file, buffered by the memory of this rank and then by that of its server, which writes it; otherwise as [`File::buffered`]. The file is one of
    /// all ranks that compute. Collective over them.
    pub fn buffered(&self, file: File, settings: &Buffered) -> Result<File> {
        let conduit = Conduit::open(self, file.name());
        let conduit = agree(self.comm(), "open", file.name(), conduit)?;
        Ok(file.buffered_through(settings, Some(Arc::new(conduit)))?)
    }
}

/// A rank's way to the server of a buffered file.
#[derive(Debug)]
struct Conduit {
    name: Arc<str>,
    link: Arc<Link>,
    number: u32,
    /// Which row of the slots is this client's; none where it shares no memory with its server.
    symmetric: Option<(Symmetric, usize)>,
    piece: u64,
    state: Mutex<State>,
    change: Condvar,
}

#[derive(Debug)]
struct State {
    slots: Slots,
    news: News,
    /// Pieces that were handed over.
    handed: u64,
    /// One thread listens for all that wait.
    hearing: bool,
    /// The server is gone.
    silent: Option<Error>,
    ended: bool,
}

impl Conduit {
    /// Opens a file at the server, together with all other clients of that.
    fn open(crew: &Crew, name: &str) -> Result<Self> {
        let link = Arc::clone(&crew.link);
        let talk = |error: aqueduct_comm::Error| Error::talk("open", name, &error);
        tell(&link.comm, SERVER, REQUEST, &Request::Buffer(name.to_owned(), PIECE)).map_err(talk)?;
        let (number, room): (u32, Room) = answer(&link.comm, name)?;
        let symmetric = share(&link.comm, room).map_err(talk);
        answer::<()>(&link.comm, name)?;
        let symmetric = symmetric?;
        // Inside a node everything is fetched, between nodes everything is sent.
        let room = match symmetric {
            Some(_) => Room { allowance: 0, ..room },
            None => Room { slots: 0, ..room },
        };
        let state = State {
            slots: Slots::new(room),
            news: News::default(),
            handed: 0,
            hearing: false,
            silent: None,
            ended: false,
        };
        let (state, change) = (Mutex::new(state), Condvar::new());
        Ok(Self { name: name.into(), link, number, symmetric, piece: room.slot, state, change })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, request: &Request) -> Result<()> {
        tell(&self.link.comm, SERVER, REQUEST, request).map_err(|error| self.silent(&error))
    }

    fn silent(&self, error: &aqueduct_comm::Error) -> Error {
        Error::talk("write", &self.name, error)
    }

    /// Waits, asleep, until something is so; an error if the server has failed or is gone.
    fn wait<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> Result<T> {
        let mut state = self.lock();
        loop {
            if let Some(found) = ready(&mut state) {
                return Ok(found);
            }
            if let Some(error) = &state.silent {
                return Err(error.clone());
            }
            if let Some(failure) = &state.news.failure {
                return Err(failure.clone().into_error());
            }
            if state.hearing {
                state = self.change.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.hearing = true;
            drop(state);
            let heard = self.hear();
            state = self.lock();
            state.hearing = false;
            match heard {
                Ok(news) => state.take(news),
                Err(error) => state.silent = Some(error),
            }
            self.change.notify_all();
        }
    }

    fn hear(&self) -> Result<News> {
        let heard = self.link.comm.receive::<u8>(SERVER, news_of(self.number));
        let (bytes, _) = heard.map_err(|error| self.silent(&error))?;
        let news: News = told(&bytes)?;
        if news.failure.is_some() {
            self.link.comm.note_loss(None);
        }
        Ok(news)
    }

    fn hand_over(&self, places: &[Strip], bytes: &[u8]) -> Result<()> {
        let place = self.wait(|state| state.slots.take(bytes.len() as u64))?;
        let slot = match (place, &self.symmetric) {
            (Place::Slot(slot), Some((symmetric, row))) => {
                symmetric.fill(*row, slot, bytes.len(), |room| room.copy_from_slice(bytes));
                Some(slot)
            }
            _ => None,
        };
        let runs = places.iter().map(|strip| (strip.offset, strip.len, strip.stride, strip.count)).collect();
        self.ask(&Request::Piece(self.number, runs, bytes.len() as u64, slot))?;
        if slot.is_none() {
            // It is the server's only when it has left.
            let sending = self.link.comm.start_send(SERVER, data_of(self.number), bytes.to_vec());
            sending.and_then(aqueduct_comm::Sending::wait).map_err(|error| self.silent(&error))?;
        }
        self.lock().handed += 1;
        Ok(())
    }
}

impl State {
    /// Two threads of the server send news, so that an older one may come later.
    fn take(&mut self, news: News) {
        self.slots.release(news.released);
        self.news.visible = self.news.visible.max(news.visible);
        self.news.durable = self.news.durable.max(news.durable);
        self.news.finished |= news.finished;
        self.news.failure = self.news.failure.take().or(news.failure);
    }
}

/// An error of the server as one of the file.
fn lowered(error: &Error) -> file::Error {
    let kind = error.file_kind().unwrap_or(file::Kind::Communication);
    file::Error::new(kind, error.operation(), &Arc::from(error.file()), error.detail())
}

impl Reservoir for Conduit {
    fn capacity(&self) -> usize {
        self.piece as usize
    }

    fn take(&self, places: &[Strip], bytes: &[u8]) -> file::Result<()> {
        self.hand_over(places, bytes).map_err(|error| lowered(&error))
    }

    fn written(&self, seen: u64) -> file::Result<u64> {
        let visible = |state: &mut State| Some(state.news.visible).filter(|visible| *visible > seen);
        self.wait(visible).map_err(|error| lowered(&error))
    }

    fn sync(&self) -> file::Result<()> {
        let handed = self.lock().handed;
        let durable = |state: &mut State| (state.news.durable >= handed).then_some(());
        let synced = self.ask(&Request::Sync(self.number)).and_then(|()| self.wait(durable));
        synced.map_err(|error| lowered(&error))
    }

    fn end(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.ended, true) {
            return;
        }
        let handed = state.handed;
        drop(state);
        // A server that has failed or is gone has no file open.
        let _ = self.ask(&Request::Finish(self.number, handed));
        let _ = self.wait(|state| state.news.finished.then_some(()));
    }
}

impl Drop for Conduit {
    fn drop(&mut self) {
        self.end();
    }
}
