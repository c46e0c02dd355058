//! Progress of MPICH, which has no hook for it: the function of UCX that MPICH calls whenever it waits for anything. Its own work is done
//! first; then packets of collective operations of ours move, if there are any.
//!
//! MPICH is linked with UCX dynamically, so that a preloaded definition stands in front. Where MPICH uses another network library,
//! collective requests advance in the functions that complete requests and in those of files.
//!
//! `unsafe` here: the loader is asked for UCX's own function, which is called.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::sync::OnceLock;

use crate::verbose;

type WorkerProgress = unsafe extern "C" fn(*mut c_void) -> c_uint;

/// Stands in front of UCX's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn ucp_worker_progress(worker: *mut c_void) -> c_uint {
    static OWN: OnceLock<WorkerProgress> = OnceLock::new();
    let own = OWN.get_or_init(find);
    // SAFETY: UCX's own function, with the caller's argument.
    let moved = unsafe { own(worker) };
    aqueduct_comm::progress();
    moved
}

/// UCX's own function. Whoever calls ours was linked with UCX, so that it is loaded.
fn find() -> WorkerProgress {
    const NAME: &CStr = c"ucp_worker_progress";
    // SAFETY: a C string; the next one after ours is meant.
    let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, NAME.as_ptr()) };
    if found.is_null() {
        // Loaded for a module alone: only by its own name it is found.
        // SAFETY: the callback gets the address given here, and what it fills lives here.
        unsafe { libc::dl_iterate_phdr(Some(look_into), (&raw mut found).cast()) };
    }
    if found.is_null() {
        verbose::say(
            "UCX is in use, but its function ucp_worker_progress cannot be found; run without this library",
        );
        std::process::abort();
    }
    // SAFETY: the type of this function in all versions of UCX.
    unsafe { std::mem::transmute::<*mut c_void, WorkerProgress>(found) }
}

unsafe extern "C" fn look_into(object: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader passes an object with a name; nothing is loaded by this flag; the result is the caller's place.
    unsafe {
        let name = (*object).dlpi_name;
        if name.is_null() || !CStr::from_ptr(name).to_string_lossy().contains("libucp") {
            return 0;
        }
        let library = libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() {
            return 0;
        }
        *found.cast::<*mut c_void>() = libc::dlsym(library, c"ucp_worker_progress".as_ptr());
        c_int::from(!(*found.cast::<*mut c_void>()).is_null())
    }
}
