//! Boxes in an n-dimensional array.

use aqueduct_file::hyperslab::Hyperslab;
use aqueduct_file::layout::{Layout, Order, Result as LayoutResult};
use serde::{Deserialize, Serialize};

/// A box: where it begins and how many elements it has along each dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cuboid {
    /// The first element.
    pub start: Vec<u64>,
    /// How many along each dimension; one of 0 makes it empty.
    pub shape: Vec<u64>,
}

impl Cuboid {
    /// From `start` on, `shape` large.
    pub fn new(start: impl Into<Vec<u64>>, shape: impl Into<Vec<u64>>) -> Self {
        Self { start: start.into(), shape: shape.into() }
    }

    /// All of an array.
    pub fn whole(shape: &[u64]) -> Self {
        Self { start: vec![0; shape.len()], shape: shape.to_vec() }
    }

    /// Nothing of an array of so many dimensions.
    pub fn empty(dimensions: usize) -> Self {
        Self { start: vec![0; dimensions], shape: vec![0; dimensions] }
    }

    /// How many elements there are; none if they cannot be counted.
    pub fn volume(&self) -> Option<u64> {
        volume(&self.shape)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Whether it lies in an array of this shape.
    pub fn is_inside(&self, shape: &[u64]) -> bool {
        self.start.len() == shape.len()
            && self.shape.len() == shape.len()
            && self.ends().zip(shape).all(|(end, size)| end.is_some_and(|end| end <= *size))
    }

    /// What both have; both lie in the same array.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let starts = self.start.iter().zip(&other.start).map(|(one, two)| *one.max(two));
        let start: Vec<u64> = starts.collect();
        let ends = self.ends().zip(other.ends()).map(|(one, two)| one.unwrap_or(0).min(two.unwrap_or(0)));
        let shape = ends.zip(&start).map(|(end, start)| end.saturating_sub(*start)).collect();
        Self { start, shape }
    }

    /// Where it lies, seen from the start of an enclosing box.
    #[must_use]
    pub fn relative_to(&self, outer: &Self) -> Self {
        let start = self.start.iter().zip(&outer.start).map(|(mine, outer)| mine.saturating_sub(*outer));
        Self { start: start.collect(), shape: self.shape.clone() }
    }

    /// Moved along each dimension.
    pub(crate) fn shifted(&self, by: &[u64]) -> Self {
        let start = self.start.iter().zip(by).map(|(start, by)| start.saturating_add(*by));
        Self { start: start.collect(), shape: self.shape.clone() }
    }

    /// The bytes of its elements in an array of this shape, the last dimension fastest.
    pub(crate) fn layout(&self, element: &Layout, within: &[u64]) -> LayoutResult<Layout> {
        if self.is_empty() {
            return Ok(Layout::empty());
        }
        let part = Hyperslab::new(&self.start[..], &self.shape[..]);
        element.subarray(within, &part, Order::C)
    }

    fn ends(&self) -> impl Iterator<Item = Option<u64>> + '_ {
        self.start.iter().zip(&self.shape).map(|(start, size)| start.checked_add(*size))
    }
}

/// How many elements an array has; none if they cannot be counted.
pub(crate) fn volume(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1u64, |volume, size| volume.checked_mul(*size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_meet_where_both_are() {
        let one = Cuboid::new([2, 0], [4, 5]);
        let two = Cuboid::new([4, 3], [9, 9]);
        assert_eq!(one.intersection(&two), Cuboid::new([4, 3], [2, 2]));
        assert_eq!(one.intersection(&two), two.intersection(&one));
        assert_eq!(Cuboid::new([4, 3], [2, 2]).relative_to(&one), Cuboid::new([2, 3], [2, 2]));
        assert!(one.intersection(&Cuboid::new([6, 0], [1, 1])).is_empty());
        assert!(one.is_inside(&[6, 5]) && !one.is_inside(&[5, 5]) && !one.is_inside(&[6, 5, 1]));
        assert!(!Cuboid::new([u64::MAX], [2]).is_inside(&[5]));
        assert_eq!(Cuboid::new([0, 0], [1 << 40, 1 << 40]).volume(), None);
    }
}
