//! The greeting over a socket, on both sides.

use std::io::{self, ErrorKind, Write};
use std::time::{Duration, Instant};

use crate::key::{Key, ProofRole, random};
use crate::socket::{Socket, invalid};
use crate::wire::greeting::{
    CLIENT_HELLO, CLIENT_PROOF, ClientHello, ClientProof, GreetingResult, RESULT, SERVER_HELLO, ServerHello,
    ServerIdentity, SessionId, VERSION,
};

/// A server that has greeted.
pub(crate) struct GreetedServer {
    pub(crate) identity: ServerIdentity,
    /// It knows the session.
    pub(crate) resumed: bool,
    /// It ends sessions that are silent for so long.
    pub(crate) silence: Duration,
}

/// The time for a greeting.
pub(crate) const GREETING_TIME: Duration = Duration::from_secs(5);

/// A refused greeting takes so long, so that keys cannot be tried quickly.
const REFUSAL_DELAY: Duration = Duration::from_millis(200);

/// What a client says of itself.
#[derive(Clone, Debug)]
pub(crate) struct ClientIdentity {
    pub(crate) session: SessionId,
    pub(crate) slot: u32,
    pub(crate) name: String,
}

/// The key for a socket: the kernel names the user of a Unix socket, so that no secret is needed.
fn effective_key(socket: &Socket, key: Option<&Key>) -> Result<Key, String> {
    match (socket, key) {
        (Socket::Unix(_), _) => match socket.peer_user() {
            Some(user) if user == rustix::process::geteuid().as_raw() => Ok(Key::of_this_user()),
            _ => Err("the other end of this socket belongs to another user".into()),
        },
        (Socket::Tcp(_), Some(key)) => Ok(key.clone()),
        (Socket::Tcp(_), None) => Err("a key is needed: name its file in AQUEDUCT_KEY".into()),
    }
}

fn denied(text: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, text.into())
}

/// The bytes of a proof without the proof itself.
fn before_proof<const N: usize>(bytes: &[u8; N]) -> &[u8] {
    &bytes[..N - 32]
}

/// Greets a server; returns which one it is, and whether it knows the session. A server that has no room for a connection is an error of
/// the kind `QuotaExceeded`.
pub(crate) fn greet_server(
    socket: &mut Socket,
    key: Option<&Key>,
    client: &ClientIdentity,
    deadline: Instant,
) -> io::Result<GreetedServer> {
    let key = effective_key(socket, key).map_err(denied)?;
    let hello = ClientHello { version: VERSION, features: 0, nonce: random() }.encode();
    socket.write_all(&hello)?;
    let mut answer = [0; SERVER_HELLO];
    socket.read_exact_until(&mut answer, deadline)?;
    let server = ServerHello::decode(&answer).map_err(invalid)?;
    if server.version != VERSION {
        let text =
            format!("the server speaks version {} of the protocol, this program {VERSION}", server.version);
        return Err(denied(text));
    }
    if !key.is_proven(ProofRole::Server, &[&hello, before_proof(&answer)], &server.proof) {
        return Err(denied("the server does not have the key: another set of servers, or another key file"));
    }
    let ClientIdentity { session, slot, name } = client.clone();
    let mut proof = ClientProof { session, slot, name, proof: [0; 32] };
    proof.proof = key.prove(ProofRole::Client, &[&hello, &answer, before_proof(&proof.encode())]);
    socket.write_all(&proof.encode())?;
    let mut result = [0; RESULT];
    socket.read_exact_until(&mut result, deadline)?;
    match GreetingResult::decode(&result) {
        GreetingResult::Accepted { resumed } => {
            let silence = Duration::from_millis(u64::from(server.silence));
            Ok(GreetedServer { identity: server.identity, resumed, silence })
        }
        GreetingResult::Refused(text) => Err(denied(text)),
        GreetingResult::Busy(text) => Err(io::Error::new(ErrorKind::QuotaExceeded, text)),
    }
}

/// Greets a client; `admit` decides about a client that has proven the key, and says whether the session is known. Whom it refuses may come
/// again.
pub(crate) fn greet_client<T>(
    socket: &mut Socket,
    key: Option<&Key>,
    identity: ServerIdentity,
    silence: Duration,
    admit: impl FnOnce(ClientIdentity) -> Result<(T, bool), String>,
) -> io::Result<T> {
    let deadline = Instant::now() + GREETING_TIME;
    let mut hello = [0; CLIENT_HELLO];
    socket.read_exact_until(&mut hello, deadline)?;
    ClientHello::decode(&hello).map_err(invalid)?;
    let key = effective_key(socket, key).map_err(denied)?;
    let silence = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
    let mut answer =
        ServerHello { version: VERSION, features: 0, nonce: random(), identity, silence, proof: [0; 32] };
    answer.proof = key.prove(ProofRole::Server, &[&hello, before_proof(&answer.encode())]);
    let answer = answer.encode();
    socket.write_all(&answer)?;
    let mut bytes = [0; CLIENT_PROOF];
    socket.read_exact_until(&mut bytes, deadline)?;
    let proof = ClientProof::decode(&bytes).map_err(invalid)?;
    let outcome = if key.is_proven(ProofRole::Client, &[&hello, &answer, before_proof(&bytes)], &proof.proof)
    {
        admit(ClientIdentity { session: proof.session, slot: proof.slot, name: proof.name })
            .map_err(GreetingResult::Busy)
    } else {
        std::thread::sleep(REFUSAL_DELAY);
        Err(GreetingResult::Refused("the client does not have the key of this server".into()))
    };
    match outcome {
        Ok((admitted, resumed)) => {
            socket.write_all(&GreetingResult::Accepted { resumed }.encode())?;
            Ok(admitted)
        }
        Err(result) => {
            socket.write_all(&result.encode())?;
            Err(denied(format!("{result:?}")))
        }
    }
}
