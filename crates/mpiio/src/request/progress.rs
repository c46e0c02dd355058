//! Progress hook of Open MPI, which has no poll functions for requests: called in the loop of every wait.
//!
//! `unsafe` here: functions of `libopen-pal` are called, and call back.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::host::{Mpi, mpi};
use crate::request::PendingRequest;

type Hook = unsafe extern "C" fn() -> c_int;
type Register = unsafe extern "C" fn(Hook) -> c_int;

/// Requests that are not yet marked as complete in MPI.
static WATCHED: Mutex<Vec<Arc<PendingRequest>>> = Mutex::new(Vec::new());
/// Their number, for a cheap check: the hook runs often.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn watched() -> MutexGuard<'static, Vec<Arc<PendingRequest>>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches a request until it is complete; false if there is no hook.
pub(crate) fn watch(mpi: &Mpi, pending: &Arc<PendingRequest>) -> bool {
    if !is_hooked(mpi) {
        return false;
    }
    let mut watched = watched();
    watched.push(Arc::clone(pending));
    COUNT.store(watched.len(), Ordering::Release);
    true
}

/// Registers the hook, once.
fn is_hooked(mpi: &Mpi) -> bool {
    static HOOKED: OnceLock<bool> = OnceLock::new();
    *HOOKED.get_or_init(|| call(mpi, "opal_progress_register"))
}

fn call(mpi: &Mpi, name: &str) -> bool {
    mpi.host().function(name).is_some_and(|address| {
        // SAFETY: this is the function's type in all versions of Open MPI.
        let register = unsafe { std::mem::transmute::<usize, Register>(address) };
        // SAFETY: the hook lives as long as the process.
        unsafe { register(hook) == 0 }
    })
}

/// Removes the hook before MPI is finalized.
pub(crate) fn end() {
    if let Ok(mpi) = mpi()
        && mpi.functions.grequest_start_polled.is_none()
    {
        call(mpi, "opal_progress_unregister");
    }
}

/// True if MPI calls the hook while it waits.
pub(crate) fn is_driven_by_mpi() -> bool {
    mpi().is_ok_and(|mpi| mpi.functions.grequest_start_polled.is_none() && is_hooked(mpi))
}

/// Transfers packets of collective operations and completes requests; the number of events.
unsafe extern "C" fn hook() -> c_int {
    let moved = c_int::from(aqueduct_comm::progress());
    if COUNT.load(Ordering::Acquire) == 0 {
        return moved;
    }
    let Ok(mpi) = mpi() else { return moved };
    let done: Vec<Arc<PendingRequest>> = {
        let mut watched = watched();
        let done = watched.extract_if(.., |pending| pending.is_done()).collect();
        COUNT.store(watched.len(), Ordering::Release);
        done
    };
    done.iter().for_each(|pending| pending.report_completion(mpi));
    if done.is_empty() && moved == 0 {
        // MPI spins here: yield the core to the thread that does the work.
        aqueduct_comm::pause_between_polls();
    }
    done.len() as c_int + moved
}

/// Lets MPI make progress.
pub(crate) fn drive_mpi_progress(mpi: &Mpi) {
    // More than the status of any implementation.
    let mut status = [0u64; 16];
    let mut flag = 0;
    let own = mpi.constants.handles.comm_self;
    // SAFETY: a probe receives nothing; what it fills lives here.
    unsafe { (mpi.functions.iprobe)(0, 0, own, &raw mut flag, (&raw mut status).cast::<c_void>()) };
}
