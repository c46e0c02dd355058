//! The contract of a device: few required methods, lists of pieces as the primitive, generic forms for the rest.

use std::ffi::OsStr;
use std::ops::Range;
use std::sync::Arc;

use crate::{Capabilities, OpenOptions, Piece, PieceMut, Result};

/// How much a sync makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncScope {
    /// The bytes and the length.
    Data,
    /// Also the directory entry: the file is found under its name after a crash.
    Entry,
}

/// How a range is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Many may hold it at once (readers).
    Shared,
    /// One holds it alone (a writer).
    Exclusive,
}

/// A held lock; dropping it unlocks.
pub trait LockGuard: Send {}

/// A place where files live.
///
/// A device is chosen by the prefix of a name (see [`Registry`](crate::Registry)); the name it gets here has lost that prefix.
pub trait Device: Send + Sync {
    /// Opens `name`. Each call gives an independent handle on the same bytes.
    fn open(&self, name: &OsStr, options: &OpenOptions) -> Result<Arc<dyn Handle>>;

    /// Deletes `name`.
    fn delete(&self, name: &OsStr) -> Result<()>;
}

/// An open file: positioned and stateless, to be shared between threads.
///
/// # Contract
/// * A list is worked on in its order. The count returned is the length of the longest *prefix* of the list that was
///   transferred; bytes behind it may or may not have been. A short read means: the end of the file, or an interruption;
///   a read that transfers nothing although something was asked for means the end of the file at the first piece that is not empty.
///   A short write means an interruption. [`HandleExt::read_full`] and [`HandleExt::write_all`] go on until all is done.
/// * An error says how much was transferred before it ([`Error::transferred`](crate::Error::transferred)).
/// * Reads of holes give zeros. Writing behind the end extends the file.
/// * Pieces of a write list may overlap only if they hold equal bytes; empty pieces are allowed anywhere, transfer nothing and never extend the file.
/// * Offsets above `i64::MAX` (also `offset + length`) are `InvalidArgument`.
/// * Concurrent calls are safe; overlapping concurrent writes leave each byte from one of them.
/// * What was written before a successful [`sync`](Handle::sync) survives a crash.
pub trait Handle: Send + Sync {
    /// Fills the pieces, in order, and returns how many bytes were read.
    fn read(&self, pieces: &mut [PieceMut<'_>]) -> Result<u64>;

    /// Writes the pieces, in order, and returns how many bytes were written.
    fn write(&self, pieces: &[Piece<'_>]) -> Result<u64>;

    /// The length in bytes.
    fn len(&self) -> Result<u64>;

    /// Cuts or extends (with zeros) to `len` bytes.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Makes everything written so far durable.
    fn sync(&self, scope: SyncScope) -> Result<()>;

    /// What this open file can do.
    fn capabilities(&self) -> Capabilities;

    /// Reserves space for the first `len` bytes and extends the file to at least that length, as MPI has it.
    ///
    /// The generic form only extends.
    fn preallocate(&self, len: u64) -> Result<()> {
        if self.len()? < len { self.set_len(len) } else { Ok(()) }
    }

    /// Waits (asleep) until the range is free for `kind`, and locks it until the guard is dropped.
    ///
    /// Guards taken through the same or different handles exclude one another as far as [`Capabilities::locks`] says.
    /// The generic form: `Unsupported`.
    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn LockGuard + '_>>;
}

/// What every handle can do, derived from the few required methods.
pub trait HandleExt: Handle {}
