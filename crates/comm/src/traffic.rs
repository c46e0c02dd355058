//! How much a communicator has sent between nodes and ranks: counts that tests and programs look at.

use std::sync::atomic::{AtomicU64, Ordering};

/// Messages that a rank has sent through a communicator, its own and those of its collective calls. What ranks of a node tell each
/// other through memory they share is no message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many.
    pub messages: u64,
    /// Bytes in them.
    pub bytes: u64,
}

#[derive(Default)]
pub(crate) struct TrafficCounter {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl TrafficCounter {
    pub(crate) fn count(&self, bytes: usize) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Traffic {
        Traffic { messages: self.messages.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}
