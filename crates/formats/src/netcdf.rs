//! netCDF classic: the versions CDF-1, CDF-2 and CDF-5, read and written by all ranks at once.
//!
//! A file has *dimensions* (one of them may be unlimited), *variables* (arrays over these dimensions) and *attributes* (what
//! is said about the file or a variable). All that
//! netCDF programs (`ncdump`, xarray, `ParaView`, `PnetCDF`) write in these versions is read here, and the other way round.
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_formats::netcdf::{NetcdfCreateOptions, NetcdfOpenOptions, Selection, NcType};
//!
//! Launch::threads(4).run(|world| {
//!     let mut dataset = NetcdfCreateOptions::new().replace().create(world, "memfs:weather.nc")?;
//!     let temperature = dataset.define(|file| {
//!         let (time, x) = (file.unlimited("time")?, file.dimension("x", 100)?);
//!         let temperature = file.variable("temperature", NcType::Float, &[time, x])?;
//!         file.attribute_of(temperature, "units", "K")?;
//!         Ok(temperature)
//!     })?;
//!     // Each rank has a quarter of each record …
//!     let mine = 25 * world.rank() as u64..25 * (world.rank() as u64 + 1);
//!     for step in 0..3 {
//!         dataset.at(temperature, [step..step + 1, mine.clone()]).all().write(&[270.0 + step as f32; 25])?;
//!         // … and the step is part of the file, or is not.
//!         dataset.commit()?;
//!     }
//!     dataset.close()?;
//!
//!     let dataset = NetcdfOpenOptions::new().open(world, "memfs:weather.nc")?;
//!     let temperature = dataset.variable("temperature")?;
//!     assert_eq!(dataset.shape(temperature)?, [3, 100]);
//!     assert_eq!(dataset.describe(temperature)?.attribute("units").and_then(|units| units.text()), Some("K"));
//!     let last: Vec<f32> = dataset.at(temperature, Selection::record(2)).all().read_vec()?;
//!     assert_eq!(last, [272.0; 100]);
//!     dataset.close()
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```
//!
//! # Definitions at any time
//! There is no define mode. [`NetcdfFile::define`] adds a batch of definitions whenever that is wanted, before and after data
//! is written. Space is left for them (64 KiB behind
//! the header and as much before the records). A definition that would make data move is refused; [`NetcdfFile::rearrange`]
//! does it and copies the data. Nothing is copied
//! silently.
//!
//! # Many accesses as one
//! A [`NetcdfQueue`] takes accesses to many variables; the file layer sees one.
//!
//! # Guarantees
//! - Records are committed by their number, written last: after a crash the file has the records of the last [`commit`](NetcdfFile::commit).
//! - Nothing is filled unless [`NetcdfFile::fill`] is called: unwritten values are zero, as with `PnetCDF`, unlike the serial netCDF library.
//! - A value beyond the end of a truncated file is an error, not a zero.
//! - Types are not converted: an `f64` goes to a `double`. The bytes of `char` are `u8`.
//! - A damaged or hostile header is an error that names the byte; nothing larger than the file is ever allocated for it.
//!
//! `docs/netcdf.md` lists what is supported.

mod access;
#[cfg(feature = "ndarray")]
mod array_access;
mod byteswap;
mod data_move;
mod define;
mod file;
mod fill;
mod header;
mod header_decode;
mod header_encode;
mod header_swap;
mod layout_planner;
mod name;
mod nc_type;
mod open;
mod queue;
mod sizes;
mod slab_bytes;
mod value;
mod version;

pub use crate::selection::Selection;
pub use access::{CollectiveVariableAccess, VariableAccess};
pub use define::NetcdfDefinitions;
pub use file::NetcdfFile;
pub use header::{Attribute, DimensionId, NetcdfDimension, NetcdfHeader, Variable, VariableId};
pub use header_decode::NetcdfHeaderError;
pub use nc_type::NcType;
pub use open::{NetcdfCreateOptions, NetcdfOpenOptions};
pub use queue::NetcdfQueue;
pub use value::{NetcdfValue, Values};
pub use version::CdfVersion;
