//! The contract of a device: few required methods, lists of pieces as the primitive, generic forms for the rest.

use std::ffi::OsStr;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::segment::{self, SegmentRange};
use crate::{Capabilities, DeviceOpenOptions, Error, Kind, Mapping, Operation, Result, Segment, SegmentMut};

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

/// An access to a part of a file where it lies in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedAccess {
    /// The file from the first to the last byte of it.
    pub range: Range<u64>,
    /// How many bytes of the range are accessed.
    pub bytes: u64,
    /// Whether they are written.
    pub write: bool,
}

impl MappedAccess {
    /// The operation that it stands for.
    pub fn operation(&self) -> Operation {
        if self.write { Operation::Write } else { Operation::Read }
    }
}

/// A held lock; dropping it unlocks.
pub trait LockGuard: Send {}

/// A place where files live.
///
/// A device is chosen by the prefix of a name (see [`Registry`](crate::Registry)); the name it gets here has lost that prefix.
pub trait Device: Send + Sync {
    /// Opens `name`. Each call gives an independent handle on the same bytes.
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>>;

    /// Deletes `name`.
    fn delete(&self, name: &OsStr) -> Result<()>;

    /// Deletes `name` to make room for another file of that name; its bytes may be taken back while the program goes on.
    ///
    /// The generic form only deletes.
    fn delete_in_background(&self, name: &OsStr) -> Result<()> {
        self.delete(name)
    }
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
#[expect(clippy::len_without_is_empty, reason = "is_empty is derived, in HandleExt")]
pub trait Handle: Send + Sync {
    /// Fills the pieces, in order, and returns how many bytes were read.
    fn read(&self, pieces: &mut [SegmentMut<'_>]) -> Result<u64>;

    /// Writes the pieces, in order, and returns how many bytes were written.
    fn write(&self, pieces: &[Segment<'_>]) -> Result<u64>;

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

    /// A sync of these bytes will follow: whatever holds them back may begin to write them out. Nothing is promised, and what fails the sync tells.
    ///
    /// The generic form: nothing.
    fn start_writeback(&self, range: Range<u64>) {
        let _ = range;
    }

    /// Hears that a range is about to be written, all of it and for the first time: space for it may be taken at once, which is cheaper than page by
    /// page. The length stays as it is, and what cannot be is left to the write.
    ///
    /// The generic form: forgotten.
    fn advise_will_write(&self, range: Range<u64>) {
        let _ = range;
    }

    /// Waits (asleep) until the range is free for `kind`, and locks it until the guard is dropped.
    ///
    /// Guards taken through the same or different handles exclude one another as far as [`Capabilities::locks`] says.
    /// The generic form: `Unsupported`.
    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn LockGuard + '_>> {
        let _ = kind;
        Err(Error::new(Kind::Unsupported, Operation::Lock, "").at(range.start))
    }

    /// As [`lock`](Handle::lock), without waiting: none if someone else holds it.
    ///
    /// The generic form: `Unsupported`.
    fn try_lock(&self, range: Range<u64>, kind: LockKind) -> Result<Option<Box<dyn LockGuard + '_>>> {
        let _ = kind;
        Err(Error::new(Kind::Unsupported, Operation::Lock, "").at(range.start))
    }

    /// Forgets what this node has cached of a range and of the length of the file, so that the next [`read`](Handle::read) and
    /// [`len`](Handle::len) return what other nodes have written. For files that are not [coherent](Capabilities::coherent) between
    /// nodes, while the range is locked. With an empty range only the length is asked for again.
    ///
    /// The generic form: nothing is cached.
    fn revalidate(&self, range: Range<u64>) -> Result<()> {
        let _ = range;
        Ok(())
    }

    /// Takes a remark on what is done through this handle, such as why it is done this way, where [`Capabilities::keeps_annotations`] says that
    /// someone keeps it.
    ///
    /// The generic form: forgotten.
    fn annotate(&self, remark: &dyn fmt::Display) {
        let _ = remark;
    }

    /// Whether nothing was stored so far at a place inside of the file: whoever writes there makes the pages.
    ///
    /// The generic form: no.
    fn is_hole(&self, place: u64) -> bool {
        let _ = place;
        false
    }

    /// A part of the file, or more of it, as memory; none where [`Capabilities::maps`] says no, or the system. Then there is still
    /// [`read`](Handle::read) and [`write`](Handle::write), which also tell why.
    ///
    /// The generic form: none.
    fn map(&self, range: Range<u64>) -> Option<Mapping> {
        let _ = range;
        None
    }

    /// Does an access to a [mapped](Handle::map) part of the file by calling `copy`, which tells whether it took place in the file; returns
    /// what `copy` told. Every access to a mapping goes through this, so that layers see it, delay it or fail it. False means that
    /// the access has to be done by [`read`](Handle::read) or [`write`](Handle::write).
    ///
    /// The generic form: only calls `copy`.
    fn access_mapped(&self, access: &MappedAccess, copy: &mut dyn FnMut() -> bool) -> Result<bool> {
        let _ = access;
        Ok(copy())
    }

    /// Gives this reference up. The last one closes the file, all descriptors of it, and returns what closing reports: network file
    /// systems tell of a full disk, a quota or an error of the medium only then. What was stored to mapped pages is reported here at
    /// the latest if the file system is known to have lost it. Dropping the last reference closes the file too, and reports nothing.
    ///
    /// The generic form: only drops the reference.
    fn close(self: Arc<Self>) -> Result<()> {
        Ok(())
    }
}

/// What every handle can do, derived from the few required methods.
pub trait HandleExt: Handle {
    /// Fills `bytes` from `offset` on; returns less only at the end of the file.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<u64> {
        self.read_full(&mut [SegmentMut::new(offset, bytes)])
    }

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_all(&[Segment::new(offset, bytes)])
    }

