//! Ranks that only write: split off the world by one call, they take what the others hand over and store it while those compute.
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_stream::{Options, Reader, Role, Stream, Streams, split_io_servers};
//!
//! Launch::threads(4).run(|world| {
//!     // Three ranks compute, one writes.
//!     match split_io_servers(world, 1)? {
//!         Role::Server(server) => server.serve().map(drop)?,
//!         Role::Compute(crew) => {
//!             let (rank, ranks) = (crew.comm().rank() as u64, crew.comm().size() as u64);
//!             let mut streams = Streams::new();
//!             let level = streams.add::<f64>(Stream::array("level", [ranks, 50]).block([rank, 0], [1, 50]));
//!             let options = Options::new().served_by(&crew);
//!             let mut output = options.create(crew.comm(), "memfs:served", &streams)?;
//!             for step in 0..5 {
//!                 output.step()?.put(level, &[f64::from(step); 50]).commit()?;
//!             }
//!             output.finish()?;
//!         }
//!     }
//!     let reader = Reader::open(world, "memfs:served")?;
//!     let last = reader.step(4).expect("complete");
//!     assert_eq!(reader.read::<f64>("level", last)?, vec![4.0; 150]);
//!     Ok::<_, aqueduct_stream::Error>(())
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```
//!
//! # Who holds what
//! A client packs a step into its part of a *symmetric buffer*, memory that it shares with its server, and tells; the server fetches it
//! from there. What does not fit goes to the server in a message, as far as the server has granted room for it, and lies in the server's
//! private pool until it is written; clients on other nodes send everything so. When there is no room anywhere, `commit` waits.

mod buffer_client;
mod buffered_file_writer;
mod buffered_files;
mod client;
mod dispatcher;
mod gather;
mod job_queue;
mod output_writer;
mod protocol;
mod shared_slots;
mod slot_allocator;
mod split;

pub(crate) use self::client::OutputClient;
pub use self::dispatcher::ServerReport;
pub(crate) use self::protocol::BufferGrant;
pub use self::split::{ComputeGroup, Role, Server, split_io_servers};
