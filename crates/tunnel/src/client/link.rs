//! The connections of this process to one server, and its session there.
//!
//! A call checks a connection out, sends, receives into the memory of its caller, and gives the connection back. A thread sends a ping
//! every few seconds over a connection of its own. When nothing was heard for too long, when the server refuses connections or has been
//! restarted, the server is *lost*: all sockets are shut down, which wakes all calls, and every further call fails at once. A server
//! that has no room for a further connection is not lost: the connections that there are go round.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use aqueduct_device::{Error, Kind, Operation, Result};

use super::connection::{Connection, TunnelCallError};
use super::link_pace::LinkPace;
use super::name::TunnelSettings;
use crate::handshake::{ClientIdentity, GREETING_TIME, GreetedServer, greet_server};
use crate::key::{Key, random};
use crate::socket::{Address, Socket};
use crate::wire::answer::Answer;
use crate::wire::greeting::{ServerIdentity, SessionId};
use crate::wire::request::TunnelRequest;

/// The slot of the connection for pings.
const PING_SLOT: u32 = 0;

/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(50);

/// Connections that are idle for so many times `silence` are closed: a minute, unless the name says otherwise.
const IDLE_SILENCES: u32 = 6;

/// A server as this process sees it.
pub(super) struct TunnelLink {
    address: Address,
    key: Option<Key>,
    settings: TunnelSettings,
    session: SessionId,
    client: String,
    process: u32,
    identity: OnceLock<ServerIdentity>,
    /// How often a ping is sent: often enough for the server, too.
    interval: OnceLock<Duration>,
    /// Held during the first greeting.
    greeted: Mutex<bool>,
    pool: Mutex<ConnectionPool>,
    returned: Condvar,
    lost: OnceLock<String>,
    numbers: AtomicU64,
    tickets: AtomicU64,
    pub(super) pace: LinkPace,
}

#[derive(Default)]
struct ConnectionPool {
    /// Since when each is idle; the longest first.
    idle: Vec<(Instant, Connection)>,
    in_use: usize,
    /// Of all connections, to shut them down.
    sockets: HashMap<u32, Socket>,
    free_slots: Vec<u32>,
    slots: u32,
}

/// Why a call gets no connection.
enum CheckOutError {
    /// The server is lost.
    Lost(String),
    /// It has no room, and all connections of this process are in use.
    Busy(String),
}

/// What a call gets.
enum IdleOrSlot {
    Idle(Connection),
    Slot(u32),
}

/// Why there is no connection.
enum ConnectError {
    /// It may succeed later.
    Transient(io::Error),
    /// Nobody listens there.
    Refused(io::Error),
    /// It has no room for a further connection.
    Busy(String),
    /// It will not succeed: the server has lost what this process had there.
    Lost(String),
}

