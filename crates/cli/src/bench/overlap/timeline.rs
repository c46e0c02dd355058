//! Timelines: when each rank computed, committed and wrote.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Result;
use aqueduct::comm::Comm;
use aqueduct::stream::target::{ChunkSource, OutputTarget, StepBatch};
use aqueduct::stream::{Declaration, Error};

use super::file_format::OverlapFormat;

/// The activity of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankActivity {
    Computing = 0,
    HandingOver = 1,
    Writing = 2,
}

/// An interval in seconds since the start of all ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ActivitySpan {
    pub(crate) activity: RankActivity,
    pub(crate) begin: f64,
    pub(crate) end: f64,
}

/// The intervals of a rank, including its I/O thread.
#[derive(Clone, Debug)]
pub(crate) struct TimelineRecorder {
    zero: Instant,
    spans: Arc<Mutex<Vec<ActivitySpan>>>,
}

impl TimelineRecorder {
    /// An empty timeline that starts now.
    pub(crate) fn begin() -> Self {
        Self { zero: Instant::now(), spans: Arc::default() }
    }

    /// Runs `work` and records its interval.
    pub(crate) fn record<T>(&self, doing: RankActivity, work: impl FnOnce() -> T) -> T {
        let begin = self.zero.elapsed().as_secs_f64();
        let done = work();
        let span = ActivitySpan { activity: doing, begin, end: self.zero.elapsed().as_secs_f64() };
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).push(span);
        done
    }

    /// The intervals of all ranks, on rank 0. Collective.
    pub(crate) fn gather(&self, comm: &Comm) -> Result<Option<Vec<Vec<ActivitySpan>>>> {
        let spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let numbers = |span: ActivitySpan| [f64::from(span.activity as u8), span.begin, span.end];
        let mine: Vec<f64> = spans.into_iter().flat_map(numbers).collect();
        let all = comm.gather_varied(0, &mine)?;
        let spans = |numbers: Vec<f64>| numbers.chunks_exact(3).map(span).collect();
        Ok(all.map(|all| all.into_iter().map(spans).collect()))
    }
}

fn span(numbers: &[f64]) -> ActivitySpan {
    let doing = match numbers[0] as u8 {
        0 => RankActivity::Computing,
        1 => RankActivity::HandingOver,
        _ => RankActivity::Writing,
    };
    ActivitySpan { activity: doing, begin: numbers[1], end: numbers[2] }
}

/// A stream target that records its writes.
pub(crate) struct RecordingTarget {
    inner: Box<dyn OutputTarget>,
    recorder: TimelineRecorder,
}

impl RecordingTarget {
    /// Creates a file.
    pub(crate) fn create(
        comm: &Comm,
        name: &str,
        declared: &Arc<Declaration>,
        (format, notes): (OverlapFormat, &TimelineRecorder),
    ) -> Result<Box<dyn OutputTarget>, Error> {
        let inner = format.create(comm, name, declared)?;
        Ok(Box::new(Self { inner, recorder: notes.clone() }))
    }
}

impl OutputTarget for RecordingTarget {
    fn write(&mut self, parcel: &StepBatch, supply: &mut dyn ChunkSource) -> Result<(), Error> {
        self.recorder.clone().record(RankActivity::Writing, || self.inner.write(parcel, supply))
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.recorder.clone().record(RankActivity::Writing, || self.inner.sync())
    }

    fn is_persistent(&self) -> bool {
        self.inner.is_persistent()
    }

    fn finish(self: Box<Self>, steps: u64) -> Result<(), Error> {
        let Self { inner, recorder: notes } = *self;
        notes.record(RankActivity::Writing, || inner.finish(steps))
    }
}
