//! Two-phase transfers inside a node: ranks copy straight into, or out of, the aggregators' buffers in shared memory.
//!
//! One barrier per round: while an aggregator writes the buffer of one turn, all ranks fill that of the next. The barrier of a round
//! tells that the buffers of the round before the last are free, because each rank comes to it after it has emptied or written them.
//! After the last round the callers agree on the outcome, which is one more barrier: the next operation finds all buffers free.

use std::ops::Range;

use aqueduct_comm::Op;
use aqueduct_device::{HandleExt, Piece};

use crate::core::Core;
use crate::error::{Error, Result};
use crate::flow::{Inflow, Outflow};
use crate::layout::Pattern;
use crate::plan::{Coverage, Domains, Round, Share, Window, inside, shares, union};
use crate::staging::{Stage, Staging};
use crate::two_phase::{Job, Rounds, Runs};

impl Core {
    pub(crate) fn write_staged(
        &self,
        job: &Job<'_>,
        rounds: &mut Rounds,
        data: &Outflow<'_>,
        mut failed: Option<Error>,
    ) -> Result<u64> {
        let Job { domains, pattern, window, .. } = *job;
        let staging = self.staging(domains)?;
        if job.dense && domains.aggregators() == [self.comm.rank()] && failed.is_none() {
            self.expect(domains.exact());
        }
        for number in 0..domains.rounds() {
            let known = rounds.next(number);
            let found = known.is_none().then(|| shares(domains, number..number + 1, pattern, window));
            let near =
                known.as_ref().map_or_else(|| found.as_deref().unwrap_or_default(), |round| &round.near);
            for share in near {
                let field = staging.field(stage(domains, number, share.window));
                self.put_shares(&field, job, &share.data, data)?;
            }
            let round = match (known, found) {
                (Some(round), _) => {
                    self.talk("write_all", self.comm.barrier())?;
                    round
                }
                (None, near) => {
                    let near = near.unwrap_or_default();
                    // What a rank sent in error is known to all when they agree.
                    let ranges = self.find_ranges(job, number, &near)?.unwrap_or_else(|error| {
                        failed = Some(error);
                        Vec::new()
                    });
                    rounds.add(Round { steps: 1, near, ranges, ..Round::default() });
                    rounds.next(number).unwrap_or_default()
                }
            };
            let duty = domains.place_of(self.comm.rank()).filter(|_| failed.is_none());
            if let Some(window) = duty.filter(|_| !round.ranges.is_empty()) {
                failed = self.write_stage(&staging, stage(domains, number, window), &round.ranges).err();
            }
        }
        failed.map_or(Ok(data.len()), Err)
    }

    /// Waits until all ranks have filled their parts; what this rank writes as an aggregator.
    fn find_ranges(&self, job: &Job<'_>, number: u64, near: &[Share]) -> Result<Result<Vec<Range<u64>>>> {
        let Job { domains, pattern, dense, .. } = *job;
        let windows: Vec<Window> = domains.windows(number).collect();
        let mut coverage = vec![Coverage::default(); windows.len()];
        for share in near.iter().filter(|_| !dense) {
            coverage[share.window] = Coverage::of(pattern, share.data.clone());
        }
        let full = self.all_covered(dense, &coverage, domains, &windows)?;
        let received = if full { None } else { Some(self.exchange_runs(pattern, near, &windows)?) };
        let Some(duty) = domains.place_of(self.comm.rank()).map(|at| &windows[at].range) else {
            return Ok(Ok(Vec::new()));
        };
        Ok(match received {
            None => Ok(Some(domains.touched(duty)).into_iter().filter(|range| !range.is_empty()).collect()),
            Some(received) => self.covered_ranges(&received),
        })
    }

    /// Waits until all ranks have filled their parts; whether every window is covered without a gap.
    fn all_covered(
        &self,
        dense: bool,
        mine: &[Coverage],
        domains: &Domains,
        windows: &[Window],
    ) -> Result<bool> {
        if dense {
            return self.talk("write_all", self.comm.barrier()).map(|()| true);
        }
        let words: Vec<u64> = mine.iter().flat_map(|coverage| coverage.words()).collect();
        let all = self.talk("write_all", self.comm.allreduce(Op::Sum, &words))?;
        let mut all = all.as_chunks::<{ Coverage::WORDS }>().0.iter().zip(windows);
        Ok(all.all(|(words, part)| Coverage::is_full(words, &domains.touched(&part.range))))
    }

