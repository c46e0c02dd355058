//! Errors of requests: MPI raises them on `MPI_COMM_WORLD` when the program waits, although they belong to a file.
//!
//! When a request has failed, and before MPI raises it, a replacement error handler is installed on the communicators on which MPI may raise
//! it. It stays until the last thread that waits for such an error has raised it or has returned. An error of an armed thread is passed to the
//! handler of the file, as far as possible ([`HandlerCapability`]); any other error is passed to the program's handler.
//!
//! Two locks: the lock of the table is never held while MPI is called, because MPI may hold its own lock when it calls the handler; the other
//! is held while handlers are exchanged.
//!
//! `unsafe` here: error handlers of communicators are exchanged.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use aqueduct_comm::abi::MpiAbi;

use crate::file::FileErrorContext;
use crate::file::error_handler;
use crate::host::{Mpi, mpi};
use crate::host::{MpiError, Outcome};

/// An error that MPI is about to raise in the call of a thread.
struct ArmedError {
    thread: ThreadId,
    error_context: Arc<FileErrorContext>,
    call: &'static str,
    fault: MpiError,
    /// The code returned by the file's handler, if it was called before.
    left: Option<c_int>,
}

/// The program's handlers of both communicators, and their replacements.
#[derive(Clone, Copy)]
struct Replaced {
    before: [usize; 2],
    stand_in: usize,
}

/// Threads that are about to raise an error, at most one error for each.
struct ArmedThreads {
    armed: Vec<ArmedError>,
    replaced: Option<Replaced>,
    /// The handlers restored last: a thread may have read the replacement just before and call it just after.
    restored: Option<[usize; 2]>,
}

/// What the replacement handler can do when MPI calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandlerCapability {
    /// Everything: it restores the program's handlers and calls the file's.
    Whole,
    /// Change the code, but not call MPI: with several threads MPICH holds its lock. The file's handler was called before;
    /// the program's handlers are restored when the call returns.
    Code,
    /// Nothing, because the call would succeed. So `MPI_ERRORS_RETURN` is used; the rest as above.
    Nothing,
}

static TABLE: Mutex<ArmedThreads> =
    Mutex::new(ArmedThreads { armed: Vec::new(), replaced: None, restored: None });
static EXCHANGE: Mutex<()> = Mutex::new(());
/// The number of armed threads, for a cheap check.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Time that a thread about to raise an error waits for one that exchanges handlers. Some builds of MPICH hold a lock around the first that
/// the second needs.
const FOR_EXCHANGE: Duration = Duration::from_millis(100);

