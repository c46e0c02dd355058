//! Bus errors in mapped files: the kernel raises `SIGBUS` if a mapped page cannot be provided, because the file was truncated, the file system
//! is full, a quota is reached or the medium failed. The handler sets a flag of the mapping, and the access is repeated by calls, which
//! return the error.
//!
//! One handler for the process, installed when the first mapping is made. It finds the mapping in a table of fixed size, sets its flag and
//! replaces the whole mapping by anonymous memory, so that the interrupted copy completes without effect on the file. Signals
//! that belong to no mapping of this table are passed to the previous handler.
//!
//! `unsafe` here: signal actions, replacement of mapped memory, and the call of the previous handler.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};
use std::time::{Duration, Instant};

/// The most mappings at once; further files are accessed by calls.
const SLOTS: usize = 1024;

/// A registered mapping. A slot is free if `start` is 0, and reserved if it is 1.
struct MappingSlot {
    start: AtomicUsize,
    end: AtomicUsize,
    /// Whether the mapping may be stored to.
    write: AtomicBool,
    broken: AtomicBool,
}

static TABLE: [MappingSlot; SLOTS] = [const {
    MappingSlot {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        write: AtomicBool::new(false),
        broken: AtomicBool::new(false),
    }
}; SLOTS];

/// The number of used slots.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The previous action for `SIGBUS`; null until it is known. Never freed.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

/// The size of a page, for the handler.
static PAGE: AtomicUsize = AtomicUsize::new(4096);

/// A reserved slot of the table, for a mapping that is about to be made.
#[derive(Debug)]
pub(super) struct FreeSlot(usize);

impl FreeSlot {
    /// Reserves a slot; none if the table is full, which is found out without a search.
    pub(super) fn reserve() -> Option<Self> {
        if TAKEN.fetch_add(1, Ordering::SeqCst) >= SLOTS {
            TAKEN.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        let reserve = |slot: &MappingSlot| {
            slot.start.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        };
        // Slots are freed before the count is decremented: there is a free one, unless other threads take it first.
        loop {
            if let Some(index) = TABLE.iter().position(reserve) {
                return Some(Self(index));
            }
            std::thread::yield_now();
        }
    }

    /// Registers mapped memory.
    ///
    /// # Safety
    /// The memory was mapped with this length, writable if `write` is true, and is not unmapped elsewhere.
    pub(super) unsafe fn guard(self, memory: NonNull<u8>, len: usize, write: bool) -> GuardedRange {
        PAGE.store(rustix::param::page_size(), Ordering::Relaxed);
        let (slot, start) = (&TABLE[self.0], memory.as_ptr() as usize);
        slot.broken.store(false, Ordering::SeqCst);
        slot.write.store(write, Ordering::SeqCst);
        slot.end.store(start + len, Ordering::SeqCst);
        slot.start.store(start, Ordering::SeqCst);
        let guarded = GuardedRange(self.0);
        std::mem::forget(self);
        guarded
    }
}

impl Drop for FreeSlot {
    fn drop(&mut self) {
        TABLE[self.0].free();
    }
}

/// The slot of a registered mapping, which is unmapped when this is dropped.
#[derive(Debug)]
pub(super) struct GuardedRange(usize);

impl GuardedRange {
    /// True if a page of the mapping could not be provided: the mapping is invalid since then.
    pub(super) fn is_broken(&self) -> bool {
        TABLE[self.0].broken.load(Ordering::Acquire)
    }
}

impl Drop for GuardedRange {
    fn drop(&mut self) {
        let slot = &TABLE[self.0];
        // Reserved until the memory is unmapped: the address may be reused at once.
        let start = slot.start.swap(1, Ordering::SeqCst);
        unmap(start, slot.end.load(Ordering::SeqCst) - start);
        slot.free();
    }
}

impl MappingSlot {
    fn free(&self) {
        self.start.store(0, Ordering::SeqCst);
        TAKEN.fetch_sub(1, Ordering::SeqCst);
    }

