//! The write buffer: a write is copied and returns, and a thread of the rank writes the copy to the file (active buffering: Ma, Winslett, Lee,
//! Yu, "Improving MPI-IO output performance with active buffering plus threads", IPDPS 2003,
//! <https://cs.dartmouth.edu/~kotz/research/project/pario/archive/bib/bibtex/ma-buffering.bib>).
//! `docs/buffering.md` has the guarantees.
//!
//! Accepted data is kept in [`BufferedBlock`]s, in order. [`AdmissionControl`] decides where the next bytes go, the [`SnapshotObserver`] how
//! fast they are written, the [`PendingTable`] publishes pending writes to the other ranks of the node, and [`DrainThread`] writes them.

mod admission;
mod block_queue;
mod buffer_state;
mod drain_target;
mod drain_thread;
mod footprint;
mod pacing;
mod pending_slots;
mod pending_table;
mod status;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use aqueduct_comm::Comm;
use aqueduct_device::Handle;
use aqueduct_report::{Report, ReportSource};

use crate::context::counters::CounterCells;
use crate::error::{Error, Result};
use crate::hints::BufferOptions;
use crate::memory::chunks::WriteData;
use crate::view::View;
use crate::write_behind::memory_ledger::Allocation;
use crate::write_behind::{BudgetUser, MemoryBudget, process_ranks};
use crate::write_behind::{SpillFile, SpillRing};
use admission::{Admission, AdmissionControl, BlockCosts};
use block_queue::{BlockEntry, BlockStorage, BufferedBlock, WritePart};
use buffer_state::BufferState;
pub use drain_target::DrainTarget;
pub(crate) use drain_thread::{DrainContext, DrainThread};
use footprint::ByteSpan;
pub(crate) use footprint::Footprint;
use pacing::SnapshotObserver;
use pending_slots::CollectiveSeq;
use pending_table::PendingTable;
pub use status::BufferStatus;

/// The accepted writes of a rank that are not in the file yet.
pub(crate) struct WriteBuffer {
    name: Arc<str>,
    /// True on rank 0, which prints reports.
    reports: bool,
    begun: Instant,
    /// Data bytes of a block, and entries of its list.
    block: usize,
    list: usize,
    pending_table: PendingTable,
    /// The file's access to the memory budget.
    budget: Arc<BudgetUser>,
    spill: Option<SpillFile>,
    /// The level between this buffer and the file, if there is one.
    target: Option<Arc<dyn DrainTarget>>,
    /// One access is accepted at a time, so that its parts stay together.
    accepting: Mutex<()>,
    /// The number of collective writes so far.
    collective_calls: AtomicU64,
    state: Mutex<BufferState>,
    change: Condvar,
}

/// Blocks that the memory is divided into: few enough to be written in large pieces, many enough to be refilled while others are written.
const BLOCKS: u64 = 64;

/// At most so many bytes are copied while the drain thread waits for the lock.
const AT_ONCE: u64 = 16 << 10;

/// The bytes of a block while a rank copies into it, which are put back even after a panic.
struct BlockFill<'a> {
    buffer: &'a WriteBuffer,
    bytes: Vec<u8>,
}

impl<'a> BlockFill<'a> {
    fn done(mut self) -> MutexGuard<'a, BufferState> {
        let buffer = self.buffer;
        let mut state = buffer.lock();
        state.end_filling(std::mem::take(&mut self.bytes));
        state
    }
}

impl Drop for BlockFill<'_> {
    fn drop(&mut self) {
        // They are still here only if copying has panicked.
        if !self.bytes.is_empty() {
            self.buffer.lock().end_filling(std::mem::take(&mut self.bytes));
            self.buffer.change.notify_all();
        }
    }
}

impl WriteBuffer {
    /// Collective.
    pub(crate) fn new(
        name: &Arc<str>,
        comm: &Comm,
        options: &BufferOptions,
        target: Option<Arc<dyn DrainTarget>>,
    ) -> aqueduct_comm::Result<Self> {
        let pending_table = PendingTable::new(comm)?;
        let memory = options.memory.bytes(pending_table.node_size());
        let budget = MemoryBudget::of_process(comm);
        // The minimums of all ranks, a block each, are a small part of the limit of the process.
        let shared = memory.min(budget.level().cap / process_ranks(comm) as u64);
        let block = (shared / BLOCKS).next_power_of_two().clamp(4 << 10, 4 << 20) as usize;
        let list = (block / 1024).max(4);
        let costs = BlockCosts {
            block: (block + list * size_of::<BlockEntry>() + size_of::<BufferedBlock>()) as u64,
            list: (size_of::<BlockEntry>() + size_of::<BufferedBlock>()) as u64,
        };
        // Without a spill file, only memory is used.
        let spill = options.spill.as_deref().and_then(|folder| SpillFile::new(folder).ok());
        let spilled = if spill.is_some() { options.spill_size.unwrap_or(4 * memory) } else { 0 };
        let admission = AdmissionControl::new(memory, spilled, costs);
        let budget = Arc::new(budget.join_rank(comm.thread_id(), admission.limits()));
        let state = BufferState::new(
            admission,
            Arc::clone(&budget),
            SpillRing::new(spilled),
            SnapshotObserver::new(memory),
        );
        Ok(Self {
            name: Arc::clone(name),
            reports: comm.rank() == 0,
            begun: Instant::now(),
            block,
            list,
            pending_table,
            budget,
            spill,
            target,
            accepting: Mutex::new(()),
            collective_calls: AtomicU64::new(0),
            state: Mutex::new(state),
            change: Condvar::new(),
        })
    }

