//! The memory that an output needs.

use super::quantities::{SampledField, StoredForm, WaveQuantity};
use crate::grid::WaveGrid;
use crate::grid::decomposition::PencilDecomposition;
use crate::solver::memory_estimate::MemoryNeed;

/// Bytes of the output of a rank: reductions, fields that are sampled, lists of points, and the values of two steps. Points are assumed to be
/// evenly distributed.
pub fn output_bytes<T>(
    need: &MemoryNeed,
    quantities: &[WaveQuantity],
    grid: &WaveGrid,
    decomposition: &PencilDecomposition,
    rank: usize,
) -> u64 {
    let points = decomposition.block(grid, rank).volume() as u64;
    let (width, dimensions) = (size_of::<T>() as u64, grid.dimensions() as u64);
    let sampled = MemoryNeed::share(need.sampled, points, grid);
    let of_quantity = |quantity: &WaveQuantity| {
        let values = if quantity.whole { points } else { sampled };
        let listed = if need.listed && !quantity.whole { 24 * sampled } else { 0 };
        let each = match quantity.form {
            StoredForm::Max | StoredForm::Min | StoredForm::Final => width,
            // Two buffers of stored values, or sums.
            StoredForm::Raw | StoredForm::Rms | StoredForm::Intensity(_) => 8,
        };
        listed + values * each
    };
    let is_shifted = |quantity: &WaveQuantity| matches!(quantity.field, SampledField::ShiftedVelocity(_));
    let is_intensity = |quantity: &WaveQuantity| matches!(quantity.form, StoredForm::Intensity(_));
    let shifted = if quantities.iter().any(is_shifted) { dimensions } else { 0 };
    // Pressure and velocity of the step before, and their products.
    let kept = if quantities.iter().any(is_intensity) { 1 + 2 * dimensions } else { 0 };
    quantities.iter().map(of_quantity).sum::<u64>() + (shifted + kept) * points * width
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::decomposition::DecompositionKind;
    use crate::output::quantities::QuantityFlags;

    #[test]
    fn outputs_and_sources_are_counted() {
        let grid = WaveGrid { points: [64; 3], spacing: [1.0; 3] };
        let decomposition = PencilDecomposition::new(DecompositionKind::Slab, &grid, 2);
        let points = 64 * 64 * 32;
        let need = MemoryNeed { sampled: 1000, listed: true, sources: 1 << 20, ..MemoryNeed::default() };
        let none = MemoryNeed::default().bytes::<f32>(&grid, &decomposition, 0);
        assert_eq!(need.bytes::<f32>(&grid, &decomposition, 0), none + (1 << 19));
        let flags = QuantityFlags { p_max_all: true, p_raw: true, i_avg: true, ..QuantityFlags::default() };
        let bytes = output_bytes::<f32>(&need, &flags.quantities(3), &grid, &decomposition, 0);
        // p_max_all, the shifted velocity, and the fields of the intensity; then p and three intensities at 500 points.
        assert_eq!(bytes, (1 + 3 + 7) * points * 4 + 500 * (8 + 24) + 3 * 500 * (8 + 24));
    }
}
