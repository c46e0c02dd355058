//! Mapped parts of files: bytes are read and written in the page cache, without a system call for each run.
//!
//! Pages that cannot be provided (the file was truncated, the file system is full) invalidate the mapping instead of terminating the program:
//! see `bus_error.rs`.
//!
//! `unsafe` here: mapping, unmapping, and queries of residency. Users of the pointer have further obligations, stated
//! there.
#![allow(unsafe_code)]

mod bus_error;
mod page_set;

use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, compiler_fence};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use rustix::fs::{Access, AtFlags, CWD};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::syscalls::count_syscall;
use bus_error::{FreeSlot, GuardedRange};
use page_set::PageSet;

/// The alignment of mappings: the size of a large page.
const GRANULE: u64 = 2 << 20;
/// The number of pages per residency query.
const ASKED: usize = 1024;

/// What a mapping may be used for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MappingRights {
    /// Stores, besides loads.
    pub(crate) write: bool,
    /// True if an allocated page stays allocated: the file system writes in place.
    pub(crate) in_place: bool,
}

/// A part of a file in memory.
#[derive(Debug)]
pub struct Mapping {
    /// The mapped range of the file; it may extend past the end of the file, where it must not be accessed.
    range: Range<u64>,
    memory: NonNull<u8>,
    rights: MappingRights,
    /// True if the system reports residency, which it does only to processes that may write the file.
    reports_residency: bool,
    /// Pages that were made writable once, and are allocated on the medium since.
    allocated_pages: PageSet,
    /// Pages that were read: they cause no page fault the next time.
    read_pages: PageSet,
    lease: Mutex<Option<PageLease>>,
    /// Unmaps the memory when it is dropped.
    guarded: GuardedRange,
}

/// Pages that were made resident recently and are assumed to be so still.
#[derive(Debug)]
struct PageLease {
    pages: Range<usize>,
    write: bool,
    since: Instant,
    /// The thread that made them resident: other threads may block `SIGBUS`.
    thread: ThreadId,
}

/// Time for which pages are assumed resident: the system does not reclaim them so soon.
const MOMENT: Duration = Duration::from_millis(2);

