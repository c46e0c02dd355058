//! Sessions: what a client process has open and locked, across its connections.
//!
//! A session outlives its connections for a while: a client whose connection broke continues with a new one. A connection has a slot
//! number; a new connection of the same slot replaces the old one. It is admitted at once, and its first request waits for what the old
//! ones have under way: a request that is repeated never overtakes itself, however long it takes. When a session has been silent for
//! too long its connections are ended, what they have under way is waited for, and only then its locks are free for others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::file_table::{FileTable, OpenedFile};
use crate::socket::Socket;
use crate::wire::greeting::SessionId;

/// The most files that a session has open.
const MOST_HANDLES: usize = 1 << 16;

/// The most slots of a session.
const MOST_SLOTS: usize = 1 << 14;

/// A client process.
pub(super) struct Session {
    pub(super) id: SessionId,
    seen: Mutex<Instant>,
    ended: AtomicBool,
    goodbye: AtomicBool,
    handles: Mutex<HashMap<u64, Arc<OpenedFile>>>,
    next_handle: AtomicU64,
    slots: Mutex<HashMap<u32, Arc<ConnectionSlot>>>,
}

/// The answer of a request that must not be executed twice.
pub(super) struct KeptAnswer {
    pub(super) number: u64,
    pub(super) flags: u8,
    pub(super) descriptor: Vec<u8>,
}

/// The connections of a session under one number: the present one and those that it has replaced.
#[derive(Default)]
struct ConnectionSlot {
    current: Mutex<CurrentConnection>,
    /// Held while a request of any of the connections is executed. A client has one request under way that must not be executed
    /// twice, so that the last answer is enough.
    work: Mutex<Option<KeptAnswer>>,
}

#[derive(Default)]
struct CurrentConnection {
    /// Which of the connections may execute requests.
    number: u64,
    socket: Option<Socket>,
}

/// A connection of a session.
pub(super) struct SessionConnection {
    slot: Arc<ConnectionSlot>,
    number: u64,
}

impl SessionConnection {
    /// Executes a request after those of the connections that this one has replaced; none if it was replaced itself.
    pub(super) fn execute<T>(&self, work: impl FnOnce(&mut Option<KeptAnswer>) -> T) -> Option<T> {
        let mut kept = locked(&self.slot.work);
        let is_current = locked(&self.slot.current).number == self.number;
        is_current.then(|| work(&mut kept))
    }

    /// Forgets the socket of a connection that has ended.
    pub(super) fn disconnect(&self) {
        let mut current = locked(&self.slot.current);
        if current.number == self.number {
            current.socket = None;
        }
    }
}

impl ConnectionSlot {
    /// Replaces the connection, or ends it if there is no other socket.
    fn replace(&self, socket: Option<Socket>) -> u64 {
        let mut current = locked(&self.current);
        if let Some(old) = std::mem::replace(&mut current.socket, socket) {
            old.shut_down();
        }
        current.number += 1;
        current.number
    }

    /// Ends the connection and waits for what it and those before it have under way.
    fn end(&self) {
        self.replace(None);
        drop(locked(&self.work));
    }
}

