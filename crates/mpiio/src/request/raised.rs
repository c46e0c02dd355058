//! Errors of requests: MPI raises them on the world when the program waits, where they belong to a file.
//!
//! When a request has failed, and before MPI raises it, an error handler of ours stands in on the communicators that MPI may raise it
//! on. It acts once: it puts the program's own handlers back and hands the error to the file's; as far as it can ([`Way`]).
//!
//! `unsafe` here: error handlers of communicators are exchanged.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;

use aqueduct_comm::abi::Flavour;

use crate::errors::{Fault, Outcome};
use crate::handler;
use crate::mpi::{Mpi, mpi};
use crate::open_file::Owner;

/// An error on its way, and the handlers that are out meanwhile.
struct Armed {
    owner: Arc<Owner>,
    call: &'static str,
    fault: Fault,
    before: [usize; 2],
    stand_in: usize,
    way: Way,
    /// The thread that waits for the request: errors of other threads are none of ours.
    thread: ThreadId,
}

/// What the stand-in can do when MPI calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Everything: it puts the program's handlers back and calls the file's.
    Whole,
    /// Change the code, but call nothing: where threads are many, MPICH holds its lock then. The file's handler has been called before
    /// and has left this code; the program's are put back when the call returns.
    Code(c_int),
    /// Nothing, because the call would succeed. So MPI returns errors meanwhile; the rest as above.
    Nothing,
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
    let way = match way(mpi, ours) {
        Way::Whole => Way::Whole,
        Way::Nothing => Way::Nothing,
        Way::Code(_) => Way::Code(owner.raise(mpi, call, fault)),
    };
    let (stand_in, code) = match way {
        Way::Nothing => (mpi.constants.handles.errors_return, owner.raise(mpi, call, fault)),
        Way::Whole | Way::Code(_) => (ours, fault.code),
    };
    let (mut before, thread) = ([0; 2], std::thread::current().id());
    for (place, before) in places(mpi).into_iter().zip(&mut before) {
        // SAFETY: predefined communicators; the handle lives here.
        unsafe {
            (mpi.functions.comm_get_errhandler)(place, &raw mut *before);
            (mpi.functions.comm_set_errhandler)(place, stand_in);
        }
    }
    *armed() =
        Some(Armed { owner: Arc::clone(owner), call, fault: fault.clone(), before, stand_in, way, thread });
    IS_ARMED.store(true, Ordering::Release);
    code
}

/// Whether a handler of ours stands in.
pub(crate) fn is_armed() -> bool {
    IS_ARMED.load(Ordering::Acquire)
}

/// Puts the program's handlers back, if an error was never raised: its request may have been freed.
pub(crate) fn disarm(mpi: &Mpi) {
    if is_armed() {
        let _ = take(mpi);
    }
}

fn take(mpi: &Mpi) -> Option<Armed> {
    let armed = armed().take()?;
    IS_ARMED.store(false, Ordering::Release);
    for (place, before) in places(mpi).into_iter().zip(armed.before) {
        let mut now = 0;
        // SAFETY: what was there before goes back, unless the program has set another one meanwhile.
        unsafe {
            (mpi.functions.comm_get_errhandler)(place, &raw mut now);
            if now == armed.stand_in {
                (mpi.functions.comm_set_errhandler)(place, before);
            }
        }
        [now, before].into_iter().for_each(|handle| give_back(mpi, handle));
    }
    Some(armed)
}

/// Gives back a reference to an error handler.
fn give_back(mpi: &Mpi, mut handle: usize) {
    if !handler::is_predefined(mpi, handle) {
        // SAFETY: MPI gave it to us, and it is not used again.
        unsafe { (mpi.functions.errhandler_free)(&raw mut handle) };
    }
}

/// An error of another thread, while a handler of ours stands in for the program's.
fn is_foreign(mpi: &Mpi, code: c_int) -> bool {
    let Some((thread, before)) = armed().as_ref().map(|armed| (armed.thread, armed.before[0])) else {
        return false;
    };
    if thread == std::thread::current().id() {
        return false;
    }
    if before == mpi.constants.handles.errors_are_fatal || Some(before) == mpi.errors_abort {
        crate::verbose::say(&format!("an MPI call failed with error {code}, and errors are fatal"));
        // SAFETY: a valid communicator; it does not return.
        unsafe { (mpi.functions.abort)(mpi.constants.handles.comm_world, code) };
    }
    true
}

unsafe extern "C" fn raised(_comm: *mut usize, code: *mut c_int) {
    let Ok(mpi) = mpi() else { return };
    // SAFETY: MPI passes the code.
    if is_foreign(mpi, unsafe { *code }) {
        return;
    }
    let way = armed().as_ref().map(|armed| armed.way);
    let code_now = match way {
        None | Some(Way::Nothing) => return,
        Some(Way::Code(left)) => left,
        Some(Way::Whole) => match take(mpi) {
            Some(Armed { owner, call, fault, .. }) => owner.raise(mpi, call, &fault),
            None => return,
        },
    };
    // SAFETY: MPI passes the code, which a handler may change. Where several requests are waited for, it says that the codes are in
    // the statuses, and stays.
    unsafe {
        if class(mpi, *code) != mpi.constants.integers.in_status {
            *code = code_now;
        }
    }
}

/// The class of a code, without a call where there is none in between.
fn class(mpi: &Mpi, code: c_int) -> i64 {
    if mpi.constants.flavour == Flavour::Mpich {
        return i64::from(code & 0x7f);
    }
    let mut class = 0;
    // SAFETY: an integer to be filled.
    unsafe { (mpi.functions.error_class)(code, &raw mut class) };
    class.into()
}

/// What handlers can do here. Whether a call succeeds whose error a handler of the program's has seen is found out once, by an error that
/// nobody else sees.
fn way(mpi: &Mpi, ours: usize) -> Way {
    static WAY: OnceLock<Way> = OnceLock::new();
    *WAY.get_or_init(|| {
        let (own, functions) = (mpi.constants.handles.comm_self, &mpi.functions);
        let (mut before, mut value, mut found, mut level) = (0, std::ptr::null_mut(), 0, 0);
        // SAFETY: a predefined communicator, a key that is none, and places that live here; the handler does nothing unless armed.
        let code = unsafe {
            (functions.query_thread)(&raw mut level);
            (functions.comm_get_errhandler)(own, &raw mut before);
            (functions.comm_set_errhandler)(own, ours);
            let none = mpi.constants.integers.keyval_invalid as c_int;
            let code = (functions.comm_get_attr)(own, none, &raw mut value, &raw mut found);
            (functions.comm_set_errhandler)(own, before);
            code
        };
        let many = i64::from(level) == mpi.constants.integers.thread_multiple;
        match code {
            0 => Way::Nothing,
            _ if many && mpi.constants.flavour == Flavour::Mpich => Way::Code(0),
            _ => Way::Whole,
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
