//! Sources at points.

use anyhow::Result;

use crate::grid::field_block::FieldBlock;
use crate::problem::{PointSource, SourceMode};
use crate::transform::real::Real;
use crate::transform::spectral_transform::SpectralTransform;

/// Adds sources to fields in a step. Collective if they are corrected; all of them have the same mode.
pub(super) fn inject<T: Real>(
    transform: &mut SpectralTransform<T>,
    operator: Option<&[T]>,
    block: &FieldBlock,
    step: u64,
    sources: &[&PointSource],
    add: &mut impl FnMut(usize, SourceMode, usize, T),
) -> Result<()> {
    let mode = sources.first().map(|source| source.mode);
    if let (Some(SourceMode::Corrected), Some(operator)) = (mode, operator) {
        return inject_corrected(transform, operator, block, step, sources, add);
    }
    for (field, source) in sources.iter().enumerate() {
        for (number, point) in source.points.iter().enumerate() {
            add(field, source.mode, *point, T::of(source.value(step, number).into()));
        }
    }
    Ok(())
}

fn inject_corrected<T: Real>(
    transform: &mut SpectralTransform<T>,
    operator: &[T],
    block: &FieldBlock,
    step: u64,
    sources: &[&PointSource],
    add: &mut impl FnMut(usize, SourceMode, usize, T),
) -> Result<()> {
    let (width, height) = (block.points[0], block.y.len());
    transform.forward(sources.len(), |field, plane, y, row| {
        row.fill(T::zero());
        let source = sources[field];
        let first = (plane * height + y) * width;
        let begin = source.points.partition_point(|point| *point < first);
        let inside = source.points[begin..].iter().take_while(|point| **point < first + width);
        for (number, point) in inside.enumerate() {
            row[point - first] = T::of(source.value(step, begin + number).into());
        }
    })?;
    transform.filter(&vec![operator; sources.len()]);
    transform.inverse(sources.len(), |plane, y, rows| {
        let first = (plane * height + y) * width;
        for (field, values) in rows.chunks_exact(width).enumerate() {
            for (x, value) in values.iter().enumerate() {
                add(field, SourceMode::Corrected, first + x, *value);
            }
        }
    })
}
