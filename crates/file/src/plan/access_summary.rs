//! The summary of a collective access: a value of fixed size that ranks merge pairwise, so that no rank ever sees a list of all ranks.

use std::ops::Range;

use super::Coverage;
use crate::layout::{Pattern, Strip};

/// The accesses of some ranks, merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessSummary {
    /// The first byte of the file that any rank accesses.
    start: u64,
    /// The end of the last one.
    end: u64,
    bytes: u64,
    flags: u64,
    /// The strips of all ranks, as long as each rank has one and they are alike: their runs are so far apart, and so many.
    stride: u64,
    count: u64,
    /// The sums of the first runs of all strips, and the end of the last of them.
    width: u64,
    borders: u64,
    first_end: u64,
    /// The cached plans that this access may repeat, as bits: those that are candidates on all ranks.
    candidates: u64,
    /// The highest estimated cost of any rank in nanoseconds, with independent and with two-phase I/O; 0 if no rank has estimated it.
    independent_cost: u64,
    two_phase_cost: u64,
    /// The smallest and the largest distance of the ranks' accesses from a cached plan.
    smallest_shift: u64,
    largest_shift: u64,
}

/// A view shows a byte twice: a window of the file is no single slice of its data.
const TWICE: u64 = 1;
/// Some rank's bytes do not follow one another in the file.
const SPARSE: u64 = 2;
/// Some rank's bytes are more than one strip, or strips are not alike.
const LOOSE: u64 = 4;

impl AccessSummary {
    /// Its size in words.
    pub(crate) const WORDS: usize = 14;

    /// The summary of no rank: merging it changes nothing.
    pub(crate) const NOTHING: Self = Self {
        start: u64::MAX,
        end: 0,
        bytes: 0,
        flags: 0,
        stride: 0,
        count: 0,
        width: 0,
        borders: 0,
        first_end: 0,
        candidates: u64::MAX,
        independent_cost: 0,
        two_phase_cost: 0,
        smallest_shift: u64::MAX,
        largest_shift: 0,
    };

    /// Of one rank that accesses a window of data bytes.
    pub(crate) fn of(pattern: &Pattern, window: Range<u64>) -> Self {
        let twice = if pattern.is_ascending() { 0 } else { TWICE };
        if window.is_empty() {
            return Self { flags: twice, ..Self::NOTHING };
        }
        let span = pattern.span(window.clone());
        let bytes = window.end - window.start;
        let sparse = if (span.end - span.start) as u64 == bytes { 0 } else { SPARSE };
        let loose = Self {
            start: span.start as u64,
            end: span.end as u64,
            bytes,
            flags: twice | sparse | LOOSE,
            ..Self::NOTHING
        };
        match single_strip(pattern, &window) {
            Some(strip) => Self { flags: twice | sparse, ..loose }.with_strip(&strip),
            None => loose,
        }
    }

    fn with_strip(self, strip: &Strip) -> Self {
        let first = strip.offset as u64..strip.offset as u64 + strip.len;
        let [borders, width] = Coverage::of_run(&first).words();
        // The stride of a single run says nothing.
        let stride = if strip.count == 1 { 0 } else { strip.stride as u64 };
        Self { stride, count: strip.count, width, borders, first_end: first.end, ..self }
    }

    /// The same, for an access that may repeat these cached plans.
    #[must_use]
    pub(crate) fn with_candidates(mut self, plans: u64) -> Self {
        self.candidates = plans;
        self
    }

    /// The same, for an access so many bytes after a cached plan.
    #[must_use]
    pub(crate) fn with_shift(mut self, by: i64) -> Self {
        (self.smallest_shift, self.largest_shift) = (by as u64, by as u64);
        self
    }

    /// The same, with estimated costs in nanoseconds.
    #[must_use]
    pub(crate) fn with_costs(mut self, independent: f64, two_phase: f64) -> Self {
        (self.independent_cost, self.two_phase_cost) = (independent as u64, two_phase as u64);
        self
    }

