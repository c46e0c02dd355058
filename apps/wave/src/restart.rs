//! Checkpoints: those of Aqueduct, written while the run continues, and those of k-Wave, with which a run ends.

mod checkpoint_file;
mod checkpoint_store;
pub mod checkpointer;
pub mod fingerprint;
pub mod saved_run;

use std::path::PathBuf;
use std::time::Duration;

/// When and where checkpoints are written, and whether a run continues at one.
#[derive(Clone, Debug)]
pub struct CheckpointRule {
    /// Where and when.
    pub kind: CheckpointKind,
    /// Continue at the latest checkpoint.
    pub resume: bool,
    /// There must be one.
    pub required: bool,
}

/// The two kinds of checkpoints.
#[derive(Clone, Debug)]
pub enum CheckpointKind {
    /// A folder of generations, written while the run continues.
    Store {
        /// The folder.
        folder: PathBuf,
        /// A device for the files.
        through: Option<String>,
        /// Steps between two checkpoints; none for the best interval.
        every: Option<u64>,
        /// The mean time between failures, for the best interval.
        between_failures: Duration,
        /// The number of generations that are kept.
        keep: usize,
    },
    /// A file of k-Wave: the run ends after it was written.
    File {
        /// The file.
        file: String,
        /// When.
        interval: FileInterval,
    },
}

/// When a run ends with a checkpoint file, counted from its start.
#[derive(Clone, Copy, Debug)]
pub enum FileInterval {
    /// After this time.
    Time(Duration),
    /// After this number of steps.
    Steps(u64),
}
