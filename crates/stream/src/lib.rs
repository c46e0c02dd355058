//! Asynchronous output: a time-stepping program declares its streams once, passes its arrays in every step, and
//! continues to compute.
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_stream::{Hyperslab, Output, Reader, Reduction, Stream, Streams};
//!
//! Launch::threads(4).run(|world| {
//!     // A 40 × 30 array: each rank holds ten rows of it.
//!     let first = 10 * world.rank() as u64;
//!     let stream = |name| Stream::array(name, [40, 30]).block([first, 0], [10, 30]);
//!     let mut streams = Streams::new();
//!     let everything = streams.add::<f64>(stream("pressure"));
//!     let corner = stream("corner").cuboids([Hyperslab::new([0, 0], [15, 5])]).reduce(Reduction::Max);
//!     let corner = streams.add::<f64>(corner);
//!
//!     let mut output = Output::create(world, "memfs:pressure", &streams)?;
//!     for step in 0..10 {
//!         let field = vec![f64::from(step); 300]; // … computed …
//!         output.step()?.put(everything, &field).put(corner, &field).commit()?;
//!     }
//!     println!("{:?}", output.finish()?);
//!
//!     let reader = Reader::open(world, "memfs:pressure")?;
//!     let last = reader.step(9).expect("all steps are complete");
//!     assert_eq!(reader.read::<f64>("pressure", last)?, vec![9.0; 1200]);
//!     let end = reader.closing().expect("reductions are stored at the end");
//!     assert_eq!(reader.read::<f64>("corner", end)?, vec![9.0; 75]);
//!     Ok::<_, aqueduct_stream::Error>(())
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```
//!
//! | | |
//! |---|---|
//! | [`Stream`], [`Streams`] | what is stored: arrays in blocks, boxes, points, lists of values and of typed objects;
//! reductions |
//! | [`Options`], [`OutputMode`] | which ranks and threads write; buffers, memory, durability |
//! | [`split_io_servers`], [`split_io_servers_per_node`], [`Role`], [`ComputeGroup`], [`Server`] | I/O servers |
//! | [`Output`], [`OutputStep`] | writing steps |
//! | [`Receipt`], [`Durability`], [`OutputProgress`], [`PendingFlush`] | the progress of steps: accepted, visible, durable |
//! | [`Reader`], [`StepObjects`] | complete steps, their values and their objects |
//! | [`target`] | where batches are stored: stream files, netCDF, HDF5, object files, user-defined targets |
//!
//! `docs/streams.md` has the guarantees, `docs/format-stream.md` the file format.

mod aggregate;
mod declare;
mod error;
mod options;
mod output;
mod pack;
mod reader;
mod resume_state;
mod server;
mod steps_file;
mod steps_format;
pub mod target;
mod value;
mod wire;
mod write;

pub use aqueduct_file::hyperslab::Hyperslab;
pub use declare::array_storage::{ArrayStorage, StreamAttribute};
pub use declare::declaration::Declaration;
pub use declare::rank_points::PointRun;
pub use declare::stream::{ObjectKey, Reduction, Stream, StreamKey, StreamKindKey, Streams};
pub use declare::stream_info::{StreamInfo, StreamRegion};
pub use error::{Error, Kind, Result};
pub use options::Options;
pub use output::{Output, OutputReport, OutputStep};
pub use reader::{IncompleteStep, PrefetchStats, Reader, StepObjects, StoredStep};
pub use resume_state::ResumeState;
pub use server::{ComputeGroup, Role, Server, ServerReport, split_io_servers, split_io_servers_per_node};
#[doc(hidden)]
pub use server::{decoded_forms, sample_messages};
pub use value::{StreamValue, ValueKind};
pub use write::mode_policy::OutputMode;
pub use write::progress::{Durability, OutputProgress, PendingFlush, Receipt};
