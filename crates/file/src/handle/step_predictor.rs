//! Prediction of the next reads of a program from those so far. Pure.

use std::collections::HashMap;
use std::hash::Hash;

/// The reads of one kind: the last place, and the distance from the one before.
#[derive(Clone, Copy, Debug)]
struct ReadTrace {
    last: u64,
    stride: Option<i64>,
}

/// The sequences of a reader, one for each kind of read (stream and part).
#[derive(Debug)]
pub(super) struct StepPredictor<K> {
    traces: HashMap<K, ReadTrace>,
}

impl<K> Default for StepPredictor<K> {
    fn default() -> Self {
        Self { traces: HashMap::new() }
    }
}

/// The number of kinds that are remembered; a program that reads ever new parts has no sequence.
const MOST: usize = 1024;

impl<K: Clone + Eq + Hash> StepPredictor<K> {
    /// Records a read of this kind at a place; returns the places that are expected next, nearest first, if the
    /// sequence continues.
    ///
    /// The first distance is taken as a sequence only if it is that of adjacent places, `unit`; any other has to be repeated.
    pub(super) fn predict_after(
        &mut self,
        kind: &K,
        place: u64,
        unit: u64,
    ) -> impl Iterator<Item = u64> + use<K> {
        let before = self.traces.get(kind).copied();
        let stride = before
            .map(|before| (place as i64).wrapping_sub(before.last as i64))
            .filter(|stride| *stride != 0);
        if before.is_none() && self.traces.len() >= MOST {
            self.traces.clear();
        }
        self.traces.insert(kind.clone(), ReadTrace { last: place, stride });
        let repeated = before.is_some_and(|before| before.stride == stride);
        let walks = stride.filter(|stride| repeated || stride.unsigned_abs() == unit);
        std::iter::successors(walks.map(|stride| (place, stride)), |(place, stride)| {
            Some((place.checked_add_signed(*stride)?, *stride))
        })
        .skip(1)
        .map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: [u64; 0] = [];

    fn visit(walk: &mut StepPredictor<&'static str>, kind: &'static str, places: &[u64]) -> Vec<u64> {
        let mut next = Vec::new();
        for place in places {
            next = walk.predict_after(&kind, *place, 1).take(3).collect();
        }
        next
    }

    #[test]
    fn consecutive_steps_are_a_sequence_in_both_directions() {
        let mut walk = StepPredictor::default();
        assert_eq!(visit(&mut walk, "a", &[4]), NOWHERE, "one place is no walk");
        assert_eq!(visit(&mut walk, "a", &[5]), [6, 7, 8]);
        assert_eq!(visit(&mut walk, "a", &[4]), [3, 2, 1], "it turned");
        assert_eq!(visit(&mut walk, "a", &[3, 2, 1]), [0]);
    }

    #[test]
    fn a_stride_has_to_be_repeated_and_a_jump_ends_the_sequence() {
        let mut walk = StepPredictor::default();
        assert_eq!(visit(&mut walk, "a", &[0, 10]), NOWHERE);
        assert_eq!(visit(&mut walk, "a", &[20]), [30, 40, 50]);
        assert_eq!(visit(&mut walk, "a", &[7]), NOWHERE);
        assert_eq!(visit(&mut walk, "a", &[7]), NOWHERE, "the same place again");
    }

    #[test]
    fn each_kind_has_its_own_sequence() {
        let mut walk = StepPredictor::default();
        visit(&mut walk, "a", &[0]);
        visit(&mut walk, "b", &[9]);
        assert_eq!(visit(&mut walk, "a", &[1]), [2, 3, 4]);
        assert_eq!(visit(&mut walk, "b", &[8]), [7, 6, 5]);
    }
}
