//! The grid of the benchmark: its decomposition, the stored part, the values. No I/O.

use std::str::FromStr;

use aqueduct::stream::{Hyperslab, Stream};

/// The shape of the grid: z, y, x; x varies fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GridShape(pub(crate) [u64; 3]);

/// The part of the grid that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum StoredRegion {
    /// The whole grid
    Whole,
    /// One plane of constant x: every rank has a part
    Slice,
    /// Boxes distributed over the grid, in total an eighth of its volume
    Cuboids,
    /// One plane of constant z: one rank has all of it
    Transversal,
}

impl StoredRegion {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Slice => "slice",
            Self::Cuboids => "cuboids",
            Self::Transversal => "transversal",
        }
    }
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
                "invalid grid {text:?}; give one side or z×y×x, for example 128 or 64x128x256, with sides up to 32768"
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
    /// The planes of a rank.
    pub(crate) fn planes(self, rank: usize, ranks: usize) -> std::ops::Range<u64> {
        let border = |rank: usize| self.0[0] * rank as u64 / ranks as u64;
        border(rank)..border(rank + 1)
    }

    /// The factor a: a power of two, larger than every side, so that values are exact.
    pub(crate) fn base(self) -> f64 {
        self.0.iter().max().map_or(1, |side| (side + 1).next_power_of_two()) as f64
    }

    /// The value x + y·a + z·a² + t·a³.
    pub(crate) fn value(self, at: [u64; 3], step: u64) -> f64 {
        let (a, [z, y, x]) = (self.base(), at.map(|at| at as f64));
        x + y * a + z * a * a + step as f64 * a * a * a
    }

    /// Whether all values up to this number of steps are distinct doubles.
    pub(crate) fn is_exact(self, steps: u64) -> bool {
        (steps + 1) as f64 * self.base().powi(3) < (1u64 << 53) as f64
    }

    /// The boxes that are stored.
    pub(crate) fn boxes(self, region: StoredRegion, cuboids: u64, size: Option<Self>) -> Vec<Hyperslab> {
        let [z, y, x] = self.0;
        match region {
            StoredRegion::Whole => vec![Hyperslab::whole(self.0)],
            StoredRegion::Slice => vec![Hyperslab::new([0, 0, x / 2], [z, y, 1])],
            StoredRegion::Transversal => vec![Hyperslab::new([z / 2, 0, 0], [1, y, x])],
            StoredRegion::Cuboids if size.is_some() => self.boxes_of(size.unwrap_or(self), cuboids),
            StoredRegion::Cuboids => {
                // A regular raster; each box fills half of each side of its raster cell.
                let raster = (1..=cuboids).find(|side| side * side * side >= cuboids).unwrap_or(1);
                let cell = self.0.map(|side| (side / raster).max(1));
                let shape = cell.map(|side| (side / 2).max(1));
                let place = |number: u64| {
                    let at = [number / (raster * raster), number / raster % raster, number % raster];
                    let start = [0, 1, 2].map(|axis| (at[axis] * cell[axis]).min(self.0[axis] - shape[axis]));
                    Hyperslab::new(start, shape)
                };
                (0..cuboids).map(place).collect()
            }
        }
    }

    /// The number of boxes of a size that the grid has room for.
    pub(crate) fn most_boxes(self, size: Self) -> u64 {
        (0..3).map(|axis| self.0[axis] / size.0[axis]).product()
    }

    /// Boxes of a size, spread evenly over as few layers and rows as they need.
    fn boxes_of(self, size: Self, cuboids: u64) -> Vec<Hyperslab> {
        let most = [0, 1, 2].map(|axis| (self.0[axis] / size.0[axis]).max(1));
        // As many along each axis as a cube of them needs, and more where there is room.
        let mut raster = [1; 3];
        while let Some(axis) =
            (0..3).filter(|axis| raster[*axis] < most[*axis]).min_by_key(|axis| raster[*axis])
            && raster.iter().product::<u64>() < cuboids
        {
            raster[axis] += 1;
        }
        let place = |number: u64| {
            let at = [number / (raster[1] * raster[2]), number / raster[2] % raster[1], number % raster[2]];
            let start = [0, 1, 2].map(|axis| at[axis] * (self.0[axis] / raster[axis]));
            Hyperslab::new(start, size.0)
        };
        (0..cuboids).map(place).collect()
    }

    /// The declaration of a quantity on a rank.
    pub(crate) fn stream(self, name: String, boxes: &[Hyperslab], rank: usize, ranks: usize) -> Stream {
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

    /// The first wrong value: its position and value.
    pub(crate) fn first_wrong_value(
        self,
        boxes: &[Hyperslab],
        step: u64,
        values: &[f64],
    ) -> Option<([u64; 3], f64)> {
        let mut values = values.iter();
        for one in boxes {
            for z in one.start[0]..one.start[0] + one.count[0] {
                for y in one.start[1]..one.start[1] + one.count[1] {
                    for x in one.start[2]..one.start[2] + one.count[2] {
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
    fn grids_are_parsed_and_boxes_are_inside() {
        assert_eq!("64".parse(), Ok(GridShape([64; 3])));
        assert_eq!("3x4x5".parse(), Ok(GridShape([3, 4, 5])));
        assert!(["", "0", "3x4", "axb", "99999"].iter().all(|text| text.parse::<GridShape>().is_err()));
        for cuboids in [1, 2, 8, 27, 100] {
            let grid = GridShape([20, 9, 11]);
            let boxes = grid.boxes(StoredRegion::Cuboids, cuboids, None);
            assert_eq!(boxes.len() as u64, cuboids);
            assert!(boxes.iter().all(|one| one.is_inside(&grid.0)), "{boxes:?}");
        }
    }

    #[test]
    fn boxes_of_a_size_are_inside_and_do_not_overlap() {
        for (grid, size, cuboids) in
            [([64; 3], [16; 3], 64), ([64, 32, 8], [8, 8, 8], 17), ([9, 10, 11], [3, 5, 2], 30)]
        {
            let (grid, size) = (GridShape(grid), GridShape(size));
            assert!(grid.most_boxes(size) >= cuboids);
            let boxes = grid.boxes(StoredRegion::Cuboids, cuboids, Some(size));
            assert_eq!(boxes.len() as u64, cuboids);
            for (number, one) in boxes.iter().enumerate() {
                assert!(one.is_inside(&grid.0) && one.count == size.0, "{one:?}");
                assert!(boxes[..number].iter().all(|other| other.intersection(one).is_empty()), "{one:?}");
            }
        }
    }

    #[test]
    fn filled_values_are_verified_and_a_wrong_one_is_found() {
        let grid = GridShape([5, 3, 4]);
        let mut all = vec![0.0; 60];
        let (one, two) = all.split_at_mut(24);
        grid.fill(0, 2, 7, one);
        grid.fill(1, 2, 7, two);
        let whole = grid.boxes(StoredRegion::Whole, 1, None);
        assert_eq!(grid.first_wrong_value(&whole, 7, &all), None);
        assert!(
            grid.first_wrong_value(&whole, 6, &all).is_some()
                && grid.first_wrong_value(&whole, 7, &all[..59]).is_some()
        );
        all[23] += 1.0;
        assert_eq!(grid.first_wrong_value(&whole, 7, &all).map(|(at, _)| at), Some([1, 2, 3]));
    }
}
