//! Fault injection: seeded errors, short transfers, a full disk, delays.

mod plan;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

pub use plan::{FaultPlan, FaultTrigger};

use self::plan::FaultAction;
use super::random::SeededRandom;
use crate::{
    Capabilities, Device, DeviceOpenOptions, Error, Handle, Kind, LockGuard, LockKind, MappedAccess, Mapping,
    Operation, Result, Segment, SegmentMut, SegmentRange, Strip, SyncScope, segment, strip, total, total_mut,
};

/// A device that injects faults according to a [`FaultPlan`].
///
/// By name, e.g. `fault=seed=7,write=0.1,short=0.3,nospace=1MiB,delay=1ms:ufs:f`; the parts, in any order:
///
/// | part | meaning |
/// |---|---|
/// | `seed=N` | the seed of all random choices; 0 if absent |
/// | `rank=N` | only handles of this rank are affected |
/// | `OPERATION=WHEN` | this operation fails with an I/O error |
/// | `OPERATION=KIND@WHEN` | it fails with that kind: `io`, `nospace`, `busy`, `quota`, `permission`, `notfound`, `resource`, `unsupported` |
/// | `short=WHEN` | reads and writes transfer only a part |
/// | `delay=DURATION`, `delay=DURATION@WHEN` | operations take longer |
/// | `nospace=SIZE` | the medium is full after so many bytes written |
///
/// `OPERATION` is `any`, `open`, `read`, `write`, `len`, `setlen`, `preallocate`, `sync`, `lock`, `close` or `delete`;
/// `WHEN` is a probability (`0.1`), the n-th time (`#3`), or from the n-th time on (`#3+`), counted
/// by each part for each rank. [`FaultPlan`] describes the effects in detail.
pub struct FaultDevice {
    inner: Arc<dyn Device>,
    faults: Arc<FaultState>,
}

impl FaultDevice {
    /// Injects the faults of `plan` into `inner`.
    pub fn new(inner: Arc<dyn Device>, plan: FaultPlan) -> Self {
        let left = Mutex::new(plan.no_space);
        Self { inner, faults: Arc::new(FaultState { plan, counts: Mutex::default(), left }) }
    }

    /// The wrapper that the parameters of a name describe.
    pub(crate) fn from_parameters(text: &str, inner: Arc<dyn Device>) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(Self::new(inner, text.parse()?)))
    }
}

impl Device for FaultDevice {
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        self.faults.decide(Operation::Open, Some(options.get_rank())).pass(Operation::Open, name)?;
        let inner = self.inner.open(name, options)?;
        Ok(Arc::new(FaultHandle {
            inner,
            faults: Arc::clone(&self.faults),
            name: name.to_owned(),
            rank: options.get_rank(),
        }))
    }

    fn delete(&self, name: &OsStr) -> Result<()> {
        self.faults.decide(Operation::Delete, None).pass(Operation::Delete, name)?;
        self.inner.delete(name)
    }
}

/// The plan and its counters, shared by all handles.
struct FaultState {
    plan: FaultPlan,
    /// How often each rule (by its index) applied to each rank.
    counts: Mutex<HashMap<(usize, Option<usize>), u64>>,
    /// The space left, if it is limited.
    left: Mutex<Option<u64>>,
}

impl FaultState {
    /// Chooses the fault of an operation, and delays it if planned.
    fn decide(&self, operation: Operation, rank: Option<usize>) -> FaultDecision {
        let mut verdict = FaultDecision::default();
        if self.plan.rank.is_some() && self.plan.rank != rank {
            return verdict;
        }
        let mut delay = Duration::ZERO;
        for (index, rule) in self.plan.rules.iter().enumerate() {
            if !rule.applies_to(operation) {
                continue;
            }
            let count = self.count(index, rank);
            let key = rank.map_or(0, |rank| rank as u64 + 1);
            let mut random = SeededRandom::keyed(self.plan.seed, &[index as u64, key, count]);
            let strikes = match rule.when {
                FaultTrigger::Chance(probability) => random.chance(probability),
                FaultTrigger::Nth(nth) => count == nth,
                FaultTrigger::From(first) => count >= first,
            };
            match rule.action {
                _ if !strikes => {}
                FaultAction::Fail(kind) => verdict.fail = verdict.fail.or(Some(kind)),
                FaultAction::Shorten => verdict.shorten = Some(random),
                FaultAction::Delay(more) => delay = delay.saturating_add(more),
            }
        }
        thread::sleep(delay);
        verdict
    }

