//! Error handlers, handles in Fortran, and data representations.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use super::completion::{Found, behind, call, own};
use super::fortran;
use super::{NO_MPI, export, put_handle, running, text, with_file, without_file};
use crate::buffer::datarep::{self, ConversionFn, Datarep, DatarepConversion, ExtentFn, LargeConversionFn};
use crate::file::error_handler::{self, ErrorHandler};
use crate::file::handle_table;
use crate::host::{Mpi, mpi};
use crate::host::{MpiError, Outcome};

/// Calls the handler of a file, or of `MPI_FILE_NULL`, with a code of the program.
fn call_handler(file: usize, code: c_int) -> c_int {
    let call = "MPI_File_call_errhandler";
    let mpi = match running(call) {
        Ok(mpi) => mpi,
        Err(code) => return code,
    };
    let fault = MpiError::new(code, format!("the program raises error {code}"));
    match handle_table::find(file) {
        Some(open) => {
            open.error_context.raise(mpi, call, &fault);
        }
        None if file == mpi.constants.handles.file_null => {
            error_handler::default(mpi).handle(mpi, file, call, &fault);
        }
        None => return without_file(call, |mpi| Err(super::no_file(mpi))),
    }
    0
}

fn is_none(file: usize) -> bool {
    mpi().is_ok_and(|mpi| mpi.constants.handles.file_null == file)
}

fn register(
    mpi: &Mpi,
    name: *const c_char,
    read: DatarepConversion,
    write: DatarepConversion,
    extent: Option<ExtentFn>,
    extra: *mut c_void,
) -> Outcome<()> {
    let name = text(mpi, name, mpi.constants.integers.arg)?;
    let datarep = Datarep { read, write, extent, extra: extra as usize };
    datarep::register(mpi, &name.to_string_lossy(), datarep)
}

/// A conversion function; the constant for none is an address too, in Open MPI that of a function of its own.
fn conversion<F: Copy>(
    mpi: &Mpi,
    given: Option<F>,
    address: usize,
    make: fn(F) -> DatarepConversion,
) -> DatarepConversion {
    let none = ["MPI_CONVERSION_FN_NULL", "ompi_mpi_conversion_fn_null", "MPIR_CONVERSION_FN_NULL"];
    let is_none = none.iter().any(|name| mpi.host().function(name) == Some(address));
    given.filter(|_| !is_none).map_or(DatarepConversion::None, make)
}

export! {
    fn MPI_File_create_errhandler PMPI_File_create_errhandler(function: *const c_void, made: *mut u8) {
        without_file("MPI_File_create_errhandler", |mpi| {
            let mut handle = 0;
            // SAFETY: the program's function; the handle lives here.
            let created = unsafe { (mpi.functions.file_create_errhandler)(function, &raw mut handle) };
            mpi.check("MPI_File_create_errhandler", created)?;
            error_handler::remember_c(handle, function);
            put_handle(mpi, made, handle)
        })
    }

    fn MPI_File_set_errhandler PMPI_File_set_errhandler(file: usize, handle: usize) {
        let call = "MPI_File_set_errhandler";
        if is_none(file) {
            return without_file(call, |mpi| {
                error_handler::set_default(mpi, ErrorHandler::new(mpi, mpi.constants.handle(handle))?);
                Ok(())
            });
        }
        with_file(call, file, |mpi, open| {
            open.error_context.set_handler(ErrorHandler::new(mpi, mpi.constants.handle(handle))?);
            Ok(())
        })
    }

    fn MPI_File_get_errhandler PMPI_File_get_errhandler(file: usize, handle: *mut u8) {
        let call = "MPI_File_get_errhandler";
        if is_none(file) {
            return without_file(call, |mpi| put_handle(mpi, handle, error_handler::default(mpi).reference(mpi)?));
        }
        with_file(call, file, |mpi, open| put_handle(mpi, handle, open.error_context.handler().reference(mpi)?))
    }

    fn MPI_File_call_errhandler PMPI_File_call_errhandler(file: usize, code: c_int) {
        call_handler(file, code)
    }

    fn MPI_File_c2f PMPI_File_c2f(file: usize) {
        mpi().map_or(0, |mpi| fortran::number(mpi, file))
    }

    fn MPI_File_toint PMPI_File_toint(file: usize) {
        mpi().map_or(0, |mpi| fortran::number(mpi, file))
    }

    fn MPI_Register_datarep PMPI_Register_datarep(
        name: *const c_char, read: Option<ConversionFn>, write: Option<ConversionFn>, extent: Option<ExtentFn>, extra: *mut c_void
    ) {
        without_file("MPI_Register_datarep", |mpi| {
            let read = conversion(mpi, read, read.map_or(0, |read| read as usize), DatarepConversion::Small);
            let write = conversion(mpi, write, write.map_or(0, |write| write as usize), DatarepConversion::Small);
            register(mpi, name, read, write, extent, extra)
        })
    }

    fn MPI_Register_datarep_c PMPI_Register_datarep_c(
        name: *const c_char, read: Option<LargeConversionFn>, write: Option<LargeConversionFn>, extent: Option<ExtentFn>,
        extra: *mut c_void
    ) {
        without_file("MPI_Register_datarep_c", |mpi| {
            let read = conversion(mpi, read, read.map_or(0, |read| read as usize), DatarepConversion::Large);
            let write = conversion(mpi, write, write.map_or(0, |write| write as usize), DatarepConversion::Large);
            register(mpi, name, read, write, extent, extra)
        })
    }
}

/// Records the function of a communicator error handler, which is called while a replacement is installed and another error occurs.
fn remember(code: c_int, function: *const c_void, made: *mut u8) -> c_int {
    if code == 0
        && !made.is_null()
        && let Ok(mpi) = mpi()
    {
        // SAFETY: MPI has put a handle there, of the width that its handles have.
        let handle = unsafe {
            match mpi.constants.width() {
                4 => made.cast::<u32>().read_unaligned() as usize,
                _ => made.cast::<usize>().read_unaligned(),
            }
        };
        error_handler::remember_c(mpi.constants.handle(handle), function);
    }
    code
}

macro_rules! remembered {
    ($($find:ident $name:ident;)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the standard's names")]
        unsafe extern "C" fn $name(function: *const c_void, made: *mut u8) -> c_int {
            static FOUND: Found = OnceLock::new();
            let code = call!($find(&FOUND, stringify!($name)), function: *const c_void, made: *mut u8);
            remember(code, function, made)
        }
    )*};
}

remembered! {
    behind MPI_Comm_create_errhandler;
    own PMPI_Comm_create_errhandler;
}

/// The file of a number of Fortran.
fn of_number(number: c_int) -> usize {
    mpi().map_or(0, |mpi| fortran::handle(mpi, number))
}

macro_rules! of_number {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the standard's names")]
        extern "C" fn $name(number: c_int) -> usize {
            of_number(number)
        }
    )*};
}

of_number! { MPI_File_f2c PMPI_File_f2c MPI_File_fromint PMPI_File_fromint }
