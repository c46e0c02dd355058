//! Files that the field can open: formats of other systems, in parallel on the engine.
//!
//! A format here is a pure codec of its header and an open file of it that knows [`aqueduct_file::File`] and nothing below: every format inherits
//! collective access, sieving and every device.
//!
//! | module | format | who reads it |
//! |---|---|---|
//! | [`netcdf`] | netCDF classic: CDF-1, CDF-2, CDF-5 | netCDF, `PnetCDF`, xarray, `ParaView` … |
//! | `hdf5` | HDF5, with the feature `hdf5` | h5py, h5dump and all of the field |
//!
//! Conventions, so that output is usable at once:
//!
//! | module | convention | who reads it |
//! |---|---|---|
//! | [`cf`] | CF-1.8 in netCDF: coordinates, units, time | xarray |
//! | `h5md` | H5MD 1.1 in HDF5: trajectories of particles | MDAnalysis |
//! | `vtkhdf` | VTKHDF 2 in HDF5: images and particles, over time | `ParaView`, vtk |
//! | `netcdf4` | netCDF-4 in HDF5: dimension scales, records | netCDF, xarray |
//! | `openpmd` | openPMD 1.1 in HDF5: meshes and particles with units | openPMD-viewer, openPMD-api |
//! | [`xyz`] | extended XYZ, text: atoms in a box | ASE |

mod byte_region;
mod conventions;
mod error;
mod format_file;
#[cfg(feature = "hdf5")]
pub mod hdf5;
mod merge;
pub mod netcdf;
mod selection;

pub use aqueduct_file::hyperslab::Hyperslab;
pub use conventions::{cf, xyz};
#[cfg(feature = "hdf5")]
pub use conventions::{h5md, netcdf4, openpmd, vtkhdf};
pub use error::{Error, Kind, Result};
pub use selection::Selection;
