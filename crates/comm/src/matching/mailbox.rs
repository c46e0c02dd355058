//! Matching of packets and receives by communicator, tag and source, in the order of arrival and of posting.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::PoisonError;
use std::time::Duration;

use crate::matching::packet::Packet;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::wait_context::WaitContext;
use crate::{Error, Kind, Result};

/// The message that a receive matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MatchKey {
    pub(crate) context: u64,
    pub(crate) tag: u32,
    /// A rank of the communicator; none: any rank.
    pub(crate) source: Option<u32>,
}

/// The messages of one rank.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    state: Mutex<MailboxState>,
    arrival: Condvar,
}

#[derive(Debug, Default)]
struct MailboxState {
    /// Packets without a matching receive, in the order of arrival.
    unexpected: HashMap<QueueKey, VecDeque<UnexpectedMessage>>,
    /// Receives without a matching packet, in the order of posting.
    posted: HashMap<QueueKey, VecDeque<PostedReceive>>,
    /// Matched packets, by the id of the receive.
    matched: HashMap<u64, (PostedReceive, UnexpectedMessage)>,
    /// Numbers receives and packets.
    clock: u64,
    /// Counts changes that may end a wait.
    events: u64,
    failed: bool,
    /// World ranks that send no more messages.
    departed: HashSet<usize>,
}

/// Context and tag.
type QueueKey = (u64, u32);

#[derive(Debug)]
struct PostedReceive {
    receive_id: u64,
    source: Option<u32>,
}

#[derive(Debug)]
struct UnexpectedMessage {
    number: u64,
    packet: Packet,
}

impl Mailbox {
    /// Delivers a packet to the oldest matching receive.
    pub(crate) fn deliver(&self, packet: Packet) {
        self.change(|state| {
            let number = state.tick();
            state.match_or_queue(UnexpectedMessage { number, packet });
        });
    }

    /// Posts a receive; its id.
    pub(crate) fn post(&self, key: MatchKey) -> u64 {
        let mut state = self.lock();
        let receive = PostedReceive { receive_id: state.tick(), source: key.source };
        let receive_id = receive.receive_id;
        match state.take_unexpected(key) {
            Some(arrived) => {
                state.matched.insert(receive_id, (receive, arrived));
            }
            None => state.posted.entry(key.queue_key()).or_default().push_back(receive),
        }
        receive_id
    }

    /// Cancels a receive. If its packet has arrived, the packet and later ones are matched with the remaining receives, as if this receive
    /// had never been posted.
    pub(crate) fn cancel(&self, key: MatchKey, receive_id: u64) {
        let queue = key.queue_key();
        self.change(|state| match state.matched.remove(&receive_id) {
            Some((_, arrived)) => state.rematch(queue, arrived),
            None => {
                if let Some(posted) = state.posted.get_mut(&queue) {
                    posted.retain(|receive| receive.receive_id != receive_id);
                    drop_if_empty(&mut state.posted, queue);
                }
            }
        });
    }

    /// The packet of a receive, if it has arrived.
    pub(crate) fn take(&self, receive_id: u64) -> Option<Packet> {
        self.lock().matched.remove(&receive_id).map(|(_, arrived)| arrived.packet)
    }

    /// Sender and length of the first packet that would match.
    pub(crate) fn peek(&self, key: MatchKey) -> Option<(u32, usize)> {
        let state = self.lock();
        let mut early = state.unexpected.get(&key.queue_key())?.iter();
        let UnexpectedMessage { packet, .. } = early.find(|arrived| accepts(key.source, &arrived.packet))?;
        Some((packet.header.source, packet.body.bytes().len()))
    }

