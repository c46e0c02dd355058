//! Independent I/O: the data bytes of a window of a pattern, between memory and the device, by one rank.
//!
//! [`IndependentIo`] executes plans: list I/O, data sieving or mapped I/O. It owns the state that
//! outlives an access (the mapping, the access history, the sieve buffer, the calibration) and reports
//! measured times to the calibration; estimates are made in [`plan`](crate::plan).

mod access_history;
mod data_sieving;
mod list_io;
mod mapped_io;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use aqueduct_device::{HandleExt, LockGuard, LockKind};

use crate::context::{AccessScope, FileContext};
use crate::error::Result;
use crate::hints::{Strategy, TransferDirection};
use crate::layout::Pattern;
use crate::memory::chunks::{ReadBuffer, WriteData};
use crate::plan::{
    AccessFacts, AccessPlan, AccessSize, Calibration, CostModel, Estimate, PlanInput, RunCosts, RunFacts,
    RunMapping, StrategyReport, is_announced, is_measurable_run, make_plan, make_run_plan, may_map_runs,
};
use crate::trace;
use crate::view::View;
use access_history::WriteHistory;
use data_sieving::SieveBuffer;
use list_io::{BATCH, read_list, write_list};
use mapped_io::FileMapping;

/// The state of independent I/O on an open file.
#[derive(Default)]
pub(crate) struct IndependentIo {
    mapping: FileMapping,
    history: WriteHistory,
    sieve_buffer: SieveBuffer,
    /// The learnt costs of the file, of collective accesses too.
    calibration: Mutex<Calibration>,
    /// The learnt costs of writes to single runs.
    run_costs: RunCosts,
    /// End of the range of which the device knows that this rank writes a new file.
    preallocated_to: AtomicU64,
}

/// The calibration of an access, and the scope in which it counts.
#[derive(Clone, Copy)]
pub(crate) struct CostScope<'a> {
    scope: AccessScope,
    calibration: &'a Mutex<Calibration>,
    /// The size of the access, if it is known already.
    size: Option<AccessSize>,
}

impl CostScope<'_> {
    fn calibration(&self) -> MutexGuard<'_, Calibration> {
        self.calibration.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `work` use the cost model of the scope.
    pub(crate) fn with_model<T>(&self, cx: &FileContext, work: impl FnOnce(&CostModel<'_>) -> T) -> T {
        let (hints, calibration) = (cx.hints(), self.calibration());
        work(&CostModel::new(&hints, &cx.capabilities, &calibration).in_scope(self.scope))
    }

    /// Executes a plan and reports its measured time.
    pub(crate) fn measure<T>(
        &self,
        direction: TransferDirection,
        estimate: Estimate,
        access: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let start = Instant::now();
        let outcome = access()?;
        self.calibration().record(self.scope, direction, estimate, start.elapsed().as_nanos() as f64);
        Ok(outcome)
    }
}

impl IndependentIo {
    /// Writes `data` to the data bytes from `first` on; the count, less only with an error.
    pub(crate) fn write(
        &self,
        cx: &FileContext,
        pattern: &Pattern,
        first: u64,
        data: &WriteData<'_>,
    ) -> Result<u64> {
        self.write_in_scope(cx, &self.cost_scope(AccessScope::Independent, None), pattern, first, data)
    }

