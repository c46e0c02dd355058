//! The grid, its decomposition among ranks, and the perfectly matched layer at its borders.

pub mod decomposition;
pub mod field_block;
pub mod pml;
pub mod wave_numbers;

/// A regular grid; directions are in the order x, y, z.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaveGrid {
    /// The number of points per direction; one in z for a plane.
    pub points: [usize; 3],
    /// The distance of points in metres.
    pub spacing: [f64; 3],
}

impl WaveGrid {
    /// 2 or 3.
    pub fn dimensions(&self) -> usize {
        if self.points[2] > 1 { 3 } else { 2 }
    }

    /// The number of points.
    pub fn volume(&self) -> usize {
        self.points.iter().product()
    }

    /// The shape of a field in files: z, y, x.
    pub fn shape(&self) -> [u64; 3] {
        let [x, y, z] = self.points.map(|points| points as u64);
        [z, y, x]
    }

    /// The smallest distance of points.
    pub fn finest_spacing(&self) -> f64 {
        self.spacing[..self.dimensions()].iter().copied().fold(f64::INFINITY, f64::min)
    }
}
