//! An unchanged C program on two hosts whose file is in the memory of a server on a third one, over TCP, with the preload library: what it
//! reads, and which error all ranks get when the server is killed or its host is cut off.

mod launch;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aqueduct_device::{DeviceOpenOptions, HandleExt};
use aqueduct_testkit::hosts::TestHosts;
use aqueduct_tunnel::{Address, Key, ServerOptions, TunnelServer};
use launch::{Job, MPICH, OPEN_MPI, compile};

/// The variables of a server process: where it listens, its place in a set and the number of servers, and its key file.
const LISTEN: &str = "AQUEDUCT_TEST_LISTEN";
const PLACE: &str = "AQUEDUCT_TEST_PLACE";
const KEY: &str = "AQUEDUCT_TEST_KEY";
/// The variable of a client process: its file.
const FILE: &str = "AQUEDUCT_TEST_FILE";

/// After this time without a sign of life a server is lost.
const SILENCE: Duration = Duration::from_secs(3);

/// The body of a server process: this test, started again on a host.
#[test]
fn a_server_process() {
    let (Ok(listen), Ok(key)) = (std::env::var(LISTEN), std::env::var(KEY)) else { return };
    let listen: Address = listen.parse().expect("an address");
    let key = Key::read_or_create(Path::new(&key)).expect("a key");
    let place = std::env::var(PLACE).ok().and_then(|place| {
        let (index, count) = place.split_once('/')?;
        Some((index.parse().ok()?, count.parse().ok()?))
    });
    let (index, count) = place.expect("a place in a set");
    let (listen, set) = (vec![listen], [7; 16]);
    let options = ServerOptions {
        listen,
        key: Some(key),
        memory: 256 << 20,
        set,
        index,
        count,
        ..ServerOptions::default()
    };
    let server = TunnelServer::start(options).expect("a server");
    println!("\nready on {}", server.addresses()[0]);
    loop {
        std::thread::sleep(Duration::from_millis(100));
        println!("written {}", server.status().written);
    }
}

/// A server on the last host; it ends with this value.
struct HostServer {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl HostServer {
    fn start(hosts: &TestHosts, host: usize, key: &Path) -> Self {
        Self::start_in_set(hosts, host, key, (0, 1))
    }

    /// A server with a place in a set of so many.
    fn start_in_set(hosts: &TestHosts, host: usize, key: &Path, (index, count): (usize, usize)) -> Self {
        let mut command = hosts.command(host, std::env::current_exe().expect("the path of the test"));
        command.args(["--exact", "a_server_process", "--nocapture"]).env(KEY, key);
        command.env(PLACE, format!("{index}/{count}"));
        command.env(LISTEN, format!("{}:7700", TestHosts::address(host))).stdout(Stdio::piped());
        let mut process = command.spawn().expect("a server process");
        let mut output = BufReader::new(process.stdout.take().expect("its output"));
        let ready = |line: &str| line.starts_with("ready on");
        assert!(Self::find(&mut output, ready), "the server is ready");
        Self { process, output }
    }

    fn find(output: &mut BufReader<std::process::ChildStdout>, is_wanted: impl Fn(&str) -> bool) -> bool {
        let mut line = String::new();
        while output.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if is_wanted(&line) {
                return true;
            }
            line.clear();
        }
        false
    }

    /// Waits until clients have written so many bytes.
    fn wait_for_bytes(&mut self, bytes: u64) {
        let enough = |line: &str| {
            let count = line.strip_prefix("written ").and_then(|count| count.trim().parse::<u64>().ok());
            count.is_some_and(|count| count >= bytes)
        };
        assert!(Self::find(&mut self.output, enough), "the program writes");
    }
}

impl Drop for HostServer {
    fn drop(&mut self) {
        // The process that was started is the parent of the server, which is in the namespaces of its host.
        let id = self.process.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let _ = Command::new("kill").args(["-KILL", child]).status();
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn files_are_in_the_memory_of_another_host() {
    let Some(hosts) = TestHosts::start(3) else { return };
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "remote.c", &[]) else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key");
        let mut server = HostServer::start(&hosts, 2, &key);
        let name = format!("tunnel=key={}:{}:7700/out", key.display(), TestHosts::address(2));
        let words = [program.path.to_str().expect("UTF-8"), name.as_str()];
        let output = Job { mpi, ranks: 2, preloaded: true, variables: &[] }.run_on(&hosts, 2, &words);
        assert!(output.success, "{}", output.text());
        for rank in 0..2 {
            for line in ["open ok", "access ok wrong 0", "close ok"] {
                assert!(output.printed.contains(&format!("{rank} {line}\n")), "{line}: {}", output.text());
            }
        }
        server.wait_for_bytes(40 * 6000 * 2);
    }
}

