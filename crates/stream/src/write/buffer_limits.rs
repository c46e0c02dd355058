//! The memory of an output on one rank: a part of the memory budget of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aqueduct_comm::Comm;
use aqueduct_file::write_behind::{BudgetUser, MemoryBudget, OwnerLimits, process_ranks};

/// An output takes an eighth of the limit of the process, if the program gives no size, divided by its ranks.
const DEFAULT_SHARE: u64 = 8;
/// Its minimum, with which it can always work, is at most this share, divided by the ranks.
const MINIMUM_SHARE: u64 = 64;
/// A chunk is not made smaller than this to keep the minimum small.
const SMALLEST_CHUNK: u64 = 4 << 10;

/// The limits of the buffers of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferLimits {
    /// The number of buffers, and the bytes of each.
    pub(crate) buffers: usize,
    pub(crate) buffer: u64,
    /// Bytes of the largest chunk: a buffer is divided into chunks if it is large beside the limit of the process.
    pub(crate) capacity: u64,
    /// Chunks that are needed beside those of the buffers.
    pub(crate) extra: usize,
    /// Bytes that a step is expected to have.
    pub(crate) expected: u64,
    /// A sync follows after each so many batches.
    pub(crate) durable_every: Option<u64>,
}

impl BufferLimits {
    /// Divides `memory`, or the default share, among the buffers and `extra` others.
    pub(crate) fn new(comm: &Comm, memory: Option<u64>, buffers: usize, extra: usize) -> Self {
        let share = MemoryBudget::of_process(comm).level().cap / process_ranks(comm) as u64;
        let memory = memory.unwrap_or((share / DEFAULT_SHARE).max(1 << 20));
        let buffer = memory / (buffers + extra) as u64;
        let largest = (share / MINIMUM_SHARE / (1 + extra) as u64).max(SMALLEST_CHUNK);
        let capacity = buffer / buffer.div_ceil(largest).max(1);
        Self { buffers, buffer, capacity, extra, expected: 0, durable_every: None }
    }

    /// The most chunks in use while steps of this size are written.
    pub(crate) fn chunks(&self, step: u64) -> usize {
        self.buffers * step.min(self.buffer).div_ceil(self.capacity).max(1) as usize
    }

    /// Joins the budget of the process, with the memory of `extra` chunks of at most `largest` bytes.
    pub(crate) fn join(&self, comm: &Comm, largest: u64) -> OutputMemory {
        let reserved = self.extra as u64 * self.capacity.min(largest);
        let cap = self.buffer * (self.buffers + self.extra) as u64;
        let limits = OwnerLimits { cap, minimum: self.capacity + reserved, reserved: 0 };
        let budget = MemoryBudget::of_process(comm).join(limits);
        // A part of the minimum, so that it is granted.
        budget.take(reserved);
        OutputMemory { budget: Arc::new(budget), limits: *self, cap, reserved, gathered: Arc::default() }
    }
}

/// The memory of an output on a rank.
pub(crate) struct OutputMemory {
    pub(crate) budget: Arc<BudgetUser>,
    pub(crate) limits: BufferLimits,
    /// The most bytes that it may take.
    pub(crate) cap: u64,
    /// Bytes that are taken for gathering.
    pub(crate) reserved: u64,
    /// The peak of the memory of gathering.
    pub(crate) gathered: Arc<AtomicU64>,
}

impl OutputMemory {
    /// The peak of the memory of buffers and of gathering.
    pub(crate) fn peak(&self) -> u64 {
        let buffers = self.budget.level().peak.saturating_sub(self.reserved);
        buffers + self.gathered.load(Ordering::Relaxed)
    }
}
