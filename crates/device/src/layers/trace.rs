//! Tracing: a record of every operation with rank, time, offset, duration and outcome.

mod event;

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use event::TraceEvent;

use aqueduct_report::{Report, ReportSource};

use super::parameters::LayerParameters;
use crate::{
    Capabilities, Device, DeviceOpenOptions, Error, Handle, LockGuard, LockKind, MappedAccess, Mapping,
    Operation, Result, Segment, SegmentMut, Strip, SyncScope, strip, total, total_mut,
};

const GRAMMAR: &str = "trace=FILE, such as trace=ops.csv (%p in FILE becomes the process id)";

/// The number of events kept before they are written to the file.
const BATCH: usize = 1 << 16;

/// A device that records every operation.
///
/// The overhead is two clock readings and a push under a lock per operation. In memory ([`TraceDevice::new`]) the record grows until
/// [`take_events`](TraceDevice::take_events) empties it; to a file ([`TraceDevice::to_file`]) it goes as CSV ([`TraceEvent::HEADER`]) whenever a
/// handle is closed, when the buffer is full, and at the end.
///
/// By name: `trace=ops.csv:ufs:out.bin`. Each process truncates the file: give every process its own with `%p`.
pub struct TraceDevice {
    inner: Arc<dyn Device>,
    recorder: Arc<TraceRecorder>,
}

impl TraceDevice {
    /// Traces `inner` in memory.
    pub fn new(inner: Arc<dyn Device>) -> Self {
        Self { inner, recorder: Arc::new(TraceRecorder::new(TraceSink::Memory)) }
    }

    /// Traces `inner` to a file of the operating system, which is truncated when the first file is opened through the
    /// trace; opening fails if it cannot be.
    pub fn to_file(inner: Arc<dyn Device>, path: impl Into<PathBuf>) -> Self {
        Self { inner, recorder: Arc::new(TraceRecorder::new(TraceSink::Path(path.into()))) }
    }

    /// The wrapper that the parameters of a name describe.
    pub(crate) fn from_parameters(text: &str, inner: Arc<dyn Device>) -> Result<Arc<dyn Device>> {
        if text.is_empty() {
            let parameters = LayerParameters { prefix: "trace", text, grammar: GRAMMAR };
            return Err(parameters.refuse("there is no file"));
        }
        let path = text.replace("%p", &std::process::id().to_string());
        Ok(Arc::new(Self::to_file(inner, path)))
    }

    /// What was recorded so far, in the order in which operations ended; to a file: what is not written yet.
    pub fn events(&self) -> Vec<TraceEvent> {
        self.recorder.log().events.clone()
    }

    /// As [`events`](Self::events), and removes them.
    pub fn take_events(&self) -> Vec<TraceEvent> {
        std::mem::take(&mut self.recorder.log().events)
    }

    /// Writes what was recorded to the file, if there is one.
    pub fn flush(&self) -> io::Result<()> {
        self.recorder.log().flush()
    }
}

impl Device for TraceDevice {
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        self.recorder.log().begin()?;
        let name_shown: Arc<str> = name.to_string_lossy().into();
        let call = TraceCall { rank: Some(options.get_rank()), ..TraceCall::new(Operation::Open) };
        let inner = self.recorder.time(&name_shown, call, || self.inner.open(name, options), |_| 0)?;
        let record = Arc::clone(&self.recorder);
        Ok(Arc::new(TraceHandle { inner, recorder: record, name: name_shown, rank: options.get_rank() }))
    }

    fn delete(&self, name: &OsStr) -> Result<()> {
        let call = TraceCall::new(Operation::Delete);
        self.recorder.time(&name.to_string_lossy().into(), call, || self.inner.delete(name), |()| 0)
    }
}

/// The properties of an operation before it is done.
#[derive(Clone, Copy)]
struct TraceCall {
    rank: Option<usize>,
    operation: Operation,
    offset: Option<u64>,
    length: u64,
    segments: usize,
    annotation: Option<&'static str>,
}

/// The annotation of accesses through mapped pages.
const MAPPED: &str = "mapped";

impl TraceCall {
    fn new(operation: Operation) -> Self {
        Self { rank: None, operation, offset: None, length: 0, segments: 0, annotation: None }
    }
}

/// The events and the clock, shared by all handles.
struct TraceRecorder {
    /// The same moment on both clocks: the monotonic one is cheap to read, the wall clock is comparable between processes.
    began: (Instant, Duration),
    log: Mutex<TraceLog>,
}

