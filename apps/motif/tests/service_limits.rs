//! Limits of the services: time, memory and cancellation of expensive searches, requests that are refused, and servers that refuse.

mod processes;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use aqueduct_motif::protocol::http_server::{self, HttpLimits, HttpRequest, HttpResponse, HttpService};
use aqueduct_motif::protocol::users::basic_header;
use aqueduct_testkit::launcher::TestLauncher;
use processes::{
    ServiceProcess, genome, gzip, hits_of, output, start_search, status, users, wait_for, wait_while,
};
use serde_json::{Value, json};

/// A query that takes minutes for every window of a sequence.
const EXPENSIVE: &str = "(A.*)/length(1,9000) @ (.*C.*)/gc(99,100) @ (.*G)/gc(99,100) @ (T{99})/edit(40)";
/// Generous, for a loaded machine: a cancelled search ends within milliseconds.
const SOON: Duration = Duration::from_secs(20);

fn expensive() -> Value {
    json!({"query": EXPENSIVE, "longest": 10_000, "every": true})
}

fn wait_until_running(client: &aqueduct_motif::protocol::client::RpcClient, id: &Value) {
    wait_while(client, id, &["waiting"], Duration::from_secs(60));
    // Long enough for all ranks to be in the middle of the computation.
    thread::sleep(Duration::from_millis(300));
    assert_eq!(status(client, id)["state"], "running");
}

#[test]
fn an_expensive_search_ends_at_its_cancellation_and_at_the_time_limit() {
    let folder = tempfile::tempdir().unwrap();
    let genome = genome(folder.path(), "64KiB");
    let server = ServiceProcess::start(&["serve", &genome, "-n", "3", "--time-limit", "3"]);
    let client = server.client("x:x");
    let id = start_search(&client, &expensive());
    wait_until_running(&client, &id);
    client.call("motif.cancel", std::slice::from_ref(&id)).unwrap();
    let start = Instant::now();
    assert_eq!(wait_for(&client, &id)["state"], "cancelled");
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let (id, start) = (start_search(&client, &expensive()), Instant::now());
    let status = wait_for(&client, &id);
    assert_eq!(status["state"], "failed", "{status}");
    assert!(status["message"].as_str().unwrap().contains("longer than the service allows"), "{status}");
    assert!(start.elapsed() < Duration::from_secs(3) + SOON, "{:?}", start.elapsed());
    let id = start_search(&client, &json!({"query": "CCATATATGGACGTACGTAC"}));
    assert_eq!(hits_of(&client, &id).len(), 30, "the server still works");
}

/// The second of two gzip files is read by rank 1, which has no flag of its own.
fn cancel_on_another_rank(server: &ServiceProcess) {
    let client = server.client("x:x");
    let second = client.call("motif.databases", &[]).unwrap()[1]["name"].clone();
    let id = start_search(&client, &expensive());
    wait_until_running(&client, &id);
    client.call("motif.cancel", std::slice::from_ref(&id)).unwrap();
    let start = Instant::now();
    assert_eq!(wait_for(&client, &id)["state"], "cancelled");
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let id = start_search(&client, &json!({"query": "CCATATATGGACGTACGTAC", "databases": [second]}));
    assert_eq!(hits_of(&client, &id).len(), 30, "the server still works");
}

fn two_gzip_files(folder: &std::path::Path) -> [String; 2] {
    let second = gzip(&genome(folder, "64KiB"));
    let first = folder.join("first.fa").display().to_string();
    fs::write(&first, ">short\nACGT\n").unwrap();
    [gzip(&first), second]
}

#[test]
fn cancellation_reaches_ranks_that_read_gzip_files() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = two_gzip_files(folder.path());
    cancel_on_another_rank(&ServiceProcess::start(&["serve", &first, &second, "-n", "2"]));
}

