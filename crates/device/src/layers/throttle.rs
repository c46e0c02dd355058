//! Throttling: limited bandwidth and a latency for every operation.

use std::ffi::OsStr;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::parameters::LayerParameters;
use crate::units::{ByteRate, parse_duration};
use crate::{
    Capabilities, Device, DeviceOpenOptions, Handle, LockGuard, LockKind, MappedAccess, Mapping, Result,
    Segment, SegmentMut, Strip, SyncScope,
};

const GRAMMAR: &str =
    "throttle=RATE,LATENCY with one or both, such as throttle=200MB/s,1ms or throttle=11MB/s each";

/// Idle time that may be used later. It covers the inexactness of sleeping, so that many small
/// operations reach the full rate too; it is short, so that a window of 100 ms gets at most 2 % too much.
const CREDIT: Duration = Duration::from_millis(2);

/// The longest wait for one operation, safe to add to a point in time.
const MAX_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// The limits of a throttled device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThrottleLimits {
    /// Bytes per second, read and written by all handles together; `None`: no limit.
    pub bandwidth: Option<ByteRate>,
    /// Each handle has the bandwidth for itself, as each client of a file server has its own network link.
    pub per_handle: bool,
    /// The additional time of every operation. Latencies of concurrent operations overlap.
    pub latency: Duration,
}

/// A device with limited bandwidth and added latency.
///
/// All handles share the bandwidth: together they never exceed it. With [`per_handle`](ThrottleLimits::per_handle) each handle has its
/// own. The time of the inner device counts towards the limit; waits sleep.
///
/// By name: `throttle=200MB/s,1ms:ufs:out.bin`, where either limit can be left out; `throttle=11MB/s each:ufs:out.bin`.
pub struct ThrottleDevice {
    inner: Arc<dyn Device>,
    schedule: Arc<BandwidthSchedule>,
}

impl ThrottleDevice {
    /// Throttles `inner` to the limits.
    pub fn new(inner: Arc<dyn Device>, limits: ThrottleLimits) -> Self {
        Self { inner, schedule: Arc::new(BandwidthSchedule::new(limits)) }
    }

    /// The wrapper that the parameters of a name describe.
    pub(crate) fn from_parameters(text: &str, inner: Arc<dyn Device>) -> Result<Arc<dyn Device>> {
        let parameters = LayerParameters { prefix: "throttle", text, grammar: GRAMMAR };
        let mut limits = ThrottleLimits::default();
        let mut latency = None;
        for part in parameters.parts() {
            let rate = part.strip_suffix("each").map_or(part, str::trim_end);
            let again = if rate.ends_with("/s") {
                limits.per_handle = rate.len() < part.len();
                limits.bandwidth.replace(parameters.value("bandwidth", rate)?).is_some()
            } else {
                latency.replace(parse_duration(part).map_err(|error| parameters.refuse(error))?).is_some()
            };
            if again {
                return Err(parameters.refuse(format_args!("{part:?} sets a limit a second time")));
            }
        }
        if limits.bandwidth.is_none() && latency.is_none() {
            return Err(parameters.refuse("there is no limit"));
        }
        limits.latency = latency.unwrap_or_default();
        Ok(Arc::new(Self::new(inner, limits)))
    }
}

impl Device for ThrottleDevice {
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        let inner = self.schedule.run_throttled(|| self.inner.open(name, options), |_| 0)?;
        let limits = self.schedule.limits;
        let schedule = if limits.per_handle {
            Arc::new(BandwidthSchedule::new(limits))
        } else {
            Arc::clone(&self.schedule)
        };
        Ok(Arc::new(ThrottleHandle { inner, schedule }))
    }

    fn delete(&self, name: &OsStr) -> Result<()> {
        self.schedule.run_throttled(|| self.inner.delete(name), |()| 0)
    }
}

