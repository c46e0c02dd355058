//! The server's state machine for one output: what its clients have handed over, and what is to be done next. Pure.
//!
//! ```text
//!                 a parcel of every client
//!   Listening ─────────────────────────────► Fetching ◄───┐
//!       ▲   │                                   │         │ the next window
//!       │   └── every client gone ──► Ended     ▼         │
//!       └──────────── all written ─────────── Writing ────┘
//! ```
//! Clients are listened to in every state. Told to terminate, it works off what it holds first: an end stands behind everything that came before it.

use std::collections::VecDeque;

use crate::error::Error;
use crate::target::Parcel;

/// What a server does for an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is complete enough to be done.
    Listening,
    /// Chunks are fetched from their clients.
    Fetching,
    /// What was fetched is written; clients are listened to all the same.
    Writing,
    /// Nothing more comes.
    Ended,
}

/// What a client hands over.
#[derive(Clone, Debug)]
pub(crate) enum Item<C> {
    /// A parcel of so many bytes; or the error that the client takes part with.
    Parcel(Parcel, Result<u64, Error>),
    Chunk(C),
    Sync,
    /// The end, after so many steps.
    Finish(u64),
    /// The client lets go.
    Gone,
}

/// What is to be done, for all clients.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    /// A parcel of each client.
    Parcel(Vec<(Parcel, Result<u64, Error>)>),
    Sync,
    Finish(u64),
    /// The output ends here: a client is gone, or clients did different things.
    Gone,
}

/// Chunks of a client, as they are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next<C> {
    Chunk(C),
    /// It has not come yet.
    NotYet,
    /// It never will.
    Never,
}

/// What all clients of a server have handed over for an output.
#[derive(Debug)]
pub(crate) struct Ledger<C> {
    clients: Vec<VecDeque<Item<C>>>,
    phase: Phase,
}

