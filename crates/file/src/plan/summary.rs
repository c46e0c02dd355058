//! What ranks bring to a collective access, summed up: a value of fixed size that two ranks merge into one, so that nobody ever sees a
//! list of all ranks.

use std::ops::Range;

use super::Coverage;
use crate::layout::{Pattern, Strip};

/// The accesses of some ranks, merged.
///
/// ```
/// use aqueduct_file::layout::{Basic, Layout};
/// use aqueduct_file::plan::Summary;
///
/// // Two ranks deal 4-byte pieces out in turn.
/// let piece = Layout::from(Basic::I32).resized(0, 8)?;
/// let mut both = Summary::of(&piece.endless(0)?, 0..400);
/// both.merge(&Summary::of(&piece.endless(4)?, 0..400));
/// assert_eq!((both.hull(), both.bytes()), (Some(0..800), 800));
/// assert!(both.interlocks() && !both.is_dense());
/// # Ok::<_, aqueduct_file::layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The first byte of the file that anyone accesses.
    start: u64,
    /// Behind the last one.
    end: u64,
    bytes: u64,
    flags: u64,
    /// The strips of all ranks, as long as each rank has one and they are alike: their runs are so far apart, and so many.
    stride: u64,
    count: u64,
    /// What the first runs of all strips are together, and where the last of them ends.
    width: u64,
    borders: u64,
    first_end: u64,
    /// Which plans of the past this access may repeat: those that all ranks know it by.
    known: u64,
    /// What the dearest rank is estimated to pay, in nanoseconds, if each works for itself and if all work together; 0 where nobody has asked.
    apart: u64,
    together: u64,
    /// How much further than a plan of the past the ranks' accesses lie: the least and the most.
    nearest: u64,
    farthest: u64,
}

/// A view shows a byte twice: a window of the file is no single slice of its data.
const TWICE: u64 = 1;
/// Some rank's bytes do not follow one another in the file.
const SPARSE: u64 = 2;
/// Some rank's bytes are more than one strip, or strips are not alike.
const LOOSE: u64 = 4;

impl Summary {
    /// Words that it takes.
    pub const WORDS: usize = 14;

    /// Of no rank: merging it changes nothing.
    pub const NOTHING: Self = Self {
        start: u64::MAX,
        end: 0,
        bytes: 0,
        flags: 0,
        stride: 0,
        count: 0,
        width: 0,
        borders: 0,
        first_end: 0,
        known: u64::MAX,
        apart: 0,
        together: 0,
        nearest: u64::MAX,
        farthest: 0,
    };

    /// Of one rank that accesses a window of data bytes.
    pub fn of(pattern: &Pattern, window: Range<u64>) -> Self {
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

    /// The same, for an access that may repeat these plans.
    #[must_use]
    pub fn known_as(mut self, plans: u64) -> Self {
        self.known = plans;
        self
    }

    /// The same, for an access that lies so much further than a plan of the past.
    #[must_use]
    pub fn further(mut self, by: i64) -> Self {
        (self.nearest, self.farthest) = (by as u64, by as u64);
        self
    }

    /// The same, at these prices in nanoseconds: each rank for itself, or all together.
    #[must_use]
    pub fn costing(mut self, apart: f64, together: f64) -> Self {
        (self.apart, self.together) = (apart as u64, together as u64);
        self
    }

    /// Adds the ranks of another summary: associative and commutative.
    pub fn merge(&mut self, other: &Self) {
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
        self.known &= other.known;
        self.apart = self.apart.max(other.apart);
        self.together = self.together.max(other.together);
        self.nearest = self.nearest.min(other.nearest);
        self.farthest = self.farthest.max(other.farthest);
    }

    /// As words that ranks send one another.
    pub fn words(&self) -> [u64; Self::WORDS] {
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
            known,
            apart,
            together,
            nearest,
            farthest,
        } = *self;
        [
            start, end, bytes, flags, stride, count, width, borders, first_end, known, apart, together,
            nearest, farthest,
        ]
    }

