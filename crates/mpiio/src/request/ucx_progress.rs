//! Progress with MPICH, which has no progress hook: interposes the UCX function that MPICH calls in every wait. Its own work is done
//! first, then packets of collective operations are transferred.
//!
//! MPICH is linked with UCX dynamically, so that a preloaded definition interposes it. If MPICH uses another network library,
//! collective requests advance in the functions that complete requests and in those of files.
//!
//! Other libraries use UCX too, on threads that may not call MPI. Packets are transferred only for workers of MPICH, whose callers are inside MPI.
//! The workers of MPICH are identified during MPI calls of this library.
//!
//! `unsafe` here: UCX's function is looked up and called.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use aqueduct_comm::abi::MpiAbi;

use crate::diagnostics;
use crate::host::Mpi;

type WorkerProgress = unsafe extern "C" fn(*mut c_void) -> c_uint;

/// The known workers of MPICH; 0 for a free entry. Workers that do not fit transfer no packets.
static WORKERS: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];

/// Files are open, and MPI is MPICH.
static IS_MPICH: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// True while this thread is in an MPI call of this library.
    static IS_IN_MPI: Cell<bool> = const { Cell::new(false) };
}

/// Starts to identify workers, at the first file.
pub(crate) fn note_open(mpi: &Mpi) {
    IS_MPICH.store(mpi.constants.abi != MpiAbi::OpenMpi, Ordering::Release);
}

/// Calls MPI; workers that make progress meanwhile belong to MPICH.
pub(crate) fn in_mpi<R>(call: impl FnOnce() -> R) -> R {
    if !IS_MPICH.load(Ordering::Acquire) {
        return call();
    }
    let before = IS_IN_MPI.replace(true);
    let outcome = call();
    IS_IN_MPI.set(before);
    outcome
}

/// True if a worker is known to belong to MPICH.
fn is_of_mpi(worker: usize) -> bool {
    let is_known = WORKERS.iter().any(|known| known.load(Ordering::Acquire) == worker);
    if !is_known && IS_IN_MPI.get() {
        let add = |free: &AtomicUsize| {
            free.compare_exchange(0, worker, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        return WORKERS.iter().any(add);
    }
    is_known
}

/// Interposes UCX's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn ucp_worker_progress(worker: *mut c_void) -> c_uint {
    static OWN: OnceLock<WorkerProgress> = OnceLock::new();
    let own = OWN.get_or_init(find);
    // SAFETY: UCX's own function, with the caller's argument.
    let moved = unsafe { own(worker) };
    if IS_MPICH.load(Ordering::Relaxed) && is_of_mpi(worker as usize) {
        aqueduct_comm::progress();
    }
    moved
}

/// UCX's own function. The caller of the interposed one was linked with UCX, so that it is loaded.
fn find() -> WorkerProgress {
    const NAME: &CStr = c"ucp_worker_progress";
    // SAFETY: a C string; RTLD_NEXT finds the definition after this library's.
    let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, NAME.as_ptr()) };
    if found.is_null() {
        // Loaded for a module only: found by its file name. It is opened after the iteration, during which the loader's list is locked.
        let mut name: Option<CString> = None;
        // SAFETY: the callback gets the address given here, and what it fills lives here.
        unsafe { libc::dl_iterate_phdr(Some(look_into), (&raw mut name).cast()) };
        if let Some(name) = name {
            // SAFETY: C strings; nothing is loaded by this flag.
            unsafe {
                let library = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
                if !library.is_null() {
                    found = libc::dlsym(library, NAME.as_ptr());
                }
            }
        }
    }
    if found.is_null() {
        diagnostics::print_line(
            "UCX is in use, but its function ucp_worker_progress was not found; run without this library",
        );
        std::process::abort();
    }
    // SAFETY: the type of this function in all versions of UCX.
    unsafe { std::mem::transmute::<*mut c_void, WorkerProgress>(found) }
}

/// Copies the name of UCX's library.
unsafe extern "C" fn look_into(object: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader passes an object with a name; the result is the caller's place.
    unsafe {
        let name = (*object).dlpi_name;
        if name.is_null() || !CStr::from_ptr(name).to_string_lossy().contains("libucp.so") {
            return 0;
        }
        *found.cast::<Option<CString>>() = Some(CStr::from_ptr(name).to_owned());
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_workers_of_mpi_transfer_packets() {
        IS_MPICH.store(true, Ordering::Release);
        assert!(!is_of_mpi(0x1000));
        assert!(in_mpi(|| is_of_mpi(0x1000)));
        assert!(is_of_mpi(0x1000) && !is_of_mpi(0x2000));
    }
}
