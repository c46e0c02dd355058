//! The device traits: few required methods, lists of segments as the primitive, default implementations for the rest.

use std::ffi::OsStr;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::{
    Capabilities, DeviceOpenOptions, Error, Kind, Mapping, Operation, Result, Segment, SegmentMut, Strip,
    segment, strip,
};

/// The scope of a sync.
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

/// An access to mapped memory of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedAccess {
    /// The range from its first to its last byte.
    pub range: Range<u64>,
    /// How many bytes of the range are accessed.
    pub bytes: u64,
    /// Whether they are written.
    pub write: bool,
}

impl MappedAccess {
    /// The corresponding operation.
    pub fn operation(&self) -> Operation {
        if self.write { Operation::Write } else { Operation::Read }
    }
}

/// A held lock; dropping it unlocks.
pub trait LockGuard: Send {}

/// A storage back end.
///
/// A device is chosen by the prefix of a name (see [`Registry`](crate::Registry)); the name it gets here has no prefix.
pub trait Device: Send + Sync {
    /// Opens `name`. Each call gives an independent handle on the same bytes.
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>>;

    /// Deletes `name`.
    fn delete(&self, name: &OsStr) -> Result<()>;

    /// Deletes `name` to replace it by another file of that name; its space may be freed in the background.
    ///
    /// Default: deletes.
    fn delete_in_background(&self, name: &OsStr) -> Result<()> {
        self.delete(name)
    }
}

