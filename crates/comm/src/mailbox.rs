//! Where packets arrive and receives wait: matching in the order of arrival and of posting, by communicator, tag and source.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::packet::Packet;
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
    /// Packets nobody has asked for yet.
    early: HashMap<(u64, u32), VecDeque<Packet>>,
    /// Receives whose packet has not come yet.
    posted: HashMap<(u64, u32), VecDeque<Posted>>,
    /// Packets that have met their receive.
    matched: HashMap<u64, Packet>,
    tickets: u64,
    /// Counts what may end a wait.
    events: u64,
    failed: bool,
    /// World ranks that send nothing more.
    gone: HashSet<usize>,
}

#[derive(Debug)]
struct Posted {
    ticket: u64,
    source: Option<u32>,
}

impl Mailbox {
    /// A packet has come: it goes to the oldest receive that wants it.
    pub(crate) fn deliver(&self, packet: Packet) {
        self.change(|state| match state.take_posted(&packet) {
            Some(ticket) => {
                state.matched.insert(ticket, packet);
            }
            None => {
                let key = (packet.header.context, packet.header.tag);
                state.early.entry(key).or_default().push_back(packet);
            }
        });
    }

    /// Starts a receive.
    pub(crate) fn post(&self, pattern: Pattern) -> u64 {
        let mut state = self.lock();
        state.tickets += 1;
        let ticket = state.tickets;
        let key = (pattern.context, pattern.tag);
        match state.take_early(pattern) {
            Some(packet) => {
                state.matched.insert(ticket, packet);
            }
            None => {
                state.posted.entry(key).or_default().push_back(Posted { ticket, source: pattern.source });
            }
        }
        ticket
    }

    /// Gives up a receive; a packet that has met it goes back to the front of the queue.
    pub(crate) fn cancel(&self, pattern: Pattern, ticket: u64) {
        let mut state = self.lock();
        let key = (pattern.context, pattern.tag);
        if let Some(packet) = state.matched.remove(&ticket) {
            state.early.entry(key).or_default().push_front(packet);
        } else if let Some(posted) = state.posted.get_mut(&key) {
            posted.retain(|receive| receive.ticket != ticket);
            drop_if_empty(&mut state.posted, key);
        }
    }

    /// The packet of a receive, if it has come.
    pub(crate) fn take(&self, ticket: u64) -> Option<Packet> {
        self.lock().matched.remove(&ticket)
    }

    /// Sender and length of the first packet that would match.
    pub(crate) fn peek(&self, pattern: Pattern) -> Option<(u32, usize)> {
        let state = self.lock();
        let packet = state
            .early
            .get(&(pattern.context, pattern.tag))?
            .iter()
            .find(|packet| pattern.source.is_none_or(|wanted| wanted == packet.header.source))?;
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
            let state = self.lock();
            if state.failed {
                return Err(wire.failure(call));
            }
            if !senders.is_empty() && senders.iter().all(|sender| state.gone.contains(sender)) {
                return Err(all_gone(call, senders));
            }
            if state.events == seen {
                self.sleep(state, longest);
            }
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

impl State {
    fn take_posted(&mut self, packet: &Packet) -> Option<u64> {
        let key = (packet.header.context, packet.header.tag);
        let posted = self.posted.get_mut(&key)?;
        let source = packet.header.source;
        let at = posted.iter().position(|receive| receive.source.is_none_or(|wanted| wanted == source))?;
        let receive = posted.remove(at)?;
        drop_if_empty(&mut self.posted, key);
        Some(receive.ticket)
    }

    fn take_early(&mut self, pattern: Pattern) -> Option<Packet> {
        let key = (pattern.context, pattern.tag);
        let early = self.early.get_mut(&key)?;
        let at = early
            .iter()
            .position(|packet| pattern.source.is_none_or(|wanted| wanted == packet.header.source))?;
        let packet = early.remove(at);
        drop_if_empty(&mut self.early, key);
        packet
    }
}

/// Tags come and go (each collective has its own): their queues go with them.
fn drop_if_empty<T>(queues: &mut HashMap<(u64, u32), VecDeque<T>>, key: (u64, u32)) {
    if queues.get(&key).is_some_and(VecDeque::is_empty) {
        queues.remove(&key);
    }
}

fn all_gone(call: &'static str, senders: &[usize]) -> Error {
    let (who, rank) = match senders {
        [one] => (format!("rank {one} has"), *one),
        _ => ("all other ranks have".to_owned(), senders[0]),
    };
    let detail = format!("{who} left the program without sending what this rank waits for");
    Error::new(Kind::RankFailed, call, detail).caused_by(rank)
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
