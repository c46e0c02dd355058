//! Tagged messages between two ranks, blocking and not.

use std::marker::PhantomData;

use crate::collective_id::CollectiveId;
use crate::matching::mailbox::MatchKey;
use crate::matching::packet::{Packet, PacketBody, PacketHeader, Plain};
use crate::{Comm, Error, Kind, Result};

/// Whom a message may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSource {
    /// This rank.
    Rank(usize),
    /// Whoever is first.
    Any,
}

impl From<usize> for MessageSource {
    fn from(rank: usize) -> Self {
        Self::Rank(rank)
    }
}

/// What is known of a message that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Who sent it.
    pub source: usize,
    /// Its length in bytes.
    pub bytes: usize,
}

impl Comm {
    /// Sends values to rank `to`; when it returns they may be changed. It may wait until the receiver is there.
    #[doc(alias = "MPI_Send")]
    pub fn send<T: Plain>(&self, to: usize, tag: u32, values: &[T]) -> Result<()> {
        self.check_rank(to, "send")?;
        self.inner.traffic.count(size_of_val(values));
        self.inner.transport.send(self.inner.members[to], self.header(tag), bytemuck::cast_slice(values))
    }

    /// Starts sending values to rank `to`. They move by pointer where the receiver is a thread of this process.
    #[doc(alias = "MPI_Isend")]
    pub fn start_send<T: Plain>(&self, to: usize, tag: u32, values: Vec<T>) -> Result<SendRequest> {
        self.check_rank(to, "start_send")?;
        self.inner.traffic.count(size_of_val(&values[..]));
        let post =
            self.inner.transport.post(self.inner.members[to], self.header(tag), PacketBody::new(values))?;
        Ok(SendRequest { comm: self.clone(), post })
    }

    /// Receives the next message with this tag from `from`.
    #[doc(alias = "MPI_Recv")]
    pub fn receive<T: Plain>(&self, from: impl Into<MessageSource>, tag: u32) -> Result<(Vec<T>, Status)> {
        self.start_receive(from, tag)?.wait()
    }

    /// Receives the next message into the front of `values`. One that does not fit is an error of kind
    /// [`Truncated`](Kind::Truncated) and is lost.
    pub fn receive_into<T: Plain>(
        &self,
        from: impl Into<MessageSource>,
        tag: u32,
        values: &mut [T],
    ) -> Result<Status> {
        let packet = self.start_receive::<T>(from, tag)?.wait_packet("receive_into")?;
        let (status, bytes) = (status_of(&packet), packet.body.bytes());
        let room: &mut [u8] = bytemuck::cast_slice_mut(values);
        if bytes.len() > room.len() || !bytes.len().is_multiple_of(size_of::<T>().max(1)) {
            let detail = format!(
                "the message of rank {} has {} bytes, the buffer {} in elements of {}; probe for the size first",
                status.source,
                bytes.len(),
                room.len(),
                size_of::<T>()
            );
            return Err(Error::new(Kind::Truncated, "receive_into", detail).caused_by(status.source));
        }
        room[..bytes.len()].copy_from_slice(bytes);
        Ok(status)
    }

    /// Starts receiving the next message with this tag from `from`. Receives are served in the order they were started.
    #[doc(alias = "MPI_Irecv")]
    pub fn start_receive<T: Plain>(
        &self,
        from: impl Into<MessageSource>,
        tag: u32,
    ) -> Result<ReceiveRequest<T>> {
        let from = from.into();
        let pattern = self.match_key(from, tag, "start_receive")?;
        let ticket = self.inner.transport.mailbox().post(pattern);
        Ok(ReceiveRequest {
            comm: self.clone(),
            from,
            match_key: pattern,
            ticket: Some(ticket),
            values: PhantomData,
        })
    }

    /// Waits for a message with this tag from `from` and says what it is, without receiving it.
    #[doc(alias = "MPI_Probe")]
    pub fn probe(&self, from: impl Into<MessageSource>, tag: u32) -> Result<Status> {
        let from = from.into();
        let pattern = self.match_key(from, tag, "probe")?;
        let (source, bytes) = self.inner.wait("probe", rank_of(from), |mailbox| mailbox.peek(pattern))?;
        Ok(Status { source: source as usize, bytes })
    }

    /// As [`probe`](Comm::probe), but does not wait.
    #[doc(alias = "MPI_Iprobe")]
    pub fn try_probe(&self, from: impl Into<MessageSource>, tag: u32) -> Result<Option<Status>> {
        let pattern = self.match_key(from.into(), tag, "try_probe")?;
        self.inner.transport.make_progress();
        let found = self.inner.transport.mailbox().peek(pattern);
        if found.is_none() {
            self.inner.transport.check_wait("try_probe")?;
        }
        Ok(found.map(|(source, bytes)| Status { source: source as usize, bytes }))
    }

    fn header(&self, tag: u32) -> PacketHeader {
        let context = self.inner.message_context();
        PacketHeader { context, source: self.rank() as u32, tag, call: [0; CollectiveId::LEN] }
    }

    fn match_key(&self, from: MessageSource, tag: u32, call: &'static str) -> Result<MatchKey> {
        let source = rank_of(from);
        source.map_or(Ok(()), |rank| self.check_rank(rank, call))?;
        Ok(MatchKey { context: self.inner.message_context(), tag, source: source.map(|rank| rank as u32) })
    }
}

