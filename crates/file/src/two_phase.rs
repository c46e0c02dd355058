//! Two-phase collective transfers: the ranks exchange data so that few of them access large contiguous parts of the file.
//!
//! Each round has one window of the file per aggregator. A rank's data bytes inside a window are one slice of its data, because
//! views never go backwards. A rank that fails goes on exchanging, with nothing to say, so that no other waits for it; the outcome is agreed at
//! the end.

mod message;

use std::ops::Range;

use aqueduct_device::{HandleExt, LockKind, Piece};

use crate::core::Core;
use crate::error::{Error, Result};
use crate::layout::Pattern;
use crate::plan::{self, Choice, Direction, Domains, Plan, Strategy, Summary};
use crate::transfer::Company;
pub(crate) use message::Runs;
use message::pick;

impl Core {
    /// Writes `data` to the data bytes from `first` on, together with all other ranks. `mine` fails the operation from the start, on all
    /// ranks, but takes part in it.
    pub(crate) fn write_together(&self, pattern: &Pattern, first: u64, data: Result<&[u8]>) -> Result<u64> {
        let (bytes, failed) = split(data, &[]);
        let window = first..first + bytes.len() as u64;
        let (plan, dense) = self.plan(Direction::Write, pattern, &window)?;
        match plan {
            Plan::Together(domains) if !self.is_atomic() && self.comm.node_count() == 1 => {
                self.exchanged(Direction::Write, pattern, &window, || {
                    let outcome = self.write_staged(&domains, dense, pattern, &window, bytes, failed);
                    self.agree("write_all", outcome)
                })
            }
            // Overlapping atomic writes must look as if one came after the other: each rank locks and writes for itself.
            Plan::Together(domains) if !self.is_atomic() => {
                let outcome = self.write_rounds(&domains, pattern, &window, bytes, failed);
                self.agree("write_all", outcome)
            }
            _ => {
                let outcome =
                    failed.map_or_else(|| self.write_window(Company::All, pattern, first, bytes), Err);
                self.agree_count("write_all", outcome)
            }
        }
    }

    /// Fills `data` from the data bytes from `first` on, together with all other ranks; the count is less at the end of the file.
    pub(crate) fn read_together(
        &self,
        pattern: &Pattern,
        first: u64,
        data: Result<&mut [u8]>,
    ) -> Result<u64> {
        let (bytes, failed): (&mut [u8], _) = match data {
            Ok(bytes) => (bytes, None),
            Err(error) => (&mut [], Some(error)),
        };
        let window = first..first + bytes.len() as u64;
        let (plan, _) = self.plan(Direction::Read, pattern, &window)?;
        match plan {
            Plan::Together(domains) if !self.is_atomic() && self.comm.node_count() == 1 => {
                self.exchanged(Direction::Read, pattern, &window, || {
                    let outcome = self.read_staged(&domains, pattern, &window, bytes, failed);
                    self.agree("read_all", outcome)
                })
            }
            Plan::Together(domains) if !self.is_atomic() => {
                let outcome = self.read_rounds(&domains, pattern, &window, bytes, failed);
                self.agree("read_all", outcome)
            }
            _ => {
                let outcome =
                    failed.map_or_else(|| self.read_window(Company::All, pattern, first, bytes), Err);
                self.agree_count("read_all", outcome)
            }
        }
    }

    /// Does a two-phase access, and remembers what it cost.
    fn exchanged(
        &self,
        direction: Direction,
        pattern: &Pattern,
        window: &Range<u64>,
        access: impl FnOnce() -> Result<u64>,
    ) -> Result<u64> {
        let (_, estimate) = self.prices(direction, pattern, window);
        self.timed(Company::All, direction, Choice { strategy: Strategy::TwoPhase, estimate }, access)
    }

    /// As [`agree`](Core::agree), for what each rank has transferred by itself: a rank that others fail has still transferred it.
    fn agree_count(&self, operation: &'static str, mine: Result<u64>) -> Result<u64> {
        let done = mine.as_ref().ok().copied();
        let agreed = self.agree(operation, mine);
        agreed.map_err(|error| done.map_or(error.clone(), |done| error.after(done)))
    }