impl<C> Ledger<C> {
    /// Nothing yet, of so many clients.
    pub(crate) fn new(clients: usize) -> Self {
        Self { clients: (0..clients).map(|_| VecDeque::new()).collect(), phase: Phase::Listening }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// A client has handed something over. Behind its end nothing counts.
    pub(crate) fn arrive(&mut self, client: usize, item: Item<C>) {
        let queue = &mut self.clients[client];
        if self.phase != Phase::Ended && !matches!(queue.back(), Some(Item::Gone)) {
            queue.push_back(item);
        }
    }

    /// Nothing more comes from anybody: what is here is worked off, and then it ends.
    pub(crate) fn terminate(&mut self) {
        (0..self.clients.len()).for_each(|client| self.arrive(client, Item::Gone));
    }

    /// What is to be done next, if every client has come to it.
    pub(crate) fn next(&mut self) -> Option<Job> {
        if self.phase != Phase::Listening {
            return None;
        }
        if self.clients.iter().any(|queue| matches!(queue.front(), Some(Item::Gone))) {
            return Some(self.end());
        }
        if self.clients.iter().any(VecDeque::is_empty) {
            return None;
        }
        let heads: Vec<Item<C>> = self.clients.iter_mut().filter_map(VecDeque::pop_front).collect();
        let job = same(heads);
        match job {
            Some(Job::Parcel(_)) => self.phase = Phase::Fetching,
            Some(Job::Sync) => self.phase = Phase::Writing,
            Some(Job::Finish(_)) => _ = self.end(),
            Some(Job::Gone) | None => return Some(self.end()),
        }
        job
    }

    /// The next chunk of a client.
    pub(crate) fn chunk(&mut self, client: usize) -> Next<C> {
        let queue = &mut self.clients[client];
        match queue.pop_front() {
            Some(Item::Chunk(chunk)) => Next::Chunk(chunk),
            Some(other) => {
                queue.push_front(other);
                Next::Never
            }
            None if self.phase == Phase::Ended => Next::Never,
            None => Next::NotYet,
        }
    }

    /// A window is fetched, or the next one is begun.
    pub(crate) fn turn_to(&mut self, phase: Phase) {
        let allowed = matches!(
            (self.phase, phase),
            (Phase::Fetching | Phase::Writing, Phase::Fetching | Phase::Writing | Phase::Listening)
        );
        if allowed {
            self.phase = phase;
        }
    }

    /// Ends at once, letting go of everything: after a failure.
    pub(crate) fn end(&mut self) -> Job {
        self.clients.iter_mut().for_each(VecDeque::clear);
        self.phase = Phase::Ended;
        Job::Gone
    }
}

/// What all clients want, if that is the same.
fn same<C>(heads: Vec<Item<C>>) -> Option<Job> {
    let mut parcels = Vec::new();
    let (mut syncs, mut finishes) = (0, Vec::new());
    let clients = heads.len();
    for head in heads {
        match head {
            Item::Parcel(parcel, bytes) => parcels.push((parcel, bytes)),
            Item::Sync => syncs += 1,
            Item::Finish(steps) => finishes.push(steps),
            Item::Chunk(_) | Item::Gone => {}
        }
    }
    if parcels.len() == clients && parcels.iter().all(|(parcel, _)| parcel.step == parcels[0].0.step) {
        return Some(Job::Parcel(parcels));
    }
    if finishes.len() == clients && finishes.iter().all(|steps| *steps == finishes[0]) {
        return finishes.first().map(|steps| Job::Finish(*steps));
    }
    (syncs == clients).then_some(Job::Sync)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqueduct_testkit::seeded::Seeded;

    fn parcel(step: u64) -> Item<u64> {
        Item::Parcel(Parcel { step, closing: false, entries: Vec::new() }, Ok(0))
    }

    #[test]
    fn it_waits_for_every_client_and_ends_behind_what_it_holds() {
        let mut ledger = Ledger::new(2);
        ledger.arrive(0, parcel(0));
        assert!(ledger.next().is_none() && ledger.phase() == Phase::Listening);
        ledger.arrive(1, parcel(0));
        ledger.arrive(1, Item::Chunk(7));
        // Told to stop with a parcel in hand.
        ledger.arrive(0, Item::Chunk(5));
        ledger.terminate();
        assert!(matches!(ledger.next(), Some(Job::Parcel(heads)) if heads.len() == 2));
        assert_eq!(ledger.phase(), Phase::Fetching);
        assert!(ledger.next().is_none(), "one thing at a time");
        assert_eq!((ledger.chunk(1), ledger.chunk(0)), (Next::Chunk(7), Next::Chunk(5)));
        assert_eq!(ledger.chunk(0), Next::Never, "what stands there is its end");
        ledger.turn_to(Phase::Writing);
        ledger.turn_to(Phase::Listening);
        assert!(matches!(ledger.next(), Some(Job::Gone)));
        assert_eq!(ledger.phase(), Phase::Ended);
        ledger.arrive(0, parcel(1));
        assert!(ledger.next().is_none());
    }

    #[test]
    fn clients_that_do_different_things_end_it() {
        for other in [Item::Sync, Item::Finish(3), parcel(1), Item::Chunk(1), Item::Gone] {
            let mut ledger = Ledger::new(2);
            ledger.arrive(0, parcel(0));
            ledger.arrive(1, other);
            assert!(matches!(ledger.next(), Some(Job::Gone)));
            assert_eq!(ledger.phase(), Phase::Ended);
        }
    }

    /// Clients that run ahead of one another by any amount: every chunk is given out once, in order.
    #[test]
    fn random_arrivals_are_worked_off_in_order() {
        for number in 0..200 {
            let mut seed = Seeded::new(number);
            let (clients, steps) = (1 + seed.below(4), 1 + seed.number() % 5);
            let mut scripts: Vec<VecDeque<Item<u64>>> = (0..clients)
                .map(|_| {
                    let step = |step| [parcel(step), Item::Chunk(2 * step), Item::Chunk(2 * step + 1)];
                    (0..steps).flat_map(step).chain([Item::Sync, Item::Finish(steps)]).collect()
                })
                .collect();
            let mut ledger = Ledger::new(clients);
            let (mut given, mut syncs, mut begun) = (vec![Vec::new(); clients], 0, 0);
            while ledger.phase() != Phase::Ended {
                let client = seed.below(clients);
                if let Some(item) = scripts[client].pop_front() {
                    ledger.arrive(client, item);
                }
                match ledger.next() {
                    Some(Job::Sync) => {
                        syncs += 1;
                        ledger.turn_to(Phase::Listening);
                    }
                    Some(Job::Parcel(_)) => begun += 1,
                    Some(Job::Finish(end)) => assert_eq!(end, steps),
                    _ => {}
                }
                if ledger.phase() == Phase::Fetching {
                    if let Next::Chunk(chunk) = ledger.chunk(client) {
                        given[client].push(chunk);
                    }
                    if given.iter().all(|given| given.len() == 2 * begun) {
                        ledger.turn_to(Phase::Writing);
                        ledger.turn_to(Phase::Listening);
                    }
                }
            }
            let all: Vec<u64> = (0..2 * steps).collect();
            assert!(given.iter().all(|given| *given == all) && syncs == 1, "seed {number}: {given:?}");
        }
    }
}
