//! How a program walks through time: which steps it will want next, from those it has asked for. Pure.

use std::collections::HashMap;
use std::hash::Hash;

/// Where the reads of one kind have been: the last place, and the way from the one before.
#[derive(Clone, Copy, Debug)]
struct ReadTrace {
    last: usize,
    stride: Option<i64>,
}

/// The walks of a reader, one for each kind of read (which stream, which part of it).
#[derive(Debug)]
pub(super) struct StepPredictor<K> {
    traces: HashMap<K, ReadTrace>,
}

impl<K> Default for StepPredictor<K> {
    fn default() -> Self {
        Self { traces: HashMap::new() }
    }
}

/// Kinds of reads that are remembered; a program that asks for ever new parts does not walk.
const MOST: usize = 1024;

impl<K: Clone + Eq + Hash> StepPredictor<K> {
    /// A read of this kind at a place; the places that are wanted next, nearest first, if it goes on as it has begun.
    ///
    /// The first step from one place to another is taken for a walk only if it is to a neighbour; any other has to be repeated.
    pub(super) fn predict_after(&mut self, kind: &K, place: usize) -> impl Iterator<Item = usize> + use<K> {
        let before = self.traces.get(kind).copied();
        let stride = before.map(|before| place as i64 - before.last as i64).filter(|stride| *stride != 0);
        if before.is_none() && self.traces.len() >= MOST {
            self.traces.clear();
        }
        self.traces.insert(kind.clone(), ReadTrace { last: place, stride });
        let repeated = before.is_some_and(|before| before.stride == stride);
        let walks = stride.filter(|stride| repeated || stride.abs() == 1);
        std::iter::successors(walks.map(|stride| (place, stride)), |(place, stride)| {
            Some((place.checked_add_signed(*stride as isize)?, *stride))
        })
        .skip(1)
        .map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: [usize; 0] = [];

    fn visit(walk: &mut StepPredictor<&'static str>, kind: &'static str, places: &[usize]) -> Vec<usize> {
        let mut next = Vec::new();
        for place in places {
            next = walk.predict_after(&kind, *place).take(3).collect();
        }
        next
    }

    #[test]
    fn steps_in_a_row_are_a_walk_forwards_and_backwards() {
        let mut walk = StepPredictor::default();
        assert_eq!(visit(&mut walk, "a", &[4]), NOWHERE, "one place is no walk");
        assert_eq!(visit(&mut walk, "a", &[5]), [6, 7, 8]);
        assert_eq!(visit(&mut walk, "a", &[4]), [3, 2, 1], "it turned");
        assert_eq!(visit(&mut walk, "a", &[3, 2, 1]), [0]);
    }

    #[test]
    fn a_stride_has_to_be_repeated_and_a_jump_ends_the_walk() {
        let mut walk = StepPredictor::default();
        assert_eq!(visit(&mut walk, "a", &[0, 10]), NOWHERE);
        assert_eq!(visit(&mut walk, "a", &[20]), [30, 40, 50]);
        assert_eq!(visit(&mut walk, "a", &[7]), NOWHERE);
        assert_eq!(visit(&mut walk, "a", &[7]), NOWHERE, "the same place again");
    }

    #[test]
    fn each_kind_walks_for_itself() {
        let mut walk = StepPredictor::default();
        visit(&mut walk, "a", &[0]);
        visit(&mut walk, "b", &[9]);
        assert_eq!(visit(&mut walk, "a", &[1]), [2, 3, 4]);
        assert_eq!(visit(&mut walk, "b", &[8]), [7, 6, 5]);
    }
}
