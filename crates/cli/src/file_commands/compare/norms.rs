//! Norms of values, accumulated piece by piece.

use aqueduct::object::Object;

/// The number of independent sums, so that the processor adds several values at once.
const LANES: usize = 4;
/// Values up to this one, and from its inverse on, have squares that neither overflow nor underflow.
const LARGE: f64 = 1e140;
/// The factor for larger or smaller values: a power of two, so that the scaling is exact.
const SCALE: f64 = f64::from_bits((1023 + 600) << 52);

/// The Frobenius norm and the infinity norm (the greatest sum of absolute values of a row) of the finite values so far. Those of adjacent
/// pieces of a step can be merged.
#[derive(Clone, Debug, Default, Object)]
struct NormAccumulator {
    /// The number of values before this piece in its step, and the number of its values.
    before: u64,
    values: u64,
    /// Sums of squares: of usual values, of very large values divided by the scale, of very small values multiplied by it.
    squares: [f64; 3],
    /// The greatest sum of a row that begins and ends in the piece.
    widest: f64,
    /// The sum of the values up to the end of the first row, and of those of the current row after it.
    first_row: f64,
    row: f64,
    /// Whether a row has ended.
    has_row_end: bool,
    /// Whether a value is not finite.
    infinite: bool,
}

impl NormAccumulator {
    /// Adds zeros, in rows of `columns` values.
    fn skip(&mut self, count: u64, columns: u64) {
        if count >= columns - (self.before + self.values) % columns {
            self.end_row();
        }
        self.values += count;
    }

    /// Adds a piece of a row.
    fn add_piece(&mut self, count: u64, piece: &RowSegmentSums, columns: u64, strict: bool) {
        self.infinite |= strict && !piece.is_finite;
        let class = match piece.greatest {
            large if large > LARGE => 1,
            small if small < 1.0 / LARGE => 2,
            _ => 0,
        };
        self.squares[class] += piece.squares;
        *(if self.has_row_end { &mut self.row } else { &mut self.first_row }) += piece.absolute;
        self.values += count;
        if (self.before + self.values).is_multiple_of(columns) {
            self.end_row();
        }
    }

    fn end_row(&mut self) {
        self.widest = self.widest.max(self.row);
        (self.row, self.has_row_end) = (0.0, true);
    }

    /// Adds the piece that follows.
    fn merge(&mut self, next: &Self) {
        *(if self.has_row_end { &mut self.row } else { &mut self.first_row }) += next.first_row;
        if next.has_row_end {
            self.end_row();
            (self.widest, self.row) = (self.widest.max(next.widest), next.row);
        }
        self.squares.iter_mut().zip(next.squares).for_each(|(sum, more)| *sum += more);
        self.values += next.values;
        self.infinite |= next.infinite;
    }

    fn is_empty(&self) -> bool {
        self.values == 0
    }

    fn frobenius(&self) -> f64 {
        if self.infinite {
            return f64::INFINITY;
        }
        let [usual, large, small] = self.squares.map(f64::sqrt);
        (large * SCALE).hypot(usual).hypot(small / SCALE)
    }

    fn infinity(&self) -> f64 {
        if self.infinite { f64::INFINITY } else { self.widest.max(self.first_row).max(self.row) }
    }
}

/// Adds values in rows of `columns` values. Values that are not finite count only with `strict`.
fn add(norms: &mut [NormAccumulator], values: &[f64], columns: u64, strict: bool) {
    let mut at = norms.first().map_or(0, |norms| norms.before + norms.values);
    let mut rest = values;
    while !rest.is_empty() {
        let left = usize::try_from(columns - at % columns).unwrap_or(usize::MAX);
        let (now, later) = rest.split_at(left.min(rest.len()));
        let (piece, count) = (RowSegmentSums::of(now), now.len() as u64);
        norms.iter_mut().for_each(|norms| norms.add_piece(count, &piece, columns, strict));
        (at, rest) = (at + count, later);
    }
}

/// Sums over the finite values of a piece of a row.
struct RowSegmentSums {
    greatest: f64,
    is_finite: bool,
    /// The sum of squares, scaled if the greatest value is very large or very small.
    squares: f64,
    absolute: f64,
}

