//! The MPI transport of a process.
//!
//! `unsafe` here: a blocking send passes its caller's buffer to MPI and waits until MPI no longer uses it.
#![allow(unsafe_code)]

mod closing;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use aqueduct_report::{Report, ReportSource};

use super::ThreadLevel;
use super::abi::{Abi, MpiAbi};
use super::call_queue::{MpiCallQueue, QueuedCall, QueuedCallOutcome};
use super::functions::MpiFunctions;
use super::in_flight::InFlightMessages;
use super::launcher;
use super::window::CounterWindow;
use crate::matching::mailbox::Mailbox;
use crate::matching::packet::{PacketBody, PacketHeader};
use crate::node::node_cores::known_cores;
use crate::node::node_exchange;
use crate::node::shared_block::{MemfdHandle, SharedBlock};
use crate::run_end::RunEnd;
use crate::scheduling::background_thread::is_background_thread;
use crate::scheduling::core_yield::{may_yield, yield_core};
use crate::transport::background_operation::{self, is_background_operation};
use crate::transport::counter_slots::CounterSlots;
use crate::transport::{BlockHandle, CounterOp, Transport};
use crate::wait_context::{MakeProgress, WaitContext};
use crate::{Error, Kind, Result};

/// The first polls without progress only yield; later sleeps grow from the shortest to the longest.
const YIELDS: u32 = 16;
/// The same if every rank of this node has a core: about a millisecond, as ranks poll at barriers.
const LONG_YIELDS: u32 = 1000;
const SHORTEST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_micros(500);

/// Marks the number of a send in the call queue.
const QUEUED: u64 = 1 << 63;

/// The owner of MPI, which decides which threads call it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MpiOwner {
    /// The program was started by [`run`](crate::run).
    Aqueduct,
    /// A host program, whose threads call this library. Threads of this library may not call MPI.
    Host,
}

pub(crate) struct MpiTransport<A: Abi> {
    mpi: Arc<MpiFunctions<A>>,
    level: ThreadLevel,
    owner: MpiOwner,
    /// The thread that may call MPI at the lower levels.
    main: ThreadId,
    rank: usize,
    size: usize,
    comm: A::Handle,
    mailbox: Mailbox,
    in_flight: Mutex<InFlightMessages<A>>,
    /// Calls of background threads that may not call MPI.
    call_queue: MpiCallQueue,
    /// The window of counters, created with the first counter; none if MPI could not create it.
    window: OnceLock<Option<CounterWindow<A>>>,
    /// Descriptors of blocks that other ranks may still attach to.
    shared_blocks: Mutex<HashMap<i32, OwnedFd>>,
    /// Polls since the last progress.
    idle_polls: AtomicU32,
    /// The ranks on this node.
    node_ranks: usize,
    /// The blocks with barriers of this rank.
    barrier_blocks: Mutex<Vec<Weak<SharedBlock>>>,
    /// The other ranks know that this rank sends no more messages.
    has_departed: AtomicBool,
    /// True if this rank knows of a failed rank.
    induced_failure: AtomicBool,
    run_end: RunEnd,
    /// MPI is finalized: handles that outlive it must not call it.
    closed: AtomicBool,
    /// The message of an MPI error.
    broken: OnceLock<String>,
}

impl<A: Abi> MpiTransport<A> {
    /// A transport over a duplicate of `comm`. Collective in MPI's sense.
    pub(crate) fn new(
        mpi: Arc<MpiFunctions<A>>,
        level: ThreadLevel,
        comm: A::Handle,
        owner: MpiOwner,
    ) -> Result<Self> {
        let comm = mpi.duplicate(comm)?;
        let (rank, size) = mpi.rank_and_size(comm)?;
        Ok(Self {
            level,
            owner,
            main: thread::current().id(),
            rank,
            size,
            comm,
            mailbox: Mailbox::default(),
            in_flight: Mutex::new(InFlightMessages::new(comm)),
            call_queue: MpiCallQueue::default(),
            window: OnceLock::new(),
            shared_blocks: Mutex::default(),
            idle_polls: AtomicU32::new(0),
            node_ranks: launcher::ranks_of_node(size),
            barrier_blocks: Mutex::default(),
            has_departed: AtomicBool::new(false),
            induced_failure: AtomicBool::new(false),
            run_end: RunEnd::default(),
            closed: AtomicBool::new(false),
            broken: OnceLock::new(),
            mpi,
        })
    }