    /// The same for a part of a collective access.
    pub(crate) fn write_in_scope(
        &self,
        cx: &FileContext,
        costs: &CostScope<'_>,
        pattern: &Pattern,
        first: u64,
        data: &WriteData<'_>,
    ) -> Result<u64> {
        let window = first..first + data.len();
        let span = pattern.file_span(&window);
        if is_one_run(&window, &span) {
            let _guard = lock_write(cx, &span, cx.sieves_writes())?;
            self.announce_write(cx, &span);
            return self.write_run(cx, pattern, first, &span, data);
        }
        let (plan, size) = self.plan_access(cx, costs, TransferDirection::Write, pattern, &window);
        let strategy = plan.estimate.strategy;
        // If any rank reads, changes and writes back, every write must take a lock.
        let _guard = lock_write(cx, &span, strategy != Strategy::Sieve && cx.sieves_writes())?;
        costs.measure(TransferDirection::Write, plan.estimate, || {
            if strategy == Strategy::Map && size.new_pages {
                self.prepare_new_pages(cx, &span);
            }
            write_chunks(cx, data, |part, bytes| {
                let window = first + part.start..first + part.end;
                match strategy {
                    Strategy::Direct => write_list(cx, pattern, window, bytes, 1),
                    Strategy::Sieve => self.sieve_buffer.write(cx, pattern, window, bytes),
                    Strategy::Map => self.write_mapped(cx, pattern, window, bytes),
                    Strategy::List | Strategy::TwoPhase => write_list(cx, pattern, window, bytes, BATCH),
                }
            })
        })
    }

    /// Writes one run of the file: by a system call, until it has been written so often that mapping its pages is cheaper.
    fn write_run(
        &self,
        cx: &FileContext,
        pattern: &Pattern,
        first: u64,
        run: &Range<u64>,
        data: &WriteData<'_>,
    ) -> Result<u64> {
        let (maps, is_forced) = {
            let hints = cx.hints();
            (may_map_runs(&hints, &cx.capabilities), hints.strategy.is_some())
        };
        self.access_run(cx, run, (maps, is_forced), |strategy| {
            write_chunks(cx, data, |part, bytes| match strategy {
                Strategy::Map => {
                    self.write_mapped(cx, pattern, first + part.start..first + part.end, bytes).map(drop)
                }
                _ => cx.device_result("write", cx.handle.write_at(run.start + part.start, bytes)),
            })
        })
    }

    /// Writes contiguous memory to one run of the file, on the short path.
    pub(crate) fn write_plain(&self, cx: &FileContext, start: u64, bytes: &[u8], maps: bool) -> Result<()> {
        let run = start..start + bytes.len() as u64;
        self.announce_write(cx, &run);
        let write = |strategy| match strategy {
            Strategy::Map => self.write_mapped(cx, View::whole_file().pattern(), run.clone(), bytes),
            _ => cx.device_result("write", cx.handle.write_at(start, bytes)).map(|()| bytes.len() as u64),
        };
        self.access_run(cx, &run, (maps, false), write).map(drop)
    }

    /// Fills `data` from the data bytes from `first` on; the count is less at the end of the file.
    pub(crate) fn read(
        &self,
        cx: &FileContext,
        pattern: &Pattern,
        first: u64,
        data: &mut ReadBuffer<'_>,
    ) -> Result<u64> {
        self.read_in_scope(cx, &self.cost_scope(AccessScope::Independent, None), pattern, first, data)
    }

    /// The same for a part of a collective access.
    pub(crate) fn read_in_scope(
        &self,
        cx: &FileContext,
        costs: &CostScope<'_>,
        pattern: &Pattern,
        first: u64,
        data: &mut ReadBuffer<'_>,
    ) -> Result<u64> {
        let window = first..first + data.len();
        let span = pattern.file_span(&window);
        let _guard =
            if cx.locks_accesses() { cx.lock("read", span.clone(), LockKind::Shared)? } else { None };
        if is_one_run(&window, &span) {
            return self.read_run(cx, pattern, first, &span, data);
        }
        let (plan, _) = self.plan_access(cx, costs, TransferDirection::Read, pattern, &window);
        costs.measure(TransferDirection::Read, plan.estimate, || {
            read_chunks(cx, data, |part, bytes| {
                let window = first + part.start..first + part.end;
                match plan.estimate.strategy {
                    Strategy::Sieve => self.sieve_buffer.read(cx, pattern, window, bytes),
                    // If a view shows a byte twice, a list could read on after the end of the file, and so beyond the count.
                    _ if !pattern.is_ascending() => read_list(cx, pattern, window, bytes, 1),
                    Strategy::Direct => read_list(cx, pattern, window, bytes, 1),
                    Strategy::Map => self.read_mapped(cx, pattern, window, bytes),
                    Strategy::List | Strategy::TwoPhase => read_list(cx, pattern, window, bytes, BATCH),
                }
            })
        })
    }

