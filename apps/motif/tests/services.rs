//! Server and proxy as processes: Python's `xmlrpc.client`, JSON, many searches at once, a server that is killed, hostile requests.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use aqueduct_motif::protocol::client::RpcClient;
use serde_json::{Value, json};

/// A process that ends with the test.
struct ServiceProcess {
    child: Child,
    address: String,
}

impl ServiceProcess {
    /// Starts `motif` and waits until it listens.
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_motif"));
        command.args(arguments).env("AQUEDUCT_MPI", "none").stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap().to_owned();
        assert!(address.contains(':'), "{line}");
        Self { child, address }
    }

    /// The most memory that the process had, in bytes.
    fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    fn client(&self, user: &str) -> RpcClient {
        RpcClient::new(&format!("http://{user}@{}", self.address)).unwrap()
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn genome(folder: &Path) -> String {
    let path = folder.join("genome.fa").display().to_string();
    let generated = Command::new(env!("CARGO_BIN_EXE_motif"))
        .args(["generate", &path, "--size", "4MiB", "--sequences", "3", "--plant", "CCATATATGGACGTACGTAC"])
        .output()
        .unwrap();
    assert!(generated.status.success());
    path
}

fn users(folder: &Path) -> String {
    let path = folder.join("users").display().to_string();
    fs::write(&path, "first:secret\nsecond:other\n").unwrap();
    path
}

fn wait_for(client: &RpcClient, id: &Value) -> Value {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        let status = client.call("motif.status", std::slice::from_ref(id)).unwrap();
        if !["waiting", "running"].contains(&status["state"].as_str().unwrap()) {
            return status;
        }
        assert!(Instant::now() < limit, "{status}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_hundred_searches_survive_the_death_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let (genome, users) = (genome(folder.path()), users(folder.path()));
    let server = ServiceProcess::start(&["serve", &genome, "-n", "2", "--listen", "127.0.0.1:0"]);
    let (address, to) = (server.address.clone(), format!("http://{}", server.address));
    let proxy = ServiceProcess::start(&["proxy", "--to", &to, "--listen", "127.0.0.1:0", "--users", &users]);
    let mut expected = None;
    let mut ids = Vec::new();
    for user in ["first:secret", "second:other"] {
        let client = proxy.client(user);
        for _ in 0..50 {
            let request = json!({"query": "CCATATATGGACGTACGTAC", "strands": "both"});
            ids.push((user, client.call("motif.search", &[request]).unwrap()));
        }
    }
    // The server dies in the middle and comes again at the same address.
    let first = wait_for(&proxy.client("first:secret"), &ids[0].1);
    assert_eq!(first["state"], "finished", "{first}");
    drop(server);
    thread::sleep(Duration::from_millis(300));
    let _server = ServiceProcess::start(&["serve", &genome, "-n", "3", "--listen", &address]);
    for (user, id) in &ids {
        let client = proxy.client(user);
        let status = wait_for(&client, id);
        assert_eq!(status["state"], "finished", "{status}");
        let hits = client.call("motif.hits", &[id.clone(), json!(0), json!(1000)]).unwrap();
        assert_eq!(hits.as_array().unwrap().len(), 30, "all planted words");
        assert_eq!(expected.get_or_insert_with(|| hits.clone()), &hits);
    }
    assert!(
        proxy.client("second:other").call("motif.status", &[ids[0].1.clone()]).is_err(),
        "searches are private"
    );
    let memory = proxy.peak_memory();
    assert!(memory < 64 << 20, "the proxy took {memory} bytes for 100 searches");
}

#[test]
fn clients_of_every_kind_get_the_same_hits() {
    let folder = tempfile::tempdir().unwrap();
    let (genome, users) = (genome(folder.path()), users(folder.path()));
    let server = ServiceProcess::start(&["serve", &genome, "-n", "2", "--listen", "127.0.0.1:0"]);
    let to = format!("http://{}", server.address);
    let proxy = ServiceProcess::start(&["proxy", "--to", &to, "--listen", "127.0.0.1:0", "--users", &users]);
    let url = format!("http://first:secret@{}", proxy.address);
    let motif = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_motif"))
            .args(arguments)
            .env("AQUEDUCT_MPI", "none")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let local = motif(&["search", "CC(A|T){6}GG", &genome, "-q"]);
    assert!(local.lines().count() > 200);
    assert_eq!(motif(&["search", "CC(A|T){6}GG", "--via", &url, "-q"]), local);
    let script = format!(
        "import xmlrpc.client, time\n\
         motif = xmlrpc.client.ServerProxy('{url}').motif\n\
         assert motif.databases()[0]['kind'] == 'dna'\n\
         first = motif.search({{'query': 'CC(A|T){{6}}GG'}})\n\
         while motif.status(first)['state'] != 'finished': time.sleep(0.02)\n\
         second = motif.search({{'query': 'ACGTACGTAC', 'within': first, 'around': 12}})\n\
         while motif.status(second)['state'] != 'finished': time.sleep(0.02)\n\
         print(len(motif.hits(first, 0, 10000)), len(motif.hits(second, 0, 10000)))\n\
         try:\n    motif.search({{'query': 'CC('}})\n    raise SystemExit('no fault')\n\
         except xmlrpc.client.Fault as fault:\n    assert 'column 3' in fault.faultString\n"
    );
    let python = Command::new("python3").args(["-c", &script]).output().unwrap();
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let counts = format!("{} 30\n", local.lines().count());
    assert_eq!(String::from_utf8_lossy(&python.stdout), counts);
}

#[test]
fn hostile_requests_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (genome, users) = (genome(folder.path()), users(folder.path()));
    let server =
        ServiceProcess::start(&["serve", &genome, "-n", "1", "--listen", "127.0.0.1:0", "--users", &users]);
    let send = |request: &[u8], ends: bool| {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _ = stream.write_all(request);
        if ends {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    assert!(
        send(b"POST /RPC2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", false)
            .contains("401")
    );
    let credentials = aqueduct_motif::protocol::users::basic_header("first:secret");
    let head = |length: usize| {
        format!(
            "POST /RPC2 HTTP/1.1\r\nHost: x\r\nAuthorization: {credentials}\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    assert!(send(format!("{}<x", head(2)).as_bytes(), false).contains("fault"));
    assert!(send(head(1 << 40).as_bytes(), false).contains("413"));
    for noise in [&b"\0\xff\n\n"[..], b"GET", b"GET / HTTP/9\r\n\r\n", &vec![b'A'; 100_000]] {
        send(noise, true);
    }
    let client = server.client("first:secret");
    assert!(client.call("motif.nothing", &[]).is_err());
    assert!(client.call("motif.hits", &[json!(1), json!(-1), json!("x")]).is_err());
    assert!(client.call("motif.search", &[json!({"query": 5})]).is_err());
    let id = client.call("motif.search", &[json!({"query": "ACGT", "databases": ["missing"]})]).unwrap();
    assert_eq!(wait_for(&client, &id)["state"], "failed");
    let id = client.call("motif.search", &[json!({"query": "ACGTACGT"})]).unwrap();
    assert_eq!(wait_for(&client, &id)["state"], "finished", "the server still works");
}