    /// Aborts the job with a message.
    pub(crate) fn abort(&self, message: &str) {
        Report::new(ReportSource::Comm).warn(&message);
        self.mpi.abort(self.comm, 1);
    }

    /// True if this thread may call MPI.
    fn may_call(&self) -> bool {
        let thread = match self.owner {
            MpiOwner::Aqueduct => {
                self.level >= ThreadLevel::Serialized || thread::current().id() == self.main
            }
            MpiOwner::Host => self.level >= ThreadLevel::Multiple || !is_background_thread(),
        };
        thread && !self.closed.load(Ordering::Relaxed)
    }

    fn check_call(&self, call: &'static str) -> Result<()> {
        if self.may_call() {
            return Ok(());
        }
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::new(
                Kind::Mpi,
                call,
                "MPI is finalized because `run` has returned; communicate before",
            ));
        }
        let detail = format!(
            "MPI granted thread level {:?}: only the thread that started the program may do this; \
             request a higher level from the MPI library, or communicate from that thread",
            self.level
        );
        Err(Error::new(Kind::ThreadLevel, call, detail))
    }

    /// Makes the queued calls of background threads and advances messages in flight; true if anything progressed.
    fn advance(&self) -> Result<bool> {
        if !self.may_call() {
            return Ok(false);
        }
        let Some(mut in_flight) = self.try_in_flight() else { return Ok(false) };
        // MPI may have been finalized while this thread waited for the lock.
        if self.closed.load(Ordering::SeqCst) {
            return Ok(false);
        }
        let passed = self.call_queue.run_queued(|call| self.run_queued_call(&mut in_flight, call))?;
        let moved = in_flight.advance(&self.mpi, &self.mailbox)? || passed;
        drop(in_flight);
        let _ = self.idle_polls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |polls| {
            Some(if moved { 0 } else { polls.saturating_add(1) })
        });
        Ok(moved)
    }

    /// Makes a queued call of a background thread.
    fn run_queued_call(
        &self,
        in_flight: &mut InFlightMessages<A>,
        call: QueuedCall,
    ) -> Result<QueuedCallOutcome> {
        match call {
            QueuedCall::Send { to, header, body } => {
                in_flight.post(&self.mpi, to, header, body).map(|_| QueuedCallOutcome::Sent)
            }
            QueuedCall::Count { slot, change } => {
                let Some(Some(window)) = self.window.get() else {
                    return Ok(QueuedCallOutcome::Counted(Err(super::window::missing())));
                };
                let counted = window.try_change(slot, change);
                Ok(counted.map_or(
                    QueuedCallOutcome::Deferred(QueuedCall::Count { slot, change }),
                    QueuedCallOutcome::Counted,
                ))
            }
        }
    }

    /// The messages in flight; none if this thread has locked them already and a progress hook of MPI calls back.
    fn try_in_flight(&self) -> Option<MutexGuard<'_, InFlightMessages<A>>> {
        if self.threads_may_send() {
            return Some(self.in_flight());
        }
        match self.in_flight.try_lock() {
            Ok(in_flight) => Some(in_flight),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Queues a call for the threads of the program; its number.
    fn queue_call(&self, call: QueuedCall) -> Result<u64> {
        self.call_queue_failure("send").map_or_else(|| Ok(self.call_queue.push(call)), Err)
    }

    /// The error if queued calls will never be made.
    fn call_queue_failure(&self, call: &'static str) -> Option<Error> {
        if self.closed.load(Ordering::Relaxed) {
            let detail = "MPI was finalized while an operation was in progress; wait for requests and close files before";
            return Some(Error::new(Kind::Mpi, call, detail));
        }
        self.failure(call)
    }

    /// Records an error of MPI: all waits of this rank fail, and barriers with ranks of this node.
    fn mark_failed(&self, error: &Error) {
        let _ = self.broken.set(error.to_string());
        let blocks = self.barrier_blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.iter().filter_map(Weak::upgrade).for_each(|block| node_exchange::abort_barrier(&block, self));
        drop(blocks);
        self.mailbox.fail();
    }

    /// The time to sleep until the next poll.
    fn idle_sleep(&self) -> Duration {
        let mut polls = self.idle_polls.load(Ordering::Relaxed);
        let has_core = !is_background_thread() && self.node_ranks <= known_cores();
        let yields = if has_core { LONG_YIELDS } else { YIELDS };
        if polls < yields {
            let yields_core = polls > 1 || may_yield();
            if yields_core && yield_core() {
                return Duration::ZERO;
            }
            // Another thread wants the core: this wait sleeps from now on.
            self.idle_polls.store(yields, Ordering::Relaxed);
            if yields_core {
                return Duration::ZERO;
            }
            polls = yields;
        }
        let doublings = ((polls - yields) / 4).min(8);
        (SHORTEST_SLEEP * (1 << doublings)).min(LONGEST_SLEEP)
    }

    fn in_flight(&self) -> MutexGuard<'_, InFlightMessages<A>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared_blocks(&self) -> MutexGuard<'_, HashMap<i32, OwnedFd>> {
        self.shared_blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Abi> MakeProgress for MpiTransport<A> {
    fn make_progress(&self) -> Option<Duration> {
        if !self.may_call() {
            return Some(LONGEST_SLEEP);
        }
        if let Err(error) = self.advance() {
            self.mark_failed(&error);
        }
        // Other ranks may wait for background operations of this rank on other communicators.
        background_operation::progress();
        Some(self.idle_sleep())
    }
}

impl<A: Abi> WaitContext for MpiTransport<A> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn shares_addresses(&self) -> bool {
        false
    }

    fn failure(&self, call: &'static str) -> Option<Error> {
        // A failing process aborts the job, so only errors of MPI itself are reported here.
        self.broken.get().map(|text| Error::new(Kind::Mpi, call, text.as_str()))
    }

    fn mark_induced_failure(&self, _of: Option<usize>) {
        self.induced_failure.store(true, Ordering::Relaxed);
    }

    fn check_wait(&self, call: &'static str) -> Result<()> {
        if is_background_operation() {
            return self.call_queue_failure(call).map_or(Ok(()), Err);
        }
        self.check_call(call)
    }
}

impl<A: Abi> Transport for MpiTransport<A> {
    fn size(&self) -> usize {
        self.size
    }

    fn describe(&self) -> String {
        let version = self.mpi.version();
        match A::MPI_ABI {
            MpiAbi::Standard => format!("MPI standard ABI, {version}"),
            MpiAbi::OpenMpi | MpiAbi::Mpich => version,
        }
    }

    fn thread_level(&self) -> Option<ThreadLevel> {
        Some(self.level)
    }

    fn threads_may_send(&self) -> bool {
        self.level
            >= if self.owner == MpiOwner::Aqueduct { ThreadLevel::Serialized } else { ThreadLevel::Multiple }
    }

    fn machine(&self) -> u64 {
        super::machine::identity()
    }

    fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    fn send(&self, to: usize, header: PacketHeader, bytes: &[u8]) -> Result<()> {
        if is_background_operation() {
            return self
                .queue_call(QueuedCall::Send { to, header, body: PacketBody::new(bytes.to_vec()) })
                .map(|_| ());
        }
        let mut in_flight = self.in_flight();
        self.check_call("send")?;
        // SAFETY: for a large body this call does not return, on any path, before MPI no longer uses it.
        let (post, outcome) = unsafe { in_flight.post_borrowed(&self.mpi, to, header, bytes) }?;
        drop(in_flight);
        while !InFlightMessages::<A>::is_copied(bytes) && !self.in_flight().is_sent(post) {
            let rest = self.make_progress().unwrap_or_default();
            if let Some(text) = self.broken.get() {
                // MPI may still read the caller's buffer and will not report completion: this call cannot return.
                self.abort(&format!("rank {}: {text}", self.rank));
            }
            if !rest.is_zero() {
                thread::sleep(rest);
            }
        }
        outcome
    }

    fn post(&self, to: usize, header: PacketHeader, body: PacketBody) -> Result<Option<u64>> {
        if is_background_operation() {
            let number = self.queue_call(QueuedCall::Send { to, header, body })?;
            return Ok(Some(QUEUED | number));
        }
        let mut in_flight = self.in_flight();
        self.check_call("send")?;
        self.idle_polls.store(0, Ordering::Relaxed);
        in_flight.post(&self.mpi, to, header, body).map(Some)
    }

    fn is_sent(&self, post: u64) -> Result<bool> {
        if post & QUEUED != 0 {
            return Ok(self.call_queue.is_passed(post & !QUEUED));
        }
        Ok(self.in_flight().is_sent(post))
    }

    fn create_block(&self, len: usize) -> Result<(Arc<SharedBlock>, BlockHandle)> {
        let detail = || format!("{len} bytes of shared memory");
        let (block, fd) = SharedBlock::for_processes(len)
            .map_err(|source| Error::system("shared_region", detail(), source))?;
        let MemfdHandle { pid, fd: number } = SharedBlock::memfd_handle(&fd);
        self.shared_blocks().insert(number, fd);
        Ok((Arc::new(block), [u64::from(pid), number as u64]))
    }

    fn attach_block(&self, handle: BlockHandle, len: usize) -> Result<Arc<SharedBlock>> {
        let [pid, fd] = handle;
        let detail = || format!("attaching to {len} bytes of shared memory of process {pid}");
        let block = SharedBlock::attach(MemfdHandle { pid: pid as u32, fd: fd as i32 }, len);
        block.map(Arc::new).map_err(|source| Error::system("attach", detail(), source))
    }

    fn withdraw_block(&self, handle: BlockHandle) {
        self.shared_blocks().remove(&(handle[1] as i32));
    }

    fn register_barrier(&self, block: &Arc<SharedBlock>) {
        let mut blocks = self.barrier_blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.retain(|known| known.strong_count() > 0);
        blocks.push(Arc::downgrade(block));
    }

    fn depart(&self, last: Option<&Arc<SharedBlock>>) -> Result<()> {
        let blocks = self.barrier_blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let living = blocks.iter().filter_map(Weak::upgrade);
        let over = living.filter(|block| last.is_none_or(|last| !Arc::ptr_eq(last, block)));
        over.for_each(|block| node_exchange::abort_barrier(&block, self));
        if self.has_departed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.mailbox.mark_departed(self.rank);
        let mut others = (0..self.size).filter(|rank| *rank != self.rank);
        others.try_for_each(|rank| {
            self.post(rank, PacketHeader::DEPARTURE, PacketBody::new(Vec::<u8>::new())).map(drop)
        })
    }

    fn run_end(&self) -> &RunEnd {
        &self.run_end
    }

    fn has_induced_failure(&self) -> bool {
        self.induced_failure.load(Ordering::Relaxed)
    }

    fn may_use_counters(&self) -> bool {
        // If threads may send, a thread in a collective MPI call could block the thread that the other ranks wait for.
        !self.threads_may_send() && self.may_call()
    }

    fn counter_slots(&self) -> Option<&CounterSlots> {
        let make = || {
            let made = CounterWindow::new(&self.mpi, self.comm, self.rank);
            if let (Err(error), 0) = (&made, self.rank) {
                let message = format!("ranks on different nodes cannot use a remote counter: {error}");
                Report::new(ReportSource::Comm).warn(&message);
            }
            made.ok()
        };
        self.window.get_or_init(make).as_ref().map(|window| &window.slots)
    }

    fn fetch_and_op(&self, slot: usize, change: CounterOp) -> Result<u64> {
        if is_background_operation() {
            let number = self.queue_call(QueuedCall::Count { slot, change })?;
            self.call_queue.wait_passed(number, || self.call_queue_failure("counter"))?;
            return self.call_queue.take_answer(number).unwrap_or_else(|| Err(super::window::missing()));
        }
        self.check_call("counter")?;
        self.window.get().and_then(Option::as_ref).ok_or_else(super::window::missing)?.change(slot, change)
    }

    fn release(&self) {
        if let Some(Some(window)) = self.window.get() {
            window.release();
        }
    }

    fn end(&self) {
        if self.may_call() {
            self.wait_idle();
        }
        self.stop_calling();
    }

    fn abandon(&self) {
        self.stop_calling_at_exit();
    }

    fn progress(&self) -> bool {
        self.advance().unwrap_or_else(|error| {
            self.mark_failed(&error);
            false
        })
    }

    fn flush_call_queue(&self) -> Result<()> {
        self.call_queue.wait_all_passed(|| self.call_queue_failure("send"))
    }
}
