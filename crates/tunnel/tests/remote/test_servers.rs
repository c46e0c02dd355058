//! Servers for tests, with a key and a folder in which they announce themselves.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_device::{Device, DeviceOpenOptions, Handle};
use aqueduct_tunnel::announce::Membership;
use aqueduct_tunnel::{Address, Key, ServerOptions, Tunnel, TunnelServer};

pub(crate) struct TestServers {
    pub(crate) servers: Vec<TunnelServer>,
    places: Vec<Membership>,
    pub(crate) folder: tempfile::TempDir,
    silence: Duration,
}

/// How long a server may be silent in tests that wait for that.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

pub(crate) fn loopback() -> Vec<Address> {
    vec![Address::Tcp("127.0.0.1".into(), 0)]
}

impl TestServers {
    /// A set of so many servers on TCP.
    pub(crate) fn start(count: u16) -> Self {
        Self::start_with(count, Duration::from_secs(10), |_| {})
    }

    /// As [`start`](Self::start), with other options.
    pub(crate) fn start_with(count: u16, silence: Duration, change: impl Fn(&mut ServerOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let start = |_| {
            let place = Membership::join(folder.path(), count, None).unwrap();
            let mut options = ServerOptions {
                listen: loopback(),
                memory: 1 << 30,
                key: Some(place.key.clone()),
                set: place.set,
                index: place.index,
                count,
                silence,
                ..ServerOptions::default()
            };
            change(&mut options);
            let server = TunnelServer::start(options).unwrap();
            place.publish(&server.addresses()[0]).unwrap();
            (server, place)
        };
        let (servers, places) = (0..count).map(start).unzip();
        Self { servers, places, folder, silence }
    }

    /// Ends a server and starts another one in its place, with nothing of what the first one had.
    pub(crate) fn restart(&mut self, index: u16) {
        let at = usize::from(index);
        drop(self.servers.remove(at));
        let place = &self.places[at];
        let options = ServerOptions {
            listen: loopback(),
            memory: 1 << 30,
            key: Some(place.key.clone()),
            set: place.set,
            index,
            count: place.count,
            silence: self.silence,
            ..ServerOptions::default()
        };
        let server = TunnelServer::start(options).unwrap();
        place.publish(&server.addresses()[0]).unwrap();
        self.servers.insert(at, server);
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    pub(crate) fn key(&self) -> Key {
        Key::read(&self.key_file()).unwrap()
    }

    /// The device, for names without servers.
    pub(crate) fn device(&self, more: &str) -> Arc<dyn Device> {
        let text =
            format!("servers={},silence={}ms{more}", self.folder.path().display(), self.silence.as_millis());
        Tunnel::from_parameters(&text).unwrap()
    }

    /// The device, for names with servers.
    pub(crate) fn device_by_address(&self, more: &str) -> Arc<dyn Device> {
        let text = format!("key={},silence={}ms{more}", self.key_file().display(), self.silence.as_millis());
        Tunnel::from_parameters(&text).unwrap()
    }
}

pub(crate) fn create(device: &dyn Device, name: &str) -> Arc<dyn Handle> {
    device
        .open(name.as_ref(), &DeviceOpenOptions::read_write().create(true))
        .unwrap_or_else(|error| panic!("{error}"))
}
