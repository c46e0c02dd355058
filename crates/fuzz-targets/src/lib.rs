//! Fuzz targets for every decoder of the project.
//!
//! A target takes any bytes. It must return: no panic, no hang, and no more memory than a bound that depends on the length of the
//! input. If a decoder refuses the bytes, the target checks that the error message names the file.
//!
//! Two programs run the targets: `cargo +nightly fuzz run NAME` (the folder `fuzz`) and, on stable and in CI, the test `smoke` of
//! this crate, which applies seeded [mutations](Mutator) to the [seed inputs](FuzzTarget::seeds).
//!
//! | target | decodes |
//! |---|---|
//! | `netcdf` | netCDF classic: the header, then all variables |
//! | `hdf5_metadata` | HDF5 files: their metadata and values (feature `hdf5`) |
//! | `object_file` | `.meta` and data of object files |
//! | `encoded_objects` | encoded objects |
//! | `stream_file` | `.steps` and data of stream files |
//! | `server_messages` | messages between clients and I/O servers |
//! | `checkpoint_manifest` | the manifest of a checkpoint generation |
//! | `cell_file` | header, cell table and rows of cell files |
//! | `mardyn_ascii`, `mardyn_binary`, `mardyn_netcdf`, `mardyn_cells` | the phase-space files of `MarDyn`: text and XML headers, rows |
//! | `device_name` | device names with the parameters of layers, and quantities |
//! | `rank_trace` | the trace of a rank, and planning its accesses again |
//! | `hints` | hint files and hint values |
//! | `tunnel_frames` | frames of remote memory: heads, requests, answers, greetings |

mod cell_file;
mod checkpoint_manifest;
mod device_name;
mod encoded_objects;
#[cfg(feature = "hdf5")]
mod hdf5_metadata;
mod hints;
mod input;
mod mardyn;
mod netcdf;
mod object_file;
mod rank_trace;
mod server_messages;
mod stream_file;
mod tunnel_frames;

pub use aqueduct_testkit::mutator::Mutator;

/// A decoder under test.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// Its name, which is also the name of the cargo-fuzz target.
    pub name: &'static str,
    /// Decodes the bytes and returns whether the decoder accepted them; panics if it violates its contract.
    pub run: fn(&[u8]) -> bool,
    /// Valid inputs, from which mutations start.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words of the format that mutations insert.
    pub words: &'static [&'static str],
}

/// All targets.
pub const TARGETS: &[FuzzTarget] = &[
    netcdf::TARGET,
    #[cfg(feature = "hdf5")]
    hdf5_metadata::TARGET,
    object_file::TARGET,
    encoded_objects::TARGET,
    stream_file::TARGET,
    server_messages::TARGET,
    checkpoint_manifest::TARGET,
    cell_file::TARGET,
    mardyn::ASCII,
    mardyn::BINARY,
    mardyn::NETCDF,
    mardyn::CELLS,
    device_name::TARGET,
    hints::TARGET,
    rank_trace::TARGET,
    tunnel_frames::TARGET,
];

/// Runs the target of this name over one input.
///
/// # Panics
/// If there is no such target, or if the decoder violates its contract.
pub fn run_target(name: &str, input: &[u8]) -> bool {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.unwrap_or_else(|| panic!("there is no fuzz target {name}")).run)(input)
}
