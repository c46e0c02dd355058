//! Every function that the MPI standard defines for files, under its MPI_ and its PMPI_ name.
//!
//! `unsafe` here and below: C passes addresses that are valid as the standard requires. A function takes handles as integers of
//! the width of a register and converts them with [`AbiConstants::handle`](crate::abi::AbiConstants::handle).
#![allow(unsafe_code)]

mod access;
mod completion;
mod errhandlers;
mod fortran;
mod initialize;
mod manage;
mod position;
mod requests;
mod split;
mod view;

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};

use crate::diagnostics;
use crate::file::MpiFile;
use crate::file::{error_handler, handle_table};
use crate::host::{Mpi, mpi};
use crate::host::{MpiError, Outcome};
use crate::request::{report_freed_failures, request_errors};

/// Defines C functions under two names each: a tool interposes the first and calls the second. Neither calls the other by
/// name, because that might call the tool.
macro_rules! export {
    ($(fn $name:ident $profiled:ident ($($argument:ident: $kind:ty),*) $body:block)*) => {$(
        const _: () = {
            unsafe fn body($($argument: $kind),*) -> c_int $body

            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "the standard's names")]
            unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                // SAFETY: the arguments are passed on unchanged.
                unsafe { body($($argument),*) }
            }

            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "the standard's names")]
            unsafe extern "C" fn $profiled($($argument: $kind),*) -> c_int {
                // SAFETY: the arguments are passed on unchanged.
                unsafe { body($($argument),*) }
            }
        };
    )*};
}
pub(crate) use export;

/// The result of a call without MPI: `MPI_ERR_OTHER` of most implementations.
const NO_MPI: c_int = 16;

/// The host's MPI, if it is initialized; otherwise the error.
fn running(call: &str) -> Result<&'static Mpi, c_int> {
    static SAID: Once = Once::new();
    let say = |text: &str| SAID.call_once(|| diagnostics::print_line(&format!("{call}: {text}")));
    let mpi = mpi().map_err(|why| {
        say(&format!("{why}. This library supports programs with a shared Open MPI, MPICH or MPI 5 library"));
        NO_MPI
    })?;
    if !mpi.is_running() {
        say(
            "MPI is not initialized in this process, or is finalized; call it between MPI_Init and MPI_Finalize",
        );
        return Err(mpi.constants.integers.other as c_int);
    }
    request_errors::disarm(mpi);
    aqueduct_comm::progress();
    report_freed_failures(mpi);
    Ok(mpi)
}

/// Does the work; a panic becomes an error of the call.
fn guarded<T>(mpi: &Mpi, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let text = "internal error; please report this defect";
        Err(MpiError::new(mpi.constants.integers.intern, text))
    })
}

/// A call without a file: errors go to the handler of `MPI_FILE_NULL`.
fn without_file(call: &'static str, work: impl FnOnce(&'static Mpi) -> Outcome<()>) -> c_int {
    let mpi = match running(call) {
        Ok(mpi) => mpi,
        Err(code) => return code,
    };
    match guarded(mpi, || work(mpi)) {
        Ok(()) => 0,
        Err(fault) => error_handler::default(mpi).handle(mpi, mpi.constants.handles.file_null, call, &fault),
    }
}

/// A call on a file: errors go to its handler.
fn with_file(
    call: &'static str,
    file: usize,
    work: impl FnOnce(&'static Mpi, &Arc<MpiFile>) -> Outcome<()>,
) -> c_int {
    let mpi = match running(call) {
        Ok(mpi) => mpi,
        Err(code) => return code,
    };
    let Some(open) = handle_table::find(file) else { return without_file(call, |mpi| Err(no_file(mpi))) };
    match guarded(mpi, || work(mpi, &open)) {
        Ok(()) => 0,
        Err(fault) => {
            let owner = Arc::clone(&open.error_context);
            drop(open);
            owner.raise(mpi, call, &fault)
        }
    }
}

fn no_file(mpi: &Mpi) -> MpiError {
    MpiError::new(mpi.constants.integers.file, "not an open file: MPI_FILE_NULL, or already closed")
}

/// An error of the engine in MPI's terms.
fn to_mpi_result<T>(mpi: &Mpi, outcome: aqueduct_file::Result<T>) -> Outcome<T> {
    outcome.map_err(|error| MpiError::of(mpi, &error))
}

/// The place for a result; a null pointer is an error.
fn put<T>(mpi: &Mpi, place: *mut T, value: T) -> Outcome<()> {
    if place.is_null() {
        return Err(MpiError::new(mpi.constants.integers.arg, "the pointer for the result is null"));
    }
    // SAFETY: the caller's place for a value of this type.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Stores a handle, except of a file; handles are narrower in some implementations.
#[allow(clippy::cast_ptr_alignment, reason = "unaligned places are written byte by byte")]
fn put_handle(mpi: &Mpi, place: *mut u8, handle: usize) -> Outcome<()> {
    match mpi.constants.width() {
        4 => put(mpi, place.cast::<u32>(), handle as u32),
        _ => put(mpi, place.cast::<usize>(), handle),
    }
}

/// A string of the caller's.
fn text(mpi: &Mpi, text: *const c_char, code: i64) -> Outcome<OsString> {
    if text.is_null() {
        return Err(MpiError::new(code, "the name is a null pointer"));
    }
    let _ = mpi;
    // SAFETY: the caller passes a C string.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    Ok(OsStr::from_bytes(bytes).to_owned())
}

/// A length or an offset, which must not be negative.
fn natural(mpi: &Mpi, what: &str, number: i64) -> Outcome<u64> {
    u64::try_from(number)
        .map_err(|_| MpiError::new(mpi.constants.integers.arg, format!("{what} is {number}")))
}
