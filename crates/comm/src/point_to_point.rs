//! Tagged messages between two ranks, blocking and non-blocking.

use std::marker::PhantomData;

use crate::collective_id::CollectiveId;
use crate::matching::mailbox::MatchKey;
use crate::matching::packet::{MessageBody, Packet, PacketBody, PacketHeader, Plain};
use crate::{Comm, Error, Kind, Result};

/// The sender of a message to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSource {
    /// This rank.
    Rank(usize),
    /// Any rank.
    Any,
}

impl From<usize> for MessageSource {
    fn from(rank: usize) -> Self {
        Self::Rank(rank)
    }
}

/// The sender and length of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The sender.
    pub source: usize,
    /// Its length in bytes.
    pub bytes: usize,
}

impl Comm {
    /// Sends values to rank `to`; when it returns they may be changed. It may wait for the receiver.
    #[doc(alias = "MPI_Send")]
    pub fn send<T: Plain>(&self, to: usize, tag: u32, values: &[T]) -> Result<()> {
        self.check_rank(to, "send")?;
        self.inner.traffic.count(size_of_val(values));
        self.inner.transport.send(self.inner.members[to], self.header(tag), bytemuck::cast_slice(values))
    }

    /// Starts sending values to rank `to`. They are passed by pointer if the receiver is a thread of this process.
    #[doc(alias = "MPI_Isend")]
    pub fn start_send<T: Plain>(&self, to: usize, tag: u32, values: Vec<T>) -> Result<SendRequest> {
        self.check_rank(to, "start_send")?;
        self.inner.traffic.count(size_of_val(&values[..]));
        let post =
            self.inner.transport.post(self.inner.members[to], self.header(tag), PacketBody::new(values))?;
        Ok(SendRequest { comm: self.clone(), post })
    }

    /// As [`send`](Comm::send), for bytes of a type that the receiver knows by `code`: it comes with the [message](Message), outside its bytes.
    pub fn send_coded(&self, to: usize, tag: u32, code: u64, bytes: &[u8]) -> Result<()> {
        self.check_rank(to, "send")?;
        self.inner.traffic.count(bytes.len());
        self.inner.transport.send(self.inner.members[to], self.coded_header(tag, code), bytes)
    }