/// An open file: positioned and stateless, to be shared between threads.
///
/// # Contract
/// * A list is processed in order. The returned count is the length of the longest *prefix* of the list that was
///   transferred; later bytes may or may not have been transferred. A short read means the end of the file or an interruption;
///   a read of a non-empty list that returns 0 means that the first non-empty segment is at or after the end of the file.
///   A short write means an interruption. [`HandleExt::read_full`] and [`HandleExt::write_all`] continue after short transfers.
/// * An error says how much was transferred before it ([`Error::transferred`](crate::Error::transferred)).
/// * Reads of holes return zeros. Writing after the end extends the file.
/// * Segments of a write list may overlap only if they hold equal bytes; empty segments are allowed anywhere, transfer nothing and never extend the file.
/// * Offsets above `i64::MAX` (also `offset + length`) are `InvalidArgument`.
/// * Concurrent calls are safe; overlapping concurrent writes leave each byte from one of them.
/// * Data written before a successful [`sync`](Handle::sync) survives a crash.
#[expect(clippy::len_without_is_empty, reason = "is_empty is derived, in HandleExt")]
pub trait Handle: Send + Sync {
    /// Fills the segments, in order, and returns how many bytes were read.
    fn read(&self, segments: &mut [SegmentMut<'_>]) -> Result<u64>;

    /// Writes the segments, in order, and returns how many bytes were written.
    fn write(&self, segments: &[Segment<'_>]) -> Result<u64>;

    /// The length in bytes.
    fn len(&self) -> Result<u64>;

    /// Truncates or extends (with zeros) to `len` bytes.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Makes everything written so far durable.
    fn sync(&self, scope: SyncScope) -> Result<()>;

    /// What this open file can do.
    fn capabilities(&self) -> Capabilities;

    /// Fills `bytes` from the runs of strips, as [`read`](Handle::read) does with the list of all runs: the same order, counts and errors.
    ///
    /// Default: reads lists of runs.
    fn read_strips(&self, strips: &[Strip], bytes: &mut [u8]) -> Result<u64> {
        strip::read_in_lists(strips, bytes, |list| self.read(list))
    }

    /// Writes `bytes` to the runs of strips, as [`write`](Handle::write) does with the list of all runs: the same order, counts and errors.
    ///
    /// Default: writes lists of runs.
    fn write_strips(&self, strips: &[Strip], bytes: &[u8]) -> Result<u64> {
        strip::write_in_lists(strips, bytes, |list| self.write(list))
    }

    /// Reserves space for the first `len` bytes and extends the file to at least that length, as `MPI_File_preallocate` does.
    ///
    /// Default: extends.
    fn preallocate(&self, len: u64) -> Result<()> {
        if self.len()? < len { self.set_len(len) } else { Ok(()) }
    }

    /// Starts writing these bytes to the medium, because a sync will follow. Advisory; errors are reported by the sync.
    ///
    /// Default: no effect.
    fn start_writeback(&self, range: Range<u64>) {
        let _ = range;
    }

    /// Announces that all of a range is about to be written for the first time: space for it may be allocated in one call, which is cheaper than page by
    /// page. The length does not change. Advisory; errors are reported by the write.
    ///
    /// Default: ignored.
    fn advise_will_write(&self, range: Range<u64>) {
        let _ = range;
    }

    /// Allocates space for a range and extends the file to its end if it is shorter, in preparation of stores to mapped pages that
    /// are new. When it returns true, no extension of the file that began before is still in progress. False if the device cannot
    /// do that, or there is no space; then the length is unchanged, and the write reports why.
    ///
    /// Default: false.
    fn extend_allocated(&self, range: Range<u64>) -> bool {
        let _ = range;
        false
    }

    /// Waits until the range is free for `kind`, and locks it until the guard is dropped.
    ///
    /// Guards taken through the same or different handles exclude one another as far as [`Capabilities::locks`] says.
    /// Default: `Unsupported`.
    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn LockGuard + '_>> {
        let _ = kind;
        Err(Error::new(Kind::Unsupported, Operation::Lock, "").at(range.start))
    }

    /// As [`lock`](Handle::lock), without waiting: none if it is locked.
    ///
    /// Default: `Unsupported`.
    fn try_lock(&self, range: Range<u64>, kind: LockKind) -> Result<Option<Box<dyn LockGuard + '_>>> {
        let _ = kind;
        Err(Error::new(Kind::Unsupported, Operation::Lock, "").at(range.start))
    }

    /// Drops what this node has cached of a range and of the length of the file, so that the next [`read`](Handle::read) and
    /// [`len`](Handle::len) return what other nodes have written. For files that are not [coherent](Capabilities::coherent) between
    /// nodes, while the range is locked. With an empty range only the length is revalidated.
    ///
    /// Default: nothing is cached.
    fn revalidate(&self, range: Range<u64>) -> Result<()> {
        let _ = range;
        Ok(())
    }

    /// Adds a comment to the trace of this handle, such as the reason for a strategy, if [`Capabilities::keeps_annotations`] is
    /// true.
    ///
    /// Default: ignored.
    fn annotate(&self, remark: &dyn fmt::Display) {
        let _ = remark;
    }

    /// True if the byte at `place`, inside the file, is in a hole: a write allocates its pages.
    ///
    /// Default: false.
    fn is_hole(&self, place: u64) -> bool {
        let _ = place;
        false
    }

    /// Maps a range of the file, possibly more of it; none if [`Capabilities::maps`] is false or the system refuses. Then use
    /// [`read`](Handle::read) and [`write`](Handle::write), which return the reason.
    ///
    /// Default: none.
    fn map(&self, range: Range<u64>) -> Option<Mapping> {
        let _ = range;
        None
    }

    /// Performs an access to a [mapped](Handle::map) part of the file by calling `copy`, which returns whether it reached the file; returns
    /// its result. Every access to a mapping goes through this method, so that layers can trace, delay or fail it. False means that
    /// the access must be done by [`read`](Handle::read) or [`write`](Handle::write).
    ///
    /// Default: calls `copy`.
    fn access_mapped(&self, access: &MappedAccess, copy: &mut dyn FnMut() -> bool) -> Result<bool> {
        let _ = access;
        Ok(copy())
    }

    /// Drops this reference. The last one closes the file, with all its descriptors, and returns the error of closing: network file
    /// systems report a full disk, a quota or an error of the medium only then. Lost stores to mapped pages are reported here at
    /// the latest, if the file system reports them. Dropping the last reference closes the file too, but ignores errors.
    ///
    /// Default: drops the reference.
    fn close(self: Arc<Self>) -> Result<()> {
        Ok(())
    }
}

/// Methods of every handle, derived from the required ones.
pub trait HandleExt: Handle {
    /// Fills `bytes` from `offset` on; returns less only at the end of the file.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<u64> {
        self.read_full(&mut [SegmentMut::new(offset, bytes)])
    }

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_all(&[Segment::new(offset, bytes)])
    }

