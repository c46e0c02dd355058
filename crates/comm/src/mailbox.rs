//! Where packets arrive and receives wait: matching in the order of arrival and of posting, by communicator, tag and source.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::PoisonError;
use std::time::Duration;

use crate::packet::Packet;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::wire::Wire;
use crate::{Error, Kind, Result};

/// What a receive waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pattern {
    pub(crate) context: u64,
    pub(crate) tag: u32,
    /// A rank of the communicator; none = any.
    pub(crate) source: Option<u32>,
}

/// The messages of one rank.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    arrival: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Packets nobody has asked for yet, in the order they came.
    early: HashMap<Key, VecDeque<Arrived>>,
    /// Receives whose packet has not come yet, in the order they were posted.
    posted: HashMap<Key, VecDeque<Posted>>,
    /// Packets that have met their receive, by its ticket.
    matched: HashMap<u64, (Posted, Arrived)>,
    /// Numbers receives and packets.
    clock: u64,
    /// Counts what may end a wait.
    events: u64,
    failed: bool,
    /// World ranks that send nothing more.
    gone: HashSet<usize>,
}

/// Context and tag.
type Key = (u64, u32);

#[derive(Debug)]
struct Posted {
    ticket: u64,
    source: Option<u32>,
}

#[derive(Debug)]
struct Arrived {
    number: u64,
    packet: Packet,
}

impl Mailbox {
    /// A packet has come: it goes to the oldest receive that wants it.
    pub(crate) fn deliver(&self, packet: Packet) {
        self.change(|state| {
            let number = state.tick();
            state.place(Arrived { number, packet });
        });
    }

    /// Starts a receive.
    pub(crate) fn post(&self, pattern: Pattern) -> u64 {
        let mut state = self.lock();
        let receive = Posted { ticket: state.tick(), source: pattern.source };
        let ticket = receive.ticket;
        match state.take_early(pattern) {
            Some(arrived) => {
                state.matched.insert(ticket, (receive, arrived));
            }
            None => state.posted.entry(pattern.key()).or_default().push_back(receive),
        }
        ticket
    }

    /// Gives up a receive. If its packet has come, everything is as if the receive had never been: the packet, and those behind it,
    /// go to the receives that are left, in order.
    pub(crate) fn cancel(&self, pattern: Pattern, ticket: u64) {
        let key = pattern.key();
        self.change(|state| match state.matched.remove(&ticket) {
            Some((_, arrived)) => state.match_again(key, arrived),
            None => {
                if let Some(posted) = state.posted.get_mut(&key) {
                    posted.retain(|receive| receive.ticket != ticket);
                    drop_if_empty(&mut state.posted, key);
                }
            }
        });
    }

    /// The packet of a receive, if it has come.
    pub(crate) fn take(&self, ticket: u64) -> Option<Packet> {
        self.lock().matched.remove(&ticket).map(|(_, arrived)| arrived.packet)
    }

    /// Sender and length of the first packet that would match.
    pub(crate) fn peek(&self, pattern: Pattern) -> Option<(u32, usize)> {
        let state = self.lock();
        let mut early = state.early.get(&pattern.key())?.iter();
        let Arrived { packet, .. } = early.find(|arrived| accepts(pattern.source, &arrived.packet))?;
        Some((packet.header.source, packet.body.bytes().len()))
    }

