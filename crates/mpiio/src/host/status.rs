//! Statuses: how much was transferred, always told, zero bytes too.
//!
//! `unsafe` here: a status is the caller's memory, filled by MPI itself.
#![allow(unsafe_code)]

use std::ffi::c_void;

use crate::host::Mpi;

/// Says in a status that so many bytes were transferred, unless the caller does not want to know.
pub(crate) fn set(mpi: &Mpi, status: *mut c_void, bytes: u64) {
    // Two of the implementations mark an unwanted status by the null pointer, one by another address.
    if status.is_null() || status as i64 == mpi.constants.integers.status_ignore {
        return;
    }
    // SAFETY: a status of the caller's.
    unsafe {
        (mpi.functions.status_set_elements_x)(status, mpi.constants.handles.byte, bytes as i64);
        (mpi.functions.status_set_cancelled)(status, 0);
    }
}
