//! The grid of the prototype: who holds what, what is stored of it, and which value is where. Pure.

use std::str::FromStr;

use aqueduct::stream::{Cuboid, Stream};

/// How large the grid is: z, y, x; x varies fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GridShape(pub(crate) [u64; 3]);

/// What is stored of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum StoredRegion {
    /// Everything
    Whole,
    /// One plane of constant x: a column of every rank
    Slice,
    /// Boxes spread over the grid, an eighth of its volume together
    Cuboids,
    /// One plane of constant z: one rank has all of it
    Transversal,
}

impl FromStr for GridShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sides: Vec<Option<u64>> = text.split(['x', '×']).map(|side| side.trim().parse().ok()).collect();
        let known = |size: &Option<u64>| size.filter(|size| (1..=1 << 15).contains(size));
        match sides.iter().map(known).collect::<Option<Vec<u64>>>().as_deref() {
            Some([side]) => Ok(Self([*side; 3])),
            Some([z, y, x]) => Ok(Self([*z, *y, *x])),
            _ => Err(format!(
                "{text:?} is no grid: give a side or z×y×x, such as 128 or 64x128x256, sides up to 32768"
            )),
        }
    }
}

impl std::fmt::Display for GridShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [z, y, x] = self.0;
        write!(f, "{z}×{y}×{x}")
    }
}

impl GridShape {
    /// The planes that a rank holds: all of them are held, whatever the number of ranks.
    pub(crate) fn planes(self, rank: usize, ranks: usize) -> std::ops::Range<u64> {
        let border = |rank: usize| self.0[0] * rank as u64 / ranks as u64;
        border(rank)..border(rank + 1)
    }

    /// Larger than every side, a power of two: values are exact.
    pub(crate) fn base(self) -> f64 {
        self.0.iter().max().map_or(1, |side| (side + 1).next_power_of_two()) as f64
    }

    /// x + y·a + z·a² + t·a³.
    pub(crate) fn value(self, at: [u64; 3], step: u64) -> f64 {
        let (a, [z, y, x]) = (self.base(), at.map(|at| at as f64));
        x + y * a + z * a * a + step as f64 * a * a * a
    }

    /// Whether every value up to so many steps can be told from all others.
    pub(crate) fn is_exact(self, steps: u64) -> bool {
        (steps + 1) as f64 * self.base().powi(3) < (1u64 << 53) as f64
    }

    /// The boxes that are stored.
    pub(crate) fn boxes(self, region: StoredRegion, cuboids: u64) -> Vec<Cuboid> {
        let [z, y, x] = self.0;
        match region {
            StoredRegion::Whole => vec![Cuboid::whole(&self.0)],
            StoredRegion::Slice => vec![Cuboid::new([0, 0, x / 2], [z, y, 1])],
            StoredRegion::Transversal => vec![Cuboid::new([z / 2, 0, 0], [1, y, x])],
            StoredRegion::Cuboids => {
                // Cells of an even raster, half of each side filled.
                let raster = (1..=cuboids).find(|side| side * side * side >= cuboids).unwrap_or(1);
                let cell = self.0.map(|side| (side / raster).max(1));
                let shape = cell.map(|side| (side / 2).max(1));
                let place = |number: u64| {
                    let at = [number / (raster * raster), number / raster % raster, number % raster];
                    let start = [0, 1, 2].map(|axis| (at[axis] * cell[axis]).min(self.0[axis] - shape[axis]));
                    Cuboid::new(start, shape)
                };
                (0..cuboids).map(place).collect()
            }
        }
    }

    /// The declaration of a quantity, on a rank.
    pub(crate) fn stream(self, name: String, boxes: &[Cuboid], rank: usize, ranks: usize) -> Stream {
        let ([_, y, x], planes) = (self.0, self.planes(rank, ranks));
        let stream =
            Stream::array(name, self.0).block([planes.start, 0, 0], [planes.end - planes.start, y, x]);
        stream.cuboids(boxes.iter().cloned())
    }

    /// The values of a rank's block in a step.
    pub(crate) fn fill(self, rank: usize, ranks: usize, step: u64, values: &mut [f64]) {
        let ([_, y, x], first) = (self.0, self.planes(rank, ranks).start);
        for (row, values) in values.chunks_mut(x as usize).enumerate() {
            let (z, y) = (first + row as u64 / y, row as u64 % y);
            let start = self.value([z, y, 0], step);
            for (at, value) in values.iter_mut().enumerate() {
                *value = start + at as f64;
            }
        }
    }

    /// The first stored value that is not what it should be: where, and what it is.
    pub(crate) fn first_wrong_value(
        self,
        boxes: &[Cuboid],
        step: u64,
        values: &[f64],
    ) -> Option<([u64; 3], f64)> {
        let mut values = values.iter();
        for one in boxes {
            for z in one.start[0]..one.start[0] + one.shape[0] {
                for y in one.start[1]..one.start[1] + one.shape[1] {
                    for x in one.start[2]..one.start[2] + one.shape[2] {
                        let found = values.next().copied().unwrap_or(f64::NAN);
                        if found.to_bits() != self.value([z, y, x], step).to_bits() {
                            return Some(([z, y, x], found));
                        }
                    }
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_read_and_boxes_lie_inside() {
        assert_eq!("64".parse(), Ok(GridShape([64; 3])));
        assert_eq!("3x4x5".parse(), Ok(GridShape([3, 4, 5])));
        assert!(["", "0", "3x4", "axb", "99999"].iter().all(|text| text.parse::<GridShape>().is_err()));
        for cuboids in [1, 2, 8, 27, 100] {
            let grid = GridShape([20, 9, 11]);
            let boxes = grid.boxes(StoredRegion::Cuboids, cuboids);
            assert_eq!(boxes.len() as u64, cuboids);
            assert!(boxes.iter().all(|one| one.is_inside(&grid.0)), "{boxes:?}");
        }
    }

    #[test]
    fn what_is_filled_is_found_and_what_is_wrong_is_named() {
        let grid = GridShape([5, 3, 4]);
        let mut all = vec![0.0; 60];
        let (one, two) = all.split_at_mut(24);
        grid.fill(0, 2, 7, one);
        grid.fill(1, 2, 7, two);
        let whole = grid.boxes(StoredRegion::Whole, 1);
        assert_eq!(grid.first_wrong_value(&whole, 7, &all), None);
        assert!(
            grid.first_wrong_value(&whole, 6, &all).is_some()
                && grid.first_wrong_value(&whole, 7, &all[..59]).is_some()
        );
        all[23] += 1.0;
        assert_eq!(grid.first_wrong_value(&whole, 7, &all).map(|(at, _)| at), Some([1, 2, 3]));
    }
}
