//! Error handlers, handles in Fortran, and data representations.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use super::completion::{Found, behind, call, own};
use super::{NO_MPI, export, on_file, on_none, put_handle, running, text};
use crate::datarep::{self, Conversion, Convert, ConvertLarge, Datarep, Extent};
use crate::errors::{Fault, Outcome};
use crate::handler::{self, Handler};
use crate::mpi::{Mpi, mpi};
use crate::{fortran, handle};

/// Calls the handler of a file, or of none, with a code of the program's.
fn call_handler(file: usize, code: c_int) -> c_int {
    let call = "MPI_File_call_errhandler";
    let mpi = match running(call) {
        Ok(mpi) => mpi,
        Err(code) => return code,
    };
    let fault = Fault::new(code, format!("the program raises error {code}"));
    match handle::find(file) {
        Some(open) => {
            open.owner.raise(mpi, call, &fault);
        }
        None if file == mpi.constants.handles.file_null => {
            handler::default(mpi).handle(mpi, file, call, &fault);
        }
        None => return on_none(call, |mpi| Err(super::no_file(mpi))),
    }
    0
}

fn is_none(file: usize) -> bool {
    mpi().is_ok_and(|mpi| mpi.constants.handles.file_null == file)
}

fn register(
    mpi: &Mpi,
    name: *const c_char,
    read: Conversion,
    write: Conversion,
    extent: Option<Extent>,
    extra: *mut c_void,
) -> Outcome<()> {
    let name = text(mpi, name, mpi.constants.integers.arg)?;
    let datarep = Datarep { read, write, extent, extra: extra as usize };
    datarep::register(mpi, &name.to_string_lossy(), datarep)
}

/// A conversion function; the constant for none is an address too, in Open MPI that of a function of its own.
fn conversion<F: Copy>(mpi: &Mpi, given: Option<F>, address: usize, make: fn(F) -> Conversion) -> Conversion {
    let none = ["MPI_CONVERSION_FN_NULL", "ompi_mpi_conversion_fn_null", "MPIR_CONVERSION_FN_NULL"];
    let is_none = none.iter().any(|name| mpi.host().function(name) == Some(address));
    given.filter(|_| !is_none).map_or(Conversion::None, make)
}

export! {
    fn MPI_File_create_errhandler PMPI_File_create_errhandler(function: *const c_void, made: *mut u8) {
        on_none("MPI_File_create_errhandler", |mpi| {
            let mut handle = 0;
            // SAFETY: the program's function; the handle lives here.
            let created = unsafe { (mpi.functions.file_create_errhandler)(function, &raw mut handle) };
            mpi.check("MPI_File_create_errhandler", created)?;
            handler::remember_c(handle, function);
            put_handle(mpi, made, handle)
        })
    }

    fn MPI_File_set_errhandler PMPI_File_set_errhandler(file: usize, handle: usize) {
        let call = "MPI_File_set_errhandler";
        if is_none(file) {
            return on_none(call, |mpi| {
                handler::set_default(mpi, Handler::new(mpi, mpi.constants.handle(handle))?);
                Ok(())
            });
        }
        on_file(call, file, |mpi, open| {
            open.owner.set_handler(Handler::new(mpi, mpi.constants.handle(handle))?);
            Ok(())
        })
    }

    fn MPI_File_get_errhandler PMPI_File_get_errhandler(file: usize, handle: *mut u8) {
        let call = "MPI_File_get_errhandler";
        if is_none(file) {
            return on_none(call, |mpi| put_handle(mpi, handle, handler::default(mpi).reference(mpi)?));
        }
        on_file(call, file, |mpi, open| put_handle(mpi, handle, open.owner.handler().reference(mpi)?))
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
        name: *const c_char, read: Option<Convert>, write: Option<Convert>, extent: Option<Extent>, extra: *mut c_void
    ) {
        on_none("MPI_Register_datarep", |mpi| {
            let read = conversion(mpi, read, read.map_or(0, |read| read as usize), Conversion::Small);
            let write = conversion(mpi, write, write.map_or(0, |write| write as usize), Conversion::Small);
            register(mpi, name, read, write, extent, extra)
        })
    }

    fn MPI_Register_datarep_c PMPI_Register_datarep_c(
        name: *const c_char, read: Option<ConvertLarge>, write: Option<ConvertLarge>, extent: Option<Extent>,
        extra: *mut c_void
    ) {
        on_none("MPI_Register_datarep_c", |mpi| {
            let read = conversion(mpi, read, read.map_or(0, |read| read as usize), Conversion::Large);
            let write = conversion(mpi, write, write.map_or(0, |write| write as usize), Conversion::Large);
            register(mpi, name, read, write, extent, extra)
        })
    }
}

/// MPI has made an error handler of communicators: its function is called where ours stands in for it and an error is not ours.
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
        handler::remember_c(mpi.constants.handle(handle), function);
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
