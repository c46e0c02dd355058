//! The footprint of an access: its span in the file and, if its runs repeat, which part of each period they use.

use std::ops::Range;

use crate::layout::Strip;
use crate::view::View;

/// The span of accesses, from the first to the last byte; empty if there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSpan {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl ByteSpan {
    pub(crate) const EMPTY: Self = Self { start: u64::MAX, end: 0 };
    pub(crate) const EVERYTHING: Self = Self { start: 0, end: u64::MAX };

    pub(crate) fn of(view: &View, window: &Range<u64>) -> Self {
        let Range { start, end } = view.pattern().file_span(window);
        Self { start, end }
    }

    #[must_use]
    pub(crate) fn with(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// An access with more strips is known by its span alone.
const MOST_STRIPS: usize = 64;

/// Periodic runs: all bytes lie in the `len` bytes from `start` on of each `period`. A period of 0 means that nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StridePhase {
    pub(crate) period: u64,
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl StridePhase {
    /// The phase of a strip of several runs; none if runs touch or go backwards.
    fn of(strip: &Strip) -> Option<Self> {
        let period =
            u64::try_from(strip.stride).ok().filter(|stride| strip.count > 1 && *stride > strip.len)?;
        Some(Self { period, start: strip.offset as u64 % period, len: strip.len })
    }

    /// True if the runs of a strip lie in it.
    fn contains(self, strip: &Strip) -> bool {
        let from = (strip.offset as u64 % self.period + self.period - self.start) % self.period;
        let same = strip.count == 1 || strip.stride.unsigned_abs() == self.period;
        same && from + strip.len <= self.len
    }

    fn is_disjoint(self, other: Self) -> bool {
        // On a circle with the length of the period, each begins after the end of the other.
        let ahead = |from: Self, to: Self| (to.start + from.period - from.start) % from.period;
        self.period > 0
            && self.period == other.period
            && ahead(self, other) >= self.len
            && ahead(other, self) >= other.len
    }
}

/// The bytes that an access may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footprint {
    pub(crate) span: ByteSpan,
    pub(crate) phase: StridePhase,
}

impl Footprint {
    pub(crate) const EVERYTHING: Self = Self::whole(ByteSpan::EVERYTHING);

    /// All bytes from the first to the last.
    pub(crate) const fn whole(span: ByteSpan) -> Self {
        Self { span, phase: StridePhase { period: 0, start: 0, len: 0 } }
    }

    /// Everything from its first byte on.
    pub(crate) fn onwards(&self) -> Self {
        Self::whole(ByteSpan { end: u64::MAX, ..self.span })
    }

    pub(crate) fn of(view: &View, window: &Range<u64>) -> Self {
        let span = ByteSpan::of(view, window);
        if span.end - span.start == window.end - window.start {
            return Self::whole(span);
        }
        let strips: Vec<Strip> = view.pattern().strips(window.clone()).take(MOST_STRIPS + 1).collect();
        // A window may cut the first and the last run: those between give the phase.
        let longest = strips.iter().filter(|strip| strip.count > 1).max_by_key(|strip| strip.len);
        let phase = longest.and_then(StridePhase::of).filter(|_| strips.len() <= MOST_STRIPS);
        let phase = phase.filter(|phase| strips.iter().all(|strip| phase.contains(strip)));
        Self { span, phase: phase.unwrap_or_default() }
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.span.overlaps(other.span) && !self.phase.is_disjoint(other.phase)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hyperslab::Hyperslab;
    use crate::layout::{Basic, Layout, Order};

    fn element() -> Layout {
        Layout::from(Basic::F64)
    }

    /// Every third number, from the given one on.
    fn third(number: u64) -> View {
        View::new(8 * number, &element(), &element().resized(0, 24).unwrap()).unwrap()
    }

    #[test]
    fn interleaved_ranks_do_not_overlap() {
        let footprints: Vec<Footprint> = (0..3).map(|rank| Footprint::of(&third(rank), &(4..804))).collect();
        for (one, footprint) in footprints.iter().enumerate() {
            for (other, another) in footprints.iter().enumerate() {
                assert_eq!(footprint.overlaps(another), one == other, "{one} {other}");
            }
        }
        let everything = Footprint::of(&View::default(), &(100..200));
        assert!(
            footprints
                .iter()
                .all(|footprint| footprint.overlaps(&everything) && everything.overlaps(footprint))
        );
        let after = Footprint::of(&View::default(), &(100_000..100_200));
        assert!(!footprints[0].overlaps(&after));
    }

    #[test]
    fn columns_of_a_matrix_do_not_overlap() {
        let columns = |first: u64, count: u64| {
            let part = Hyperslab::new([0, first], [10, count]);
            let part = element().subarray(&[10, 12], &part, Order::C).unwrap();
            Footprint::of(&View::new(0, &element(), &part).unwrap(), &(0..3 * 10 * count * 8))
        };
        assert!(!columns(0, 4).overlaps(&columns(4, 4)) && !columns(8, 4).overlaps(&columns(0, 8)));
        assert!(columns(0, 5).overlaps(&columns(4, 4)));
    }

    /// Compared with the bytes: footprints that do not overlap have no byte in common.
    #[test]
    fn accesses_with_a_common_byte_overlap() {
        let views: Vec<View> = (1..5u64)
            .flat_map(|len| {
                (0..6u64).map(move |start| {
                    let run = Layout::bytes(len).unwrap();
                    let vector = run.resized(0, 8).unwrap().contiguous(3).unwrap().resized(0, 29).unwrap();
                    View::new(start, &Layout::from(Basic::Byte), &vector).unwrap()
                })
            })
            .collect();
        let bytes = |view: &View, window: &Range<u64>| -> Vec<i64> {
            view.pattern()
                .runs(window.clone())
                .flat_map(|run| run.offset..run.offset + run.len as i64)
                .collect()
        };
        let mut apart = 0;
        for one in &views {
            for other in &views {
                for (window, another) in [(0..9, 0..9), (1..3, 0..20), (2..7, 5..6)] {
                    let (mine, theirs) = (bytes(one, &window), bytes(other, &another));
                    let common = mine.iter().any(|byte| theirs.contains(byte));
                    let meets = Footprint::of(one, &window).overlaps(&Footprint::of(other, &another));
                    assert!(meets || !common, "{one:?} {window:?} {other:?} {another:?}");
                    apart += usize::from(!meets);
                }
            }
        }
        assert!(apart > 50, "{apart}");
    }
}
