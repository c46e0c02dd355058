//! A relay between clients and a server that cuts, freezes or corrupts what passes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use aqueduct_tunnel::Address;

/// What the relay does to the bytes that pass it, in both directions together.
#[derive(Default)]
pub(crate) struct RelayFaults {
    passed: AtomicU64,
    /// Cut all connections when so many bytes have passed; 0: never.
    pub(crate) cut_at: AtomicU64,
    /// Flip a bit of the byte with this number; 0: never.
    pub(crate) flip_at: AtomicU64,
    /// Pass nothing, close nothing: an unplugged cable.
    pub(crate) frozen: AtomicBool,
    /// Refuse new connections.
    pub(crate) refusing: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
    ended: AtomicBool,
}

impl RelayFaults {
    /// Bytes that have passed.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::SeqCst)
    }

    /// Closes all connections.
    pub(crate) fn cut(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Passes bytes from one end to the other.
    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut buffer = [0; 16 << 10];
        while !self.ended.load(Ordering::SeqCst) {
            if self.frozen.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(5));
                continue;
            }
            let count = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) =>
                {
                    continue;
                }
                Err(_) => break,
            };
            while self.frozen.load(Ordering::SeqCst) && !self.ended.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(5));
            }
            let before = self.passed.fetch_add(count as u64, Ordering::SeqCst);
            let flip = self.flip_at.load(Ordering::SeqCst);
            if flip > before && flip <= before + count as u64 {
                buffer[(flip - before - 1) as usize] ^= 16;
            }
            let cut = self.cut_at.load(Ordering::SeqCst);
            let cuts_here = cut > before && cut <= before + count as u64;
            let passing = if cuts_here { (cut - before - 1) as usize } else { count };
            if to.write_all(&buffer[..passing]).is_err() {
                break;
            }
            if cuts_here {
                self.cut();
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}

pub(crate) struct FaultRelay {
    pub(crate) address: Address,
    pub(crate) faults: Arc<RelayFaults>,
}

impl FaultRelay {
    /// A relay to a server on TCP.
    pub(crate) fn start(server: &Address) -> Self {
        let Address::Tcp(host, port) = server.clone() else { panic!("{server}") };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp("127.0.0.1".into(), listener.local_addr().unwrap().port());
        let faults = Arc::new(RelayFaults::default());
        let shared = Arc::clone(&faults);
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { continue };
                if shared.ended.load(Ordering::SeqCst) {
                    return;
                }
                if shared.refusing.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect((host.as_str(), port)) else { continue };
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let mut streams = shared.streams.lock().unwrap();
                streams.extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                drop(streams);
                for (from, to) in [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))] {
                    let (shared, from, to) = (Arc::clone(&shared), from.unwrap(), to.unwrap());
                    thread::spawn(move || shared.pass(from, to));
                }
            }
        });
        Self { address, faults }
    }
}

impl Drop for FaultRelay {
    fn drop(&mut self) {
        self.faults.ended.store(true, Ordering::SeqCst);
        self.faults.cut();
        if let Address::Tcp(host, port) = &self.address {
            let _ = TcpStream::connect((host.as_str(), *port));
        }
    }
}
