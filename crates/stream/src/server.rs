//! I/O servers: ranks that write the data of compute ranks, while these continue.
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_stream::{Options, Reader, Role, Stream, Streams, split_io_servers};
//!
//! Launch::threads(4).run(|world| {
//!     // Three ranks compute, one writes.
//!     match split_io_servers(world, 1)? {
//!         Role::Server(server) => server.serve().map(drop)?,
//!         Role::Compute(compute) => {
//!             let (rank, ranks) = (compute.comm().rank() as u64, compute.comm().size() as u64);
//!             let mut streams = Streams::new();
//!             let level = streams.add::<f64>(Stream::array("level", [ranks, 50]).block([rank, 0], [1, 50]));
//!             let options = Options::new().served_by(&compute);
//!             let mut output = options.create(compute.comm(), "memfs:served", &streams)?;
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
//! # Memory
//! A client packs a step into its slots of memory that it shares with its server, and sends the server a header; the server reads
//! the slots. Data that does not fit is sent in messages, within an allowance that the server has granted, and is in the server's
//! pool until it is written. Clients on other nodes send all data in messages. If there is no space, `commit` waits.

mod buffer_client;
mod buffered_file_writer;
mod buffered_files;
mod channel;
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
pub use self::protocol::{decoded_forms, sample_messages};
pub use self::split::{ComputeGroup, Role, Server, split_io_servers, split_io_servers_per_node};
