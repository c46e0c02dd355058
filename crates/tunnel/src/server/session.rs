//! Sessions: what a client process has open and locked, across its connections.
//!
//! A session outlives its connections for a while: a client whose connection broke continues with a new one. A connection has a slot
//! number; a new connection of the same slot replaces the old one, after what the old one has under way is done. So a request that is
//! repeated never overtakes itself. When a session has been silent for too long its connections are ended, what they have
//! under way is waited for, and only then its locks are free for others.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::file_table::{FileTable, OpenedFile};
use crate::socket::Socket;
use crate::wire::greeting::SessionId;

/// How many answers of requests that must not be executed twice are kept. A client has fewer connections than that.
const KEPT_ANSWERS: usize = 256;

/// The most files that a session has open.
const MOST_HANDLES: usize = 1 << 16;

/// A client process.
pub(super) struct Session {
    pub(super) id: SessionId,
    seen: Mutex<Instant>,
    ended: AtomicBool,
    handles: Mutex<HashMap<u64, Arc<OpenedFile>>>,
    next_handle: AtomicU64,
    answers: Mutex<VecDeque<(u64, u8, Vec<u8>)>>,
    slots: Mutex<HashMap<u32, Arc<ConnectionSlot>>>,
}

/// A connection of a session.
pub(super) struct ConnectionSlot {
    socket: Socket,
    /// Held while a request is executed; true when the connection was replaced or the session has ended.
    retired: Mutex<bool>,
}

impl ConnectionSlot {
    /// Executes a request, unless the connection was replaced.
    pub(super) fn execute<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let retired = locked(&self.retired);
        (!*retired).then(work)
    }

    /// Ends the connection and waits for what it has under way.
    fn retire(&self) {
        self.socket.shut_down();
        *locked(&self.retired) = true;
    }
}

impl Session {
    fn new(id: SessionId) -> Self {
        Self {
            id,
            seen: Mutex::new(Instant::now()),
            ended: AtomicBool::new(false),
            handles: Mutex::default(),
            next_handle: AtomicU64::new(1),
            answers: Mutex::default(),
            slots: Mutex::default(),
        }
    }

    /// Notes a sign of life.
    pub(super) fn touch(&self) {
        *locked(&self.seen) = Instant::now();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The number of a file that the client has opened; none if it has too many.
    pub(super) fn add(&self, file: OpenedFile) -> Result<u64, OpenedFile> {
        let mut handles = locked(&self.handles);
        if handles.len() >= MOST_HANDLES {
            return Err(file);
        }
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        handles.insert(handle, Arc::new(file));
        Ok(handle)
    }

    pub(super) fn file(&self, handle: u64) -> Option<Arc<OpenedFile>> {
        locked(&self.handles).get(&handle).cloned()
    }

    pub(super) fn remove(&self, handle: u64) -> Option<Arc<OpenedFile>> {
        locked(&self.handles).remove(&handle)
    }

    /// The kept answer of a request: flags and descriptor.
    pub(super) fn answer_of(&self, number: u64) -> Option<(u8, Vec<u8>)> {
        let answers = locked(&self.answers);
        answers.iter().find(|(kept, _, _)| *kept == number).map(|(_, flags, bytes)| (*flags, bytes.clone()))
    }

    pub(super) fn keep_answer(&self, number: u64, flags: u8, descriptor: &[u8]) {
        let mut answers = locked(&self.answers);
        if answers.len() == KEPT_ANSWERS {
            answers.pop_front();
        }
        answers.push_back((number, flags, descriptor.to_vec()));
    }

    /// Admits a connection under a slot number, after the one before it has ended.
    fn connect(&self, slot: u32, socket: Socket) -> Arc<ConnectionSlot> {
        let new = Arc::new(ConnectionSlot { socket, retired: Mutex::new(false) });
        let old = locked(&self.slots).insert(slot, Arc::clone(&new));
        if let Some(old) = old {
            old.retire();
        }
        if self.has_ended() {
            new.retire();
        }
        new
    }

    /// Forgets a connection that has ended.
    pub(super) fn disconnect(&self, slot: u32, connection: &Arc<ConnectionSlot>) {
        let mut slots = locked(&self.slots);
        if slots.get(&slot).is_some_and(|known| Arc::ptr_eq(known, connection)) {
            slots.remove(&slot);
        }
    }

    /// Ends the session: connections first, then open files and locks.
    fn end(&self, files: &FileTable) {
        self.ended.store(true, Ordering::Release);
        let slots: Vec<_> = locked(&self.slots).values().cloned().collect();
        slots.iter().for_each(|slot| slot.retire());
        let handles: Vec<_> = locked(&self.handles).drain().collect();
        for (_, file) in handles {
            file.entry.locks.release(|owner| owner.session == self.id);
            if let Some(file) = Arc::into_inner(file) {
                // The client is gone; nobody is left to report to.
                let _ = files.close(file);
            }
        }
    }
}

/// All sessions of a server.
#[derive(Default)]
pub(super) struct SessionTable {
    sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
}

impl SessionTable {
    pub(super) fn count(&self) -> usize {
        locked(&self.sessions).len()
    }

    /// Admits a connection to a new or known session; says whether it was known.
    pub(super) fn admit(
        &self,
        id: SessionId,
        slot: u32,
        socket: Socket,
    ) -> (Arc<Session>, Arc<ConnectionSlot>, bool) {
        let (session, known) = {
            let mut sessions = locked(&self.sessions);
            let known = sessions.contains_key(&id);
            (Arc::clone(sessions.entry(id).or_insert_with(|| Arc::new(Session::new(id)))), known)
        };
        session.touch();
        let connection = session.connect(slot, socket);
        (session, connection, known)
    }

    /// Ends sessions without a sign of life for so long.
    pub(super) fn end_silent(&self, silence: Duration, files: &FileTable) {
        let silent: Vec<_> = {
            let mut sessions = locked(&self.sessions);
            let silent = |session: &&Arc<Session>| locked(&session.seen).elapsed() > silence;
            let ids: Vec<_> = sessions.values().filter(silent).map(|session| session.id).collect();
            ids.iter().filter_map(|id| sessions.remove(id)).collect()
        };
        silent.iter().for_each(|session| session.end(files));
    }

    /// Ends a session that its client has ended.
    pub(super) fn end(&self, id: &SessionId, files: &FileTable) {
        let session = locked(&self.sessions).remove(id);
        if let Some(session) = session {
            session.end(files);
        }
    }

    pub(super) fn end_all(&self, files: &FileTable) {
        let all: Vec<_> = locked(&self.sessions).drain().collect();
        all.iter().for_each(|(_, session)| session.end(files));
    }

    /// Open files of all sessions.
    pub(super) fn open_files(&self) -> Vec<Arc<OpenedFile>> {
        let sessions: Vec<_> = locked(&self.sessions).values().cloned().collect();
        sessions
            .iter()
            .flat_map(|session| locked(&session.handles).values().cloned().collect::<Vec<_>>())
            .collect()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
