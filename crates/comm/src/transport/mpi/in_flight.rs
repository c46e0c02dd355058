//! Packets in flight over MPI: small ones in one message, large ones as an envelope and a body in chunks.
//!
//! All MPI calls here are non-blocking and made under one lock, so that every thread level is sufficient.
//!
//! `unsafe` here: MPI reads and writes buffers after the call that passes them; they stay in these structures until the requests are
//! complete.
#![allow(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;

use super::abi::Abi;
use super::functions::MpiFunctions;
use crate::matching::mailbox::Mailbox;
use crate::matching::packet::{Packet, PacketBody, PacketHeader};
use crate::{Error, Kind, Result};

/// Bodies up to this size are sent with their header: below the eager limit of every implementation, so that a small send does not
/// wait for the receiver.
const INLINE: usize = 4096 - 128;
/// An MPI message counts its bytes in 31 bits.
const CHUNK: usize = 1 << 30;
const ENVELOPE: usize = PacketHeader::LEN + 4 + 8;
const ENVELOPE_TAG: c_int = 0;
/// Tags of bodies are reused cyclically below the minimum of `MPI_TAG_UB` that the standard guarantees.
const BODY_TAGS: c_int = 32_000;

pub(crate) struct InFlightMessages<A: Abi> {
    comm: A::Handle,
    outgoing: HashMap<u64, InFlightSend<A>>,
    /// By sender, in the order of arrival: a small packet must not overtake a large one.
    incoming: HashMap<usize, VecDeque<InFlightReceive<A>>>,
    posts: u64,
    body_tag: c_int,
}

struct InFlightSend<A: Abi> {
    requests: Vec<A::Handle>,
    /// Buffers that MPI still reads. The body is none if the caller keeps it.
    _envelope: Vec<u8>,
    _body: Option<PacketBody>,
}

struct InFlightReceive<A: Abi> {
    requests: Vec<A::Handle>,
    envelope: Vec<u8>,
    /// None until the envelope is received.
    body: Option<(PacketHeader, Vec<u8>)>,
}

impl<A: Abi> InFlightMessages<A> {
    pub(crate) fn new(comm: A::Handle) -> Self {
        Self { comm, outgoing: HashMap::new(), incoming: HashMap::new(), posts: 0, body_tag: 0 }
    }

    /// True if no message is being sent or received.
    pub(crate) fn is_idle(&self) -> bool {
        self.outgoing.is_empty() && self.incoming.is_empty()
    }

    pub(crate) fn is_sent(&self, post: u64) -> bool {
        !self.outgoing.contains_key(&post)
    }

    /// True if sending these bytes copies them.
    pub(crate) fn is_copied(bytes: &[u8]) -> bool {
        bytes.len() <= INLINE
    }

    /// Starts sending a body that is stored here.
    pub(crate) fn post(
        &mut self,
        mpi: &MpiFunctions<A>,
        to: usize,
        header: PacketHeader,
        body: PacketBody,
    ) -> Result<u64> {
        // SAFETY: the body is kept until the send is complete; a boxed vector does not move when its box does.
        let bytes = unsafe { std::slice::from_raw_parts(body.bytes().as_ptr(), body.bytes().len()) };
        // SAFETY: as above.
        let (post, outcome) = unsafe { self.start(mpi, to, header, bytes, Some(body)) }?;
        outcome.map(|()| post)
    }

    /// Starts sending bytes that the caller keeps.
    ///
    /// # Safety
    /// Unless they are [copied](Self::is_copied), `bytes` must stay valid and unchanged until [`is_sent`](Self::is_sent).
    pub(crate) unsafe fn post_borrowed(
        &mut self,
        mpi: &MpiFunctions<A>,
        to: usize,
        header: PacketHeader,
        bytes: &[u8],
    ) -> Result<(u64, Result<()>)> {
        // SAFETY: the caller's promise.
        unsafe { self.start(mpi, to, header, bytes, None) }
    }

    /// The number of the send, and whether all its requests could be started; an outer error means that none was.
    unsafe fn start(
        &mut self,
        mpi: &MpiFunctions<A>,
        to: usize,
        header: PacketHeader,
        bytes: &[u8],
        body: Option<PacketBody>,
    ) -> Result<(u64, Result<()>)> {
        let inline = Self::is_copied(bytes);
        if !inline {
            self.body_tag = self.body_tag % BODY_TAGS + 1;
        }
        let tag = if inline { 0 } else { self.body_tag };
        let envelope = encode_envelope(header, tag, bytes, inline);
        // SAFETY: the envelope is kept below, until the request is complete.
        let mut requests = vec![unsafe { mpi.isend(self.comm, to, ENVELOPE_TAG, &envelope) }?];
        let mut outcome = Ok(());
        if !inline {
            for chunk in bytes.chunks(CHUNK) {
                // SAFETY: the bytes are kept below, or by the caller, until the request is complete.
                match unsafe { mpi.isend(self.comm, to, tag, chunk) } {
                    Ok(request) => requests.push(request),
                    Err(error) => {
                        outcome = Err(error);
                        break;
                    }
                }
            }
        }
        self.posts += 1;
        self.outgoing.insert(self.posts, InFlightSend { requests, _envelope: envelope, _body: body });
        Ok((self.posts, outcome))
    }

