//! Ranges of indices in each dimension, as in `0:3,:,5`. Pure.

use std::ops::Range;
use std::str::FromStr;

use anyhow::{Result, ensure};
use aqueduct::formats::Hyperslab;

use crate::array_file::{Array, ArrayPart};

/// The range of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexRange {
    /// One index.
    Single(u64),
    /// From an index to before another one.
    Between(u64, Option<u64>),
}

/// The ranges of the first dimensions; the others are whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexRanges(Vec<IndexRange>);

impl FromStr for IndexRanges {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let parsed = text.trim().parse::<u64>();
            parsed.map_err(|_| format!("{text:?} is not an index; expected ranges as in 0:3,:,5"))
        };
        let range = |text: &str| match text.split_once(':') {
            None => Ok(IndexRange::Single(number(text)?)),
            Some((from, until)) => {
                let from = if from.trim().is_empty() { 0 } else { number(from)? };
                let until = if until.trim().is_empty() { None } else { Some(number(until)?) };
                match until {
                    Some(until) if until < from => Err(format!("the range {text:?} ends before it begins")),
                    _ => Ok(IndexRange::Between(from, until)),
                }
            }
        };
        text.split(',').map(range).collect::<Result<_, _>>().map(Self)
    }
}

impl IndexRanges {
    /// Some rows.
    pub(super) fn of_rows(from: u64, count: Option<u64>) -> Self {
        Self(vec![IndexRange::Between(from, count.map(|count| from.saturating_add(count)))])
    }

    /// The box of an array. A range may end after the array, but not begin there.
    pub(super) fn of_array(&self, array: &Array) -> Result<ArrayBox> {
        let (name, dimensions) = (&array.name, array.shape.len());
        // Rows of a single value: there is one.
        let is_single = dimensions == 0 && self.0.len() == 1;
        ensure!(
            self.0.len() <= dimensions || is_single,
            "{name} has {dimensions} dimensions, but there are {} ranges",
            self.0.len()
        );
        let mut slab = Hyperslab::whole(&array.shape[..]);
        let mut kept = vec![true; dimensions];
        let mut is_empty = false;
        for (at, range) in self.0.iter().enumerate() {
            let length = if is_single { 1 } else { array.shape[at] };
            let (from, until) = match *range {
                IndexRange::Single(index) => (index, index.saturating_add(1)),
                IndexRange::Between(from, until) => (from, until.unwrap_or(length).min(length)),
            };
            let is_index = matches!(range, IndexRange::Single(_));
            let fits = if is_index { from < length } else { from <= length };
            ensure!(fits, "{name} has {length} rows in dimension {at}; there is no row {from}");
            if is_single {
                is_empty = until <= from;
                continue;
            }
            (slab.start[at], slab.count[at]) = (from, until.saturating_sub(from));
            kept[at] = !is_index;
        }
        Ok(ArrayBox { slab, kept, is_empty })
    }
}

/// A part of an array that is printed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ArrayBox {
    pub(super) slab: Hyperslab,
    /// Whether each dimension is one of the result; those with a single index are not.
    kept: Vec<bool>,
    /// Whether nothing of a single value is printed.
    is_empty: bool,
}

impl ArrayBox {
    /// The array that is printed: its shape and the names of its dimensions.
    pub(super) fn as_array(&self, array: &Array) -> Array {
        let keep = |at: &usize| self.kept[*at];
        let shape = (0..self.kept.len()).filter(keep).map(|at| self.slab.count[at]).collect();
        let dimensions = (0..array.dimensions.len().min(self.kept.len())).filter(keep);
        let dimensions = dimensions.map(|at| array.dimensions[at].clone()).collect();
        Array { shape, dimensions, ..array.clone() }
    }

    /// The parts of the box, in the order of their elements: each with its part of the array.
    pub(super) fn parts(&self, array: &Array) -> impl Iterator<Item = (ArrayPart, Hyperslab)> + use<> {
        let (inner, whole) = (self.as_array(array), self.clone());
        let parts = inner.parts().take(if self.is_empty { 0 } else { usize::MAX });
        parts.map(move |part| {
            let mut slab = whole.slab.clone();
            for (own, at) in (0..whole.kept.len()).filter(|at| whole.kept[*at]).enumerate() {
                slab.start[at] += part.slab.start[own];
                slab.count[at] = part.slab.count[own];
            }
            (part, slab)
        })
    }
}