impl TunnelLink {
    /// A link to a server that has been greeted; waits so long for one that does not run yet.
    pub(super) fn connect(
        address: &Address,
        key: Option<Key>,
        settings: &TunnelSettings,
        wait: Duration,
    ) -> std::result::Result<Arc<Self>, String> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let link = Arc::new(Self {
            address: address.clone(),
            key,
            settings: settings.clone(),
            session: random(),
            client: format!("{host}:{}", std::process::id()),
            process: std::process::id(),
            identity: OnceLock::new(),
            interval: OnceLock::new(),
            greeted: Mutex::new(false),
            pool: Mutex::default(),
            returned: Condvar::new(),
            lost: OnceLock::new(),
            numbers: AtomicU64::new(1),
            tickets: AtomicU64::new(1),
            pace: LinkPace::default(),
        });
        let start = Instant::now();
        loop {
            let silence_end = Instant::now() + link.settings.silence.min(GREETING_TIME);
            match link.open_connection(PING_SLOT, silence_end) {
                Ok(mut connection) => {
                    // If it fails, the thread connects again.
                    let _ = link.ping(&mut connection, silence_end);
                    let weak = Arc::downgrade(&link);
                    let beat = move || send_pings(&weak, connection);
                    let thread = thread::Builder::new().name("tunnel-ping".into()).spawn(beat);
                    thread.map_err(|error| format!("no thread can be started: {error}"))?;
                    return Ok(link);
                }
                Err(ConnectError::Lost(why)) => return Err(why),
                Err(ConnectError::Refused(error)) if start.elapsed() >= wait => {
                    return Err(format!("no server answers ({error}); is it started? (`aqueduct serve`)"));
                }
                // Somebody listens there.
                Err(ConnectError::Transient(error)) if start.elapsed() >= wait.max(link.settings.silence) => {
                    return Err(format!("the server does not greet ({error})"));
                }
                Err(ConnectError::Busy(why)) if start.elapsed() >= wait.max(link.settings.silence) => {
                    return Err(why);
                }
                Err(_) => thread::sleep(RETRY),
            }
        }
    }

    /// Which server it is.
    pub(super) fn identity(&self) -> ServerIdentity {
        self.identity.get().copied().unwrap_or_default()
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// True if calls can succeed.
    pub(super) fn is_usable(&self) -> bool {
        self.lost.get().is_none() && self.process == std::process::id()
    }

    /// The session of this process.
    pub(super) fn session(&self) -> SessionId {
        self.session
    }

    /// Why the server is lost.
    pub(super) fn loss(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// The error of a call that has no answer.
    pub(super) fn disconnected(&self, operation: Operation, name: &str, why: &str) -> Error {
        Error::new(Kind::Disconnected, operation, name).advise(format!("server {}: {why}", self.address))
    }

    pub(super) fn next_ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// A request and its answer.
    pub(super) fn call(&self, operation: Operation, name: &str, request: &TunnelRequest) -> Result<Answer> {
        let number = self.next_number();
        self.run(operation, name, true, &mut |connection| connection.call(number, request))
    }

    /// As [`call`](Self::call), for a request that may wait for other clients: it takes no connection from others.
    pub(super) fn call_waiting(
        &self,
        operation: Operation,
        name: &str,
        request: &TunnelRequest,
    ) -> Result<Answer> {
        let number = self.next_number();
        self.run(operation, name, false, &mut |connection| connection.call(number, request))
    }

    /// Does the work with a connection, again with a new one if the connection breaks.
    pub(super) fn run<T>(
        &self,
        operation: Operation,
        name: &str,
        limited: bool,
        work: &mut dyn FnMut(&mut Connection) -> std::result::Result<T, TunnelCallError>,
    ) -> Result<T> {
        let disconnected = |why: &str| self.disconnected(operation, name, why);
        if self.process != std::process::id() {
            return Err(disconnected("the file was opened before this process was forked; open it again"));
        }
        let mut failed_since = None;
        let mut connection = self.check_out(limited).map_err(|failure| match failure {
            CheckOutError::Lost(why) => disconnected(&why),
            CheckOutError::Busy(why) => {
                let error = Error::new(Kind::ResourceLimit, operation, name);
                error.advise(format!("server {}: {why}", self.address))
            }
        })?;
        let mut connected = Instant::now();
        loop {
            match work(&mut connection) {
                Ok(value) => {
                    self.give_back(connection);
                    return Ok(value);
                }
                Err(TunnelCallError::Refused(error)) => {
                    self.give_back(connection);
                    return Err(error.into_error(operation, name, &self.address.to_string()));
                }
                Err(TunnelCallError::Broken(error)) => {
                    let slot = connection.slot;
                    drop(connection);
                    if connected.elapsed() >= self.settings.silence / 4 {
                        // The call takes long, and the connection was whole for long.
                        failed_since = None;
                    }
                    let since = *failed_since.get_or_insert_with(Instant::now);
                    match self.reconnect(slot, since + self.settings.silence, &error) {
                        Ok(again) => (connection, connected) = (again, Instant::now()),
                        Err(why) => {
                            self.forget(slot);
                            return Err(disconnected(&why));
                        }
                    }
                }
            }
        }
    }

    fn pool(&self) -> MutexGuard<'_, ConnectionPool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle connection or a new one; waits if there are enough, or if the server has no room for more.
    fn check_out(&self, limited: bool) -> std::result::Result<Connection, CheckOutError> {
        let deadline = Instant::now() + self.settings.silence;
        loop {
            let slot = match self.idle_or_slot(limited).map_err(CheckOutError::Lost)? {
                IdleOrSlot::Idle(connection) => return Ok(connection),
                IdleOrSlot::Slot(slot) => slot,
            };
            match self.open_connection(slot, Instant::now() + self.settings.silence) {
                Ok(connection) => return Ok(connection),
                Err(ConnectError::Busy(why)) => {
                    self.forget(slot);
                    if Instant::now() >= deadline {
                        return Err(CheckOutError::Busy(why));
                    }
                    // Until then one of this process may be given back.
                    let pool = self.pool();
                    if pool.idle.is_empty() {
                        drop(self.returned.wait_timeout(pool, RETRY).unwrap_or_else(PoisonError::into_inner));
                    }
                }
                Err(_) => {
                    let broken = ErrorKind::NotConnected.into();
                    let connection = self.reconnect(slot, Instant::now() + self.settings.silence, &broken);
                    return connection.map_err(CheckOutError::Lost).inspect_err(|_| self.forget(slot));
                }
            }
        }
    }

    /// An idle connection, or the number for a new one if there may be one more.
    fn idle_or_slot(&self, limited: bool) -> std::result::Result<IdleOrSlot, String> {
        let mut pool = self.pool();
        loop {
            if let Some(why) = self.lost.get() {
                return Err(why.clone());
            }
            if let Some((_, connection)) = pool.idle.pop() {
                pool.in_use += 1;
                return Ok(IdleOrSlot::Idle(connection));
            }
            if !limited || pool.in_use < self.settings.connections {
                pool.in_use += 1;
                return Ok(IdleOrSlot::Slot(pool.free_slots.pop().unwrap_or_else(|| {
                    pool.slots += 1;
                    pool.slots
                })));
            }
            pool = self.returned.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes connections that are idle for long, so that other programs get them.
    fn close_idle(&self) {
        let limit = self.settings.silence * IDLE_SILENCES;
        let mut pool = self.pool();
        let old = pool.idle.iter().take_while(|(since, _)| since.elapsed() >= limit).count();
        let closed: Vec<_> = pool.idle.drain(..old).collect();
        for (_, connection) in &closed {
            pool.sockets.remove(&connection.slot);
            pool.free_slots.push(connection.slot);
        }
    }

    fn give_back(&self, connection: Connection) {
        let mut pool = self.pool();
        pool.in_use -= 1;
        if self.lost.get().is_none() {
            pool.idle.push((Instant::now(), connection));
        }
        drop(pool);
        self.returned.notify_one();
    }

    /// A connection is gone for good.
    fn forget(&self, slot: u32) {
        let mut pool = self.pool();
        pool.in_use -= 1;
        pool.sockets.remove(&slot);
        pool.free_slots.push(slot);
        drop(pool);
        self.returned.notify_one();
    }

    /// Connects, again until the deadline; then the server is lost. The server ends what the old connection of the slot had under way.
    fn reconnect(
        &self,
        slot: u32,
        deadline: Instant,
        broken: &io::Error,
    ) -> std::result::Result<Connection, String> {
        loop {
            if let Some(why) = self.lost.get() {
                return Err(why.clone());
            }
            let outcome = self.open_connection(slot, deadline);
            let why = match outcome {
                Ok(connection) => {
                    // A peer that accepts and then always fails must not be tried for ever.
                    if Instant::now() < deadline {
                        return Ok(connection);
                    }
                    format!("connections break again and again ({broken})")
                }
                Err(ConnectError::Lost(why)) => why,
                Err(ConnectError::Refused(error)) => {
                    format!("it has ended ({error}); what was only in its memory is lost")
                }
                Err(ConnectError::Transient(_) | ConnectError::Busy(_))
                    if Instant::now() + RETRY < deadline =>
                {
                    thread::sleep(RETRY);
                    continue;
                }
                // The other connections are not concerned.
                Err(ConnectError::Busy(why)) => return Err(why),
                Err(ConnectError::Transient(error)) => {
                    format!("no connection for {:?} ({broken}; {error})", self.settings.silence)
                }
            };
            self.lose(why.clone());
            return Err(why);
        }
    }

    fn open_connection(&self, slot: u32, deadline: Instant) -> std::result::Result<Connection, ConnectError> {
        let classify = |error: io::Error| match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::NotFound => ConnectError::Refused(error),
            ErrorKind::PermissionDenied => ConnectError::Lost(error.to_string()),
            ErrorKind::QuotaExceeded => ConnectError::Busy(error.to_string()),
            _ => ConnectError::Transient(error),
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let mut socket = Socket::connect(&self.address, left).map_err(classify)?;
        socket.configure(self.settings.silence).map_err(classify)?;
        let client = ClientIdentity { session: self.session, slot, name: self.client.clone() };
        // The first greeting makes the session; all later ones have to find it.
        let mut greeted = self.greeted.lock().unwrap_or_else(PoisonError::into_inner);
        let must_be_known = *greeted;
        let first = if must_be_known {
            drop(greeted);
            None
        } else {
            Some(&mut *greeted)
        };
        let end = deadline.min(Instant::now() + GREETING_TIME);
        let GreetedServer { identity, resumed: known, silence: of_server } =
            greet_server(&mut socket, self.key.as_ref(), &client, end).map_err(classify)?;
        self.interval.get_or_init(|| of_server.min(self.settings.silence) / 5);
        if let Some(greeted) = first {
            *greeted = true;
        }
        if self.identity.get_or_init(|| identity).epoch != identity.epoch {
            return Err(ConnectError::Lost("it was restarted; what was only in its memory is lost".into()));
        }
        if must_be_known && !known {
            let silence = self.settings.silence;
            return Err(ConnectError::Lost(format!(
                "it has ended the session of this program, which was silent for {silence:?} or longer; its locks are gone, open its files again"
            )));
        }
        let clone = socket.try_clone().map_err(classify)?;
        self.pool().sockets.insert(slot, clone);
        if self.lost.get().is_some() {
            socket.shut_down();
        }
        Ok(Connection::new(socket, slot, self.settings.check))
    }

    /// The server is lost: wakes all calls.
    fn lose(&self, why: String) {
        let _ = self.lost.set(why);
        let pool = self.pool();
        pool.sockets.values().for_each(Socket::shut_down);
        drop(pool);
        self.returned.notify_all();
    }

    /// A ping within the deadline.
    fn ping(
        &self,
        connection: &mut Connection,
        deadline: Instant,
    ) -> std::result::Result<(), TunnelCallError> {
        let left = deadline.saturating_duration_since(Instant::now());
        connection.socket().set_timeout(Some(left))?;
        let start = Instant::now();
        connection.call(self.next_number(), &TunnelRequest::Ping)?;
        self.pace.note_round_trip(start.elapsed());
        Ok(())
    }

    /// Ends the session, for a link that nobody uses.
    pub(super) fn say_goodbye(&self) {
        if self.is_usable() {
            let _ = self.call(Operation::Close, "", &TunnelRequest::Bye);
            self.lose("the connection was closed".into());
        }
    }
}

impl Drop for TunnelLink {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.pool().sockets.values().for_each(Socket::shut_down);
        }
    }
}

/// Sends pings until the link is dropped or lost.
fn send_pings(link: &Weak<TunnelLink>, connection: Connection) {
    let Some(times) = link.upgrade().map(|link| (link.settings.silence, link.interval.get().copied())) else {
        return;
    };
    let (silence, interval) = (times.0, times.1.unwrap_or(times.0 / 5));
    let (mut connection, mut heard) = (Some(connection), Instant::now());
    loop {
        thread::sleep(interval);
        let Some(link) = link.upgrade().filter(|link| link.is_usable()) else { return };
        link.close_idle();
        let deadline = heard + silence;
        let outcome = match &mut connection {
            Some(open) => link.ping(open, deadline).map_err(|error| format!("{error:?}")),
            None => match link.open_connection(PING_SLOT, deadline.max(Instant::now() + RETRY)) {
                Ok(open) => {
                    connection = Some(open);
                    Ok(())
                }
                Err(ConnectError::Lost(why)) => return link.lose(why),
                Err(ConnectError::Refused(error)) => {
                    return link.lose(format!("it has ended ({error}); what was only in its memory is lost"));
                }
                Err(ConnectError::Transient(error)) => Err(error.to_string()),
                Err(ConnectError::Busy(why)) => Err(why),
            },
        };
        match outcome {
            Ok(()) => heard = Instant::now(),
            Err(_) if Instant::now() < deadline => connection = None,
            Err(_) => return link.lose(format!("it gave no sign of life for {silence:?}")),
        }
    }
}
