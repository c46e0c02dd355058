//! The collective core inside a node: ranks meet, tell each other small things, and copy large ones straight from one another.
//!
//! Threads copy from the very buffers their partners hand in: one copy, no staging. Processes stream through windows of the
//! shared block: one copy in, one copy out, both in cache.
//!
//! `unsafe` here: shared memory is read and written through raw pointers. The discipline that makes it sound is the same
//! everywhere: what a rank writes before a meeting, others read after it, and it is not written again before the next meeting
//! but one (slots and windows exist twice and are used in turn).
#![allow(unsafe_code)]

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::thread::futex;

use super::futex_barrier::{FailurePolicy, FutexBarrier, MAX_RANKS, SpinPolicy, WaitPolicy};
use super::shared_block::SharedBlock;
use crate::background_thread::is_background_thread;
use crate::collective_id::CollectiveId;
use crate::wait_context::WaitContext;
use crate::{Error, Kind, Result};

const HEADER: usize = 128;
const SLOT: usize = 256;
/// A slot holds the call, what kind of step this is, the length of the data, and the data.
const SLOT_STEP: usize = CollectiveId::LEN;
const SLOT_LEN: usize = SLOT_STEP + 4;
const SLOT_DATA: usize = SLOT_LEN + 4;
const WINDOW: usize = 256 * 1024;
/// Takes from this size on are worth a look before sleeping.
const BULK: usize = 64 * 1024;

/// The most bytes that [`Hub::tell`] carries.
pub(crate) const SMALL_MAX: usize = SLOT - SLOT_DATA;

/// What the ranks do with what they tell. Threads of a rank that call at once may get ranks out of step inside one and the same
/// call: an address must never be read out of what was told for its own sake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExchangeKind {
    Small = 1,
    Bulk,
}

/// What a rank wants from another one's stream: `into.len()` bytes from `position`.
pub(crate) struct BulkRead<'a> {
    pub(crate) from: usize,
    pub(crate) position: usize,
    pub(crate) into: &'a mut [u8],
}

/// One rank's end of the meeting place of its node. Ranks here are counted within the node.
pub(crate) struct NodeExchange {
    block: Option<Arc<SharedBlock>>,
    rank: usize,
    size: usize,
    /// The communicator's ranks of the node, for messages to people.
    comm_ranks: Vec<usize>,
    transport: Arc<dyn WaitContext>,
    /// How often this rank has told something: which of the two slots is next. Held through each call, so that two threads of a
    /// rank cannot tear one another's calls.
    exchanges: Mutex<usize>,
}

impl NodeExchange {
    /// The bytes of shared memory that `size` ranks need.
    pub(crate) fn block_len(size: usize, wire: &dyn WaitContext) -> usize {
        let windows = if wire.shares_addresses() { 0 } else { 2 * size * WINDOW };
        HEADER + 2 * size * SLOT + windows
    }

    /// The hub of a rank whose node holds nobody else.
    pub(crate) fn single_rank(name: usize, wire: Arc<dyn WaitContext>) -> Self {
        Self {
            block: None,
            rank: 0,
            size: 1,
            comm_ranks: vec![name],
            transport: wire,
            exchanges: Mutex::new(0),
        }
    }

