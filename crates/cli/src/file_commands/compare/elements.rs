//! Comparison of two arrays, element by element.

use aqueduct::object::Object;

use crate::array_file::{ElementType, NumberType, NumberValue};

/// The tolerance of a difference: `absolute + relative · min(|a|, |b|)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerance {
    pub(super) relative: f64,
    pub(super) absolute: f64,
}

/// The difference of two numbers: 0 if they are equal or both NaN; infinite if one of them is NaN or not finite.
pub(super) fn distance(one: f64, other: f64) -> f64 {
    let far = (one - other).abs();
    if !far.is_nan() {
        return far;
    }
    // A value is not finite.
    let same = one.is_nan() && other.is_nan() || one.total_cmp(&other).is_eq();
    if same { 0.0 } else { f64::INFINITY }
}

impl Tolerance {
    fn allows(self, apart: f64, one: f64, other: f64) -> bool {
        apart == 0.0
            || (apart.is_finite() && apart <= self.absolute + self.relative * one.abs().min(other.abs()))
    }
}

/// The element types of two arrays.
pub(super) enum ElementPair<'e> {
    /// Numbers of the same type.
    Same(NumberType),
    /// Elements of several numbers, or of different types.
    Any(&'e ElementType, &'e ElementType),
}

impl<'e> ElementPair<'e> {
    /// `None` if they do not have the same number of numbers.
    pub(super) fn new(one: &'e ElementType, other: &'e ElementType) -> Option<Self> {
        match (one.as_number(), other.as_number()) {
            (Some(one), Some(other)) if one == other => Some(Self::Same(one)),
            _ => {
                let counts = [one, other].map(|element| element.parts.as_ref().map(Vec::len));
                (counts[0].is_some() && counts[0] == counts[1]).then_some(Self::Any(one, other))
            }
        }
    }
}

/// Values of both sides and their differences.
#[derive(Default)]
pub(super) struct NumberBlock {
    pub(super) one: Vec<f64>,
    pub(super) other: Vec<f64>,
    pub(super) distances: Vec<f64>,
}

/// Values of types that `f64` represents exactly.
fn apart_of<T: Into<f64>>(one: T, other: T) -> f64 {
    distance(one.into(), other.into())
}

/// Fills a block with values of one type.
macro_rules! fill {
    ($block:expr, $one:expr, $other:expr, $type:ty, $apart:expr) => {{
        let (one, other) = ($one.as_chunks::<{ size_of::<$type>() }>().0, $other.as_chunks().0);
        $block.resize(one.len());
        let values = $block.one.iter_mut().zip(&mut $block.other).zip(&mut $block.distances);
        for ((one, other), ((mine, its), apart)) in one.iter().zip(other).zip(values) {
            let (one, other) = (<$type>::from_le_bytes(*one), <$type>::from_le_bytes(*other));
            (*mine, *its) = (one as f64, other as f64);
            *apart = $apart(one, other);
        }
    }};
}

impl NumberBlock {
    fn resize(&mut self, count: usize) {
        for list in [&mut self.one, &mut self.other, &mut self.distances] {
            list.resize(count, 0.0);
        }
    }

    /// Loads values that may differ.
    #[allow(clippy::cast_lossless, reason = "one expression for all types")]
    pub(super) fn fill(&mut self, pair: &ElementPair<'_>, one: &[u8], other: &[u8]) {
        match pair {
            ElementPair::Same(NumberType::I8) => fill!(self, one, other, i8, apart_of),
            ElementPair::Same(NumberType::I16) => fill!(self, one, other, i16, apart_of),
            ElementPair::Same(NumberType::I32) => fill!(self, one, other, i32, apart_of),
            ElementPair::Same(NumberType::U8 | NumberType::Char) => fill!(self, one, other, u8, apart_of),
            ElementPair::Same(NumberType::U16) => fill!(self, one, other, u16, apart_of),
            ElementPair::Same(NumberType::U32) => fill!(self, one, other, u32, apart_of),
            ElementPair::Same(NumberType::F32) => fill!(self, one, other, f32, apart_of),
            ElementPair::Same(NumberType::F64) => fill!(self, one, other, f64, distance),
            // Exactly, as integers.
            ElementPair::Same(NumberType::I64) => {
                fill!(self, one, other, i64, |a: i64, b| a.abs_diff(b) as f64);
            }
            ElementPair::Same(NumberType::U64) => {
                fill!(self, one, other, u64, |a: u64, b| a.abs_diff(b) as f64);
            }
            ElementPair::Any(first, second) => {
                let values = |element: &ElementType, bytes: &[u8]| element.numbers(bytes).unwrap_or_default();
                let (one, other): (Vec<NumberValue>, Vec<NumberValue>) =
                    (values(first, one), values(second, other));
                self.resize(one.len().min(other.len()));
                for (at, (one, other)) in one.iter().zip(&other).enumerate() {
                    (self.one[at], self.other[at]) = (one.nearest, other.nearest);
                    self.distances[at] = one.distance(*other);
                }
            }
        }
    }
}

/// Loads values of one type.
pub(super) fn load(number: NumberType, bytes: &[u8], values: &mut Vec<f64>) {
    values.clear();
    if number == NumberType::F64 {
        values.extend(bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)));
    } else {
        let numbers = ElementType::number(number).numbers(bytes).unwrap_or_default();
        values.extend(numbers.iter().map(|value| value.nearest));
    }
}

