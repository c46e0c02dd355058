//! Conventions on the formats, so that common readers open the files.

pub mod cf;
#[cfg(feature = "hdf5")]
pub mod h5md;
#[cfg(feature = "hdf5")]
pub mod vtkhdf;
pub mod xyz;