    /// The end of rank `rank` of a hub in `block`; `names` are the communicator's ranks that share it.
    pub(crate) fn join(
        block: Arc<SharedBlock>,
        rank: usize,
        names: Vec<usize>,
        wire: Arc<dyn WaitContext>,
    ) -> Result<Self> {
        let size = names.len();
        if size > MAX_RANKS || block.len() < Self::block_len(size, &*wire) {
            let detail = format!("{size} ranks cannot share one node's memory; at most {MAX_RANKS} can");
            return Err(Error::new(Kind::Unsupported, "split", detail));
        }
        Ok(Self {
            block: Some(block),
            rank,
            size,
            comm_ranks: names,
            transport: wire,
            exchanges: Mutex::new(0),
        })
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// The memory it lives in; none where the node holds nobody else.
    pub(crate) fn block(&self) -> Option<&Arc<SharedBlock>> {
        self.block.as_ref()
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Waits until all ranks of the node have come.
    pub(crate) fn barrier(&self, call: CollectiveId) -> Result<()> {
        self.exchange_small(call, &[], |_, _| ())
    }

    /// Every rank tells up to [`TELLABLE`] bytes; `each` sees what each rank told, in rank order. One meeting.
    pub(crate) fn exchange_small(
        &self,
        call: CollectiveId,
        mine: &[u8],
        each: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        let mut told = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        self.exchange_slots(&mut told, ExchangeKind::Small, call, self.spin_policy_for(false), mine, each)
    }

    fn exchange_slots(
        &self,
        told: &mut usize,
        step: ExchangeKind,
        call: CollectiveId,
        patience: SpinPolicy,
        mine: &[u8],
        mut each: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        assert!(mine.len() <= SMALL_MAX, "a rank tells at most {SMALL_MAX} bytes");
        let Some(block) = &self.block else {
            each(0, mine);
            return Ok(());
        };
        let turn = *told % 2;
        self.write_slot(block, turn, step, call, mine);
        self.wait_at_barrier(block, FailurePolicy::Abort, patience, call)?;
        // A turn is over when the ranks have met: a rank that tries again after a failure must not write the slots of the last
        // meeting, which others may still read.
        *told += 1;
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

    /// Every rank lays open a stream (its parts, one after the other) and takes what it wants from the streams of all.
    /// Buffers are free again when it returns. Two meetings for threads; for processes one more per window.
    pub(crate) fn exchange_bulk(
        &self,
        call: CollectiveId,
        mine: &[&[u8]],
        takes: &mut [BulkRead<'_>],
    ) -> Result<()> {
        let mut told = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inside = Ok(());
        match &self.block {
            None => takes.iter_mut().for_each(|take| keep_first(&mut inside, copy(mine, take, call))),
            Some(block) if self.transport.shares_addresses() => {
                inside = self.exchange_by_address(&mut told, block, call, mine, takes)?;
            }
            Some(block) => inside = self.exchange_by_window(&mut told, block, call, mine, takes)?,
        }
        inside
    }

    fn exchange_by_address(
        &self,
        told: &mut usize,
        block: &SharedBlock,
        call: CollectiveId,
        mine: &[&[u8]],
        takes: &mut [BulkRead<'_>],
    ) -> Result<Result<()>> {
        let patience = self.spin_policy(takes);
        let mut streams: Vec<(usize, usize)> = Vec::with_capacity(self.size);
        let address = [mine.as_ptr() as usize, mine.len()];
        self.exchange_slots(
            told,
            ExchangeKind::Bulk,
            call,
            patience,
            bytemuck::cast_slice(&address),
            |_, bytes| {
                let [start, parts] = bytemuck::pod_read_unaligned(bytes);
                streams.push((start, parts));
            },
        )?;
        let mut inside = Ok(());
        for take in takes {
            let (start, parts) = streams[take.from];
            // SAFETY: every rank of this hub is a thread of this process and at this step of this call (checked by the tell), so these are
            // the address and length of its `mine`, which stays borrowed until the meeting below: no rank returns before it.
            let stream = unsafe { std::slice::from_raw_parts(start as *const &[u8], parts) };
            keep_first(&mut inside, copy(stream, take, call));
        }
        self.wait_at_barrier(block, FailurePolicy::Complete, patience, call)?;
        Ok(inside)
    }

    fn exchange_by_window(
        &self,
        told: &mut usize,
        block: &SharedBlock,
        call: CollectiveId,
        mine: &[&[u8]],
        takes: &mut [BulkRead<'_>],
    ) -> Result<Result<()>> {
        let patience = self.spin_policy(takes);
        let total: usize = mine.iter().map(|part| part.len()).sum();
        let mut totals = Vec::with_capacity(self.size);
        self.exchange_slots(
            told,
            ExchangeKind::Bulk,
            call,
            patience,
            bytemuck::bytes_of(&total),
            |_, bytes| {
                totals.push(bytemuck::pod_read_unaligned::<usize>(bytes));
            },
        )?;
        let mut inside = Ok(());
        for take in takes.iter() {
            keep_first(&mut inside, in_range(take, totals[take.from], call));
        }
        let rounds = totals.iter().max().map_or(0, |longest| longest.div_ceil(WINDOW));
        for round in 0..rounds {
            self.fill_window(block, round, mine);
            self.wait_at_barrier(block, FailurePolicy::Complete, patience, call)?;
            takes.iter_mut().for_each(|take| self.read_window(block, round, &totals, take));
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
            // SAFETY: this rank's window of this turn; the readers of its last use have met since (see the module). `run` bytes
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

    /// Copies what of `take` lies in the window of this round; a take out of range gets what there is, its error is known already.
    fn read_window(&self, block: &SharedBlock, round: usize, totals: &[usize], take: &mut BulkRead<'_>) {
        let end = (take.position.saturating_add(take.into.len())).min(totals[take.from]);
        let from = take.position.max(round * WINDOW);
        let until = end.min((round + 1) * WINDOW);
        if from >= until {
            return;
        }
        let into = &mut take.into[from - take.position..until - take.position];
        // SAFETY: inside the window, which its rank filled before the meeting and refills only after the next one.
        let window = unsafe {
            std::slice::from_raw_parts(
                self.window(block, round, take.from).add(from % WINDOW).cast_const(),
                into.len(),
            )
        };
        into.copy_from_slice(window);
    }

    fn spin_policy(&self, takes: &[BulkRead<'_>]) -> SpinPolicy {
        self.spin_policy_for(takes.iter().map(|take| take.into.len()).sum::<usize>() >= BULK)
    }

    fn spin_policy_for(&self, bulk: bool) -> SpinPolicy {
        SpinPolicy::choose(self.size, cores(), bulk, is_background_thread())
    }

    fn wait_at_barrier(
        &self,
        block: &SharedBlock,
        attendance: FailurePolicy,
        patience: SpinPolicy,
        call: CollectiveId,
    ) -> Result<()> {
        let manner = WaitPolicy {
            failure_policy: attendance,
            spin_policy: patience,
            flags: futex_flags(&*self.transport),
        };
        barrier_of(block)
            .arrive(self.size, manner, &*self.transport)
            .map_err(|never| departed_rank_error(&*self.transport, call.name(), never.failed_rank))
    }

    fn step_mismatch(&self, rank: usize, call: CollectiveId) -> Error {
        let detail = format!(
            "rank {} and rank {} are at different steps of the same call; collective calls of one rank on one communicator must \
             follow one another: give each thread a dup",
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
        // SAFETY: this rank's own slot of this turn; its readers have met since its last use.
        unsafe {
            std::ptr::copy_nonoverlapping(slot.as_ptr(), self.slot_start(block, turn, self.rank), used);
        }
    }

    fn slot<'a>(&self, block: &'a SharedBlock, turn: usize, rank: usize) -> &'a [u8] {
        // SAFETY: inside the block, written before the meeting just passed and not again before the next but one.
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
        // A rank that gives up a communicator never comes to its meetings again: who still waits there must learn it. One that
        // panics is about to fail as a whole, and then everyone learns why, too.
        if let Some(block) = &self.block
            && !std::thread::panicking()
        {
            abort_barrier(block, &*self.transport);
        }
    }
}

/// This rank never comes to the hub of `block` again: ends all its open meetings, now and for ever.
pub(crate) fn abort_barrier(block: &SharedBlock, wire: &dyn WaitContext) {
    barrier_of(block).abort(wire.rank(), futex_flags(wire));
}

/// The error of a meeting that never takes place: that of the program's failure if there is one, else that a rank is gone.
fn departed_rank_error(wire: &dyn WaitContext, call: &'static str, rank: usize) -> Error {
    wire.mark_induced_failure(Some(rank));
    wire.failure(call).unwrap_or_else(|| {
        let detail = format!(
            "rank {rank} of the world has left the program, or dropped this communicator, without making this call"
        );
        Error::new(Kind::RankFailed, call, detail).caused_by(rank)
    })
}

// A page holds any alignment.
#[allow(clippy::cast_ptr_alignment)]
fn barrier_of(block: &SharedBlock) -> &FutexBarrier {
    // SAFETY: a block is page-aligned, starts with zeroed room for this, all-zero is a valid value, and it is only ever used
    // through atomics.
    #[allow(clippy::cast_ptr_alignment)]
    unsafe {
        &*block.start().cast::<FutexBarrier>()
    }
}

fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

fn futex_flags(wire: &dyn WaitContext) -> futex::Flags {
    if wire.shares_addresses() { futex::Flags::PRIVATE } else { futex::Flags::empty() }
}

fn slot_data(slot: &[u8]) -> &[u8] {
    let mut len = [0; 4];
    len.copy_from_slice(&slot[SLOT_LEN..SLOT_DATA]);
    &slot[SLOT_DATA..SLOT_DATA + u32::from_le_bytes(len) as usize]
}

fn in_range(take: &BulkRead<'_>, total: usize, call: CollectiveId) -> Result<()> {
    if take.position.checked_add(take.into.len()).is_some_and(|end| end <= total) {
        return Ok(());
    }
    let detail = format!(
        "bytes {}..+{} wanted of rank {} of this node, which has {total}",
        take.position,
        take.into.len(),
        take.from
    );
    Err(Error::new(Kind::Mismatch, call.name(), detail))
}

/// Copies one take out of a stream of parts.
fn copy(stream: &[&[u8]], take: &mut BulkRead<'_>, call: CollectiveId) -> Result<()> {
    in_range(take, stream.iter().map(|part| part.len()).sum(), call)?;
    let mut at = take.position;
    let mut into = &mut *take.into;
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
