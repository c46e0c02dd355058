//! The failure table: what clients see when connections, servers and clients fail. Every wait ends, and what was said to be written is.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use aqueduct_device::{Device, DeviceOpenOptions, HandleExt, Kind, Result};
use aqueduct_tunnel::ServerOptions;

use crate::fault_relay::FaultRelay;
use crate::test_servers::{SILENCE, TestServers, create};

/// More than `silence` by what a loaded machine may take.
const LIMIT: Duration = Duration::from_secs(30);

fn kind<T>(outcome: Result<T>) -> Option<Kind> {
    outcome.err().map(|error| error.kind())
}

/// An open, two writes, a read and a close; whether all of them succeeded.
fn session(device: &dyn Device, name: &str) -> Result<()> {
    let file = device.open(name.as_ref(), &DeviceOpenOptions::read_write().create(true))?;
    file.write_at(0, &[1; 100])?;
    file.write_at(1000, b"the end")?;
    let mut back = [0; 7];
    assert_eq!(file.read_at(1000, &mut back)?, 7);
    assert_eq!(&back, b"the end");
    file.close()
}

/// A connection that breaks at any byte, that of the first greeting too, is replaced, and no call fails or is done twice with another effect.
#[test]
fn connections_cut_at_every_byte() {
    let servers = TestServers::start_with(1, Duration::from_secs(10), |_| {});
    let direct = servers.device("");
    let length = {
        let relay = FaultRelay::start(&servers.servers[0].addresses()[0]);
        session(&*servers.device_by_address(""), &format!("{}/measured", relay.address)).unwrap();
        relay.faults.passed()
    };
    let step = if std::env::var_os("AQUEDUCT_LONG_TESTS").is_some() { 1 } else { 7 };
    for cut in (1..=length).step_by(step) {
        let relay = FaultRelay::start(&servers.servers[0].addresses()[0]);
        relay.faults.cut_at.store(cut, SeqCst);
        let start = Instant::now();
        let name = format!("cut{cut}");
        let outcome = session(&*servers.device_by_address(""), &format!("{}/{name}", relay.address));
        assert!(start.elapsed() < LIMIT, "cut at {cut} took {:?}", start.elapsed());
        outcome.unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let file = direct.open(format!("/{name}").as_ref(), &DeviceOpenOptions::read_only()).unwrap();
        let mut back = [0; 107];
        assert_eq!(file.read_at(900, &mut back).unwrap(), 107, "cut at {cut}");
        assert_eq!(&back[100..], b"the end");
    }
}

/// A bit that flips on the way is found, and the access is repeated.
#[test]
fn flipped_bits_are_found() {
    let servers = TestServers::start(1);
    let relay = FaultRelay::start(&servers.servers[0].addresses()[0]);
    let device = servers.device_by_address("");
    let file = create(&*device, &format!("{}/flipped", relay.address));
    let bytes: Vec<u8> = (0..100_000_u32).map(|at| (at * 7) as u8).collect();
    for step in 0..40_u64 {
        relay.faults.flip_at.store(relay.faults.passed() + 1 + step * 2503, SeqCst);
        file.write_at(step * 100, &bytes).unwrap();
        let mut back = vec![0; bytes.len()];
        assert_eq!(file.read_at(step * 100, &mut back).unwrap(), bytes.len() as u64);
        assert!(back == bytes, "step {step}");
    }
}

/// Connections that are cut at random under load from several threads.
#[test]
fn connections_cut_under_load() {
    let servers = TestServers::start(1);
    let relay = FaultRelay::start(&servers.servers[0].addresses()[0]);
    let device = servers.device_by_address("");
    let name = format!("{}/load", relay.address);
    let file = create(&*device, &name);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u8)
            .map(|writer| {
                let file = &file;
                scope.spawn(move || {
                    for step in 0..60_u64 {
                        let bytes = vec![writer + step as u8; 20_000];
                        let offset = (u64::from(writer) * 60 + step) * 20_000;
                        file.write_at(offset, &bytes).unwrap();
                        let mut back = vec![0; 20_000];
                        assert_eq!(file.read_at(offset, &mut back).unwrap(), 20_000);
                        assert!(back == bytes);
                    }
                })
            })
            .collect();
        while !writers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::sleep(Duration::from_millis(15));
            relay.faults.cut();
        }
    });
    assert_eq!(file.len().unwrap(), 180 * 20_000);
    file.close().unwrap();
    device.delete(name.as_ref()).unwrap();
}

/// A server that has ended is an error at once, for waiting calls too; files of other servers go on.
#[test]
fn a_server_that_ended() {
    let mut servers = TestServers::start(1);
    let others = TestServers::start(1);
    let (file, other) = (create(&*servers.device(""), "/gone"), create(&*others.device(""), "/stays"));
    file.write_at(0, b"abc").unwrap();
    drop(servers.servers.pop());
    let start = Instant::now();
    let error = file.write_at(0, b"abc").unwrap_err();
    assert!(start.elapsed() < LIMIT);
    assert_eq!(error.kind(), Kind::Disconnected);
    assert!(error.to_string().contains("server 127.0.0.1:") && error.to_string().contains("lost"), "{error}");
    assert_eq!(kind(file.len()), Some(Kind::Disconnected), "every further call fails");
    assert_eq!(kind(file.sync(aqueduct_device::SyncScope::Data)), Some(Kind::Disconnected));
    other.write_at(0, b"abc").unwrap();
}

