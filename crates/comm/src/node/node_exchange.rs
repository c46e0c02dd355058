//! Data exchange between the ranks of a node through shared memory: small messages in slots, bulk data by direct copies.
//!
//! Threads copy directly from the buffers of other ranks. Processes copy through windows of the shared block: one copy in, one copy out,
//! both in cache.
//!
//! `unsafe` here: shared memory is read and written through raw pointers. The same rule makes it sound everywhere: what a rank writes
//! before a barrier, others read after it, and it is not written again before the second barrier after it (slots and windows are double
//! buffered).
#![allow(unsafe_code)]

use std::sync::{Arc, Mutex, PoisonError};

use rustix::thread::futex;

use super::futex_barrier::{FailurePolicy, FutexBarrier, MAX_RANKS, SpinPolicy, WaitPolicy};
use super::node_cores::NodeCores;
use super::shared_block::SharedBlock;
use crate::collective_id::CollectiveId;
use crate::scheduling::background_thread::is_background_thread;
use crate::scheduling::core_yield::may_yield;
use crate::wait_context::WaitContext;
use crate::{Error, Kind, Result};

const HEADER: usize = 128;
/// Where the set of cores is in the header, in a cache line of its own.
const CORES: usize = 64;
const _: () = assert!(size_of::<FutexBarrier>() <= CORES && CORES + size_of::<NodeCores>() <= HEADER);
const SLOT: usize = 256;
/// A slot holds the call, the kind of exchange, the length of the data, and the data.
const SLOT_STEP: usize = CollectiveId::LEN;
const SLOT_LEN: usize = SLOT_STEP + 4;
const SLOT_DATA: usize = SLOT_LEN + 4;
const WINDOW: usize = 256 * 1024;
/// Reads of this size or more spin before sleeping.
const BULK: usize = 64 * 1024;

/// The most bytes of [`NodeExchange::exchange_small`].
pub(crate) const SMALL_MAX: usize = SLOT - SLOT_DATA;

/// The kind of an exchange. Concurrent calls of threads of a rank may get the ranks out of step within a call: the data of a small exchange
/// must never be used as an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExchangeKind {
    Small = 1,
    Bulk,
}

/// A read of `into.len()` bytes at `position` of the data of local rank `from`.
pub(crate) struct BulkRead<'a> {
    pub(crate) from: usize,
    pub(crate) position: usize,
    pub(crate) into: &'a mut [u8],
}

/// A rank's access to the shared memory of its node. Ranks here are local ranks.
pub(crate) struct NodeExchange {
    block: Option<Arc<SharedBlock>>,
    rank: usize,
    size: usize,
    /// The communicator's ranks of the node, for error messages.
    comm_ranks: Vec<usize>,
    transport: Arc<dyn WaitContext>,
    /// The number of exchanges, which selects one of the two slots. Locked during each call, to serialise the calls of several threads of
    /// a rank.
    exchanges: Mutex<usize>,
}

impl NodeExchange {
    /// The size in bytes of the shared memory of `size` ranks.
    pub(crate) fn block_len(size: usize, transport: &dyn WaitContext) -> usize {
        let windows = if transport.shares_addresses() { 0 } else { 2 * size * WINDOW };
        HEADER + 2 * size * SLOT + windows
    }

    /// For a rank that is alone on its node.
    pub(crate) fn single_rank(name: usize, transport: Arc<dyn WaitContext>) -> Self {
        Self { block: None, rank: 0, size: 1, comm_ranks: vec![name], transport, exchanges: Mutex::new(0) }
    }