/// A server whose ranks are processes.
fn serve_under(launcher: &str) {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_motif"));
    let Some(launcher) = TestLauncher::find(launcher, program) else { return };
    if std::env::var_os("AQUEDUCT_TEST_HOSTS").is_some() {
        println!("skipped: the server may be on another host, and listens on its loopback address");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = two_gzip_files(folder.path());
    let arguments = ["serve", &first, &second, "--listen", "127.0.0.1:0"];
    cancel_on_another_rank(&ServiceProcess::of(&mut launcher.command(2, &arguments, &[])));
}

#[test]
fn a_server_under_open_mpi_searches_and_cancels() {
    serve_under("openmpi");
}

#[test]
fn a_server_under_mpich_searches_and_cancels() {
    serve_under("mpich");
}

#[test]
fn long_hits_are_limited_by_their_memory() {
    let folder = tempfile::tempdir().unwrap();
    let genome = genome(folder.path(), "256KiB");
    let limit = ["--hit-memory", "4MiB"];
    let server = ServiceProcess::start(&[&["serve", &genome, "-n", "2"], &limit[..]].concat());
    let proxy = ServiceProcess::start(&[&["proxy", "--to", &server.url()], &limit[..]].concat());
    for service in [&server, &proxy] {
        let client = service.client("x:x");
        // A hit of up to 9000 residues at every fourth start: 500 MB in all.
        let id = start_search(&client, &json!({"query": "A.*", "most": 100_000, "longest": 9000}));
        let hits = hits_of(&client, &id);
        assert!(hits.len() > 100 && hits.len() < 600, "{}", hits.len());
        assert_eq!(status(&client, &id)["complete"], false);
    }
    for (service, name) in [(&server, "server"), (&proxy, "proxy")] {
        let memory = service.peak_memory() >> 20;
        println!("{name}: {memory} MiB");
        assert!(memory < 150, "the {name} took {memory} MiB");
    }
}

#[test]
fn many_searches_within_earlier_hits_share_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let genome = genome(folder.path(), "2MiB");
    let server = ServiceProcess::start(&["serve", &genome, "-n", "1"]);
    let proxy = ServiceProcess::start(&["proxy", "--to", &server.url()]);
    let client = proxy.client("x:x");
    let first = start_search(&client, &json!({"query": "ACG", "most": 30_000}));
    assert!(hits_of(&client, &first).len() > 20_000);
    let before = proxy.peak_memory();
    let within =
        |number: usize| json!({"query": format!("ACGT{{{}}}", 1 + number % 3), "within": first, "around": 1});
    let all: Vec<Value> = (0..60).map(|number| start_search(&client, &within(number))).collect();
    for id in &all {
        assert_eq!(wait_for(&client, id)["state"], "finished");
    }
    let grown = proxy.peak_memory().saturating_sub(before) >> 20;
    println!("{grown} MiB for 60 searches within 30000 hits");
    assert!(grown < 150, "the proxy took {grown} MiB more for 60 searches within 30000 hits");
}

/// Sends raw bytes; the answer and how long it took.
fn send(address: &str, request: &str) -> (String, Duration) {
    let start = Instant::now();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    (String::from_utf8_lossy(&answer).into_owned(), start.elapsed())
}

#[test]
fn a_request_without_a_password_is_refused_before_its_body_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (genome, users) = (genome(folder.path(), "64KiB"), users(folder.path()));
    let server = ServiceProcess::start(&["serve", &genome, "-n", "1", "--users", &users]);
    let head = |path: &str, authorization: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: text/xml\r\n{authorization}Content-Length: 900000\r\n\r\n",
            server.address
        )
    };
    // The body never comes: an answer within less than the time for a request to arrive shows that it is not waited for.
    for (path, authorization, expected) in [
        ("/RPC2", String::new(), "401"),
        ("/RPC2", format!("Authorization: {}\r\n", basic_header("first:wrong")), "401"),
        ("/nothing", String::new(), "404"),
        ("/api/list", format!("Authorization: {}\r\n", basic_header("first:secret")), "415"),
    ] {
        let (answer, time) = send(&server.address, &head(path, &authorization));
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{path}: {answer}");
        assert!(time < Duration::from_secs(10), "{path}: {time:?}");
    }
}

#[test]
fn pages_of_other_sites_cannot_use_an_open_service() {
    let folder = tempfile::tempdir().unwrap();
    let genome = genome(folder.path(), "64KiB");
    let server = ServiceProcess::start(&["serve", &genome, "-n", "1"]);
    let body = "<methodCall><methodName>motif.list</methodName></methodCall>";
    let answer = |host: &str, more: &str| {
        let head = format!("POST /RPC2 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}");
        send(&server.address, &format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())).0
    };
    let (here, xml) = (server.address.as_str(), "Content-Type: text/xml\r\n");
    assert!(answer(here, xml).starts_with("HTTP/1.1 200"));
    assert!(answer(here, "Content-Type: text/plain\r\n").starts_with("HTTP/1.1 415"));
    assert!(answer(here, "").starts_with("HTTP/1.1 415"));
    assert!(answer("evil.example", xml).starts_with("HTTP/1.1 403"));
    assert!(answer(here, &format!("{xml}Origin: http://evil.example\r\n")).starts_with("HTTP/1.1 403"));
    assert!(answer(here, &format!("{xml}Origin: http://{here}\r\n")).starts_with("HTTP/1.1 200"));
}

#[test]
fn a_server_that_refuses_is_not_taken_for_a_lost_one() {
    let folder = tempfile::tempdir().unwrap();
    let (genome, users) = (genome(folder.path(), "64KiB"), users(folder.path()));
    let server = ServiceProcess::start(&["serve", &genome, "-n", "1", "--users", &users]);
    let wrong = format!("http://first:wrong@{}", server.address);
    // A server that takes no request of this size.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let small = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(
                b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 6\r\n\r\nlimit\n",
            );
        }
    });
    for (url, message) in [(wrong, "wrong user or password"), (small, "413")] {
        let proxy = ServiceProcess::start(&["proxy", "--to", &url]);
        let client = proxy.client("x:x");
        let id = start_search(&client, &json!({"query": "ACGT", "kind": "dna"}));
        let status = wait_for(&client, &id);
        assert_eq!(status["state"], "failed", "{status}");
        assert!(status["message"].as_str().unwrap().contains(message), "{status}");
    }
}