    fn count(&self, rule: usize, rank: Option<usize>) -> u64 {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry((rule, rank)).or_default();
        *count += 1;
        *count
    }

    /// Takes as much of `bytes` as still fits.
    fn reserve(&self, bytes: u64) -> u64 {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        match left.as_mut() {
            Some(left) => {
                let granted = bytes.min(*left);
                *left -= granted;
                granted
            }
            None => bytes,
        }
    }

    /// Gives back what was reserved and not used.
    fn refund(&self, bytes: u64) {
        if let Some(left) = self.left.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            *left += bytes;
        }
    }

    fn left(&self) -> u64 {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or(u64::MAX)
    }
}

/// What happens to one operation.
#[derive(Default)]
struct FaultDecision {
    fail: Option<Kind>,
    /// Transfer less than requested; the seed of how much.
    shorten: Option<SeededRandom>,
}

impl FaultDecision {
    /// For operations that transfer nothing: continue or fail.
    fn pass(&self, operation: Operation, name: &OsStr) -> Result<()> {
        match self.fail {
            Some(kind) => Err(injected(kind, operation, name)),
            None => Ok(()),
        }
    }

    /// The number of `asked` bytes to transfer, before the error if there is one.
    fn length(&self, asked: u64) -> u64 {
        match &self.shorten {
            Some(random) if asked > 1 => 1 + random.clone().below(asked - 1),
            _ if self.fail.is_some() => 0,
            _ => asked,
        }
    }
}

fn injected(kind: Kind, operation: Operation, name: &OsStr) -> Error {
    Error::new(kind, operation, name).advise("injected by the fault wrapper of this name")
}

struct FaultHandle {
    inner: Arc<dyn Handle>,
    faults: Arc<FaultState>,
    name: OsString,
    rank: usize,
}

impl FaultHandle {
    fn decide(&self, operation: Operation) -> FaultDecision {
        self.faults.decide(operation, Some(self.rank))
    }

    fn pass(&self, operation: Operation) -> Result<()> {
        self.decide(operation).pass(operation, &self.name)
    }

    /// Reads a list of `asked` bytes: `read` transfers so many of the first ones, `place` gives their offsets.
    fn read_with_faults(
        &self,
        asked: u64,
        place: impl Fn(u64) -> u64,
        mut read: impl FnMut(u64) -> Result<u64>,
    ) -> Result<u64> {
        let verdict = self.decide(Operation::Read);
        let length = verdict.length(asked);
        let Some(kind) = verdict.fail else { return read(length) };
        let done = if length > 0 { read(length)? } else { 0 };
        Err(self.transfer_error(kind, Operation::Read, place(done), done))
    }

    /// Writes a list of `asked` bytes: `write` transfers so many of the first ones, `place` gives their offsets.
    fn write_with_faults(
        &self,
        asked: u64,
        place: impl Fn(u64) -> u64,
        write: impl Fn(u64) -> Result<u64>,
    ) -> Result<u64> {
        let verdict = self.decide(Operation::Write);
        let length = verdict.length(asked);
        let Some(kind) = verdict.fail else { return self.write_prefix(length, place, write) };
        let done = if length > 0 { self.write_prefix(length, &place, write)? } else { 0 };
        Err(self.transfer_error(kind, Operation::Write, place(done), done))
    }

    /// Writes the first `length` bytes as far as there is space.
    fn write_prefix(
        &self,
        length: u64,
        place: impl Fn(u64) -> u64,
        write: impl Fn(u64) -> Result<u64>,
    ) -> Result<u64> {
        let granted = self.faults.reserve(length);
        if granted == 0 && length > 0 {
            return Err(self.transfer_error(Kind::NoSpace, Operation::Write, place(0), 0));
        }
        let outcome = write(granted);
        let written = match &outcome {
            Ok(count) => *count,
            Err(error) => error.transferred(),
        };
        self.faults.refund(granted.saturating_sub(written));
        if outcome.is_ok() && written == granted && granted < length {
            return Err(self.transfer_error(Kind::NoSpace, Operation::Write, place(written), written));
        }
        outcome
    }

    /// The error of a transfer that stopped after `done` bytes of the list, at this offset.
    fn transfer_error(&self, kind: Kind, operation: Operation, place: u64, done: u64) -> Error {
        injected(kind, operation, &self.name).at(place).after(done)
    }
}

