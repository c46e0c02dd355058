//! The transport between threads of this process: packets are passed by pointer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::mpi::ThreadLevel;
use super::{BlockHandle, Transport};
use crate::matching::mailbox::Mailbox;
use crate::matching::packet::{Packet, PacketBody, PacketHeader};
use crate::node::node_exchange;
use crate::node::shared_block::SharedBlock;
use crate::run_end::RunEnd;
use crate::wait_context::{MakeProgress, WaitContext};
use crate::{Error, Kind, Result};

/// The error of a rank's program.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The shared state of the thread ranks of one [`run`](crate::run).
#[derive(Debug)]
pub(crate) struct ThreadWorld {
    /// Its number in this process.
    number: u64,
    mailboxes: Vec<Mailbox>,
    shared: Mutex<ThreadWorldState>,
}

#[derive(Debug, Default)]
struct ThreadWorldState {
    shared_blocks: HashMap<u64, Arc<SharedBlock>>,
    next_handle: u64,
    /// The blocks with barriers, by rank.
    barrier_blocks: Vec<(usize, Weak<SharedBlock>)>,
    /// The ranks that failed and their errors, in order.
    failures: Vec<(usize, Cause)>,
    /// Ranks that learned of a failed rank, and which one, in order.
    induced_failures: Vec<(usize, Option<usize>)>,
}

/// The transport of one thread rank.
#[derive(Debug)]
pub(crate) struct ThreadTransport {
    world: Arc<ThreadWorld>,
    rank: usize,
    run_end: RunEnd,
}

impl ThreadWorld {
    pub(crate) fn new(ranks: usize) -> Arc<Self> {
        static WORLDS: AtomicU64 = AtomicU64::new(1);
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let mailboxes = (0..ranks).map(|_| Mailbox::default()).collect();
        Arc::new(Self { number, mailboxes, shared: Mutex::default() })
    }

    pub(crate) fn transport(self: &Arc<Self>, rank: usize) -> Arc<ThreadTransport> {
        Arc::new(ThreadTransport { world: Arc::clone(self), rank, run_end: RunEnd::default() })
    }

    /// The rank whose failure caused the others, and its error.
    pub(crate) fn take_failure(&self) -> Option<(usize, Cause)> {
        let mut shared = self.lock();
        let at = shared.origin()?;
        Some(shared.failures.swap_remove(at))
    }

    /// Records that rank `rank` has failed: all waits end.
    pub(crate) fn fail(self: &Arc<Self>, rank: usize, cause: Cause) {
        let mut shared = self.lock();
        shared.failures.push((rank, cause));
        let blocks = shared.live_barriers(|_| true);
        drop(shared);
        let transport = self.transport(rank);
        for block in &blocks {
            node_exchange::abort_barrier(block, &*transport);
        }
        self.mailboxes.iter().for_each(Mailbox::fail);
    }

    fn lock(&self) -> MutexGuard<'_, ThreadWorldState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ThreadWorldState {
    /// The failure that caused the others: a rank with an induced failure may be recorded before the rank that caused it.
    fn origin(&self) -> Option<usize> {
        let failure_of = |rank: usize| self.failures.iter().position(|(failed, _)| *failed == rank);
        let is_induced = |rank: usize| self.induced_failures.iter().any(|(by, _)| *by == rank);
        let own = self.failures.iter().position(|(rank, _)| !is_induced(*rank));
        // If all failed ranks learned of others: the first one that another rank learned of.
        let first_reported = || self.induced_failures.iter().find_map(|(_, of)| failure_of((*of)?));
        own.or_else(first_reported).or((!self.failures.is_empty()).then_some(0))
    }

    /// The blocks with barriers of the ranks that are `wanted`, as far as they still exist.
    fn live_barriers(&self, wanted: impl Fn(usize) -> bool) -> Vec<Arc<SharedBlock>> {
        self.barrier_blocks
            .iter()
            .filter(|(rank, _)| wanted(*rank))
            .filter_map(|(_, block)| block.upgrade())
            .collect()
    }
}

