//! Statuses: the number of bytes transferred, always set, also if it is zero.
//!
//! `unsafe` here: a status is memory of the caller, filled by MPI.
#![allow(unsafe_code)]

use std::ffi::c_void;

use crate::host::Mpi;

/// Sets the number of bytes of a status, unless it is `MPI_STATUS_IGNORE`.
pub(crate) fn set(mpi: &Mpi, status: *mut c_void, bytes: u64) {
    // MPI_STATUS_IGNORE is a null pointer in two ABIs, another address in one.
    if status.is_null() || status as i64 == mpi.constants.integers.status_ignore {
        return;
    }
    // SAFETY: a status of the caller's.
    unsafe {
        (mpi.functions.status_set_elements_x)(status, mpi.constants.handles.byte, bytes as i64);
        (mpi.functions.status_set_cancelled)(status, 0);
    }
}