impl Handle for FaultHandle {
    fn read(&self, segments: &mut [SegmentMut<'_>]) -> Result<u64> {
        let asked = total_mut(segments);
        let ranges: Vec<Strip> =
            segments.iter().map(|segment| Strip::run(segment.start(), segment.size())).collect();
        self.read_with_faults(
            asked,
            |done| strip::offset_of(&ranges, done),
            |length| {
                if length == asked {
                    self.inner.read(segments)
                } else {
                    self.inner.read(&mut segment::front_mut(segments, length))
                }
            },
        )
    }

    fn write(&self, segments: &[Segment<'_>]) -> Result<u64> {
        let asked = total(segments);
        self.write_with_faults(
            asked,
            |done| segment::offset_of(segments, done),
            |length| {
                if length == asked {
                    self.inner.write(segments)
                } else {
                    self.inner.write(&segment::front(segments, length))
                }
            },
        )
    }

    fn read_strips(&self, strips: &[Strip], bytes: &mut [u8]) -> Result<u64> {
        strip::check(strips, bytes.len(), Operation::Read, &self.name)?;
        let asked = strip::total(strips);
        self.read_with_faults(
            asked,
            |done| strip::offset_of(strips, done),
            |length| {
                if length == asked {
                    self.inner.read_strips(strips, bytes)
                } else {
                    self.inner.read_strips(&strip::front(strips, length), &mut bytes[..length as usize])
                }
            },
        )
    }

    fn write_strips(&self, strips: &[Strip], bytes: &[u8]) -> Result<u64> {
        strip::check(strips, bytes.len(), Operation::Write, &self.name)?;
        let asked = strip::total(strips);
        self.write_with_faults(
            asked,
            |done| strip::offset_of(strips, done),
            |length| {
                if length == asked {
                    self.inner.write_strips(strips, bytes)
                } else {
                    self.inner.write_strips(&strip::front(strips, length), &bytes[..length as usize])
                }
            },
        )
    }

    fn len(&self) -> Result<u64> {
        self.pass(Operation::Len)?;
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.pass(Operation::SetLen)?;
        self.inner.set_len(len)
    }

    fn sync(&self, scope: SyncScope) -> Result<()> {
        self.pass(Operation::Sync)?;
        self.inner.sync(scope)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn preallocate(&self, len: u64) -> Result<()> {
        self.pass(Operation::Preallocate)?;
        let left = self.faults.left();
        if left < u64::MAX && len.saturating_sub(self.inner.len()?) > left {
            return Err(injected(Kind::NoSpace, Operation::Preallocate, &self.name));
        }
        self.inner.preallocate(len)
    }

    fn start_writeback(&self, range: Range<u64>) {
        self.inner.start_writeback(range);
    }

    fn extend_allocated(&self, range: Range<u64>) -> bool {
        let left = self.faults.left();
        let extends = |len: u64| range.end.saturating_sub(len);
        let fits = left == u64::MAX || self.inner.len().is_ok_and(|len| extends(len) <= left);
        fits && self.pass(Operation::Preallocate).is_ok() && self.inner.extend_allocated(range)
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

    /// A mapped access fails as a whole. One that would be short or exceed the space is done by calls, which can be short.
    fn access_mapped(&self, access: &MappedAccess, copy: &mut dyn FnMut() -> bool) -> Result<bool> {
        let verdict = self.decide(access.operation());
        if let Some(kind) = verdict.fail {
            return Err(injected(kind, access.operation(), &self.name).at(access.range.start));
        }
        let wanted = if access.write { access.bytes } else { 0 };
        let granted = self.faults.reserve(wanted);
        let possible = granted == wanted && (verdict.shorten.is_none() || access.bytes < 2);
        let outcome = if possible { self.inner.access_mapped(access, copy) } else { Ok(false) };
        if !matches!(outcome, Ok(true)) {
            self.faults.refund(granted);
        }
        outcome
    }

    fn close(self: Arc<Self>) -> Result<()> {
        let passed = self.pass(Operation::Close);
        let closed = Arc::into_inner(self).map_or(Ok(()), |handle| handle.inner.close());
        passed.and(closed)
    }

    fn try_lock(&self, range: Range<u64>, kind: LockKind) -> Result<Option<Box<dyn LockGuard + '_>>> {
        self.pass(Operation::Lock)?;
        self.inner.try_lock(range, kind)
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn LockGuard + '_>> {
        self.pass(Operation::Lock)?;
        self.inner.lock(range, kind)
    }
}