/// The runs of adjacent elements of a box in an array of this shape.
pub(super) fn runs(shape: &[u64], slab: &Hyperslab) -> Vec<ArrayPart> {
    // Dimensions from here on are whole.
    let mut whole = shape.len();
    while whole > 0 && slab.start[whole - 1] == 0 && slab.count[whole - 1] == shape[whole - 1] {
        whole -= 1;
    }
    // The dimension in which a run is a range.
    let cut = whole.saturating_sub(1);
    let inner: u64 = shape.iter().skip(cut + 1).product();
    let outer: u64 = slab.count.iter().take(cut).product();
    let count = slab.count.get(cut).copied().unwrap_or(1);
    let run = |number: u64| {
        let (mut rest, mut first, mut weight) = (number, 0, 1);
        let mut part = slab.clone();
        for at in (0..shape.len()).rev() {
            let index = if at < cut {
                let index = slab.start[at] + rest % slab.count[at];
                rest /= slab.count[at];
                (part.start[at], part.count[at]) = (index, 1);
                index
            } else {
                slab.start[at]
            };
            first += index * weight;
            weight *= shape[at];
        }
        ArrayPart { slab: part, first, count: count * inner }
    };
    let runs = if slab.count.contains(&0) { 0 } else { outer };
    (0..runs).map(run).collect()
}

/// The rows of a box of an array of one dimension.
pub(super) fn rows(array: &Array, whole: &ArrayBox) -> Range<u64> {
    match (whole.slab.start.first(), whole.slab.count.first()) {
        (Some(start), Some(count)) => *start..start + count,
        _ if whole.is_empty => 0..0,
        _ => 0..array.rows(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array_file::{ElementType, NumberType};

    fn array(shape: &[u64]) -> Array {
        Array::new("a", ElementType::number(NumberType::U8), shape.to_vec())
    }

    /// All elements of a box, read by runs from an array whose elements are their own numbers.
    #[test]
    fn runs_cover_a_box_in_order() {
        let shape = [3, 4, 5];
        for (text, expected) in [
            (":", (0..60).collect::<Vec<u64>>()),
            ("1", (20..40).collect()),
            ("0:2,3", (15..20).chain(35..40).collect()),
            (":,:,4", (0..12).map(|row| 5 * row + 4).collect()),
            ("1:9,1:3,2:4", [27, 28, 32, 33, 47, 48, 52, 53].to_vec()),
            ("2,1:1", Vec::new()),
            ("0,0,0", vec![0]),
        ] {
            let whole = text.parse::<IndexRanges>().unwrap().of_array(&array(&shape)).unwrap();
            let found: Vec<u64> = whole
                .parts(&array(&shape))
                .flat_map(|(_, slab)| runs(&shape, &slab))
                .flat_map(|run| {
                    assert_eq!(run.slab.volume(), Some(run.count));
                    run.elements()
                })
                .collect();
            assert_eq!(found, expected, "{text}");
            assert_eq!(
                whole.as_array(&array(&shape)).shape.iter().product::<u64>(),
                expected.len() as u64,
                "{text}"
            );
        }
    }

    #[test]
    fn wrong_ranges_are_refused() {
        for text in ["", "a", "3:1", "1:2:3", "-1"] {
            assert!(text.parse::<IndexRanges>().is_err(), "{text}");
        }
        for text in ["3", "4:", "0,0,0", "0,2"] {
            assert!(text.parse::<IndexRanges>().unwrap().of_array(&array(&[3, 2])).is_err(), "{text}");
        }
        let single = IndexRanges::of_rows(0, None).of_array(&array(&[])).unwrap();
        assert_eq!(single.parts(&array(&[])).count(), 1);
        assert_eq!(
            IndexRanges::of_rows(0, Some(0)).of_array(&array(&[])).unwrap().parts(&array(&[])).count(),
            0
        );
    }
}
