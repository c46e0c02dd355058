//! How a dataset is stored: its chunks and their filters.

use aqueduct_object::{Object, encode};

use super::chunk_table::ChunkFilter;
use super::datatype::Datatype;
use super::tree::Dataset;
use crate::hdf5::filters::chunk_encode::filter_id;

/// Compression of the chunks of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hdf5Compression {
    /// Deflate (`gzip` of h5py) with a level from 1 to 9; every HDF5 reader has it.
    Deflate(u32),
    /// Zstandard with a level from 1 to 22: faster; readers need a plugin (`hdf5plugin` of Python).
    Zstd(u32),
}

impl Default for Hdf5Compression {
    /// Deflate with level 4, as h5py.
    fn default() -> Self {
        Self::Deflate(4)
    }
}

/// How a dataset is stored. By default it is in one piece and has its full size from the start.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_formats::hdf5::{Hdf5Compression, Hdf5CreateOptions, Hdf5DatasetOptions};
///
/// Launch::threads(2).run(|world| {
///     let mut file = Hdf5CreateOptions::new().replace().create(world, "memfs:compressed.h5")?;
///     let options = Hdf5DatasetOptions::new().chunk(&[16, 64]).compress(Hdf5Compression::Deflate(6)).checksum();
///     let grid = file.define(|file| file.dataset_with::<f32>("/grid", &[32, 64], &options))?;
///     let first = 16 * world.rank() as u64;
///     // Each rank compresses its own chunks.
///     file.at(grid, [first..first + 16, 0..64]).all().write(&[0.5f32; 16 * 64])?;
///     file.close()
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent yes or no")]
pub struct Hdf5DatasetOptions {
    pub(crate) chunk: Option<Vec<u64>>,
    pub(crate) extendible: bool,
    compression: Option<Hdf5Compression>,
    unshuffled: bool,
    checksum: bool,
    /// The fill value, encoded; empty for zeros.
    pub(crate) fill: Vec<u8>,
    /// Whether the dataset never has values.
    pub(crate) unallocated: bool,
}

impl Hdf5DatasetOptions {
    /// In one piece, of full size.
    pub fn new() -> Self {
        Self::default()
    }

    /// As an existing dataset is stored: its chunks, compression, checksum and fill value. Compression that is not written here, such as LZF, becomes
    /// deflate.
    ///
    /// ```
    /// use aqueduct_comm::Launch;
    /// use aqueduct_formats::hdf5::{Hdf5Compression, Hdf5CreateOptions, Hdf5DatasetOptions};
    ///
    /// Launch::threads(1).run(|world| {
    ///     let mut file = Hdf5CreateOptions::new().replace().create(world, "memfs:like.h5")?;
    ///     let options = Hdf5DatasetOptions::new().chunk(&[16]).compress(Hdf5Compression::Deflate(6));
    ///     let first = file.define(|file| file.dataset_with::<f32>("/first", &[64], &options))?;
    ///     assert_eq!(Hdf5DatasetOptions::like(file.describe(first)?), options);
    ///     file.close()
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn like(dataset: &Dataset) -> Self {
        let filter = |id: u16| dataset.filters().iter().find(|filter| filter.id == id);
        let level = |filter: &ChunkFilter| filter.parameters.first().copied().unwrap_or(4);
        let plain = [filter_id::SHUFFLE, filter_id::FLETCHER32];
        let other = dataset.filters().iter().any(|filter| !plain.contains(&filter.id));
        let compression = match (filter(filter_id::DEFLATE), filter(filter_id::ZSTD)) {
            (Some(deflate), _) => Some(Hdf5Compression::Deflate(level(deflate))),
            (None, Some(zstd)) => Some(Hdf5Compression::Zstd(level(zstd))),
            (None, None) => other.then(Hdf5Compression::default),
        };
        let is_own = filter(filter_id::DEFLATE).or_else(|| filter(filter_id::ZSTD)).is_some();
        Self {
            chunk: dataset.chunk().map(<[u64]>::to_vec),
            extendible: dataset.extendible,
            compression,
            // Elements of one byte are never shuffled.
            unshuffled: is_own && filter(filter_id::SHUFFLE).is_none() && dataset.datatype.size() > 1,
            checksum: filter(filter_id::FLETCHER32).is_some(),
            fill: if dataset.has_fill_value() { dataset.fill_value() } else { Vec::new() },
            unallocated: false,
        }
    }

    /// The shape of chunks, if there are any.
    pub fn chunk_shape(&self) -> Option<&[u64]> {
        self.chunk.as_deref()
    }

    /// In chunks of this shape. A rank that writes whole chunks exchanges nothing with others.
    #[doc(alias = "H5Pset_chunk")]
    #[must_use]
    pub fn chunk(mut self, shape: &[u64]) -> Self {
        self.chunk = Some(shape.to_vec());
        self
    }

    /// The first dimension can be extended; needs chunks.
    #[must_use]
    pub fn extendible(mut self) -> Self {
        self.extendible = true;
        self
    }

    /// Compresses chunks, after their bytes were shuffled; needs chunks. Such a dataset is written by collective calls.
    #[doc(alias = "H5Pset_deflate")]
    #[must_use]
    pub fn compress(mut self, compression: Hdf5Compression) -> Self {
        self.compression = Some(compression);
        self
    }

    /// Compresses chunks as they are, for elements whose bytes are not alike.
    #[must_use]
    pub fn without_shuffle(mut self) -> Self {
        self.unshuffled = true;
        self
    }

    /// Adds a checksum to each chunk, which readers verify; needs chunks.
    #[doc(alias = "H5Pset_fletcher32")]
    #[must_use]
    pub fn checksum(mut self) -> Self {
        self.checksum = true;
        self
    }

    /// Elements that were never written have this value, of the type of the dataset. In a dataset without compression they are written when they are
    /// defined, each rank a part of them.
    #[doc(alias = "H5Pset_fill_value")]
    #[must_use]
    pub fn fill_value<T: Object>(mut self, value: &T) -> Self {
        self.fill = encode(value);
        self
    }

    /// The same by the bytes of the value.
    #[must_use]
    pub fn fill_bytes(mut self, bytes: &[u8]) -> Self {
        self.fill = bytes.to_vec();
        self
    }

    /// A dataset that never has values in the file.
    pub(crate) fn unallocated(mut self) -> Self {
        self.unallocated = true;
        self
    }

    /// Whether chunks have filters.
    pub(crate) fn has_filters(&self) -> bool {
        self.compression.is_some() || self.checksum
    }

    /// The filters in the order in which they are applied.
    pub(crate) fn filters(&self, ty: &Datatype) -> Vec<ChunkFilter> {
        let filter =
            |id: u16, name: &str, parameters: Vec<u32>| ChunkFilter { id, name: name.to_owned(), parameters };
        let mut filters = Vec::new();
        if let Some(compression) = self.compression {
            let size = ty.size() as u32;
            if !self.unshuffled && size > 1 {
                filters.push(filter(filter_id::SHUFFLE, "shuffle", vec![size]));
            }
            filters.push(match compression {
                Hdf5Compression::Deflate(level) => filter(filter_id::DEFLATE, "deflate", vec![level.min(9)]),
                Hdf5Compression::Zstd(level) => filter(filter_id::ZSTD, "zstd", vec![level.clamp(1, 22)]),
            });
        }
        if self.checksum {
            filters.push(filter(filter_id::FLETCHER32, "fletcher32", Vec::new()));
        }
        filters
    }
}
