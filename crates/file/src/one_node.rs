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
use crate::layout::Pattern;
use crate::plan::{Coverage, Domains, Window};
use crate::staging::{Stage, Staging};
use crate::two_phase::{Runs, inside, merge};

impl Core {
    pub(crate) fn write_staged(
        &self,
        domains: &Domains,
        dense: bool,
        pattern: &Pattern,
        window: &Range<u64>,
        data: &[u8],
        mut failed: Option<Error>,
    ) -> Result<u64> {
        let staging = self.staging(domains)?;
        for round in 0..domains.rounds() {
            let windows: Vec<Window> = domains.windows(round).collect();
            let mut coverage = vec![Coverage::default(); windows.len()];
            for (at, part) in windows.iter().enumerate() {
                let mine = inside(pattern, window, &part.range);
                let slice = &data[(mine.start - window.start) as usize..(mine.end - window.start) as usize];
                let stage = Stage { turn: round, aggregator: at, start: part.range.start };
                staging.field(stage).put(pattern, mine.clone(), slice);
                if !dense {
                    coverage[at] = Coverage::of(pattern, mine);
                }
            }
            let full = self.all_covered(dense, &coverage, domains, &windows)?;
            let runs = if full { None } else { Some(self.exchange_runs(pattern, window, &windows)?) };
            let duty = windows.iter().enumerate().find(|(_, part)| part.aggregator == self.comm.rank());
            let Some((at, part)) = duty.filter(|(_, part)| failed.is_none() && !part.range.is_empty()) else {
                continue;
            };
            let stage = Stage { turn: round, aggregator: at, start: part.range.start };
            let ranges = match &runs {
                None => Ok(vec![domains.touched(&part.range)]),
                Some(received) => self.covered_ranges(received),
            };
            failed = ranges.and_then(|ranges| self.write_stage(&staging, stage, &ranges)).err();
        }
        failed.map_or(Ok(data.len() as u64), Err)
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
    fn exchange_runs(
        &self,
        pattern: &Pattern,
        window: &Range<u64>,
        windows: &[Window],
    ) -> Result<Vec<Vec<u8>>> {
        let mut messages = vec![Vec::new(); self.comm.size()];
        for part in windows {
            messages[part.aggregator] = Runs::of(pattern, inside(pattern, window, &part.range)).encode(&[]);
        }
        self.talk("write_all", self.comm.all_to_all_varied::<u8, _>(&messages))
    }

    fn covered_ranges(&self, received: &[Vec<u8>]) -> Result<Vec<Range<u64>>> {
        let mut covered = Vec::new();
        for (rank, message) in received.iter().enumerate() {
            let (runs, _) = Runs::decode(message).ok_or_else(|| self.garbled("write_all", rank))?;
            covered.extend(runs.iter());
        }
        Ok(merge(covered))
    }

    fn write_stage(&self, staging: &Staging, stage: Stage, ranges: &[Range<u64>]) -> Result<()> {
        let piece = |range: &Range<u64>| Piece::new(range.start, staging.full(stage, range));
        let pieces: Vec<Piece<'_>> = ranges.iter().map(piece).collect();
        self.write_pieces(&pieces)
    }

    pub(crate) fn read_staged(
        &self,
        domains: &Domains,
        pattern: &Pattern,
        window: &Range<u64>,
        data: &mut [u8],
        mut failed: Option<Error>,
    ) -> Result<u64> {
        let staging = self.staging(domains)?;
        let rounds = domains.rounds();
        // The first byte of the file that was not there.
        let mut end = u64::MAX;
        let mut mine = self.fill_stage(&staging, domains, 0, &mut failed);
        for round in 0..rounds {
            end = end.min(self.talk("read_all", self.comm.allreduce_one(Op::Min, mine))?);
            // The next buffers fill while this rank empties these; they were emptied before the barrier just passed.
            mine = if round + 1 < rounds {
                self.fill_stage(&staging, domains, round + 1, &mut failed)
            } else {
                end
            };
            for (at, part) in domains.windows(round).enumerate() {
                let there = part.range.start..part.range.end.min(end).max(part.range.start);
                let wanted = inside(pattern, window, &there);
                let place = (wanted.start - window.start) as usize..(wanted.end - window.start) as usize;
                let stage = Stage { turn: round, aggregator: at, start: part.range.start };
                staging.field(stage).get(pattern, wanted, &mut data[place]);
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(inside(pattern, window, &(0..end.min(i64::MAX as u64))).end - window.start),
        }
    }

    /// Reads this rank's window of a round; the first byte that is not in the file.
    fn fill_stage(
        &self,
        staging: &Staging,
        domains: &Domains,
        round: u64,
        failed: &mut Option<Error>,
    ) -> u64 {
        let duty = domains.windows(round).enumerate().find(|(_, part)| part.aggregator == self.comm.rank());
        let Some((at, part)) = duty.filter(|(_, part)| failed.is_none() && !part.range.is_empty()) else {
            return u64::MAX;
        };
        let stage = Stage { turn: round, aggregator: at, start: part.range.start };
        let range = domains.touched(&part.range);
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
