//! A connection of a client: sends requests, receives answers in the same order.

use std::io;

use crate::socket::{FrameSocket, Socket, invalid};
use crate::wire::answer::{Answer, WireError};
use crate::wire::frame::{ANSWER, ERROR, FrameHead, PAYLOAD_CHECKSUM};
use crate::wire::request::TunnelRequest;

/// Up to so many slices are sent and received without a copy.
const DIRECT_SLICES: usize = 64;

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum TunnelCallError {
    /// The connection is broken; the call can be repeated on another one.
    Broken(io::Error),
    /// The server refuses.
    Refused(WireError),
}

impl From<io::Error> for TunnelCallError {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// An answer, and how many bytes of payload follow it.
pub(super) struct Reply {
    pub(super) answer: Answer,
    pub(super) payload: usize,
    has_checksum: bool,
}

#[derive(Debug)]
pub(super) struct Connection {
    socket: FrameSocket,
    pub(super) slot: u32,
    descriptor: Vec<u8>,
    staging: Vec<u8>,
    /// Whether payloads have checksums.
    check: bool,
}

impl Connection {
    pub(super) fn new(socket: Socket, slot: u32, check: bool) -> Self {
        Self { socket: FrameSocket::new(socket), slot, descriptor: Vec::new(), staging: Vec::new(), check }
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket.socket
    }

    /// Sends a request with the slices as payload; returns the bytes of its descriptor.
    pub(super) fn send(
        &mut self,
        number: u64,
        request: &TunnelRequest,
        payload: &[&[u8]],
    ) -> io::Result<usize> {
        self.descriptor.clear();
        request.encode(&mut self.descriptor);
        let bytes: usize = payload.iter().map(|part| part.len()).sum();
        let flags = if self.check && bytes > 0 { PAYLOAD_CHECKSUM } else { 0 };
        let head = FrameHead::new(request.operation(), flags, number, &self.descriptor, bytes).encode();
        let gathered;
        let payload = if payload.len() <= DIRECT_SLICES {
            payload
        } else {
            self.staging.clear();
            payload.iter().for_each(|part| self.staging.extend_from_slice(part));
            gathered = [self.staging.as_slice()];
            &gathered
        };
        let checksum =
            if flags == 0 { 0 } else { payload.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part)) };
        let checksum = checksum.to_le_bytes();
        let trailer = if flags == 0 { &checksum[..0] } else { &checksum[..] };
        let mut slices: Vec<&[u8]> = Vec::with_capacity(payload.len() + 3);
        slices.extend_from_slice(&[&head, &self.descriptor]);
        slices.extend_from_slice(payload);
        slices.push(trailer);
        self.socket.send(&slices)?;
        Ok(self.descriptor.len())
    }

    /// Receives the answer of the request with this number.
    pub(super) fn receive(&mut self, number: u64, operation: u8) -> Result<Reply, TunnelCallError> {
        let descriptor = &mut self.descriptor;
        let head = self.socket.read_head(|_| descriptor, &mut |_| false)?;
        if head.flags & ANSWER == 0 || head.number != number || head.operation != operation {
            return Err(invalid("an answer to another request").into());
        }
        if head.flags & ERROR != 0 {
            let error = WireError::decode(&self.descriptor).map_err(invalid)?;
            return Err(if head.payload == 0 {
                TunnelCallError::Refused(error)
            } else {
                invalid("an error with a payload").into()
            });
        }
        let answer = Answer::decode(&self.descriptor).map_err(invalid)?;
        Ok(Reply { answer, payload: head.payload, has_checksum: head.flags & PAYLOAD_CHECKSUM != 0 })
    }

    /// Receives a payload into the slices, in order; what is left of them becomes zero, or stays.
    pub(super) fn receive_payload(
        &mut self,
        reply: &Reply,
        parts: &mut [&mut [u8]],
        zeros: bool,
    ) -> io::Result<()> {
        let room: usize = parts.iter().map(|part| part.len()).sum();
        if reply.payload > room {
            return Err(invalid("an answer with more bytes than were asked for"));
        }
        let mut never = |_: usize| false;
        let (mut left, mut sum) = (reply.payload, 0);
        if parts.len() > DIRECT_SLICES {
            self.staging.resize(reply.payload, 0);
            self.socket.read_exact(&mut self.staging, &mut never)?;
            sum = crc32c::crc32c(&self.staging);
        }
        let mut at = 0;
        let gathered = parts.len() > DIRECT_SLICES;
        for part in parts {
            let (now, rest) = part.split_at_mut(left.min(part.len()));
            if gathered {
                now.copy_from_slice(&self.staging[at..at + now.len()]);
            } else if !now.is_empty() {
                self.socket.read_exact(now, &mut never)?;
                if reply.has_checksum {
                    sum = crc32c::crc32c_append(sum, now);
                }
            }
            if zeros {
                rest.fill(0);
            }
            at += now.len();
            left -= now.len();
        }
        if !reply.has_checksum {
            return Ok(());
        }
        let mut expected = [0; 4];
        self.socket.read_exact(&mut expected, &mut never)?;
        if u32::from_le_bytes(expected) == sum {
            Ok(())
        } else {
            Err(invalid("the checksum of a payload is wrong"))
        }
    }

    /// A request and its answer without payloads.
    pub(super) fn call(&mut self, number: u64, request: &TunnelRequest) -> Result<Answer, TunnelCallError> {
        self.send(number, request, &[])?;
        let reply = self.receive(number, request.operation())?;
        if reply.payload > 0 {
            return Err(invalid("an answer with an unexpected payload").into());
        }
        Ok(reply.answer)
    }
}
