//! A part of a file in memory: bytes are read and written where they lie in the page cache, without a call for each run.
//!
//! `unsafe` here: mapping, and unmapping what was mapped. Whoever goes through the pointer promises more, and says so there.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::syscalls::count;

/// The granule of mappings: what the processor maps as one large page, where the page cache holds one.
const GRANULE: u64 = 2 << 20;

/// A part of a file in memory.
#[derive(Debug)]
pub struct Mapping {
    /// What it shows of the file; it may reach behind its end, where nothing may be touched.
    range: Range<u64>,
    memory: NonNull<u8>,
    write: bool,
}

// SAFETY: it is memory of the whole process, and what is done through the pointer is for those who do it to order.
unsafe impl Send for Mapping {}
// SAFETY: as above; the methods change nothing but what is resident.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `range`, rounded to whole granules; none if the system does not.
    pub(crate) fn new(file: BorrowedFd<'_>, range: Range<u64>, write: bool) -> Option<Self> {
        let start = range.start / GRANULE * GRANULE;
        let end = range.end.checked_next_multiple_of(GRANULE).filter(|end| i64::try_from(*end).is_ok())?;
        let len = usize::try_from(end - start).ok().filter(|len| *len > 0)?;
        let access = if write { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        count();
        // SAFETY: a new mapping at a place of the system's choice disturbs no other memory.
        let memory =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, start) };
        let memory = NonNull::new(memory.ok()?.cast())?;
        Some(Self { range: start..end, memory, write })
    }

    /// What it shows of the file.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Where a part of the file lies in memory, made present: to be read and, with `write`, to be written. None if that cannot be:
    /// behind the end of the file, without room on the medium, or after an error of it. Touched without this, such bytes would end the
    /// program by a signal; so do bytes that someone cuts off the file after this.
    pub fn reach(&self, part: &Range<u64>, write: bool) -> Option<*mut u8> {
        let inside = part.start >= self.range.start && part.end <= self.range.end && part.start < part.end;
        if !inside || (write && !self.write) {
            return None;
        }
        let page = rustix::param::page_size() as u64;
        let (start, end) = (part.start / page * page, part.end.next_multiple_of(page));
        let advice = if write { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
        let at = self.memory.as_ptr().wrapping_add((start - self.range.start) as usize);
        count();
        // SAFETY: the pages lie in this mapping; to populate them changes no byte of them.
        unsafe { rustix::mm::madvise(at.cast::<c_void>(), (end - start) as usize, advice) }.ok()?;
        Some(at.wrapping_add((part.start - start) as usize))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let len = (self.range.end - self.range.start) as usize;
        // SAFETY: mapped by `new`, with this length; whoever used the pointer borrowed this value.
        let _ = unsafe { rustix::mm::munmap(self.memory.as_ptr().cast(), len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    #[test]
    fn bytes_are_reached_in_the_file_and_not_behind_it() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 10_000], 0).unwrap();
        let mapping = Mapping::new(file.as_fd(), 5000..6000, true).unwrap();
        assert_eq!(mapping.range(), 0..GRANULE);
        let at = mapping.reach(&(5000..9000), true).unwrap();
        // SAFETY: just reached, and nobody cuts the file.
        unsafe { at.add(1).write(9) };
        let mut back = [0; 3];
        file.read_exact_at(&mut back, 5000).unwrap();
        assert_eq!(back, [7, 9, 7]);
        assert!(mapping.reach(&(9000..20_000), true).is_none(), "behind the end");
        assert!(mapping.reach(&(0..GRANULE + 1), false).is_none(), "behind the mapping");
        assert!(mapping.reach(&(5..5), false).is_none());
        assert!(Mapping::new(file.as_fd(), 0..100, false).unwrap().reach(&(0..100), true).is_none());
    }
}