    /// For local rank `rank` in `block`; `names` are the communicator's ranks that share it.
    pub(crate) fn join(
        block: Arc<SharedBlock>,
        rank: usize,
        names: Vec<usize>,
        transport: Arc<dyn WaitContext>,
    ) -> Result<Self> {
        let size = names.len();
        if size > MAX_RANKS || block.len() < Self::block_len(size, &*transport) {
            let detail = format!("{size} ranks cannot share one node's memory; at most {MAX_RANKS} can");
            return Err(Error::new(Kind::Unsupported, "split", detail));
        }
        cores_of(&block).add_own();
        Ok(Self { block: Some(block), rank, size, comm_ranks: names, transport, exchanges: Mutex::new(0) })
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// The shared memory; none if the rank is alone on its node.
    pub(crate) fn block(&self) -> Option<&Arc<SharedBlock>> {
        self.block.as_ref()
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Waits until all ranks of the node have called it.
    pub(crate) fn barrier(&self, call: CollectiveId) -> Result<()> {
        self.exchange_small(call, &[], |_, _| ())
    }

    /// Every rank gives up to [`SMALL_MAX`] bytes; `each` is called with the bytes of each rank, in rank order. One barrier.
    pub(crate) fn exchange_small(
        &self,
        call: CollectiveId,
        mine: &[u8],
        each: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        let mut exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        self.exchange_slots(
            &mut exchanges,
            ExchangeKind::Small,
            call,
            self.spin_policy_for(false),
            mine,
            each,
        )
    }

    fn exchange_slots(
        &self,
        exchanges: &mut usize,
        step: ExchangeKind,
        call: CollectiveId,
        spin_policy: SpinPolicy,
        mine: &[u8],
        mut each: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        assert!(mine.len() <= SMALL_MAX, "a small exchange has at most {SMALL_MAX} bytes per rank");
        let Some(block) = &self.block else {
            each(0, mine);
            return Ok(());
        };
        let turn = *exchanges % 2;
        self.write_slot(block, turn, step, call, mine);
        self.wait_at_barrier(block, FailurePolicy::Abort, spin_policy, call)?;
        // Counted after the barrier: a rank that retries after a failure must not write the slots of the last exchange, which other ranks
        // may still read.
        *exchanges += 1;
        for rank in 0..self.size {
            let theirs = self.slot(block, turn, rank);
            let (made, _) = theirs.split_first_chunk().expect("a slot holds a call");
            call.check(self.comm_ranks[self.rank], self.comm_ranks[rank], CollectiveId::decode(made))?;
            if theirs[SLOT_STEP] != step as u8 {
                return Err(self.step_mismatch(rank, call));
            }
        }
        for rank in 0..self.size {
            each(rank, slot_data(self.slot(block, turn, rank)));
        }
        Ok(())
    }

    /// Every rank gives data (its parts, concatenated) and reads from the data of other ranks. The buffers can be reused when it returns.
    /// Two barriers for threads; for processes one more per window.
    pub(crate) fn exchange_bulk(
        &self,
        call: CollectiveId,
        mine: &[&[u8]],
        reads: &mut [BulkRead<'_>],
    ) -> Result<()> {
        let mut exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inside = Ok(());
        match &self.block {
            None => reads.iter_mut().for_each(|read| keep_first(&mut inside, copy(mine, read, call))),
            Some(block) if self.transport.shares_addresses() => {
                inside = self.exchange_by_address(&mut exchanges, block, call, mine, reads)?;
            }
            Some(block) => inside = self.exchange_by_window(&mut exchanges, block, call, mine, reads)?,
        }
        inside
    }

    fn exchange_by_address(
        &self,
        exchanges: &mut usize,
        block: &SharedBlock,
        call: CollectiveId,
        mine: &[&[u8]],
        reads: &mut [BulkRead<'_>],
    ) -> Result<Result<()>> {
        let spin_policy = self.spin_policy(reads);
        let mut streams: Vec<(usize, usize)> = Vec::with_capacity(self.size);
        let address = [mine.as_ptr() as usize, mine.len()];
        self.exchange_slots(
            exchanges,
            ExchangeKind::Bulk,
            call,
            spin_policy,
            bytemuck::cast_slice(&address),
            |_, bytes| {
                let [start, parts] = bytemuck::pod_read_unaligned(bytes);
                streams.push((start, parts));
            },
        )?;
        let mut inside = Ok(());
        for read in reads {
            let (start, parts) = streams[read.from];
            // SAFETY: every rank is a thread of this process and at this step of this call (checked by the exchange), so these are
            // the address and length of its `mine`, which stays borrowed until the barrier below: no rank returns before it.
            let stream = unsafe { std::slice::from_raw_parts(start as *const &[u8], parts) };
            keep_first(&mut inside, copy(stream, read, call));
        }
        self.wait_at_barrier(block, FailurePolicy::Complete, spin_policy, call)?;
        Ok(inside)
    }

    fn exchange_by_window(
        &self,
        exchanges: &mut usize,
        block: &SharedBlock,
        call: CollectiveId,
        mine: &[&[u8]],
        reads: &mut [BulkRead<'_>],
    ) -> Result<Result<()>> {
        let spin_policy = self.spin_policy(reads);
        let total: usize = mine.iter().map(|part| part.len()).sum();
        let mut totals = Vec::with_capacity(self.size);
        self.exchange_slots(
            exchanges,
            ExchangeKind::Bulk,
            call,
            spin_policy,
            bytemuck::bytes_of(&total),
            |_, bytes| {
                totals.push(bytemuck::pod_read_unaligned::<usize>(bytes));
            },
        )?;
        let mut inside = Ok(());
        for read in reads.iter() {
            keep_first(&mut inside, in_range(read, totals[read.from], call));
        }
        let rounds = totals.iter().max().map_or(0, |longest| longest.div_ceil(WINDOW));
        for round in 0..rounds {
            self.fill_window(block, round, mine);
            self.wait_at_barrier(block, FailurePolicy::Complete, spin_policy, call)?;
            reads.iter_mut().for_each(|read| self.read_window(block, round, &totals, read));
        }
        Ok(inside)
    }

    fn fill_window(&self, block: &SharedBlock, round: usize, mine: &[&[u8]]) {
        let mut at = round * WINDOW;
        let mut window = self.window(block, round, self.rank);
        let mut left = WINDOW;
        for part in mine {
            if at >= part.len() {
                at -= part.len();
                continue;
            }
            let run = left.min(part.len() - at);
            // SAFETY: this rank's window of this turn; its readers have passed a barrier since its last use (see the module). `run` bytes
            // are left in it and in the part.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr().add(at), window, run) };
            // SAFETY: at most one past the end of the window.
            window = unsafe { window.add(run) };
            left -= run;
            at = 0;
            if left == 0 {
                return;
            }
        }
    }

    /// Copies the part of `read` in the window of this round; a read out of range is truncated, its error is already recorded.
    fn read_window(&self, block: &SharedBlock, round: usize, totals: &[usize], read: &mut BulkRead<'_>) {
        let end = (read.position.saturating_add(read.into.len())).min(totals[read.from]);
        let from = read.position.max(round * WINDOW);
        let until = end.min((round + 1) * WINDOW);
        if from >= until {
            return;
        }
        let into = &mut read.into[from - read.position..until - read.position];
        // SAFETY: inside the window, which its rank filled before the barrier and refills only after the next one.
        let window = unsafe {
            std::slice::from_raw_parts(
                self.window(block, round, read.from).add(from % WINDOW).cast_const(),
                into.len(),
            )
        };
        into.copy_from_slice(window);
    }

    fn spin_policy(&self, reads: &[BulkRead<'_>]) -> SpinPolicy {
        self.spin_policy_for(reads.iter().map(|read| read.into.len()).sum::<usize>() >= BULK)
    }

    fn spin_policy_for(&self, bulk: bool) -> SpinPolicy {
        if !may_yield() {
            return SpinPolicy::NONE;
        }
        let cores = self.block.as_deref().map_or(1, |block| cores_of(block).of_ranks(self.size));
        SpinPolicy::choose(self.size, cores, bulk, is_background_thread())
    }

    fn wait_at_barrier(
        &self,
        block: &SharedBlock,
        failure_policy: FailurePolicy,
        spin_policy: SpinPolicy,
        call: CollectiveId,
    ) -> Result<()> {
        let policy = WaitPolicy { failure_policy, spin_policy, flags: futex_flags(&*self.transport) };
        barrier_of(block)
            .arrive(self.size, policy, &*self.transport)
            .map_err(|aborted| departed_rank_error(&*self.transport, call.name(), aborted.failed_rank))
    }

    fn step_mismatch(&self, rank: usize, call: CollectiveId) -> Error {
        let detail = format!(
            "rank {} and rank {} are at different steps of the same call; collective calls of one rank on one communicator must \
             not be concurrent: give each thread a dup",
            self.comm_ranks[self.rank], self.comm_ranks[rank]
        );
        Error::new(Kind::Mismatch, call.name(), detail).caused_by(self.comm_ranks[rank])
    }

    fn write_slot(
        &self,
        block: &SharedBlock,
        turn: usize,
        step: ExchangeKind,
        call: CollectiveId,
        data: &[u8],
    ) {
        let mut slot = [0; SLOT];
        slot[..CollectiveId::LEN].copy_from_slice(&call.encode());
        slot[SLOT_STEP] = step as u8;
        slot[SLOT_LEN..SLOT_DATA].copy_from_slice(&(data.len() as u32).to_le_bytes());
        slot[SLOT_DATA..SLOT_DATA + data.len()].copy_from_slice(data);
        let used = SLOT_DATA + data.len();
        // SAFETY: this rank's slot of this turn; its readers have passed a barrier since its last use.
        unsafe {
            std::ptr::copy_nonoverlapping(slot.as_ptr(), self.slot_start(block, turn, self.rank), used);
        }
    }

    fn slot<'a>(&self, block: &'a SharedBlock, turn: usize, rank: usize) -> &'a [u8] {
        // SAFETY: inside the block, written before the last barrier and not again before the second one after it.
        unsafe { std::slice::from_raw_parts(self.slot_start(block, turn, rank), SLOT) }
    }

    fn slot_start(&self, block: &SharedBlock, turn: usize, rank: usize) -> *mut u8 {
        // SAFETY: `join` has checked that the block holds two rows of slots.
        unsafe { block.start().add(HEADER + (turn * self.size + rank) * SLOT) }
    }

    fn window(&self, block: &SharedBlock, round: usize, rank: usize) -> *mut u8 {
        let slots = HEADER + 2 * self.size * SLOT;
        // SAFETY: `join` has checked that the block of processes holds two rows of windows.
        unsafe { block.start().add(slots + (round % 2 * self.size + rank) * WINDOW) }
    }
}

impl Drop for NodeExchange {
    fn drop(&mut self) {
        // A rank that drops a communicator makes no more calls on it: ranks that wait there get an error. A rank that panics is about to
        // fail, and then other ranks get its message.
        if let Some(block) = &self.block
            && !std::thread::panicking()
        {
            abort_barrier(block, &*self.transport);
        }
    }
}

/// Aborts all current and later barriers in `block`, because this rank no longer reads part.
pub(crate) fn abort_barrier(block: &SharedBlock, transport: &dyn WaitContext) {
    barrier_of(block).abort(transport.rank(), futex_flags(transport));
}

/// The error of an aborted barrier: the failure of the program if there is one, otherwise that a rank has departed.
fn departed_rank_error(transport: &dyn WaitContext, call: &'static str, rank: usize) -> Error {
    transport.mark_induced_failure(Some(rank));
    transport.failure(call).unwrap_or_else(|| {
        let detail = format!(
            "rank {rank} of the world has left the program, or dropped this communicator, without making this call"
        );
        Error::new(Kind::RankFailed, call, detail).caused_by(rank)
    })
}

// A page has the largest alignment.
#[allow(clippy::cast_ptr_alignment)]
fn barrier_of(block: &SharedBlock) -> &FutexBarrier {
    // SAFETY: a block is page-aligned, starts with zeroed space for the barrier, all-zero is a valid value, and it is only used
    // through atomics.
    #[allow(clippy::cast_ptr_alignment)]
    unsafe {
        &*block.start().cast::<FutexBarrier>()
    }
}

// A page has the largest alignment.
#[allow(clippy::cast_ptr_alignment)]
fn cores_of(block: &SharedBlock) -> &NodeCores {
    // SAFETY: a block is page-aligned and zeroed, all-zero is a valid value, and it is only used through atomics. The barrier before it
    // is smaller than `CORES`, and the slots begin at `HEADER`.
    unsafe { &*block.start().add(CORES).cast::<NodeCores>() }
}

fn futex_flags(transport: &dyn WaitContext) -> futex::Flags {
    if transport.shares_addresses() { futex::Flags::PRIVATE } else { futex::Flags::empty() }
}

fn slot_data(slot: &[u8]) -> &[u8] {
    let mut len = [0; 4];
    len.copy_from_slice(&slot[SLOT_LEN..SLOT_DATA]);
    &slot[SLOT_DATA..SLOT_DATA + u32::from_le_bytes(len) as usize]
}

fn in_range(read: &BulkRead<'_>, total: usize, call: CollectiveId) -> Result<()> {
    if read.position.checked_add(read.into.len()).is_some_and(|end| end <= total) {
        return Ok(());
    }
    let detail = format!(
        "read of {1} bytes at {0} of local rank {2}, which has {total} bytes",
        read.position,
        read.into.len(),
        read.from
    );
    Err(Error::new(Kind::Mismatch, call.name(), detail))
}

/// Copies one read from the concatenation of parts.
fn copy(stream: &[&[u8]], read: &mut BulkRead<'_>, call: CollectiveId) -> Result<()> {
    in_range(read, stream.iter().map(|part| part.len()).sum(), call)?;
    let mut at = read.position;
    let mut into = &mut *read.into;
    for part in stream {
        if at >= part.len() {
            at -= part.len();
            continue;
        }
        let run = into.len().min(part.len() - at);
        let (now, later) = into.split_at_mut(run);
        now.copy_from_slice(&part[at..at + run]);
        into = later;
        at = 0;
        if into.is_empty() {
            break;
        }
    }
    Ok(())
}

fn keep_first(first: &mut Result<()>, next: Result<()>) {
    if first.is_ok() {
        *first = next;
    }
}
