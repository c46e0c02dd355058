//! The seam between streams and where they are stored.

mod array_blocks;
#[cfg(feature = "hdf5")]
mod hdf5;
mod netcdf;
mod object_files;
mod stream_file;
mod stream_offsets;

#[cfg(feature = "hdf5")]
pub use self::hdf5::Hdf5Target;
pub use self::netcdf::NetcdfTarget;
pub use self::object_files::{Deposit, ObjectTarget, Of};
pub use self::stream_file::FileTarget;
pub(crate) use self::stream_file::steps_name;
pub use self::stream_offsets::StreamOffsets;

use crate::error::{Error, Result};

/// What is stored of a step: the same streams on all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepBatch {
    /// The step, from 0.
    pub step: u64,
    /// Whether it is what was left in memory at the end.
    pub closing: bool,
    /// The streams that it holds, in the order of their declaration.
    pub entries: Vec<BatchEntry>,
}

/// A stream in a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchEntry {
    /// Which one.
    pub stream: usize,
    /// Of how many samples a value was made.
    pub samples: u64,
    /// How many items this rank has of it.
    pub items: u64,
}

/// Where parcels are stored: a file of this library, or a format of its own.
///
/// All ranks have one, and call its methods in the same order; in the thread mode, from their I/O threads. An outcome is the same on all
/// ranks. After an error nothing more is asked of it.
pub trait OutputTarget: Send {
    /// Stores a parcel and makes it visible to readers. Collective: all streams of it in one operation. Where this rank's values go, its
    /// declaration says; their bytes come from `supply`, stream by stream.
    fn write(&mut self, parcel: &StepBatch, supply: &mut dyn ChunkSource) -> Result<()>;

    /// Whether what was synced outlives a restart of the machine, the same on all ranks. Where it does not, no step is ever reported as durable. A target
    /// around another one asks that.
    fn is_persistent(&self) -> bool {
        false
    }

    /// Makes durable what was stored so far. Collective.
    fn sync(&mut self) -> Result<()>;

    /// Makes everything durable, notes that the program came to its end after so many steps, and lets go. Collective.
    fn finish(self: Box<Self>, steps: u64) -> Result<()>;
}

/// The bytes of a parcel that this rank has, in chunks that fit a buffer. Each holds whole values.
pub trait ChunkSource {
    /// How many chunks there are.
    fn chunks(&self) -> u64;

    /// Why this rank has no bytes to give, where that is known before they are asked for.
    fn refusal(&self) -> Option<Error> {
        None
    }

    /// The next chunk; nothing behind the last one. An error means that this rank has no bytes to give: it takes part with the error.
    fn next(&mut self) -> Result<&[u8]>;

    /// The chunk that `next` gave last; nothing where it gave none.
    fn current(&self) -> &[u8];
}

/// Ranks that take part with an error.
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
