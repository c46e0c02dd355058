//! Errors of requests: MPI raises them on the world when the program waits, where they belong to a file.
//!
//! When a request has failed, and before MPI raises it, an error handler of ours stands in on the communicators that MPI may raise it
//! on. It acts once: it puts the program's own handlers back and hands the error to the file's.
//!
//! `unsafe` here: error handlers of communicators are exchanged.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::errors::{Fault, Outcome};
use crate::mpi::{Mpi, mpi};
use crate::open_file::Owner;

/// An error on its way, and the handlers that are out meanwhile.
struct Armed {
    owner: Arc<Owner>,
    call: &'static str,
    fault: Fault,
    before: [usize; 2],
}

static IS_ARMED: AtomicBool = AtomicBool::new(false);
static ARMED: Mutex<Option<Armed>> = Mutex::new(None);

fn armed() -> MutexGuard<'static, Option<Armed>> {
    ARMED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn places(mpi: &Mpi) -> [usize; 2] {
    [mpi.constants.handles.comm_world, mpi.constants.handles.comm_self]
}

/// An error of a request is about to be raised.
pub(crate) fn arm(mpi: &Mpi, owner: &Arc<Owner>, call: &'static str, fault: &Fault) {
    let mut armed = armed();
    let Ok(ours) = stand_in(mpi) else { return };
    if armed.is_some() {
        return;
    }
    let mut before = [0; 2];
    for (place, before) in places(mpi).into_iter().zip(&mut before) {
        // SAFETY: predefined communicators; the handle lives here.
        unsafe {
            (mpi.functions.comm_get_errhandler)(place, &raw mut *before);
            (mpi.functions.comm_set_errhandler)(place, ours);
        }
    }
    *armed = Some(Armed { owner: Arc::clone(owner), call, fault: fault.clone(), before });
    IS_ARMED.store(true, Ordering::Release);
}

/// Puts the program's handlers back, if an error was never raised: its request may have been freed.
pub(crate) fn disarm(mpi: &Mpi) {
    if IS_ARMED.load(Ordering::Acquire) {
        let _ = take(mpi);
    }
}

fn take(mpi: &Mpi) -> Option<Armed> {
    let armed = armed().take()?;
    IS_ARMED.store(false, Ordering::Release);
    for (place, before) in places(mpi).into_iter().zip(armed.before) {
        // SAFETY: what was there before goes back.
        unsafe { (mpi.functions.comm_set_errhandler)(place, before) };
    }
    Some(armed)
}

unsafe extern "C" fn raised(_comm: *mut usize, code: *mut c_int) {
    let Ok(mpi) = mpi() else { return };
    if let Some(Armed { owner, call, fault, .. }) = take(mpi) {
        let code_now = owner.raise(mpi, call, &fault);
        // SAFETY: MPI passes the code, which a handler may change.
        unsafe { *code = code_now };
    }
}

/// The handler of ours, made once.
fn stand_in(mpi: &Mpi) -> Outcome<usize> {
    static OURS: OnceLock<Result<usize, Fault>> = OnceLock::new();
    let make = || {
        let mut ours = 0;
        // SAFETY: a function of the type that MPI prescribes.
        let made = unsafe { (mpi.functions.comm_create_errhandler)(raised, &raw mut ours) };
        mpi.check("MPI_Comm_create_errhandler", made).map(|()| ours)
    };
    OURS.get_or_init(make).clone()
}
