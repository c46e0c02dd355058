//! The functions that start MPI. They are MPI's own; we stand in front of them to be the first to ask for a call when it ends, which makes us the last to get
//! it: see [`act_at_finalize`].
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use super::NO_MPI;
use super::completion::{Found, behind, call, own};
use crate::communicator::act_at_finalize;
use crate::host::mpi;

/// MPI has been started, if the code says so.
fn started(code: c_int) -> c_int {
    if code == 0
        && let Ok(mpi) = mpi()
        && mpi.is_running()
    {
        // Where it fails, the first MPI_File_open does too, and says why.
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