    /// As [`start_send`](Comm::start_send), for any body of a type that the receiver knows by `code`.
    ///
    /// ```
    /// aqueduct_comm::Launch::threads(2).run(|world| {
    ///     if world.rank() == 0 {
    ///         return world.start_send_coded(1, 5, 77, vec![1.5f64; 3])?.wait();
    ///     }
    ///     let message = world.start_receive::<u8>(0, 5)?.wait_message()?;
    ///     assert_eq!((message.code(), message.bytes().len()), (77, 24));
    ///     // The sent vector itself: the sender is a thread of this process.
    ///     assert_eq!(message.into_body::<Vec<f64>>().unwrap(), [1.5; 3]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn start_send_coded(
        &self,
        to: usize,
        tag: u32,
        code: u64,
        body: impl MessageBody,
    ) -> Result<SendRequest> {
        self.check_rank(to, "start_send")?;
        self.inner.traffic.count(body.bytes().len());
        let header = self.coded_header(tag, code);
        let post = self.inner.transport.post(self.inner.members[to], header, PacketBody::new(body))?;
        Ok(SendRequest { comm: self.clone(), post })
    }

    /// Receives the next message with this tag from `from`.
    #[doc(alias = "MPI_Recv")]
    pub fn receive<T: Plain>(&self, from: impl Into<MessageSource>, tag: u32) -> Result<(Vec<T>, Status)> {
        self.start_receive(from, tag)?.wait()
    }

    /// Receives the next message into the start of `values`. A message that does not fit is an error of kind
    /// [`Truncated`](Kind::Truncated) and is lost.
    pub fn receive_into<T: Plain>(
        &self,
        from: impl Into<MessageSource>,
        tag: u32,
        values: &mut [T],
    ) -> Result<Status> {
        let packet = self.start_receive::<T>(from, tag)?.wait_packet("receive_into")?;
        let (status, bytes) = (status_of(&packet), packet.body.bytes());
        let buffer: &mut [u8] = bytemuck::cast_slice_mut(values);
        if bytes.len() > buffer.len() || !bytes.len().is_multiple_of(size_of::<T>().max(1)) {
            let detail = format!(
                "the message of rank {} has {} bytes, the buffer {} in elements of {}; probe for the size first",
                status.source,
                bytes.len(),
                buffer.len(),
                size_of::<T>()
            );
            return Err(Error::new(Kind::Truncated, "receive_into", detail).caused_by(status.source));
        }
        buffer[..bytes.len()].copy_from_slice(bytes);
        Ok(status)
    }

    /// Starts receiving the next message with this tag from `from`. Receives are matched in the order in which they were started.
    #[doc(alias = "MPI_Irecv")]
    pub fn start_receive<T: Plain>(
        &self,
        from: impl Into<MessageSource>,
        tag: u32,
    ) -> Result<ReceiveRequest<T>> {
        let from = from.into();
        let match_key = self.match_key(from, tag, "start_receive")?;
        let receive_id = self.inner.transport.mailbox().post(match_key);
        Ok(ReceiveRequest {
            comm: self.clone(),
            from,
            match_key,
            receive_id: Some(receive_id),
            values: PhantomData,
        })
    }

    /// Waits for a message with this tag from `from` and returns its status, without receiving it.
    #[doc(alias = "MPI_Probe")]
    pub fn probe(&self, from: impl Into<MessageSource>, tag: u32) -> Result<Status> {
        let from = from.into();
        let match_key = self.match_key(from, tag, "probe")?;
        let (source, bytes) = self.inner.wait("probe", rank_of(from), |mailbox| mailbox.peek(match_key))?;
        Ok(Status { source: source as usize, bytes })
    }

    /// As [`probe`](Comm::probe), but does not wait.
    #[doc(alias = "MPI_Iprobe")]
    pub fn try_probe(&self, from: impl Into<MessageSource>, tag: u32) -> Result<Option<Status>> {
        let match_key = self.match_key(from.into(), tag, "try_probe")?;
        self.inner.transport.make_progress();
        let found = self.inner.transport.mailbox().peek(match_key);
        if found.is_none() {
            self.inner.transport.check_wait("try_probe")?;
        }
        Ok(found.map(|(source, bytes)| Status { source: source as usize, bytes }))
    }

    fn header(&self, tag: u32) -> PacketHeader {
        let context = self.inner.message_context();
        PacketHeader { context, source: self.rank() as u32, tag, call: [0; CollectiveId::LEN] }
    }

    /// The code is where packets of collective calls have the call.
    fn coded_header(&self, tag: u32, code: u64) -> PacketHeader {
        let mut header = self.header(tag);
        header.call[..8].copy_from_slice(&code.to_le_bytes());
        header
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

/// A send in progress. It owns its values; the send continues if it is dropped.
#[derive(Debug)]
#[must_use = "a send is only known to be complete after `wait`"]
pub struct SendRequest {
    comm: Comm,
    post: Option<u64>,
}

impl SendRequest {
    /// Waits until the send is complete.
    pub fn wait(mut self) -> Result<()> {
        let Some(post) = self.post.take() else { return Ok(()) };
        let transport = &self.comm.inner.transport;
        transport.mailbox().wait(&**transport, "send", &[], |_| match transport.is_sent(post) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        })?
    }

    /// True if the send is complete.
    pub fn test(&mut self) -> Result<bool> {
        let Some(post) = self.post else { return Ok(true) };
        self.comm.inner.transport.make_progress();
        let is_sent = self.comm.inner.transport.is_sent(post)?;
        if is_sent {
            self.post = None;
        } else {
            self.comm.inner.transport.check_wait("send")?;
        }
        Ok(is_sent)
    }
}

/// A received message with its code; see [`Comm::start_send_coded`].
#[derive(Debug)]
pub struct Message(Packet);

impl Message {
    /// The sender and the length.
    pub fn status(&self) -> Status {
        status_of(&self.0)
    }

    /// The code that it was sent with; 0 if it was sent without one.
    pub fn code(&self) -> u64 {
        let mut code = [0; 8];
        code.copy_from_slice(&self.0.header.call[..8]);
        u64::from_le_bytes(code)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.body.bytes()
    }

    /// The sent body itself, if the sender is a thread of this process and sent a `B`.
    pub fn into_body<B: std::any::Any>(self) -> std::result::Result<B, Self> {
        let header = self.0.header;
        self.0.body.downcast().map_err(|body| Self(Packet { header, body }))
    }
}

