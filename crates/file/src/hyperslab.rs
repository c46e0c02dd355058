//! A box of an n-dimensional array.

use std::ops::Range;

/// A box of an n-dimensional array: the first element and the number of elements in each dimension.
///
/// The last dimension is the fastest, as in C. [`Layout::subarray`](crate::layout::Layout::subarray)
/// makes the bytes of a hyperslab a layout.
///
/// ```
/// use aqueduct_file::hyperslab::Hyperslab;
///
/// let left = Hyperslab::new([2, 0], [4, 5]);
/// let right = Hyperslab::from([4..13, 3..12]);
/// let common = left.intersection(&right);
/// assert_eq!(common, Hyperslab::new([4, 3], [2, 2]));
/// assert_eq!(common.relative_to(&left), Hyperslab::new([2, 3], [2, 2]));
/// assert_eq!(left.volume(), Some(20));
/// assert!(left.is_inside(&[6, 5]) && !right.is_inside(&[6, 5]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Hyperslab {
    /// The first element.
    pub start: Vec<u64>,
    /// The number of elements in each dimension. A hyperslab with a count of 0 is empty.
    #[cfg_attr(feature = "serde", serde(rename = "shape"))]
    pub count: Vec<u64>,
}

impl Hyperslab {
    /// `count` elements in each dimension, from `start` on.
    pub fn new(start: impl Into<Vec<u64>>, count: impl Into<Vec<u64>>) -> Self {
        Self { start: start.into(), count: count.into() }
    }

    /// All elements of an array of this shape.
    pub fn whole(shape: impl Into<Vec<u64>>) -> Self {
        let count = shape.into();
        Self { start: vec![0; count.len()], count }
    }

    /// No element of an array with this number of dimensions. Without dimensions it is the one
    /// element of a scalar.
    pub fn empty(dimensions: usize) -> Self {
        Self { start: vec![0; dimensions], count: vec![0; dimensions] }
    }

    /// The number of elements; `None` if it exceeds `u64`.
    pub fn volume(&self) -> Option<u64> {
        volume(&self.count)
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.count.contains(&0)
    }

    /// Whether it has as many dimensions as an array of this shape and lies inside it.
    pub fn is_inside(&self, shape: &[u64]) -> bool {
        self.start.len() == shape.len()
            && self.count.len() == shape.len()
            && self.ends().zip(shape).all(|(end, length)| end.is_some_and(|end| end <= *length))
    }

    /// Whether the element at this index is one of its elements.
    pub fn contains(&self, index: &[u64]) -> bool {
        let sides = self.start.iter().zip(&self.count);
        index
            .iter()
            .zip(sides)
            .all(|(at, (start, count))| at.checked_sub(*start).is_some_and(|at| at < *count))
    }

    /// Whether both have an element in common. Both belong to the same array.
    pub fn overlaps(&self, other: &Self) -> bool {
        !self.intersection(other).is_empty()
    }

    /// The elements of both. Both belong to the same array.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let start: Vec<u64> = self.start.iter().zip(&other.start).map(|(one, two)| *one.max(two)).collect();
        let ends = self.ends().zip(other.ends()).map(|(one, two)| one.unwrap_or(0).min(two.unwrap_or(0)));
        let count = ends.zip(&start).map(|(end, start)| end.saturating_sub(*start)).collect();
        Self { start, count }
    }

    /// The smallest hyperslab that contains the elements of both. Both belong to the same array.
    #[must_use]
    pub fn bounding_box(&self, other: &Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return if self.is_empty() { other.clone() } else { self.clone() };
        }
        let start: Vec<u64> = self.start.iter().zip(&other.start).map(|(one, two)| *one.min(two)).collect();
        let ends = self.ends().zip(other.ends()).map(|(one, two)| one.max(two).unwrap_or(u64::MAX));
        let count = ends.zip(&start).map(|(end, start)| end - start).collect();
        Self { start, count }
    }

    /// The same elements, counted from the start of an enclosing hyperslab.
    #[must_use]
    pub fn relative_to(&self, outer: &Self) -> Self {
        let start = self.start.iter().zip(&outer.start).map(|(start, outer)| start.saturating_sub(*outer));
        Self { start: start.collect(), count: self.count.clone() }
    }

    /// Moved by this distance in each dimension.
    #[must_use]
    pub fn shifted(&self, by: &[u64]) -> Self {
        let start = self.start.iter().zip(by).map(|(start, by)| start.saturating_add(*by));
        Self { start: start.collect(), count: self.count.clone() }
    }

    /// The range of indices in each dimension.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.start.iter().zip(&self.count).map(|(start, count)| *start..start.saturating_add(*count))
    }

    /// Its rows in the order of the array. A row is contiguous: it has all elements of the last
    /// dimension and one of each other.
    pub fn rows(&self) -> impl Iterator<Item = Self> + use<> {
        let mut next = (!self.is_empty()).then(|| {
            let mut row = self.clone();
            let outer = row.count.len().saturating_sub(1);
            row.count[..outer].fill(1);
            row
        });
        let slab = self.clone();
        std::iter::from_fn(move || {
            let row = next.take()?;
            let outer = slab.count.len().saturating_sub(1);
            let grows = |at: &usize| row.start[*at] - slab.start[*at] + 1 < slab.count[*at];
            next = (0..outer).rev().find(grows).map(|at| {
                let mut following = row.clone();
                following.start[at] += 1;
                following.start[at + 1..].copy_from_slice(&slab.start[at + 1..]);
                following
            });
            Some(row)
        })
    }

    /// One past the last index of each dimension.
    fn ends(&self) -> impl Iterator<Item = Option<u64>> + '_ {
        self.start.iter().zip(&self.count).map(|(start, count)| start.checked_add(*count))
    }
}

