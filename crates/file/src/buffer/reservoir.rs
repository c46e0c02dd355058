//! The seam below a buffered file: a level between its memory and the file, such as the memory of ranks that only write.

use crate::error::Result;
use crate::layout::Strip;

/// Takes what a rank has accepted for a file and writes it out in its time. One for each rank and file; `docs/buffering.md` has the promises that it helps
/// to keep. It sees bytes and places: views, representations and pointers are dealt with above it.
///
/// One thread takes, another one waits for [`written`](Self::written), others [`sync`](Self::sync). Every wait ends with an error when whoever
/// writes is gone, and the first error is final.
pub trait Reservoir: Send + Sync {
    /// Bytes of the largest piece that it takes.
    fn capacity(&self) -> usize;

    /// Takes a piece: bytes, and in which runs of the file they belong, in that order. Returns when the caller's memory is free again; waits while
    /// there is no room. Pieces are written in the order in which they were taken.
    fn take(&self, places: &[Strip], bytes: &[u8]) -> Result<()>;

    /// Waits until more than `seen` pieces are in the file; how many are.
    fn written(&self, seen: u64) -> Result<u64>;

    /// Makes everything durable that is in the file.
    fn sync(&self) -> Result<()>;

    /// Nothing more comes, and everything is in the file or has failed: returns when the file is no longer open there.
    fn end(&self);
}
