//! Reads of a queue: where their bytes go, and what those get that the file does not have.

use aqueduct_object::{Object, bytes_mut, decode_all};

use super::packed_chunk::unpack;
use super::storage_map::StorageMap;
use crate::byte_region::ByteRegion;
use crate::error::{Kind, Result};
use crate::hdf5::file::Hdf5File;
use crate::hdf5::model::element_conversion::convert_elements;
use crate::hdf5::model::tree::Dataset;
use crate::merge::MergedRegions;
use crate::selection::ResolvedSelection;

/// A read that waits.
pub(crate) struct QueuedRead<'q> {
    pub(crate) places: StorageMap,
    /// What is read of chunks with filters, whose places are looked up when the reads are done.
    pub(crate) chunked: Option<ResolvedSelection>,
    /// The number of the dataset.
    pub(crate) number: usize,
    pub(crate) bytes: usize,
    pub(crate) dataset: &'q Dataset,
    pub(crate) values: Box<dyn ReadDestination + 'q>,
}

pub(crate) trait ReadDestination {
    /// The memory of the values, where bytes can be put into it as they are.
    fn memory(&mut self) -> Option<&mut [u8]>;

    /// Takes the values from their bytes.
    fn take(&mut self, bytes: &[u8]) -> std::result::Result<(), String>;
}

impl<T: Object> ReadDestination for &mut [T] {
    fn memory(&mut self) -> Option<&mut [u8]> {
        bytes_mut(self)
    }

    fn take(&mut self, bytes: &[u8]) -> std::result::Result<(), String> {
        let values = decode_all(bytes, self.len()).map_err(|error| error.to_string())?;
        self.iter_mut().zip(values).for_each(|(to, value)| *to = value);
        Ok(())
    }
}

/// Memory that takes bytes as they are, whatever they stand for.
pub(crate) struct RawDestination<'q>(pub(crate) &'q mut [u8]);

impl ReadDestination for RawDestination<'_> {
    fn memory(&mut self) -> Option<&mut [u8]> {
        Some(self.0)
    }

    fn take(&mut self, bytes: &[u8]) -> std::result::Result<(), String> {
        self.0.copy_from_slice(bytes);
        Ok(())
    }
}

impl QueuedRead<'_> {
    /// The memory that the bytes of the file can be read into as they are: it is whole, and of one place.
    pub(crate) fn straight(&mut self) -> Option<&mut [u8]> {
        let StorageMap { regions: places, gaps, packed } = &self.places;
        let one = matches!(&places[..], [place] if place.memory.strides.is_empty());
        let whole = one && gaps.is_empty() && packed.is_empty() && self.dataset.conversions.is_empty();
        if whole { self.values.memory() } else { None }
    }
}

/// Gives reads their values: from the bytes of all their places in the order of the file, if they have any, and where the file has nothing, fill values.
pub(crate) fn scatter(
    container: &Hdf5File,
    gets: &mut [QueuedRead<'_>],
    combined: Option<&MergedRegions>,
    bytes: &[u8],
) -> Result<()> {
    let bad = |what: String| container.core.error(Kind::Damaged, "read", what);
    let shares = combined.map_or(&[][..], |combined| &combined.shares);
    let mut item = 0;
    for get in gets {
        let own = item..item + get.places.regions.len();
        item = own.end;
        let sequence = container.chunk_sequence(get);
        let early = sequence.as_ref().and_then(|read| container.take_chunks(read));
        let mut decoded = Vec::new();
        let memory = match get.values.memory() {
            Some(memory) => memory,
            None => {
                decoded.resize(get.bytes, 0);
                decoded.as_mut_slice()
            }
        };
        let first = shares.partition_point(|share| share.item < own.start);
        for share in shares[first..].iter().take_while(|share| own.contains(&share.item)) {
            let place = &get.places.regions[share.item - own.start];
            let length = (share.bytes.end - share.bytes.start) as usize;
            let from = &bytes[share.at as usize..share.at as usize + length];
            let outcome = container.memory(&place.memory)?.scatter(from, share.bytes.start, memory);
            outcome.map_err(|error| bad(error.to_string()))?;
        }
        for gap in &get.places.gaps {
            fill(gap, &get.dataset.fill, memory);
        }
        let took = unpack(&container.core, get.dataset, &get.places.packed, early.as_deref(), memory)?;
        convert_elements(&get.dataset.conversions, get.dataset.datatype.size() as usize, memory);
        if !decoded.is_empty() {
            get.values.take(&decoded).map_err(bad)?;
        }
        if let Some(read) = &sequence {
            container.prefetch_chunks(get, read, early.is_none().then_some(took));
        }
    }
    Ok(())
}

/// Fills a region of memory with the fill value.
fn fill(gap: &ByteRegion, value: &[u8], memory: &mut [u8]) {
    if let Some(parts) = gap.split() {
        parts.for_each(|part| fill(&part, value, memory));
        return;
    }
    let run = &mut memory[gap.offset as usize..(gap.offset + gap.run) as usize];
    if value.is_empty() {
        run.fill(0);
    } else {
        // A run is whole elements.
        run.chunks_exact_mut(value.len()).for_each(|element| element.copy_from_slice(value));
    }
}