    /// Reads one run of the file: by a system call, unless a hint has chosen mapped I/O.
    fn read_run(
        &self,
        cx: &FileContext,
        pattern: &Pattern,
        first: u64,
        run: &Range<u64>,
        data: &mut ReadBuffer<'_>,
    ) -> Result<u64> {
        let is_mapped = cx.capabilities.maps && cx.hints().strategy == Some(Strategy::Map);
        read_chunks(cx, data, |part, bytes| {
            if is_mapped {
                return self.read_mapped(cx, pattern, first + part.start..first + part.end, bytes);
            }
            cx.device_result("read", cx.handle.read_at(run.start + part.start, bytes))
        })
    }

    /// Writes one run of the file, which may be mapped, and records the measured time.
    fn access_run(
        &self,
        cx: &FileContext,
        run: &Range<u64>,
        (maps, is_forced): (bool, bool),
        access: impl FnOnce(Strategy) -> Result<u64>,
    ) -> Result<u64> {
        if !maps {
            return access(Strategy::List);
        }
        let plan = self.plan_run(cx, run, is_forced);
        let strategy = plan.estimate.strategy;
        trace::note_strategy(strategy, Vec::new);
        let start = plan.is_measured.then(Instant::now);
        let count = access(strategy)?;
        if let Some(start) = start {
            let took = start.elapsed().as_nanos() as f64;
            self.run_costs.record(strategy, count, took);
        }
        Ok(count)
    }

    /// Collects the facts about a written run, which makes pages present for sequences of small accesses and for hot regions, and plans
    /// it.
    fn plan_run(&self, cx: &FileContext, run: &Range<u64>, is_forced: bool) -> AccessPlan {
        let bytes = run.end - run.start;
        let facts = RunFacts { bytes, is_forced, is_leased: false, mapping: None };
        if !is_measurable_run(bytes) {
            let is_sequential = !is_forced && self.history.record_small(run);
            if is_sequential && self.lease_ahead(cx, run) {
                return make_run_plan(&RunFacts { is_leased: true, ..facts });
            }
        }
        let is_hot = self.history.record(run);
        let mapping = if is_hot || is_forced { self.mapping.of_free(cx, run) } else { None };
        let Some(mapping) = mapping.filter(|mapping| mapping.keeps_allocation()) else {
            return make_run_plan(&facts);
        };
        let is_present = mapping.was_accessed(run, true);
        let is_retry = !is_forced && self.run_costs.retry_is_due(bytes);
        let mapping = RunMapping { is_present, costs: self.run_costs.of_byte(), is_retry };
        let plan = make_run_plan(&RunFacts { mapping: Some(mapping), ..facts });
        if !is_forced {
            report_run(cx, &mapping, bytes, plan.estimate);
        }
        plan
    }

    /// Plans an access of several runs.
    fn plan_access(
        &self,
        cx: &FileContext,
        costs: &CostScope<'_>,
        direction: TransferDirection,
        pattern: &Pattern,
        window: &Range<u64>,
    ) -> (AccessPlan, AccessSize) {
        let size = costs.size.unwrap_or_else(|| self.measure_size(cx, direction, pattern, window));
        costs.with_model(cx, |model| {
            let access = AccessFacts::OneRank(size);
            let plan = make_plan(PlanInput { direction, model: *model, access });
            report_plan(cx, direction, model, size, plan.estimate);
            (plan, size)
        })
    }

