//! The module `aqueduct_io._native`: files, streams, objects and checkpoints for the Python package `aqueduct-io`.
//!
//! The package in `python/aqueduct_io` is what programs use; it chooses types and checks arguments. This module passes bytes: memory comes by
//! the buffer protocol, with any strides, and is described by a [`Layout`](aqueduct::file::layout::Layout).
//!
//! Two rules hold for every function here:
//! - What may wait (collective calls, files, I/O threads) runs detached from the interpreter. Ranks that are threads of one interpreter would
//!   otherwise wait for each other.
//! - An argument that cannot be used does not keep a rank from a collective call: the rank takes part and fails, so that all ranks learn of it.

#![allow(clippy::needless_pass_by_value, reason = "arguments of Python are extracted into values")]

mod access;
mod comm;
mod datatype;
mod error;
mod file;
mod file_options;
mod handle;
mod hdf5;
mod memory;
mod netcdf;
mod objects;
mod output;
mod reader;
mod store;

use pyo3::prelude::*;

/// The compiled part of `aqueduct_io`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<comm::RankComm>()?;
    module.add_class::<file::RawFile>()?;
    module.add_class::<hdf5::RawHdf5>()?;
    module.add_class::<netcdf::RawNetcdf>()?;
    module.add_class::<objects::RawObjects>()?;
    module.add_class::<output::RawOutput>()?;
    module.add_class::<reader::RawReader>()?;
    module.add_class::<store::RawStore>()?;
    module.add_class::<store::RawGeneration>()?;
    module.add_function(wrap_pyfunction!(comm::run, module)?)?;
    module.add_function(wrap_pyfunction!(objects::write_objects, module)?)?;
    module.add_function(wrap_pyfunction!(store::best_interval, module)?)
}
