//! Ranks that talk.

mod block;
mod call;
mod calls;
mod collective;
mod comm;
mod error;
mod hub;
mod launch;
mod mailbox;
mod messages;
mod mpi;
mod number;
mod offer;
mod packet;
mod region;
mod rendezvous;
mod threads;
mod topology;
mod wire;

/// What we rely on of each MPI implementation's binary interface, open to inspection and tests.
pub mod abi {
    pub use crate::mpi::{Fact, Flavour, facts};
}

pub use comm::Comm;
pub use error::{Error, Kind, Result};
pub use launch::{Launch, run};
pub use messages::{Receiving, Sending, Source, Status, wait_all, wait_any};
pub use mpi::ThreadLevel;
pub use number::{Number, Op};
pub use packet::Plain;
pub use region::Region;
