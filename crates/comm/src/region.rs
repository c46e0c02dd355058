//! Memory that the ranks of a node have in common, for bulk data.
//!
//! `unsafe` here: shared memory is reached through raw pointers. The safe methods copy it word by word with relaxed atomics, so
//! that ranks that race get some bytes of either, never undefined behaviour; on the machines we know that runs at the speed of
//! memory. [`Region::slice`] and [`Region::slice_mut`] are for layers that prove their ranks apart.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::block::Block;
use crate::call::{Call, Verb};
use crate::collective::Collective;
use crate::{Comm, Error, Kind, Result};

const WORD: usize = size_of::<u64>();

/// A block of memory shared by the ranks of a node, zero at first. It goes when the last rank drops it.
///
/// Who writes where and when is up to the ranks; a [`barrier`](Comm::barrier) between a write and a read makes the one visible
/// to the other. Unordered accesses to the same bytes give bytes of either.
#[derive(Clone, Debug)]
pub struct Region {
    block: Arc<Block>,
    len: usize,
}

impl Comm {
    /// Memory of `len` bytes shared by the ranks of this communicator that are on one node (each node has its own). Collective,
    /// with the same `len` on all ranks.
    #[doc(alias = "MPI_Win_allocate_shared")]
    pub fn region(&self, len: usize) -> Result<Region> {
        let topology = &self.inner.topology;
        let leader = topology.neighbours(self.rank())[0];
        let meeting = Collective::begin(&self.inner, Call::new(Verb::Region).size(len))?;
        let block = meeting.common_block(Some(leader), len, |_| ())?.expect("every rank has a leader");
        Ok(Region { block, len })
    }
}

impl Region {
    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `bytes` to `offset`.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.check(offset, bytes.len(), "Region::write")?;
        // SAFETY: inside the block, just checked.
        let start = unsafe { self.block.start().add(offset) };
        let head = start.align_offset(WORD).min(bytes.len());
        let (head_bytes, rest) = bytes.split_at(head);
        let (words, tail_bytes) = rest.as_chunks::<WORD>();
        for (at, byte) in head_bytes.iter().enumerate() {
            self.byte(offset + at).store(*byte, Ordering::Relaxed);
        }
        for (at, word) in words.iter().enumerate() {
            self.word(offset + head + at * WORD).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        let tail = offset + bytes.len() - tail_bytes.len();
        for (at, byte) in tail_bytes.iter().enumerate() {
            self.byte(tail + at).store(*byte, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Copies the bytes at `offset` into `bytes`.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        self.check(offset, bytes.len(), "Region::read")?;
        // SAFETY: inside the block, just checked.
        let start = unsafe { self.block.start().add(offset) };
        let head = start.align_offset(WORD).min(bytes.len());
        let tail = offset + bytes.len() - (bytes.len() - head) % WORD;
        let (head_bytes, rest) = bytes.split_at_mut(head);
        let (words, tail_bytes) = rest.as_chunks_mut::<WORD>();
        for (at, byte) in head_bytes.iter_mut().enumerate() {
            *byte = self.byte(offset + at).load(Ordering::Relaxed);
        }
        for (at, word) in words.iter_mut().enumerate() {
            *word = self.word(offset + head + at * WORD).load(Ordering::Relaxed).to_ne_bytes();
        }
        for (at, byte) in tail_bytes.iter_mut().enumerate() {
            *byte = self.byte(tail + at).load(Ordering::Relaxed);
        }
        Ok(())
    }

    /// The 64-bit atomic at `offset`, a multiple of 8: a counter or pointer that all ranks of the node share.
    pub fn atomic(&self, offset: usize) -> Result<&AtomicU64> {
        self.check(offset, WORD, "Region::atomic")?;
        if !offset.is_multiple_of(WORD) {
            let detail = format!("offset {offset} is not a multiple of {WORD}");
            return Err(Error::new(Kind::InvalidArgument, "Region::atomic", detail));
        }
        Ok(self.word(offset))
    }

    /// The bytes from `offset`, as they lie there.
    ///
    /// # Safety
    /// The range must lie inside the region, and no rank may write to it while the slice lives.
    pub unsafe fn slice(&self, offset: usize, len: usize) -> &[u8] {
        debug_assert!(self.check(offset, len, "Region::slice").is_ok());
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.block.start().add(offset), len) }
    }

    /// The bytes from `offset`, to be written in place.
    ///
    /// # Safety
    /// The range must lie inside the region, and nobody else, this rank included, may read or write it while the slice lives.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn slice_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        debug_assert!(self.check(offset, len, "Region::slice_mut").is_ok());
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.block.start().add(offset), len) }
    }

    fn byte(&self, offset: usize) -> &AtomicU8 {
        // SAFETY: callers have checked the range; the block lives as long as the region.
        unsafe { AtomicU8::from_ptr(self.block.start().add(offset)) }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: callers have checked the range and the alignment; the block lives as long as the region and is page-aligned.
        unsafe { AtomicU64::from_ptr(self.block.start().add(offset).cast()) }
    }

    fn check(&self, offset: usize, len: usize, call: &'static str) -> Result<()> {
        if offset.checked_add(len).is_some_and(|end| end <= self.len) {
            return Ok(());
        }
        let detail = format!("bytes {offset}..+{len} lie outside a region of {}", self.len);
        Err(Error::new(Kind::InvalidArgument, call, detail))
    }
}