fn table() -> MutexGuard<'static, ArmedThreads> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn exchange_within(longest: Duration) -> Option<MutexGuard<'static, ()>> {
    let start = Instant::now();
    loop {
        match EXCHANGE.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if start.elapsed() > longest => return None,
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
}

fn places(mpi: &Mpi) -> [usize; 2] {
    [mpi.constants.handles.comm_world, mpi.constants.handles.comm_self]
}

/// An error of a request is about to be raised by this thread; the code to raise.
pub(crate) fn arm(mpi: &Mpi, owner: &Arc<FileErrorContext>, call: &'static str, fault: &MpiError) -> c_int {
    let Ok(ours) = stand_in(mpi) else { return fault.code };
    let thread = std::thread::current().id();
    // Of several requests that one call waits for the first is raised, and the others are in the statuses.
    if table().armed.iter().any(|armed| armed.thread == thread) {
        return fault.code;
    }
    let way = handler_capability(mpi, ours);
    let left = (way != HandlerCapability::Whole).then(|| owner.raise(mpi, call, fault));
    let code = left.filter(|_| way == HandlerCapability::Nothing).unwrap_or(fault.code);
    let Some(_exchange) = exchange_within(FOR_EXCHANGE) else { return code };
    let mut table = table();
    table.armed.push(ArmedError {
        thread,
        error_context: Arc::clone(owner),
        call,
        fault: fault.clone(),
        left,
    });
    COUNT.store(table.armed.len(), Ordering::Release);
    let is_replaced = table.replaced.is_some();
    drop(table);
    if !is_replaced {
        replace(
            mpi,
            if way == HandlerCapability::Nothing { mpi.constants.handles.errors_return } else { ours },
        );
    }
    code
}

/// True if a replacement handler is installed.
pub(crate) fn is_armed() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

/// Ends a call of this thread: an error that it has not raised is dropped.
pub(crate) fn disarm(mpi: &Mpi) {
    if is_armed() && take().is_some() {
        restore(mpi);
    }
}

/// Takes the error of this thread.
fn take() -> Option<ArmedError> {
    let (thread, mut table) = (std::thread::current().id(), table());
    let at = table.armed.iter().position(|armed| armed.thread == thread)?;
    let armed = table.armed.swap_remove(at);
    COUNT.store(table.armed.len(), Ordering::Release);
    Some(armed)
}

/// Replaces the program's handler. The exchange is locked.
fn replace(mpi: &Mpi, stand_in: usize) {
    let mut before = [0; 2];
    for (place, before) in places(mpi).into_iter().zip(&mut before) {
        // SAFETY: predefined communicators; the handle lives here.
        unsafe { (mpi.functions.comm_get_errhandler)(place, &raw mut *before) };
    }
    // Recorded before the first error can occur.
    table().replaced = Some(Replaced { before, stand_in });
    for place in places(mpi) {
        // SAFETY: as above, and a handler of this library or of MPI.
        unsafe { (mpi.functions.comm_set_errhandler)(place, stand_in) };
    }
}

/// Restores the program's handlers, if no thread is armed.
fn restore(mpi: &Mpi) {
    let _exchange = EXCHANGE.lock().unwrap_or_else(PoisonError::into_inner);
    let replaced = {
        let table = table();
        table.replaced.filter(|_| table.armed.is_empty())
    };
    let Some(Replaced { before, stand_in }) = replaced else { return };
    for (place, before) in places(mpi).into_iter().zip(before) {
        let mut now = 0;
        // SAFETY: the previous handlers are restored, unless the program has set others.
        unsafe {
            (mpi.functions.comm_get_errhandler)(place, &raw mut now);
            if now == stand_in {
                (mpi.functions.comm_set_errhandler)(place, before);
            }
        }
        give_back(mpi, now);
    }
    {
        let mut table = table();
        (table.replaced, table.restored) = (None, Some(before));
    }
    before.into_iter().for_each(|handle| give_back(mpi, handle));
}

/// Frees a reference to an error handler.
fn give_back(mpi: &Mpi, mut handle: usize) {
    if !error_handler::is_predefined(mpi, handle) {
        // SAFETY: MPI returned it, and it is not used again.
        unsafe { (mpi.functions.errhandler_free)(&raw mut handle) };
    }
}

/// Does what the program's handler does, for an error of another operation.
fn raise_foreign(mpi: &Mpi, comm: *mut usize, code: *mut c_int, before: [usize; 2]) {
    // SAFETY: MPI passes the communicator, of the width that its handles have, and the code.
    let (raised_on, number) = unsafe {
        let narrow = mpi.constants.width() == 4;
        let handle = if narrow { comm.cast::<u32>().read() as usize } else { comm.read() };
        (mpi.constants.handle(handle), *code)
    };
    let own = usize::from(raised_on == mpi.constants.handles.comm_self);
    let handle = before[own];
    if handle == mpi.constants.handles.errors_return {
        return;
    }
    if handle == mpi.constants.handles.errors_are_fatal || Some(handle) == mpi.errors_abort {
        crate::diagnostics::print_line(&format!(
            "an MPI call failed with error {number}, and errors are fatal"
        ));
        // SAFETY: a valid communicator; it does not return.
        unsafe { (mpi.functions.abort)(mpi.constants.handles.comm_world, number) };
    }
    if !error_handler::call_function(handle, comm, code) {
        crate::diagnostics::print_line(&format!(
            "an MPI call failed with error {number} while a request of a file was completed; the error handler was made in a way that \
             this library does not know, and was not called"
        ));
    }
}

unsafe extern "C" fn raised(comm: *mut usize, code: *mut c_int) {
    let Ok(mpi) = mpi() else { return };
    let thread = std::thread::current().id();
    let (is_ours, left, before) = {
        let table = table();
        let armed = table.armed.iter().find(|armed| armed.thread == thread);
        let before = table.replaced.map(|replaced| replaced.before).or(table.restored);
        (armed.is_some(), armed.and_then(|armed| armed.left), before)
    };
    let code_now = match (is_ours, left) {
        // If no handler was ever replaced, this is the probing error.
        (false, _) => return before.into_iter().for_each(|before| raise_foreign(mpi, comm, code, before)),
        (true, Some(left)) => left,
        (true, None) => {
            let Some(ArmedError { error_context: owner, call, fault, .. }) = take() else { return };
            restore(mpi);
            owner.raise(mpi, call, &fault)
        }
    };
    // SAFETY: MPI passes the code, which a handler may change. Where several requests are waited for, it says that the codes are in
    // the statuses, and stays.
    unsafe {
        if class(mpi, *code) != mpi.constants.integers.in_status {
            *code = code_now;
        }
    }
}

/// The class of a code; a predefined class needs no call.
fn class(mpi: &Mpi, code: c_int) -> i64 {
    if mpi.constants.abi == MpiAbi::Mpich {
        return i64::from(code & 0x7f);
    }
    let mut class = 0;
    // SAFETY: an integer to be filled.
    unsafe { (mpi.functions.error_class)(code, &raw mut class) };
    class.into()
}

/// What handlers can do in this MPI. Whether a call succeeds after its error handler returned is probed once, by an error that
/// no other handler sees.
fn handler_capability(mpi: &Mpi, ours: usize) -> HandlerCapability {
    static WAY: OnceLock<HandlerCapability> = OnceLock::new();
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
            0 => HandlerCapability::Nothing,
            _ if many && mpi.constants.abi == MpiAbi::Mpich => HandlerCapability::Code,
            _ => HandlerCapability::Whole,
        }
    })
}

/// The replacement handler, created once.
fn stand_in(mpi: &Mpi) -> Outcome<usize> {
    static OURS: OnceLock<Result<usize, MpiError>> = OnceLock::new();
    let make = || {
        let mut ours = 0;
        // SAFETY: a function of the type that MPI prescribes.
        let made = unsafe { (mpi.functions.comm_create_errhandler)(raised, &raw mut ours) };
        mpi.check("MPI_Comm_create_errhandler", made).map(|()| ours)
    };
    OURS.get_or_init(make).clone()
}
