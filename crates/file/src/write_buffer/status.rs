//! The status of a write buffer, as the program sees it.

use std::fmt;

use crate::write_behind::Level;

/// The progress of a rank's buffered writes, and the memory that they use; see [`File::buffering`](crate::File::buffering).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferStatus {
    /// Bytes that the program has written.
    pub accepted: u64,
    /// Of these, bytes that are in the file.
    pub visible: u64,
    /// Of these, bytes that a sync has made durable.
    pub durable: u64,
    /// Memory: blocks and lists.
    pub memory: Level,
    /// Memory of all buffered files of this rank, including blocks that are kept for the next writes.
    pub together: Level,
    /// The spill file.
    pub spill: Level,
    /// Bytes that were handed to the drain target, and are not in the file yet.
    pub away: u64,
    /// How often a write had to wait for memory.
    pub waits: u64,
}

impl fmt::Display for BufferStatus {
    /// One line of text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, memory, together, spill, waits, .. } = self;
        write!(
            f,
            "the first rank's buffer took {accepted} bytes, at most {} of {} bytes of memory",
            memory.peak, memory.cap
        )?;
        if spill.cap > 0 {
            write!(f, " and {} of {} bytes of the spill file", spill.peak, spill.cap)?;
        }
        write!(
            f,
            "; {waits} waits for memory; all its files took at most {} of {} bytes together",
            together.peak, together.cap
        )
    }
}
