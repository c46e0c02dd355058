//! The transport among MPI processes: the MPI library is loaded when the program starts, not linked.
//!
//! MPI serves as a wire for packets between processes, and keeps a number where none of our threads may: matching, communicators and
//! collective calls are ours, so that they are the same for threads and processes and never spin. All of it lies in this module, shared
//! with whoever starts from a communicator handle that a host program already has ([`Comm::from_mpi`](crate::Comm::from_mpi)).

pub(crate) mod abi;
mod call_queue;
mod functions;
mod in_flight;
mod launcher;
mod library;
mod loaded_libraries;
mod machine;
mod mpi_transport;
mod session;
mod window;

pub use abi::{Fact, MpiAbi, facts};
pub(crate) use library::{Library, MpiSelection};
pub(crate) use session::{MpiSession, adopt, start};

/// How freely threads may call MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadLevel {
    /// Only one thread exists.
    Single,
    /// Only the thread that started MPI calls it.
    Funneled,
    /// Any thread, one at a time.
    Serialized,
    /// Any thread at any time.
    Multiple,
}

impl ThreadLevel {
    /// All levels, from the least.
    pub const ALL: [Self; 4] = [Self::Single, Self::Funneled, Self::Serialized, Self::Multiple];
}

impl std::str::FromStr for ThreadLevel {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.iter().find(|level| format!("{level:?}").eq_ignore_ascii_case(text));
        known.copied().ok_or_else(|| {
            let detail = format!("{text:?} is no thread level: single, funneled, serialized or multiple");
            crate::Error::new(crate::Kind::InvalidArgument, "run", detail)
        })
    }
}
