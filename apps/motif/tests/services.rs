//! Server and proxy as processes: Python's `xmlrpc.client`, JSON, many searches at once, a server that is killed, hostile requests.

mod processes;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use processes::{ServiceProcess, genome, hits_of, motif, output, start_search, status, users, wait_for};
use serde_json::{Value, json};

/// The search of this number: each has another query.
fn numbered_query(number: usize) -> String {
    let letters: String = (0..4).map(|place| b"ACGT"[number >> (2 * place) & 3] as char).collect();
    format!("{letters}{}CC", ["(A|T){4}", "N{3}G", "(ACGT)", "W{5}"][number % 4])
}

/// The hits of a search without a service, as (sequence, start, end, residues).
fn expected_hits(genome: &str, query: &str) -> Vec<(String, u64, u64, String)> {
    let table = output(&["search", query, genome, "--format", "tsv", "--strands", "both", "-q", "-n", "2"]);
    let row = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let number = |at: usize| columns[at].parse().unwrap();
        (columns[2].to_owned(), number(3), number(4), columns[6].to_owned())
    };
    table.lines().skip(1).map(row).collect()
}

#[test]
fn a_hundred_different_searches_survive_the_death_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let (genome, users) = (genome(folder.path(), "256KiB"), users(folder.path()));
    let server = ServiceProcess::start(&["serve", &genome, "-n", "2"]);
    let address = server.address.clone();
    let proxy = ServiceProcess::start(&["proxy", "--to", &server.url(), "--users", &users]);
    // All of the first user come before those of the second one.
    let mut ids = Vec::new();
    for (at, user) in ["first:secret", "second:other"].into_iter().enumerate() {
        let client = proxy.client(user);
        for number in (0..50).map(|number| 50 * at + number) {
            let request = json!({"query": numbered_query(number), "strands": "both", "most": 50_000});
            ids.push((user, number, start_search(&client, &request)));
        }
    }
    // The server is killed as soon as some have finished and some have not, and comes again at the same address.
    let is_over = |client: &_, id: &Value| status(client, id)["state"] == "finished";
    let limit = Instant::now() + Duration::from_secs(60);
    let (first, second) = (proxy.client("first:secret"), proxy.client("second:other"));
    while !is_over(&first, &ids[2].2) {
        assert!(Instant::now() < limit);
        thread::sleep(Duration::from_millis(1));
    }
    server.kill();
    let finished = |client: &aqueduct_motif::protocol::client::RpcClient| {
        let list = client.call("motif.list", &[]).unwrap();
        list.as_array().unwrap().iter().filter(|search| search["state"] == "finished").count()
    };
    let (by_first, by_second) = (finished(&first), finished(&second));
    println!("{by_first} and {by_second} of 50 searches had finished when the server was killed");
    assert!(by_first + by_second < 100, "the server was killed too late");
    assert!(by_first.abs_diff(by_second) <= 2, "users take turns: {by_first} and {by_second}");
    thread::sleep(Duration::from_millis(300));
    let arguments = ["serve", &genome, "-n", "3", "--listen", &address];
    let _server = ServiceProcess::of(&mut motif(&arguments));
    let mut total = 0;
    for (user, number, id) in &ids {
        let found = hits_of(&proxy.client(user), id);
        let text = |hit: &Value, name: &str| hit[name].as_str().unwrap().to_owned();
        let found: Vec<_> = found
            .iter()
            .map(|hit| {
                (
                    text(hit, "name"),
                    hit["start"].as_u64().unwrap(),
                    hit["end"].as_u64().unwrap(),
                    text(hit, "residues"),
                )
            })
            .collect();
        total += found.len();
        assert_eq!(found, expected_hits(&genome, &numbered_query(*number)), "{}", numbered_query(*number));
    }
    let different: BTreeSet<String> = ids.iter().map(|(_, number, _)| numbered_query(*number)).collect();
    assert_eq!(different.len(), 100);
    assert!(total > 1000, "{total} hits");
    assert!(second.call("motif.status", &[ids[0].2.clone()]).is_err(), "searches are private");
    let memory = proxy.peak_memory();
    assert!(memory < 64 << 20, "the proxy took {memory} bytes for 100 searches");
}

#[test]
fn clients_of_every_kind_get_the_same_hits() {
    let folder = tempfile::tempdir().unwrap();
    let (genome, users) = (genome(folder.path(), "4MiB"), users(folder.path()));
    let server = ServiceProcess::start(&["serve", &genome, "-n", "2"]);
    let proxy = ServiceProcess::start(&["proxy", "--to", &server.url(), "--users", &users]);
    let url = format!("http://first:secret@{}", proxy.address);
    let local = output(&["search", "CC(A|T){6}GG", &genome, "-q"]);
    assert!(local.lines().count() > 200);
    assert_eq!(output(&["search", "CC(A|T){6}GG", "--via", &url, "-q"]), local);
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
    let (genome, users) = (genome(folder.path(), "4MiB"), users(folder.path()));
    let server = ServiceProcess::start(&["serve", &genome, "-n", "1", "--users", &users]);
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
            "POST /RPC2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: text/xml\r\n\
             Authorization: {credentials}\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    assert!(send(format!("{}<x", head(2)).as_bytes(), false).contains("fault"));
    assert!(send(head(1 << 40).as_bytes(), false).contains("413"));
    for noise in [&b"\0\xff\n\n"[..], b"GET", b"GET / HTTP/9\r\n\r\n", &vec![b'A'; 100_000]] {
        send(noise, true);
    }
    // Nested as deeply as a request may be long.
    let deep = "<value><array><data>".repeat(20_000);
    let deep = format!("<methodCall><methodName>motif.list</methodName><params><param>{deep}");
    assert!(send(format!("{}{deep}", head(deep.len())).as_bytes(), false).contains("fault"));
    let client = server.client("first:secret");
    assert!(client.call("motif.nothing", &[]).is_err());
    assert!(client.call("motif.hits", &[json!(1), json!(-1), json!("x")]).is_err());
    assert!(client.call("motif.search", &[json!({"query": 5})]).is_err());
    let id = client
        .call("motif.search", &[json!({"query": "ACGT", "kind": "dna", "databases": ["missing"]})])
        .unwrap();
    assert_eq!(wait_for(&client, &id)["state"], "failed");
    let id = client.call("motif.search", &[json!({"query": "ACGTACGT"})]).unwrap();
    assert_eq!(wait_for(&client, &id)["state"], "finished", "the server still works");
}