    /// The number of the next collective write: all ranks count alike, also those that write nothing.
    pub(crate) fn next_collective_seq(&self) -> u64 {
        let collective_seq = self.collective_calls.fetch_add(1, Ordering::Relaxed) + 1;
        let mut state = self.lock();
        state.begin(collective_seq);
        self.pending_table.publish(&state.pending, &state.slots);
        collective_seq
    }

    /// Copies an access; the caller's memory is free afterwards. Waits if there is no memory.
    pub(crate) fn accept(
        &self,
        counters: &CounterCells,
        view: &Arc<View>,
        first: u64,
        data: &WriteData<'_>,
        collective_seq: CollectiveSeq,
    ) -> Result<()> {
        let _one = self.accepting.lock().unwrap_or_else(PoisonError::into_inner);
        let window = first..first + data.len();
        if window.is_empty() {
            return self.check_not_failed();
        }
        self.pending_table.wait_for_others(&Footprint::of(view, &window), collective_seq);
        let start = self.begun.elapsed();
        let access = self.lock().next_access();
        let mut done = 0;
        while done < data.len() {
            let part = WritePart { view, window: first + done..window.end, access, collective_seq };
            let accepted = self.accept_part(counters, part, data, done);
            done += accepted.inspect_err(|_| self.budget.leave_queue())?;
        }
        self.observe(start, data.len());
        Ok(())
    }

    /// Copies as much of a part as fits into one block; how much that was.
    fn accept_part(
        &self,
        counters: &CounterCells,
        mut part: WritePart<'_>,
        data: &WriteData<'_>,
        from: u64,
    ) -> Result<u64> {
        let rest = part.window.end - part.window.start;
        let mut state = self.lock();
        loop {
            state.check_not_failed()?;
            if let Some(block) = state.open_block(self.block, part.view, part.window.start) {
                let at = block.filled;
                let len = rest.min((self.block - at) as u64);
                let room = at..at + len as usize;
                if let (BlockStorage::Memory(bytes), true) = (&mut block.store, len <= AT_ONCE) {
                    data.copy(counters, from, &mut bytes[room]);
                } else if let Some(bytes) = state.begin_filling() {
                    drop(state);
                    let mut filling = BlockFill { buffer: self, bytes };
                    data.copy(counters, from, &mut filling.bytes[room]);
                    state = filling.done();
                    state.check_not_failed()?;
                }
                part.window.end = part.window.start + len;
                self.push(&mut state, part, None);
                return Ok(len);
            }
            let returns = self.budget.returns();
            match self.admit(&mut state, rest) {
                (Admission::Memory, bytes) => {
                    state.queue.push_back(BufferedBlock::new(BlockStorage::Memory(bytes), self.list));
                }
                (Admission::Spill(len), _) => {
                    match self.spill_part(counters, state, &mut part, data, from, len)? {
                        Some(len) => return Ok(len),
                        None => state = self.lock(),
                    }
                }
                // The failure is returned by the check above.
                (Admission::Fail, _) => {}
                (Admission::Wait, _) => {
                    drop(state);
                    // The drain thread stops pacing.
                    self.change.notify_all();
                    self.budget.wait(returns);
                    state = self.lock();
                }
            }
        }
    }

    /// Where the next bytes go, and the block, if it is one.
    fn admit(&self, state: &mut BufferState, wanted: u64) -> (Admission, Vec<u8>) {
        let budget = &self.budget;
        let mut block = Vec::new();
        let verdict = state.admission.admit(wanted, |allocation| match allocation {
            Allocation::Block(cost) => {
                let taken = budget.take_block(self.block, cost);
                taken.map(|bytes| block = bytes).is_some()
            }
            Allocation::List(bytes) => budget.take_list(bytes),
        });
        (verdict, block)
    }

    /// Copies a part into the spill file; how much of it, or none if writing fails.
    fn spill_part(
        &self,
        counters: &CounterCells,
        mut state: MutexGuard<'_, BufferState>,
        part: &mut WritePart<'_>,
        data: &WriteData<'_>,
        from: u64,
        granted: u64,
    ) -> Result<Option<u64>> {
        let range = state.ring.take(granted);
        let len = range.end - range.start;
        state.admission.spilled_less(granted - len);
        drop(state);
        // The drain thread continues; no other access is accepted.
        let spill = self.spill.as_ref().expect("bytes of a spill file were granted");
        let mut outcome = Ok(());
        data.for_each_chunk(counters, from..from + len, |piece, bytes| {
            if outcome.is_ok() {
                outcome = spill.write(range.start + (piece.start - from), bytes);
            }
            Ok(())
        })?;
        let mut state = self.lock();
        state.check_not_failed()?;
        if outcome.is_err() {
            state.ring.take_back(len);
            self.budget.release(state.admission.unspilled(len));
            state.admission.spill_is_broken();
            return Ok(None);
        }
        let (view, access, collective_seq) = (part.view, part.access, part.collective_seq);
        let window = part.window.start..part.window.start + len;
        self.push(
            &mut state,
            WritePart { view, window, access, collective_seq },
            Some(BlockStorage::Spilled(range)),
        );
        Ok(Some(len))
    }