#[test]
fn each_database_has_its_kind_and_its_sequences() {
    let folder = tempfile::tempdir().unwrap();
    let genome = genome(folder.path(), "64KiB");
    let protein = folder.path().join("protein.fa").display().to_string();
    fs::write(&protein, ">one\nMKVLATNGSWLLE\n>two\nMNGTWQ\nLLEEKK\n>none\n").unwrap();
    let zipped = gzip(&protein);
    let server = ServiceProcess::start(&["serve", &genome, &protein, &zipped, "-n", "3"]);
    let proxy = ServiceProcess::start(&["proxy", "--to", &server.url()]);
    let client = proxy.client("x:x");
    let list = client.call("motif.databases", &[]).unwrap();
    let entry =
        |at: usize| [list[at]["kind"].clone(), list[at]["sequences"].clone(), list[at]["residues"].clone()];
    assert_eq!(entry(0), [json!("dna"), json!(3), json!(65536)], "{list}");
    assert_eq!(entry(1), [json!("protein"), json!(3), json!(25)], "{list}");
    assert_eq!(entry(2), [json!("protein"), json!(3), json!(25)], "{list}");
    let lengths = client.call("motif.lengths", &[json!(protein), json!([0, 1, 2, 3, 4])]).unwrap();
    assert_eq!(lengths, json!([0, 13, 12, 0, -1]));
    let id = start_search(&client, &json!({"query": "N[^P][ST][^P]", "databases": [protein]}));
    assert_eq!(hits_of(&client, &id).len(), 2);
    let mixed =
        client.call("motif.search", &[json!({"query": "ACGT"})]).unwrap_err().into_error().to_string();
    assert!(mixed.contains("dna") && mixed.contains("protein"), "{mixed}");
    // The command looks for the kind too, and the options of queries are passed on.
    let url = proxy.url();
    for options in [&["--every"][..], &["--plain"], &["--longest", "4"], &["--kind", "protein"]] {
        let local = output(&[&["search", "N[^P][ST].*", &protein, "-q"], options].concat());
        assert!(!local.is_empty());
        assert_eq!(
            output(&[&["search", "N[^P][ST].*", &protein, "-q", "--via", &url], options].concat()),
            local
        );
    }
    let plain = |words: &[&str]| output(&[&["search", "NG", &genome, "-q", "--count"], words].concat());
    assert_eq!(plain(&["--plain", "--via", &url]), "0\n", "N stands for itself only");
    assert_ne!(plain(&["--via", &url]), "0\n");
    let kept = folder.path().join("via.obj").display().to_string();
    output(&["search", processes::PLANTED, &genome, "--via", &url, "--hits", &kept, "-q", "--count"]);
    assert_eq!(output(&["search", "CCATATATGG", &genome, "--within", &kept, "-q", "--count"]), "30\n");
    for option in [
        ["--distribute", "files"],
        ["--input", "master"],
        ["--buffer", "1MiB"],
        ["-n", "2"],
        ["--within", &kept],
    ] {
        let message =
            processes::failure(&[&["search", "ACGT", &genome, "--via", &url][..], &option].concat());
        assert!(message.contains("cannot be used with"), "{message}");
    }
}

#[test]
fn services_listen_on_other_than_loopback_addresses_with_users_only() {
    let folder = tempfile::tempdir().unwrap();
    let genome = genome(folder.path(), "64KiB");
    for service in [&["serve", &genome][..], &["proxy"]] {
        let message = processes::failure(&[service, &["--listen", "0.0.0.0:0"]].concat());
        assert!(message.contains("give --users"), "{message}");
    }
}

/// Answers every request with the length of its body.
struct LengthService;

impl HttpService for LengthService {
    fn refuse(&self, _: &HttpRequest) -> Option<HttpResponse> {
        None
    }

    fn answer(&self, request: &HttpRequest) -> HttpResponse {
        HttpResponse::new(200, "text/plain", format!("{} bytes", request.body.len()))
    }
}

/// A server of [`LengthService`] with three connections at a time, and this time for a request to arrive.
fn small_server(arrival: Duration) -> String {
    let listener = http_server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let limits = HttpLimits { body: 1 << 10, all_bodies: 1 << 10, connections: 3, arrival };
    thread::spawn(move || http_server::serve(listener, limits, Arc::new(LengthService)));
    address
}

/// Connections with a part of a request.
fn unfinished_requests(address: &str) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"POST / HTTP/1.1\r\nHost: x\r\n").unwrap();
        stream
    };
    (0..3).map(connect).collect()
}

#[test]
fn connections_are_limited_and_slow_requests_are_ended() {
    let address = small_server(Duration::from_secs(60));
    let slow = unfinished_requests(&address);
    let mut stream = TcpStream::connect(&address).unwrap();
    let request = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\nfour";
    stream.write_all(request.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(stream.read(&mut [0]).is_err(), "there are three connections already");
    drop(slow);
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("4 bytes"), "{answer}");
    let address = small_server(Duration::from_millis(100));
    for mut stream in unfinished_requests(&address) {
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream
            .read_to_end(&mut Vec::new())
            .expect("the server ends a connection whose request does not arrive");
    }
}