    /// Fills the pieces, going on after short reads; returns less only at the end of the file.
    fn read_full(&self, pieces: &mut [SegmentMut<'_>]) -> Result<u64> {
        let wanted = segment::total_mut(pieces);
        let mut done = self.read(pieces)?;
        while done < wanted {
            match self.read(&mut segment::rest_mut(pieces, done)) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) => return Err(later(error, done)),
            }
        }
        Ok(done)
    }

    /// Writes all of the pieces, going on after short writes.
    fn write_all(&self, pieces: &[Segment<'_>]) -> Result<()> {
        let wanted = segment::total(pieces);
        let mut done = self.write(pieces)?;
        while done < wanted {
            match self.write(&segment::rest(pieces, done)) {
                Ok(0) => return Err(stuck(pieces, done)),
                Ok(count) => done += count,
                Err(error) => return Err(later(error, done)),
            }
        }
        Ok(())
    }

    /// Whether the file has length zero.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
}

impl<T: Handle + ?Sized> HandleExt for T {}

/// The error as seen by a caller for whom `done` bytes went before the call that failed.
fn later(error: Error, done: u64) -> Error {
    let transferred = done + error.transferred();
    error.after(transferred)
}

/// A device that writes nothing and reports no error would keep its caller in a loop.
fn stuck<E: SegmentRange>(pieces: &[E], done: u64) -> Error {
    let error = Error::new(Kind::Io, Operation::Write, "").at(segment::offset_of(pieces, done)).after(done);
    error.advise("the device accepts no more bytes and gives no reason")
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Transfers at most three bytes per call and refuses at `limit`.
    struct Stutter {
        bytes: Mutex<Vec<u8>>,
        limit: u64,
    }

    impl Handle for Stutter {
        fn read(&self, pieces: &mut [SegmentMut<'_>]) -> Result<u64> {
            let bytes = self.bytes.lock().unwrap();
            let Some(first) = pieces.iter_mut().find(|piece| !piece.bytes.is_empty()) else { return Ok(0) };
            let from = bytes.get(first.offset as usize..).unwrap_or_default();
            let count = from.len().min(3).min(first.bytes.len());
            first.bytes[..count].copy_from_slice(&from[..count]);
            Ok(count as u64)
        }

        fn write(&self, pieces: &[Segment<'_>]) -> Result<u64> {
            let Some(first) = pieces.iter().find(|piece| !piece.bytes.is_empty()) else { return Ok(0) };
            if first.offset >= self.limit {
                return Err(Error::new(Kind::NoSpace, Operation::Write, "stutter").at(first.offset));
            }
            let count = first.bytes.len().min(3);
            let (start, mut bytes) = (first.offset as usize, self.bytes.lock().unwrap());
            let needed = bytes.len().max(start + count);
            bytes.resize(needed, 0);
            bytes[start..start + count].copy_from_slice(&first.bytes[..count]);
            Ok(count as u64)
        }

        fn len(&self) -> Result<u64> {
            Ok(self.bytes.lock().unwrap().len() as u64)
        }

        fn set_len(&self, len: u64) -> Result<()> {
            self.bytes.lock().unwrap().resize(len as usize, 0);
            Ok(())
        }

        fn sync(&self, _: SyncScope) -> Result<()> {
            Ok(())
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities::default()
        }
    }

    #[test]
    fn full_forms_go_on_after_short_ones() {
        let file = Stutter { bytes: Mutex::default(), limit: 100 };
        file.write_all(&[Segment::new(8, b"ijkl"), Segment::new(5, b""), Segment::new(0, b"abcdefgh")])
            .unwrap();
        let (mut a, mut b) = ([0; 7], [0; 9]);
        let count = file.read_full(&mut [SegmentMut::new(0, &mut a), SegmentMut::new(5, &mut b)]).unwrap();
        assert_eq!((count, &a, &b[..7]), (14, b"abcdefg", &b"fghijkl"[..]));
    }

    #[test]
    fn errors_count_what_went_before() {
        let file = Stutter { bytes: Mutex::default(), limit: 5 };
        let error = file.write_at(0, b"abcdefgh").unwrap_err();
        assert_eq!((error.transferred(), error.offset()), (6, Some(6)));
    }

    #[test]
    fn generic_forms() {
        let file: Arc<dyn Handle> = Arc::new(Stutter { bytes: Mutex::default(), limit: 5 });
        assert!(file.is_empty().unwrap());
        file.preallocate(4).unwrap();
        file.preallocate(2).unwrap();
        assert_eq!(file.len().unwrap(), 4);
        let refused = file.lock(0..1, LockKind::Shared).err().map(|error| error.kind());
        assert_eq!(refused, Some(Kind::Unsupported));
    }
}
