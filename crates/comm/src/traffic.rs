//! Counters of the messages of a communicator, for tests and programs.

use std::sync::atomic::{AtomicU64, Ordering};

/// Messages that a rank has sent through a communicator: point-to-point messages and messages of collective calls. Data exchanged through
/// shared memory is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The number of messages.
    pub messages: u64,
    /// The number of bytes.
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
