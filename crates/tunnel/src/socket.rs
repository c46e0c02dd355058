//! Byte streams between clients and servers: TCP and Unix sockets, with blocking calls.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sendmsg,
};

use crate::wire::frame::{FrameHead, HEAD};

/// The port of servers, unless another one is given.
pub const DEFAULT_PORT: u16 = 7700;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// A host and a port.
    Tcp(String, u16),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse =
            |why: &str| Err(format!("{text:?}: {why}; write HOST, HOST:PORT, [IPV6]:PORT or unix:/PATH"));
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.starts_with('/') {
                Ok(Self::Unix(path.into()))
            } else {
                refuse("the path is not absolute")
            };
        }
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, port.strip_prefix(':').or(Some(""))),
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let is_host = |letter: char| letter.is_ascii_alphanumeric() || ".-_:%".contains(letter);
        if host.is_empty() || !host.chars().all(is_host) {
            return refuse("this is no host");
        }
        match port.map_or(Ok(DEFAULT_PORT), str::parse) {
            Ok(port) => Ok(Self::Tcp(host.to_owned(), port)),
            Err(_) => refuse("this is no port"),
        }
    }
}

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects within a time, that for finding the addresses of the host included.
    pub(crate) fn connect(address: &Address, time: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + time;
        let left = || deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match address {
            Address::Unix(path) => connect_unix(path, deadline).map(Self::Unix),
            Address::Tcp(host, port) => {
                let mut failure = io::Error::new(ErrorKind::NotFound, "the host has no address");
                for address in host_addresses(host, *port, left())? {
                    match TcpStream::connect_timeout(&address, left()) {
                        Ok(stream) => return Ok(Self::Tcp(stream)),
                        Err(error) => failure = error,
                    }
                }
                Err(failure)
            }
        }
    }

    /// Sets what both ends want: no delay of small frames, and an error if the peer acknowledges nothing for so long.
    pub(crate) fn configure(&self, silence: Duration) -> io::Result<()> {
        if let Self::Tcp(stream) = self {
            stream.set_nodelay(true)?;
            let time = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
            // Advisory: without it a silent peer is found by missing heartbeats.
            let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, time);
            let _ = rustix::net::sockopt::set_socket_keepalive(stream, true);
        }
        Ok(())
    }

    /// The user at the other end of a Unix socket.
    pub(crate) fn peer_user(&self) -> Option<u32> {
        let Self::Unix(stream) = self else { return None };
        rustix::net::sockopt::socket_peercred(stream).ok().map(|peer| peer.uid.as_raw())
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
        })
    }

    /// Ends the connection for all who use it; waiting calls return.
    pub(crate) fn shut_down(&self) {
        // It may be closed already.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    pub(crate) fn set_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        let time = time.map(|time| time.max(Duration::from_millis(1)));
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(time),
            Self::Unix(stream) => stream.set_read_timeout(time),
        }
    }

    /// Fails writes that make no progress for so long.
    pub(crate) fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_write_timeout(time),
            Self::Unix(stream) => stream.set_write_timeout(time),
        }
    }

    /// Reads within a time, for greetings.
    pub(crate) fn read_exact_until(&mut self, bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.set_timeout(Some(left))?;
            match self.read(&mut bytes[done..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(error) if is_interruption(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.set_timeout(None)
    }
}

/// The addresses of a host within a time. A resolver cannot be interrupted: it is left to a thread of its own.
fn host_addresses(host: &str, port: u16, time: Duration) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (sender, receiver) = mpsc::channel();
    let host = host.to_owned();
    let resolve = move || {
        let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // Nobody waits any more if the time has passed.
        let _ = sender.send(found);
    };
    thread::Builder::new().name("resolve".into()).spawn(resolve)?;
    receiver.recv_timeout(time).unwrap_or_else(|_| {
        Err(io::Error::new(ErrorKind::TimedOut, "no answer from the resolver of host names"))
    })
}

/// Connects to a Unix socket until the deadline: a server that does not accept has a full queue at last.
fn connect_unix(path: &Path, deadline: Instant) -> io::Result<UnixStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(path)?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(Errno::AGAIN) => {
                return Err(io::Error::new(ErrorKind::TimedOut, "the server does not accept connections"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        // Without a signal if the peer is gone: the program may not ignore SIGPIPE.
        let mut control = SendAncillaryBuffer::default();
        sendmsg(self, slices, &mut control, SendFlags::NOSIGNAL).map_err(io::Error::from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket with a small buffer for what arrives, so that a short frame takes one call.
#[derive(Debug)]
pub(crate) struct FrameSocket {
    pub(crate) socket: Socket,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

/// Bytes of the buffer.
const BUFFER: usize = 4096;

/// The most slices of one call.
const SLICES: usize = 1024;

impl FrameSocket {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, buffer: vec![0; BUFFER].into(), start: 0, end: 0 }
    }

    /// Reads all of `bytes`. `goes_on` decides whether to wait on after the timeout of the socket; it is asked with the bytes read so far.
    pub(crate) fn read_exact(
        &mut self,
        bytes: &mut [u8],
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            if self.start < self.end {
                let count = (self.end - self.start).min(bytes.len() - done);
                bytes[done..done + count].copy_from_slice(&self.buffer[self.start..self.start + count]);
                self.start += count;
                done += count;
                continue;
            }
            let direct = bytes.len() - done >= BUFFER;
            let outcome = if direct {
                self.socket.read(&mut bytes[done..])
            } else {
                self.socket.read(&mut self.buffer)
            };
            match outcome {
                Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the connection was closed")),
                Ok(count) if direct => done += count,
                Ok(count) => (self.start, self.end) = (0, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) && goes_on(done) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until something can be read; false after the time.
    pub(crate) fn wait_readable(&self, time: Duration) -> io::Result<bool> {
        if self.start < self.end {
            return Ok(true);
        }
        let mut files = [PollFd::new(&self.socket, PollFlags::IN)];
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        match rustix::event::poll(&mut files, Some(&time)) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Reads a head and its descriptor, and checks both. `reserve` gives memory for the descriptor when the lengths are known.
    pub(crate) fn read_head<'a>(
        &mut self,
        reserve: impl FnOnce(&FrameHead) -> &'a mut Vec<u8>,
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> io::Result<FrameHead> {
        let mut bytes = [0; HEAD];
        self.read_exact(&mut bytes, goes_on)?;
        let head = FrameHead::decode(&bytes).map_err(invalid)?;
        let descriptor = reserve(&head);
        descriptor.clear();
        descriptor.resize(head.descriptor, 0);
        self.read_exact(descriptor, &mut |done| goes_on(HEAD + done))?;
        head.check(descriptor).map_err(invalid)?;
        Ok(head)
    }

    /// Sends the slices, all of them.
    pub(crate) fn send(&mut self, slices: &[&[u8]]) -> io::Result<()> {
        let mut rest: Vec<IoSlice<'_>> =
            slices.iter().filter(|part| !part.is_empty()).map(|part| IoSlice::new(part)).collect();
        let mut rest = rest.as_mut_slice();
        while !rest.is_empty() {
            let most = rest.len().min(SLICES);
            match self.socket.write_vectored(&rest[..most]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// An error of bytes that are no valid frame.
pub(crate) fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// A timeout of a socket.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) && error.raw_os_error() != Some(110)
}

fn is_interruption(error: &io::Error) -> bool {
    error.kind() == ErrorKind::Interrupted || is_timeout(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, shown) in [
            ("n1", "n1:7700"),
            ("n1:80", "n1:80"),
            ("10.0.0.1:7700", "10.0.0.1:7700"),
            ("[fe80::1]", "[fe80::1]:7700"),
            ("[::1]:9", "[::1]:9"),
            ("unix:/run/a.sock", "unix:/run/a.sock"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown, "{text}");
        }
        for text in ["", ":80", "n1:", "n1:x", "n1:99999", "fe80::1", "unix:a", "[::1]x", "a b"] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains("HOST:PORT"), "{error}");
        }
    }

    /// A server that is stopped accepts nothing; its queue is full after some connections.
    #[test]
    fn connecting_ends_although_nobody_accepts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let (sender, receiver) = mpsc::channel();
        let address = Address::Unix(path);
        thread::spawn(move || {
            let mut queued = Vec::new();
            let failure = loop {
                match Socket::connect(&address, Duration::from_millis(100)) {
                    Ok(socket) => queued.push(socket),
                    Err(error) => break error,
                }
            };
            sender.send(failure.kind()).unwrap();
        });
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(ErrorKind::TimedOut));
    }
}