    /// Waits, asleep, until `ready` finds something. `senders` are the world ranks it can come from: when all of them are gone, or
    /// a rank has failed, it never will.
    pub(crate) fn wait<T>(
        &self,
        wire: &dyn Wire,
        call: &'static str,
        senders: &[usize],
        mut ready: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T> {
        loop {
            let longest = wire.nap();
            let seen = self.lock().events;
            if let Some(found) = ready(self) {
                return Ok(found);
            }
            wire.check_wait(call)?;
            let state = self.lock();
            if state.events != seen {
                // What is waited for may have come since, right before its sender left or failed.
                continue;
            }
            if state.failed {
                drop(state);
                let unknown = || Error::new(Kind::RankFailed, call, "a rank has failed");
                let error = wire.failure(call).unwrap_or_else(unknown);
                wire.note_loss(error.rank());
                return Err(error);
            }
            if !senders.is_empty() && senders.iter().all(|sender| state.gone.contains(sender)) {
                let error = all_gone(call, senders);
                wire.note_loss(error.rank());
                return Err(error);
            }
            self.sleep(state, longest);
        }
    }

    fn sleep(&self, state: MutexGuard<'_, State>, longest: Option<Duration>) {
        match longest {
            None => drop(self.arrival.wait(state).unwrap_or_else(PoisonError::into_inner)),
            Some(longest) => {
                drop(self.arrival.wait_timeout(state, longest).unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    /// A rank has failed: every wait ends.
    pub(crate) fn fail(&self) {
        self.change(|state| state.failed = true);
    }

    /// World rank `rank` sends nothing more.
    pub(crate) fn gone(&self, rank: usize) {
        self.change(|state| {
            state.gone.insert(rank);
        });
    }

    /// How many world ranks send nothing more.
    pub(crate) fn count_gone(&self) -> usize {
        self.lock().gone.len()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.events += 1;
        drop(state);
        self.arrival.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pattern {
    fn key(&self) -> Key {
        (self.context, self.tag)
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Gives a packet to the oldest receive that wants it, or keeps it.
    fn place(&mut self, arrived: Arrived) {
        match self.take_posted(&arrived.packet) {
            Some(receive) => {
                self.matched.insert(receive.ticket, (receive, arrived));
            }
            None => self.early.entry(arrived.packet.key()).or_default().push_back(arrived),
        }
    }

    /// Matches the receives and packets of one key anew, `loose` among them, in the order they came.
    fn match_again(&mut self, key: Key, loose: Arrived) {
        let mut packets = vec![loose];
        let mut receives = Vec::from(self.posted.remove(&key).unwrap_or_default());
        for (_, (receive, arrived)) in self.matched.extract_if(|_, (_, arrived)| arrived.packet.key() == key)
        {
            receives.push(receive);
            packets.push(arrived);
        }
        packets.extend(self.early.remove(&key).unwrap_or_default());
        packets.sort_by_key(|arrived| arrived.number);
        receives.sort_by_key(|receive| receive.ticket);
        if !receives.is_empty() {
            self.posted.insert(key, receives.into());
        }
        for arrived in packets {
            self.place(arrived);
        }
    }

    fn take_posted(&mut self, packet: &Packet) -> Option<Posted> {
        let posted = self.posted.get_mut(&packet.key())?;
        let at = posted.iter().position(|receive| accepts(receive.source, packet))?;
        let receive = posted.remove(at);
        drop_if_empty(&mut self.posted, packet.key());
        receive
    }

    fn take_early(&mut self, pattern: Pattern) -> Option<Arrived> {
        let early = self.early.get_mut(&pattern.key())?;
        let at = early.iter().position(|arrived| accepts(pattern.source, &arrived.packet))?;
        let arrived = early.remove(at);
        drop_if_empty(&mut self.early, pattern.key());
        arrived
    }
}

fn accepts(source: Option<u32>, packet: &Packet) -> bool {
    source.is_none_or(|wanted| wanted == packet.header.source)
}

/// Tags come and go (each collective has its own): their queues go with them.
fn drop_if_empty<T>(queues: &mut HashMap<Key, VecDeque<T>>, key: Key) {
    if queues.get(&key).is_some_and(VecDeque::is_empty) {
        queues.remove(&key);
    }
}

fn all_gone(call: &'static str, senders: &[usize]) -> Error {
    let (who, rank) = match senders {
        [one] => (format!("rank {one} of the world has"), Some(*one)),
        _ => (format!("ranks {senders:?} of the world have all"), None),
    };
    let detail = format!("{who} left the program without sending what this rank waits for");
    let error = Error::new(Kind::RankFailed, call, detail);
    rank.into_iter().fold(error, Error::caused_by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Call;
    use crate::packet::{Body, Header};

    fn packet(source: u32, tag: u32, value: u8) -> Packet {
        Packet {
            header: Header { context: 1, source, tag, call: [0; Call::LEN] },
            body: Body::new(vec![value]),
        }
    }

    fn pattern(source: Option<u32>, tag: u32) -> Pattern {
        Pattern { context: 1, tag, source }
    }

    fn value(mailbox: &Mailbox, ticket: u64) -> Option<u8> {
        mailbox.take(ticket).map(|packet| packet.body.bytes()[0])
    }

    #[test]
    fn messages_of_one_source_do_not_overtake() {
        let mailbox = Mailbox::default();
        mailbox.deliver(packet(0, 5, 1));
        let first = mailbox.post(pattern(Some(0), 5));
        let second = mailbox.post(pattern(None, 5));
        mailbox.deliver(packet(0, 5, 2));
        assert_eq!((value(&mailbox, first), value(&mailbox, second)), (Some(1), Some(2)));
    }

    #[test]
    fn receives_match_in_the_order_they_were_posted() {
        let mailbox = Mailbox::default();
        let any = mailbox.post(pattern(None, 5));
        let from_one = mailbox.post(pattern(Some(1), 5));
        mailbox.deliver(packet(1, 5, 1));
        mailbox.deliver(packet(1, 6, 9));
        mailbox.deliver(packet(1, 5, 2));
        assert_eq!((value(&mailbox, any), value(&mailbox, from_one)), (Some(1), Some(2)));
    }

    #[test]
    fn a_cancelled_receive_gives_its_message_back() {
        let mailbox = Mailbox::default();
        let ticket = mailbox.post(pattern(None, 5));
        mailbox.deliver(packet(3, 5, 1));
        mailbox.deliver(packet(3, 5, 2));
        mailbox.cancel(pattern(None, 5), ticket);
        assert_eq!(mailbox.peek(pattern(Some(3), 5)), Some((3, 1)));
        let again = mailbox.post(pattern(Some(3), 5));
        assert_eq!(value(&mailbox, again), Some(1));
    }
}
