//! A test whether runs of many ranks cover a range exactly once, without a list of the runs.
//!
//! Give every offset a random number. A rank adds up, over its runs, the number of the end less that of the start. If the runs of all
//! ranks follow one another without gap or overlap, every inner border cancels and the sum is that of the range alone. Conversely,
//! borders cancel only if as many runs start as end at each of them, and because runs go forward that is one chain from the
//! start to the end. That two different borders have the same number, or that numbers cancel by chance, happens once in 2⁶⁴.

use std::ops::Range;

use crate::layout::{Pattern, Strip};

/// The sums of a rank's runs in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coverage {
    borders: u64,
    bytes: u64,
}

impl Coverage {
    /// Words that the ranks add up.
    pub(crate) const WORDS: usize = 2;

    /// Of the runs of a window of data bytes.
    pub(crate) fn of(pattern: &Pattern, window: Range<u64>) -> Self {
        Self::of_strips(pattern.strips(window))
    }

    /// Of the runs of strips.
    pub(crate) fn of_strips(strips: impl IntoIterator<Item = Strip>) -> Self {
        let mut coverage = Self::default();
        for strip in strips {
            coverage.bytes = coverage.bytes.wrapping_add(strip.size());
            let mut start = strip.offset as u64;
            for _ in 0..strip.count {
                coverage.borders =
                    coverage.borders.wrapping_add(border(start + strip.len)).wrapping_sub(border(start));
                start = start.wrapping_add_signed(strip.stride);
            }
        }
        coverage
    }

    /// Of a single run.
    pub(crate) fn of_run(run: &Range<u64>) -> Self {
        Self { borders: border(run.end).wrapping_sub(border(run.start)), bytes: run.end - run.start }
    }

    /// The words that the ranks add up.
    pub(crate) fn words(self) -> [u64; Self::WORDS] {
        [self.borders, self.bytes]
    }

    /// True if, by the sums of all ranks, `range` is covered exactly once.
    pub(crate) fn is_full(sums: &[u64; Self::WORDS], range: &Range<u64>) -> bool {
        range.is_empty() || *sums == Self::of_run(range).words()
    }
}

/// A number for an offset (the finalizer of splitmix64).
fn border(offset: u64) -> u64 {
    let mut z = offset.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Basic, Layout};
    use proptest::prelude::*;

    /// The sums of runs, one rank's each.
    fn sums(runs: &[Range<u64>]) -> [u64; 2] {
        let byte = Layout::from(Basic::Byte);
        let coverage = |run: &Range<u64>| {
            let pattern = byte.contiguous(run.end - run.start).unwrap().endless(run.start as i64).unwrap();
            Coverage::of(&pattern, 0..run.end - run.start).words()
        };
        let add = |a: [u64; 2], b: [u64; 2]| [a[0].wrapping_add(b[0]), a[1].wrapping_add(b[1])];
        runs.iter().map(coverage).fold([0, 0], add)
    }

    proptest! {
        #[test]
        fn the_sums_distinguish_exact_covers_from_all_others(
            runs in proptest::collection::vec((0u64..12, 1u64..8), 1..6),
        ) {
            let runs: Vec<Range<u64>> = runs.iter().map(|(start, len)| *start..start + len).collect();
            let range = runs.iter().map(|run| run.start).min().unwrap()..runs.iter().map(|run| run.end).max().unwrap();
            let exact = range.clone().all(|at| runs.iter().filter(|run| run.contains(&at)).count() == 1);
            prop_assert_eq!(Coverage::is_full(&sums(&runs), &range), exact);
        }
    }
}