    /// The runs of all ranks in the windows, for the aggregators to know what to write.
    fn exchange_runs(&self, pattern: &Pattern, near: &[Share], windows: &[Window]) -> Result<Vec<Vec<u8>>> {
        let mut messages = vec![Vec::new(); self.comm.size()];
        for share in near {
            messages[windows[share.window].aggregator] = Runs::of(pattern, share.data.clone()).encode();
        }
        self.talk("write_all", self.comm.all_to_all_varied::<u8, _>(&messages))
    }

    fn covered_ranges(&self, received: &[Vec<u8>]) -> Result<Vec<Range<u64>>> {
        let mut covered = Vec::new();
        for (rank, message) in received.iter().enumerate() {
            let runs = Runs::decode(message).ok_or_else(|| self.garbled("write_all", rank))?;
            covered.extend(runs.iter());
        }
        Ok(union(covered))
    }

    fn write_stage(&self, staging: &Staging, stage: Stage, ranges: &[Range<u64>]) -> Result<()> {
        let piece = |range: &Range<u64>| Piece::new(range.start, staging.full(stage, range));
        let pieces: Vec<Piece<'_>> = ranges.iter().map(piece).collect();
        self.write_pieces(&pieces)
    }

    pub(crate) fn read_staged(
        &self,
        job: &Job<'_>,
        rounds: &mut Rounds,
        data: &mut Inflow<'_>,
        mut failed: Option<Error>,
    ) -> Result<u64> {
        let Job { domains, pattern, window, .. } = *job;
        let staging = self.staging(domains)?;
        let count = domains.rounds();
        // The first byte of the file that was not there.
        let mut end = u64::MAX;
        let mut until = window.end;
        let mut mine = self.fill_stage(&staging, domains, 0, &mut failed);
        for number in 0..count {
            let met = self.talk("read_all", self.comm.allreduce_one(Op::Min, mine))?;
            if met < end {
                end = met;
                until = inside(pattern, window, &(0..end)).end;
            }
            // The next buffers fill while this rank empties these; they were emptied before the barrier just passed.
            mine = if number + 1 < count {
                self.fill_stage(&staging, domains, number + 1, &mut failed)
            } else {
                end
            };
            let round = rounds.next(number).unwrap_or_else(|| {
                let near = shares(domains, number..number + 1, pattern, window);
                rounds.add(Round { steps: 1, near, ..Round::default() });
                rounds.next(number).unwrap_or_default()
            });
            for share in &round.near {
                let there = share.data.start..share.data.end.min(until).max(share.data.start);
                let field = staging.field(stage(domains, number, share.window));
                self.get_shares(&field, job, &there, data)?;
            }
        }
        failed.map_or(Ok(until - window.start), Err)
    }

    /// Reads this rank's window of a round; the first byte that is not in the file.
    fn fill_stage(
        &self,
        staging: &Staging,
        domains: &Domains,
        round: u64,
        failed: &mut Option<Error>,
    ) -> u64 {
        let duty = domains.place_of(self.comm.rank()).filter(|_| failed.is_none());
        let duty = duty.map(|at| (at, domains.touched(&domains.window(round, at).range)));
        let Some((at, range)) = duty.filter(|(_, range)| !range.is_empty()) else { return u64::MAX };
        let stage = stage(domains, round, at);
        let outcome = self.device("read_all", self.handle.read_at(range.start, staging.empty(stage, &range)));
        match outcome {
            Ok(count) if range.start + count < range.end => range.start + count,
            Ok(_) => u64::MAX,
            Err(error) => {
                *failed = Some(error.after(0));
                u64::MAX
            }
        }
    }
}

/// The buffer of a window.
fn stage(domains: &Domains, number: u64, window: usize) -> Stage {
    Stage { turn: number, aggregator: window, start: domains.window(number, window).range.start }
}