// SAFETY: memory of the whole process; users of the pointer order their accesses.
unsafe impl Send for Mapping {}
// SAFETY: as above; the methods change only residency.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `range`, rounded to whole granules; none if the system refuses.
    pub(crate) fn new(file: BorrowedFd<'_>, range: Range<u64>, rights: MappingRights) -> Option<Self> {
        let start = range.start / GRANULE * GRANULE;
        let end = range.end.checked_next_multiple_of(GRANULE).filter(|end| i64::try_from(*end).is_ok())?;
        let len = usize::try_from(end - start).ok().filter(|len| *len > 0)?;
        let access = if rights.write { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let slot = FreeSlot::reserve()?;
        count_syscall();
        // SAFETY: a new mapping at an address chosen by the system affects no other memory.
        let memory =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, start) };
        let memory = NonNull::new(memory.ok()?.cast())?;
        // SAFETY: just mapped, with this length and these rights, and not unmapped elsewhere.
        let guarded = unsafe { slot.guard(memory, len, rights.write) };
        let residency = rights.write || is_writable(file);
        let pages = || PageSet::new(len.div_ceil(page_size()));
        Some(Self {
            range: start..end,
            memory,
            rights,
            reports_residency: residency,
            allocated_pages: pages(),
            read_pages: pages(),
            lease: Mutex::default(),
            guarded,
        })
    }

    /// Prepares for stores to a part of the file that has no pages yet: they come as large folios, mapped by one fault each. Otherwise
    /// the kernel makes and maps one page at a time, which takes up to ten times as long. Not for parts that have data: the kernel
    /// would read them from the medium in large units.
    pub fn advise_new_pages(&self, part: &Range<u64>) {
        let start = (part.start.max(self.range.start) - self.range.start) / GRANULE * GRANULE;
        let end = (part.end.min(self.range.end) - self.range.start).next_multiple_of(GRANULE);
        if start < end && !self.is_broken() {
            count_syscall();
            let (memory, len) = (self.memory.as_ptr().wrapping_add(start as usize), (end - start) as usize);
            // SAFETY: the pages lie in this mapping, and the advice changes no byte of them. What the kernel refuses is only slower.
            let _ = unsafe { rustix::mm::madvise(memory.cast::<c_void>(), len, Advice::LinuxHugepage) };
        }
    }

    /// The mapped range of the file.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// True if pages that were made writable once stay allocated on the medium.
    pub fn keeps_allocation(&self) -> bool {
        self.rights.write && self.rights.in_place
    }

    /// True if a range was accessed before, in this direction.
    pub fn was_accessed(&self, part: &Range<u64>, write: bool) -> bool {
        let pages = if write { &self.allocated_pages } else { &self.read_pages };
        pages.contains(&self.pages(part))
    }

    /// Calls `copy` with the address of a mapped range, for reading and, with `write`, for writing; true if
    /// the access reached the file. If not, because the range is past the end of the file, the medium is full or fails, the
    /// access must be done by calls, which return the error. `copy` may have run without effect then, and the bytes it read are invalid.
    pub fn access(&self, part: &Range<u64>, write: bool, copy: impl FnOnce(*mut u8)) -> bool {
        let Some(memory) = self.resolve(part, write) else { return false };
        copy(memory);
        // The flag is set by a signal handler, which the compiler does not know.
        compiler_fence(Ordering::SeqCst);
        !self.is_broken()
    }

    /// True if a page could not be provided: the mapping is invalid.
    pub fn is_broken(&self) -> bool {
        self.guarded.is_broken()
    }

    /// The address of a range, made resident as far as possible.
    fn resolve(&self, part: &Range<u64>, write: bool) -> Option<*mut u8> {
        if !self.contains(part) || (write && !self.rights.write) || self.is_broken() {
            return None;
        }
        let pages = self.pages(part);
        if !self.holds(&pages, write) {
            if !bus_error::is_handled() {
                return None;
            }
            if !self.is_ready(&pages, write) {
                self.populate(&pages, write)?;
            }
        }
        if !write && !self.read_pages.contains(&pages) {
            self.read_pages.add(&pages);
        }
        Some(self.memory.as_ptr().wrapping_add((part.start - self.range.start) as usize))
    }

    /// Makes a range resident, so that [`access`](Mapping::access) needs no queries for it for a short time; true if
    /// that was possible. For writing, pages must stay allocated for that time.
    pub fn lease(&self, part: &Range<u64>, write: bool) -> bool {
        let may = self.contains(part) && (!write || self.keeps_allocation()) && !self.is_broken();
        let may = may && bus_error::is_handled();
        let made = may && self.make_present(&self.pages(part), write).is_some();
        let lease = made.then(|| PageLease {
            pages: self.pages(part),
            write,
            since: Instant::now(),
            thread: thread::current().id(),
        });
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = lease;
        made
    }

    /// True if a range was made resident recently.
    pub fn is_leased(&self, part: &Range<u64>, write: bool) -> bool {
        self.contains(part) && !self.is_broken() && self.holds(&self.pages(part), write)
    }

    /// True if a non-empty range is mapped.
    fn contains(&self, part: &Range<u64>) -> bool {
        part.start >= self.range.start && part.end <= self.range.end && part.start < part.end
    }

    fn holds(&self, pages: &Range<usize>, write: bool) -> bool {
        let lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner);
        lease.as_ref().is_some_and(|lease| {
            let inside = lease.pages.start <= pages.start && pages.end <= lease.pages.end;
            let ours = lease.thread == thread::current().id();
            inside && ours && (lease.write || !write) && lease.since.elapsed() < MOMENT
        })
    }

    /// The pages of a part of the range.
    fn pages(&self, part: &Range<u64>) -> Range<usize> {
        let from = |place: u64| (place - self.range.start) as usize;
        from(part.start) / page_size()..from(part.end).div_ceil(page_size())
    }

    /// True if accessing pages causes no error that populating them would report: they are in the page cache and, for writing, are
    /// allocated on the medium. The query costs a hundredth of populating, which visits every page even if there is nothing to do.
    fn is_ready(&self, pages: &Range<usize>, write: bool) -> bool {
        let roomy = !write || self.rights.in_place && self.allocated_pages.contains(pages);
        roomy && self.reports_residency && self.is_resident(pages)
    }

    /// Populates page tables so that accesses cause no page faults, as far as the system supports it. Pages that were read before and are
    /// still resident need nothing.
    fn make_present(&self, pages: &Range<usize>, write: bool) -> Option<()> {
        if !write && self.read_pages.contains(pages) && self.is_ready(pages, write) {
            return Some(());
        }
        self.populate(pages, write)?;
        if !write {
            self.read_pages.add(pages);
        }
        Some(())
    }

    fn is_resident(&self, pages: &Range<usize>) -> bool {
        let mut residency = [0; ASKED];
        pages.clone().step_by(ASKED).all(|first| {
            let asked = ASKED.min(pages.end - first);
            count_syscall();
            // SAFETY: the pages lie in this mapping, and `residency` has a byte for each.
            let failed = unsafe {
                libc::mincore(self.page(first), asked * page_size(), residency.as_mut_ptr().cast())
            };
            failed == 0 && residency[..asked].iter().all(|page: &u8| page & 1 == 1)
        })
    }

    fn populate(&self, pages: &Range<usize>, write: bool) -> Option<()> {
        let advice = if write { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
        count_syscall();
        // SAFETY: the pages lie in this mapping; to populate them changes no byte of them.
        unsafe { rustix::mm::madvise(self.page(pages.start), pages.len() * page_size(), advice) }.ok()?;
        if write {
            self.allocated_pages.add(pages);
        }
        Some(())
    }

    fn page(&self, page: usize) -> *mut c_void {
        self.memory.as_ptr().wrapping_add(page * page_size()).cast()
    }
}

