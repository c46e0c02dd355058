//! Memory and connections stay within their limits, and nothing is left behind.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use aqueduct_device::{HandleExt, Kind};
use aqueduct_tunnel::announce::Membership;
use aqueduct_tunnel::{ServerOptions, TunnelServer};

use crate::test_servers::{SILENCE, TestServers, create, loopback};

#[test]
fn many_clients_cannot_exceed_the_memory() {
    let servers = TestServers::start_with(1, Duration::from_secs(10), |options| {
        options.memory = 24 << 20;
        options.connections = 64;
    });
    let server = &servers.servers[0];
    let limit = server.status().memory;
    let complete = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for client in 0..8 {
            // Other settings: another session.
            let device = servers.device(&format!(",connections={}", client + 1));
            let complete = &complete;
            scope.spawn(move || {
                let file = create(&*device, &format!("/client{client}"));
                let written = match file.write_at(0, &vec![client as u8; 16 << 20]) {
                    Ok(()) => {
                        complete.fetch_add(1, Ordering::Relaxed);
                        16 << 20
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), Kind::NoSpace, "{error}");
                        error.transferred()
                    }
                };
                let mut back = vec![0xff; written as usize];
                file.read_at(0, &mut back).unwrap();
                assert!(back.iter().all(|byte| *byte == client as u8));
            });
        }
    });
    // There is room for one of them, if it comes first.
    assert!(complete.load(Ordering::Relaxed) <= 1);
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

/// The variable of a server process: the folder in which it announces itself.
const ANNOUNCE: &str = "AQUEDUCT_TEST_ANNOUNCE";

/// The memory of the server process.
const MEMORY: u64 = 64 << 20;

/// The body of a server process.
#[test]
fn a_server_process() {
    let Some(folder) = std::env::var_os(ANNOUNCE) else { return };
    let place = Membership::join(folder.as_ref(), 1, None).unwrap();
    let options = ServerOptions {
        listen: loopback(),
        memory: MEMORY,
        key: Some(place.key.clone()),
        set: place.set,
        ..ServerOptions::default()
    };
    let server = TunnelServer::start(options).unwrap();
    place.publish(&server.addresses()[0]).unwrap();
    // Until it is killed.
    std::thread::sleep(Duration::from_secs(600));
}

/// A hundred clients that write more than there is memory for, in small pieces and in large ones: the process takes no more than its limit
/// and what any process needs.
#[test]
fn resident_memory_under_a_hundred_clients() {
    let folder = tempfile::tempdir().unwrap();
    let server = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "limits::a_server_process", "--nocapture"])
        .env(ANNOUNCE, folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let server = KilledAtEnd(server);
    aqueduct_tunnel::announce::read_when_complete(folder.path(), Duration::from_secs(60)).unwrap();
    let before = memory(&server.0, "VmRSS:");
    // All have their files before the memory is full.
    let opened = std::sync::Barrier::new(100);
    std::thread::scope(|scope| {
        for client in 0..100_u64 {
            // Other settings: another session.
            let text = format!("servers={},wait=60s,connections={}", folder.path().display(), client + 1);
            let opened = &opened;
            scope.spawn(move || {
                let device = aqueduct_tunnel::Tunnel::from_parameters(&text).unwrap();
                let file = create(&*device, &format!("/{client}"));
                opened.wait();
                let pieces = (0..50_u64).map(|at| file.write_at((at + 100) << 20, &[1; 100]));
                pieces.for_each(|written| assert!(is_ok_or_full(&written), "{written:?}"));
                let bytes = vec![client as u8; 1 << 20];
                let error = (0..80_u64).find_map(|at| file.write_at(at << 20, &bytes).err()).unwrap();
                assert_eq!(error.kind(), Kind::NoSpace, "{error}");
            });
        }
    });
    let peak = memory(&server.0, "VmHWM:");
    println!("before {before} bytes, peak {peak} bytes, limit {MEMORY} bytes");
    // Some megabytes for what the allocator keeps for its threads.
    assert!(peak < before + MEMORY / 100 * 105 + (4 << 20), "peak {peak} bytes");
}

/// A line of the state of a process, in bytes.
fn memory(process: &std::process::Child, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let text = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    text.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
}

/// A process that ends with the test, also with one that fails.
struct KilledAtEnd(std::process::Child);

impl Drop for KilledAtEnd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_ok_or_full(outcome: &aqueduct_device::Result<()>) -> bool {
    outcome.as_ref().err().is_none_or(|error| error.kind() == Kind::NoSpace)
}
