//! Access patterns of parallel I/O, measured on the engine of Aqueduct and on the MPI-IO of an MPI library.
//!
//! A [`BenchCase`] is an [access pattern](PATTERNS), whether it is collective, whether it writes or reads, and a size. A [`CaseRunner`] executes
//! it through a [`FileInterface`] on the ranks of a job: it measures the time, and verifies that the file has the bytes that it must have.
//! [`PatternFile`] is what patterns need of a file; [`MpiIo`] has it in the functions `MPI_File_*` of the MPI library that the job has loaded, so
//! that both are compared in one program and without a compiler.

mod access_pattern;
mod bench_case;
mod case_runner;
mod contents;
mod expected_sum;
mod file_interface;
mod lifetime;
mod mpi_file;
mod mpi_functions;
mod object_case;
mod pattern_file;
mod resident_memory;
pub mod timing;
mod view_tree;

pub use access_pattern::{AccessPattern, RankPosition, SHARED_PIECE};
pub use bench_case::{
    BenchCase, CaseDirection, CaseFamily, Coordination, FileState, OPEN_SIZE, PATTERNS, PatternSpec,
    size_with_unit,
};
pub use case_runner::CaseRunner;
pub use contents::{ContentSum, clear, fill, sum_of_file};
pub use expected_sum::expected_sum;
pub use file_interface::FileInterface;
pub use mpi_file::MpiIo;
pub use object_case::ObjectCase;
pub use pattern_file::{EngineFile, FilePosition, PatternFile, PatternOpenOptions};
pub use view_tree::{DatatypeTree, TreeMember, ViewTree};
