//! Two-phase I/O inside a node: ranks copy directly into, or out of, the aggregators' buffers in shared memory.
//!
//! One barrier per round: while an aggregator writes the buffer of one turn, all ranks fill that of the next. After the barrier of a round
//! the buffers of the round before the last are free, because each rank enters it after it has emptied or written them. After the last
//! round the ranks agree on the outcome, which is one more barrier: the next call finds all buffers free.

use std::ops::Range;

use aqueduct_comm::Op;
use aqueduct_device::{HandleExt, Segment};

use super::aggregation_buffers::{AggregationBuffers, WindowBuffer};
use super::plan_cache::RoundSource;
use super::strip_codec::RunList;
use super::{CollectiveIo, TwoPhaseAccess, write_pieces};
use crate::context::FileContext;
use crate::error::{Error, Result};
use crate::independent::IndependentIo;
use crate::layout::Pattern;
use crate::memory::chunks::{ReadBuffer, WriteData};
use crate::plan::{
    AggregatorWindow, Coverage, ExchangeRound, FileDomains, LocalPart, data_inside, local_parts, merge_ranges,
};
use crate::trace::{self, CallPhase};

impl CollectiveIo {
    /// Writes in two phases; all of `data`, or an error.
    pub(super) fn write_intra_node(
        &self,
        cx: &FileContext,
        independent: &IndependentIo,
        access: &TwoPhaseAccess<'_>,
        rounds: &mut RoundSource,
        data: &WriteData<'_>,
        mut failed: Option<Error>,
    ) -> Result<u64> {
        let TwoPhaseAccess { domains, pattern, window, .. } = *access;
        let buffers = self.aggregation_buffers(cx, domains)?;
        if access.dense && domains.aggregators() == [cx.comm.rank()] && failed.is_none() {
            independent.announce_write(cx, domains.span());
        }
        for number in 0..domains.rounds() {
            let known = rounds.next(number);
            let found = known.is_none().then(|| local_parts(domains, number..number + 1, pattern, window));
            let local =
                known.as_ref().map_or_else(|| found.as_deref().unwrap_or_default(), |round| &round.local);
            for part in local {
                access.note_exchanged(cx, part.window, &part.data);
                let window = buffers.window(window_buffer(domains, number, part.window));
                access.copy_to_window(cx, &window, &part.data, data)?;
            }
            let round = match (known, found) {
                (Some(round), _) => {
                    cx.barrier("write_all")?;
                    round
                }
                (None, local) => {
                    let local = local.unwrap_or_default();
                    // An error of one rank is reported to all by the agreement.
                    let ranges = find_ranges(cx, access, number, &local)?.unwrap_or_else(|error| {
                        failed = Some(error);
                        Vec::new()
                    });
                    rounds.add(ExchangeRound { steps: 1, local, ranges, ..ExchangeRound::default() });
                    rounds.next(number).unwrap_or_default()
                }
            };
            let own = domains.aggregator_index(cx.comm.rank()).filter(|_| failed.is_none());
            if let Some(window) = own.filter(|_| !round.ranges.is_empty()) {
                let buffer = window_buffer(domains, number, window);
                failed = write_window(cx, &buffers, buffer, &round.ranges).err();
            }
        }
        failed.map_or(Ok(data.len()), Err)
    }

    /// Reads in two phases; the count is less at the end of the file.
    pub(super) fn read_intra_node(
        &self,
        cx: &FileContext,
        access: &TwoPhaseAccess<'_>,
        rounds: &mut RoundSource,
        data: &mut ReadBuffer<'_>,
        mut failed: Option<Error>,
    ) -> Result<u64> {
        let TwoPhaseAccess { domains, pattern, window, .. } = *access;
        let buffers = self.aggregation_buffers(cx, domains)?;
        let count = domains.rounds();
        // The end of the file, as far as any rank has found it.
        let mut end = u64::MAX;
        let mut until = window.end;
        let mut mine = fill_window(cx, &buffers, domains, 0, &mut failed);
        for number in 0..count {
            let phase = trace::enter(CallPhase::Wait);
            let agreed = cx.comm_result("read_all", cx.comm.allreduce_one(Op::Min, mine))?;
            drop(phase);
            if agreed < end {
                end = agreed;
                until = data_inside(pattern, window, &(0..end)).end;
            }
            // The next buffers fill while this rank empties these; they were emptied before the barrier just passed.
            mine = if number + 1 < count {
                fill_window(cx, &buffers, domains, number + 1, &mut failed)
            } else {
                end
            };
            let round = rounds.next(number).unwrap_or_else(|| {
                let local = local_parts(domains, number..number + 1, pattern, window);
                rounds.add(ExchangeRound { steps: 1, local, ..ExchangeRound::default() });
                rounds.next(number).unwrap_or_default()
            });
            for part in &round.local {
                access.note_exchanged(cx, part.window, &part.data);
                let existing = part.data.start..part.data.end.min(until).max(part.data.start);
                let window = buffers.window(window_buffer(domains, number, part.window));
                access.copy_from_window(cx, &window, &existing, data)?;
            }
        }
        failed.map_or(Ok(until - window.start), Err)
    }
}