    /// What all ranks bring, merged, and from it the same plan on every rank; also whether what they bring is known to have no gaps.
    fn plan(&self, direction: Direction, pattern: &Pattern, window: &Range<u64>) -> Result<(Plan, bool)> {
        let mine = self.summary(direction, pattern, window).words();
        let merge = |into: &mut [u64; Summary::WORDS], with: &[u64; Summary::WORDS]| {
            let mut sum = Summary::from_words(into);
            sum.merge(&Summary::from_words(with));
            *into = sum.words();
        };
        let all = self.talk("plan", self.comm.allreduce_with(&[mine], merge))?;
        let all = Summary::from_words(&all[0]);
        let hints = self.hints();
        let rank_at = |node: usize, place: usize| self.comm.ranks_of_node(node).get(place).copied();
        let chosen = plan::aggregators(self.comm.size(), self.comm.node_count(), hints.aggregators, rank_at);
        Ok((plan::collective(direction, &all, &chosen, &hints, &self.can), all.interlocks()))
    }

    /// What this rank brings, with its prices where each rank might as well work for itself: on one machine's page cache.
    fn summary(&self, direction: Direction, pattern: &Pattern, window: &Range<u64>) -> Summary {
        let mine = Summary::of(pattern, window.clone());
        if !self.can.maps || self.comm.node_count() > 1 || window.is_empty() {
            return mine;
        }
        let (apart, together) = self.prices(direction, pattern, window);
        mine.costing(apart, together)
    }

    fn write_rounds(
        &self,
        domains: &Domains,
        pattern: &Pattern,
        window: &Range<u64>,
        data: &[u8],
        mut failed: Option<Error>,
    ) -> Result<u64> {
        for round in 0..domains.rounds() {
            let mut messages = vec![Vec::new(); self.comm.size()];
            let mut duty = 0..0;
            for part in domains.windows(round) {
                if part.aggregator == self.comm.rank() {
                    duty = part.range.clone();
                }
                let inside = inside(pattern, window, &part.range);
                let slice =
                    &data[(inside.start - window.start) as usize..(inside.end - window.start) as usize];
                messages[part.aggregator] = Runs::of(pattern, inside).encode(slice);
            }
            let received = self.talk("write_all", self.comm.all_to_all_varied::<u8, _>(&messages))?;
            drop(messages);
            if failed.is_none() && !duty.is_empty() {
                failed = self.write_duty(&duty, &received).err();
            }
        }
        failed.map_or(Ok(data.len() as u64), Err)
    }

    /// Writes what all ranks sent for one window: only the bytes they sent, so that nobody else's are touched.
    fn write_duty(&self, duty: &Range<u64>, received: &[Vec<u8>]) -> Result<()> {
        let mut buffer = vec![0; (duty.end - duty.start) as usize];
        let mut covered: Vec<Range<u64>> = Vec::new();
        for (rank, message) in received.iter().enumerate() {
            let Some((runs, mut data)) = Runs::decode(message) else {
                return Err(self.garbled("write_all", rank));
            };
            for run in runs.iter() {
                let (now, later) = data.split_at((run.end - run.start) as usize);
                let to = (run.start - duty.start) as usize;
                buffer[to..to + now.len()].copy_from_slice(now);
                data = later;
                covered.push(run);
            }
        }
        let covered = merge(covered);
        let piece = |range: &Range<u64>| {
            let inside = (range.start - duty.start) as usize..(range.end - duty.start) as usize;
            Piece::new(range.start, &buffer[inside])
        };
        let pieces: Vec<Piece<'_>> = covered.iter().map(piece).collect();
        self.write_pieces(&pieces)
    }

