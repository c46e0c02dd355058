//! The part of a field that a rank has. Pure.

use std::ops::Range;

/// The part of a field that a rank has: whole rows of x. In memory x is fastest, then y, then z.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldBlock {
    /// The points of the whole grid.
    pub points: [usize; 3],
    /// Its part of y.
    pub y: Range<usize>,
    /// Its part of z.
    pub z: Range<usize>,
}

impl FieldBlock {
    /// The number of points.
    pub fn volume(&self) -> usize {
        self.points[0] * self.rows()
    }

    /// The number of rows of x.
    pub fn rows(&self) -> usize {
        self.y.len() * self.z.len()
    }

    /// The position in memory of a point, by its number in the whole grid; none if another rank has it.
    pub fn local(&self, index: usize) -> Option<usize> {
        let [nx, ny, _] = self.points;
        let (x, y, z) = (index % nx, index / nx % ny, index / nx / ny);
        (self.y.contains(&y) && self.z.contains(&z))
            .then(|| x + nx * (y - self.y.start + self.y.len() * (z - self.z.start)))
    }

    /// The number in the whole grid of a position in memory.
    pub fn global(&self, local: usize) -> usize {
        let [nx, ny, _] = self.points;
        let (x, row) = (local % nx, local / nx);
        let height = self.y.len().max(1);
        x + nx * (row % height + self.y.start + ny * (row / height + self.z.start))
    }

    /// The values of a function of the coordinates x, y, z.
    pub fn sampled<T>(&self, mut value: impl FnMut([usize; 3]) -> T) -> Vec<T> {
        let mut values = Vec::with_capacity(self.volume());
        for z in self.z.clone() {
            for y in self.y.clone() {
                values.extend((0..self.points[0]).map(|x| value([x, y, z])));
            }
        }
        values
    }

    /// The start of the block in the whole field: z, y, x.
    pub fn start(&self) -> [u64; 3] {
        [self.z.start as u64, self.y.start as u64, 0]
    }

    /// The shape of the block: z, y, x.
    pub fn shape(&self) -> [u64; 3] {
        [self.z.len() as u64, self.y.len() as u64, self.points[0] as u64]
    }

    /// The part of a box (x, y, z) that lies in this block.
    pub fn intersection(&self, region: &[Range<usize>; 3]) -> [Range<usize>; 3] {
        let common = |one: &Range<usize>, other: &Range<usize>| {
            let start = one.start.max(other.start);
            start..one.end.min(other.end).max(start)
        };
        [region[0].clone(), common(&region[1], &self.y), common(&region[2], &self.z)]
    }
}
