//! Memory shared by the ranks of a node, for bulk data.
//!
//! `unsafe` here: shared memory is accessed through raw pointers. The safe methods use relaxed atomics of one size, aligned words, so that
//! concurrent accesses get bytes of either rank and are not undefined behaviour (races of accesses of different sizes would be). This
//! has the speed of plain memory accesses. [`SharedRegion::slice`] and [`SharedRegion::slice_mut`] are for layers that exclude
//! conflicting accesses.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::shared_block::SharedBlock;
use crate::{Error, Kind, Result};

const WORD: usize = size_of::<u64>();

/// A block of memory shared by the ranks of a node, initially zero. It is freed when the last rank drops it.
///
/// The ranks must order their accesses; a [`barrier`](crate::Comm::barrier) between a write and a read makes the written bytes visible to
/// the read. Unordered accesses to the same bytes give bytes of either.
#[derive(Clone, Debug)]
pub struct SharedRegion {
    block: Arc<SharedBlock>,
    len: usize,
}

impl SharedRegion {
    /// The first `len` bytes of a block.
    pub(crate) fn new(block: Arc<SharedBlock>, len: usize) -> Self {
        Self { block, len }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `bytes` to `offset`.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.check(offset, bytes.len(), "SharedRegion::write")?;
        let (head, rest) = bytes.split_at(head_of(offset, bytes.len()));
        let (words, tail) = rest.as_chunks::<WORD>();
        let first = offset + head.len();
        self.write_part(offset, head);
        for (at, word) in words.iter().enumerate() {
            self.word(first + at * WORD).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        self.write_part(first + words.len() * WORD, tail);
        Ok(())
    }

    /// Copies the bytes at `offset` into `bytes`.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        self.check(offset, bytes.len(), "SharedRegion::read")?;
        let (head, rest) = bytes.split_at_mut(head_of(offset, bytes.len()));
        let (words, tail) = rest.as_chunks_mut::<WORD>();
        let first = offset + head.len();
        self.read_part(offset, head);
        for (at, word) in words.iter_mut().enumerate() {
            *word = self.word(first + at * WORD).load(Ordering::Relaxed).to_ne_bytes();
        }
        self.read_part(first + words.len() * WORD, tail);
        Ok(())
    }

    /// Writes some bytes of one word without changing the others, even if other ranks write them concurrently.
    fn write_part(&self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let within = offset % WORD;
        let place = |word: u64| {
            let mut word = word.to_ne_bytes();
            word[within..within + bytes.len()].copy_from_slice(bytes);
            Some(u64::from_ne_bytes(word))
        };
        let _ = self.word(offset - within).fetch_update(Ordering::Relaxed, Ordering::Relaxed, place);
    }

    /// Reads some bytes of one word.
    fn read_part(&self, offset: usize, bytes: &mut [u8]) {
        if bytes.is_empty() {
            return;
        }
        let within = offset % WORD;
        let word = self.word(offset - within).load(Ordering::Relaxed).to_ne_bytes();
        bytes.copy_from_slice(&word[within..within + bytes.len()]);
    }

    /// The 64-bit atomic at `offset`, a multiple of 8, shared by all ranks of the node.
    pub fn atomic(&self, offset: usize) -> Result<&AtomicU64> {
        self.check(offset, WORD, "SharedRegion::atomic")?;
        if !offset.is_multiple_of(WORD) {
            let detail = format!("offset {offset} is not a multiple of {WORD}");
            return Err(Error::new(Kind::InvalidArgument, "SharedRegion::atomic", detail));
        }
        Ok(self.word(offset))
    }

    /// The start of the memory, for layers that order their accesses themselves.
    pub fn as_ptr(&self) -> *mut u8 {
        self.block.start()
    }

    /// Populates the page tables of the first `len` bytes on this rank: page faults at the first accesses take several times as long.
    /// Errors are ignored; they occur at the first access instead.
    pub fn populate(&self, len: usize) {
        if cfg!(miri) {
            // Miri does not support this call.
            return;
        }
        let len = len.min(self.len);
        // SAFETY: the block is page-aligned and has at least `len` bytes; populating does not change them.
        let _ =
            unsafe { rustix::mm::madvise(self.as_ptr().cast(), len, rustix::mm::Advice::LinuxPopulateWrite) };
    }

    /// The bytes at `offset`.
    ///
    /// # Safety
    /// The range must lie inside the region, and no rank may write to it while the slice lives.
    pub unsafe fn slice(&self, offset: usize, len: usize) -> &[u8] {
        debug_assert!(self.check(offset, len, "SharedRegion::slice").is_ok());
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.block.start().add(offset), len) }
    }

    /// The bytes at `offset`, mutable.
    ///
    /// # Safety
    /// The range must lie inside the region, and no other code on any rank may read or write it while the slice lives.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn slice_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        debug_assert!(self.check(offset, len, "SharedRegion::slice_mut").is_ok());
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.block.start().add(offset), len) }
    }

    /// The word at `offset`, a multiple of its size.
    // A page has the largest alignment.
    #[allow(clippy::cast_ptr_alignment)]
    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: callers have checked the range and the alignment; a block is page-aligned, consists of whole words and lives as long
        // as the region.
        unsafe { AtomicU64::from_ptr(self.block.start().add(offset).cast()) }
    }

    fn check(&self, offset: usize, len: usize, call: &'static str) -> Result<()> {
        if offset.checked_add(len).is_some_and(|end| end <= self.len) {
            return Ok(());
        }
        let detail = format!("{len} bytes at {offset} exceed the region of {} bytes", self.len);
        Err(Error::new(Kind::InvalidArgument, call, detail))
    }
}

/// The number of the `len` bytes at `offset` before the first whole word.
fn head_of(offset: usize, len: usize) -> usize {
    (offset.next_multiple_of(WORD) - offset).min(len)
}
