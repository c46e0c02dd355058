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

/// An error of a request is about to be raised; the code to raise.
pub(crate) fn arm(mpi: &Mpi, owner: &Arc<Owner>, call: &'static str, fault: &Fault) -> c_int {
    let Ok(ours) = stand_in(mpi) else { return fault.code };
    if IS_ARMED.load(Ordering::Acquire) {
        return fault.code;
    }
    let (mut stand_in, mut code) = (ours, fault.code);
    if swallows(mpi, ours) {
        // The file's handler is called here and now, and those communicators return errors until the next call of ours.
        stand_in = mpi.constants.handles.errors_return;
        code = owner.raise(mpi, call, fault);
    }
    let mut before = [0; 2];
    for (place, before) in places(mpi).into_iter().zip(&mut before) {
        // SAFETY: predefined communicators; the handle lives here.
        unsafe {
            (mpi.functions.comm_get_errhandler)(place, &raw mut *before);
            (mpi.functions.comm_set_errhandler)(place, stand_in);
        }
    }
    *armed() = Some(Armed { owner: Arc::clone(owner), call, fault: fault.clone(), before });
    IS_ARMED.store(true, Ordering::Release);
    code
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

/// Whether a call succeeds whose error a handler of the program's has seen. Asked once, by an error that nobody else sees.
fn swallows(mpi: &Mpi, ours: usize) -> bool {
    static SWALLOWS: OnceLock<bool> = OnceLock::new();
    *SWALLOWS.get_or_init(|| {
        let (own, functions) = (mpi.constants.handles.comm_self, &mpi.functions);
        let (mut before, mut value, mut found) = (0, std::ptr::null_mut(), 0);
        // SAFETY: a predefined communicator, a key that is none, and places that live here; the handler does nothing unless armed.
        unsafe {
            (functions.comm_get_errhandler)(own, &raw mut before);
            (functions.comm_set_errhandler)(own, ours);
            let none = mpi.constants.integers.keyval_invalid as c_int;
            let code = (functions.comm_get_attr)(own, none, &raw mut value, &raw mut found);
            (functions.comm_set_errhandler)(own, before);
            code == 0
        }
    })
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