impl Session {
    fn new(id: SessionId) -> Self {
        Self {
            id,
            seen: Mutex::new(Instant::now()),
            ended: AtomicBool::new(false),
            goodbye: AtomicBool::new(false),
            handles: Mutex::default(),
            next_handle: AtomicU64::new(1),
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

    /// Removes and returns the files that match, for a client that has lost its locks; later requests for them are refused.
    pub(super) fn remove_matching(&self, matches: impl Fn(&OpenedFile) -> bool) -> Vec<Arc<OpenedFile>> {
        let mut handles = locked(&self.handles);
        let numbers: Vec<u64> =
            handles.iter().filter(|(_, file)| matches(file)).map(|(number, _)| *number).collect();
        numbers.iter().filter_map(|number| handles.remove(number)).collect()
    }

    /// True if a connection of this slot replaces one, or is the one for signs of life.
    fn is_known_slot(&self, slot: u32) -> bool {
        let known = || {
            let slot = locked(&self.slots).get(&slot).cloned();
            slot.is_some_and(|slot| locked(&slot.current).socket.is_some())
        };
        slot == 0 || known()
    }

    /// Admits a connection under a slot number.
    fn connect(&self, slot: u32, socket: Socket) -> Result<SessionConnection, String> {
        let slot = {
            let mut slots = locked(&self.slots);
            if slots.len() >= MOST_SLOTS && !slots.contains_key(&slot) {
                return Err("the program has too many connections".into());
            }
            Arc::clone(slots.entry(slot).or_default())
        };
        let number = slot.replace(Some(socket));
        if self.has_ended() {
            slot.replace(None);
        }
        Ok(SessionConnection { slot, number })
    }

    /// The client has ended the session itself.
    fn said_goodbye(&self) -> bool {
        self.goodbye.load(Ordering::Acquire)
    }

    /// Ends the session: connections first, then open files and locks.
    fn end(&self, files: &FileTable) {
        self.ended.store(true, Ordering::Release);
        let slots: Vec<_> = locked(&self.slots).values().cloned().collect();
        slots.iter().for_each(|slot| slot.end());
        let handles: Vec<_> = locked(&self.handles).drain().collect();
        for (_, file) in handles {
            // Known before another client gets the lock, which then ends what this one has under way on other servers.
            if file.entry.locks.holds(&self.id) && !self.said_goodbye() {
                file.entry.note_eviction(self.id);
            }
            file.entry.locks.release(|owner| owner.session == self.id);
            // The client is gone; nobody is left to report to.
            let _ = files.close(file);
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

    /// True if a session has a connection of this slot, which a new one replaces, or needs it for its signs of life.
    pub(super) fn knows(&self, id: &SessionId, slot: u32) -> bool {
        let session = locked(&self.sessions).get(id).cloned();
        session.is_some_and(|session| session.is_known_slot(slot))
    }

    /// Admits a connection to a new or known session; says whether it was known.
    pub(super) fn admit(
        &self,
        id: SessionId,
        slot: u32,
        socket: Socket,
    ) -> Result<(Arc<Session>, SessionConnection, bool), String> {
        let (session, known) = {
            let mut sessions = locked(&self.sessions);
            let known = sessions.contains_key(&id);
            (Arc::clone(sessions.entry(id).or_insert_with(|| Arc::new(Session::new(id)))), known)
        };
        session.touch();
        let connection = session.connect(slot, socket)?;
        Ok((session, connection, known))
    }

    /// Closes files of clients that have lost their locks on the first server of the file; what they have under way is done when this
    /// returns, and their later accesses are refused.
    pub(super) fn evict(&self, files: &FileTable, matches: impl Fn(&OpenedFile) -> bool) {
        let sessions: Vec<_> = locked(&self.sessions).values().cloned().collect();
        let evicted: Vec<_> = sessions.iter().flat_map(|session| session.remove_matching(&matches)).collect();
        for file in evicted {
            // The client learns it from its next access.
            let _ = files.close(file);
        }
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
            session.goodbye.store(true, Ordering::Release);
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    /// The second connection gives up before the request of the first one is done; that of the third one waits for it nevertheless.
    #[test]
    fn a_request_waits_for_those_of_all_earlier_connections() {
        let sessions = SessionTable::default();
        let admit = || {
            let (one, _) = UnixStream::pair().unwrap();
            sessions.admit([1; 16], 3, Socket::Unix(one)).unwrap().1
        };
        let (running, started) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let first = admit();
            let (running, started) = (&running, &started);
            scope.spawn(move || {
                first.execute(|_| {
                    running.store(true, Ordering::SeqCst);
                    started.store(true, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(300));
                    running.store(false, Ordering::SeqCst);
                })
            });
            while !started.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            let second = scope.spawn(admit);
            thread::sleep(Duration::from_millis(50));
            let third = admit();
            let was_running = third.execute(|_| running.load(Ordering::SeqCst));
            assert_eq!(was_running, Some(false), "a request runs beside an earlier one of its slot");
            let second = second.join().unwrap();
            second.disconnect();
            assert_eq!(second.execute(|_| ()), None, "it was replaced");
            assert_eq!(third.execute(|kept| kept.is_none()), Some(true));
        });
    }
}
