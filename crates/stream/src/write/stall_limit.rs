//! How long a dropped output waits for a writer that itself waits for other ranks.

use std::time::Duration;

use crate::error::{Error, Kind};

/// The longest time without progress: the other ranks may never submit their part. Shorter in unit tests.
pub(crate) const STALL_LIMIT: Duration =
    if cfg!(test) { Duration::from_millis(300) } else { Duration::from_secs(30) };

/// The error of an output that no longer waits for its writer.
pub(crate) fn stalled(writer: &str) -> Error {
    let detail = format!(
        "{writer} has waited for other ranks for {} s; steps that they did not commit are not in the file",
        STALL_LIMIT.as_secs()
    );
    Error::new(Kind::Incomplete, "drop", "the output", detail)
}
