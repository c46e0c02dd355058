//! Parts of a file that a rank writes, or reads, again and again, in one piece: once its calls have cost as much as making the pages present,
//! they are mapped, and later accesses are copies that wait for no lock of the file.

use std::ops::Range;

use crate::plan::{self, Choice, Strategy};

/// What is watched of a file: the part around the last access.
pub(crate) const REGION: u64 = 256 << 20;
/// The part of it that is counted as one.
const GRANULE: u64 = 64 << 10;
/// How often a granule is accessed before it is mapped. To make a page writable costs about as much as to write it so often.
const OFTEN: u64 = 4;

/// Shorter accesses tell little about what a byte costs.
const TELLING: u64 = 16 << 10;
/// After so many accesses the dearer way is tried once more: the load may be another.
const PATIENCE: u32 = 100;

/// How often the granules of a region were accessed in one direction, and what that has cost.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// Where the region begins.
    start: u64,
    /// Bytes moved, for each granule; empty before the first access.
    moved: Vec<u64>,
    /// What a byte has cost lately, in nanoseconds: by a call, and copied.
    costs: [Option<f64>; 2],
    /// Accesses since the dearer way was tried.
    since: u32,
}

/// The ways, in the order of `costs`.
const WAYS: [Strategy; 2] = [Strategy::List, Strategy::Map];

impl Repeats {
    /// Counts an access to a part of the file; whether there have been many before.
    pub(crate) fn note(&mut self, part: &Range<u64>) -> bool {
        let start = part.start / REGION * REGION;
        if part.is_empty() || part.end > start + REGION {
            return false;
        }
        if self.moved.is_empty() || self.start != start {
            self.start = start;
            self.moved.clear();
            self.moved.resize((REGION / GRANULE) as usize, 0);
        }
        let (mut at, mut before) = (part.start, 0);
        while at < part.end {
            let granule = (at - start) / GRANULE;
            let end = part.end.min(start + (granule + 1) * GRANULE);
            let moved = &mut self.moved[granule as usize];
            before += *moved;
            *moved += end - at;
            at = end;
        }
        before >= OFTEN * GRANULE.max(part.end - part.start)
    }

    /// How a part that was accessed often is accessed now.
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

    /// Whether it is worth a look at the clock what accessing a part takes.
    pub(crate) fn is_telling(part: &Range<u64>) -> bool {
        part.end - part.start >= TELLING
    }

    /// Learns what an access took, in nanoseconds.
    pub(crate) fn learn(&mut self, strategy: Strategy, part: &Range<u64>, took: f64) {
        let cost = &mut self.costs[usize::from(strategy == Strategy::Map)];
        let seen = took / (part.end - part.start) as f64;
        *cost = Some(cost.map_or(seen, |cost| plan::learned(cost, seen)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_accessed_often_is_noticed_wherever_it_lies() {
        let mut repeats = Repeats::default();
        let mut times = |part: Range<u64>| (0..REGION).take_while(|_| !repeats.note(&part)).count() as u64;
        assert_eq!(times(0..GRANULE), OFTEN);
        assert_eq!(times(30 * GRANULE - 5..37 * GRANULE + 20_000), OFTEN);
        assert_eq!(times(REGION - 8..REGION), OFTEN * GRANULE / 8);
    }

    #[test]
    fn bytes_behind_one_another_are_no_repetition() {
        let mut repeats = Repeats::default();
        assert!((0..100_000).all(|step| !repeats.note(&(step * 64..step * 64 + 64))));
    }

    #[test]
    fn the_cheaper_way_is_taken_and_the_other_tried_again() {
        let part = 0..1_000_000;
        for (call, copy) in [(60e3, 20e3), (60e3, 900e3)] {
            let mut repeats = Repeats::default();
            let mut taken = [0; 2];
            repeats.learn(Strategy::List, &part, call);
            for _ in 0..1000 {
                let choice = repeats.choose(&part);
                let copies = choice.strategy == Strategy::Map;
                taken[usize::from(copies)] += 1;
                repeats.learn(choice.strategy, &part, if copies { copy } else { call });
            }
            let dearer = taken[usize::from(copy < call) ^ 1];
            assert!((5..15).contains(&dearer), "{taken:?} at {call} and {copy}");
        }
    }

    #[test]
    fn lost_cores_do_not_make_a_way_dearer_than_it_is() {
        let part = 0..1_000_000;
        let mut repeats = Repeats::default();
        let mut taken = [0; 2];
        repeats.learn(Strategy::List, &part, 60e3);
        for step in 0..1000 {
            let choice = repeats.choose(&part);
            let copies = choice.strategy == Strategy::Map;
            taken[usize::from(copies)] += 1;
            // Every second access waits for its core, and the copies longer than the calls.
            let lost = if step % 2 == 0 { 0.0 } else { 200e3 };
            repeats.learn(choice.strategy, &part, if copies { 30e3 + 2.0 * lost } else { 60e3 + lost });
        }
        assert!(taken[1] > 900, "{taken:?}");
    }

    #[test]
    fn another_region_begins_anew_and_what_lies_in_two_is_left_alone() {
        let mut repeats = Repeats::default();
        while !repeats.note(&(0..100_000)) {}
        assert!(!repeats.note(&(REGION..REGION + 100_000)));
        assert!(!repeats.note(&(0..100_000)));
        for _ in 0..2 * OFTEN {
            assert!(!repeats.note(&(REGION - 10..REGION + 10)));
            assert!(!repeats.note(&(5..5)));
        }
    }
}