impl RowSegmentSums {
    fn of(values: &[f64]) -> Self {
        let (mut greatest, mut squares, mut absolute) = ([0.0f64; LANES], [0.0; LANES], [0.0; LANES]);
        let mut infinite = [0.0f64; LANES];
        let (chunks, rest) = values.as_chunks::<LANES>();
        let mut last = [0.0; LANES];
        last[..rest.len()].copy_from_slice(rest);
        for chunk in chunks.iter().chain([&last]) {
            for lane in 0..LANES {
                let size = finite(chunk[lane]);
                infinite[lane] += if chunk[lane].abs() < f64::INFINITY { 0.0 } else { 1.0 };
                greatest[lane] = if size > greatest[lane] { size } else { greatest[lane] };
                squares[lane] += size * size;
                absolute[lane] += size;
            }
        }
        let greatest = greatest.into_iter().fold(0.0, f64::max);
        let scaled = |factor: f64| values.iter().map(|value| (finite(*value) * factor).powi(2)).sum();
        let squares = match greatest {
            large if large > LARGE => scaled(1.0 / SCALE),
            zero if zero <= 0.0 => 0.0,
            small if small < 1.0 / LARGE => scaled(SCALE),
            _ => squares.iter().sum(),
        };
        Self {
            greatest,
            is_finite: infinite.iter().sum::<f64>() < 1.0,
            squares,
            absolute: absolute.iter().sum(),
        }
    }
}

/// The absolute value, if it is finite.
fn finite(value: f64) -> f64 {
    if value.abs() < f64::INFINITY { value.abs() } else { 0.0 }
}

/// The norms of one step, or of a piece of it: of the difference and of both arrays.
#[derive(Clone, Debug, Default, Object)]
pub(super) struct StepNorms {
    difference: NormAccumulator,
    sides: [NormAccumulator; 2],
}

/// The errors of one step, relative to the side for which they are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Object)]
pub(super) struct StepErrors {
    pub(super) frobenius: f64,
    pub(super) infinity: f64,
}

impl StepNorms {
    /// Of a piece that begins after this number of values of the step.
    pub(super) fn starting_at(before: u64) -> Self {
        let accumulator = NormAccumulator { before, ..NormAccumulator::default() };
        Self { difference: accumulator.clone(), sides: [accumulator.clone(), accumulator] }
    }

    /// Adds the piece that follows.
    pub(super) fn merge(&mut self, next: &Self) {
        self.difference.merge(&next.difference);
        self.sides.iter_mut().zip(&next.sides).for_each(|(side, next)| side.merge(next));
    }

    /// Adds the next values of both sides and their differences, in rows of `columns` values.
    pub(super) fn add(&mut self, sides: [&[f64]; 2], apart: &[f64], columns: u64) {
        add(std::slice::from_mut(&mut self.difference), apart, columns, true);
        // Values that are not finite are equal, or their difference is infinite; the norms cover the others.
        for (norms, side) in self.sides.iter_mut().zip(sides) {
            add(std::slice::from_mut(norms), side, columns, false);
        }
    }

    /// Adds the next values, which are equal on both sides.
    pub(super) fn add_same(&mut self, values: &[f64], columns: u64) {
        self.difference.skip(values.len() as u64, columns);
        add(&mut self.sides, values, columns, false);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.difference.is_empty()
    }

    pub(super) fn errors(&self) -> StepErrors {
        let worse = |norm: &dyn Fn(&NormAccumulator) -> f64| {
            let far = norm(&self.difference);
            self.sides.iter().map(|side| relative(far, norm(side))).fold(0.0, f64::max)
        };
        StepErrors {
            frobenius: worse(&NormAccumulator::frobenius),
            infinity: worse(&NormAccumulator::infinity),
        }
    }
}

fn relative(far: f64, whole: f64) -> f64 {
    if far == 0.0 {
        0.0
    } else if far.is_infinite() || whole.is_nan() || whole <= 0.0 {
        f64::INFINITY
    } else {
        far / whole
    }
}

#[cfg(test)]
mod tests {
    use super::super::elements::distance;
    use super::*;

    fn errors(one: &[f64], other: &[f64], columns: u64) -> StepErrors {
        in_pieces(one, other, columns, one.len().max(1))
    }

    /// The errors of values that are added in pieces of this size.
    fn in_pieces(one: &[f64], other: &[f64], columns: u64, piece: usize) -> StepErrors {
        let mut norms = StepNorms::default();
        for (one, other) in one.chunks(piece).zip(other.chunks(piece)) {
            let apart: Vec<f64> = one.iter().zip(other).map(|(one, other)| distance(*one, *other)).collect();
            norms.add([one, other], &apart, columns);
        }
        norms.errors()
    }

