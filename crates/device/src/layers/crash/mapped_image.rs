//! A copy of a file in memory that can be mapped: stores through the mapping are found by comparison with the known state.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::MemfdFlags;
use rustix::io::{Errno, pread, pwrite};

use crate::mapping::MappingRights;
use crate::{Error, Mapping, Operation, Result, Segment};

/// Longer files are not mapped.
const LONGEST: u64 = 1 << 30;

/// A file in memory with the bytes of another one.
pub(super) struct MappedImage(OwnedFd);

impl MappedImage {
    /// A copy of a file of this length, filled by `read`; none if it is too long or there is not enough memory.
    pub(super) fn new(len: u64, read: impl Fn(u64, &mut [u8]) -> Result<()>) -> Option<Self> {
        if len > LONGEST {
            return None;
        }
        let shadow = Self(rustix::fs::memfd_create("aqueduct-crash", MemfdFlags::CLOEXEC).ok()?);
        rustix::fs::ftruncate(&shadow.0, len).ok()?;
        let mut chunk = vec![0; 1 << 20];
        for start in (0..len).step_by(chunk.len()) {
            let bytes = &mut chunk[..(len - start).min(1 << 20) as usize];
            read(start, bytes).ok()?;
            if bytes.iter().any(|byte| *byte != 0) {
                shadow.write_at(start, bytes).ok()?;
            }
        }
        Some(shadow)
    }

    /// A part of it as memory.
    pub(super) fn map(&self, range: Range<u64>, write: bool) -> Option<Mapping> {
        Mapping::new(self.0.as_fd(), range, MappingRights { write, in_place: true })
    }

    /// Applies a write.
    pub(super) fn write(&self, segments: &[Segment<'_>]) -> Result<()> {
        let outcome = segments.iter().try_for_each(|segment| self.write_at(segment.offset, segment.bytes));
        outcome.map_err(|errno| Error::from_io(errno.into(), Operation::Write, ""))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> std::result::Result<(), Errno> {
        let mut done = 0;
        while done < bytes.len() {
            done += pwrite(&self.0, &bytes[done..], offset + done as u64)?;
        }
        Ok(())
    }

    /// Applies a change of the length.
    pub(super) fn set_len(&self, len: u64) -> Result<()> {
        let outcome = rustix::fs::ftruncate(&self.0, len);
        outcome.map_err(|errno| Error::from_io(errno.into(), Operation::SetLen, ""))
    }

    /// The bytes from `offset` on.
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match pread(&self.0, &mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(errno) => return Err(Error::from_io(errno.into(), Operation::Read, "")),
            }
        }
        bytes[done..].fill(0);
        Ok(())
    }
}
