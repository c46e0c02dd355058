//! Strangers are refused, and malformed bytes end a connection and nothing else.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use aqueduct_device::{DeviceOpenOptions, HandleExt, Kind};
use aqueduct_testkit::mutator::Mutator;
use aqueduct_tunnel::wire::bytes::put_number;
use aqueduct_tunnel::wire::frame::{FrameHead, HEAD};
use aqueduct_tunnel::wire::greeting::{
    CLIENT_HELLO, CLIENT_PROOF, ClientHello, ClientProof, GreetingResult, RESULT, SERVER_HELLO, VERSION,
};
use aqueduct_tunnel::wire::request::{OpenFlags, OpenRole, TunnelRequest};
use aqueduct_tunnel::{Key, ProofRole, ServerOptions, Tunnel, TunnelServer};

use crate::test_servers::{TestServers, create, loopback};

fn connect(server: &TunnelServer) -> TcpStream {
    let stream = TcpStream::connect(server.addresses()[0].to_string()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Greets as a client; the bytes that were sent, and the stream of an accepted client.
pub(crate) fn greet(server: &TunnelServer, key: &Key, slot: u32) -> Result<TcpStream, String> {
    let mut stream = connect(server);
    let hello = ClientHello { version: VERSION, features: 0, nonce: [5; 32] }.encode();
    stream.write_all(&hello).unwrap();
    let mut answer = [0; SERVER_HELLO];
    stream.read_exact(&mut answer).unwrap();
    let mut proof = ClientProof { session: [9; 16], slot, name: "test".into(), proof: [0; 32] };
    proof.proof = key.prove(ProofRole::Client, &[&hello, &answer, &proof.encode()[..CLIENT_PROOF - 32]]);
    stream.write_all(&proof.encode()).unwrap();
    let mut result = [0; RESULT];
    stream.read_exact(&mut result).unwrap();
    match GreetingResult::decode(&result) {
        GreetingResult::Accepted { .. } => Ok(stream),
        GreetingResult::Refused(why) | GreetingResult::Busy(why) => Err(why),
    }
}

/// True if the other end has closed or reset the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    let is_timeout = |error: &std::io::Error| {
        matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
    };
    stream.read(&mut [0; 1]).map_or_else(|error| !is_timeout(&error), |count| count == 0)
}

#[test]
fn clients_without_the_key_are_refused() {
    let (servers, others) = (TestServers::start(1), TestServers::start(1));
    let name = format!("{}/x", servers.servers[0].addresses()[0]);
    let options = DeviceOpenOptions::read_write().create(true);
    // The key of another set: the server is not trusted either.
    let error = others.device_by_address("").open(name.as_ref(), &options).err().unwrap();
    assert_eq!(error.kind(), Kind::Disconnected);
    assert!(error.to_string().contains("does not have the key"), "{error}");
    let error =
        Tunnel::from_parameters("key=/nonexistent").unwrap().open(name.as_ref(), &options).err().unwrap();
    assert_eq!(error.kind(), Kind::PermissionDenied, "{error}");
    // A client that does not care about the server's proof.
    let why = greet(&servers.servers[0], &Key::generate(), 1).unwrap_err();
    assert!(why.contains("does not have the key"), "{why}");
    assert!(servers.servers[0].status().refused >= 1);
    assert!(
        TunnelServer::start(ServerOptions { listen: loopback(), key: None, ..ServerOptions::default() })
            .is_err()
    );
    greet(&servers.servers[0], &servers.key(), 1).unwrap();
}

