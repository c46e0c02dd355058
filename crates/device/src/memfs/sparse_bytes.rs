//! The bytes of one file: chunks of memory, allocated when first written.
//!
//! Locking: an access holds the table of chunks *shared* and each chunk during its copy. Only adding
//! a chunk and changing the length hold the table exclusively, so that truncation and copies exclude each other.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::capacity::MemoryCapacity;
use crate::{Segment, SegmentMut};

/// Bytes per chunk: large enough that a lock per chunk is cheap compared with its copy, small enough that writers rarely conflict.
pub(super) const CHUNK: usize = 64 * 1024;

/// The written part of a chunk; what is missing at its end reads as zeros.
pub(super) type Chunk = RwLock<Vec<u8>>;
pub(super) type Chunks = BTreeMap<u64, Chunk>;

/// A sparse sequence of bytes.
#[derive(Debug)]
pub(super) struct SparseBytes {
    chunks: RwLock<Chunks>,
    len: AtomicU64,
    capacity: Arc<MemoryCapacity>,
    /// What the file takes besides its chunks; given back with it.
    overhead: u64,
}

/// The part of an access that falls into one chunk.
struct ChunkSpan {
    chunk: u64,
    start: usize,
    size: usize,
}

impl ChunkSpan {
    /// The first span of an access of `size` bytes at `offset`.
    fn first(offset: u64, size: usize) -> Self {
        let start = (offset % CHUNK as u64) as usize;
        Self { chunk: offset / CHUNK as u64, start, size: size.min(CHUNK - start) }
    }
}

impl SparseBytes {
    /// An empty file, for which `overhead` was taken from the capacity.
    pub(super) fn new(capacity: Arc<MemoryCapacity>, overhead: u64) -> Self {
        Self { chunks: RwLock::default(), len: AtomicU64::new(0), capacity, overhead }
    }

