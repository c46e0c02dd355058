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
use crate::target::StepBatch;

/// What a server does for an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerPhase {
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
pub(crate) enum ClientItem<C> {
    /// A parcel of so many bytes; or the error that the client takes part with.
    Batch(StepBatch, Result<u64, Error>),
    Chunk(C),
    Sync,
    /// The end, after so many steps.
    Finish(u64),
    /// The client lets go.
    Gone,
}

/// What is to be done, for all clients.
#[derive(Clone, Debug)]
pub(crate) enum ServerJob {
    /// A parcel of each client.
    Batch(Vec<(StepBatch, Result<u64, Error>)>),
    Sync,
    Finish(u64),
    /// The output ends here: a client is gone, or clients did different things.
    Gone,
}

/// Chunks of a client, as they are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextChunk<C> {
    Chunk(C),
    /// It has not come yet.
    NotYet,
    /// It never will.
    Never,
}

/// What all clients of a server have handed over for an output.
#[derive(Debug)]
pub(crate) struct ServerJobQueue<C> {
    clients: Vec<VecDeque<ClientItem<C>>>,
    phase: ServerPhase,
}

impl<C> ServerJobQueue<C> {
    /// Nothing yet, of so many clients.
    pub(crate) fn new(clients: usize) -> Self {
        Self { clients: (0..clients).map(|_| VecDeque::new()).collect(), phase: ServerPhase::Listening }
    }

    pub(crate) fn phase(&self) -> ServerPhase {
        self.phase
    }

    /// A client has handed something over. Behind its end nothing counts.
    pub(crate) fn arrive(&mut self, client: usize, item: ClientItem<C>) {
        let queue = &mut self.clients[client];
        if self.phase != ServerPhase::Ended && !matches!(queue.back(), Some(ClientItem::Gone)) {
            queue.push_back(item);
        }
    }

    /// Nothing more comes from anybody: what is here is worked off, and then it ends.
    pub(crate) fn terminate(&mut self) {
        (0..self.clients.len()).for_each(|client| self.arrive(client, ClientItem::Gone));
    }

    /// What is to be done next, if every client has come to it.
    pub(crate) fn next(&mut self) -> Option<ServerJob> {
        if self.phase != ServerPhase::Listening {
            return None;
        }
        if self.clients.iter().any(|queue| matches!(queue.front(), Some(ClientItem::Gone))) {
            return Some(self.end());
        }
        if self.clients.iter().any(VecDeque::is_empty) {
            return None;
        }
        let heads: Vec<ClientItem<C>> = self.clients.iter_mut().filter_map(VecDeque::pop_front).collect();
        let job = same(heads);
        match job {
            Some(ServerJob::Batch(_)) => self.phase = ServerPhase::Fetching,
            Some(ServerJob::Sync) => self.phase = ServerPhase::Writing,
            Some(ServerJob::Finish(_)) => _ = self.end(),
            Some(ServerJob::Gone) | None => return Some(self.end()),
        }
        job
    }

    /// The next chunk of a client.
    pub(crate) fn chunk(&mut self, client: usize) -> NextChunk<C> {
        let queue = &mut self.clients[client];
        match queue.pop_front() {
            Some(ClientItem::Chunk(chunk)) => NextChunk::Chunk(chunk),
            Some(other) => {
                queue.push_front(other);
                NextChunk::Never
            }
            None if self.phase == ServerPhase::Ended => NextChunk::Never,
            None => NextChunk::NotYet,
        }
    }

    /// A window is fetched, or the next one is begun.
    pub(crate) fn set_phase(&mut self, phase: ServerPhase) {
        let allowed = matches!(
            (self.phase, phase),
            (
                ServerPhase::Fetching | ServerPhase::Writing,
                ServerPhase::Fetching | ServerPhase::Writing | ServerPhase::Listening
            )
        );
        if allowed {
            self.phase = phase;
        }
    }

    /// Ends at once, letting go of everything: after a failure.
    pub(crate) fn end(&mut self) -> ServerJob {
        self.clients.iter_mut().for_each(VecDeque::clear);
        self.phase = ServerPhase::Ended;
        ServerJob::Gone
    }
}