/// A range of indices in each dimension; a range whose end is before its start is empty.
impl<const N: usize> From<[Range<u64>; N]> for Hyperslab {
    fn from(ranges: [Range<u64>; N]) -> Self {
        Self::from(&ranges[..])
    }
}

impl From<&[Range<u64>]> for Hyperslab {
    fn from(ranges: &[Range<u64>]) -> Self {
        let start = ranges.iter().map(|range| range.start).collect();
        let count = ranges.iter().map(|range| range.end.saturating_sub(range.start)).collect();
        Self { start, count }
    }
}

/// The number of elements of an array of this shape; `None` if it exceeds `u64`.
pub fn volume(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1_u64, |volume, length| volume.checked_mul(*length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intersection_and_bounding_box_of_two_hyperslabs() {
        let one = Hyperslab::new([2, 0], [4, 5]);
        let two = Hyperslab::new([4, 3], [9, 9]);
        assert_eq!(one.intersection(&two), Hyperslab::new([4, 3], [2, 2]));
        assert_eq!(one.intersection(&two), two.intersection(&one));
        assert_eq!(one.bounding_box(&two), Hyperslab::new([2, 0], [11, 12]));
        assert_eq!(one.bounding_box(&Hyperslab::empty(2)), one);
        assert_eq!(Hyperslab::empty(2).bounding_box(&two), two);
        assert_eq!(Hyperslab::new([4, 3], [2, 2]).relative_to(&one), Hyperslab::new([2, 3], [2, 2]));
        assert!(one.overlaps(&two) && !one.overlaps(&Hyperslab::new([6, 0], [1, 1])));
        assert!(one.contains(&[5, 4]) && !one.contains(&[6, 4]) && !one.contains(&[1, 0]));
    }

    #[test]
    fn a_hyperslab_is_inside_an_array_of_its_number_of_dimensions() {
        let slab = Hyperslab::new([2, 0], [4, 5]);
        assert!(slab.is_inside(&[6, 5]) && !slab.is_inside(&[5, 5]) && !slab.is_inside(&[6, 5, 1]));
        assert!(!Hyperslab::new([2], [4, 5]).is_inside(&[6, 5]));
        assert!(!Hyperslab::new([u64::MAX], [2]).is_inside(&[5]));
        assert!(Hyperslab::whole([]).is_inside(&[]));
    }

    #[test]
    fn a_volume_that_overflows_is_none() {
        assert_eq!(Hyperslab::new([0, 0], [1 << 40, 1 << 40]).volume(), None);
        assert_eq!(Hyperslab::whole([]).volume(), Some(1));
        assert_eq!(Hyperslab::empty(3).volume(), Some(0));
    }

    #[test]
    fn rows_follow_the_order_of_the_array() {
        let rows: Vec<Hyperslab> = Hyperslab::new([1, 2, 3], [2, 2, 4]).rows().collect();
        let row = |z, y| Hyperslab::new([z, y, 3], [1, 1, 4]);
        assert_eq!(rows, [row(1, 2), row(1, 3), row(2, 2), row(2, 3)]);
        assert_eq!(Hyperslab::new([7], [3]).rows().collect::<Vec<_>>(), [Hyperslab::new([7], [3])]);
        assert_eq!(Hyperslab::new([1, 1], [3, 0]).rows().count(), 0);
        assert_eq!(Hyperslab::whole([]).rows().count(), 1);
    }
}