    /// Adds a part whose bytes were copied: in a block of its own, or in the last one.
    fn push(&self, state: &mut BufferState, part: WritePart<'_>, store: Option<BlockStorage>) {
        if let Some(store) = store {
            state.queue.push_back(BufferedBlock::new(store, 1));
        }
        if let Some((place, slot)) = state.enter(part) {
            self.pending_table.publish_slot(place, &slot);
        }
        self.pending_table.publish(&state.pending, &state.slots);
        self.change.notify_all();
    }

    /// Records an access for pacing, and reports changes of the pace.
    fn observe(&self, start: std::time::Duration, bytes: u64) {
        let mut state = self.lock();
        let begun = state.observer.record(start, self.begun.elapsed(), bytes);
        if !begun {
            return;
        }
        state.unsynced = state.unsynced.map(|snapshots| snapshots + 1);
        let (before, pacing) = (state.pacing, state.observer.pacing());
        state.pacing = pacing;
        drop(state);
        let Some(pacing) = pacing.filter(|_| self.reports) else { return };
        if before.is_none_or(|before| before.rate.is_some() != pacing.rate.is_some()) {
            Report::new(ReportSource::File).file(&self.name).emit(&pacing);
        }
    }

    /// Waits until pending writes that overlap a read, or that determine the file length, are in the file.
    pub(crate) fn wait_for_overlaps(&self, footprint: &Footprint) -> Result<()> {
        self.pending_table.wait_for_others(footprint, None);
        if let Some((rank, lost, kind)) = self.pending_table.lost_by_another(footprint.span) {
            let detail = format!(
                "bytes {} to {} hold data that rank {rank} wrote, which was accepted and could not be written; \
                 close the file, open it anew and write again what matters",
                lost.start, lost.end
            );
            return Err(Error::new(kind, "read", &self.name, detail));
        }
        let last = self.lock().last_overlapping(footprint.span);
        self.wait_until(last)
    }

    /// The same before a sync: writeback of what is in the file starts at once, so that the sync has little left to do.
    pub(crate) fn flush_to_sync(&self, handle: &dyn Handle) -> Result<()> {
        let expected = self.lock().expects_sync();
        self.lock().unsynced = Some(0);
        if self.target.is_none() && !expected {
            handle.start_writeback(0..i64::MAX as u64);
        }
        self.flush()
    }

    /// Waits until everything that this rank has accepted is in the file.
    pub(crate) fn flush(&self) -> Result<()> {
        let last = self.lock().pending.accepted;
        self.wait_until(last)
    }

    fn wait_until(&self, part: u64) -> Result<()> {
        let mut state = self.lock();
        state.flush_waiters += 1;
        self.change.notify_all();
        let waits = |state: &mut BufferState| state.pending.written < part && state.failure.is_none();
        let mut state = self.change.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        state.flush_waiters -= 1;
        state.check_not_failed()
    }

    /// Fails if a write has failed in the background.
    fn check_not_failed(&self) -> Result<()> {
        self.lock().check_not_failed()
    }

    /// Makes durable what the drain target has written.
    pub(crate) fn sync_target(&self) -> Result<()> {
        self.target.as_ref().map_or(Ok(()), |target| target.sync())
    }

    /// The first `visible` bytes are durable: they were in the file when a sync began.
    pub(crate) fn mark_durable(&self, visible: u64) {
        let mut state = self.lock();
        state.durable = state.durable.max(visible);
    }

    pub(crate) fn status(&self) -> BufferStatus {
        let state = self.lock();
        BufferStatus {
            accepted: state.accepted,
            visible: state.visible,
            durable: state.durable,
            memory: state.admission.memory(),
            together: self.budget.level(),
            spill: state.admission.spill(),
            away: state.remote_bytes(),
            waits: state.admission.waits(),
        }
    }

    /// The error of a failed write, for all later calls.
    fn lost_error(&self, access: u64, span: ByteSpan, lost: u64, error: &Error) -> Error {
        let ByteSpan { start, end } = span;
        let detail = format!(
            "write number {access} of this rank, bytes {start} to {end} of the file, was accepted and could not be written: {}; of what was \
             accepted, {lost} bytes are not in the file; close it, open it anew and write again what matters",
            error.detail()
        );
        Error::new(error.kind(), "write", &self.name, detail)
    }

    fn lock(&self) -> MutexGuard<'_, BufferState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