    pub(super) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Reads the segments up to the first end of file and returns how many bytes that were.
    pub(super) fn read(&self, segments: &mut [SegmentMut<'_>]) -> u64 {
        let chunks = shared(&self.chunks);
        let len = self.len();
        let mut done = 0;
        for segment in segments {
            let there = len.saturating_sub(segment.offset).min(segment.bytes.len() as u64) as usize;
            read_piece(&chunks, segment.offset, &mut segment.bytes[..there]);
            done += there as u64;
            if there < segment.bytes.len() {
                break;
            }
        }
        done
    }

    /// Writes the segments until the budget ends and returns how many bytes that were.
    pub(super) fn write(&self, segments: &[Segment<'_>]) -> u64 {
        let mut chunks = shared(&self.chunks);
        let mut done = 0;
        for segment in segments {
            let mut written = 0;
            while written < segment.bytes.len() {
                let offset = segment.offset + written as u64;
                let span = ChunkSpan::first(offset, segment.bytes.len() - written);
                let Some(chunk) = chunks.get(&span.chunk) else {
                    drop(chunks);
                    if !self.add_chunk(span.chunk) {
                        return done;
                    }
                    chunks = shared(&self.chunks);
                    continue;
                };
                let count = self.write_chunk(chunk, span.start, &segment.bytes[written..written + span.size]);
                if count > 0 {
                    self.reach(offset + count as u64);
                }
                written += count;
                done += count as u64;
                if count < span.size {
                    return done;
                }
            }
        }
        done
    }

    /// The chunks, for a copy.
    pub(super) fn chunks(&self) -> RwLockReadGuard<'_, Chunks> {
        shared(&self.chunks)
    }

    /// The file has at least this length from now on. The table of chunks is held.
    pub(super) fn reach(&self, end: u64) {
        self.len.fetch_max(end, Ordering::AcqRel);
    }

    /// Adds an empty chunk unless there is one; false if there is no memory for it.
    pub(super) fn add_chunk(&self, number: u64) -> bool {
        let overhead = self.capacity.chunk_overhead();
        if !self.capacity.take_all(overhead) {
            return false;
        }
        match alone(&self.chunks).entry(number) {
            Entry::Vacant(place) => {
                place.insert(Chunk::default());
            }
            Entry::Occupied(_) => self.capacity.give(overhead),
        }
        true
    }

    /// Writes into a chunk as much as the budget allows and says how much that was.
    pub(super) fn write_chunk(&self, chunk: &Chunk, start: usize, bytes: &[u8]) -> usize {
        let mut kept = alone(chunk);
        let before = self.capacity.allocated(kept.len());
        let growth = self.capacity.allocated(start + bytes.len()).saturating_sub(before) as u64;
        let granted = self.capacity.take(growth);
        // What was granted of a unit that is not complete cannot be used.
        let usable = granted - granted % self.capacity.allocated(1) as u64;
        self.capacity.give(granted - usable);
        let end = if usable == growth { start + bytes.len() } else { (before as u64 + usable) as usize };
        if end <= start {
            self.capacity.give(usable);
            return 0;
        }
        let bytes = &bytes[..end - start];
        self.allocate(&mut kept, end);
        if kept.len() < start {
            kept.resize(start, 0);
        }
        let (over, behind) = bytes.split_at(bytes.len().min(kept.len() - start));
        kept[start..start + over.len()].copy_from_slice(over);
        kept.extend_from_slice(behind);
        bytes.len()
    }

    /// A chunk, filled with zeros up to `end` if it is shorter; none if there is no memory for all of that.
    pub(super) fn extended<'c>(&self, chunk: &'c Chunk, end: usize) -> Option<RwLockWriteGuard<'c, Vec<u8>>> {
        let mut kept = alone(chunk);
        if kept.len() < end {
            let growth = self.capacity.allocated(end) - self.capacity.allocated(kept.len());
            if !self.capacity.take_all(growth as u64) {
                return None;
            }
            self.allocate(&mut kept, end);
            kept.resize(end, 0);
        }
        Some(kept)
    }

    /// Makes room for a chunk up to `end`, whose memory is taken.
    fn allocate(&self, kept: &mut Vec<u8>, end: usize) {
        if self.capacity.counts_all() {
            let (room, len) = (self.capacity.allocated(end), kept.len());
            kept.reserve_exact(room.saturating_sub(len));
        } else {
            reserve(kept, end);
        }
    }

    pub(super) fn set_len(&self, len: u64) {
        let mut chunks = alone(&self.chunks);
        let first = len.div_ceil(CHUNK as u64);
        let cut = chunks.split_off(&first);
        let mut freed = self.held(&cut);
        if let Some(last) = chunks.get(&(len / CHUNK as u64)) {
            let mut last = alone(last);
            let keep = last.len().min((len % CHUNK as u64) as usize);
            freed += (self.capacity.allocated(last.len()) - self.capacity.allocated(keep)) as u64;
            last.truncate(keep);
            last.shrink_to(self.capacity.allocated(keep));
        }
        self.capacity.give(freed);
        self.len.store(len, Ordering::Release);
    }

    /// How much of the capacity chunks take.
    fn held(&self, chunks: &Chunks) -> u64 {
        let of_chunk = |chunk: &Chunk| {
            self.capacity.allocated(shared(chunk).len()) as u64 + self.capacity.chunk_overhead()
        };
        chunks.values().map(of_chunk).sum()
    }
}

impl Drop for SparseBytes {
    fn drop(&mut self) {
        self.capacity.give(self.overhead + self.held(&shared(&self.chunks)));
    }
}