#[test]
fn a_server_that_is_killed_or_cut_off_is_an_error_on_all_ranks() {
    // `MPI_Finalize` of Open MPI 4.1 waits for up to two minutes after a host of the bridge is gone, long after our error.
    let is_long = std::env::var_os("AQUEDUCT_LONG_TESTS").is_some();
    for mpi in [MPICH].into_iter().chain(is_long.then_some(OPEN_MPI)) {
        let Some(program) = compile(mpi, "remote.c", &[]) else { return };
        for cut_off in [false, true] {
            let Some(hosts) = TestHosts::start(3) else { return };
            let folder = tempfile::tempdir().expect("a folder");
            let key = folder.path().join("key");
            let mut server = HostServer::start(&hosts, 2, &key);
            let parameters = format!("key={},silence={}s", key.display(), SILENCE.as_secs());
            let name = format!("tunnel={parameters}:{}:7700/out", TestHosts::address(2));
            let words = [program.path.to_str().expect("UTF-8"), name.as_str(), "endless"];
            let job = Job { mpi, ranks: 2, preloaded: true, variables: &[] };
            let (output, lost_at) = std::thread::scope(|scope| {
                let running = scope.spawn(|| job.run_on(&hosts, 2, &words));
                server.wait_for_bytes(1 << 18);
                let lost_at = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
                if cut_off {
                    hosts.set_link(2, false);
                } else {
                    hosts.kill(2);
                }
                (running.join().expect("the launcher ends"), lost_at)
            });
            assert!(output.success, "{}", output.text());
            for rank in 0..2 {
                let line = format!("{rank} access MPI_ERR_IO wrong 0\n");
                assert!(output.printed.contains(&line), "{line}: {}", output.text());
            }
            let ends = output
                .printed
                .lines()
                .filter_map(|line| line.split_once(" ended at ")?.1.trim().parse().ok());
            let ends: Vec<u64> = ends.collect();
            assert_eq!(ends.len(), 2, "{}", output.text());
            for end in ends {
                // On a machine that is busy.
                let took = Duration::from_secs(end).saturating_sub(lost_at);
                assert!(took < SILENCE + Duration::from_secs(20), "{took:?}");
            }
        }
    }
}

/// The body of a client process: writes and reads a file, and prints how long each takes.
#[test]
fn a_client_process() {
    let Ok(name) = std::env::var(FILE) else { return };
    aqueduct_tunnel::register();
    let options = DeviceOpenOptions::read_write().create(true);
    let file = aqueduct_device::open(&name, &options).expect("an open file");
    let bytes: Vec<u8> = (0..16_u32 << 20).map(|at| (at / 251) as u8).collect();
    let mut back = vec![0; bytes.len()];
    let start = Instant::now();
    file.write_at(0, &bytes).expect("a write");
    let written = start.elapsed();
    let start = Instant::now();
    file.read_at(0, &mut back).expect("a read");
    assert!(back == bytes, "what was written is read");
    let read = start.elapsed();
    println!("\nseconds {} {}", written.as_secs_f64(), read.as_secs_f64());
}

/// Servers whose links are limited: two and four of them give nearly twice and four times the bandwidth of one.
#[test]
fn several_servers_add_the_bandwidth_of_their_links() {
    if std::env::var_os("AQUEDUCT_LONG_TESTS").is_none() {
        eprintln!("skipped: AQUEDUCT_LONG_TESTS=1 runs it");
        return;
    }
    let Some(hosts) = TestHosts::start(4) else { return };
    (0..4).for_each(|host| hosts.limit(host, "100mbit"));
    let seconds = |count: usize| {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key");
        let servers: Vec<_> =
            (0..count).map(|host| HostServer::start_in_set(&hosts, host, &key, (host, count))).collect();
        let addresses: Vec<String> = (0..count).map(TestHosts::address).collect();
        let name = format!("tunnel=key={}:{}/limited", key.display(), addresses.join(","));
        let mut client = hosts.launch_command(std::env::current_exe().expect("the path of the test"));
        client.args(["--exact", "a_client_process", "--nocapture"]).env(FILE, name);
        let output = client.output().expect("a client");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
        drop(servers);
        let line = text.lines().find_map(|line| line.strip_prefix("seconds ")).expect("times");
        let times: Vec<f64> = line.split(' ').map(|word| word.parse().expect("seconds")).collect();
        [times[0], times[1]]
    };
    let one = seconds(1);
    for (count, least) in [(2, 1.9), (4, 3.7)] {
        let several = seconds(count);
        let ratios = [one[0] / several[0], one[1] / several[1]];
        println!(
            "{count} servers: writes {:.2}, reads {:.2} times as fast as with one",
            ratios[0], ratios[1]
        );
        assert!(ratios.iter().all(|ratio| *ratio >= least), "{count} servers: {ratios:?}");
    }
}
