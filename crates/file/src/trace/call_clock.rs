//! The clock of a call: which phase the calling thread is in, and how long it was in each.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use super::extent::{self, CallExtents, FileExtent};
use super::rank_recorder::FileTrace;
use super::record::{CallPhase, CallRecord, TracedOperation};
use super::run_record::StartedRun;
use crate::hints::Strategy;
use crate::layout::Pattern;

/// Extents of a call that are recorded.
const MOST_EXTENTS: usize = 32;

/// The call that this thread is in.
#[derive(Default)]
struct RunningCall {
    record: CallRecord,
    phase: usize,
    since: u64,
    owned: CallExtents,
    device: CallExtents,
}

/// What this thread is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallState {
    None,
    /// A call with phases, in [`CALL`].
    Phases,
    /// An access to one run, which is in the phase of the device; the number of its strategy in a [`CallRecord`].
    Run(u8),
}

thread_local! {
    /// None costs one load per phase of an untraced call.
    static STATE: Cell<CallState> = const { Cell::new(CallState::None) };
    static CALL: RefCell<RunningCall> = RefCell::default();
    static IS_LIBRARY_THREAD: bool =
        std::thread::current().name().is_some_and(|name| name.starts_with("aqueduct"));
}

/// Nanoseconds of the monotonic clock.
pub(crate) fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn with_call(work: impl FnOnce(&mut RunningCall)) {
    if STATE.get() == CallState::Phases {
        CALL.with_borrow_mut(work);
    }
}

/// True if this thread belongs to the library: the program does not wait for its calls.
pub(super) fn is_library_thread() -> bool {
    IS_LIBRARY_THREAD.with(|is| *is)
}

/// True if this thread is in a recorded call.
pub(super) fn is_running() -> bool {
    STATE.get() != CallState::None
}

/// A part of a call; when it is dropped, the phase before it goes on.
pub(crate) struct PhaseTimer(Option<usize>);

/// Enters a phase of the call that this thread is in, if it is recorded.
pub(crate) fn enter(phase: CallPhase) -> PhaseTimer {
    let mut before = None;
    with_call(|call| before = call.change_phase(phase as usize));
    PhaseTimer(before)
}

impl Drop for PhaseTimer {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            with_call(|call| _ = call.change_phase(before));
        }
    }
}

impl RunningCall {
    /// Changes to another phase; the one before, none if it is the same.
    fn change_phase(&mut self, phase: usize) -> Option<usize> {
        if self.phase == phase {
            return None;
        }
        let now = now();
        self.record.phases[self.phase] += now - self.since;
        self.since = now;
        Some(std::mem::replace(&mut self.phase, phase))
    }
}

/// Records the bytes of the file that a call accesses.
pub(crate) fn note_places(pattern: &Pattern, window: &Range<u64>) {
    with_call(|call| {
        let (extents, runs, exact) = extent::of_pattern(pattern, window, MOST_EXTENTS);
        call.owned = extents;
        call.record.runs = runs;
        call.record.flags |= if exact { 0 } else { CallRecord::INEXACT };
    });
}

/// Records the strategy of an access, and the estimates of all strategies in nanoseconds.
pub(crate) fn note_strategy(strategy: Strategy, estimates: impl FnOnce() -> Vec<(Strategy, f64)>) {
    let index = |wanted| CallRecord::STRATEGIES.iter().position(|strategy| *strategy == wanted);
    let number = |strategy| index(strategy).map_or(0, |at| at as u8 + 1);
    if let CallState::Run(_) = STATE.get() {
        STATE.set(CallState::Run(number(strategy)));
    }
    with_call(|call| {
        call.record.strategy = number(strategy);
        for (strategy, nanoseconds) in estimates() {
            if let Some(at) = index(strategy).filter(|_| nanoseconds.is_finite()) {
                call.record.estimates[at] = nanoseconds as f32;
            }
        }
    });
}