    #[test]
    fn pieces_add_up() {
        let one: Vec<f64> = (0..60).map(|at| f64::from(at * at - 700) * 10f64.powi(at % 7)).collect();
        let mut other = one.clone();
        other[7] += 3e5;
        other[58] -= 1e9;
        for columns in [1, 4, 15, 60] {
            let whole = in_pieces(&one, &other, columns, 60);
            for piece in 1..60 {
                let StepErrors { frobenius, infinity } = in_pieces(&one, &other, columns, piece);
                let near = |sum: f64, whole: f64| (sum / whole - 1.0).abs() < 1e-12;
                assert!(
                    near(frobenius, whole.frobenius) && near(infinity, whole.infinity),
                    "{columns} {piece}"
                );
            }
        }
        other[3] = f64::NAN;
        assert!(in_pieces(&one, &other, 60, 7).frobenius.is_infinite());
        assert!(in_pieces(&one, &other, 60, 7).infinity.is_infinite());
    }

    /// Pieces that several ranks have accumulated give the same norms, wherever they are cut.
    #[test]
    fn merged_pieces_have_the_norms_of_the_whole() {
        let one: Vec<f64> = (0..60).map(|at| f64::from(at * at - 700) * 10f64.powi(at % 7)).collect();
        let mut other = one.clone();
        (other[7], other[31], other[58]) = (other[7] + 3e5, other[31] - 7.0, other[58] - 1e9);
        for columns in [1, 4, 15, 20, 60] {
            let whole = in_pieces(&one, &other, columns, 60);
            for piece in 1..60 {
                let mut merged = StepNorms::default();
                for (number, (one, other)) in one.chunks(piece).zip(other.chunks(piece)).enumerate() {
                    let mut norms = StepNorms::starting_at((number * piece) as u64);
                    let apart: Vec<f64> =
                        one.iter().zip(other).map(|(one, other)| distance(*one, *other)).collect();
                    if one == other {
                        norms.add_same(one, columns);
                    } else {
                        norms.add([one, other], &apart, columns);
                    }
                    merged.merge(&norms);
                }
                let StepErrors { frobenius, infinity } = merged.errors();
                let near = |sum: f64, whole: f64| (sum / whole - 1.0).abs() < 1e-12;
                assert!(
                    near(frobenius, whole.frobenius) && near(infinity, whole.infinity),
                    "{columns} {piece}"
                );
            }
        }
    }

    #[test]
    fn equal_values_contribute_to_the_norms() {
        let one: Vec<f64> = (0..60).map(|at| f64::from(at) - 7.5).collect();
        let mut other = one.clone();
        other[31] += 2.0;
        for columns in [1, 4, 7, 60] {
            let mut norms = StepNorms::default();
            for (one, other) in one.chunks(10).zip(other.chunks(10)) {
                let apart: Vec<f64> =
                    one.iter().zip(other).map(|(one, other)| distance(*one, *other)).collect();
                if one == other {
                    norms.add_same(one, columns);
                } else {
                    norms.add([one, other], &apart, columns);
                }
            }
            assert_eq!(norms.errors(), in_pieces(&one, &other, columns, 10), "{columns}");
        }
    }

    #[test]
    fn errors_are_relative_to_the_side_with_the_smaller_norm() {
        let StepErrors { frobenius, infinity } = errors(&[3.0, 4.0], &[3.0, 0.0], 2);
        assert!((frobenius - 4.0 / 3.0).abs() < 1e-15 && (infinity - 4.0 / 3.0).abs() < 1e-15);
        // Two rows with the sums 3 and 7, and the differences 0 and 1.
        let StepErrors { frobenius, infinity } = errors(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 5.0], 2);
        assert!((infinity - 1.0 / 7.0).abs() < 1e-15 && (frobenius - 1.0 / 30f64.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn values_that_are_not_finite_are_equal_or_infinitely_different() {
        let nothing = StepErrors::default();
        assert_eq!(errors(&[f64::NAN, f64::INFINITY], &[f64::NAN, f64::INFINITY], 2), nothing);
        assert_eq!(errors(&[0.0], &[0.0], 1), nothing);
        assert!(errors(&[f64::NAN], &[1.0], 1).frobenius.is_infinite());
        assert!(errors(&[0.0], &[1.0], 1).infinity.is_infinite());
        let found = errors(&[f64::INFINITY, f64::NAN, 1.0], &[f64::INFINITY, f64::NAN, 2.0], 3);
        let whole = StepErrors { frobenius: 1.0, infinity: 1.0 };
        assert_eq!(found, whole, "the finite values are still compared");
    }

    #[test]
    fn norms_of_very_small_and_very_large_numbers_are_exact() {
        for size in [1e-300, 1e-150, 1.0, 1e150, 1e300] {
            let StepErrors { frobenius, infinity } =
                errors(&[3.0 * size, 4.0 * size], &[3.0 * size, 5.0 * size], 2);
            assert!((frobenius - 0.2).abs() < 1e-12, "{size}: {frobenius}");
            assert!((infinity - 1.0 / 7.0).abs() < 1e-12, "{size}: {infinity}");
        }
    }
}
