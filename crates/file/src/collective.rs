//! Collective I/O: the ranks agree on a plan, and then each accesses its own bytes, or they exchange data in two phases so that few of them,
//! the aggregators, access large contiguous parts of the file.
//!
//! Each round of a two-phase access has one window of the file per aggregator. A rank's data bytes in a window are one slice of its data,
//! because views never go backwards. Inside a node ranks copy directly into windows in shared memory ([`two_phase_intra_node`]); between nodes each
//! node sends the data of its ranks for a window in one message ([`two_phase_inter_node`]). A rank that fails takes part until all ranks know; the
//! outcome is agreed at the end.
//!
//! Two-phase I/O: del Rosario, Bordawekar, Choudhary, "Improved parallel I/O via a two-phase run-time access strategy", 1993,
//! <https://doi.org/10.1145/165660.165667>.

mod aggregation_buffers;
mod inter_node_buffers;
mod inter_node_setup;
mod plan_agreement;
mod plan_cache;
mod strip_codec;
mod two_phase_inter_node;
mod two_phase_intra_node;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aqueduct_device::{HandleExt, LockKind, Segment};

use crate::context::{AccessScope, FileContext};
use crate::error::{Error, Result};
use crate::hints::TransferDirection;
use crate::independent::{CostScope, IndependentIo};
use crate::layout::Pattern;
use crate::memory::chunks::{ReadBuffer, WriteData};
use crate::memory::window::MemoryWindow;
use crate::plan::{ExchangePlan, FileDomains};
use crate::trace::{self, CallPhase};
pub(crate) use aggregation_buffers::AggregationBuffers;
use inter_node_buffers::InterNodeBuffers;
use plan_agreement::{AgreedExchange, AgreedPlan};
use plan_cache::{CachedPlan, PlanCache, RoundSource};
use two_phase_inter_node::InterNodeExchange;

/// The state of collective I/O on an open file.
pub(crate) struct CollectiveIo {
    /// True if every rank's view is contiguous and the file is in one machine's page cache: then each rank accesses its own bytes, without
    /// an agreement.
    all_views_contiguous: AtomicBool,
    /// Made when they are first needed.
    aggregation_buffers: Mutex<Option<AggregationBuffers>>,
    inter_node_buffers: Mutex<Option<InterNodeBuffers>>,
    plan_cache: Mutex<PlanCache>,
}

/// A rank's part of a collective access: data bytes from `first` on, as a pattern places them in the file.
#[derive(Clone, Copy)]
pub(crate) struct CollectivePart<'a> {
    pub(crate) pattern: &'a Pattern,
    pub(crate) first: u64,
    /// True if the view came with the access, so that the other ranks do not know it.
    pub(crate) has_own_view: bool,
}

/// A two-phase access, as one rank sees it.
#[derive(Clone, Copy)]
struct TwoPhaseAccess<'a> {
    direction: TransferDirection,
    domains: &'a FileDomains,
    /// True if the ranks' bytes are known to have no gaps.
    dense: bool,
    pattern: &'a Pattern,
    /// The data bytes of this rank.
    window: &'a Range<u64>,
}