    /// From such words.
    pub fn from_words(words: &[u64; Self::WORDS]) -> Self {
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
            known,
            apart,
            together,
            nearest,
            farthest,
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
            known,
            apart,
            together,
            nearest,
            farthest,
        }
    }

    /// The bytes of the file from the first to the last that any rank accesses.
    pub fn hull(&self) -> Option<Range<u64>> {
        (self.bytes > 0).then_some(self.start..self.end)
    }

    /// How many bytes the ranks access together; those that several access count several times.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether some view shows a byte twice.
    pub fn shows_twice(&self) -> bool {
        self.flags & TWICE != 0
    }

    /// Whether the bytes of each rank follow one another in the file.
    pub fn is_dense(&self) -> bool {
        self.flags & SPARSE == 0
    }

    /// Whether the ranks cover everything from the first to the last byte exactly once, told by arithmetic: each has one strip, of equally many
    /// runs, equally far apart, side by side.
    pub fn interlocks(&self) -> bool {
        let alike = self.flags & LOOSE == 0 && self.count > 0;
        let chained = Coverage::is_full(&[self.borders, self.width], &(self.start..self.first_end));
        alike && chained && (self.count == 1 || self.stride == self.width)
    }

    /// Whether working together is estimated to be cheaper than each for itself; none where nobody has asked.
    pub fn prefers_together(&self) -> Option<bool> {
        (self.apart.max(self.together) > 0).then_some(self.together < self.apart)
    }

    /// How much further than a plan of the past all ranks' accesses lie, if it is the same for all.
    pub fn shift(&self) -> Option<i64> {
        (self.nearest == self.farthest).then_some(self.nearest as i64)
    }

    /// The plans of the past that all ranks know this access by, as bits.
    pub fn known(&self) -> u64 {
        self.known
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
    fn of_strip(offset: i64, len: u64, stride: i64, count: u64) -> Summary {
        let strip = Strip { offset, len, stride, count };
        let span = strip.span();
        let sum = Summary {
            start: span.start as u64,
            end: span.end as u64,
            bytes: strip.size(),
            flags: 0,
            ..Summary::NOTHING
        };
        sum.with_strip(&strip)
    }

    fn merged(parts: &[Summary]) -> Summary {
        let mut all = Summary::NOTHING;
        parts.iter().for_each(|part| all.merge(part));
        all
    }

    #[test]
    fn strips_interlock() {
        let locks = |parts: &[Summary]| merged(parts).interlocks();
        assert!(locks(&[of_strip(4, 4, 12, 9), of_strip(0, 4, 12, 9), of_strip(8, 4, 12, 9)]));
        assert!(locks(&[of_strip(0, 10, 0, 1), of_strip(10, 3, 7, 1), Summary::NOTHING]));
        assert!(!locks(&[of_strip(0, 4, 12, 9), of_strip(8, 4, 12, 9)]));
        assert!(!locks(&[of_strip(0, 4, 8, 9), of_strip(4, 4, 8, 8)]));
        assert!(!locks(&[of_strip(0, 4, 8, 9), Summary { flags: LOOSE, ..of_strip(4, 4, 8, 9) }]));
        assert!(!locks(&[of_strip(0, 4, 0, 1), of_strip(2, 4, 0, 1)]));
        assert!(!locks(&[Summary::NOTHING]));
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
        ) -> Summary {
            match kind {
                0 => Summary::NOTHING,
                1 => Summary { flags, ..of_strip(offset, len, stride, count) },
                _ => of_strip(offset, len, stride, count).known_as(known),
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
            prop_assert_eq!(Summary::from_words(&halves.words()), halves);
        }

        /// Whatever a summary says to interlock covers every byte once.
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
            let hull = summary.hull().unwrap();
            let exact = (hull.start as i64..hull.end as i64).all(|at| covers(at) == 1);
            prop_assert!(!summary.interlocks() || exact);
        }
    }
}
