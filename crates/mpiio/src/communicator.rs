//! The engine's communicator for each communicator of the program, cached as an attribute of it.
//!
//! `unsafe` here: the communicators of the program are valid.
#![allow(unsafe_code)]

use std::sync::{Arc, OnceLock};

use aqueduct_comm::{Comm, HostComm, before_finalize};

use crate::datatype::committed;
use crate::host::Mpi;
use crate::host::{MpiError, Outcome};
use crate::request::{progress, ucx_progress};
use crate::shutdown_table::ShutdownTable;
use crate::{diagnostics, shutdown};

/// The cached data of a communicator of the program.
#[derive(Clone)]
pub(crate) struct EngineComm {
    pub(crate) comm: Comm,
    pub(crate) board: Arc<ShutdownTable>,
}

/// What is done before MPI ends.
fn end() {
    if let Ok(mpi) = crate::host::mpi() {
        shutdown::at_finalize(mpi);
    }
    aqueduct_comm::prepare_finalize();
    progress::end();
    committed::end();
}

/// Has files closed when MPI ends: set as soon as MPI is initialized, or at the first file.
pub(crate) fn act_at_finalize(mpi: &Mpi) -> Outcome<()> {
    static SET: OnceLock<Result<(), String>> = OnceLock::new();
    let set = SET.get_or_init(|| before_finalize(end).map_err(|error| error.to_string()));
    set.clone().map_err(|text| MpiError::new(mpi.constants.integers.other, text))
}

/// The engine's communicator of the ranks of `comm`. Collective.
pub(crate) fn of(mpi: &Mpi, comm: usize) -> Outcome<EngineComm> {
    let refuse = |text: &str| Err(MpiError::new(mpi.constants.integers.comm, text));
    if comm == mpi.constants.handles.comm_null || comm == 0 {
        return refuse("MPI_COMM_NULL cannot open a file; pass a communicator");
    }
    act_at_finalize(mpi)?;
    // SAFETY: a communicator of the program.
    let mut known = unsafe { HostComm::find(comm) };
    if let Ok(None) = &known {
        ucx_progress::note_open(mpi);
        let mut between = 0;
        // SAFETY: as above; the integer lives here.
        unsafe { (mpi.functions.comm_test_inter)(comm, &raw mut between) };
        if between != 0 {
            return refuse("an intercommunicator cannot open a file; pass an intracommunicator");
        }
        known = ucx_progress::in_mpi(|| {
            progress::drive_mpi_progress(mpi);
            // SAFETY: a valid communicator; what is made from it is dropped when MPI ends at the latest.
            unsafe { HostComm::of(comm) }.map(Some)
        });
    }
    let made = known.and_then(|known| {
        let host = known.expect("it was made");
        Ok(EngineComm { board: host.value(ShutdownTable::new)?, comm: host.comm().clone() })
    });
    made.map_err(|error| {
        // Printed, because the program gets only an error class and this affects every file.
        diagnostics::print_line(&format!("MPI_File_open: {error}"));
        MpiError::new(mpi.constants.integers.other, error.to_string())
    })
}
