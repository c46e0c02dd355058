//! Fencing over several servers: who lost a lock or a server cannot write to the other servers of the file.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use aqueduct_device::{Device, DeviceOpenOptions, HandleExt, Kind, LockKind, SyncScope};
use aqueduct_testkit::blocking_device::BlockingDevice;

use crate::fault_relay::FaultRelay;
use crate::test_servers::{SILENCE, TestServers, create};

/// Bytes of a stripe.
const STRIPE: u64 = 64 << 10;

/// A name whose first server is the one with this index.
fn name_with_first(index: u64, servers: u64) -> String {
    let first = |name: &String| {
        let hash = blake3::hash(name.as_bytes());
        u64::from_le_bytes(hash.as_bytes()[..8].try_into().unwrap()) % servers
    };
    (0..1000).map(|number| format!("file{number}")).find(|name| first(name) == index).unwrap()
}

/// A client that is cut off from the server with the locks loses its lock there. Its writes to the other server, which still hears it, are
/// refused as soon as another client has the lock.
#[test]
fn a_lost_lock_fences_the_other_servers() {
    let servers = TestServers::start_with(2, SILENCE, |_| {});
    let relay = FaultRelay::start(&servers.servers[0].addresses()[0]);
    let name = name_with_first(0, 2);
    let text = format!("key={},silence=60s,stripe=64KiB", servers.key_file().display());
    let patient = aqueduct_tunnel::Tunnel::from_parameters(&text).unwrap();
    let file = create(&*patient, &format!("{},{}/{name}", relay.address, servers.servers[1].addresses()[0]));
    let guard = file.lock(0..2 * STRIPE, LockKind::Exclusive).unwrap();
    file.write_at(STRIPE, b"mine").unwrap();
    let other = servers
        .device(",stripe=64KiB")
        .open(format!("/{name}").as_ref(), &DeviceOpenOptions::read_write())
        .unwrap();
    relay.faults.frozen.store(true, SeqCst);
    // The server with the locks hears nothing, the other one does.
    let taken = other.lock(0..2 * STRIPE, LockKind::Exclusive).unwrap();
    other.write_at(STRIPE, b"ours").unwrap();
    let error = file.write_at(STRIPE, b"late").unwrap_err();
    assert_eq!(error.kind(), Kind::Disconnected, "{error}");
    let mut back = [0; 4];
    other.read_at(STRIPE, &mut back).unwrap();
    assert_eq!(&back, b"ours");
    // Other files of the client on the server that hears it are not concerned.
    relay.faults.frozen.store(false, SeqCst);
    drop((guard, taken));
}

/// After the loss of one server every call of a file with a part on it fails, also calls that would need another server only.
#[test]
fn the_loss_of_a_server_ends_the_file() {
    let mut servers = TestServers::start_with(2, SILENCE, |_| {});
    let name = name_with_first(0, 2);
    let file = create(&*servers.device(",stripe=64KiB"), &format!("/{name}"));
    file.write_at(0, &vec![1; 2 * STRIPE as usize]).unwrap();
    drop(servers.servers.remove(0));
    assert_eq!(file.write_at(0, b"x").unwrap_err().kind(), Kind::Disconnected);
    for outcome in [
        file.write_at(STRIPE, b"x").map(drop),
        file.read_at(STRIPE, &mut [0; 4]).map(drop),
        file.len().map(drop),
        file.sync(SyncScope::Data),
        file.set_len(3),
    ] {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), Kind::Disconnected, "{error}");
    }
    // The part on the server that is left is closed: it can end without waiting.
    drop(file);
    let start = Instant::now();
    let report = servers.servers[0].stop(Duration::from_secs(20), &|| false);
    assert!(!report.interrupted && start.elapsed() < Duration::from_secs(10), "{report:?}");
}

