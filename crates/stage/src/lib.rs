//! Hidden output: a time-stepping program declares once what it wants stored, hands its arrays over every step, and computes on.
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_stage::{Cuboid, Output, Reader, Reduction, Stream, Streams};
//!
//! Launch::threads(4).run(|world| {
//!     // A 40 × 30 array: each rank holds ten rows of it.
//!     let first = 10 * world.rank() as u64;
//!     let stream = |name| Stream::array(name, [40, 30]).block([first, 0], [10, 30]);
//!     let mut streams = Streams::new();
//!     let everything = streams.add::<f64>(stream("pressure"));
//!     let corner = stream("corner").cuboids([Cuboid::new([0, 0], [15, 5])]).reduce(Reduction::Max);
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
//!     let end = reader.closing().expect("what was reduced is stored at the end");
//!     assert_eq!(reader.read::<f64>("corner", end)?, vec![9.0; 75]);
//!     Ok::<_, aqueduct_stage::Error>(())
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```
//!
//! | | |
//! |---|---|
//! | [`Stream`], [`Streams`] | what is stored: arrays in blocks, cuboids, points, lists of values and of typed objects; reductions |
//! | [`Options`], [`Mode`] | who writes: the program, an I/O thread, leaders of groups, servers, or what pays; buffers, memory, durability |
//! | [`split`], [`Role`], [`Crew`], [`Server`] | ranks that only write |
//! | [`Output`], [`Step`] | handing steps over |
//! | [`Receipt`], [`Safety`], [`Progress`] | accepted, visible and durable are different things |
//! | [`Reader`], [`Objects`] | which steps are complete, their values and their objects |
//! | [`target`] | the seam: where parcels are stored; netCDF, HDF5 and object files |
//!
//! What is promised is in `docs/streams.md`, the bytes are in `docs/format-stream.md`.

mod accumulator;
mod activity;
mod choice;
mod chooser;
mod cuboid;
mod cuts;
mod declared;
mod description;
mod driver;
mod encoding;
mod error;
mod group;
mod helm;
mod meter;
mod options;
mod output;
mod packing;
mod piece;
mod pin;
mod progress;
mod reader;
mod record;
mod relay;
mod server;
mod stream;
mod sum;
pub mod target;
mod value;
mod worker;

pub use chooser::Change;
pub use cuboid::Cuboid;
pub use declared::Declared;
pub use description::{About, Region};
pub use error::{Error, Kind, Result};
pub use options::{Mode, Options};
pub use output::{Output, Report, Step};
pub use progress::{Progress, Receipt, Safety};
pub use reader::{Lost, Objects, Prefetched, Reader, Stored};
pub use server::{Crew, Role, Server, Service, split};
pub use stream::{Key, ObjectKey, Reduction, Stream, Streams};
pub use value::{Value, ValueKind};
