//! The server's state machine for one channel: the requests of its clients, and the next job. Pure.
//!
//! ```text
//!                 a batch of every client
//!   Listening ─────────────────────────────► Fetching ◄───┐
//!       ▲   │                                   │         │ the next window
//!       │   └── every client gone ──► Ended     ▼         │
//!       └──────────── all written ─────────── Writing ────┘
//! ```
//! Requests are added in every state. The end of a client comes after its other requests, so that these are executed first.

use std::collections::VecDeque;

use crate::error::Error;
use crate::target::StepBatch;

/// What the writer of a channel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerPhase {
    /// It waits until all clients have requested the same job.
    Listening,
    /// It copies chunks of the clients into a window.
    Fetching,
    /// It writes a window.
    Writing,
    /// The channel has ended.
    Ended,
}

/// A request of a client.
#[derive(Clone, Debug)]
pub(crate) enum ClientItem<C> {
    /// A batch of this number of bytes, or the error with which the client takes part.
    Batch(StepBatch, Result<u64, Error>),
    Chunk(C),
    Sync,
    /// The end, after this number of steps.
    Finish(u64),
    /// The client has dropped the channel, or has left.
    Gone,
}

/// A job for all clients.
#[derive(Clone, Debug)]
pub(crate) enum ServerJob {
    /// A batch of each client.
    Batch(Vec<(StepBatch, Result<u64, Error>)>),
    Sync,
    Finish(u64),
    /// The end of a channel that a client has dropped, or whose clients requested different jobs.
    Gone,
}

/// The next chunk of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextChunk<C> {
    Chunk(C),
    /// It has not arrived yet.
    NotYet,
    /// The client has none.
    Never,
}

/// The requests of all clients for a channel.
#[derive(Debug)]
pub(crate) struct ServerJobQueue<C> {
    clients: Vec<VecDeque<ClientItem<C>>>,
    phase: ServerPhase,
}

impl<C> ClientItem<C> {
    /// The same request for a queue of other chunks; a chunk becomes the end.
    pub(crate) fn without_data<D>(&self) -> ClientItem<D> {
        match self {
            Self::Batch(batch, bytes) => ClientItem::Batch(batch.clone(), bytes.clone()),
            Self::Sync => ClientItem::Sync,
            Self::Finish(steps) => ClientItem::Finish(*steps),
            Self::Chunk(_) | Self::Gone => ClientItem::Gone,
        }
    }
}

impl<C> ServerJobQueue<C> {
    /// An empty queue of this number of clients.
    pub(crate) fn new(clients: usize) -> Self {
        Self { clients: (0..clients).map(|_| VecDeque::new()).collect(), phase: ServerPhase::Listening }
    }

    pub(crate) fn phase(&self) -> ServerPhase {
        self.phase
    }

    /// Adds a request of a client; after its end there are none.
    pub(crate) fn arrive(&mut self, client: usize, item: ClientItem<C>) {
        let queue = &mut self.clients[client];
        if self.phase != ServerPhase::Ended && !matches!(queue.back(), Some(ClientItem::Gone)) {
            queue.push_back(item);
        }
    }

    /// Ends the requests of all clients: those that have arrived are executed first.
    pub(crate) fn terminate(&mut self) {
        (0..self.clients.len()).for_each(|client| self.arrive(client, ClientItem::Gone));
    }

    /// The next job, if every client has requested one.
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

    /// Records that a window is being assembled or written, or that a job is done.
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

    /// Ends at once and drops all requests: after a failure.
    pub(crate) fn end(&mut self) -> ServerJob {
        self.clients.iter_mut().for_each(VecDeque::clear);
        self.phase = ServerPhase::Ended;
        ServerJob::Gone
    }
}

