//! Memory and connections stay within their limits, and nothing is left behind.

use std::time::{Duration, Instant};

use aqueduct_device::{HandleExt, Kind};

use crate::test_servers::{SILENCE, TestServers, create};

#[test]
fn many_clients_cannot_exceed_the_memory() {
    let servers = TestServers::start_with(1, Duration::from_secs(10), |options| {
        options.memory = 24 << 20;
        options.connections = 64;
    });
    let server = &servers.servers[0];
    let limit = server.status().memory;
    std::thread::scope(|scope| {
        for client in 0..8 {
            // Other settings: another session.
            let device = servers.device(&format!(",connections={}", client + 1));
            scope.spawn(move || {
                let file = create(&*device, &format!("/client{client}"));
                let error = file.write_at(0, &vec![client as u8; 16 << 20]).unwrap_err();
                assert_eq!(error.kind(), Kind::NoSpace, "{error}");
                let mut back = vec![0xff; error.transferred() as usize];
                file.read_at(0, &mut back).unwrap();
                assert!(back.iter().all(|byte| *byte == client as u8));
            });
        }
    });
    assert!(server.status().used <= limit && server.status().used > limit / 2, "{:?}", server.status());
    let device = servers.device("");
    for client in 0..8 {
        device.delete(format!("/client{client}").as_ref()).unwrap();
    }
    assert_eq!(server.status().used, 0);
}

#[test]
fn too_many_connections_are_refused_with_a_reason() {
    let servers = TestServers::start_with(1, SILENCE, |options| options.connections = 4);
    let one = create(&*servers.device(",connections=1"), "/one");
    let other = create(&*servers.device(",connections=2"), "/other");
    let error = servers
        .device(",connections=3,wait=0s")
        .open("/third".as_ref(), &aqueduct_device::DeviceOpenOptions::read_write().create(true))
        .err()
        .unwrap();
    assert!(error.to_string().contains("--connections"), "{error}");
    one.write_at(0, b"x").unwrap();
    other.write_at(0, b"x").unwrap();
}

#[test]
fn connections_end_with_the_server() {
    let servers = TestServers::start(1);
    let file = create(&*servers.device(",connections=8"), "/many");
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let file = &file;
            scope.spawn(move || {
                (0..20).for_each(|step| file.write_at(thread * 100 + step, &[1; 50]).unwrap());
            });
        }
    });
    let server = &servers.servers[0];
    assert!(server.status().connections >= 2 && server.status().sessions == 1, "{:?}", server.status());
    drop(file);
    server.stop(Duration::ZERO, &|| true);
    let start = Instant::now();
    while server.status().connections > 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", server.status());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(server.status().sessions, 0);
}