/// A file whose stripes were on a server that was started again cannot be opened: it would read as zeros there. It can be deleted.
#[test]
fn a_file_that_lost_stripes_is_refused() {
    let mut servers = TestServers::start_with(2, SILENCE, |_| {});
    let name = format!("/{}", name_with_first(0, 2));
    let file = create(&*servers.device(",stripe=64KiB"), &name);
    file.write_at(0, &vec![1; 2 * STRIPE as usize]).unwrap();
    file.close().unwrap();
    servers.restart(1);
    let device = servers.device(",stripe=64KiB,connections=2");
    let error = device.open(name.as_ref(), &DeviceOpenOptions::read_only()).err().unwrap();
    assert_eq!(error.kind(), Kind::Disconnected, "{error}");
    assert!(error.to_string().contains("was started again"), "{error}");
    device.delete(name.as_ref()).unwrap();
    create(&*device, &name).write_at(0, &vec![2; 2 * STRIPE as usize]).unwrap();
}

/// A request that takes longer than a greeting and than `silence` is done once, although its connection is cut meanwhile: the client comes again
/// at once, and its repetition waits for the first execution.
#[test]
fn a_long_request_survives_a_cut_connection() {
    let slow = BlockingDevice::register("slow-writes");
    let device: Arc<dyn Device> = Arc::clone(&slow) as _;
    let servers =
        TestServers::start_with(1, SILENCE, move |options| options.device = Some(Arc::clone(&device)));
    let relay = FaultRelay::start(&servers.servers[0].addresses()[0]);
    let file = create(&*servers.device_by_address(""), &format!("{}/slow", relay.address));
    std::thread::scope(|scope| {
        let write = scope.spawn(|| file.write_at(0, b"abc"));
        for _ in 0..3 {
            std::thread::sleep(SILENCE);
            relay.faults.cut();
        }
        slow.open();
        write.join().unwrap().unwrap();
    });
    // Executed for the first connection, perhaps for the third one, and for the last one, one after the other.
    let written = servers.servers[0].status().written;
    assert!([6, 9].contains(&written), "{written}");
    // A file whose device is slow holds up no other one.
    slow.shut();
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| file.write_at(0, b"def"));
        let other =
            create(&*servers.device_by_address(",connections=2"), &format!("{}/other", relay.address));
        assert_eq!(other.len().unwrap(), 0);
        other.close().unwrap();
        slow.open();
        blocked.join().unwrap().unwrap();
    });
}

/// A read inside of what is known to be in the file asks only the servers that have it, and sees truncations of other clients.
#[test]
fn reads_ask_for_the_length_only_if_they_must() {
    let servers = TestServers::start(3);
    let (one, other) = (servers.device(",stripe=64KiB"), servers.device(",stripe=64KiB,connections=3"));
    let file = create(&*one, "/lengths");
    file.write_at(0, &vec![7; 6 * STRIPE as usize]).unwrap();
    let requests = || servers.servers.iter().map(|server| server.status().requests).sum::<u64>();
    let mut bytes = [0; 100];
    assert_eq!(file.read_at(STRIPE, &mut bytes).unwrap(), 100);
    let before = requests();
    for step in 0..30 {
        assert_eq!(file.read_at(step * 10_000, &mut bytes).unwrap(), 100);
        assert_eq!(bytes, [7; 100]);
    }
    // Two of them touch two stripes.
    assert!((30..=35).contains(&(requests() - before)), "{}", requests() - before);
    let reader = other.open("/lengths".as_ref(), &DeviceOpenOptions::read_write()).unwrap();
    for len in [5 * STRIPE + 50, 2 * STRIPE + 10, STRIPE, 3 * STRIPE, 1] {
        reader.set_len(len).unwrap();
        for at in [0, STRIPE, 2 * STRIPE, 5 * STRIPE] {
            let there = len.saturating_sub(at).min(100);
            assert_eq!(file.read_at(at, &mut bytes).unwrap(), there, "{at} of {len}");
        }
        assert_eq!(reader.len().unwrap(), len);
    }
    drop(other.open("/lengths".as_ref(), &DeviceOpenOptions::read_write().truncate(true)).unwrap());
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), 0);
}