#[test]
fn a_replayed_greeting_proves_nothing() {
    let servers = TestServers::start(1);
    let (server, key) = (&servers.servers[0], servers.key());
    let hello = ClientHello { version: VERSION, features: 0, nonce: [5; 32] }.encode();
    let exchange = |proof: Option<[u8; CLIENT_PROOF]>| {
        let mut stream = connect(server);
        stream.write_all(&hello).unwrap();
        let mut answer = [0; SERVER_HELLO];
        stream.read_exact(&mut answer).unwrap();
        let proof = proof.unwrap_or_else(|| {
            let mut proof = ClientProof { session: [9; 16], slot: 1, name: "test".into(), proof: [0; 32] };
            proof.proof =
                key.prove(ProofRole::Client, &[&hello, &answer, &proof.encode()[..CLIENT_PROOF - 32]]);
            proof.encode()
        });
        stream.write_all(&proof).unwrap();
        let mut result = [0; RESULT];
        stream.read_exact(&mut result).unwrap();
        (proof, GreetingResult::decode(&result))
    };
    let (recorded, first) = exchange(None);
    assert!(matches!(first, GreetingResult::Accepted { .. }));
    let (_, replayed) = exchange(Some(recorded));
    assert!(matches!(replayed, GreetingResult::Refused(_)), "{replayed:?}");
}

#[test]
fn strangers_that_say_nothing_or_nonsense_do_not_keep_others_out() {
    let servers = TestServers::start(1);
    let server = &servers.servers[0];
    let silent: Vec<TcpStream> = (0..20).map(|_| connect(server)).collect();
    for bytes in [&[0; CLIENT_HELLO][..], b"GET / HTTP/1.1\r\n\r\nabcdefghijklmnopqrstuvwxyz", &[0xff; 4096]]
    {
        let mut stream = connect(server);
        stream.write_all(bytes).unwrap();
        assert!(is_closed(&mut stream));
    }
    create(&*servers.device(""), "/a").write_at(0, b"x").unwrap();
    drop(silent);
}

