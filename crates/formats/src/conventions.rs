//! Conventions on the formats, so that common readers open the files.

pub mod cf;
#[cfg(feature = "hdf5")]
pub mod h5md;
#[cfg(feature = "hdf5")]
pub mod netcdf4;
#[cfg(feature = "hdf5")]
pub mod openpmd;
#[cfg(feature = "hdf5")]
mod point_field;
#[cfg(feature = "hdf5")]
pub mod vtkhdf;
pub mod xyz;
