//! What an independent access costs each way: a first estimate from measured constants.

use aqueduct_device::Capabilities;

use super::Strategy;
use crate::hints::Hints;

/// The size of an access, as far as its cost depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes from the first to the last one.
    pub span: u64,
    /// Bytes accessed.
    pub bytes: u64,
    /// Contiguous runs they fall into.
    pub runs: u64,
}

/// A system call on the page cache, in nanoseconds.
const CALL: u64 = 700;
/// Bytes moved in a nanosecond.
const BYTES: u64 = 5;
/// Picking a run out of a buffer, in nanoseconds.
const PICK: u64 = 3;

/// A list of scattered runs or one large read, whichever is estimated to be cheaper.
pub(super) fn cheapest_read(extent: &Extent, hints: &Hints, can: &Capabilities) -> Strategy {
    if extent.runs <= 1 || can.native_lists {
        return Strategy::List;
    }
    let list = extent.runs * CALL + extent.bytes / BYTES;
    let windows = extent.span.div_ceil(hints.read_buffer);
    let sieve = windows * CALL + extent.span / BYTES + extent.bytes / BYTES + extent.runs * PICK;
    if sieve < list { Strategy::Sieve } else { Strategy::List }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(span: u64, bytes: u64, runs: u64, native_lists: bool) -> Strategy {
        let can = Capabilities { native_lists, ..Capabilities::default() };
        cheapest_read(&Extent { span, bytes, runs }, &Hints::default(), &can)
    }

    #[test]
    fn dense_small_runs_are_sieved_and_sparse_ones_listed() {
        assert_eq!(choice(4 << 20, 1 << 20, 1 << 18, false), Strategy::Sieve);
        assert_eq!(choice(1 << 40, 400, 100, false), Strategy::List);
        assert_eq!(choice(1 << 20, 1 << 20, 1, false), Strategy::List);
    }

    #[test]
    fn devices_that_like_lists_get_them() {
        assert_eq!(choice(4 << 20, 1 << 20, 1 << 18, true), Strategy::List);
    }
}