/// A receive in progress. Dropping it cancels it; its message is then matched with the next receive.
#[derive(Debug)]
#[must_use = "`wait` returns the received values"]
pub struct ReceiveRequest<T: Plain> {
    comm: Comm,
    from: MessageSource,
    match_key: MatchKey,
    /// None after the message has been returned.
    receive_id: Option<u64>,
    values: PhantomData<T>,
}

impl<T: Plain> ReceiveRequest<T> {
    /// Waits for the message.
    pub fn wait(self) -> Result<(Vec<T>, Status)> {
        unpack(self.wait_packet("receive")?)
    }

    /// The message if it has arrived. An error after the message was returned.
    pub fn test(&mut self) -> Result<Option<(Vec<T>, Status)>> {
        self.test_packet()?.map(unpack).transpose()
    }

    fn test_packet(&mut self) -> Result<Option<Packet>> {
        let receive_id = self.receive_id.ok_or_else(|| {
            Error::new(Kind::InvalidArgument, "receive", "the message of this receive was already returned")
        })?;
        self.comm.inner.transport.make_progress();
        let Some(packet) = self.comm.inner.transport.mailbox().take(receive_id) else {
            return self.comm.inner.transport.check_wait("receive").map(|()| None);
        };
        self.receive_id = None;
        Ok(Some(packet))
    }

    /// Waits for the message; with its code, and its body as it was sent.
    pub fn wait_message(self) -> Result<Message> {
        self.wait_packet("receive").map(Message)
    }

    /// As [`test`](Self::test), for [`wait_message`](Self::wait_message).
    pub fn test_message(&mut self) -> Result<Option<Message>> {
        Ok(self.test_packet()?.map(Message))
    }

    fn wait_packet(mut self, call: &'static str) -> Result<Packet> {
        let receive_id = self.receive_id.ok_or_else(|| {
            Error::new(Kind::InvalidArgument, call, "the message of this receive was already returned")
        })?;
        let inner = &self.comm.inner;
        let packet = inner.wait(call, rank_of(self.from), |mailbox| mailbox.take(receive_id))?;
        self.receive_id = None;
        Ok(packet)
    }
}

impl<T: Plain> Drop for ReceiveRequest<T> {
    fn drop(&mut self) {
        if let Some(receive_id) = self.receive_id {
            self.comm.inner.transport.mailbox().cancel(self.match_key, receive_id);
        }
    }
}

fn unpack<T: Plain>(packet: Packet) -> Result<(Vec<T>, Status)> {
    let status = status_of(&packet);
    let values = packet.body.into_values("receive").map_err(|error| error.caused_by(status.source))?;
    Ok((values, status))
}

/// Waits for all receives.
#[doc(alias = "MPI_Waitall")]
pub fn wait_all<T: Plain>(
    receives: impl IntoIterator<Item = ReceiveRequest<T>>,
) -> Result<Vec<(Vec<T>, Status)>> {
    receives.into_iter().map(ReceiveRequest::wait).collect()
}

/// Waits for the first receive that completes and removes it from the list; its index, its values and its status.
#[doc(alias = "MPI_Waitany")]
pub fn wait_any<T: Plain>(receives: &mut Vec<ReceiveRequest<T>>) -> Result<(usize, Vec<T>, Status)> {
    let Some(first) = receives.iter().find(|receive| receive.receive_id.is_some()) else {
        return Err(Error::new(Kind::InvalidArgument, "wait_any", "the list has no receive in progress"));
    };
    let transport = std::sync::Arc::clone(&first.comm.inner.transport);
    let mailbox = transport.mailbox();
    if !receives.iter().all(|receive| std::ptr::eq(receive.comm.inner.transport.mailbox(), mailbox)) {
        let detail =
            "the receives belong to communicators of different worlds; wait for each of them separately";
        return Err(Error::new(Kind::InvalidArgument, "wait_any", detail));
    }
    let waiting = receives.iter().filter(|receive| receive.receive_id.is_some());
    let senders = waiting.flat_map(|receive| receive.comm.inner.senders(rank_of(receive.from)));
    let senders: Vec<usize> = senders.collect();
    let (place, packet) = mailbox.wait(&*transport, "wait_any", &senders, |mailbox| {
        receives
            .iter()
            .enumerate()
            .find_map(|(place, receive)| Some((place, mailbox.take(receive.receive_id?)?)))
    })?;
    receives.remove(place).receive_id = None;
    let (values, status) = unpack(packet)?;
    Ok((place, values, status))
}