/// The result of the comparison of two arrays.
#[derive(Debug, Default, Object)]
pub(super) struct ElementDifferences {
    /// Numbers of values that were compared, that differ, and that differ by more than the tolerance.
    pub(super) values: u64,
    pub(super) differing: u64,
    pub(super) above: u64,
    pub(super) largest: Option<ElementDifference>,
    /// The first differences above the tolerance, and how many of them are kept.
    pub(super) first: Vec<ElementDifference>,
    kept: u64,
}

/// A pair of values that differ, and their place.
#[derive(Clone, Copy, Debug, PartialEq, Object)]
pub(super) struct ElementDifference {
    pub(super) distance: f64,
    /// The index of the value.
    pub(super) place: u64,
    pub(super) sides: [f64; 2],
}

impl ElementDifferences {
    /// Keeps this number of the first differences above the tolerance.
    pub(super) fn keeping(kept: u64) -> Self {
        Self { kept, ..Self::default() }
    }

    /// Adds values that are equal.
    pub(super) fn add_same(&mut self, count: u64) {
        self.values += count;
    }

    /// Adds the comparison of the values that follow.
    pub(super) fn append(&mut self, next: Self) {
        let moved = |difference: ElementDifference| ElementDifference {
            place: difference.place + self.values,
            ..difference
        };
        let left = usize::try_from(self.kept).unwrap_or(usize::MAX).saturating_sub(self.first.len());
        self.first.extend(next.first.into_iter().take(left).map(moved));
        let larger =
            next.largest.filter(|largest| self.largest.is_none_or(|known| largest.distance > known.distance));
        self.largest = larger.map(moved).or(self.largest);
        self.values += next.values;
        self.differing += next.differing;
        self.above += next.above;
    }

    pub(super) fn add(&mut self, block: &NumberBlock, tolerance: Tolerance) {
        for (at, apart) in block.distances.iter().enumerate().filter(|(_, apart)| **apart != 0.0) {
            let sides = [block.one[at], block.other[at]];
            self.differing += 1;
            let difference = ElementDifference { distance: *apart, place: self.values + at as u64, sides };
            if !tolerance.allows(*apart, sides[0], sides[1]) {
                self.above += 1;
                if (self.first.len() as u64) < self.kept {
                    self.first.push(difference);
                }
            }
            if self.largest.is_none_or(|largest| *apart > largest.distance) {
                self.largest = Some(difference);
            }
        }
        self.values += block.distances.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(one: &[f64], other: &[f64], tolerance: Tolerance) -> ElementDifferences {
        let bytes = |side: &[f64]| side.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
        let (mut block, mut found) = (NumberBlock::default(), ElementDifferences::default());
        block.fill(&ElementPair::Same(NumberType::F64), &bytes(one), &bytes(other));
        found.add(&block, tolerance);
        found
    }

    const EXACT: Tolerance = Tolerance { relative: 0.0, absolute: 0.0 };

    #[test]
    fn one_different_value_of_many_is_found() {
        let mut other = vec![1.0; 1_000_000];
        other[123_456] = 2.0;
        let found = compared(&vec![1.0; 1_000_000], &other, Tolerance { relative: 1e-2, absolute: 0.0 });
        assert_eq!((found.values, found.differing, found.above), (1_000_000, 1, 1));
        assert_eq!(
            found.largest,
            Some(ElementDifference { distance: 1.0, place: 123_456, sides: [1.0, 2.0] })
        );
    }

    #[test]
    fn nan_equals_nan_and_differs_from_every_number() {
        let nan = f64::NAN;
        assert_eq!(compared(&[nan, f64::INFINITY, 0.0], &[-nan, f64::INFINITY, -0.0], EXACT).differing, 0);
        let generous = Tolerance { relative: 1e300, absolute: 1e300 };
        for (one, other) in [(nan, 1.0), (1.0, nan), (f64::INFINITY, 1.0), (f64::INFINITY, f64::NEG_INFINITY)]
        {
            assert_eq!(compared(&[one], &[other], generous).above, 1, "{one} {other}");
        }
    }

    #[test]
    fn either_tolerance_allows_a_difference() {
        let allows = |relative, absolute| {
            compared(&[100.0, 0.0], &[101.0, 1.0], Tolerance { relative, absolute }).above
        };
        assert_eq!(
            (allows(0.0, 0.0), allows(0.01, 0.0), allows(0.0, 1.0), allows(0.0099, 0.0)),
            (2, 1, 0, 2)
        );
    }

    #[test]
    fn integers_are_compared_exactly() {
        let bytes = |value: u64| value.to_le_bytes();
        let mut block = NumberBlock::default();
        block.fill(&ElementPair::Same(NumberType::U64), &bytes(1 << 60), &bytes((1 << 60) + 1));
        assert_eq!(block.distances, [1.0]);
        let (one, other) = (ElementType::number(NumberType::U64), ElementType::number(NumberType::I64));
        block.fill(&ElementPair::new(&one, &other).unwrap(), &bytes(1 << 60), &bytes((1 << 60) + 1));
        assert_eq!(block.distances, [1.0]);
    }
}
