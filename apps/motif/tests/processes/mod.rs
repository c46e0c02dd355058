//! The command `motif` as a process: commands that end, and services that end with the test.
#![allow(dead_code, reason = "each test uses a part")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use aqueduct_motif::protocol::client::RpcClient;
use serde_json::{Value, json};

/// The word that [`genome`] plants.
pub(crate) const PLANTED: &str = "CCATATATGGACGTACGTAC";

/// `motif` on threads.
pub(crate) fn motif(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_motif"));
    command.args(arguments).env("AQUEDUCT_MPI", "none");
    command
}

/// The output of a command that must succeed.
pub(crate) fn output(arguments: &[&str]) -> String {
    let output = motif(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The message of a command that must fail.
pub(crate) fn failure(arguments: &[&str]) -> String {
    let output = motif(arguments).output().unwrap();
    assert!(!output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

/// Random DNA in three sequences with ten planted words in each.
pub(crate) fn genome(folder: &Path, size: &str) -> String {
    let path = folder.join("genome.fa").display().to_string();
    output(&["generate", &path, "--size", size, "--sequences", "3", "--plant", PLANTED]);
    path
}

pub(crate) fn gzip(path: &str) -> String {
    let zipped = format!("{path}.gz");
    let file = fs::File::create(&zipped).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    std::io::copy(&mut fs::File::open(path).unwrap(), &mut encoder).unwrap();
    encoder.finish().unwrap();
    zipped
}

pub(crate) fn users(folder: &Path) -> String {
    let path = folder.join("users").display().to_string();
    fs::write(&path, "first:secret\nsecond:other\n").unwrap();
    path
}

/// A service that ends with the test.
pub(crate) struct ServiceProcess {
    child: Child,
    pub(crate) address: String,
}

impl ServiceProcess {
    /// Starts `motif` with `--listen 127.0.0.1:0` and waits until it listens.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::of(motif(arguments).args(["--listen", "127.0.0.1:0"]))
    }

    /// Starts a command and waits until it listens.
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap().to_owned();
        assert!(address.contains(':'), "{command:?}: {line}");
        Self { child, address }
    }

    /// Kills the process.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The most memory that the process had, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    /// A client; `user` is `name:password`.
    pub(crate) fn client(&self, user: &str) -> RpcClient {
        RpcClient::new(&format!("http://{user}@{}", self.address)).unwrap()
    }
}

impl Drop for ServiceProcess {
    /// A launcher of MPI ends its ranks if it is asked to end, not if it is killed.
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let limit = Instant::now() + Duration::from_secs(10);
        while self.child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < limit {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn start_search(client: &RpcClient, request: &Value) -> Value {
    client.call("motif.search", std::slice::from_ref(request)).unwrap()
}

pub(crate) fn status(client: &RpcClient, id: &Value) -> Value {
    client.call("motif.status", std::slice::from_ref(id)).unwrap()
}

/// Waits until the state is none of these.
pub(crate) fn wait_while(client: &RpcClient, id: &Value, states: &[&str], limit: Duration) -> Value {
    let start = Instant::now();
    loop {
        let status = status(client, id);
        if !states.contains(&status["state"].as_str().unwrap()) {
            return status;
        }
        assert!(start.elapsed() < limit, "{status} after {limit:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a search is over.
pub(crate) fn wait_for(client: &RpcClient, id: &Value) -> Value {
    wait_while(client, id, &["waiting", "running"], Duration::from_secs(60))
}

/// The hits of a search that must finish.
pub(crate) fn hits_of(client: &RpcClient, id: &Value) -> Vec<Value> {
    let status = wait_for(client, id);
    assert_eq!(status["state"], "finished", "{status}");
    let mut hits = Vec::new();
    while (hits.len() as u64) < status["hits"].as_u64().unwrap() {
        let piece = client.call("motif.hits", &[id.clone(), json!(hits.len()), json!(10_000)]).unwrap();
        assert!(!piece.as_array().unwrap().is_empty());
        hits.extend(piece.as_array().unwrap().iter().cloned());
    }
    hits
}
