//! The functions that initialize MPI, interposed to be the first to register a callback for `MPI_Finalize`, which is then called
//! last: see [`act_at_finalize`].
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use super::NO_MPI;
use super::completion::{Found, behind, call, own};
use crate::communicator::act_at_finalize;
use crate::host::mpi;

/// Registers the callback if MPI was initialized.
fn started(code: c_int) -> c_int {
    if code == 0
        && let Ok(mpi) = mpi()
        && mpi.is_running()
    {
        // If it fails, the first MPI_File_open fails too, with a reason.
        let _ = act_at_finalize(mpi);
    }
    code
}

macro_rules! stand_in {
    ($($find:ident fn $name:ident($($argument:ident: $kind:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the standard's names")]
        unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            static FOUND: Found = OnceLock::new();
            started(call!($find(&FOUND, stringify!($name)), $($argument: $kind),*))
        }
    )*};
}

type Arguments = *mut c_void;

stand_in! {
    behind fn MPI_Init(count: Arguments, words: Arguments);
    own fn PMPI_Init(count: Arguments, words: Arguments);
    behind fn MPI_Init_thread(count: Arguments, words: Arguments, wanted: c_int, given: *mut c_int);
    own fn PMPI_Init_thread(count: Arguments, words: Arguments, wanted: c_int, given: *mut c_int);
}