/// The job that all clients request, if it is the same.
fn same<C>(heads: Vec<ClientItem<C>>) -> Option<ServerJob> {
    let mut batches = Vec::new();
    let (mut syncs, mut finishes) = (0, Vec::new());
    let clients = heads.len();
    for head in heads {
        match head {
            ClientItem::Batch(batch, bytes) => batches.push((batch, bytes)),
            ClientItem::Sync => syncs += 1,
            ClientItem::Finish(steps) => finishes.push(steps),
            ClientItem::Chunk(_) | ClientItem::Gone => {}
        }
    }
    if batches.len() == clients && batches.iter().all(|(batch, _)| batch.step == batches[0].0.step) {
        return Some(ServerJob::Batch(batches));
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

    fn batch(step: u64) -> ClientItem<u64> {
        ClientItem::Batch(StepBatch { step, closing: false, entries: Vec::new() }, Ok(0))
    }

    #[test]
    fn jobs_need_every_client_and_the_end_comes_last() {
        let mut queue = ServerJobQueue::new(2);
        queue.arrive(0, batch(0));
        assert!(queue.next().is_none() && queue.phase() == ServerPhase::Listening);
        queue.arrive(1, batch(0));
        queue.arrive(1, ClientItem::Chunk(7));
        // It ends while it has a batch.
        queue.arrive(0, ClientItem::Chunk(5));
        queue.terminate();
        assert!(matches!(queue.next(), Some(ServerJob::Batch(heads)) if heads.len() == 2));
        assert_eq!(queue.phase(), ServerPhase::Fetching);
        assert!(queue.next().is_none(), "one job at a time");
        assert_eq!((queue.chunk(1), queue.chunk(0)), (NextChunk::Chunk(7), NextChunk::Chunk(5)));
        assert_eq!(queue.chunk(0), NextChunk::Never, "its end is next");
        queue.set_phase(ServerPhase::Writing);
        queue.set_phase(ServerPhase::Listening);
        assert!(matches!(queue.next(), Some(ServerJob::Gone)));
        assert_eq!(queue.phase(), ServerPhase::Ended);
        queue.arrive(0, batch(1));
        assert!(queue.next().is_none());
    }

    #[test]
    fn different_requests_end_the_channel() {
        for other in
            [ClientItem::Sync, ClientItem::Finish(3), batch(1), ClientItem::Chunk(1), ClientItem::Gone]
        {
            let mut queue = ServerJobQueue::new(2);
            queue.arrive(0, batch(0));
            queue.arrive(1, other);
            assert!(matches!(queue.next(), Some(ServerJob::Gone)));
            assert_eq!(queue.phase(), ServerPhase::Ended);
        }
    }

    /// Clients that are ahead of each other by any number of steps: every chunk is returned once, in order.
    #[test]
    fn random_arrivals_are_executed_in_order() {
        for number in 0..200 {
            let mut seed = SeededRng::new(number);
            let (clients, steps) = (1 + seed.below(4), 1 + seed.number() % 5);
            let mut scripts: Vec<VecDeque<ClientItem<u64>>> = (0..clients)
                .map(|_| {
                    let step =
                        |step| [batch(step), ClientItem::Chunk(2 * step), ClientItem::Chunk(2 * step + 1)];
                    (0..steps).flat_map(step).chain([ClientItem::Sync, ClientItem::Finish(steps)]).collect()
                })
                .collect();
            let mut queue = ServerJobQueue::new(clients);
            let (mut given, mut syncs, mut begun) = (vec![Vec::new(); clients], 0, 0);
            while queue.phase() != ServerPhase::Ended {
                let client = seed.below(clients);
                if let Some(item) = scripts[client].pop_front() {
                    queue.arrive(client, item);
                }
                match queue.next() {
                    Some(ServerJob::Sync) => {
                        syncs += 1;
                        queue.set_phase(ServerPhase::Listening);
                    }
                    Some(ServerJob::Batch(_)) => begun += 1,
                    Some(ServerJob::Finish(end)) => assert_eq!(end, steps),
                    _ => {}
                }
                if queue.phase() == ServerPhase::Fetching {
                    if let NextChunk::Chunk(chunk) = queue.chunk(client) {
                        given[client].push(chunk);
                    }
                    if given.iter().all(|given| given.len() == 2 * begun) {
                        queue.set_phase(ServerPhase::Writing);
                        queue.set_phase(ServerPhase::Listening);
                    }
                }
            }
            let all: Vec<u64> = (0..2 * steps).collect();
            assert!(given.iter().all(|given| *given == all) && syncs == 1, "seed {number}: {given:?}");
        }
    }
}