    /// Waits until `ready` returns a value. `senders` are the world ranks that can provide it: if all of them have departed, or a
    /// rank has failed, the wait fails.
    pub(crate) fn wait<T>(
        &self,
        context: &dyn WaitContext,
        call: &'static str,
        senders: &[usize],
        mut ready: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T> {
        loop {
            let longest = context.make_progress();
            let seen = self.lock().events;
            if let Some(found) = ready(self) {
                return Ok(found);
            }
            context.check_wait(call)?;
            let state = self.lock();
            if state.events != seen {
                // The message may have arrived right before its sender departed or failed.
                continue;
            }
            if state.failed {
                drop(state);
                let unknown = || Error::new(Kind::RankFailed, call, "a rank has failed");
                let error = context.failure(call).unwrap_or_else(unknown);
                context.mark_induced_failure(error.rank());
                return Err(error);
            }
            if !senders.is_empty() && senders.iter().all(|sender| state.departed.contains(sender)) {
                let error = all_departed_error(call, senders);
                context.mark_induced_failure(error.rank());
                return Err(error);
            }
            self.sleep(state, longest);
        }
    }

    fn sleep(&self, state: MutexGuard<'_, MailboxState>, longest: Option<Duration>) {
        match longest {
            // The transport has given the core away already; a wait with a timeout of zero takes the slack of timers, 50 µs.
            Some(longest) if longest.is_zero() => {}
            None => drop(self.arrival.wait(state).unwrap_or_else(PoisonError::into_inner)),
            Some(longest) => {
                drop(self.arrival.wait_timeout(state, longest).unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    /// Ends every wait because a rank has failed.
    pub(crate) fn fail(&self) {
        self.change(|state| state.failed = true);
    }

    /// Records that world rank `rank` sends no more messages.
    pub(crate) fn mark_departed(&self, rank: usize) {
        self.change(|state| {
            state.departed.insert(rank);
        });
    }

    /// The number of world ranks that send no more messages.
    pub(crate) fn departed_count(&self) -> usize {
        self.lock().departed.len()
    }

    fn change(&self, change: impl FnOnce(&mut MailboxState)) {
        let mut state = self.lock();
        change(&mut state);
        state.events += 1;
        drop(state);
        self.arrival.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, MailboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MatchKey {
    fn queue_key(&self) -> QueueKey {
        (self.context, self.tag)
    }
}

impl MailboxState {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Gives a packet to the oldest matching receive, or queues it.
    fn match_or_queue(&mut self, arrived: UnexpectedMessage) {
        match self.take_posted(&arrived.packet) {
            Some(receive) => {
                self.matched.insert(receive.receive_id, (receive, arrived));
            }
            None => self.unexpected.entry(arrived.packet.key()).or_default().push_back(arrived),
        }
    }

    /// Matches the receives and packets of one key again, including `loose`, in the order of arrival.
    fn rematch(&mut self, key: QueueKey, loose: UnexpectedMessage) {
        let mut packets = vec![loose];
        let mut receives = Vec::from(self.posted.remove(&key).unwrap_or_default());
        for (_, (receive, arrived)) in self.matched.extract_if(|_, (_, arrived)| arrived.packet.key() == key)
        {
            receives.push(receive);
            packets.push(arrived);
        }
        packets.extend(self.unexpected.remove(&key).unwrap_or_default());
        packets.sort_by_key(|arrived| arrived.number);
        receives.sort_by_key(|receive| receive.receive_id);
        if !receives.is_empty() {
            self.posted.insert(key, receives.into());
        }
        for arrived in packets {
            self.match_or_queue(arrived);
        }
    }

    fn take_posted(&mut self, packet: &Packet) -> Option<PostedReceive> {
        let posted = self.posted.get_mut(&packet.key())?;
        let at = posted.iter().position(|receive| accepts(receive.source, packet))?;
        let receive = posted.remove(at);
        drop_if_empty(&mut self.posted, packet.key());
        receive
    }

    fn take_unexpected(&mut self, key: MatchKey) -> Option<UnexpectedMessage> {
        let early = self.unexpected.get_mut(&key.queue_key())?;
        let at = early.iter().position(|arrived| accepts(key.source, &arrived.packet))?;
        let arrived = early.remove(at);
        drop_if_empty(&mut self.unexpected, key.queue_key());
        arrived
    }
}

fn accepts(source: Option<u32>, packet: &Packet) -> bool {
    source.is_none_or(|wanted| wanted == packet.header.source)
}

/// Removes empty queues: each collective call has its own tag.
fn drop_if_empty<T>(queues: &mut HashMap<QueueKey, VecDeque<T>>, key: QueueKey) {
    if queues.get(&key).is_some_and(VecDeque::is_empty) {
        queues.remove(&key);
    }
}

fn all_departed_error(call: &'static str, senders: &[usize]) -> Error {
    let (subject, rank) = match senders {
        [one] => (format!("rank {one} of the world has"), Some(*one)),
        _ => (format!("ranks {senders:?} of the world have all"), None),
    };
    let detail = format!("{subject} left the program without sending the message that this rank waits for");
    let error = Error::new(Kind::RankFailed, call, detail);
    rank.into_iter().fold(error, Error::caused_by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective_id::CollectiveId;
    use crate::matching::packet::{PacketBody, PacketHeader};

    fn packet(source: u32, tag: u32, value: u8) -> Packet {
        Packet {
            header: PacketHeader { context: 1, source, tag, call: [0; CollectiveId::LEN] },
            body: PacketBody::new(vec![value]),
        }
    }

    fn match_key(source: Option<u32>, tag: u32) -> MatchKey {
        MatchKey { context: 1, tag, source }
    }

    fn value(mailbox: &Mailbox, receive_id: u64) -> Option<u8> {
        mailbox.take(receive_id).map(|packet| packet.body.bytes()[0])
    }

    #[test]
    fn messages_of_one_source_do_not_overtake() {
        let mailbox = Mailbox::default();
        mailbox.deliver(packet(0, 5, 1));
        let first = mailbox.post(match_key(Some(0), 5));
        let second = mailbox.post(match_key(None, 5));
        mailbox.deliver(packet(0, 5, 2));
        assert_eq!((value(&mailbox, first), value(&mailbox, second)), (Some(1), Some(2)));
    }

    #[test]
    fn receives_match_in_the_order_they_were_posted() {
        let mailbox = Mailbox::default();
        let any = mailbox.post(match_key(None, 5));
        let from_one = mailbox.post(match_key(Some(1), 5));
        mailbox.deliver(packet(1, 5, 1));
        mailbox.deliver(packet(1, 6, 9));
        mailbox.deliver(packet(1, 5, 2));
        assert_eq!((value(&mailbox, any), value(&mailbox, from_one)), (Some(1), Some(2)));
    }

    #[test]
    fn the_message_of_a_cancelled_receive_can_be_received_again() {
        let mailbox = Mailbox::default();
        let receive_id = mailbox.post(match_key(None, 5));
        mailbox.deliver(packet(3, 5, 1));
        mailbox.deliver(packet(3, 5, 2));
        mailbox.cancel(match_key(None, 5), receive_id);
        assert_eq!(mailbox.peek(match_key(Some(3), 5)), Some((3, 1)));
        let again = mailbox.post(match_key(Some(3), 5));
        assert_eq!(value(&mailbox, again), Some(1));
    }
}