    /// Adds the ranks of another summary: associative and commutative.
    pub(crate) fn merge(&mut self, other: &Self) {
        let mine = (self.stride, self.count);
        let theirs = (other.stride, other.count);
        self.flags |= other.flags;
        if self.count == 0 {
            (self.stride, self.count) = theirs;
        } else if other.count != 0 && mine != theirs {
            self.flags |= LOOSE;
            (self.stride, self.count) = mine.min(theirs);
        }
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.width = self.width.wrapping_add(other.width);
        self.borders = self.borders.wrapping_add(other.borders);
        self.first_end = self.first_end.max(other.first_end);
        self.candidates &= other.candidates;
        self.independent_cost = self.independent_cost.max(other.independent_cost);
        self.two_phase_cost = self.two_phase_cost.max(other.two_phase_cost);
        self.smallest_shift = self.smallest_shift.min(other.smallest_shift);
        self.largest_shift = self.largest_shift.max(other.largest_shift);
    }

    /// As words of a message.
    pub(crate) fn words(&self) -> [u64; Self::WORDS] {
        let Self {
            start,
            end,
            bytes,
            flags,
            stride,
            count,
            width,
            borders,
            first_end,
            candidates,
            independent_cost,
            two_phase_cost,
            smallest_shift,
            largest_shift,
        } = *self;
        [
            start,
            end,
            bytes,
            flags,
            stride,
            count,
            width,
            borders,
            first_end,
            candidates,
            independent_cost,
            two_phase_cost,
            smallest_shift,
            largest_shift,
        ]
    }

    /// From such words.
    pub(crate) fn from_words(words: &[u64; Self::WORDS]) -> Self {
        let [
            start,
            end,
            bytes,
            flags,
            stride,
            count,
            width,
            borders,
            first_end,
            candidates,
            independent_cost,
            two_phase_cost,
            smallest_shift,
            largest_shift,
        ] = *words;
        Self {
            start,
            end,
            bytes,
            flags,
            stride,
            count,
            width,
            borders,
            first_end,
            candidates,
            independent_cost,
            two_phase_cost,
            smallest_shift,
            largest_shift,
        }
    }

    /// The bytes of the file from the first to the last that any rank accesses.
    pub(crate) fn span(&self) -> Option<Range<u64>> {
        (self.bytes > 0).then_some(self.start..self.end)
    }

    /// The number of bytes that all ranks access; a byte that several ranks access counts several times.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether some view shows a byte twice.
    pub(crate) fn shows_twice(&self) -> bool {
        self.flags & TWICE != 0
    }

    /// Whether the bytes of each rank follow one another in the file.
    pub(crate) fn is_dense(&self) -> bool {
        self.flags & SPARSE == 0
    }

    /// True if the ranks cover everything from the first to the last byte exactly once, found by arithmetic: each has one strip, of equally many
    /// runs, equally far apart, side by side.
    pub(crate) fn interlocks(&self) -> bool {
        let alike = self.flags & LOOSE == 0 && self.count > 0;
        let chained = Coverage::is_full(&[self.borders, self.width], &(self.start..self.first_end));
        alike && chained && (self.count == 1 || self.stride == self.width)
    }

    /// True if two-phase I/O is estimated to be cheaper than independent I/O; none if no rank has estimated it.
    pub(crate) fn prefers_two_phase(&self) -> Option<bool> {
        let estimated = self.independent_cost.max(self.two_phase_cost) > 0;
        estimated.then_some(self.two_phase_cost < self.independent_cost)
    }

    /// The distance of all ranks' accesses from a cached plan, if it is the same for all.
    pub(crate) fn shift(&self) -> Option<i64> {
        (self.smallest_shift == self.largest_shift).then_some(self.smallest_shift as i64)
    }

    /// The cached plans that are candidates on all ranks, as bits.
    pub(crate) fn candidates(&self) -> u64 {
        self.candidates
    }
}

