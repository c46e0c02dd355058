//! Writing fill values to the places of new elements: each rank writes a part of them.

use crate::error::Result;
use crate::hdf5::file::Hdf5File;
use crate::hdf5::model::definition::DatasetAddresses;
use crate::hdf5::model::tree::{ObjectTree, Storage, UNDEFINED_ADDRESS};

/// Bytes that are written at once.
const AT_ONCE: u64 = 1 << 20;

impl Hdf5File {
    /// Writes this rank's part of the fill values of datasets that got places.
    pub(crate) fn write_fill_values(&self, tree: &ObjectTree, placed: &[DatasetAddresses]) -> Result<()> {
        let (rank, ranks) = (self.core.comm.rank() as u64, self.core.comm.size() as u64);
        for DatasetAddresses { path, addresses, .. } in placed {
            let dataset = tree.get(path).and_then(|node| node.dataset.as_ref());
            let Some(dataset) = dataset.filter(|dataset| !dataset.fill.is_empty()) else { continue };
            let elements = match &dataset.storage {
                Storage::Chunked(chunk, _) => chunk.iter().product(),
                _ => dataset.elements().unwrap_or(0),
            };
            let size = dataset.fill.len() as u64;
            let cut = |rank: u64| (u128::from(elements) * u128::from(rank) / u128::from(ranks)) as u64;
            let own = cut(rank)..cut(rank + 1);
            let step = (AT_ONCE / size).max(1);
            let values = dataset.fill.repeat(step.min(own.end - own.start) as usize);
            for address in addresses.iter().filter(|address| **address != UNDEFINED_ADDRESS) {
                for first in own.clone().step_by(step as usize) {
                    let count = step.min(own.end - first);
                    self.core.file.at(address + first * size).write(&values[..(count * size) as usize])?;
                }
            }
        }
        Ok(())
    }
}