/// Records the rounds and aggregators of a two-phase access.
pub(crate) fn note_two_phase(rounds: u64, aggregators: usize) {
    with_call(|call| {
        call.record.rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        call.record.aggregators = aggregators as u32;
    });
}

/// Records bytes that go to an aggregator on another rank, or come from it.
pub(crate) fn note_exchanged(bytes: u64) {
    with_call(|call| call.record.exchanged += bytes);
}

/// Records the state of a write buffer: accepted, visible and durable bytes, memory in use and its limit.
pub(crate) fn note_buffer(status: impl FnOnce() -> ([u64; 3], [u64; 2])) {
    with_call(|call| {
        let ([accepted, visible, durable], memory) = status();
        (call.record.accepted, call.record.visible, call.record.durable) = (accepted, visible, durable);
        call.record.memory = memory;
    });
}

/// Records bytes that this thread accessed on the device.
pub(super) fn note_device(extents: impl Iterator<Item = FileExtent>) {
    with_call(|call| {
        call.record.device_calls += 1;
        for next in extents {
            call.record.device_bytes += next.bytes();
            if !extent::add(&mut call.device, next, MOST_EXTENTS) {
                call.record.flags |= CallRecord::INEXACT;
            }
        }
    });
}

/// A call in progress on this thread; it is recorded when this is dropped.
pub(crate) struct CallTimer<'a> {
    trace: &'a FileTrace,
    /// Of an access to one run.
    run: Option<StartedRun>,
}

impl<'a> CallTimer<'a> {
    /// Starts a call in a phase; none if this thread is in a call already.
    pub(crate) fn start(
        trace: &'a FileTrace,
        operation: TracedOperation,
        sequence: u32,
        phase: CallPhase,
    ) -> Option<Self> {
        if is_running() {
            return None;
        }
        STATE.set(CallState::Phases);
        CALL.with_borrow_mut(|call| {
            let flags = if sequence > 0 { CallRecord::COLLECTIVE } else { 0 };
            let start = now();
            call.record = CallRecord {
                start,
                file: trace.number,
                sequence,
                operation: operation as u8,
                flags: flags | flag_of_thread() | CallRecord::FAILED,
                ..CallRecord::default()
            };
            (call.phase, call.since) = (phase as usize, start);
            call.owned.clear();
            call.device.clear();
        });
        Some(Self { trace, run: None })
    }

    /// Starts an access to one run of the file on the short path, in the phase of the device.
    #[inline]
    pub(crate) fn start_run(
        trace: &'a FileTrace,
        operation: TracedOperation,
        run: Range<u64>,
    ) -> Option<Self> {
        if is_running() {
            return None;
        }
        STATE.set(CallState::Run(0));
        let (offset, bytes) = (run.start, run.end - run.start);
        let run = StartedRun { start: now(), operation, offset, bytes, transferred: Cell::new(None) };
        Some(Self { trace, run: Some(run) })
    }

    /// The call has succeeded and transferred so many bytes.
    pub(crate) fn finish(&self, bytes: u64) {
        match &self.run {
            Some(run) => run.transferred.set(Some(bytes)),
            None => with_call(|call| {
                call.record.bytes = bytes;
                call.record.flags &= !CallRecord::FAILED;
            }),
        }
    }
}

/// The flag of calls of this thread.
pub(super) fn flag_of_thread() -> u8 {
    if is_library_thread() { CallRecord::BACKGROUND } else { 0 }
}

impl Drop for CallTimer<'_> {
    fn drop(&mut self) {
        match (&self.run, STATE.replace(CallState::None)) {
            (Some(run), CallState::Run(strategy)) => self.trace.record_run(run, strategy, now()),
            _ => CALL.with_borrow_mut(|call| {
                let end = now();
                call.record.phases[call.phase] += end - call.since;
                call.record.end = end;
                self.trace.record(&mut call.record, &call.owned, &call.device);
            }),
        }
    }
}