    /// Writes what an aggregator has together, in ascending order.
    pub(crate) fn write_pieces(&self, pieces: &[Piece<'_>]) -> Result<()> {
        let start = pieces.first().map_or(0, |piece| piece.offset);
        let end = pieces.last().map_or(0, |piece| piece.offset + piece.bytes.len() as u64);
        let locks = self.sieves_writes();
        let _guard = if locks { self.lock("write_all", start..end, LockKind::Exclusive)? } else { None };
        // Whose bytes the device did write, an aggregator does not tell.
        self.device("write_all", self.handle.write_all(pieces)).map_err(|error| error.after(0))
    }

    fn read_rounds(
        &self,
        domains: &Domains,
        pattern: &Pattern,
        window: &Range<u64>,
        data: &mut [u8],
        mut failed: Option<Error>,
    ) -> Result<u64> {
        let mut got: Vec<Range<u64>> = Vec::new();
        for round in 0..domains.rounds() {
            let mut messages = vec![Vec::new(); self.comm.size()];
            let mut wanted = vec![window.start..window.start; self.comm.size()];
            let mut duty = 0..0;
            for part in domains.windows(round) {
                if part.aggregator == self.comm.rank() {
                    duty = part.range.clone();
                }
                let inside = inside(pattern, window, &part.range);
                messages[part.aggregator] = Runs::of(pattern, inside.clone()).encode(&[]);
                wanted[part.aggregator] = inside;
            }
            let asked = self.talk("read_all", self.comm.all_to_all_varied::<u8, _>(&messages))?;
            let answers = self.answer_all(&duty, &asked, &mut failed);
            let answers = self.talk("read_all", self.comm.all_to_all_varied::<u8, _>(&answers))?;
            for (inside, answer) in wanted.iter().zip(&answers) {
                let at = (inside.start - window.start) as usize;
                let len = answer.len().min((inside.end - inside.start) as usize);
                data[at..at + len].copy_from_slice(&answer[..len]);
                got.push(inside.start..inside.start + len as u64);
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(front(window, got)),
        }
    }

    /// What each rank asked of this aggregator; after a failure, nothing.
    fn answer_all(&self, duty: &Range<u64>, asked: &[Vec<u8>], failed: &mut Option<Error>) -> Vec<Vec<u8>> {
        let nothing = || vec![Vec::new(); asked.len()];
        if duty.is_empty() || failed.is_some() {
            return nothing();
        }
        self.read_duty(asked).unwrap_or_else(|error| {
            *failed = Some(error);
            nothing()
        })
    }

    fn read_duty(&self, asked: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let mut requests = Vec::with_capacity(asked.len());
        for (rank, message) in asked.iter().enumerate() {
            requests.push(Runs::decode(message).ok_or_else(|| self.garbled("read_all", rank))?.0);
        }
        let all = requests.iter().flat_map(Runs::iter);
        let Some(hull) = all.reduce(|hull, run| hull.start.min(run.start)..hull.end.max(run.end)) else {
            return Ok(vec![Vec::new(); asked.len()]);
        };
        let mut buffer = vec![0; (hull.end - hull.start) as usize];
        let outcome = self.device("read_all", self.handle.read_at(hull.start, &mut buffer));
        let count = outcome.map_err(|error| error.after(0))?;
        let there = &buffer[..count as usize];
        Ok(requests.iter().map(|runs| pick(runs, hull.start, there)).collect())
    }

    pub(crate) fn garbled(&self, operation: &'static str, rank: usize) -> Error {
        let detail = format!("rank {rank} sent something else; do all ranks run the same program?");
        self.error(crate::Kind::Communication, operation, detail).on_rank(rank)
    }
}

fn split<'a>(data: Result<&'a [u8]>, empty: &'a [u8]) -> (&'a [u8], Option<Error>) {
    match data {
        Ok(bytes) => (bytes, None),
        Err(error) => (empty, Some(error)),
    }
}

/// The data bytes of `window` that lie in a range of the file.
pub(crate) fn inside(pattern: &Pattern, window: &Range<u64>, range: &Range<u64>) -> Range<u64> {
    if range.is_empty() || window.is_empty() {
        return window.start..window.start;
    }
    let before = |offset: u64| {
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        pattern.bytes_before(offset).unwrap_or(0).clamp(window.start, window.end)
    };
    before(range.start)..before(range.end)
}

/// Sorted ranges without overlaps or seams.
pub(crate) fn merge(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// How many data bytes from the front of the window were got without a gap.
fn front(window: &Range<u64>, got: Vec<Range<u64>>) -> u64 {
    match merge(got).first() {
        Some(first) if first.start == window.start => first.end - window.start,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge() {
        assert_eq!(merge(vec![5..7, 0..2, 2..3, 6..9, 4..4]), [0..3, 5..9]);
    }

    #[test]
    fn the_front_ends_at_the_first_gap() {
        assert_eq!(front(&(10..20), vec![15..20, 10..12, 12..14]), 4);
        assert_eq!(front(&(10..20), vec![11..15, 15..20]), 0);
        assert_eq!(front(&(10..20), vec![]), 0);
    }
}
