//! Check that a datatype is committed. MPI has no query for it, but fails to send an uncommitted datatype, even to
//! `MPI_PROC_NULL`.
//!
//! `unsafe` here: MPI is called.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::host::{Mpi, mpi};
use crate::host::{MpiError, Outcome};

/// A communicator of this process that returns errors; created when needed, freed when MPI is finalized.
static OWN: Mutex<Option<usize>> = Mutex::new(None);

fn own() -> MutexGuard<'static, Option<usize>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails for a datatype that is not committed.
pub(crate) fn check(mpi: &Mpi, datatype: usize) -> Outcome<()> {
    let (known, functions) = (mpi.constants.integers, &mpi.functions);
    let comm = communicator(mpi)?;
    let (nothing, mut class) = (0u64, 0);
    // SAFETY: the destination is MPI_PROC_NULL, so nothing is read; the class is filled here.
    unsafe {
        let sent =
            (functions.send)((&raw const nothing).cast(), 1, datatype, known.proc_null as c_int, 0, comm);
        if sent != 0 {
            (functions.error_class)(sent, &raw mut class);
        }
    }
    if i64::from(class) == known.type_ {
        return Err(MpiError::new(known.type_, "the datatype is not committed; call MPI_Type_commit first"));
    }
    Ok(())
}

fn communicator(mpi: &Mpi) -> Outcome<usize> {
    let mut own = own();
    if let Some(comm) = *own {
        return Ok(comm);
    }
    let (handles, functions) = (&mpi.constants.handles, &mpi.functions);
    let mut comm = 0;
    // SAFETY: a predefined communicator, split by its only rank: a duplicate would copy the program's attributes.
    unsafe {
        mpi.check("MPI_Comm_split", (functions.comm_split)(handles.comm_self, 0, 0, &raw mut comm))?;
        let set = (functions.comm_set_errhandler)(comm, handles.errors_return);
        mpi.check("MPI_Comm_set_errhandler", set)?;
    }
    *own = Some(comm);
    Ok(comm)
}

/// Frees the communicator before MPI is finalized.
pub(crate) fn end() {
    if let (Ok(mpi), Some(mut comm)) = (mpi(), own().take()) {
        // SAFETY: created here, not used again.
        unsafe { (mpi.functions.comm_free)(&raw mut comm) };
    }
}
