//! The server: files in its memory, or in a folder, for clients that have the key.
//!
//! A thread accepts connections; each connection has a thread, which reads a request, executes it and answers. A payload is received
//! completely and its checksum is checked before it touches a file, and no lock of a file is held while a client is waited for: a client that
//! stops disturbs nobody. A thread ends sessions that give no sign of life.

mod buffer_memory;
mod connection;
mod file_table;
mod folder;
mod greetings;
mod lock_table;
mod operation;
mod session;

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use aqueduct_device::{Device, MemFs, SyncScope};

use crate::key::{Key, random};
use crate::socket::{Address, Socket};
use crate::wire::answer::{ListedFile, ServerStatus};
use crate::wire::greeting::ServerIdentity;
use buffer_memory::BufferMemory;
use file_table::FileTable;
use folder::StoreFolder;
use greetings::GreetingQueue;
use session::SessionTable;

/// The stack of a thread of a connection.
const STACK: usize = 256 << 10;

/// What buffers of connections take at most: that of 4096 connections that are busy at the same time.
const MOST_BUFFERS: u64 = 4096 * (320 << 10);

/// How a server works.
#[derive(Clone)]
pub struct ServerOptions {
    /// Where it listens; port 0 is any free one.
    pub listen: Vec<Address>,
    /// Memory for all files and for buffers of connections.
    pub memory: u64,
    /// Files are in this folder instead, in the page cache of the system, which writes them back.
    pub store: Option<PathBuf>,
    /// Files are on this device instead, alone on it, with their names. They are not taken for durable.
    pub device: Option<Arc<dyn Device>>,
    /// The key; without it only Unix sockets can be used.
    pub key: Option<Key>,
    /// The set that it belongs to: random, alone in it, by default.
    pub set: [u8; 16],
    /// Its place in the set.
    pub index: u16,
    /// How many servers the set has.
    pub count: u16,
    /// A session without a sign of life for so long has ended.
    pub silence: Duration,
    /// The most connections at the same time.
    pub connections: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: vec![Address::Tcp("127.0.0.1".into(), 0)],
            memory: aqueduct_device::available_memory() / 2,
            store: None,
            device: None,
            key: None,
            set: random(),
            index: 0,
            count: 1,
            silence: Duration::from_secs(10),
            connections: 4096,
        }
    }
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions").field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// What all threads of a server share.
struct ServerState {
    options: ServerOptions,
    identity: ServerIdentity,
    files: FileTable,
    memory: Option<(Arc<MemFs>, u64)>,
    folder: Option<Arc<StoreFolder>>,
    sessions: SessionTable,
    start: Instant,
    stopping: AtomicBool,
    closed: AtomicBool,
    buffers: BufferMemory,
    greetings: Arc<GreetingQueue>,
    connections: AtomicUsize,
    refused: AtomicU64,
    requests: AtomicU64,
    written: AtomicU64,
    read: AtomicU64,
}

/// A running server.
pub struct TunnelServer {
    state: Arc<ServerState>,
    addresses: Vec<Address>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What became of the files of a server that was stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopReport {
    /// Files that were in memory only, and their lengths.
    pub dropped: Vec<(String, u64)>,
    /// Bytes that clients wrote.
    pub written: u64,
    /// Whether files of clients were still open.
    pub interrupted: bool,
    /// Why files of a folder may not be durable.
    pub sync_failure: Option<String>,
}

impl fmt::Debug for TunnelServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunnelServer").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn bind(address: &Address) -> io::Result<(Self, Address)> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("listen on {address}: {error}"));
        match address {
            Address::Tcp(host, port) => {
                let listener = TcpListener::bind((host.as_str(), *port)).map_err(named)?;
                let port = listener.local_addr()?.port();
                Ok((Self::Tcp(listener), Address::Tcp(host.clone(), port)))
            }
            Address::Unix(path) => {
                remove_dead_socket(path);
                Ok((Self::Unix(UnixListener::bind(path).map_err(named)?), address.clone()))
            }
        }
    }

    fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Socket::Tcp(stream)),
            Self::Unix(listener) => listener.accept().map(|(stream, _)| Socket::Unix(stream)),
        }
    }
}

/// Removes the path of a socket, unless it is another file now.
fn remove_socket(path: &Path) {
    if std::fs::symlink_metadata(path).is_ok_and(|stat| stat.file_type().is_socket()) {
        // It may be gone already.
        let _ = std::fs::remove_file(path);
    }
}

/// Removes the socket that a server that was killed has left. A server that lives answers; another file is not ours.
fn remove_dead_socket(path: &Path) {
    let connected = Socket::connect(&Address::Unix(path.into()), Duration::ZERO);
    if connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        remove_socket(path);
    }
}

