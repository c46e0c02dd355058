//! Servers of remote memory as real processes: started, used, stopped, killed.

mod test_folder;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aqueduct::comm::{Comm, Launch};
use aqueduct::device::{Device, DeviceOpenOptions, HandleExt, Kind};
use aqueduct::formats::netcdf::{NcType, NetcdfCreateOptions, NetcdfOpenOptions};
use aqueduct::tunnel::Tunnel;

use test_folder::TestFolder;

/// More than `silence` by what a loaded machine may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A server process; it is killed when the test ends.
struct ServerProcess(Child);

impl ServerProcess {
    /// Starts a server; returns when it is ready.
    fn start(folder: &TestFolder, words: &[&str]) -> Self {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0", "--announce", "servers", "--memory", "64MiB"];
        all.extend(words);
        let mut child = folder.command(&all).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        // Byte by byte, so that nothing of the later output is lost.
        let mut output = BufReader::with_capacity(1, child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert!(line.contains("ready on 127.0.0.1:") && line.contains("key"), "{line}");
        child.stdout = Some(output.into_inner());
        Self(child)
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap().success());
    }

    /// Waits for the end; the exit status and the output.
    fn wait(&mut self) -> (Option<i32>, String) {
        let mut output = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        (self.0.wait().unwrap().code(), output)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn succeed(folder: &TestFolder, words: &[&str]) -> String {
    let output = folder.command(words).env("AQUEDUCT_SERVERS", folder.path("servers")).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn device(folder: &TestFolder) -> std::sync::Arc<dyn Device> {
    let text = format!("servers={},silence=2s,wait=0s", folder.path("servers").display());
    Tunnel::from_parameters(&text).unwrap()
}

#[test]
fn files_are_listed_copied_and_removed() {
    let folder = TestFolder::new();
    let mut servers: Vec<_> = (0..2).map(|_| ServerProcess::start(&folder, &["--of", "2"])).collect();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7) as u8).collect();
    std::fs::write(folder.path("in"), &bytes).unwrap();
    succeed(&folder, &["copy", "in", "tunnel:/run/in"]);
    succeed(&folder, &["demo", "-n", "3", "--file", "tunnel:/demo"]);
    let listed = succeed(&folder, &["list", "--prefix", "run/"]);
    assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), ["3000000", "run/in"]);
    succeed(&folder, &["copy", "tunnel:/run/in", "out"]);
    assert!(std::fs::read(folder.path("out")).unwrap() == bytes);
    let states = succeed(&folder, &["servers"]);
    assert!(states.lines().count() == 2 && states.contains("of 5") && states.contains("MB/s"), "{states}");
    succeed(&folder, &["remove", "tunnel:/run/in"]);
    assert_eq!(succeed(&folder, &["list", "--prefix", "run/"]), "");
    succeed(&folder, &["copy", "in", "tunnel:/left"]);
    for server in &mut servers {
        server.signal("-TERM");
        let (status, output) = server.wait();
        assert_eq!(status, Some(1), "a file is dropped: {output}");
        assert!(output.contains("dropped left (") && output.contains("bytes written by clients"), "{output}");
    }
    let entries = std::fs::read_dir(folder.path("servers")).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().all(|name| ["set", "key"].contains(&name.as_str())), "{names:?}");
}

/// A netCDF file in which each of two ranks has written and read its columns.
fn write_grid(world: &Comm, name: &str) -> Result<(), aqueduct::Error> {
    let mut file = NetcdfCreateOptions::new().replace().create(world, name)?;
    let grid = file.define(|file| {
        let (y, x) = (file.dimension("y", 50)?, file.dimension("x", 40)?);
        file.variable("grid", NcType::Int, &[y, x])
    })?;
    let first = 20 * world.rank() as u64;
    let mine: Vec<i32> = (0..1000).map(|at| at + first as i32).collect();
    file.at(grid, [0..50, first..first + 20]).write(&mine)?;
    file.close()?;
    let file = NetcdfOpenOptions::new().open(world, name)?;
    let grid = file.variable("grid")?;
    assert_eq!(file.at(grid, [0..50, first..first + 20]).read_vec::<i32>()?, mine);
    file.close()
}

