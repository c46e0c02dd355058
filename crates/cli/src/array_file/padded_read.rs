//! Reading beyond the end of an HDF5 dataset: variables of netCDF-4 have all records of their dimension, and fill values where the dataset ends.

use anyhow::Result;
use aqueduct::formats::Hyperslab;
use aqueduct::hdf5::{DatasetId, Hdf5File};

/// The bytes of a part, with fill values beyond the end of the dataset.
pub(super) fn read(file: &Hdf5File, id: DatasetId, slab: &Hyperslab) -> Result<Vec<u8>> {
    let dataset = file.describe(id)?;
    let there = clip(slab, &dataset.shape);
    if there.count == slab.count {
        return Ok(file.at(id, there).read_bytes()?);
    }
    let stored = file.at(id, there.clone()).read_bytes()?;
    let (size, fill) = (dataset.datatype.size() as usize, dataset.fill_value());
    let mut bytes = fill.repeat(slab.count.iter().product::<u64>() as usize);
    copy_block(&stored, &there.count, &mut bytes, &slab.count, size);
    Ok(bytes)
}

/// What an array of this shape has of a part.
fn clip(slab: &Hyperslab, shape: &[u64]) -> Hyperslab {
    let count = slab.start.iter().zip(&slab.count).zip(shape);
    let count: Vec<u64> =
        count.map(|((start, count), length)| (*count).min(length.saturating_sub(*start))).collect();
    let is_empty = count.contains(&0) && !slab.count.contains(&0);
    let start = if is_empty { vec![0; count.len()] } else { slab.start.clone() };
    Hyperslab { start, count: if is_empty { vec![0; count.len()] } else { count } }
}

/// Copies a block to the corner of a larger one.
fn copy_block(from: &[u8], from_counts: &[u64], to: &mut [u8], to_counts: &[u64], size: usize) {
    let (Some((count, rest)), Some((_, to_rest))) = (from_counts.split_first(), to_counts.split_first())
    else {
        to[..size.min(from.len())].copy_from_slice(&from[..size.min(from.len())]);
        return;
    };
    let bytes = |counts: &[u64]| counts.iter().product::<u64>() as usize * size;
    let (step, to_step) = (bytes(rest), bytes(to_rest));
    if step == 0 || to_step == 0 {
        return;
    }
    for (from, to) in from.chunks(step).zip(to.chunks_mut(to_step)).take(*count as usize) {
        if rest == to_rest {
            to[..step].copy_from_slice(from);
        } else {
            copy_block(from, rest, to, to_rest, size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_clipped_and_padded() {
        let slab = |start: &[u64], count: &[u64]| Hyperslab { start: start.to_vec(), count: count.to_vec() };
        assert_eq!(clip(&slab(&[1, 0], &[3, 2]), &[2, 2]), slab(&[1, 0], &[1, 2]));
        assert_eq!(clip(&slab(&[5, 0], &[1, 2]), &[2, 2]), slab(&[0, 0], &[0, 0]));
        let mut bytes = [9; 6];
        copy_block(&[1, 2], &[1, 2], &mut bytes, &[2, 3], 1);
        assert_eq!(bytes, [1, 2, 9, 9, 9, 9]);
        copy_block(&[1, 2, 3, 4], &[2, 2], &mut bytes, &[3, 2], 1);
        assert_eq!(bytes, [1, 2, 3, 4, 9, 9]);
    }
}
