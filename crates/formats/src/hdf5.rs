//! HDF5: groups, attributes and datasets, read and written by all ranks at once.
//!
//! No C library is needed. The metadata is read and written here by the file format specification; the engine moves the data: any number of
//! datasets in one collective operation, from any thread, on every device. `h5py`, `h5dump` and every other program that uses HDF5 open
//! what is written here, and the other way round.
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_formats::Selection;
//! use aqueduct_formats::hdf5::{Hdf5CreateOptions, Hdf5OpenOptions};
//! use aqueduct_object::Object;
//!
//! #[derive(Object, Clone, Debug, PartialEq)]
//! struct Particle { position: [f64; 3], id: u32 }
//!
//! Launch::threads(4).run(|world| {
//!     let mut file = Hdf5CreateOptions::new().replace().create(world, "memfs:run.h5")?;
//!     let (energy, particles) = file.define(|file| {
//!         let energy = file.extendible::<f64>("/observables/energy", &[0, 4], &[16, 4])?;
//!         file.attribute("/observables/energy", "unit", "J")?;
//!         Ok((energy, file.dataset::<Particle>("/particles", &[40])?))
//!     })?;
//!     let rank = world.rank() as u64;
//!     let mine = vec![Particle { position: [rank as f64; 3], id: rank as u32 }; 10];
//!     file.at(particles, 10 * rank..10 * (rank + 1)).all().write(&mine)?;
//!     for step in 0..3 {
//!         file.define(|file| file.extend(energy, step + 1))?;
//!         file.at(energy, [step..step + 1, rank..rank + 1]).all().write(&[0.5 * step as f64])?;
//!         // Marks the data written so far as complete.
//!         file.commit()?;
//!     }
//!     file.close()?;
//!
//!     let file = Hdf5OpenOptions::new().open(world, "memfs:run.h5")?;
//!     assert_eq!(file.is_complete(), Some(true));
//!     let energy = file.dataset("/observables/energy")?;
//!     assert_eq!(file.describe(energy)?.shape, [3, 4]);
//!     let last: Vec<f64> = file.at(energy, Selection::record(2)).all().read_vec()?;
//!     assert_eq!(last, [1.0; 4]);
//!     let particles: Vec<Particle> = file.at(file.dataset("/particles")?, 19..21).all().read_vec()?;
//!     assert_eq!(particles[1].id, 2);
//!     file.close()
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```
//!
//! # Guarantees
//! - A program that ends at any time, also by `kill -9`, leaves a file that every reader can open, and that records which rows of each dataset
//!   are complete: the attribute `aqueduct_complete` of each dataset, and of the root whether all of it is. [`Hdf5File::commit`] sets it after the
//!   data.
//! - Definitions are allowed at any time and are atomic: the file has the old metadata or the new one at any time.
//! - Types are not converted. Objects of constant size are compound types without gaps.
//! - A value beyond the end of a truncated file is an error, not a zero.
//!
//! `docs/hdf5.md` lists what is supported.

mod commit;
mod completion_attribute;
mod data;
mod define;
mod definition_log;
mod file;
mod filters;
mod metadata;
mod model;
mod open;
mod reader;
mod refresh;

pub use data::access::{CollectiveDatasetAccess, DatasetAccess};
pub use data::queue::Hdf5Queue;
pub use data::write_request::Hdf5WriteRequest;
pub use define::Hdf5Definitions;
pub use file::{DatasetId, Hdf5File};
pub use model::attribute::Hdf5Attribute;
pub use model::chunk_location::{ChunkLocation, StoredByteOrder};
pub use model::chunk_table::ChunkFilter;
pub use model::dataset_options::{Hdf5Compression, Hdf5DatasetOptions};
pub use model::datatype::Datatype;
pub use model::link::Hdf5Link;
pub use model::number::numbers;
pub use model::tree::{COMPLETION_ATTRIBUTE, Dataset, Hdf5Object, ObjectTree, ROWS_DIMENSION_ATTRIBUTE};
pub use open::{Hdf5CreateOptions, Hdf5OpenOptions};