/// Fills `bytes`, all of it inside the file, from the chunks at `offset`.
fn read_piece(chunks: &Chunks, mut offset: u64, mut bytes: &mut [u8]) {
    while !bytes.is_empty() {
        let span = ChunkSpan::first(offset, bytes.len());
        let (part, rest) = std::mem::take(&mut bytes).split_at_mut(span.size);
        let kept = chunks.get(&span.chunk).map(shared);
        let kept = kept.as_ref().and_then(|kept| kept.get(span.start..)).unwrap_or_default();
        let (copied, zeroed) = part.split_at_mut(kept.len().min(span.size));
        copied.copy_from_slice(&kept[..copied.len()]);
        zeroed.fill(0);
        offset += span.size as u64;
        bytes = rest;
    }
}

/// Allocates up to `end`, doubling so that small appends stay cheap, at most a chunk.
fn reserve(kept: &mut Vec<u8>, end: usize) {
    if end > kept.capacity() {
        let room = end.max(2 * kept.capacity()).min(CHUNK);
        kept.reserve_exact(room - kept.len());
    }
}

pub(super) fn shared<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn alone<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> SparseBytes {
        SparseBytes::new(Arc::new(MemoryCapacity::default()), 0)
    }

    #[test]
    fn holes_are_zeros_and_take_no_memory() {
        let store = store();
        let far = 5 * CHUNK as u64 + 3;
        assert_eq!(store.write(&[Segment::new(far, b"abc")]), 3);
        assert_eq!((store.len(), store.capacity.used()), (far + 3, 6));
        let mut bytes = vec![9; far as usize + 10];
        assert_eq!(store.read(&mut [SegmentMut::new(0, &mut bytes)]), far + 3);
        assert!(bytes[..far as usize].iter().all(|&byte| byte == 0));
        assert_eq!(&bytes[far as usize..], b"abc\x09\x09\x09\x09\x09\x09\x09");
    }

    #[test]
    fn truncated_bytes_read_as_zeros_after_extension() {
        let store = store();
        let bytes = vec![7; 3 * CHUNK];
        store.write(&[Segment::new(0, &bytes)]);
        store.set_len(CHUNK as u64 + 10);
        assert_eq!(store.capacity.used(), CHUNK as u64 + 10);
        store.set_len(3 * CHUNK as u64);
        let mut back = vec![9; 3 * CHUNK];
        assert_eq!(store.read(&mut [SegmentMut::new(0, &mut back)]), 3 * CHUNK as u64);
        assert_eq!(back.iter().position(|&byte| byte == 0), Some(CHUNK + 10));
        assert!(back[CHUNK + 10..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_read_list_stops_at_the_first_end_of_file() {
        let store = store();
        store.write(&[Segment::new(0, b"abcdef")]);
        let (mut a, mut b, mut c) = ([0; 2], [0; 4], [9; 1]);
        let mut segments =
            [SegmentMut::new(0, &mut a), SegmentMut::new(4, &mut b), SegmentMut::new(0, &mut c)];
        assert_eq!(store.read(&mut segments), 4);
        assert_eq!((&a, &b[..2], c), (b"ab", &b"ef"[..], [9]));
    }

    #[test]
    fn empty_pieces_never_extend() {
        let store = store();
        assert_eq!(store.write(&[Segment::new(100, b"")]), 0);
        assert_eq!(store.len(), 0);
    }

    #[test]
    fn concurrent_writers_of_different_ranges_do_not_interfere() {
        let store = store();
        std::thread::scope(|scope| {
            for byte in 1..=4_u8 {
                let store = &store;
                scope.spawn(move || {
                    for step in 0..300_u64 {
                        let offset = (step * 4 + u64::from(byte) - 1) * 1000;
                        assert_eq!(store.write(&[Segment::new(offset, &[byte; 1000])]), 1000);
                    }
                });
            }
        });
        let mut bytes = vec![0; 1_200_000];
        assert_eq!(store.read(&mut [SegmentMut::new(0, &mut bytes)]), 1_200_000);
        let right =
            |(index, block): (usize, &[u8])| block.iter().all(|&byte| usize::from(byte) == index % 4 + 1);
        assert!(bytes.chunks(1000).enumerate().all(right));
    }
}