impl TraceRecorder {
    fn new(sink: TraceSink) -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began: (Instant::now(), since_epoch), log: Mutex::new(TraceLog { events: Vec::new(), sink }) }
    }

    fn log(&self) -> MutexGuard<'_, TraceLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the work and records it.
    fn time<T>(
        &self,
        name: &Arc<str>,
        call: TraceCall,
        work: impl FnOnce() -> Result<T>,
        count: impl FnOnce(&T) -> u64,
    ) -> Result<T> {
        let start = Instant::now();
        let outcome = work();
        let event = TraceEvent {
            rank: call.rank,
            operation: call.operation,
            name: Arc::clone(name),
            start: self.began.1 + start.duration_since(self.began.0),
            duration: start.elapsed(),
            offset: call.offset,
            length: call.length,
            segments: call.segments,
            outcome: outcome.as_ref().map(count).map_err(Error::kind),
            annotation: call.annotation.map(Into::into),
        };
        self.log().push(event);
        outcome
    }

    fn annotate(&self, name: &Arc<str>, rank: usize, remark: String) {
        let event = TraceEvent {
            rank: Some(rank),
            operation: Operation::Annotate,
            name: Arc::clone(name),
            start: self.began.1 + self.began.0.elapsed(),
            duration: Duration::ZERO,
            offset: None,
            length: 0,
            segments: 0,
            outcome: Ok(0),
            annotation: Some(remark.into()),
        };
        self.log().push(event);
    }
}

/// Where events go.
enum TraceSink {
    Memory,
    /// A file not created yet: an unused wrapper creates no file.
    Path(PathBuf),
    File(BufWriter<File>),
}

struct TraceLog {
    events: Vec<TraceEvent>,
    sink: TraceSink,
}

impl TraceLog {
    /// Creates the file, if the trace has one.
    fn begin(&mut self) -> Result<()> {
        let TraceSink::Path(path) = &self.sink else { return Ok(()) };
        let begin = || {
            let mut file = BufWriter::new(File::create(path)?);
            writeln!(file, "{}", TraceEvent::HEADER)?;
            file.flush()?;
            Ok(file)
        };
        let failed =
            |error| Error::from_io(error, Operation::Open, path).advise("it is the file of the trace");
        self.sink = TraceSink::File(begin().map_err(failed)?);
        Ok(())
    }

    fn push(&mut self, event: TraceEvent) {
        self.events.push(event);
        if self.events.len() >= BATCH {
            self.flush_or_warn();
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let TraceSink::File(file) = &mut self.sink else { return Ok(()) };
        for event in self.events.drain(..) {
            writeln!(file, "{event}")?;
        }
        file.flush()
    }

    /// For calls that return no error: reports once that the trace cannot be written; it continues in memory, data is not affected.
    fn flush_or_warn(&mut self) {
        if let Err(error) = self.flush() {
            let message = format!("the trace cannot be written and ends here: {error}");
            Report::new(ReportSource::Device).warn(&message);
            self.sink = TraceSink::Memory;
        }
    }
}

impl Drop for TraceLog {
    fn drop(&mut self) {
        self.flush_or_warn();
    }
}

struct TraceHandle {
    inner: Arc<dyn Handle>,
    recorder: Arc<TraceRecorder>,
    name: Arc<str>,
    rank: usize,
}

impl TraceHandle {
    /// An access to strips: each run is a segment.
    fn strips_call(operation: Operation, strips: &[Strip]) -> TraceCall {
        let mut parts = strips.iter().filter(|strip| strip.size() > 0);
        let segments = strips.iter().fold(0, |sum: u64, strip| sum.saturating_add(strip.joined().count));
        TraceCall {
            offset: parts.next().map(|strip| strip.offset as u64),
            length: strip::total(strips),
            segments: usize::try_from(segments).unwrap_or(usize::MAX),
            ..TraceCall::new(operation)
        }
    }