/// Waits until all ranks have filled their parts; what this rank writes as an aggregator.
fn find_ranges(
    cx: &FileContext,
    access: &TwoPhaseAccess<'_>,
    number: u64,
    local: &[LocalPart],
) -> Result<Result<Vec<Range<u64>>>> {
    let TwoPhaseAccess { domains, pattern, dense, .. } = *access;
    let windows: Vec<AggregatorWindow> = domains.windows(number).collect();
    let mut coverage = vec![Coverage::default(); windows.len()];
    for part in local.iter().filter(|_| !dense) {
        coverage[part.window] = Coverage::of(pattern, part.data.clone());
    }
    let full = all_covered(cx, dense, &coverage, domains, &windows)?;
    let received = if full { None } else { Some(exchange_runs(cx, pattern, local, &windows)?) };
    let Some(own) = domains.aggregator_index(cx.comm.rank()).map(|at| &windows[at].range) else {
        return Ok(Ok(Vec::new()));
    };
    Ok(match received {
        None => Ok(Some(domains.touched(own)).into_iter().filter(|range| !range.is_empty()).collect()),
        Some(received) => covered_ranges(cx, &received),
    })
}

/// Waits until all ranks have filled their parts; whether every window is covered without a gap.
fn all_covered(
    cx: &FileContext,
    dense: bool,
    mine: &[Coverage],
    domains: &FileDomains,
    windows: &[AggregatorWindow],
) -> Result<bool> {
    if dense {
        return cx.barrier("write_all").map(|()| true);
    }
    let words: Vec<u64> = mine.iter().flat_map(|coverage| coverage.words()).collect();
    let phase = trace::enter(CallPhase::Wait);
    let all = cx.comm_result("write_all", cx.comm.allreduce(Op::Sum, &words))?;
    drop(phase);
    let mut all = all.as_chunks::<{ Coverage::WORDS }>().0.iter().zip(windows);
    Ok(all.all(|(words, part)| Coverage::is_full(words, &domains.touched(&part.range))))
}

/// The runs of all ranks in the windows, for the aggregators to know what to write.
fn exchange_runs(
    cx: &FileContext,
    pattern: &Pattern,
    local: &[LocalPart],
    windows: &[AggregatorWindow],
) -> Result<Vec<Vec<u8>>> {
    let _phase = trace::enter(CallPhase::Exchange);
    let mut messages = vec![Vec::new(); cx.comm.size()];
    for part in local {
        messages[windows[part.window].aggregator] = RunList::of(pattern, part.data.clone()).encode();
    }
    cx.comm_result("write_all", cx.comm.all_to_all_varied::<u8, _>(&messages))
}

fn covered_ranges(cx: &FileContext, received: &[Vec<u8>]) -> Result<Vec<Range<u64>>> {
    let mut covered = Vec::new();
    for (rank, message) in received.iter().enumerate() {
        let runs = RunList::decode(message).ok_or_else(|| cx.malformed_message("write_all", rank))?;
        covered.extend(runs.iter());
    }
    Ok(merge_ranges(covered))
}

/// Writes the window of this rank.
fn write_window(
    cx: &FileContext,
    buffers: &AggregationBuffers,
    buffer: WindowBuffer,
    ranges: &[Range<u64>],
) -> Result<()> {
    let piece = |range: &Range<u64>| Segment::new(range.start, buffers.filled(buffer, range));
    let pieces: Vec<Segment<'_>> = ranges.iter().map(piece).collect();
    write_pieces(cx, &pieces)
}

/// Reads this rank's window of a round; the first byte that is not in the file.
fn fill_window(
    cx: &FileContext,
    buffers: &AggregationBuffers,
    domains: &FileDomains,
    round: u64,
    failed: &mut Option<Error>,
) -> u64 {
    let own = domains.aggregator_index(cx.comm.rank()).filter(|_| failed.is_none());
    let own = own.map(|at| (at, domains.touched(&domains.window(round, at).range)));
    let Some((at, range)) = own.filter(|(_, range)| !range.is_empty()) else { return u64::MAX };
    let memory = buffers.to_fill(window_buffer(domains, round, at), &range);
    let outcome = cx.device_result("read_all", cx.handle.read_at(range.start, memory));
    match outcome {
        Ok(count) if range.start + count < range.end => range.start + count,
        Ok(_) => u64::MAX,
        Err(error) => {
            *failed = Some(error.after(0));
            u64::MAX
        }
    }
}

/// The buffer of a window.
fn window_buffer(domains: &FileDomains, number: u64, window: usize) -> WindowBuffer {
    WindowBuffer { turn: number, aggregator: window, start: domains.window(number, window).range.start }
}