fn rank_of(source: MessageSource) -> Option<usize> {
    match source {
        MessageSource::Rank(rank) => Some(rank),
        MessageSource::Any => None,
    }
}

fn status_of(packet: &Packet) -> Status {
    Status { source: packet.header.source as usize, bytes: packet.body.bytes().len() }
}

/// A send under way. It owns its values; dropping it lets the send go on.
#[derive(Debug)]
#[must_use = "a send is only known to have left after `wait`"]
pub struct SendRequest {
    comm: Comm,
    post: Option<u64>,
}

impl SendRequest {
    /// Waits until the values have left.
    pub fn wait(mut self) -> Result<()> {
        let Some(post) = self.post.take() else { return Ok(()) };
        let wire = &self.comm.inner.transport;
        wire.mailbox().wait(&**wire, "send", &[], |_| match wire.is_sent(post) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        })?
    }

    /// Whether the values have left.
    pub fn test(&mut self) -> Result<bool> {
        let Some(post) = self.post else { return Ok(true) };
        self.comm.inner.transport.make_progress();
        let departed = self.comm.inner.transport.is_sent(post)?;
        if departed {
            self.post = None;
        } else {
            self.comm.inner.transport.check_wait("send")?;
        }
        Ok(departed)
    }
}

/// A receive under way. Dropping it cancels it; a message that has come for it stays for the next one.
#[derive(Debug)]
#[must_use = "a receive gives its values to `wait`"]
pub struct ReceiveRequest<T: Plain> {
    comm: Comm,
    from: MessageSource,
    match_key: MatchKey,
    /// None once the message has been handed out.
    ticket: Option<u64>,
    values: PhantomData<T>,
}

impl<T: Plain> ReceiveRequest<T> {
    /// Waits for the message.
    pub fn wait(self) -> Result<(Vec<T>, Status)> {
        unpack(self.wait_packet("receive")?)
    }

    /// The message if it has come; after that, an error.
    pub fn test(&mut self) -> Result<Option<(Vec<T>, Status)>> {
        let ticket = self.ticket.ok_or_else(|| {
            Error::new(Kind::InvalidArgument, "receive", "this receive has already given its message")
        })?;
        self.comm.inner.transport.make_progress();
        let Some(packet) = self.comm.inner.transport.mailbox().take(ticket) else {
            return self.comm.inner.transport.check_wait("receive").map(|()| None);
        };
        self.ticket = None;
        unpack(packet).map(Some)
    }

    fn wait_packet(mut self, call: &'static str) -> Result<Packet> {
        let ticket = self.ticket.ok_or_else(|| {
            Error::new(Kind::InvalidArgument, call, "this receive has already given its message")
        })?;
        let inner = &self.comm.inner;
        let packet = inner.wait(call, rank_of(self.from), |mailbox| mailbox.take(ticket))?;
        self.ticket = None;
        Ok(packet)
    }
}

impl<T: Plain> Drop for ReceiveRequest<T> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.comm.inner.transport.mailbox().cancel(self.match_key, ticket);
        }
    }
}

fn unpack<T: Plain>(packet: Packet) -> Result<(Vec<T>, Status)> {
    let status = status_of(&packet);
    let values = packet.body.into_values("receive").map_err(|error| error.caused_by(status.source))?;
    Ok((values, status))
}

/// Waits for all receives, in any order of arrival.
#[doc(alias = "MPI_Waitall")]
pub fn wait_all<T: Plain>(
    receives: impl IntoIterator<Item = ReceiveRequest<T>>,
) -> Result<Vec<(Vec<T>, Status)>> {
    receives.into_iter().map(ReceiveRequest::wait).collect()
}

/// Waits for one of the receives, whichever comes first, and takes it out of the list; its place in the list and what it brought.
#[doc(alias = "MPI_Waitany")]
pub fn wait_any<T: Plain>(receives: &mut Vec<ReceiveRequest<T>>) -> Result<(usize, Vec<T>, Status)> {
    let Some(first) = receives.iter().find(|receive| receive.ticket.is_some()) else {
        return Err(Error::new(Kind::InvalidArgument, "wait_any", "there is no receive to wait for"));
    };
    let wire = std::sync::Arc::clone(&first.comm.inner.transport);
    let mailbox = wire.mailbox();
    if !receives.iter().all(|receive| std::ptr::eq(receive.comm.inner.transport.mailbox(), mailbox)) {
        let detail =
            "the receives are of communicators that have no world in common; wait for them one by one";
        return Err(Error::new(Kind::InvalidArgument, "wait_any", detail));
    }
    let waiting = receives.iter().filter(|receive| receive.ticket.is_some());
    let senders = waiting.flat_map(|receive| receive.comm.inner.senders(rank_of(receive.from)));
    let senders: Vec<usize> = senders.collect();
    let (place, packet) = mailbox.wait(&*wire, "wait_any", &senders, |mailbox| {
        receives.iter().enumerate().find_map(|(place, receive)| Some((place, mailbox.take(receive.ticket?)?)))
    })?;
    receives.remove(place).ticket = None;
    let (values, status) = unpack(packet)?;
    Ok((place, values, status))
}
