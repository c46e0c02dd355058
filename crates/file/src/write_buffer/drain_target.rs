//! The drain target: a level between the write buffer and the file, such as the memory of I/O servers.

use crate::error::Result;
use crate::layout::Strip;

/// Takes the accepted data of a rank for a file and writes it. One per rank and file; `docs/buffering.md` has the guarantees. It gets bytes and
/// their positions: views, representations and file pointers are resolved before.
///
/// One thread calls [`take`](Self::take), another one [`written`](Self::written), others [`sync`](Self::sync). Every wait ends with an error if the
/// writing process has failed, and the first error is final.
pub trait DrainTarget: Send + Sync {
    /// Bytes of the largest piece that it takes.
    fn capacity(&self) -> usize;

    /// Takes a piece: bytes, and the runs of the file they belong to, in that order. Returns when the caller's memory is free again; waits while
    /// there is no memory for it. Pieces are written in the order in which they were taken.
    fn take(&self, places: &[Strip], bytes: &[u8]) -> Result<()>;

    /// Waits until more than `seen` pieces are in the file; how many are.
    fn written(&self, seen: u64) -> Result<u64>;

    /// Makes everything durable that is in the file.
    fn sync(&self) -> Result<()>;

    /// Ends it, when everything is in the file or has failed: returns when the target has closed the file.
    fn end(&self);
}