/// A cable that is pulled out: nothing comes, nothing is reset.
#[test]
fn a_partition() {
    let servers = TestServers::start_with(1, SILENCE, |_| {});
    let relay = FaultRelay::start(&servers.servers[0].addresses()[0]);
    let device = servers.device_by_address("");
    let file = create(&*device, &format!("{}/partition", relay.address));
    file.write_at(0, b"abc").unwrap();
    relay.faults.frozen.store(true, SeqCst);
    let start = Instant::now();
    let error = file.write_at(0, &vec![1; 8 << 20]).unwrap_err();
    assert!(start.elapsed() < LIMIT && start.elapsed() > SILENCE / 2, "{:?}", start.elapsed());
    assert_eq!(error.kind(), Kind::Disconnected, "{error}");
    // The server ends the session: the file is no longer open.
    let direct = servers.device("");
    while kind(direct.delete("/partition".as_ref())) == Some(Kind::Busy) {
        assert!(start.elapsed() < LIMIT, "the session of a lost client goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(servers.servers[0].status().used, 0);
}

/// A short partition is survived: the session goes on over new connections.
#[test]
fn a_short_interruption() {
    let servers = TestServers::start(1);
    let relay = FaultRelay::start(&servers.servers[0].addresses()[0]);
    let file = create(&*servers.device_by_address(""), &format!("{}/short", relay.address));
    let guard = file.lock(0..10, aqueduct_device::LockKind::Exclusive).unwrap();
    relay.faults.frozen.store(true, SeqCst);
    std::thread::scope(|scope| {
        let write = scope.spawn(|| file.write_at(0, &vec![3; 1 << 20]));
        std::thread::sleep(Duration::from_millis(300));
        relay.faults.cut();
        relay.faults.frozen.store(false, SeqCst);
        write.join().unwrap().unwrap();
    });
    let other = servers.device("").open("/short".as_ref(), &DeviceOpenOptions::read_write()).unwrap();
    assert!(
        other.try_lock(5..6, aqueduct_device::LockKind::Shared).unwrap().is_none(),
        "the lock is still held"
    );
    drop(guard);
    assert!(other.try_lock(5..6, aqueduct_device::LockKind::Shared).unwrap().is_some());
}

/// Another server at the same address has lost what the first one had: handles fail for good.
#[test]
fn a_restarted_server() {
    let mut servers = TestServers::start(1);
    let relay = FaultRelay::start(&servers.servers[0].addresses()[0]);
    let device = servers.device_by_address("");
    let name = format!("{}/restarted", relay.address);
    let file = create(&*device, &name);
    file.write_at(0, b"abc").unwrap();
    let address = servers.servers[0].addresses()[0].clone();
    let key = servers.key();
    relay.faults.refusing.store(true, SeqCst);
    drop(servers.servers.pop());
    let options = ServerOptions { listen: vec![address], key: Some(key), ..ServerOptions::default() };
    let _server = aqueduct_tunnel::TunnelServer::start(options).unwrap();
    relay.faults.refusing.store(false, SeqCst);
    let error = file.read_at(0, &mut [0; 3]).unwrap_err();
    assert_eq!(error.kind(), Kind::Disconnected);
    assert!(error.to_string().contains("restarted"), "{error}");
    // A new open finds the new server, without the file.
    assert_eq!(kind(device.open(name.as_ref(), &DeviceOpenOptions::read_only())), Some(Kind::NotFound));
}

#[test]
fn a_server_that_was_never_started() {
    let servers = TestServers::start(1);
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let start = Instant::now();
    let error =
        servers.device_by_address("").open(format!("{address}/x").as_ref(), &DeviceOpenOptions::read_only());
    let error = error.err().unwrap();
    assert_eq!(error.kind(), Kind::Disconnected);
    assert!(error.to_string().contains("is it started?") && start.elapsed() < LIMIT, "{error}");
    // With `wait`, a server that starts late is found.
    std::thread::scope(|scope| {
        let key = servers.key();
        let late = scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            let listen = vec![address.to_string().parse().unwrap()];
            aqueduct_tunnel::TunnelServer::start(ServerOptions {
                listen,
                key: Some(key),
                ..ServerOptions::default()
            })
        });
        let device = servers.device_by_address(",wait=30s");
        drop(create(&*device, &format!("{address}/late")));
        drop(late.join().unwrap());
    });
}

/// A server that stops orderly opens no more files, waits for open ones and reports what it drops.
#[test]
fn an_orderly_stop() {
    let servers = TestServers::start(1);
    let device = servers.device("");
    let file = create(&*device, "/kept");
    file.write_at(0, &[1; 1000]).unwrap();
    std::thread::scope(|scope| {
        let server = &servers.servers[0];
        let stop = scope.spawn(move || server.stop(Duration::from_secs(60), &|| false));
        while device.open("/new".as_ref(), &DeviceOpenOptions::read_write().create(true)).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
        file.write_at(1000, &[2; 24]).unwrap();
        file.clone().close().unwrap();
        drop(file);
        let report = stop.join().unwrap();
        assert!(!report.interrupted);
        assert!(report.dropped.contains(&("kept".into(), 1024)), "{report:?}");
    });
}
