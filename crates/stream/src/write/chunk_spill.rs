//! Chunks that find no buffer: they wait in a file on a local disk until the I/O thread takes them.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use aqueduct_file::write_behind::{SpillFile, SpillRing};

/// Where chunks are spilled to, and the most bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpillOptions {
    pub(crate) folder: PathBuf,
    pub(crate) bytes: u64,
}

/// The spilled chunks of a rank, in the order in which they were packed.
pub(crate) struct ChunkSpill {
    ring: Mutex<SpillRing>,
    file: SpillFile,
    spilled: AtomicU64,
    /// A chunk could not be stored.
    failed: AtomicBool,
}

/// A chunk in the file: one or two ranges.
#[derive(Debug)]
pub(crate) struct SpilledChunk(Vec<Range<u64>>);

impl ChunkSpill {
    pub(crate) fn new(folder: &Path, bytes: u64) -> io::Result<Self> {
        let ring = Mutex::new(SpillRing::new(bytes));
        Ok(Self {
            ring,
            file: SpillFile::new(folder)?,
            spilled: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        })
    }

    /// Room for a chunk of this number of bytes; none if there is not enough.
    pub(crate) fn take(&self, bytes: usize) -> Option<SpilledChunk> {
        if self.failed.load(Ordering::Relaxed) {
            return None;
        }
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut ranges, mut left) = (Vec::new(), bytes as u64);
        while left > 0 {
            let range = ring.take(left);
            if range.is_empty() {
                ring.take_back(bytes as u64 - left);
                return None;
            }
            left -= range.end - range.start;
            ranges.push(range);
        }
        Some(SpilledChunk(ranges))
    }

    /// Stores a chunk. If that fails its room is free again, and there is no room for later chunks.
    pub(crate) fn store(&self, chunk: &SpilledChunk, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        let mut stored = Ok(());
        for range in &chunk.0 {
            let (now, later) = rest.split_at((range.end - range.start) as usize);
            stored = stored.and_then(|()| self.file.write(range.start, now));
            rest = later;
        }
        match &stored {
            Ok(()) => _ = self.spilled.fetch_add(bytes.len() as u64, Ordering::Relaxed),
            Err(_) => {
                self.cancel(chunk);
                self.failed.store(true, Ordering::Relaxed);
            }
        }
        stored
    }

    /// Frees the room of the newest chunk, which was not stored.
    pub(crate) fn cancel(&self, chunk: &SpilledChunk) {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).take_back(chunk.length());
    }

    /// Reads the oldest chunk, and frees its room.
    pub(crate) fn load(&self, chunk: &SpilledChunk, buffer: &mut Vec<u8>) -> io::Result<()> {
        let length = chunk.length();
        buffer.resize(length as usize, 0);
        let (mut rest, mut loaded) = (&mut buffer[..], Ok(()));
        for range in &chunk.0 {
            let (now, later) = rest.split_at_mut((range.end - range.start) as usize);
            loaded = loaded.and_then(|()| self.file.read(range.start, now));
            rest = later;
        }
        self.free(length);
        loaded
    }

    /// Frees the room of the oldest chunk, which is not needed any more.
    pub(crate) fn discard(&self, chunk: &SpilledChunk) {
        self.free(chunk.length());
    }

    fn free(&self, bytes: u64) {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).give(bytes);
    }

    /// Bytes that were spilled so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.spilled.load(Ordering::Relaxed)
    }
}

impl SpilledChunk {
    fn length(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use aqueduct_testkit::rng::SeededRng;

    #[test]
    fn chunks_come_back_in_order_and_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..50 {
            let mut seed = SeededRng::new(number);
            let spill = ChunkSpill::new(folder.path(), 1000).unwrap();
            let (mut held, mut next, mut buffer) = (VecDeque::new(), 0u8, Vec::new());
            for _ in 0..300 {
                let length = 1 + seed.below(400);
                match spill.take(length) {
                    Some(chunk) if seed.below(3) > 0 => {
                        spill.store(&chunk, &vec![next; length]).unwrap();
                        held.push_back((chunk, next, length));
                        next = next.wrapping_add(1);
                    }
                    // As if the file could not be written.
                    Some(chunk) => spill.cancel(&chunk),
                    None => {
                        let (chunk, value, length) = held.pop_front().expect("a full file has chunks");
                        spill.load(&chunk, &mut buffer).unwrap();
                        assert_eq!(buffer, vec![value; length], "seed {number}");
                    }
                }
            }
        }
    }
}