    /// The size of an access.
    pub(crate) fn measure_size(
        &self,
        cx: &FileContext,
        direction: TransferDirection,
        pattern: &Pattern,
        window: &Range<u64>,
    ) -> AccessSize {
        // Only estimates for the page cache depend on it.
        let asks = direction == TransferDirection::Write && cx.capabilities.maps;
        let new_pages = asks && self.mapping.makes_pages(cx, &pattern.file_span(window));
        AccessSize::of(pattern, window, new_pages)
    }

    /// Announces a write to the device, if it is large and the file is new: this rank has written nothing after it.
    pub(crate) fn announce_write(&self, cx: &FileContext, range: &Range<u64>) {
        let is_new = cx.mode.is_create() && cx.mode.is_exclusive();
        if is_new && is_announced(range.end - range.start) {
            let before = self.preallocated_to.fetch_max(range.end, Ordering::Relaxed);
            if range.end > before {
                cx.handle.advise_will_write(range.start.max(before)..range.end);
            }
        }
    }

    /// The calibration of accesses in a scope.
    pub(crate) fn cost_scope(&self, scope: AccessScope, size: Option<AccessSize>) -> CostScope<'_> {
        CostScope { scope, calibration: &self.calibration, size }
    }
}

/// Reports the strategy of an access with the estimates of the others, if reports are on.
pub(crate) fn report_plan(
    cx: &FileContext,
    direction: TransferDirection,
    model: &CostModel<'_>,
    size: AccessSize,
    chosen: Estimate,
) {
    let scope = model.scope;
    trace::note_strategy(chosen.strategy, || {
        let estimates = model.estimates(direction, &size).into_iter();
        estimates.map(|estimate| (estimate.strategy, estimate.nanoseconds)).collect()
    });
    cx.report_strategy(scope, direction, (chosen.strategy, chosen.nanoseconds), || {
        let estimates = model.estimates(direction, &size);
        StrategyReport { direction, scope, size, chosen, estimates }
    });
}

/// Reports the strategy of a written run, if reports are on.
fn report_run(cx: &FileContext, mapping: &RunMapping, bytes: u64, chosen: Estimate) {
    let (direction, scope) = (TransferDirection::Write, AccessScope::Independent);
    cx.report_strategy(scope, direction, (chosen.strategy, chosen.nanoseconds), || {
        let size = AccessSize { span: bytes, bytes, runs: 1, new_pages: false };
        let estimates = mapping.estimates(bytes).to_vec();
        StrategyReport { direction, scope, size, chosen, estimates }
    });
}

/// Writes data chunk by chunk; an error has the count of bytes before it.
fn write_chunks<T>(
    cx: &FileContext,
    data: &WriteData<'_>,
    mut write: impl FnMut(Range<u64>, &[u8]) -> Result<T>,
) -> Result<u64> {
    data.for_each_chunk(&cx.counters, 0..data.len(), |part, bytes| {
        let before = part.start;
        let outcome = write(part, bytes);
        outcome.map(|_| ()).map_err(|error| error.clone().after(before + error.transferred()))
    })?;
    Ok(data.len())
}

/// Reads data chunk by chunk; an error has the count of bytes before it.
fn read_chunks(
    cx: &FileContext,
    data: &mut ReadBuffer<'_>,
    mut read: impl FnMut(Range<u64>, &mut [u8]) -> Result<u64>,
) -> Result<u64> {
    let all = 0..data.len();
    data.for_each_chunk(&cx.counters, all, |part, bytes| {
        let before = part.start;
        read(part, bytes).map_err(|error| error.clone().after(before + error.transferred()))
    })
}

fn lock_write<'c>(
    cx: &'c FileContext,
    span: &Range<u64>,
    sieved: bool,
) -> Result<Option<Box<dyn LockGuard + 'c>>> {
    let locks = cx.locks_accesses() || sieved;
    if locks { cx.lock("write", span.clone(), LockKind::Exclusive) } else { Ok(None) }
}

/// True if a window is one run of the file, or empty.
fn is_one_run(window: &Range<u64>, span: &Range<u64>) -> bool {
    window.end - window.start == span.end - span.start
}
