//! Bus errors in mapped files: the kernel raises `SIGBUS` where a mapped page cannot be had, because the file was truncated, the file system
//! is full, a quota is reached or the medium failed. It is turned into a flag of the mapping, and the access is done again by calls, which
//! return the error.
//!
//! One handler for the process, installed when the first mapping is made. It finds the mapping in a table of fixed size, sets its flag and
//! puts anonymous memory in the place of the whole mapping, so that the interrupted copy runs to its end without effect on the file. Signals
//! that belong to no mapping of this table go to the handler that was there before.
//!
//! `unsafe` here: signal actions, memory put in the place of mapped memory, and the action of the previous handler.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// So many mappings can exist at once; a further file is accessed by calls.
const SLOTS: usize = 1024;

/// A registered mapping. A slot is free if `start` is 0, and reserved if it is 1.
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    broken: AtomicBool,
}

static TABLE: [Slot; SLOTS] =
    [const { Slot { start: AtomicUsize::new(0), end: AtomicUsize::new(0), broken: AtomicBool::new(false) } };
        SLOTS];

/// The action for `SIGBUS` before ours.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// A mapping known to the handler, unmapped when this is dropped. It is the slot of the table.
#[derive(Debug)]
pub(super) struct GuardedRange(usize);

impl GuardedRange {
    /// Registers mapped memory; none, and the memory is unmapped, if the table is full.
    ///
    /// # Safety
    /// The memory was mapped with this length, and nobody else unmaps it.
    pub(super) unsafe fn new(memory: NonNull<u8>, len: usize) -> Option<Self> {
        let reserve =
            |slot: &Slot| slot.start.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let Some(index) = TABLE.iter().position(reserve) else {
            unmap(memory.as_ptr() as usize, len);
            return None;
        };
        let (slot, start) = (&TABLE[index], memory.as_ptr() as usize);
        slot.broken.store(false, Ordering::Relaxed);
        slot.end.store(start + len, Ordering::Relaxed);
        slot.start.store(start, Ordering::Release);
        Some(Self(index))
    }

    /// Whether a page of the mapping could not be had: since then it shows nothing of the file.
    pub(super) fn is_broken(&self) -> bool {
        TABLE[self.0].broken.load(Ordering::Acquire)
    }
}

impl Drop for GuardedRange {
    fn drop(&mut self) {
        let slot = &TABLE[self.0];
        // Reserved until the memory is unmapped: other memory may lie there at once.
        let start = slot.start.swap(1, Ordering::AcqRel);
        unmap(start, slot.end.load(Ordering::Relaxed) - start);
        slot.start.store(0, Ordering::Release);
    }
}

/// How long an answer is taken to hold.
const MOMENT: Duration = Duration::from_millis(2);

thread_local! {
    /// When this thread was last found to be covered.
    static COVERED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Whether a bus error of this thread would reach the handler: it is installed, nobody has replaced it, and the thread does not block it.
/// The system is asked once in a moment, because that costs as much as a small copy.
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

/// Installs the handler, once: a program that replaces it later has its reasons.
fn install() {
    PREVIOUS.get_or_init(|| {
        // SAFETY: the action is a function of the right type, with an empty mask; the previous action is only read.
        unsafe {
            let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
            let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            action.sa_sigaction = handler_address();
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigemptyset(&raw mut action.sa_mask);
            set_action(libc::SIGBUS, &raw const action, previous.as_mut_ptr());
            previous.assume_init()
        }
    });
}

/// The handler: only calls that are safe in signal handlers (signal-safety(7)), no allocation, no lock.
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid structure; errno is that of this thread.
    unsafe {
        let errno = *libc::__errno_location();
        // A positive code: raised by the kernel for an address, not sent by a process.
        let fault = (*info).si_code > 0;
        if !(fault && replace((*info).si_addr() as usize)) {
            pass_on(signal, info, context);
        }
        *libc::__errno_location() = errno;
    }
}

/// Marks the mapping around an address as broken and replaces its memory; whether there is one.
fn replace(address: usize) -> bool {
    let around = |slot: &&Slot| {
        let start = slot.start.load(Ordering::Acquire);
        start > 1 && start <= address && address < slot.end.load(Ordering::Relaxed)
    };
    let Some(slot) = TABLE.iter().find(around) else { return false };
    // Before the memory is replaced: whoever stores to the new memory finds the flag set afterwards.
    slot.broken.store(true, Ordering::SeqCst);
    let (start, end) = (slot.start.load(Ordering::Relaxed), slot.end.load(Ordering::Relaxed));
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the range is a registered mapping, which stays one while a thread accesses it; nothing else lies there.
    let memory = unsafe {
        libc::mmap(start as *mut c_void, end - start, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    memory != libc::MAP_FAILED
}

/// Does what would have happened without this handler.
///
/// # Safety
/// The arguments are those of a signal handler.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let previous = PREVIOUS.get();
    let action = previous.map_or(libc::SIG_DFL, |previous| previous.sa_sigaction);
    // SAFETY: the address of a handler has the type that its flags tell; `info` is valid.
    unsafe {
        let fault = (*info).si_code > 0;
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

/// Unmaps what `GuardedRange::new` was given.
fn unmap(start: usize, len: usize) {
    // SAFETY: it was mapped with this length; whoever used it borrowed the mapping.
    let _ = unsafe { rustix::mm::munmap(start as *mut c_void, len) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_and_addresses_outside_belong_to_nobody() {
        let map = || {
            let (access, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: new memory, given away.
            unsafe {
                let memory = libc::mmap(std::ptr::null_mut(), 4096, access, flags, -1, 0);
                GuardedRange::new(NonNull::new(memory.cast()).unwrap(), 4096)
            }
        };
        let ranges: Vec<_> = (0..2 * SLOTS).map_while(|_| map()).collect();
        assert!(ranges.len() <= SLOTS && ranges.len() > SLOTS / 2, "the table has an end");
        drop(ranges);
        let range = map().unwrap();
        assert!(!range.is_broken() && !replace(4096) && !replace(usize::MAX));
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
