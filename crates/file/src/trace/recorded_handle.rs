//! A device handle that times accesses and records which bytes they are. It changes nothing else: capabilities, and so strategies, are those
//! of the handle in it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aqueduct_device::{
    Capabilities, Handle, LockGuard, LockKind, MappedAccess, Mapping, Result, Segment, SegmentMut, Strip,
    SyncScope,
};

use super::call_clock::{self, CallTimer};
use super::extent::FileExtent;
use super::rank_recorder::FileTrace;
use super::record::{CallPhase, TracedOperation};

pub(crate) struct RecordedHandle {
    inner: Arc<dyn Handle>,
    trace: Arc<FileTrace>,
}

impl RecordedHandle {
    pub(crate) fn new(inner: Arc<dyn Handle>, trace: Arc<FileTrace>) -> Self {
        Self { inner, trace }
    }

    /// Times an access: as the phase of a call, or by itself on a background thread.
    fn timed<T>(
        &self,
        operation: TracedOperation,
        extents: impl Iterator<Item = FileExtent>,
        access: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let alone = if call_clock::is_running() {
            None
        } else {
            CallTimer::start(&self.trace, operation, 0, CallPhase::Device)
        };
        let _phase = call_clock::enter(CallPhase::Device);
        let outcome = access();
        if outcome.is_ok() {
            call_clock::note_device(extents);
            if let Some(alone) = alone {
                alone.finish(0);
            }
        }
        outcome
    }
}

impl Handle for RecordedHandle {
    fn read(&self, segments: &mut [SegmentMut<'_>]) -> Result<u64> {
        let alone = if call_clock::is_running() {
            None
        } else {
            CallTimer::start(&self.trace, TracedOperation::BackgroundRead, 0, CallPhase::Device)
        };
        let _phase = call_clock::enter(CallPhase::Device);
        let outcome = self.inner.read(segments);
        if outcome.is_ok() {
            call_clock::note_device(
                segments.iter().map(|segment| FileExtent::run(segment.offset, segment.bytes.len() as u64)),
            );
            if let Some(alone) = alone {
                alone.finish(0);
            }
        }
        outcome
    }

    fn write(&self, segments: &[Segment<'_>]) -> Result<u64> {
        let runs = segments.iter().map(|segment| FileExtent::run(segment.offset, segment.bytes.len() as u64));
        self.timed(TracedOperation::BackgroundWrite, runs, || self.inner.write(segments))
    }

    fn read_strips(&self, strips: &[Strip], bytes: &mut [u8]) -> Result<u64> {
        let extents = strips.iter().filter_map(FileExtent::of_strip);
        self.timed(TracedOperation::BackgroundRead, extents, || self.inner.read_strips(strips, bytes))
    }

    fn write_strips(&self, strips: &[Strip], bytes: &[u8]) -> Result<u64> {
        let extents = strips.iter().filter_map(FileExtent::of_strip);
        self.timed(TracedOperation::BackgroundWrite, extents, || self.inner.write_strips(strips, bytes))
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let _phase = call_clock::enter(CallPhase::Device);
        self.inner.set_len(len)
    }

    fn sync(&self, scope: SyncScope) -> Result<()> {
        let _phase = call_clock::enter(CallPhase::Device);
        self.inner.sync(scope)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn preallocate(&self, len: u64) -> Result<()> {
        let _phase = call_clock::enter(CallPhase::Device);
        self.inner.preallocate(len)
    }

    fn start_writeback(&self, range: Range<u64>) {
        self.inner.start_writeback(range);
    }

    fn advise_will_write(&self, range: Range<u64>) {
        let _phase = call_clock::enter(CallPhase::Device);
        self.inner.advise_will_write(range);
    }

    fn extend_allocated(&self, range: Range<u64>) -> bool {
        let _phase = call_clock::enter(CallPhase::Device);
        self.inner.extend_allocated(range)
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn LockGuard + '_>> {
        let _phase = call_clock::enter(CallPhase::Wait);
        self.inner.lock(range, kind)
    }

    fn try_lock(&self, range: Range<u64>, kind: LockKind) -> Result<Option<Box<dyn LockGuard + '_>>> {
        self.inner.try_lock(range, kind)
    }

    fn revalidate(&self, range: Range<u64>) -> Result<()> {
        self.inner.revalidate(range)
    }

    fn annotate(&self, remark: &dyn fmt::Display) {
        self.inner.annotate(remark);
    }

    fn is_hole(&self, place: u64) -> bool {
        self.inner.is_hole(place)
    }

    fn map(&self, range: Range<u64>) -> Option<Mapping> {
        self.inner.map(range)
    }

    fn access_mapped(&self, access: &MappedAccess, copy: &mut dyn FnMut() -> bool) -> Result<bool> {
        let operation =
            if access.write { TracedOperation::BackgroundWrite } else { TracedOperation::BackgroundRead };
        let range = &access.range;
        let run = FileExtent::run(range.start, range.end - range.start);
        self.timed(operation, std::iter::once(run), || self.inner.access_mapped(access, copy))
    }

    fn close(self: Arc<Self>) -> Result<()> {
        let inner = match Arc::try_unwrap(self) {
            Ok(recorded) => recorded.inner,
            // The last reference closes it.
            Err(_) => return Ok(()),
        };
        inner.close()
    }
}