/// Formats write the same bytes into remote memory as into a file; a checkpoint store, which renames folders, says why it does not.
#[test]
fn formats_in_remote_memory() {
    let folder = TestFolder::new();
    let _servers: Vec<_> = (0..2).map(|_| ServerProcess::start(&folder, &["--of", "2"])).collect();
    let local = folder.path("local.nc").to_string_lossy().into_owned();
    let remote = format!("tunnel=servers={},stripe=64KiB:/remote.nc", folder.path("servers").display());
    Launch::threads(2)
        .run(|world: &Comm| {
            write_grid(world, &local)?;
            write_grid(world, &remote)?;
            let refused = aqueduct::checkpoint::Store::open_or_create(world, &remote).expect_err("a refusal");
            assert!(refused.to_string().contains("tunnel: is the prefix of a device"), "{refused}");
            Ok::<_, aqueduct::Error>(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    succeed(&folder, &["copy", "tunnel:/remote.nc", "copied.nc"]);
    assert!(std::fs::read(folder.path("copied.nc")).unwrap() == std::fs::read(&local).unwrap());
}

/// A server that is killed is an error at once, one that is stopped after `silence`; repeated, at different moments.
#[test]
fn killed_and_stopped_servers() {
    let is_long = std::env::var_os("AQUEDUCT_LONG_TESTS").is_some();
    let rounds = if is_long { 100 } else { 4 };
    for round in 0..rounds {
        for (signal, patience) in [("-KILL", Duration::ZERO), ("-STOP", Duration::from_secs(2))] {
            let folder = TestFolder::new();
            let server = ServerProcess::start(&folder, &[]);
            let file = device(&folder)
                .open("/x".as_ref(), &DeviceOpenOptions::read_write().create(true))
                .unwrap_or_else(|error| panic!("{error}"));
            let written = std::thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    for step in 0_u64.. {
                        if let Err(error) = file.write_at(step % 64 * 500_000, &vec![step as u8; 500_000]) {
                            return (error, Instant::now());
                        }
                    }
                    unreachable!()
                });
                std::thread::sleep(Duration::from_millis(7 * (round % 20)));
                server.signal(signal);
                let start = Instant::now();
                let (error, end) = writer.join().unwrap();
                (error, end - start)
            });
            let (error, took) = written;
            assert_eq!(error.kind(), Kind::Disconnected, "{error}");
            // The exact limit on a machine that does nothing else.
            let limit = if is_long { Duration::from_secs(2) } else { LIMIT };
            assert!(took < patience + limit, "{signal} took {took:?}");
            assert_eq!(file.len().unwrap_err().kind(), Kind::Disconnected);
        }
    }
}

/// A stopped server that continues within `silence` is not lost.
#[test]
fn a_server_that_pauses_is_not_lost() {
    let folder = TestFolder::new();
    let server = ServerProcess::start(&folder, &[]);
    let text = format!("servers={},silence=60s", folder.path("servers").display());
    let file = Tunnel::from_parameters(&text)
        .unwrap()
        .open("/x".as_ref(), &DeviceOpenOptions::read_write().create(true))
        .unwrap_or_else(|error| panic!("{error}"));
    server.signal("-STOP");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| file.write_at(0, &vec![1; 8 << 20]));
        std::thread::sleep(Duration::from_millis(300));
        server.signal("-CONT");
        writer.join().unwrap().unwrap();
    });
    assert_eq!(file.len().unwrap(), 8 << 20);
}

#[test]
fn a_store_outlives_its_server() {
    let folder = TestFolder::new();
    std::fs::create_dir(folder.path("store")).unwrap();
    std::fs::write(folder.path("in"), b"some bytes").unwrap();
    let mut server = ServerProcess::start(&folder, &["--store", "store"]);
    succeed(&folder, &["copy", "in", "tunnel:/deep/file"]);
    server.signal("-TERM");
    let (status, output) = server.wait();
    assert_eq!(status, Some(0), "nothing is dropped: {output}");
    assert_eq!(std::fs::read(folder.path("store/deep/file")).unwrap(), b"some bytes");
    let _server = ServerProcess::start(&folder, &["--store", "store"]);
    succeed(&folder, &["copy", "tunnel:/deep/file", "back"]);
    assert_eq!(std::fs::read(folder.path("back")).unwrap(), b"some bytes");
}

/// Under clients that write too much, the resident memory stays below the limit (and what any process needs).
#[test]
fn resident_memory_stays_below_the_limit() {
    let folder = TestFolder::new();
    let server = ServerProcess::start(&folder, &["--connections", "32"]);
    std::thread::scope(|scope| {
        for client in 0..6 {
            let text = format!("servers={},connections={}", folder.path("servers").display(), client + 1);
            scope.spawn(move || {
                let device = Tunnel::from_parameters(&text).unwrap();
                let options = DeviceOpenOptions::read_write().create(true);
                let file = device
                    .open(format!("/{client}").as_ref(), &options)
                    .unwrap_or_else(|error| panic!("{error}"));
                // Small pieces far apart, then large ones.
                let pieces = (0..200_u64).map(|at| file.write_at(at << 20, &[1; 100]));
                assert!(pieces.filter(Result::is_err).count() < 200);
                let error = file.write_at(0, &vec![client as u8; 64 << 20]).unwrap_err();
                assert_eq!(error.kind(), Kind::NoSpace, "{error}");
            });
        }
    });
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.0.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches("kB").trim().parse().unwrap();
    // The program itself has some megabytes.
    assert!(peak << 10 < (64 << 20) / 100 * 105 + (16 << 20), "peak {peak} KiB");
}
