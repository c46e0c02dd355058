//! The transport among threads of this process: packets move by pointer, memory is common anyway.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::block::Block;
use crate::hub;
use crate::mailbox::Mailbox;
use crate::packet::{Body, Header, Packet};
use crate::rendezvous::Nap;
use crate::run_end::RunEnd;
use crate::wire::{Ticket, Wire};
use crate::{Error, Kind, Result, ThreadLevel};

/// Why a rank failed: the error of its program.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What the thread ranks of one [`run`](crate::run) have in common.
#[derive(Debug)]
pub(crate) struct World {
    /// Tells it from all others of this process.
    number: u64,
    mailboxes: Vec<Mailbox>,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    offers: HashMap<u64, Arc<Block>>,
    next_offer: u64,
    /// The hubs that each rank belongs to.
    watched: Vec<(usize, Weak<Block>)>,
    /// The ranks that failed, and why, in this order.
    failures: Vec<(usize, Cause)>,
    /// Who learned that another rank is gone, and which, in this order.
    losses: Vec<(usize, Option<usize>)>,
}

/// One thread's end of its world.
#[derive(Debug)]
pub(crate) struct ThreadWire {
    world: Arc<World>,
    rank: usize,
    run_end: RunEnd,
}

impl World {
    pub(crate) fn new(ranks: usize) -> Arc<Self> {
        static WORLDS: AtomicU64 = AtomicU64::new(1);
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let mailboxes = (0..ranks).map(|_| Mailbox::default()).collect();
        Arc::new(Self { number, mailboxes, shared: Mutex::default() })
    }

    pub(crate) fn wire(self: &Arc<Self>, rank: usize) -> Arc<ThreadWire> {
        Arc::new(ThreadWire { world: Arc::clone(self), rank, run_end: RunEnd::default() })
    }

    /// The rank whose failure came before that of all others, and its error.
    pub(crate) fn take_failure(&self) -> Option<(usize, Cause)> {
        let mut shared = self.lock();
        let at = shared.origin()?;
        Some(shared.failures.swap_remove(at))
    }

    /// Rank `rank` has failed: everyone who waits for anyone learns of it.
    pub(crate) fn fail(self: &Arc<Self>, rank: usize, cause: Cause) {
        let mut shared = self.lock();
        shared.failures.push((rank, cause));
        let watched = shared.living(|_| true);
        drop(shared);
        let wire = self.wire(rank);
        for block in &watched {
            hub::fail(block, &*wire);
        }
        self.mailboxes.iter().for_each(Mailbox::fail);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Which failure the others follow from: a rank that failed because it was left alone may be faster here than the one that left it.
    fn origin(&self) -> Option<usize> {
        let failure_of = |rank: usize| self.failures.iter().position(|(failed, _)| *failed == rank);
        let has_lost = |rank: usize| self.losses.iter().any(|(by, _)| *by == rank);
        let by_itself = self.failures.iter().position(|(rank, _)| !has_lost(*rank));
        // A rank on its way out may still learn that others go: then it was the first to be missed.
        let missed_first = || self.losses.iter().find_map(|(_, of)| failure_of((*of)?));
        by_itself.or_else(missed_first).or((!self.failures.is_empty()).then_some(0))
    }

    /// The hubs of the ranks that are `wanted`, as far as they still exist.
    fn living(&self, wanted: impl Fn(usize) -> bool) -> Vec<Arc<Block>> {
        self.watched
            .iter()
            .filter(|(rank, _)| wanted(*rank))
            .filter_map(|(_, block)| block.upgrade())
            .collect()
    }
}

impl Nap for ThreadWire {
    fn nap(&self) -> Option<Duration> {
        None
    }
}

impl Wire for ThreadWire {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.world.mailboxes.len()
    }

    fn describe(&self) -> String {
        "threads of one process".to_owned()
    }

    fn who(&self) -> u64 {
        self.world.number << 32 | self.rank as u64
    }

    fn thread_level(&self) -> Option<ThreadLevel> {
        None
    }

    fn threads_may_send(&self) -> bool {
        true
    }

    fn machine(&self) -> u64 {
        0
    }

    fn shares_addresses(&self) -> bool {
        true
    }

    fn mailbox(&self) -> &Mailbox {
        &self.world.mailboxes[self.rank]
    }

    fn send(&self, to: usize, header: Header, bytes: &[u8]) -> Result<()> {
        self.post(to, header, Body::new(bytes.to_vec())).map(|_| ())
    }

    fn post(&self, to: usize, header: Header, body: Body) -> Result<Option<u64>> {
        self.world.mailboxes[to].deliver(Packet { header, body });
        Ok(None)
    }

    fn departed(&self, _post: u64) -> Result<bool> {
        Ok(true)
    }

    fn offer(&self, len: usize) -> Result<(Arc<Block>, Ticket)> {
        let detail = || format!("{len} bytes of shared memory");
        let block = Block::for_threads(len).map_err(|source| Error::system("offer", detail(), source))?;
        let block = Arc::new(block);
        let mut shared = self.world.lock();
        shared.next_offer += 1;
        let ticket = [shared.next_offer, 0];
        shared.offers.insert(ticket[0], Arc::clone(&block));
        Ok((block, ticket))
    }

    fn attach(&self, ticket: Ticket, _len: usize) -> Result<Arc<Block>> {
        let missing = || Error::new(Kind::Mismatch, "attach", "no rank offers this shared memory any more");
        self.world.lock().offers.get(&ticket[0]).cloned().ok_or_else(missing)
    }

    fn retire(&self, ticket: Ticket) {
        self.world.lock().offers.remove(&ticket[0]);
    }

    fn watch(&self, block: &Arc<Block>) {
        let mut shared = self.world.lock();
        shared.watched.retain(|(_, known)| known.strong_count() > 0);
        shared.watched.push((self.rank, Arc::downgrade(block)));
        if !shared.failures.is_empty() {
            hub::fail(block, self);
        }
    }

    fn leave(&self, last: Option<&Arc<Block>>) -> Result<()> {
        let mine = self.world.lock().living(|rank| rank == self.rank);
        let over = mine.iter().filter(|block| last.is_none_or(|last| !Arc::ptr_eq(last, block)));
        over.for_each(|block| hub::fail(block, self));
        self.world.mailboxes.iter().for_each(|mailbox| mailbox.gone(self.rank));
        Ok(())
    }

    fn run_end(&self) -> &RunEnd {
        &self.run_end
    }

    fn note_loss(&self, of: Option<usize>) {
        let (mut shared, loss) = (self.world.lock(), (self.rank, of));
        if !shared.losses.contains(&loss) {
            shared.losses.push(loss);
        }
    }

    fn has_lost(&self) -> bool {
        self.world.lock().losses.iter().any(|(by, _)| *by == self.rank)
    }

    fn check_wait(&self, _call: &'static str) -> Result<()> {
        Ok(())
    }

    fn failure(&self, call: &'static str) -> Option<Error> {
        let shared = self.world.lock();
        let (rank, cause) = &shared.failures[shared.origin()?];
        Some(Error::new(Kind::RankFailed, call, format!("rank {rank} failed: {cause}")).caused_by(*rank))
    }
}
