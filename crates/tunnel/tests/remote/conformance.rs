//! The suites for devices and files.

use aqueduct_comm::Launch;
use aqueduct_device::{DeviceOpenOptions, HandleExt, Kind, Segment, SegmentMut};
use aqueduct_testkit::device::{DeviceUnderTest, conformance};
use aqueduct_testkit::{file, oracle};
use aqueduct_tunnel::{Address, ServerOptions, Tunnel, TunnelServer};

use crate::test_servers::{TestServers, create};

fn check(title: &str, device: std::sync::Arc<dyn aqueduct_device::Device>, prefix: &str) {
    let prefix = prefix.to_owned();
    let subject = DeviceUnderTest::new(title, device, move |number| format!("{prefix}/file{number}").into());
    conformance(&subject);
    oracle::check(&subject, 40);
}

#[test]
fn one_server() {
    let servers = TestServers::start(1);
    check("one server", servers.device(""), "");
    assert!(!servers.servers[0].stop(std::time::Duration::ZERO, &|| true).interrupted);
}

#[test]
fn three_servers_with_small_stripes() {
    let servers = TestServers::start(3);
    check("three servers", servers.device(",stripe=64KiB"), "");
    assert!(servers.servers.iter().all(|server| server.status().written > 1 << 20), "all servers are used");
}

#[test]
fn one_connection_without_checksums() {
    let servers = TestServers::start(2);
    check("one connection", servers.device(",stripe=64KiB,connections=1,check=none"), "");
}

#[test]
fn unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let address = Address::Unix(folder.path().join("socket"));
    let server =
        TunnelServer::start(ServerOptions { listen: vec![address.clone()], ..ServerOptions::default() })
            .unwrap();
    check("unix socket", std::sync::Arc::new(Tunnel::new()), &address.to_string());
    assert_eq!(server.status().refused, 0);
}

#[test]
fn files_in_a_folder() {
    let store = tempfile::tempdir().unwrap();
    let servers = TestServers::start_with(2, std::time::Duration::from_secs(10), |options| {
        options.store = Some(store.path().into());
    });
    check("files in a folder", servers.device(",stripe=64KiB"), "");
    let file = create(&*servers.device(",stripe=64KiB"), "/results/a");
    let bytes: Vec<u8> = (0..300_000_u32).map(|at| at as u8).collect();
    file.write_at(0, &bytes).unwrap();
    file.sync(aqueduct_device::SyncScope::Entry).unwrap();
    assert!(file.capabilities().persistent || !store.path().starts_with("/home"));
    assert!(std::fs::read(store.path().join("results/a")).unwrap() == bytes, "an ordinary file");
}

#[test]
fn the_file_suite() {
    let servers = TestServers::start(2);
    let place = format!("tunnel=servers={},stripe=64KiB:/suite-", servers.folder.path().display());
    Launch::threads(3).run(|world| Ok::<_, aqueduct_comm::Error>(file::conformance(world, &place))).unwrap();
}

/// Counts are exact prefixes although a server in the middle of the list is full.
#[test]
fn no_space_on_one_of_two_servers() {
    let servers = TestServers::start_with(2, std::time::Duration::from_secs(10), |options| {
        options.memory = if options.index == 0 { 1 << 30 } else { 3 << 20 };
        options.connections = 4;
    });
    let file = create(&*servers.device(",stripe=64KiB"), "/full");
    let bytes = vec![7; 16 << 20];
    let error = file.write(&[Segment::new(5, &bytes)]).unwrap_err();
    assert_eq!(error.kind(), Kind::NoSpace, "{error}");
    let done = error.transferred();
    assert!((2 << 20..8 << 20).contains(&done), "{error}");
    assert_eq!(error.offset(), Some(5 + done));
    let mut back = vec![0; done as usize];
    assert_eq!(file.read(&mut [SegmentMut::new(5, &mut back)]).unwrap(), done);
    assert!(back.iter().all(|byte| *byte == 7));
    assert!(error.to_string().contains("server 127.0.0.1:"), "{error}");
    file.set_len(0).unwrap();
    file.write_at(0, &bytes[..1 << 20]).unwrap();
}

/// What a write returned for is seen by every other client at once, without a sync.
#[test]
fn clients_see_each_other() {
    let servers = TestServers::start(2);
    let (one, other) =
        (servers.device(",stripe=64KiB,connections=1"), servers.device(",stripe=64KiB,connections=2"));
    let writer = create(&*one, "/shared");
    let reader = other.open("/shared".as_ref(), &DeviceOpenOptions::read_only()).unwrap();
    for step in 1..50_u64 {
        writer.write_at(step * 40_000, &step.to_le_bytes()).unwrap();
        assert_eq!(reader.len().unwrap(), step * 40_000 + 8);
        let mut back = [0; 8];
        assert_eq!(reader.read_at(step * 40_000, &mut back).unwrap(), 8);
        assert_eq!(u64::from_le_bytes(back), step);
    }
    assert_eq!(one.delete("/shared".as_ref()).unwrap_err().kind(), Kind::Busy);
    drop((writer, reader));
    one.delete("/shared".as_ref()).unwrap();
    assert!(servers.servers.iter().all(|server| server.status().used == 0), "all parts are deleted");
}

/// Another file of the same name does not get the bytes of the first one, with any server as the first.
#[test]
fn deleted_files_leave_nothing() {
    let servers = TestServers::start(3);
    let device = servers.device(",stripe=64KiB");
    for number in 0..6 {
        let name = format!("/again{number}");
        let file = create(&*device, &name);
        file.write_at(0, &vec![9; 400_000]).unwrap();
        file.close().unwrap();
        device.delete(name.as_ref()).unwrap();
        let file = create(&*device, &name);
        assert_eq!(file.len().unwrap(), 0);
        file.write_at(399_999, b"x").unwrap();
        let mut back = vec![1; 400_000];
        assert_eq!(file.read_at(0, &mut back).unwrap(), 400_000);
        assert!(back[..399_999].iter().all(|byte| *byte == 0));
    }
}
