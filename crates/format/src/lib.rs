//! Files that the field can open: formats of other systems, in parallel on the engine.
//!
//! A format here is a pure codec of its header and an open file of it that knows [`aqueduct_file::File`] and nothing below: every format inherits
//! collective access, sieving and every device.
//!
//! | module | format | who reads it |
//! |---|---|---|
//! | [`netcdf`] | netCDF classic: CDF-1, CDF-2, CDF-5 | netCDF, `PnetCDF`, xarray, `ParaView` … |

mod combine;
mod error;
#[cfg(feature = "hdf5")]
pub mod hdf5;
pub mod netcdf;
mod region;
mod slab;

pub use error::{Error, Kind, Result};
pub use slab::Slab;