    /// Fills the segments, continuing after short reads; returns less only at the end of the file.
    fn read_full(&self, segments: &mut [SegmentMut<'_>]) -> Result<u64> {
        let wanted = segment::total_mut(segments);
        let mut done = self.read(segments)?;
        while done < wanted {
            match self.read(&mut segment::rest_mut(segments, done)) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) => return Err(later(error, done)),
            }
        }
        Ok(done)
    }

    /// Writes all of the segments, continuing after short writes.
    fn write_all(&self, segments: &[Segment<'_>]) -> Result<()> {
        let wanted = segment::total(segments);
        let mut done = self.write(segments)?;
        while done < wanted {
            match self.write(&segment::rest(segments, done)) {
                Ok(0) => return Err(stuck(segment::offset_of(segments, done), done)),
                Ok(count) => done += count,
                Err(error) => return Err(later(error, done)),
            }
        }
        Ok(())
    }

    /// Fills `bytes` from the runs of strips, continuing after short reads; returns less only at the end of the file.
    fn read_full_strips(&self, strips: &[Strip], bytes: &mut [u8]) -> Result<u64> {
        let mut done = self.read_strips(strips, bytes)?;
        while done < bytes.len() as u64 {
            match self.read_strips(&strip::rest(strips, done), &mut bytes[done as usize..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) => return Err(later(error, done)),
            }
        }
        Ok(done)
    }

    /// Writes all of `bytes` to the runs of strips, continuing after short writes.
    fn write_all_strips(&self, strips: &[Strip], bytes: &[u8]) -> Result<()> {
        let mut done = self.write_strips(strips, bytes)?;
        while done < bytes.len() as u64 {
            match self.write_strips(&strip::rest(strips, done), &bytes[done as usize..]) {
                Ok(0) => return Err(stuck(strip::offset_of(strips, done), done)),
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

/// The error for a caller that had transferred `done` bytes before the failed call.
fn later(error: Error, done: u64) -> Error {
    let transferred = done + error.transferred();
    error.after(transferred)
}

/// A device that writes nothing and reports no error would keep its caller in a loop.
fn stuck(place: u64, done: u64) -> Error {
    let error = Error::new(Kind::Io, Operation::Write, "").at(place).after(done);
    error.advise("the device accepts no more bytes and reports no error")
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Transfers at most three bytes per call and fails at `limit`.
    struct Stutter {
        bytes: Mutex<Vec<u8>>,
        limit: u64,
    }

    impl Handle for Stutter {
        fn read(&self, segments: &mut [SegmentMut<'_>]) -> Result<u64> {
            let bytes = self.bytes.lock().unwrap();
            let Some(first) = segments.iter_mut().find(|segment| !segment.bytes.is_empty()) else {
                return Ok(0);
            };
            let from = bytes.get(first.offset as usize..).unwrap_or_default();
            let count = from.len().min(3).min(first.bytes.len());
            first.bytes[..count].copy_from_slice(&from[..count]);
            Ok(count as u64)
        }

        fn write(&self, segments: &[Segment<'_>]) -> Result<u64> {
            let Some(first) = segments.iter().find(|segment| !segment.bytes.is_empty()) else { return Ok(0) };
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
    fn full_transfers_continue_after_short_ones() {
        let file = Stutter { bytes: Mutex::default(), limit: 100 };
        file.write_all(&[Segment::new(8, b"ijkl"), Segment::new(5, b""), Segment::new(0, b"abcdefgh")])
            .unwrap();
        let (mut a, mut b) = ([0; 7], [0; 9]);
        let count = file.read_full(&mut [SegmentMut::new(0, &mut a), SegmentMut::new(5, &mut b)]).unwrap();
        assert_eq!((count, &a, &b[..7]), (14, b"abcdefg", &b"fghijkl"[..]));
        let strips = [Strip { offset: 0, len: 2, stride: 6, count: 3 }];
        assert_eq!(file.read_full_strips(&strips, &mut a[..6]).unwrap(), 4, "the file has 12 bytes");
        assert_eq!(&a[..4], b"abgh");
        file.write_all_strips(&strips, b"ABGHMN").unwrap();
        assert_eq!(file.read_at(0, &mut [0; 20]).unwrap(), 14);
    }

    #[test]
    fn errors_count_earlier_transfers() {
        let file = Stutter { bytes: Mutex::default(), limit: 5 };
        let error = file.write_at(0, b"abcdefgh").unwrap_err();
        assert_eq!((error.transferred(), error.offset()), (6, Some(6)));
        let strips = [Strip { offset: 0, len: 4, stride: 4, count: 2 }];
        let error = file.write_all_strips(&strips, b"abcdefgh").unwrap_err();
        assert_eq!((error.transferred(), error.offset()), (6, Some(6)));
    }

    #[test]
    fn default_methods() {
        let file: Arc<dyn Handle> = Arc::new(Stutter { bytes: Mutex::default(), limit: 5 });
        assert!(file.is_empty().unwrap());
        file.preallocate(4).unwrap();
        file.preallocate(2).unwrap();
        assert_eq!(file.len().unwrap(), 4);
        let refused = file.lock(0..1, LockKind::Shared).err().map(|error| error.kind());
        assert_eq!(refused, Some(Kind::Unsupported));
    }
}