/// How a rank takes part in a collective access.
enum Participation<'a> {
    /// It accesses its own bytes.
    Independent(CostScope<'a>),
    /// Two-phase I/O inside a node.
    IntraNode(&'a TwoPhaseAccess<'a>, &'a mut RoundSource),
    /// Two-phase I/O between nodes.
    InterNode(InterNodeExchange<'a>),
}

impl CollectiveIo {
    /// With the aggregation buffers of an earlier file, if there are some.
    pub(crate) fn new(all_views_contiguous: bool, buffers: Option<AggregationBuffers>) -> Self {
        Self {
            all_views_contiguous: AtomicBool::new(all_views_contiguous),
            aggregation_buffers: Mutex::new(buffers),
            inter_node_buffers: Mutex::new(None),
            plan_cache: Mutex::default(),
        }
    }

    /// Writes `data`, together with all other ranks. An error in place of data fails the call on all ranks, but takes part in it.
    pub(crate) fn write(
        &self,
        cx: &FileContext,
        independent: &IndependentIo,
        part: CollectivePart<'_>,
        data: Result<&WriteData<'_>>,
    ) -> Result<u64> {
        let (data, failed) = data.map_or_else(|error| (&WriteData::EMPTY, Some(error)), |data| (data, None));
        let CollectivePart { pattern, first, .. } = part;
        let window = first..first + data.len();
        let plan = self.agree_on_plan(cx, independent, part, TransferDirection::Write, &window)?;
        self.execute(cx, independent, plan, pattern, &window, |participation| match participation {
            Participation::Independent(costs) => {
                let write = || independent.write_in_scope(cx, &costs, pattern, first, data);
                failed.map_or_else(write, Err)
            }
            Participation::IntraNode(access, rounds) => {
                self.write_intra_node(cx, independent, access, rounds, data, failed)
            }
            Participation::InterNode(mut exchange) => exchange.write(data, failed),
        })
    }

    /// Fills `data`, together with all other ranks; the count is less at the end of the file.
    pub(crate) fn read(
        &self,
        cx: &FileContext,
        independent: &IndependentIo,
        part: CollectivePart<'_>,
        data: Result<&mut ReadBuffer<'_>>,
    ) -> Result<u64> {
        let nothing = &mut ReadBuffer::Contiguous(&mut []);
        let (data, failed) = match data {
            Ok(data) => (data, None),
            Err(error) => (nothing, Some(error)),
        };
        let CollectivePart { pattern, first, .. } = part;
        let window = first..first + data.len();
        let plan = self.agree_on_plan(cx, independent, part, TransferDirection::Read, &window)?;
        self.execute(cx, independent, plan, pattern, &window, |participation| match participation {
            Participation::Independent(costs) => {
                let read = || independent.read_in_scope(cx, &costs, pattern, first, data);
                failed.map_or_else(read, Err)
            }
            Participation::IntraNode(access, rounds) => {
                self.read_intra_node(cx, access, rounds, data, failed)
            }
            Participation::InterNode(mut exchange) => exchange.read(data, failed),
        })
    }

    /// Executes a plan and agrees on its outcome; a new plan that succeeded is cached, and its measured cost is reported.
    fn execute(
        &self,
        cx: &FileContext,
        independent: &IndependentIo,
        plan: AgreedPlan,
        pattern: &Pattern,
        window: &Range<u64>,
        transfer: impl FnOnce(Participation<'_>) -> Result<u64>,
    ) -> Result<u64> {
        let direction = plan.direction;
        let operation = operation_name(direction);
        let costs = independent.cost_scope(AccessScope::Collective, plan.size);
        let Some(AgreedExchange { estimate, plan: exchange, mut rounds, new }) = plan.exchange else {
            let outcome = transfer(Participation::Independent(costs));
            return agree_on_count(cx, operation, outcome);
        };
        let ExchangePlan { domains, dense } = exchange;
        trace::note_two_phase(domains.rounds(), domains.aggregators().len());
        let access = TwoPhaseAccess { direction, domains: &domains, dense, pattern, window };
        let agreed = costs.measure(direction, estimate, || {
            let outcome = if cx.comm.node_count() == 1 {
                transfer(Participation::IntraNode(&access, &mut rounds))
            } else {
                let buffers = self.inter_node_buffers(cx, &domains)?;
                transfer(Participation::InterNode(InterNodeExchange::new(cx, &access, buffers, &mut rounds)))
            };
            cx.agree(operation, outcome)
        })?;
        cx.counters.planned.add(rounds.planned());
        if let Some((key, mine)) = new {
            let exchange = ExchangePlan { domains, dense };
            let cached = rounds.into_kept().map(|rounds| CachedPlan { exchange, rounds });
            self.plan_cache().insert(key, mine, cached);
        }
        Ok(agreed)
    }

    /// Says whether every rank's view is contiguous, and drops all plans.
    pub(crate) fn change_views(&self, all_views_contiguous: bool) {
        self.all_views_contiguous.store(all_views_contiguous, Ordering::Release);
        self.clear_plans();
    }

    /// Drops all plans: hints or views have changed.
    pub(crate) fn clear_plans(&self) {
        *self.plan_cache() = PlanCache::default();
    }

    /// The aggregation buffers, for the next file.
    pub(crate) fn into_buffers(self) -> Option<AggregationBuffers> {
        self.aggregation_buffers.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan_cache(&self) -> MutexGuard<'_, PlanCache> {
        self.plan_cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The aggregation buffers of a plan: the current ones, or new ones. Collective.
    fn aggregation_buffers(&self, cx: &FileContext, domains: &FileDomains) -> Result<AggregationBuffers> {
        let mut buffers = self.aggregation_buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let (windows, size) = (domains.aggregators().len(), domains.buffer() as usize);
        if let Some(buffers) = buffers.as_ref().filter(|buffers| buffers.fits(windows, size)) {
            return Ok(buffers.clone());
        }
        cx.counters.count_buffer(2 * windows * size / cx.comm.size());
        let made = cx.comm_result("buffers", AggregationBuffers::new(&cx.comm, 2, windows, size))?;
        Ok(buffers.insert(made).clone())
    }

    /// The same for a plan between nodes. Collective.
    fn inter_node_buffers(&self, cx: &FileContext, domains: &FileDomains) -> Result<InterNodeBuffers> {
        let mut buffers = self.inter_node_buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(buffers) = buffers.as_ref().filter(|buffers| buffers.fits(cx, domains)) {
            return Ok(buffers.clone());
        }
        Ok(buffers.insert(InterNodeBuffers::new(cx, domains)?).clone())
    }
}

impl TwoPhaseAccess<'_> {
    /// Records bytes of this rank that an aggregator on another rank accesses.
    fn note_exchanged(&self, cx: &FileContext, window: usize, part: &Range<u64>) {
        if self.domains.aggregators().get(window) != Some(&cx.comm.rank()) {
            trace::note_exchanged(part.end - part.start);
        }
    }

    fn operation(&self) -> &'static str {
        operation_name(self.direction)
    }

    /// Copies this rank's bytes of a window of the file to their positions in it.
    fn copy_to_window(
        &self,
        cx: &FileContext,
        window: &MemoryWindow<'_>,
        part: &Range<u64>,
        data: &WriteData<'_>,
    ) -> Result<()> {
        let origin = self.window.start;
        let _phase = trace::enter(CallPhase::Pack);
        cx.counters.copied.add(part.end - part.start);
        data.for_each_chunk_to_memory(&cx.counters, part.start - origin..part.end - origin, |chunk, bytes| {
            window.put(self.pattern, origin + chunk.start..origin + chunk.end, bytes);
            Ok(())
        })
    }

    /// Copies this rank's bytes of a window of the file from their positions in it.
    fn copy_from_window(
        &self,
        cx: &FileContext,
        window: &MemoryWindow<'_>,
        part: &Range<u64>,
        data: &mut ReadBuffer<'_>,
    ) -> Result<()> {
        let origin = self.window.start;
        let _phase = trace::enter(CallPhase::Pack);
        cx.counters.copied.add(part.end - part.start);
        let filled =
            data.for_each_chunk(&cx.counters, part.start - origin..part.end - origin, |chunk, bytes| {
                window.get(self.pattern, origin + chunk.start..origin + chunk.end, bytes);
                Ok(bytes.len() as u64)
            });
        filled.map(|_| ())
    }
}

/// Writes the pieces of an aggregator, in ascending order.
fn write_pieces(cx: &FileContext, pieces: &[Segment<'_>]) -> Result<()> {
    let start = pieces.first().map_or(0, |piece| piece.offset);
    let end = pieces.last().map_or(0, |piece| piece.offset + piece.bytes.len() as u64);
    let locks = cx.sieves_writes() || cx.locks_for_coherence();
    let _guard = if locks { cx.lock("write_all", start..end, LockKind::Exclusive)? } else { None };
    // An aggregator does not say which rank's bytes the device has written.
    cx.device_result("write_all", cx.handle.write_all(pieces)).map_err(|error| error.after(0))
}

/// As [`FileContext::agree`], for counts of independent accesses: a rank with an error of another rank has still transferred its bytes.
fn agree_on_count(cx: &FileContext, operation: &'static str, mine: Result<u64>) -> Result<u64> {
    let done = mine.as_ref().ok().copied();
    let agreed = cx.agree(operation, mine);
    agreed.map_err(|error: Error| done.map_or(error.clone(), |done| error.after(done)))
}

fn operation_name(direction: TransferDirection) -> &'static str {
    match direction {
        TransferDirection::Read => "read_all",
        TransferDirection::Write => "write_all",
    }
}
