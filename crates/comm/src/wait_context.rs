//! The part of the transport that waits need, so that matching and shared memory do not depend on the transport.

use std::time::Duration;

use crate::{Error, Result};

/// What a waiting thread does between two sleeps.
pub(crate) trait MakeProgress {
    /// Does the work that other ranks may depend on. Returns the longest time to sleep; `None`: until woken.
    fn make_progress(&self) -> Option<Duration>;
}

/// The transport as a wait sees it. Ranks are those of the world.
pub(crate) trait WaitContext: MakeProgress + Send + Sync {
    fn rank(&self) -> usize;

    /// True if all ranks are threads of one process: an address of one is valid for all.
    fn shares_addresses(&self) -> bool;

    /// The error of a wait that cannot succeed because a rank of the program has failed: which rank, and why.
    fn failure(&self, call: &'static str) -> Option<Error>;

    /// Records that this rank knows of a failed rank, and of which one if that is known: if this rank fails now, that is the reason.
    fn mark_induced_failure(&self, of: Option<usize>);

    /// Fails if this thread may not transfer messages, so that its wait for one would never end.
    fn check_wait(&self, call: &'static str) -> Result<()>;
}
