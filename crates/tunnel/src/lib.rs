//! Remote memory: a [`TunnelServer`] holds files in its memory, and the device [`Tunnel`] accesses them over TCP or Unix sockets.
//!
//! ```
//! use std::time::Duration;
//! use aqueduct_device::{DeviceOpenOptions, HandleExt};
//! use aqueduct_tunnel::{Address, TunnelServer, ServerOptions};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let socket = Address::Unix(folder.path().join("socket"));
//! let server = TunnelServer::start(ServerOptions { listen: vec![socket.clone()], ..ServerOptions::default() }).unwrap();
//!
//! aqueduct_tunnel::register();
//! let name = format!("tunnel:{socket}/run7");
//! let file = aqueduct_device::open(&name, &DeviceOpenOptions::read_write().create(true))?;
//! file.write_at(1 << 30, b"far away")?;
//! assert!((8..1 << 20).contains(&server.status().used), "the gap takes no memory");
//! file.close()?;
//! aqueduct_device::delete(&name)?;
//! assert_eq!(server.stop(Duration::ZERO, &|| false).dropped, []);
//! # Ok::<_, aqueduct_device::Error>(())
//! ```
//!
//! # Promises
//! * When a write returns, its bytes are in the memory of the servers and every client on every machine reads them: clients cache nothing.
//! * Files survive the death of their clients, not that of a server, unless it keeps them in a folder ([`ServerOptions::store`]).
//! * Counts are exact prefixes of the list, with several servers too. Holes are zeros.
//! * Locks exclude clients on all machines. They are released when their client gives no sign of life; what it had under way is then
//!   ended first, on all servers of the file, and its later accesses are refused.
//! * A server that is gone is an error of kind `Disconnected` that names it, within `silence` (10 s). Nothing hangs.
//! * A server never takes more memory than it was given.
//!
//! # Several servers
//! Files are striped over the servers of a set. One server, by the hash of the name, decides whether the file exists and keeps its locks.
//! Servers never call servers. The length of a file is the largest end of its parts, so that a write needs no further call.
//!
//! # Security
//! On TCP both sides prove that they have the [`Key`] of the set, and nothing is served before that. After it frames are plain, with
//! checksums. On Unix sockets the user at the other end has to be the same.
//!
//! Modules depend one way: `client`, `server` → `handshake` → `socket`, `key` → `wire`.

pub mod announce;
mod client;
mod handshake;
mod key;
mod server;
mod socket;
pub mod wire;

use std::sync::Once;

pub use client::{ServerConnection, ServerSet, Tunnel};
pub use key::{Key, ProofRole};
pub use server::{ServerOptions, StopReport, TunnelServer};
pub use socket::{Address, DEFAULT_PORT};
pub use wire::answer::{ListedFile, ServerStatus};

/// Registers the prefix `tunnel` in the registry of the process, once.
pub fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // Only a program that has registered a device of its own under this prefix makes it fail; that one is then used.
        let _ = aqueduct_device::registry().register_device_maker("tunnel", Tunnel::from_parameters);
    });
}
