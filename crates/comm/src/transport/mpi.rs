//! The transport between MPI processes. The MPI library is loaded at run time, not linked.
//!
//! MPI transfers packets between processes and provides one-sided counters. Matching, communicators and collective calls are implemented
//! in this crate, so that they are the same for threads and processes and do not spin. The module also serves communicators of a host
//! program ([`Comm::from_mpi`](crate::Comm::from_mpi)).

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

/// The thread support level of MPI.
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
    /// All levels, ascending.
    pub const ALL: [Self; 4] = [Self::Single, Self::Funneled, Self::Serialized, Self::Multiple];
}

impl std::str::FromStr for ThreadLevel {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.iter().find(|level| format!("{level:?}").eq_ignore_ascii_case(text));
        known.copied().ok_or_else(|| {
            let detail =
                format!("{text:?} is not a thread level; give single, funneled, serialized or multiple");
            crate::Error::new(crate::Kind::InvalidArgument, "run", detail)
        })
    }
}