    /// Advances all messages; true if any progressed.
    pub(crate) fn advance(&mut self, mpi: &MpiFunctions<A>, mailbox: &Mailbox) -> Result<bool> {
        let mut moved = self.advance_outgoing(mpi)?;
        while let Some(found) = mpi.improbe(self.comm, ENVELOPE_TAG)? {
            let (source, mut envelope) = (found.source, vec![0; found.bytes]);
            // SAFETY: the envelope has the length of the message and is kept below until the request is complete.
            let request = unsafe { mpi.imrecv(found, &mut envelope) }?;
            let receive = InFlightReceive { requests: vec![request], envelope, body: None };
            self.incoming.entry(source).or_default().push_back(receive);
            moved = true;
        }
        let sources: Vec<usize> = self.incoming.keys().copied().collect();
        for source in sources {
            moved |= self.advance_incoming(mpi, mailbox, source)?;
        }
        Ok(moved)
    }

    fn advance_outgoing(&mut self, mpi: &MpiFunctions<A>) -> Result<bool> {
        let before = self.outgoing.len();
        let mut outcome = Ok(());
        self.outgoing.retain(|_, outgoing| match all_complete(mpi, &mut outgoing.requests) {
            Ok(complete) => !complete,
            // Its other requests may still use the buffer.
            Err(error) => {
                outcome = Err(error);
                true
            }
        });
        outcome.map(|()| self.outgoing.len() < before)
    }

    /// Advances all packets of one sender and delivers those at the front that are complete.
    fn advance_incoming(&mut self, mpi: &MpiFunctions<A>, mailbox: &Mailbox, source: usize) -> Result<bool> {
        let Some(queue) = self.incoming.get_mut(&source) else { return Ok(false) };
        let mut moved = false;
        for receive in queue.iter_mut() {
            if receive.body.is_none() && all_complete(mpi, &mut receive.requests)? {
                receive.receive_body(mpi, self.comm, source)?;
                moved = true;
            }
        }
        while let Some(front) = queue.front_mut() {
            if front.body.is_none() || !all_complete(mpi, &mut front.requests)? {
                break;
            }
            if let Some((header, body)) = queue.pop_front().and_then(|arrived| arrived.body) {
                if header == PacketHeader::DEPARTURE {
                    mailbox.mark_departed(source);
                } else {
                    mailbox.deliver(Packet { header, body: PacketBody::new(body) });
                }
                moved = true;
            }
        }
        if queue.is_empty() {
            self.incoming.remove(&source);
        }
        Ok(moved)
    }
}

impl<A: Abi> Drop for InFlightMessages<A> {
    fn drop(&mut self) {
        // MPI still uses the buffers of messages in flight, so they are leaked.
        if !self.is_idle() {
            std::mem::forget(std::mem::take(&mut self.outgoing));
            std::mem::forget(std::mem::take(&mut self.incoming));
        }
    }
}

impl<A: Abi> InFlightReceive<A> {
    /// Takes the body from the received envelope, or starts receiving it.
    fn receive_body(&mut self, mpi: &MpiFunctions<A>, comm: A::Handle, source: usize) -> Result<()> {
        let (header, tag, len) = decode_envelope(&self.envelope, source)?;
        if tag == 0 {
            self.body = Some((header, self.envelope.split_off(ENVELOPE)));
            return Ok(());
        }
        let (_, body) = self.body.insert((header, vec![0; len]));
        for chunk in body.chunks_mut(CHUNK) {
            // SAFETY: the body is kept in this structure until all requests are complete.
            self.requests.push(unsafe { mpi.irecv(comm, source, tag, chunk) }?);
        }
        Ok(())
    }
}

fn all_complete<A: Abi>(mpi: &MpiFunctions<A>, requests: &mut Vec<A::Handle>) -> Result<bool> {
    while let Some(request) = requests.last_mut() {
        // A failed request is freed like a complete one.
        let complete = mpi.test(request);
        if !matches!(complete, Ok(false)) {
            requests.pop();
        }
        if !complete? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn encode_envelope(header: PacketHeader, tag: c_int, bytes: &[u8], inline: bool) -> Vec<u8> {
    let inline = if inline { bytes } else { &[] };
    let mut envelope = Vec::with_capacity(ENVELOPE + inline.len());
    envelope.extend_from_slice(&header.encode());
    envelope.extend_from_slice(&tag.to_le_bytes());
    envelope.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    envelope.extend_from_slice(inline);
    envelope
}

fn decode_envelope(envelope: &[u8], source: usize) -> Result<(PacketHeader, c_int, usize)> {
    let parts = envelope.split_first_chunk::<{ PacketHeader::LEN }>().and_then(|(header, rest)| {
        let (tag, rest) = rest.split_first_chunk::<4>()?;
        let (len, _) = rest.split_first_chunk::<8>()?;
        let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
        Some((PacketHeader::decode(header), c_int::from_le_bytes(*tag), len))
    });
    parts.ok_or_else(|| {
        let detail =
            format!("process {source} sent an invalid message; run the same program on all processes");
        Error::new(Kind::Mismatch, "receive", detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective_id::CollectiveId;

    #[test]
    fn envelopes_are_decoded_and_truncated_ones_are_rejected() {
        let header = PacketHeader { context: 4, source: 1, tag: 9, call: [1; CollectiveId::LEN] };
        let envelope = encode_envelope(header, 7, &[1, 2, 3], true);
        assert_eq!(envelope.len(), ENVELOPE + 3);
        assert_eq!(decode_envelope(&envelope, 0).unwrap(), (header, 7, 3));
        assert_eq!(decode_envelope(&envelope[..ENVELOPE - 1], 3).unwrap_err().kind(), Kind::Mismatch);
    }
}
