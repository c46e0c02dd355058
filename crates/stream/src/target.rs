//! Targets: where the batches of an output are stored.

mod array_blocks;
#[cfg(feature = "hdf5")]
mod hdf5;
#[cfg(feature = "hdf5")]
mod hdf5_arrays;
mod netcdf;
mod object_files;
#[cfg(feature = "hdf5")]
mod point_exchange;
mod point_table;
mod resume_point;
mod row_numbering;
mod stream_file;
mod stream_offsets;

#[cfg(feature = "hdf5")]
pub use self::hdf5::Hdf5Target;
pub use self::netcdf::NetcdfTarget;
pub use self::object_files::{Deposit, ObjectTarget, Of};
pub use self::stream_file::FileTarget;
pub use self::stream_offsets::StreamOffsets;

use crate::error::{Error, Result};

/// The stored data of a step: the same streams on all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepBatch {
    /// The step, from 0.
    pub step: u64,
    /// True for the reductions that are stored at the end.
    pub closing: bool,
    /// The streams of the batch, in the order of their declaration.
    pub entries: Vec<BatchEntry>,
}

/// A stream in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchEntry {
    /// The number of the stream.
    pub stream: usize,
    /// The number of samples of each value.
    pub samples: u64,
    /// The number of items of this rank.
    pub items: u64,
}

/// A target of batches: a stream file, or another format.
///
/// All ranks have one and call its methods in the same order; in thread mode, their I/O threads do. Outcomes are the
/// same on all ranks. After an error no method is called.
pub trait OutputTarget: Send {
    /// Stores a batch and makes it visible to readers. Collective: all streams of the batch in one operation. The
    /// declaration has the places of this rank's values; `source` provides their bytes, stream by stream.
    fn write(&mut self, batch: &StepBatch, source: &mut dyn ChunkSource) -> Result<()>;

    /// True if synced data survives a restart of the machine, the same on all ranks. Otherwise no step is reported as
    /// durable. A target around another one returns the answer of that.
    fn is_persistent(&self) -> bool {
        false
    }

    /// Makes all stored batches durable. Collective.
    fn sync(&mut self) -> Result<()>;

    /// Makes everything durable and records that the program has ended after this number of steps. Collective.
    fn finish(self: Box<Self>, steps: u64) -> Result<()>;
}

/// The bytes of this rank in a batch, in chunks that fit a buffer. Each chunk has whole values.
pub trait ChunkSource {
    /// The number of chunks.
    fn chunks(&self) -> u64;

    /// The error of this rank, if it is known before the first chunk is requested.
    fn refusal(&self) -> Option<Error> {
        None
    }

    /// The next chunk; empty after the last one. An error means that this rank has no bytes: it takes part with the
    /// error.
    fn next(&mut self) -> Result<&[u8]>;

    /// The chunk that `next` returned last; empty if it returned none.
    fn current(&self) -> &[u8];
}

/// The source of a rank that takes part with an error.
pub(crate) struct FailedSource(pub(crate) Error);

impl ChunkSource for FailedSource {
    fn chunks(&self) -> u64 {
        1
    }

    fn refusal(&self) -> Option<Error> {
        Some(self.0.clone())
    }

    fn next(&mut self) -> Result<&[u8]> {
        Err(self.0.clone())
    }

    fn current(&self) -> &[u8] {
        &[]
    }
}