/// The one strip that a window is, if it is.
fn single_strip(pattern: &Pattern, window: &Range<u64>) -> Option<Strip> {
    let strip = pattern.strips(window.clone()).next()?;
    (strip.size() == window.end - window.start).then_some(strip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Of one rank with this strip.
    fn of_strip(offset: i64, len: u64, stride: i64, count: u64) -> AccessSummary {
        let strip = Strip { offset, len, stride, count };
        let span = strip.span();
        let sum = AccessSummary {
            start: span.start as u64,
            end: span.end as u64,
            bytes: strip.size(),
            flags: 0,
            ..AccessSummary::NOTHING
        };
        sum.with_strip(&strip)
    }

    fn merged(parts: &[AccessSummary]) -> AccessSummary {
        let mut all = AccessSummary::NOTHING;
        parts.iter().for_each(|part| all.merge(part));
        all
    }

    #[test]
    fn strips_interlock() {
        let locks = |parts: &[AccessSummary]| merged(parts).interlocks();
        assert!(locks(&[of_strip(4, 4, 12, 9), of_strip(0, 4, 12, 9), of_strip(8, 4, 12, 9)]));
        assert!(locks(&[of_strip(0, 10, 0, 1), of_strip(10, 3, 7, 1), AccessSummary::NOTHING]));
        assert!(!locks(&[of_strip(0, 4, 12, 9), of_strip(8, 4, 12, 9)]));
        assert!(!locks(&[of_strip(0, 4, 8, 9), of_strip(4, 4, 8, 8)]));
        assert!(!locks(&[of_strip(0, 4, 8, 9), AccessSummary { flags: LOOSE, ..of_strip(4, 4, 8, 9) }]));
        assert!(!locks(&[of_strip(0, 4, 0, 1), of_strip(2, 4, 0, 1)]));
        assert!(!locks(&[AccessSummary::NOTHING]));
    }

    prop_compose! {
        fn any_summary()(
            kind in 0u8..4,
            offset in 0i64..40,
            len in 1u64..6,
            stride in 6i64..9,
            count in 1u64..4,
            known in any::<u64>(),
            flags in 0u64..8,
        ) -> AccessSummary {
            match kind {
                0 => AccessSummary::NOTHING,
                1 => AccessSummary { flags, ..of_strip(offset, len, stride, count) },
                _ => of_strip(offset, len, stride, count).with_candidates(known),
            }
        }
    }

    proptest! {
        #[test]
        fn merging_knows_no_order(parts in proptest::collection::vec(any_summary(), 1..8), cut in 0usize..8) {
            let cut = cut.min(parts.len());
            let mut halves = merged(&parts[cut..]);
            halves.merge(&merged(&parts[..cut]));
            prop_assert_eq!(halves, merged(&parts));
            prop_assert_eq!(AccessSummary::from_words(&halves.words()), halves);
        }

        /// A summary that interlocks covers every byte once.
        #[test]
        fn what_interlocks_covers_exactly(
            parts in proptest::collection::vec((0i64..4, 1u64..5, 1u64..3), 1..5),
            unit in 1i64..4,
        ) {
            let total: i64 = parts.iter().map(|(_, len, _)| *len as i64).sum();
            let mut offset = 0;
            let strips: Vec<Strip> = parts.iter().map(|(gap, len, count)| {
                let strip = Strip { offset: offset + gap / unit, len: *len, stride: total, count: *count };
                offset += *len as i64;
                strip
            }).collect();
            let of = |strip: &Strip| of_strip(strip.offset, strip.len, strip.stride, strip.count);
            let summary = merged(&strips.iter().map(of).collect::<Vec<_>>());
            let covers = |at: i64| strips.iter().flat_map(|strip| {
                (0..strip.count as i64).map(|run| strip.offset + run * strip.stride..strip.offset + run * strip.stride + strip.len as i64)
            }).filter(|run| run.contains(&at)).count();
            let hull = summary.span().unwrap();
            let exact = (hull.start as i64..hull.end as i64).all(|at| covers(at) == 1);
            prop_assert!(!summary.interlocks() || exact);
        }
    }
}