    fn time<T>(
        &self,
        call: TraceCall,
        work: impl FnOnce() -> Result<T>,
        count: impl FnOnce(&T) -> u64,
    ) -> Result<T> {
        self.recorder.time(&self.name, TraceCall { rank: Some(self.rank), ..call }, work, count)
    }
}

impl Drop for TraceHandle {
    fn drop(&mut self) {
        self.recorder.log().flush_or_warn();
    }
}

impl Handle for TraceHandle {
    fn read(&self, segments: &mut [SegmentMut<'_>]) -> Result<u64> {
        let offset = segments.iter().find(|segment| !segment.bytes.is_empty()).map(|segment| segment.offset);
        let (length, count) = (total_mut(segments), segments.len());
        let call = TraceCall { offset, length, segments: count, ..TraceCall::new(Operation::Read) };
        self.time(call, || self.inner.read(segments), |&count| count)
    }

    fn write(&self, segments: &[Segment<'_>]) -> Result<u64> {
        let offset = segments.iter().find(|segment| !segment.bytes.is_empty()).map(|segment| segment.offset);
        let call = TraceCall {
            offset,
            length: total(segments),
            segments: segments.len(),
            ..TraceCall::new(Operation::Write)
        };
        self.time(call, || self.inner.write(segments), |&count| count)
    }

    fn read_strips(&self, strips: &[Strip], bytes: &mut [u8]) -> Result<u64> {
        let call = Self::strips_call(Operation::Read, strips);
        self.time(call, || self.inner.read_strips(strips, bytes), |&count| count)
    }

    fn write_strips(&self, strips: &[Strip], bytes: &[u8]) -> Result<u64> {
        let call = Self::strips_call(Operation::Write, strips);
        self.time(call, || self.inner.write_strips(strips, bytes), |&count| count)
    }

    fn len(&self) -> Result<u64> {
        self.time(TraceCall::new(Operation::Len), || self.inner.len(), |&len| len)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let call = TraceCall { length: len, ..TraceCall::new(Operation::SetLen) };
        self.time(call, || self.inner.set_len(len), |()| 0)
    }

    fn sync(&self, scope: SyncScope) -> Result<()> {
        self.time(TraceCall::new(Operation::Sync), || self.inner.sync(scope), |()| 0)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { keeps_annotations: true, ..self.inner.capabilities() }
    }

    fn start_writeback(&self, range: Range<u64>) {
        self.inner.start_writeback(range);
    }

    fn extend_allocated(&self, range: Range<u64>) -> bool {
        let length = range.end.saturating_sub(range.start);
        let call = TraceCall { offset: Some(range.start), length, ..TraceCall::new(Operation::Preallocate) };
        self.time(call, || Ok(self.inner.extend_allocated(range)), |_| 0).unwrap_or(false)
    }

    fn advise_will_write(&self, range: Range<u64>) {
        self.inner.advise_will_write(range);
    }

    fn revalidate(&self, range: Range<u64>) -> Result<()> {
        self.inner.revalidate(range)
    }

    fn is_hole(&self, place: u64) -> bool {
        self.inner.is_hole(place)
    }

    fn map(&self, range: Range<u64>) -> Option<Mapping> {
        self.inner.map(range)
    }

    fn access_mapped(&self, access: &MappedAccess, copy: &mut dyn FnMut() -> bool) -> Result<bool> {
        let call = TraceCall {
            offset: Some(access.range.start),
            length: access.bytes,
            annotation: Some(MAPPED),
            ..TraceCall::new(access.operation())
        };
        let moved = |done: &bool| if *done { access.bytes } else { 0 };
        self.time(call, || self.inner.access_mapped(access, copy), moved)
    }

    fn close(self: Arc<Self>) -> Result<()> {
        let Some(handle) = Arc::into_inner(self) else { return Ok(()) };
        let (inner, record) = (Arc::clone(&handle.inner), Arc::clone(&handle.recorder));
        let (name, rank) = (Arc::clone(&handle.name), Some(handle.rank));
        // The record is flushed again after the close.
        drop(handle);
        let outcome = record.time(
            &name,
            TraceCall { rank, ..TraceCall::new(Operation::Close) },
            || inner.close(),
            |()| 0,
        );
        record.log().flush_or_warn();
        outcome
    }

    fn annotate(&self, remark: &dyn fmt::Display) {
        self.recorder.annotate(&self.name, self.rank, remark.to_string());
        self.inner.annotate(remark);
    }

    fn preallocate(&self, len: u64) -> Result<()> {
        let call = TraceCall { length: len, ..TraceCall::new(Operation::Preallocate) };
        self.time(call, || self.inner.preallocate(len), |()| 0)
    }

    fn try_lock(&self, range: Range<u64>, kind: LockKind) -> Result<Option<Box<dyn LockGuard + '_>>> {
        let length = range.end.saturating_sub(range.start);
        let call = TraceCall { offset: Some(range.start), length, ..TraceCall::new(Operation::Lock) };
        self.time(call, || self.inner.try_lock(range, kind), |_| 0)
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn LockGuard + '_>> {
        let length = range.end.saturating_sub(range.start);
        let call = TraceCall { offset: Some(range.start), length, ..TraceCall::new(Operation::Lock) };
        self.time(call, || self.inner.lock(range, kind), |_| 0)
    }
}
