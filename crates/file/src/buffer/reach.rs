//! Which bytes an access may touch, in a few words: from the first to the last, and, where its runs repeat, which part of each repetition.

use std::ops::Range;

use super::batch::Hull;
use crate::layout::Strip;
use crate::view::View;

/// Strips that are looked at; an access with more of them is known by its hull alone.
const MOST: usize = 64;

/// Runs that repeat: all bytes lie in the `len` bytes from `start` on of each `period`. A period of 0 says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) period: u64,
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Lane {
    /// The lane of a strip of several runs; none where runs touch or go backwards.
    fn of(strip: &Strip) -> Option<Self> {
        let period =
            u64::try_from(strip.stride).ok().filter(|stride| strip.count > 1 && *stride > strip.len)?;
        Some(Self { period, start: strip.offset as u64 % period, len: strip.len })
    }

    /// Whether one run lies in it.
    fn holds(self, strip: &Strip) -> bool {
        let from = (strip.offset as u64 % self.period + self.period - self.start) % self.period;
        let same = strip.count == 1 || strip.stride.unsigned_abs() == self.period;
        same && from + strip.len <= self.len
    }

    fn misses(self, other: Self) -> bool {
        // On a circle of the period's length, each begins behind the end of the other.
        let ahead = |from: Self, to: Self| (to.start + from.period - from.start) % from.period;
        self.period > 0
            && self.period == other.period
            && ahead(self, other) >= self.len
            && ahead(other, self) >= other.len
    }
}

/// Which bytes an access may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) hull: Hull,
    pub(crate) lane: Lane,
}

impl Reach {
    pub(crate) const EVERYTHING: Self = Self::whole(Hull::EVERYTHING);

    /// All bytes from the first to the last.
    pub(crate) const fn whole(hull: Hull) -> Self {
        Self { hull, lane: Lane { period: 0, start: 0, len: 0 } }
    }

    /// Everything from its first byte on.
    pub(crate) fn onwards(&self) -> Self {
        Self::whole(Hull { end: u64::MAX, ..self.hull })
    }

    pub(crate) fn of(view: &View, window: &Range<u64>) -> Self {
        let hull = Hull::of(view, window);
        if hull.end - hull.start == window.end - window.start {
            return Self::whole(hull);
        }
        let strips: Vec<Strip> = view.pattern().strips(window.clone()).take(MOST + 1).collect();
        // A window may cut the first and the last run: those between tell the lane.
        let longest = strips.iter().filter(|strip| strip.count > 1).max_by_key(|strip| strip.len);
        let lane = longest.and_then(Lane::of).filter(|_| strips.len() <= MOST);
        let lane = lane.filter(|lane| strips.iter().all(|strip| lane.holds(strip)));
        Self { hull, lane: lane.unwrap_or_default() }
    }

    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.hull.meets(other.hull) && !self.lane.misses(other.lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Basic, Dimension, Layout, Order};

    fn element() -> Layout {
        Layout::from(Basic::F64)
    }

    /// Every third number, from the given one on.
    fn third(number: u64) -> View {
        View::new(8 * number, &element(), &element().resized(0, 24).unwrap()).unwrap()
    }

    #[test]
    fn ranks_that_take_turns_do_not_meet() {
        let reaches: Vec<Reach> = (0..3).map(|rank| Reach::of(&third(rank), &(4..804))).collect();
        for (one, reach) in reaches.iter().enumerate() {
            for (other, another) in reaches.iter().enumerate() {
                assert_eq!(reach.meets(another), one == other, "{one} {other}");
            }
        }
        let everything = Reach::of(&View::default(), &(100..200));
        assert!(reaches.iter().all(|reach| reach.meets(&everything) && everything.meets(reach)));
        let behind = Reach::of(&View::default(), &(100_000..100_200));
        assert!(!reaches[0].meets(&behind));
    }

    #[test]
    fn columns_of_a_matrix_do_not_meet() {
        let columns = |first: u64, count: u64| {
            let rows = Dimension { size: 10, subsize: 10, start: 0 };
            let dimensions = [rows, Dimension { size: 12, subsize: count, start: first }];
            let part = element().subarray(&dimensions, Order::C).unwrap();
            Reach::of(&View::new(0, &element(), &part).unwrap(), &(0..3 * 10 * count * 8))
        };
        assert!(!columns(0, 4).meets(&columns(4, 4)) && !columns(8, 4).meets(&columns(0, 8)));
        assert!(columns(0, 5).meets(&columns(4, 4)));
    }

    /// Against the bytes themselves: what does not meet has no byte in common.
    #[test]
    fn what_meets_in_a_byte_meets() {
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
                    let meets = Reach::of(one, &window).meets(&Reach::of(other, &another));
                    assert!(meets || !common, "{one:?} {window:?} {other:?} {another:?}");
                    apart += usize::from(!meets);
                }
            }
        }
        assert!(apart > 50, "{apart}");
    }
}