/// The account of the bandwidth.
struct BandwidthSchedule {
    limits: ThrottleLimits,
    /// The end of all transfers granted so far.
    free: Mutex<Instant>,
}

impl BandwidthSchedule {
    fn new(limits: ThrottleLimits) -> Self {
        Self { limits, free: Mutex::new(Instant::now()) }
    }

    /// Does the work and then sleeps until its throttled end.
    fn run_throttled<T>(&self, work: impl FnOnce() -> Result<T>, bytes: impl FnOnce(&T) -> u64) -> Result<T> {
        let start = Instant::now();
        let outcome = work();
        let bytes = match &outcome {
            Ok(value) => bytes(value),
            Err(error) => error.transferred(),
        };
        let end = self.reserve(start, bytes) + self.limits.latency.min(MAX_WAIT);
        thread::sleep(end.saturating_duration_since(Instant::now()));
        outcome
    }

    /// Adds a transfer that began at `start`; returns its throttled end.
    fn reserve(&self, start: Instant, bytes: u64) -> Instant {
        let Some(rate) = self.limits.bandwidth.filter(|_| bytes > 0) else { return start };
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = start.checked_sub(CREDIT).unwrap_or(start);
        *free = (*free).max(earliest) + rate.time(bytes).min(MAX_WAIT);
        *free
    }
}

struct ThrottleHandle {
    inner: Arc<dyn Handle>,
    schedule: Arc<BandwidthSchedule>,
}

impl Handle for ThrottleHandle {
    fn read(&self, segments: &mut [SegmentMut<'_>]) -> Result<u64> {
        self.schedule.run_throttled(|| self.inner.read(segments), |&count| count)
    }

    fn write(&self, segments: &[Segment<'_>]) -> Result<u64> {
        self.schedule.run_throttled(|| self.inner.write(segments), |&count| count)
    }

    fn read_strips(&self, strips: &[Strip], bytes: &mut [u8]) -> Result<u64> {
        self.schedule.run_throttled(|| self.inner.read_strips(strips, bytes), |&count| count)
    }

    fn write_strips(&self, strips: &[Strip], bytes: &[u8]) -> Result<u64> {
        self.schedule.run_throttled(|| self.inner.write_strips(strips, bytes), |&count| count)
    }

    fn len(&self) -> Result<u64> {
        self.schedule.run_throttled(|| self.inner.len(), |_| 0)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.schedule.run_throttled(|| self.inner.set_len(len), |()| 0)
    }

    fn sync(&self, scope: SyncScope) -> Result<()> {
        self.schedule.run_throttled(|| self.inner.sync(scope), |()| 0)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn preallocate(&self, len: u64) -> Result<()> {
        self.schedule.run_throttled(|| self.inner.preallocate(len), |()| 0)
    }

    fn start_writeback(&self, range: Range<u64>) {
        self.inner.start_writeback(range);
    }

    fn extend_allocated(&self, range: Range<u64>) -> bool {
        self.inner.extend_allocated(range)
    }

    fn advise_will_write(&self, range: Range<u64>) {
        self.inner.advise_will_write(range);
    }

    fn annotate(&self, remark: &dyn fmt::Display) {
        self.inner.annotate(remark);
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
        let moved = |done: &bool| if *done { access.bytes } else { 0 };
        self.schedule.run_throttled(|| self.inner.access_mapped(access, copy), moved)
    }

    fn close(self: Arc<Self>) -> Result<()> {
        let Some(handle) = Arc::into_inner(self) else { return Ok(()) };
        handle.schedule.run_throttled(|| handle.inner.close(), |()| 0)
    }

    fn try_lock(&self, range: Range<u64>, kind: LockKind) -> Result<Option<Box<dyn LockGuard + '_>>> {
        self.schedule.run_throttled(|| self.inner.try_lock(range, kind), |_| 0)
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn LockGuard + '_>> {
        self.schedule.run_throttled(|| self.inner.lock(range, kind), |_| 0)
    }
}
