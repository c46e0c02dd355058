//! Which connections a server takes: limits are waited for, and neither strangers nor stalled clients keep others out.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use aqueduct_device::{DeviceOpenOptions, HandleExt, Kind};
use aqueduct_tunnel::wire::frame::{FrameHead, HEAD};
use aqueduct_tunnel::wire::request::TunnelRequest;

use crate::security::greet;
use crate::test_servers::{SILENCE, TestServers, create};

/// Threads of a program that want more connections than the server gives share those that they have.
#[test]
fn a_full_server_does_not_destroy_open_files() {
    let servers = TestServers::start_with(1, SILENCE, |options| options.connections = 3);
    let file = create(&*servers.device(",connections=8"), "/shared");
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let file = &file;
            scope.spawn(move || {
                for step in 0..20 {
                    file.write_at((thread * 20 + step) * 50_000, &vec![1; 50_000]).unwrap();
                }
            });
        }
    });
    assert_eq!(file.len().unwrap(), 160 * 50_000);
    // A program that gets no connection at all learns why, and the first one is not disturbed.
    let error = servers
        .device(",connections=2,wait=0s")
        .open("/third".as_ref(), &DeviceOpenOptions::read_write().create(true))
        .err()
        .unwrap();
    assert!(error.to_string().contains("--connections"), "{error}");
    file.write_at(0, b"x").unwrap();
}

/// Connections that are not used are closed after some time, so that others get them.
#[test]
fn idle_connections_are_closed() {
    let servers = TestServers::start_with(1, SILENCE, |_| {});
    let file = create(&*servers.device(",connections=4"), "/idle");
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let file = &file;
            scope.spawn(move || (0..50).for_each(|_| file.write_at(thread * 1000, &[1; 1000]).unwrap()));
        }
    });
    let (server, start) = (&servers.servers[0], Instant::now());
    // That of the pings stays.
    while server.status().connections > 1 {
        assert!(start.elapsed() < Duration::from_secs(40), "{:?}", server.status());
        std::thread::sleep(Duration::from_millis(20));
    }
    file.write_at(0, b"still open").unwrap();
}

/// More strangers than the server greets at a time, and more clients at once.
#[test]
fn strangers_and_many_clients_at_once() {
    let servers = TestServers::start(1);
    let server = &servers.servers[0];
    let strangers: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(server.addresses()[0].to_string()).unwrap()).collect();
    std::thread::scope(|scope| {
        for client in 0..100_u64 {
            // Other settings: another session.
            let device = servers.device(&format!(",connections={}", client + 1));
            scope.spawn(move || create(&*device, &format!("/client{client}")).write_at(0, b"x").unwrap());
        }
    });
    assert!(server.status().sessions >= 100, "{:?}", server.status());
    drop(strangers);
}

/// A client that sends half a frame and then nothing is disconnected, although its session lives.
#[test]
fn half_a_frame_does_not_hold_a_thread() {
    let servers = TestServers::start_with(1, SILENCE, |_| {});
    let (server, key) = (&servers.servers[0], servers.key());
    let mut pings = greet(server, &key, 0).unwrap();
    let ping = FrameHead::new(TunnelRequest::Ping.operation(), 0, 1, b"", 0).encode();
    let half_head = ping[..10].to_vec();
    let half_payload = FrameHead::new(5, 0, 1, b"", 1000).encode().to_vec();
    for (slot, bytes) in [(1, half_head), (2, half_payload)] {
        let mut stream = greet(server, &key, slot).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream.write_all(&bytes).unwrap();
        let start = Instant::now();
        loop {
            pings.write_all(&ping).unwrap();
            let mut answer = [0; HEAD];
            pings.read_exact(&mut answer).unwrap();
            let descriptor = FrameHead::decode(&answer).unwrap().descriptor;
            pings.read_exact(&mut vec![0; descriptor]).unwrap();
            match stream.read(&mut [0; 1]) {
                Ok(0) => break,
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => break,
                _ => {}
            }
            assert!(start.elapsed() < 10 * SILENCE, "half a frame is waited for");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Names, small pieces and open files take memory, too.
#[test]
fn small_pieces_and_empty_files_are_limited() {
    let servers = TestServers::start_with(1, Duration::from_secs(10), |options| {
        options.memory = 8 << 20;
        options.connections = 8;
    });
    let device = servers.device("");
    let file = create(&*device, "/pieces");
    let byte = [1];
    let pieces: Vec<_> = (0..200_000_u64).map(|at| aqueduct_device::Segment::new(at << 16, &byte)).collect();
    let error = file.write(&pieces).unwrap_err();
    assert_eq!(error.kind(), Kind::NoSpace, "{error}");
    file.set_len(0).unwrap();
    file.close().unwrap();
    let long = "n".repeat(3000);
    let outcome = (0..4000).try_for_each(|number| {
        device
            .open(format!("/{number}{long}").as_ref(), &DeviceOpenOptions::read_write().create(true))
            .map(drop)
    });
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), Kind::NoSpace, "{error}");
}
