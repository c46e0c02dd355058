//! Fortran: file handles are integers, and error handlers are created by separate functions.
//!
//! Fortran bindings call the C functions of files, with two exceptions: only the binding knows the language of an error
//! handler, so the function that creates one is interposed too.
//!
//! `unsafe` here: the binding's own function is looked up and called.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use crate::file::error_handler;
use crate::host::{Mpi, mpi};

/// The number of a handle in Fortran; 0 is no file.
pub(crate) fn number(_mpi: &Mpi, handle: usize) -> c_int {
    crate::file::handle_table::number(handle).unwrap_or(0)
}

/// The handle of a number in Fortran.
pub(crate) fn handle(mpi: &Mpi, number: c_int) -> usize {
    crate::file::handle_table::of_number(number).unwrap_or(mpi.constants.handles.file_null)
}

type Create = unsafe extern "C" fn(*const c_void, *mut c_int, *mut c_int);
type ErrhandlerOf = unsafe extern "C" fn(c_int) -> usize;

/// Creates an error handler by the binding's own function of this name, and records that it is Fortran's.
unsafe fn create(name: &std::ffi::CStr, function: *const c_void, number: *mut c_int, error: *mut c_int) {
    // SAFETY: the name is a C string; RTLD_NEXT finds the definition after this library's.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if next.is_null() {
        return;
    }
    // SAFETY: the type of this function in all bindings; arguments are passed on.
    unsafe {
        std::mem::transmute::<*mut c_void, Create>(next)(function, number, error);
        if *error == 0
            && let Ok(mpi) = mpi()
        {
            error_handler::remember_fortran(errhandler(mpi, *number), function);
        }
    }
}

/// The handle of an error handler that Fortran knows by this number.
fn errhandler(mpi: &Mpi, number: c_int) -> usize {
    let convert =
        mpi.host().function("PMPI_Errhandler_f2c").or_else(|| mpi.host().function("MPI_Errhandler_f2c"));
    let Some(convert) = convert else { return mpi.constants.handle(number as usize) };
    // SAFETY: the type that the standard gives this function, up to the width of handles.
    let convert = unsafe { std::mem::transmute::<usize, ErrhandlerOf>(convert) };
    // SAFETY: a number that the binding has just given.
    mpi.constants.handle(unsafe { convert(number) })
}

/// The names under which compilers and bindings look for it.
macro_rules! stand_in_front {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the names of bindings")]
        unsafe extern "C" fn $name(function: *const c_void, number: *mut c_int, error: *mut c_int) {
            let Ok(name) = std::ffi::CString::new(stringify!($name)) else { return };
            // SAFETY: the arguments are passed on unchanged.
            unsafe { create(&name, function, number, error) };
        }
    )*};
}

stand_in_front! {
    mpi_file_create_errhandler_ mpi_file_create_errhandler__ mpi_file_create_errhandler MPI_FILE_CREATE_ERRHANDLER
    pmpi_file_create_errhandler_ pmpi_file_create_errhandler__ pmpi_file_create_errhandler PMPI_FILE_CREATE_ERRHANDLER
    ompi_file_create_errhandler_f
}