#[test]
fn oversized_and_unknown_frames() {
    let servers = TestServers::start(1);
    let (server, key) = (&servers.servers[0], servers.key());
    let mut head = FrameHead::new(5, 0, 1, b"", 0).encode();
    head[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
    let mut stream = greet(server, &key, 1).unwrap();
    stream.write_all(&head).unwrap();
    assert!(is_closed(&mut stream));
    // An operation of a later version is answered.
    let mut stream = greet(server, &key, 1).unwrap();
    stream.write_all(&FrameHead::new(200, 0, 7, b"", 0).encode()).unwrap();
    let mut answer = [0; HEAD];
    stream.read_exact(&mut answer).unwrap();
    let answer = FrameHead::decode(&answer).unwrap();
    assert_eq!((answer.operation, answer.number, answer.flags), (200, 7, 3));
}

/// Mutated frames with valid checksums reach the decoders of requests and the execution: answers or a closed connection, never a panic.
#[test]
fn mutated_requests_of_a_client_with_the_key() {
    let servers = TestServers::start_with(1, Duration::from_secs(10), |options| options.memory = 64 << 20);
    let (server, key) = (&servers.servers[0], servers.key());
    let flags = OpenFlags { read: true, write: true, create: true, ..OpenFlags::default() };
    let role = OpenRole::First { epochs: [0; 16] };
    let open = TunnelRequest::Open { name: b"m".to_vec(), flags, permissions: 0o600, stripe: 1 << 20, role };
    let strips = vec![aqueduct_device::Strip { offset: 5, len: 8, stride: 64, count: 4 }];
    let requests = [
        open,
        TunnelRequest::Read { handle: 1, strips: strips.clone() },
        TunnelRequest::Write { handle: 1, strips },
        TunnelRequest::Len { handle: 1 },
        TunnelRequest::SetLen { handle: 1, len: 100 },
        TunnelRequest::Lock {
            handle: 1,
            ticket: 1,
            start: 0,
            end: 10,
            exclusive: true,
            wait: false,
            known: 0,
        },
        TunnelRequest::List { prefix: b"m".to_vec(), after: Vec::new() },
        TunnelRequest::Delete { name: b"m".to_vec(), part: None },
        TunnelRequest::Evict { id: [1; 16], owners: vec![[2; 16]; 3] },
    ];
    let seeds: Vec<Vec<u8>> = requests
        .iter()
        .map(|request| {
            let mut bytes = vec![request.operation()];
            request.encode(&mut bytes);
            bytes
        })
        .collect();
    let mut mutator = Mutator::new(7, &[]);
    let (mut stream, mut answered) = (greet(server, &key, 1).unwrap(), 0);
    let frames = if std::env::var_os("AQUEDUCT_LONG_TESTS").is_some() { 100_000 } else { 3000 };
    for number in 0..frames {
        let bytes =
            if number % 3 == 0 { seeds[number / 3 % seeds.len()].clone() } else { mutator.mutate(&seeds) };
        // Preallocation would only take memory, and the last request ends the session.
        let Some((&operation, descriptor)) =
            bytes.split_first().filter(|(first, _)| ![8, 15].contains(*first))
        else {
            continue;
        };
        let payload = [1; 32];
        let payload = if operation == 5 { &payload[..] } else { &[] };
        let head = FrameHead::new(operation, 0, number as u64, descriptor, payload.len()).encode();
        let sent = stream.write_all(&[&head, descriptor, payload].concat());
        let mut answer = [0; HEAD];
        if sent.is_err() || stream.read_exact(&mut answer).is_err() {
            stream = greet(server, &key, 1).unwrap();
            continue;
        }
        let answer = FrameHead::decode(&answer).unwrap();
        let trailer = if answer.flags & 4 == 0 { 0 } else { 4 };
        let mut rest = vec![0; answer.descriptor + answer.payload + trailer];
        stream.read_exact(&mut rest).unwrap();
        answered += 1;
    }
    assert!(answered > 1000, "{answered}");
    let mut number = Vec::new();
    put_number(&mut number, 1);
    create(&*servers.device(""), "/afterwards").write_at(0, &number).unwrap();
}

#[test]
fn names_stay_in_the_folder_of_the_server() {
    let store = tempfile::tempdir().unwrap();
    let folder = store.path().join("inner");
    std::fs::create_dir(&folder).unwrap();
    let servers =
        TestServers::start_with(1, Duration::from_secs(10), |options| options.store = Some(folder.clone()));
    let device = servers.device("");
    for name in ["/../escaped", "/a/../../escaped", "/.."] {
        let error = device.open(name.as_ref(), &DeviceOpenOptions::read_write().create(true)).err().unwrap();
        assert_eq!(error.kind(), Kind::InvalidName, "{name}: {error}");
    }
    assert_eq!(std::fs::read_dir(store.path()).unwrap().count(), 1);
}

/// The path of a Unix socket that names another file is an error, and the file stays.
#[test]
fn a_file_at_the_path_of_a_socket_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results");
    std::fs::write(&path, "results").unwrap();
    let options = || ServerOptions {
        listen: vec![aqueduct_tunnel::Address::Unix(path.clone())],
        ..ServerOptions::default()
    };
    let error = TunnelServer::start(options()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse, "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"results");
    // What a killed server has left is replaced, a living one is not.
    std::fs::remove_file(&path).unwrap();
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = TunnelServer::start(options()).unwrap();
    assert!(TunnelServer::start(options()).is_err());
    drop(server);
    assert!(!path.exists());
}

/// The socket that the process of another user connects to.
const STRANGER: &str = "AQUEDUCT_TEST_STRANGER";

/// The body of a process of another user: prints how many bytes it gets for a hello.
#[test]
fn a_stranger_process() {
    let Some(path) = std::env::var_os(STRANGER) else { return };
    let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
    stream.write_all(&ClientHello { version: VERSION, features: 0, nonce: [5; 32] }.encode()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    println!("\n{} bytes", answer.len());
}

/// The kernel names the user at the other end of a Unix socket: another one gets no answer, although the socket lets it connect.
#[test]
fn another_user_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listen = vec![aqueduct_tunnel::Address::Unix(path.clone())];
    let server = TunnelServer::start(ServerOptions { listen, ..ServerOptions::default() }).unwrap();
    for (path, mode) in [(folder.path(), 0o755), (&path, 0o777)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "security::a_stranger_process", "--nocapture"]).env(STRANGER, &path).uid(65_534);
    let output = match command.output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => {
            eprintln!("skipped: a process of another user cannot be started: {error}");
            return;
        }
    };
    assert!(output.lines().any(|line| line == "0 bytes"), "{output}");
    assert_eq!(server.status().refused, 1);
    assert_eq!(server.status().sessions, 0);
}
