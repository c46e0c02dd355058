//! Parts of a file that a rank writes again and again, in one piece: once its calls have cost as much as making the pages writable, they are
//! mapped, and later writes are copies that wait for no lock of the file.

use std::ops::Range;

use crate::plan::{Choice, Strategy};

/// What is watched of a file: the part around the last write.
pub(crate) const REGION: u64 = 256 << 20;
/// The part of it that is counted as one.
const GRANULE: u64 = 64 << 10;
/// How often a granule is written before it is mapped. To make a page writable costs about as much as to write it so often.
const OFTEN: u64 = 4;

/// Writing shorter parts tells little about what a byte costs.
const TELLING: u64 = 16 << 10;
/// How much the last write counts.
const WEIGHT: f64 = 0.3;
/// A write that took more than so many times as long as those before it may have lost its core meanwhile.
const SURPRISE: f64 = 3.0;
/// After so many writes the dearer way is tried once more: the load may be another.
const PATIENCE: u32 = 100;

/// How often the granules of a region were written, and what that has cost.
#[derive(Debug, Default)]
pub(crate) struct Rewrites {
    /// Where the region begins.
    start: u64,
    /// Bytes written, for each granule; empty before the first write.
    written: Vec<u64>,
    /// What a byte has cost lately, in nanoseconds: by a call, and copied.
    costs: [Option<f64>; 2],
    /// Writes since the dearer way was tried.
    since: u32,
}

/// The ways, in the order of `costs`.
const WAYS: [Strategy; 2] = [Strategy::List, Strategy::Map];

impl Rewrites {
    /// Counts a write of a part of the file; whether it has been written often before.
    pub(crate) fn note(&mut self, part: &Range<u64>) -> bool {
        let start = part.start / REGION * REGION;
        if part.is_empty() || part.end > start + REGION {
            return false;
        }
        if self.written.is_empty() || self.start != start {
            self.start = start;
            self.written.clear();
            self.written.resize((REGION / GRANULE) as usize, 0);
        }
        let (mut at, mut before) = (part.start, 0);
        while at < part.end {
            let granule = (at - start) / GRANULE;
            let end = part.end.min(start + (granule + 1) * GRANULE);
            let written = &mut self.written[granule as usize];
            before += *written;
            *written += end - at;
            at = end;
        }
        before >= OFTEN * GRANULE.max(part.end - part.start)
    }

    /// How a part that was written often is written now.
    pub(crate) fn choose(&mut self, part: &Range<u64>) -> Choice {
        let [call, copy] = self.costs;
        let copies = call.is_none() || copy.is_none_or(|copy| Some(copy) <= call);
        self.since += 1;
        let again = self.since > PATIENCE && part.end - part.start >= TELLING;
        if again {
            self.since = 0;
        }
        self.prices(part)[usize::from(copies != again)]
    }

    /// Both ways and what they are estimated to take; not a number before they were tried.
    pub(crate) fn prices(&self, part: &Range<u64>) -> [Choice; 2] {
        let price =
            |place: usize| self.costs[place].map_or(f64::NAN, |cost| cost * (part.end - part.start) as f64);
        [0, 1].map(|place| Choice { strategy: WAYS[place], estimate: price(place) })
    }

    /// Whether it is worth a look at the clock what writing a part takes.
    pub(crate) fn is_telling(part: &Range<u64>) -> bool {
        part.end - part.start >= TELLING
    }

    /// Learns what a write took, in nanoseconds.
    pub(crate) fn learn(&mut self, strategy: Strategy, part: &Range<u64>, took: f64) {
        let cost = &mut self.costs[usize::from(strategy == Strategy::Map)];
        let seen = took / (part.end - part.start) as f64;
        *cost = Some(cost.map_or(seen, |cost| cost * (1.0 - WEIGHT) + seen.min(cost * SURPRISE) * WEIGHT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_often_is_noticed_wherever_it_lies() {
        let mut rewrites = Rewrites::default();
        let mut times = |part: Range<u64>| (0..REGION).take_while(|_| !rewrites.note(&part)).count() as u64;
        assert_eq!(times(0..GRANULE), OFTEN);
        assert_eq!(times(30 * GRANULE - 5..37 * GRANULE + 20_000), OFTEN);
        assert_eq!(times(REGION - 8..REGION), OFTEN * GRANULE / 8);
    }

    #[test]
    fn bytes_behind_one_another_are_not_written_again() {
        let mut rewrites = Rewrites::default();
        assert!((0..100_000).all(|step| !rewrites.note(&(step * 64..step * 64 + 64))));
    }

    #[test]
    fn the_cheaper_way_is_taken_and_the_other_tried_again() {
        let part = 0..1_000_000;
        for (call, copy) in [(60e3, 20e3), (60e3, 900e3)] {
            let mut rewrites = Rewrites::default();
            let mut taken = [0; 2];
            rewrites.learn(Strategy::List, &part, call);
            for _ in 0..1000 {
                let choice = rewrites.choose(&part);
                let copies = choice.strategy == Strategy::Map;
                taken[usize::from(copies)] += 1;
                rewrites.learn(choice.strategy, &part, if copies { copy } else { call });
            }
            let dearer = taken[usize::from(copy < call) ^ 1];
            assert!((5..15).contains(&dearer), "{taken:?} at {call} and {copy}");
        }
    }

    #[test]
    fn another_region_begins_anew_and_what_lies_in_two_is_left_alone() {
        let mut rewrites = Rewrites::default();
        while !rewrites.note(&(0..100_000)) {}
        assert!(!rewrites.note(&(REGION..REGION + 100_000)));
        assert!(!rewrites.note(&(0..100_000)));
        for _ in 0..2 * OFTEN {
            assert!(!rewrites.note(&(REGION - 10..REGION + 10)));
            assert!(!rewrites.note(&(5..5)));
        }
    }
}