impl TunnelServer {
    /// Starts a server; returns when clients can connect.
    pub fn start(options: ServerOptions) -> io::Result<Self> {
        if options.key.is_none() && options.listen.iter().any(|address| matches!(address, Address::Tcp(..))) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a server on TCP needs a key"));
        }
        if options.store.is_some() && options.device.is_some() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "files are in a folder or on a device"));
        }
        let listeners: Vec<_> = options.listen.iter().map(Listener::bind).collect::<io::Result<_>>()?;
        let state = Arc::new(ServerState::new(options)?);
        let mut threads = Vec::new();
        let mut addresses = Vec::new();
        for (listener, address) in listeners {
            addresses.push(address);
            let state = Arc::clone(&state);
            threads
                .push(thread::Builder::new().name("accept".into()).spawn(move || accept(&state, &listener))?);
        }
        let reaped = Arc::clone(&state);
        threads.push(
            thread::Builder::new().name("sessions".into()).spawn(move || end_silent_sessions(&reaped))?,
        );
        Ok(Self { state, addresses, threads: Mutex::new(threads) })
    }

    /// Where it listens, with the ports.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Its set, its place in it, and its epoch.
    pub fn identity(&self) -> ServerIdentity {
        self.state.identity
    }

    /// Its state.
    pub fn status(&self) -> ServerStatus {
        self.state.status()
    }

    /// Opens no more files and waits until no client has one open, `grace` at most; `is_urgent` ends the wait. Then syncs files of a folder
    /// and ends.
    pub fn stop(&self, grace: Duration, is_urgent: &dyn Fn() -> bool) -> StopReport {
        let state = &self.state;
        state.stopping.store(true, Ordering::Release);
        let deadline = Instant::now() + grace;
        while !state.sessions.open_files().is_empty() && Instant::now() < deadline && !is_urgent() {
            thread::sleep(Duration::from_millis(20));
        }
        let open = state.sessions.open_files();
        for file in &open {
            // The error is that of a later sync of the client, which it will not get: the report says that the file was interrupted.
            let _ = file.handle().map(|handle| handle.map(|handle| handle.sync(SyncScope::Data)));
        }
        let interrupted = !open.is_empty();
        drop(open);
        self.shut_down();
        // Files that are no longer open, too.
        let synced = state.folder.as_ref().map_or(Ok(()), |folder| folder.sync());
        let dropped = if state.memory.is_some() { state.files.contents() } else { Vec::new() };
        let sync_failure = synced.err().map(|error| error.to_string());
        StopReport { dropped, written: state.written.load(Ordering::Relaxed), interrupted, sync_failure }
    }

    /// Ends all sessions and threads.
    fn shut_down(&self) {
        let state = &self.state;
        if state.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        for address in &self.addresses {
            // Wakes the thread that accepts.
            let local = match address {
                Address::Tcp(host, port) if host == "0.0.0.0" => Address::Tcp("127.0.0.1".into(), *port),
                Address::Tcp(host, port) if host == "::" => Address::Tcp("::1".into(), *port),
                address => address.clone(),
            };
            let _ = Socket::connect(&local, Duration::from_secs(1));
            if let Address::Unix(path) = address {
                remove_socket(path);
            }
        }
        state.sessions.end_all(&state.files);
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Drop for TunnelServer {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl ServerState {
    fn new(options: ServerOptions) -> io::Result<Self> {
        let identity =
            ServerIdentity { set: options.set, index: options.index, count: options.count, epoch: random() };
        let mut memory = None;
        let folder =
            options.store.as_ref().map(|folder| StoreFolder::new(folder).map(Arc::new)).transpose()?;
        let buffers = (options.memory / 8).min(MOST_BUFFERS);
        let device: Arc<dyn Device> = match (&folder, &options.device) {
            (Some(folder), _) => Arc::clone(folder) as Arc<dyn Device>,
            (None, Some(device)) => Arc::clone(device),
            (None, None) => {
                let limit = options.memory - buffers;
                let device = Arc::new(MemFs::with_memory_limit(limit));
                memory = Some((Arc::clone(&device), limit));
                device
            }
        };
        Ok(Self {
            identity,
            files: FileTable::new(device, folder.is_some()),
            memory,
            folder,
            sessions: SessionTable::default(),
            start: Instant::now(),
            stopping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            buffers: BufferMemory::new(buffers),
            greetings: Arc::default(),
            connections: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            options,
        })
    }

    fn list(&self, prefix: &[u8], after: &[u8]) -> aqueduct_device::Result<(Vec<ListedFile>, bool)> {
        match &self.folder {
            Some(folder) => folder.list(prefix, after),
            None => Ok(self.files.list(prefix, after)),
        }
    }

    fn status(&self) -> ServerStatus {
        ServerStatus {
            memory: self.memory.as_ref().map_or(0, |(_, limit)| *limit),
            used: self.memory.as_ref().map_or(0, |(memory, _)| memory.used()),
            files: if self.folder.is_some() { 0 } else { self.files.count() as u64 },
            sessions: self.sessions.count() as u64,
            connections: self.connections.load(Ordering::Relaxed) as u64,
            written: self.written.load(Ordering::Relaxed),
            read: self.read.load(Ordering::Relaxed),
            uptime: self.start.elapsed().as_millis() as u64,
            refused: self.refused.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
        }
    }
}

/// Counts a connection as long as it exists.
struct CountedConnection(Arc<ServerState>);

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

fn accept(state: &Arc<ServerState>, listener: &Listener) {
    loop {
        let accepted = listener.accept();
        if state.closed.load(Ordering::Acquire) {
            return;
        }
        let Ok(socket) = accepted else {
            // No descriptors are left, or the client has gone already.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        let Ok(greeting) = state.greetings.enter(&socket) else { continue };
        state.connections.fetch_add(1, Ordering::AcqRel);
        let counted = CountedConnection(Arc::clone(state));
        let thread = thread::Builder::new().name("connection".into()).stack_size(STACK);
        // If no thread can be started the socket is closed, and the client tries again.
        let _ = thread.spawn(move || connection::serve(&counted.0, socket, greeting));
    }
}

fn end_silent_sessions(state: &ServerState) {
    let step = (state.options.silence / 10).clamp(Duration::from_millis(10), Duration::from_millis(500));
    while !state.closed.load(Ordering::Acquire) {
        thread::sleep(step);
        state.sessions.end_silent(state.options.silence, &state.files);
    }
}
