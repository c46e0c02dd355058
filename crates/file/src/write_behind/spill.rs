//! The spill file: a ring of bytes on a local disk, without a name, so that it is deleted however the program ends.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A ring of bytes that are allocated and released in order.
#[derive(Clone, Debug)]
pub struct SpillRing {
    size: u64,
    /// The offset of the oldest byte.
    start: u64,
    used: u64,
}

impl SpillRing {
    /// An empty ring of this number of bytes.
    pub fn new(size: u64) -> Self {
        Self { size, start: 0, used: 0 }
    }

    /// Allocates up to so many contiguous bytes after all others; none if the ring is full.
    pub fn take(&mut self, wanted: u64) -> Range<u64> {
        if self.used == self.size || self.size == 0 {
            return 0..0;
        }
        let from = (self.start + self.used) % self.size;
        let until = if from < self.start { self.start } else { self.size };
        let len = wanted.min(until - from);
        self.used += len;
        from..from + len
    }

    /// The newest bytes were not used after all.
    pub fn take_back(&mut self, bytes: u64) {
        self.used -= bytes;
    }

    /// The oldest bytes are free again.
    pub fn give(&mut self, bytes: u64) {
        self.used -= bytes;
        self.start = if self.used == 0 { 0 } else { (self.start + bytes) % self.size };
    }
}

/// The file.
#[derive(Debug)]
pub struct SpillFile {
    file: File,
}

impl SpillFile {
    /// A new file in a folder; it is gone when it is closed.
    pub fn new(folder: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".aqueduct-spill-{}-{number}", std::process::id()));
        // Private from its first moment, whatever the umask: it holds the program's data.
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        fs::remove_file(&path)?;
        Ok(Self { file })
    }

    /// Writes all bytes.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    /// Fills `bytes`; an error if they were not written before.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_never_overlap_and_everything_is_used(size in 0u64..50, wishes in prop::collection::vec(1u64..20, 1..100)) {
            let (mut ring, mut held) = (SpillRing::new(size), VecDeque::<Range<u64>>::new());
            for wish in wishes {
                let piece = ring.take(wish);
                let used: u64 = held.iter().map(|piece| piece.end - piece.start).sum();
                prop_assert!(piece.end <= size && piece.end - piece.start <= wish);
                prop_assert!(held.iter().all(|other| piece.end <= other.start || other.end <= piece.start));
                if piece.is_empty() {
                    prop_assert_eq!(used, size, "room was refused");
                    if let Some(first) = held.pop_front() {
                        ring.give(first.end - first.start);
                    }
                } else {
                    held.push_back(piece);
                }
            }
        }
    }

    #[test]
    fn a_spill_file_is_private_from_its_creation() {
        let folder = tempfile::tempdir().unwrap();
        let spill = SpillFile::new(folder.path()).unwrap();
        let mode = std::os::unix::fs::MetadataExt::mode(&spill.file.metadata().unwrap());
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_spill_file_has_no_name_and_keeps_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let spill = SpillFile::new(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        spill.write(1000, b"later").unwrap();
        let mut back = [0; 5];
        spill.read(1000, &mut back).unwrap();
        assert_eq!(&back, b"later");
        assert!(SpillFile::new(&folder.path().join("missing")).is_err());
    }
}