    /// The mapping around an address. The start is read twice: in between the slot may be freed and taken by another mapping.
    fn around(&self, address: usize) -> Option<Range<usize>> {
        let start = self.start.load(Ordering::SeqCst);
        let end = self.end.load(Ordering::SeqCst);
        let same = self.start.load(Ordering::SeqCst) == start;
        (same && start > 1 && start <= address && address < end).then_some(start..end)
    }
}

/// Time for which a result is cached.
const MOMENT: Duration = Duration::from_millis(2);

thread_local! {
    /// The last time this thread was found to be covered.
    static COVERED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// True if a bus error of this thread would reach the handler: it is installed, was not replaced, and the thread does not block the signal.
/// The result is cached for a short time, because the query costs as much as a small copy.
pub(super) fn is_handled() -> bool {
    if COVERED.get().is_some_and(|since| since.elapsed() < MOMENT) {
        return true;
    }
    let covered = is_covered();
    COVERED.set(covered.then(Instant::now));
    covered
}

fn is_covered() -> bool {
    install();
    // SAFETY: without a new action only the current one is written; without a new mask only the current one.
    unsafe {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        set_action(libc::SIGBUS, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == handler_address()
            && libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr()) == 0
            && libc::sigismember(mask.as_ptr(), libc::SIGBUS) == 0
    }
}

type SetAction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;

/// `sigaction` of the C library itself: UCX, which MPI libraries load, puts one of its own before it that ignores new actions for `SIGBUS`.
///
/// # Safety
/// As sigaction(2).
unsafe fn set_action(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    static OWN: OnceLock<SetAction> = OnceLock::new();
    let own = OWN.get_or_init(|| {
        // SAFETY: the library is loaded already and stays so; the function has this type.
        unsafe {
            let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            let found = if library.is_null() { library } else { libc::dlsym(library, c"sigaction".as_ptr()) };
            if found.is_null() {
                libc::sigaction
            } else {
                std::mem::transmute::<*mut c_void, SetAction>(found)
            }
        }
    });
    // SAFETY: as the caller promises.
    unsafe { own(signal, new, old) }
}

fn handler_address() -> usize {
    handle as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize
}

/// Installs the handler once: it is not installed again if the program replaces it.
fn install() {
    static ONCE: Once = Once::new();
    let keep = |action: libc::sigaction| PREVIOUS.store(Box::into_raw(Box::new(action)), Ordering::SeqCst);
    ONCE.call_once(|| {
        // SAFETY: the action is a function of the right type, with an empty mask; the previous action is only read.
        unsafe {
            let mut previous = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            // Stored first: signals of other memory are passed to the previous handler from the start.
            set_action(libc::SIGBUS, std::ptr::null(), &raw mut previous);
            keep(previous);
            let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            action.sa_sigaction = handler_address();
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigemptyset(&raw mut action.sa_mask);
            let mut replaced = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            set_action(libc::SIGBUS, &raw const action, &raw mut replaced);
            // Another thread has changed it in between.
            if (replaced.sa_sigaction, replaced.sa_flags) != (previous.sa_sigaction, previous.sa_flags) {
                keep(replaced);
            }
        }
    });
}

/// The handler: only calls that are safe in signal handlers (signal-safety(7)), no allocation, no lock.
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid structure; errno is that of this thread.
    unsafe {
        let errno = *libc::__errno_location();
        // A page that cannot be provided. Other codes: an unaligned access, a memory error, a signal of a process.
        let missing = matches!((*info).si_code, libc::BUS_ADRERR | libc::BUS_OBJERR | libc::BUS_MCEERR_AR);
        if !(missing && replace((*info).si_addr() as usize)) {
            pass_on(signal, info, context);
        }
        *libc::__errno_location() = errno;
    }
}

/// Marks the mapping of an address as invalid and replaces its memory; false if there is none.
fn replace(address: usize) -> bool {
    let found = TABLE.iter().find_map(|slot| slot.around(address).map(|range| (slot, range)));
    let Some((slot, range)) = found else { return false };
    // Before the memory is replaced: a thread that stores to the new memory sees the flag afterwards.
    slot.broken.store(true, Ordering::SeqCst);
    let write = slot.write.load(Ordering::SeqCst);
    // Without overcommit (vm.overcommit_memory=2, RLIMIT_DATA) there may not be enough memory for all of it. Then only the page is replaced; the
    // next one raises another signal.
    let page = PAGE.load(Ordering::Relaxed);
    let page = address / page * page..address / page * page + page;
    (is_available(range.len(), write) && put_memory(&range, write)) || put_memory(&page, write)
}

/// True if this much anonymous memory can be mapped. Tested at another address, because some kernels unmap the old memory before they fail.
fn is_available(len: usize, write: bool) -> bool {
    // Read-only memory does not count towards the limit.
    if !write {
        return true;
    }
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory at a place of the system's choice, which is given back at once.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), len, access, flags | libc::MAP_NORESERVE, -1, 0);
        memory != libc::MAP_FAILED && libc::munmap(memory, len) == 0
    }
}

