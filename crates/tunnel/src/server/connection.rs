//! A connection: reads a request, executes it, answers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aqueduct_device::{Error, Kind, Operation};

use super::ServerState;
use super::buffer_memory::RequestBuffers;
use super::greetings::GreetingTicket;
use super::operation::execute;
use super::session::{KeptAnswer, Session, SessionConnection};
use crate::handshake::greet_client;
use crate::socket::{FrameSocket, Socket, invalid};
use crate::wire::answer::{Answer, WireError};
use crate::wire::frame::{ANSWER, ERROR, FrameHead, PAYLOAD_CHECKSUM};
use crate::wire::request::TunnelRequest;

/// Buffers of a connection that is idle for so long are freed.
const IDLE: Duration = Duration::from_secs(1);

/// Greets a client and serves it until the connection ends.
pub(super) fn serve(state: &ServerState, mut socket: Socket, greeting: GreetingTicket) {
    let admitted = greet(state, &mut socket);
    drop(greeting);
    let Ok((session, slot)) = admitted else {
        state.refused.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let mut connection = ServedConnection {
        state,
        session,
        slot,
        socket: FrameSocket::new(socket),
        buffers: RequestBuffers::new(&state.buffers),
    };
    // Whatever ends it, the session goes on for a while: the client may connect again.
    let ended = loop {
        match connection.serve_one() {
            Ok(true) => {}
            Ok(false) => break true,
            Err(_) => break false,
        }
    };
    connection.socket.socket.shut_down();
    connection.slot.disconnect();
    let id = connection.session.id;
    drop(connection);
    if ended {
        state.sessions.end(&id, &state.files);
    }
}

type Admitted = (Arc<Session>, SessionConnection);

fn greet(state: &ServerState, socket: &mut Socket) -> io::Result<Admitted> {
    socket.configure(state.options.silence)?;
    socket.set_write_timeout(Some(state.options.silence))?;
    let for_shutdown = socket.try_clone()?;
    greet_client(socket, state.options.key.as_ref(), state.identity, state.options.silence, |client| {
        let connections = state.connections.load(Ordering::Acquire);
        // One that replaces another is no further one.
        if connections > state.options.connections && !state.sessions.knows(&client.session, client.slot) {
            return Err(format!(
                "the server has its {} connections; start it with --connections",
                state.options.connections
            ));
        }
        let (session, slot, known) = state.sessions.admit(client.session, client.slot, for_shutdown)?;
        Ok(((session, slot), known))
    })
    .and_then(|admitted| {
        // Inside of a frame a client may pause for so long; between two frames the timeout is ignored.
        socket.set_timeout(Some(state.options.silence))?;
        Ok(admitted)
    })
}

struct ServedConnection<'a> {
    state: &'a ServerState,
    session: Arc<Session>,
    slot: SessionConnection,
    socket: FrameSocket,
    buffers: RequestBuffers<'a>,
}

impl ServedConnection<'_> {
    /// Serves a request; false if it was the last one.
    fn serve_one(&mut self) -> io::Result<bool> {
        let (head, checksum) = self.receive()?;
        self.session.touch();
        let request = TunnelRequest::decode(head.operation, &self.buffers.descriptor).map_err(invalid)?;
        if checksum.is_some_and(|sum| sum != crc32c::crc32c(self.buffers.payload.bytes())) {
            return Err(invalid("the checksum of a payload is wrong"));
        }
        if self.session.has_ended() {
            return Err(invalid("the session has ended"));
        }
        let is_last = request == Some(TunnelRequest::Bye);
        let Some(flags) = self.answer(&head, request.as_ref()) else {
            return Err(invalid("the connection was replaced"));
        };
        if head.operation != TunnelRequest::Ping.operation() {
            self.state.requests.fetch_add(1, Ordering::Relaxed);
        }
        self.send(&head, flags)?;
        self.buffers.share();
        Ok(!is_last)
    }

    /// Receives a frame into the buffers; the checksum of the payload, if there is one.
    fn receive(&mut self) -> io::Result<(FrameHead, Option<u32>)> {
        if self.buffers.hold_memory() && !self.socket.wait_readable(IDLE)? {
            self.buffers.free();
        }
        let buffers = &mut self.buffers;
        let head = self.socket.read_head(
            |head| buffers.reserve(head),
            // Between two frames the client may be idle for any time.
            &mut |done| done == 0,
        )?;
        let (head, payload) = (head, &mut self.buffers.payload);
        let mut never = |_: usize| false;
        self.socket.read_exact(payload.prepare(head.payload), &mut never)?;
        let mut checksum = [0; 4];
        if head.flags & PAYLOAD_CHECKSUM == 0 {
            return Ok((head, None));
        }
        self.socket.read_exact(&mut checksum, &mut never)?;
        Ok((head, Some(u32::from_le_bytes(checksum))))
    }

    /// Executes a request and encodes the answer; its flags, or none if the connection was replaced.
    fn answer(&mut self, head: &FrameHead, request: Option<&TunnelRequest>) -> Option<u8> {
        let RequestBuffers { payload, answer, .. } = &mut self.buffers;
        answer.clear();
        let (state, session) = (self.state, &*self.session);
        self.slot.execute(|kept| {
            let once = request.is_some_and(TunnelRequest::is_answered_once);
            if let Some(known) = kept.as_ref().filter(|known| once && known.number == head.number) {
                answer.extend_from_slice(&known.descriptor);
                return known.flags;
            }
            let outcome = match request {
                Some(request) => execute(state, session, request, payload),
                None => Err(unknown_operation(head.operation)),
            };
            let is_read = matches!(request, Some(TunnelRequest::Read { .. }));
            if !is_read || outcome.is_err() {
                payload.truncate(0);
            }
            let flags = encode(outcome, answer);
            if once {
                *kept = Some(KeptAnswer { number: head.number, flags, descriptor: answer.clone() });
            }
            flags
        })
    }

    fn send(&mut self, request: &FrameHead, flags: u8) -> io::Result<()> {
        let (payload, answer) = (self.buffers.payload.bytes(), &self.buffers.answer);
        let flags = flags | if payload.is_empty() { 0 } else { PAYLOAD_CHECKSUM };
        let head = FrameHead::new(request.operation, flags, request.number, answer, payload.len()).encode();
        let checksum = if payload.is_empty() { [0; 4] } else { crc32c::crc32c(payload).to_le_bytes() };
        let trailer = if payload.is_empty() { &checksum[..0] } else { &checksum[..] };
        self.socket.send(&[&head, answer, payload, trailer])
    }
}

fn unknown_operation(operation: u8) -> Error {
    let error = Error::new(Kind::Unsupported, Operation::Open, "");
    error.advise(format!("this server does not know operation {operation}; it is older than the client"))
}

fn encode(outcome: aqueduct_device::Result<Answer>, out: &mut Vec<u8>) -> u8 {
    match outcome {
        Ok(answer) => {
            answer.encode(out);
            ANSWER
        }
        Err(error) => {
            WireError::new(&error).encode(out);
            ANSWER | ERROR
        }
    }
}