fn page_size() -> usize {
    rustix::param::page_size()
}

/// True if this process has permission to write a file, however it was opened.
fn is_writable(file: BorrowedFd<'_>) -> bool {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    const WRITES: MappingRights = MappingRights { write: true, in_place: true };

    #[test]
    fn ranges_inside_the_file_are_mapped_and_ranges_after_its_end_are_not() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 10_000], 0).unwrap();
        let mapping = Mapping::new(file.as_fd(), 5000..6000, WRITES).unwrap();
        assert_eq!(mapping.range(), 0..GRANULE);
        // SAFETY: inside of the part, which is not used by others.
        assert!(mapping.access(&(5000..9000), true, |memory| unsafe { memory.add(1).write(9) }));
        let mut back = [0; 3];
        file.read_exact_at(&mut back, 5000).unwrap();
        assert_eq!(back, [7, 9, 7]);
        assert!(mapping.resolve(&(9000..20_000), true).is_none(), "past the end");
        assert!(mapping.resolve(&(0..GRANULE + 1), false).is_none(), "past the mapping");
        assert!(mapping.resolve(&(5..5), false).is_none());
        let read_only = MappingRights { write: false, ..WRITES };
        assert!(Mapping::new(file.as_fd(), 0..100, read_only).unwrap().resolve(&(0..100), true).is_none());
    }

    #[test]
    fn pages_are_populated_once_and_then_only_queried() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 10_000], 0).unwrap();
        let mapping = Mapping::new(file.as_fd(), 0..10_000, WRITES).unwrap();
        assert!(mapping.is_ready(&(0..3), false) && !mapping.is_ready(&(0..3), true));
        assert!(!mapping.was_accessed(&(5000..9000), true));
        mapping.resolve(&(5000..9000), true).unwrap();
        assert!(mapping.is_ready(&(1..3), true) && !mapping.is_ready(&(0..3), true));
        assert!(mapping.was_accessed(&(5000..9000), true) && !mapping.was_accessed(&(5000..9000), false));
        mapping.resolve(&(5000..9000), false).unwrap();
        assert!(mapping.was_accessed(&(5000..9000), false) && !mapping.was_accessed(&(0..9000), false));
        // Truncated and extended again, the file has no space allocated there.
        file.set_len(0).unwrap();
        file.set_len(10_000).unwrap();
        assert!(!mapping.is_ready(&(1..3), true) && !mapping.is_ready(&(0..3), false));
        assert!(mapping.resolve(&(5000..9000), true).is_some());
    }

    #[test]
    fn a_lease_of_pages_expires() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![7; 100_000], 0).unwrap();
        let mapping = Mapping::new(file.as_fd(), 0..100_000, WRITES).unwrap();
        assert!(mapping.lease(&(5000..90_000), false));
        // On a slow machine the lease may have expired already.
        let leased = |write| mapping.lease(&(5000..90_000), write) && mapping.is_leased(&(6000..7000), write);
        assert!((0..100).any(|_| leased(false)) && (0..100).any(|_| leased(true)));
        assert!(!mapping.is_leased(&(0..7000), false) && !mapping.is_leased(&(95_000..99_000), false));
        assert!(!mapping.lease(&(5000..200_000), true), "past the end");
        assert!(!mapping.is_leased(&(6000..7000), false));
        assert!(mapping.lease(&(5000..90_000), false) && !mapping.is_leased(&(6000..7000), true));
        std::thread::sleep(MOMENT);
        assert!(!mapping.is_leased(&(6000..7000), false));
        let moving =
            Mapping::new(file.as_fd(), 0..10_000, MappingRights { in_place: false, ..WRITES }).unwrap();
        assert!(moving.lease(&(0..9000), false) && !moving.lease(&(0..9000), true));
    }

    #[test]
    fn pages_of_copy_on_write_file_systems_are_populated_each_time() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 10_000], 0).unwrap();
        let mapping =
            Mapping::new(file.as_fd(), 0..10_000, MappingRights { in_place: false, ..WRITES }).unwrap();
        mapping.resolve(&(0..9000), true).unwrap();
        assert!(!mapping.is_ready(&(0..2), true) && mapping.is_ready(&(0..2), false));
    }

    /// Page 1 of a file of three pages is stored to and then lost.
    #[test]
    fn truncated_pages_invalidate_only_their_mapping() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 12_288], 0).unwrap();
        let whole = 0..12_288;
        let [cut, other] = [(); 2].map(|()| Mapping::new(file.as_fd(), whole.clone(), WRITES).unwrap());
        // SAFETY: inside of the part, which is not used by others.
        let store = |memory: *mut u8| unsafe { memory.write_bytes(9, 12_288) };
        assert!(cut.access(&whole, true, store) && other.access(&(0..4096), false, |_| ()));
        let cut_and_store = |memory: *mut u8| {
            file.set_len(4096).unwrap();
            store(memory);
        };
        assert!(!cut.access(&whole, true, cut_and_store) && cut.is_broken());
        assert!(!cut.access(&(0..4096), true, store), "an invalid mapping stays invalid");
        assert!(!cut.lease(&(0..4096), true));
        assert_eq!(file.metadata().unwrap().len(), 4096);
        assert!(
            !other.is_broken()
                && other.access(&(0..4096), true, |memory| {
                    // SAFETY: as above.
                    unsafe { memory.write(1) }
                })
        );
        let mut first = [0; 2];
        file.read_exact_at(&mut first, 0).unwrap();
        assert_eq!(first, [1, 9]);
    }
}