impl MakeProgress for ThreadTransport {
    fn make_progress(&self) -> Option<Duration> {
        None
    }
}

impl WaitContext for ThreadTransport {
    fn rank(&self) -> usize {
        self.rank
    }

    fn shares_addresses(&self) -> bool {
        true
    }

    fn failure(&self, call: &'static str) -> Option<Error> {
        let shared = self.world.lock();
        let (rank, cause) = &shared.failures[shared.origin()?];
        Some(Error::new(Kind::RankFailed, call, format!("rank {rank} failed: {cause}")).caused_by(*rank))
    }

    fn mark_induced_failure(&self, of: Option<usize>) {
        let (mut shared, induced) = (self.world.lock(), (self.rank, of));
        if !shared.induced_failures.contains(&induced) {
            shared.induced_failures.push(induced);
        }
    }

    fn check_wait(&self, _call: &'static str) -> Result<()> {
        Ok(())
    }
}

impl Transport for ThreadTransport {
    fn size(&self) -> usize {
        self.world.mailboxes.len()
    }

    fn describe(&self) -> String {
        "threads of one process".to_owned()
    }

    fn thread_id(&self) -> u64 {
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

    fn mailbox(&self) -> &Mailbox {
        &self.world.mailboxes[self.rank]
    }

    fn send(&self, to: usize, header: PacketHeader, bytes: &[u8]) -> Result<()> {
        self.post(to, header, PacketBody::new(bytes.to_vec())).map(|_| ())
    }

    fn post(&self, to: usize, header: PacketHeader, body: PacketBody) -> Result<Option<u64>> {
        self.world.mailboxes[to].deliver(Packet { header, body });
        Ok(None)
    }

    fn is_sent(&self, _post: u64) -> Result<bool> {
        Ok(true)
    }

    fn create_block(&self, len: usize) -> Result<(Arc<SharedBlock>, BlockHandle)> {
        let detail = || format!("{len} bytes of shared memory");
        let block = SharedBlock::for_threads(len)
            .map_err(|source| Error::system("shared_region", detail(), source))?;
        let block = Arc::new(block);
        let mut shared = self.world.lock();
        shared.next_handle += 1;
        let handle = [shared.next_handle, 0];
        shared.shared_blocks.insert(handle[0], Arc::clone(&block));
        Ok((block, handle))
    }

    fn attach_block(&self, handle: BlockHandle, _len: usize) -> Result<Arc<SharedBlock>> {
        let missing =
            || Error::new(Kind::Mismatch, "attach", "the handle of this shared memory is no longer valid");
        self.world.lock().shared_blocks.get(&handle[0]).cloned().ok_or_else(missing)
    }

    fn withdraw_block(&self, handle: BlockHandle) {
        self.world.lock().shared_blocks.remove(&handle[0]);
    }

    fn register_barrier(&self, block: &Arc<SharedBlock>) {
        let mut shared = self.world.lock();
        shared.barrier_blocks.retain(|(_, known)| known.strong_count() > 0);
        shared.barrier_blocks.push((self.rank, Arc::downgrade(block)));
        if !shared.failures.is_empty() {
            node_exchange::abort_barrier(block, self);
        }
    }

    fn depart(&self, last: Option<&Arc<SharedBlock>>) -> Result<()> {
        let mine = self.world.lock().live_barriers(|rank| rank == self.rank);
        let over = mine.iter().filter(|block| last.is_none_or(|last| !Arc::ptr_eq(last, block)));
        over.for_each(|block| node_exchange::abort_barrier(block, self));
        self.world.mailboxes.iter().for_each(|mailbox| mailbox.mark_departed(self.rank));
        Ok(())
    }

    fn run_end(&self) -> &RunEnd {
        &self.run_end
    }

    fn has_induced_failure(&self) -> bool {
        self.world.lock().induced_failures.iter().any(|(by, _)| *by == self.rank)
    }
}
