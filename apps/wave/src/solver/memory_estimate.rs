//! The memory that a run needs, known before anything of the size of the grid is allocated.

use crate::grid::WaveGrid;
use crate::grid::decomposition::PencilDecomposition;
use crate::transform::spectral_transform::transform_memory;

/// What a simulation needs beside its fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryNeed {
    /// Properties of the medium that are arrays.
    pub properties: u64,
    /// Whether there is absorption.
    pub absorbing: bool,
    /// Whether sources are corrected.
    pub corrected: bool,
    /// Fields that are read, and dropped after the first step.
    pub initial: u64,
    /// Bytes of the sources at points, of all ranks.
    pub sources: u64,
    /// Sampled points of all ranks; with those of overlapping boxes.
    pub sampled: u64,
    /// Whether the points are a list.
    pub listed: bool,
}

impl MemoryNeed {
    /// Bytes of the fields, operators and buffers of transforms of a rank, in this precision.
    pub fn bytes<T>(&self, grid: &WaveGrid, decomposition: &PencilDecomposition, rank: usize) -> u64 {
        let dimensions = grid.dimensions() as u64;
        let points = decomposition.block(grid, rank).volume() as u64;
        let width = size_of::<T>() as u64;
        // Of absorption: the compression and two factors.
        let fields = 1 + 2 * dimensions + self.properties + if self.absorbing { 3 } else { 0 };
        // Half of the spectrum: κ, that of sources, and two of absorption.
        let half = points.div_ceil(2) + points / grid.points[0] as u64;
        let operators = 1 + u64::from(self.corrected) + if self.absorbing { 2 } else { 0 };
        // The input is there until the operators are.
        let input = (self.properties + self.initial) * points * 4;
        (fields * points + operators * half) * width
            + transform_memory::<T>(grid, decomposition, rank)
            + input
            + Self::share(self.sources, points, grid)
    }

    /// The part of a rank with this number of points of what all ranks have.
    pub fn share(all: u64, points: u64, grid: &WaveGrid) -> u64 {
        let share = (u128::from(all) * u128::from(points)).div_ceil(grid.volume() as u128);
        share.min(1 << 48) as u64
    }
}
