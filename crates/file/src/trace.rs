//! A trace of what a program does to its files: per call the rank, the operation, the time in each phase, bytes, the strategy with its
//! estimate and those of the others, and the bytes of the file in compact form.
//!
//! It is on if the environment variable `AQUEDUCT_TRACE` names a folder, which is created. Each rank writes three files to it:
//!
//! | file | contents |
//! |---|---|
//! | `rank-R.facts` | lines of text: rank, node, program, host, clock, the open files |
//! | `rank-R.calls` | a [`CallRecord`] per call, or 32 bytes for an access to one run of the file |
//! | `rank-R.extents` | the [`FileExtent`]s of each call |
//!
//! A rank keeps up to [`BUFFERED_CALLS`] calls in memory, and as many accesses to one run, which the thread that makes most of them stores
//! without a lock. They are written to the folder when they are so many and when a file is closed, and
//! a thread of the process writes them every 200 ms: a program that is killed loses no more than the last of them, also if its ranks
//! compute or wait. After [`MOST_CALLS`] calls of a rank, further ones are counted and not recorded, and after [`MOST_EXTENT_BYTES`] of extents
//! calls are recorded without them, so that the trace of a rank has less than 300 MB. The choice of a strategy does not depend on the trace.
//!
//! Times are those of the system's monotonic clock, which the ranks of a node share. Between nodes the offset of the clocks is
//! measured when a file is opened.
//!
//! [`TraceFolder::read`] reads a folder; [`replan`](crate::replan) says what another plan would have cost.

mod call_clock;
mod clock_offset;
mod extent;
mod rank_recorder;
mod record;
mod recorded_handle;
mod run_record;
mod trace_folder;

pub(crate) use call_clock::{
    CallTimer, enter, note_buffer, note_exchanged, note_places, note_strategy, note_two_phase, now,
};
pub(crate) use clock_offset::measure_offset;
pub(crate) use rank_recorder::{FileTrace, is_on};
pub(crate) use recorded_handle::RecordedHandle;

pub use extent::FileExtent;
pub use rank_recorder::{BUFFERED_CALLS, MOST_CALLS, MOST_EXTENT_BYTES, StreamTrace, TRACE_VARIABLE};
pub use record::{CallPhase, CallRecord, TracedOperation};
pub use trace_folder::{RankTrace, TraceFolder, TracedFile};
