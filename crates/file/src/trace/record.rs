//! The record of a call, of fixed size.

use bytemuck::{Pod, Zeroable};

use crate::hints::Strategy;

/// Where the time of a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum CallPhase {
    /// Planning, checks, conversion, copies into a write buffer.
    Engine,
    /// Waiting for other ranks: barriers, agreements, locks.
    Wait,
    /// Copies between the program's memory and the buffers of a collective access.
    Pack,
    /// Messages to other nodes, and lists of runs to aggregators.
    Exchange,
    /// Reads, writes and syncs of the device, and copies to mapped pages.
    Device,
}

impl CallPhase {
    /// All phases, in the order of [`CallRecord::phases`].
    pub const ALL: [Self; 5] = [Self::Engine, Self::Wait, Self::Pack, Self::Exchange, Self::Device];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        ["engine", "wait", "pack", "exchange", "device"][self as usize]
    }
}

/// What a call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TracedOperation {
    /// Opened a file.
    Open = 1,
    /// Closed it.
    Close,
    /// Read.
    Read,
    /// Wrote.
    Write,
    /// Made data durable.
    Sync,
    /// Truncated or extended the file.
    Resize,
    /// A read of the device by a background thread.
    BackgroundRead,
    /// A write of the device by a background thread: of a write buffer, or of an aggregator.
    BackgroundWrite,
    /// The progress of a stream: steps in place of bytes.
    StreamStep,
}

impl TracedOperation {
    const ALL: [Self; 9] = [
        Self::Open,
        Self::Close,
        Self::Read,
        Self::Write,
        Self::Sync,
        Self::Resize,
        Self::BackgroundRead,
        Self::BackgroundWrite,
        Self::StreamStep,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Close => "close",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Resize => "resize",
            Self::BackgroundRead => "background read",
            Self::BackgroundWrite => "background write",
            Self::StreamStep => "stream step",
        }
    }
}

/// What is recorded of a call. Times are nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct CallRecord {
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Nanoseconds in each [`CallPhase`]; together all of its time.
    pub phases: [u64; 5],
    /// Bytes that the program read or wrote.
    pub bytes: u64,
    /// Contiguous runs of the file that they are.
    pub runs: u64,
    /// The bytes of the file from the first to after the last.
    pub span: [u64; 2],
    /// Bytes that went to an aggregator on another rank, or came from it.
    pub exchanged: u64,
    /// Bytes that this rank read from the device or wrote to it.
    pub device_bytes: u64,
    /// Of a buffered file, or of a stream: bytes, or steps, that were accepted so far.
    pub accepted: u64,
    /// Of these, those in the file.
    pub visible: u64,
    /// Of these, those that a sync has made durable.
    pub durable: u64,
    /// Memory of write buffers: in use, and the limit.
    pub memory: [u64; 2],
    /// The estimated nanoseconds of each strategy in the order of [`CallRecord::STRATEGIES`]; 0 where there is no estimate.
    pub estimates: [f32; 5],
    /// The number of the file.
    pub file: u32,
    /// Numbers the collective calls of a file: the same on all ranks. 0 for other calls.
    pub sequence: u32,
    /// Accesses to the device.
    pub device_calls: u32,
    /// Rounds of a two-phase access.
    pub rounds: u32,
    /// Aggregators of a two-phase access.
    pub aggregators: u32,
    /// How many extents say which bytes of the file are the call's.
    pub owned_extents: u16,
    /// How many extents say which bytes this rank accessed on the device.
    pub device_extents: u16,
    pub(crate) operation: u8,
    pub(crate) strategy: u8,
    pub(crate) flags: u8,
    pub(crate) reserved: u8,
}

impl CallRecord {
    /// Its size in a file.
    pub const SIZE: usize = size_of::<Self>();
    /// The strategies, in the order of the estimates.
    pub const STRATEGIES: [Strategy; 5] =
        [Strategy::Direct, Strategy::List, Strategy::Sieve, Strategy::Map, Strategy::TwoPhase];

    pub(crate) const COLLECTIVE: u8 = 1;
    pub(crate) const FAILED: u8 = 2;
    pub(crate) const BACKGROUND: u8 = 4;
    pub(crate) const INEXACT: u8 = 8;

    /// False if no program can have done this: sums of such numbers would overflow.
    pub(super) fn is_plausible(&self) -> bool {
        let Self { start, end, bytes, exchanged, device_bytes, runs, .. } = *self;
        let is_small = |number: u64| number < 1 << 43;
        let times = start <= end
            && end < 1 << 62
            && self.phases.iter().all(|nanoseconds| *nanoseconds <= end - start);
        times
            && [bytes, exchanged, device_bytes, runs].into_iter().all(is_small)
            && self.operation().is_some()
    }

    /// What the call did; none in a damaged record.
    pub fn operation(&self) -> Option<TracedOperation> {
        TracedOperation::ALL.into_iter().find(|operation| *operation as u8 == self.operation)
    }

    /// The strategy of an access, if one was chosen.
    pub fn strategy(&self) -> Option<Strategy> {
        Self::STRATEGIES.get(usize::from(self.strategy).wrapping_sub(1)).copied()
    }

    /// A collective call.
    pub fn is_collective(&self) -> bool {
        self.flags & Self::COLLECTIVE != 0
    }

    /// It failed, and transferred nothing that is recorded here.
    pub fn has_failed(&self) -> bool {
        self.flags & Self::FAILED != 0
    }

    /// It ran on a thread of the library, while the program went on.
    pub fn is_background(&self) -> bool {
        self.flags & Self::BACKGROUND != 0
    }

    /// The extents cover more than the accessed bytes, because there were too many runs.
    pub fn is_inexact(&self) -> bool {
        self.flags & Self::INEXACT != 0
    }

    /// Nanoseconds from the beginning to the end.
    pub fn duration(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}