/// Replaces mapped memory by anonymous memory.
fn put_memory(range: &Range<usize>, write: bool) -> bool {
    let access = if write { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the range lies in a registered mapping, which stays one while a thread accesses it; nothing else lies there.
    let memory = unsafe { libc::mmap(range.start as *mut c_void, range.len(), access, flags, -1, 0) };
    memory != libc::MAP_FAILED
}

/// Calls the previous handler or does the default action.
///
/// # Safety
/// The arguments are those of a signal handler.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the address of a handler has the type given by its flags; `info` is valid, and the kept action is never freed.
    unsafe {
        let previous = PREVIOUS.load(Ordering::SeqCst).as_ref();
        let action = previous.map_or(libc::SIG_DFL, |previous| previous.sa_sigaction);
        // Raised by an instruction, which is repeated after the return.
        let fault = (*info).si_code > 0 && (*info).si_code != libc::BUS_MCEERR_AO;
        match action {
            libc::SIG_IGN if !fault => {}
            // The default action: the fault repeats after the return, a signal that was sent is sent again.
            libc::SIG_DFL | libc::SIG_IGN => {
                let default = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
                set_action(signal, &raw const default, std::ptr::null_mut());
                if !fault {
                    libc::raise(signal);
                }
            }
            handler if previous.is_some_and(|previous| previous.sa_flags & libc::SA_SIGINFO != 0) => {
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}

/// Unmaps what `FreeSlot::guard` was given.
fn unmap(start: usize, len: usize) {
    // SAFETY: it was mapped with this length; users of it borrow the mapping.
    let _ = unsafe { rustix::mm::munmap(start as *mut c_void, len) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(len: usize, write: bool) -> Option<GuardedRange> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let slot = FreeSlot::reserve()?;
        // SAFETY: new memory, given away.
        unsafe {
            let memory = libc::mmap(std::ptr::null_mut(), len, access, flags | libc::MAP_NORESERVE, -1, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            Some(slot.guard(NonNull::new(memory.cast()).unwrap(), len, write))
        }
    }

    #[test]
    fn slots_are_reused_and_other_addresses_have_no_slot() {
        let ranges: Vec<_> = (0..2 * SLOTS).map_while(|_| map(4096, false)).collect();
        assert!(ranges.len() <= SLOTS && ranges.len() > SLOTS / 2, "the table is limited");
        drop(ranges);
        drop(FreeSlot::reserve().unwrap());
        let range = map(4096, false).unwrap();
        assert!(!range.is_broken() && !replace(4096) && !replace(usize::MAX));
    }

    const CHILD: &str = "AQUEDUCT_TEST_LITTLE_MEMORY";

    /// In a separate process with limited memory. `RLIMIT_DATA` is used instead of `vm.overcommit_memory=2`, which affects the whole machine.
    #[test]
    fn with_too_little_memory_only_the_page_is_replaced() {
        if std::env::var_os(CHILD).is_none() {
            let test = "mapping::bus_error::tests::with_too_little_memory_only_the_page_is_replaced";
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let status = child.args(["--exact", test]).env(CHILD, "1").status().unwrap();
            assert!(status.success(), "{status}");
            return;
        }
        let (len, page) = (256 << 20, rustix::param::page_size());
        let range = map(len, true).unwrap();
        let start = TABLE[range.0].start.load(Ordering::SeqCst);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let data = status.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
        let data: u64 = data.trim().trim_end_matches(" kB").parse().unwrap();
        let most = (data << 10) + (64 << 20);
        // SAFETY: plain values; the memory is this test's, and is in the middle of the mapping.
        unsafe {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
            assert_eq!(libc::setrlimit(libc::RLIMIT_DATA, &raw const limit), 0);
            let first = start as *mut u8;
            first.write(7);
            let middle = first.add(len / 2);
            middle.write(8);
            assert!(!is_available(len, true) && is_available(len, false));
            assert!(replace(middle as usize + 5) && range.is_broken());
            assert_eq!((first.read(), middle.read()), (7, 0), "the first page is unchanged");
            middle.add(page - 1).write(9);
        }
    }

    #[test]
    fn read_only_memory_is_replaced_by_read_only_memory() {
        let range = map(2 << 20, false).unwrap();
        let start = TABLE[range.0].start.load(Ordering::SeqCst);
        assert!(replace(start + 5000) && range.is_broken());
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.starts_with(&format!("{start:x}-"))).unwrap();
        assert!(line.contains(" r--p "), "{line}");
    }

    #[test]
    fn a_thread_that_blocks_the_signal_is_not_covered() {
        assert!(is_handled());
        std::thread::spawn(|| {
            // SAFETY: the mask of this thread alone, which ends here.
            unsafe {
                let mut mask = MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
                libc::sigaddset(&raw mut mask, libc::SIGBUS);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const mask, std::ptr::null_mut());
            }
            assert!(!is_handled());
        })
        .join()
        .unwrap();
    }
}
