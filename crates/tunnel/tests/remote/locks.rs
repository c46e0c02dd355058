//! Locks between clients: exclusion, release with the session, fencing.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use aqueduct_device::{DeviceOpenOptions, HandleExt, Kind, LockKind};

use crate::fault_relay::FaultRelay;
use crate::test_servers::{SILENCE, TestServers, create};

/// A client that is cut off loses its lock; what it had under way is ended first, and its later accesses are refused.
#[test]
fn a_lost_client_loses_its_lock_and_its_accesses_are_refused() {
    let servers = TestServers::start_with(1, SILENCE, |_| {});
    let relay = FaultRelay::start(&servers.servers[0].addresses()[0]);
    // The client is more patient than the server, as one that was stopped.
    let text = format!("key={},silence=60s", servers.key_file().display());
    let patient = aqueduct_tunnel::Tunnel::from_parameters(&text).unwrap();
    let file = create(&*patient, &format!("{}/fenced", relay.address));
    let guard = file.lock(0..100, LockKind::Exclusive).unwrap();
    file.write_at(0, b"mine").unwrap();
    let other = servers.device("").open("/fenced".as_ref(), &DeviceOpenOptions::read_write()).unwrap();
    assert!(other.try_lock(50..60, LockKind::Shared).unwrap().is_none());
    relay.faults.frozen.store(true, SeqCst);
    let start = Instant::now();
    let taken = other.lock(0..100, LockKind::Exclusive).unwrap();
    assert!(
        start.elapsed() > SILENCE / 2 && start.elapsed() < Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
    other.write_at(0, b"ours").unwrap();
    relay.faults.frozen.store(false, SeqCst);
    let error = file.write_at(0, b"late").unwrap_err();
    assert_eq!(error.kind(), Kind::Disconnected, "{error}");
    assert!(error.to_string().contains("session"), "{error}");
    drop((guard, taken));
    let mut back = [0; 4];
    other.read_at(0, &mut back).unwrap();
    assert_eq!(&back, b"ours");
}

/// More threads wait for a lock than the client has connections: the holder can still write and unlock.
#[test]
fn many_waiters_do_not_take_all_connections() {
    let servers = TestServers::start(1);
    let device = servers.device(",connections=1");
    let file = create(&*device, "/waiters");
    file.write_at(0, &[0; 8]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let _guard = file.lock(0..8, LockKind::Exclusive).unwrap();
                    let mut bytes = [0; 8];
                    file.read_at(0, &mut bytes).unwrap();
                    file.write_at(0, &(u64::from_le_bytes(bytes) + 1).to_le_bytes()).unwrap();
                }
            });
        }
    });
    let mut bytes = [0; 8];
    file.read_at(0, &mut bytes).unwrap();
    assert_eq!(u64::from_le_bytes(bytes), 40);
}
