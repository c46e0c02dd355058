//! Error handlers: of each file, of files yet to be opened (that of `MPI_FILE_NULL`), predefined, the user's, Fortran's.
//!
//! `unsafe` here: functions of the user are called with the arguments that MPI prescribes.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use aqueduct_report::{Report, ReportSource};

use crate::diagnostics;
use crate::host::Mpi;
use crate::host::{MpiError, Outcome};

/// A function of the user in C: the file, the code, which it may change.
type CFunction = unsafe extern "C" fn(*mut usize, *mut c_int, ...);
/// The same in Fortran.
type FortranFunction = unsafe extern "C" fn(*mut c_int, *mut c_int);

/// What a handler does.
#[derive(Clone, Copy, Debug)]
enum HandlerAction {
    Return,
    /// Ends the job.
    Abort,
    C(CFunction),
    Fortran(FortranFunction),
    /// Created by a function that was not intercepted.
    Unknown,
}

/// An error handler, with its own reference if it is the user's.
#[derive(Debug)]
pub(crate) struct ErrorHandler {
    handle: usize,
    action: HandlerAction,
    owned: bool,
}

/// The user's functions by handle of the error handler.
fn functions() -> MutexGuard<'static, HashMap<usize, HandlerAction>> {
    static FUNCTIONS: OnceLock<Mutex<HashMap<usize, HandlerAction>>> = OnceLock::new();
    FUNCTIONS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records the C function of a handle.
pub(crate) fn remember_c(handle: usize, function: *const c_void) {
    if !function.is_null() {
        // SAFETY: MPI prescribes this type of the function that a program gives.
        let function = unsafe { std::mem::transmute::<*const c_void, CFunction>(function) };
        functions().insert(handle, HandlerAction::C(function));
    }
}

/// Calls the function of a communicator error handler with MPI's arguments; false if it is unknown.
pub(crate) fn call_function(handle: usize, comm: *mut usize, code: *mut c_int) -> bool {
    let action = functions().get(&handle).copied();
    if let Some(HandlerAction::C(function)) = action {
        // SAFETY: the program's function, with MPI's own arguments.
        unsafe { function(comm, code) };
        return true;
    }
    false
}

/// Records the Fortran function of a handle.
pub(crate) fn remember_fortran(handle: usize, function: *const c_void) {
    if !function.is_null() {
        // SAFETY: as above.
        let function = unsafe { std::mem::transmute::<*const c_void, FortranFunction>(function) };
        functions().insert(handle, HandlerAction::Fortran(function));
    }
}

impl ErrorHandler {
    /// `MPI_ERRORS_RETURN`, the default handler of files.
    pub(crate) fn returning(mpi: &Mpi) -> Arc<Self> {
        Arc::new(Self {
            handle: mpi.constants.handles.errors_return,
            action: HandlerAction::Return,
            owned: false,
        })
    }

    /// The handler of a handle of the user.
    pub(crate) fn new(mpi: &Mpi, handle: usize) -> Outcome<Arc<Self>> {
        let handles = &mpi.constants.handles;
        if handle == handles.errhandler_null {
            return Err(MpiError::new(
                mpi.constants.integers.arg,
                "MPI_ERRHANDLER_NULL is not an error handler",
            ));
        }
        let action = if handle == handles.errors_return {
            HandlerAction::Return
        } else if handle == handles.errors_are_fatal || Some(handle) == mpi.errors_abort {
            HandlerAction::Abort
        } else {
            let action = functions().get(&handle).copied().unwrap_or(HandlerAction::Unknown);
            return Ok(Arc::new(Self { handle: reference(mpi, handle)?, action, owned: true }));
        };
        Ok(Arc::new(Self { handle, action, owned: false }))
    }

    /// A handle for the user, with a reference that the user frees.
    pub(crate) fn reference(&self, mpi: &Mpi) -> Outcome<usize> {
        reference(mpi, self.handle)
    }

    /// Handles an error on a file: the code that the call returns.
    pub(crate) fn handle(&self, mpi: &Mpi, mut file: usize, call: &str, fault: &MpiError) -> c_int {
        diagnostics::print_error(call, fault);
        let mut code = fault.code;
        match self.action {
            HandlerAction::Return | HandlerAction::Unknown => {}
            HandlerAction::Abort => {
                Report::new(ReportSource::Mpiio).warn(&format!("{call}: {fault}"));
                // SAFETY: a valid communicator; it does not return.
                unsafe { (mpi.functions.abort)(mpi.constants.handles.comm_world, code) };
            }
            // SAFETY: the user's function, with the arguments MPI prescribes.
            HandlerAction::C(function) => unsafe { function(&raw mut file, &raw mut code) },
            HandlerAction::Fortran(function) => {
                let mut number = super::handle_table::number(file).unwrap_or(0);
                // SAFETY: as above.
                unsafe { function(&raw mut number, &raw mut code) };
            }
        }
        code
    }
}

impl Drop for ErrorHandler {
    fn drop(&mut self) {
        if let Ok(mpi) = crate::host::mpi()
            && self.owned
            && mpi.is_running()
        {
            // SAFETY: a reference owned here, not used again.
            unsafe { (mpi.functions.errhandler_free)(&raw mut self.handle) };
        }
    }
}

/// Another reference to an error handler. MPI has no function for that, but `MPI_File_get_errhandler` returns one, and it works
/// with `MPI_FILE_NULL`.
fn reference(mpi: &Mpi, handle: usize) -> Outcome<usize> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (none, functions) = (mpi.constants.handles.file_null, &mpi.functions);
    let (mut before, mut copy) = (0, 0);
    // SAFETY: the null file has an error handler in every implementation; integers live here.
    unsafe {
        mpi.check("MPI_File_get_errhandler", (functions.file_get_errhandler)(none, &raw mut before))?;
        mpi.check("MPI_File_set_errhandler", (functions.file_set_errhandler)(none, handle))?;
        let got = (functions.file_get_errhandler)(none, &raw mut copy);
        (functions.file_set_errhandler)(none, before);
        // Predefined handlers are not counted by all implementations and are never freed.
        if !is_predefined(mpi, before) {
            (functions.errhandler_free)(&raw mut before);
        }
        mpi.check("MPI_File_get_errhandler", got)?;
    }
    Ok(copy)
}

/// True for predefined handles, which are not freed.
pub(crate) fn is_predefined(mpi: &Mpi, handle: usize) -> bool {
    let handles = &mpi.constants.handles;
    handle == handles.errors_return || handle == handles.errors_are_fatal || Some(handle) == mpi.errors_abort
}

/// The handler of `MPI_FILE_NULL`: of calls without a file, and what files are opened with.
fn fallback(mpi: &Mpi) -> MutexGuard<'static, Arc<ErrorHandler>> {
    static DEFAULT: OnceLock<Mutex<Arc<ErrorHandler>>> = OnceLock::new();
    let default = DEFAULT.get_or_init(|| Mutex::new(ErrorHandler::returning(mpi)));
    default.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The handler of `MPI_FILE_NULL`.
pub(crate) fn default(mpi: &Mpi) -> Arc<ErrorHandler> {
    Arc::clone(&fallback(mpi))
}

/// Sets the handler of `MPI_FILE_NULL`.
pub(crate) fn set_default(mpi: &Mpi, handler: Arc<ErrorHandler>) {
    let before = std::mem::replace(&mut *fallback(mpi), handler);
    drop(before);
}