/// What all clients want, if that is the same.
fn same<C>(heads: Vec<ClientItem<C>>) -> Option<ServerJob> {
    let mut parcels = Vec::new();
    let (mut syncs, mut finishes) = (0, Vec::new());
    let clients = heads.len();
    for head in heads {
        match head {
            ClientItem::Batch(parcel, bytes) => parcels.push((parcel, bytes)),
            ClientItem::Sync => syncs += 1,
            ClientItem::Finish(steps) => finishes.push(steps),
            ClientItem::Chunk(_) | ClientItem::Gone => {}
        }
    }
    if parcels.len() == clients && parcels.iter().all(|(parcel, _)| parcel.step == parcels[0].0.step) {
        return Some(ServerJob::Batch(parcels));
    }
    if finishes.len() == clients && finishes.iter().all(|steps| *steps == finishes[0]) {
        return finishes.first().map(|steps| ServerJob::Finish(*steps));
    }
    (syncs == clients).then_some(ServerJob::Sync)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqueduct_testkit::rng::SeededRng;

    fn parcel(step: u64) -> ClientItem<u64> {
        ClientItem::Batch(StepBatch { step, closing: false, entries: Vec::new() }, Ok(0))
    }

    #[test]
    fn it_waits_for_every_client_and_ends_behind_what_it_holds() {
        let mut ledger = ServerJobQueue::new(2);
        ledger.arrive(0, parcel(0));
        assert!(ledger.next().is_none() && ledger.phase() == ServerPhase::Listening);
        ledger.arrive(1, parcel(0));
        ledger.arrive(1, ClientItem::Chunk(7));
        // Told to stop with a parcel in hand.
        ledger.arrive(0, ClientItem::Chunk(5));
        ledger.terminate();
        assert!(matches!(ledger.next(), Some(ServerJob::Batch(heads)) if heads.len() == 2));
        assert_eq!(ledger.phase(), ServerPhase::Fetching);
        assert!(ledger.next().is_none(), "one thing at a time");
        assert_eq!((ledger.chunk(1), ledger.chunk(0)), (NextChunk::Chunk(7), NextChunk::Chunk(5)));
        assert_eq!(ledger.chunk(0), NextChunk::Never, "what stands there is its end");
        ledger.set_phase(ServerPhase::Writing);
        ledger.set_phase(ServerPhase::Listening);
        assert!(matches!(ledger.next(), Some(ServerJob::Gone)));
        assert_eq!(ledger.phase(), ServerPhase::Ended);
        ledger.arrive(0, parcel(1));
        assert!(ledger.next().is_none());
    }

    #[test]
    fn clients_that_do_different_things_end_it() {
        for other in
            [ClientItem::Sync, ClientItem::Finish(3), parcel(1), ClientItem::Chunk(1), ClientItem::Gone]
        {
            let mut ledger = ServerJobQueue::new(2);
            ledger.arrive(0, parcel(0));
            ledger.arrive(1, other);
            assert!(matches!(ledger.next(), Some(ServerJob::Gone)));
            assert_eq!(ledger.phase(), ServerPhase::Ended);
        }
    }

    /// Clients that run ahead of one another by any amount: every chunk is given out once, in order.
    #[test]
    fn random_arrivals_are_worked_off_in_order() {
        for number in 0..200 {
            let mut seed = SeededRng::new(number);
            let (clients, steps) = (1 + seed.below(4), 1 + seed.number() % 5);
            let mut scripts: Vec<VecDeque<ClientItem<u64>>> = (0..clients)
                .map(|_| {
                    let step =
                        |step| [parcel(step), ClientItem::Chunk(2 * step), ClientItem::Chunk(2 * step + 1)];
                    (0..steps).flat_map(step).chain([ClientItem::Sync, ClientItem::Finish(steps)]).collect()
                })
                .collect();
            let mut ledger = ServerJobQueue::new(clients);
            let (mut given, mut syncs, mut begun) = (vec![Vec::new(); clients], 0, 0);
            while ledger.phase() != ServerPhase::Ended {
                let client = seed.below(clients);
                if let Some(item) = scripts[client].pop_front() {
                    ledger.arrive(client, item);
                }
                match ledger.next() {
                    Some(ServerJob::Sync) => {
                        syncs += 1;
                        ledger.set_phase(ServerPhase::Listening);
                    }
                    Some(ServerJob::Batch(_)) => begun += 1,
                    Some(ServerJob::Finish(end)) => assert_eq!(end, steps),
                    _ => {}
                }
                if ledger.phase() == ServerPhase::Fetching {
                    if let NextChunk::Chunk(chunk) = ledger.chunk(client) {
                        given[client].push(chunk);
                    }
                    if given.iter().all(|given| given.len() == 2 * begun) {
                        ledger.set_phase(ServerPhase::Writing);
                        ledger.set_phase(ServerPhase::Listening);
                    }
                }
            }
            let all: Vec<u64> = (0..2 * steps).collect();
            assert!(given.iter().all(|given| *given == all) && syncs == 1, "seed {number}: {given:?}");
        }
    }
}
