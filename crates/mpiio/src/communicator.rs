//! The engine's communicator for each communicator of the program, cached as an attribute of it.
//!
//! `unsafe` here: attributes are addresses, and MPI calls back when they are deleted.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::{Arc, OnceLock};

use aqueduct_comm::Comm;

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

impl EngineComm {
    /// Collective.
    fn new(ranks: Comm) -> aqueduct_comm::Result<Self> {
        Ok(Self { board: ShutdownTable::new(&ranks)?, comm: ranks })
    }
}

/// Copies of a communicator get their own when they open a file.
unsafe extern "C" fn not_copied(
    _object: usize,
    _key: c_int,
    _extra: *mut c_void,
    _value: *mut c_void,
    _copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI passes an integer to be filled.
    unsafe { *flag = 0 };
    0
}

unsafe extern "C" fn gone(_object: usize, _key: c_int, value: *mut c_void, _extra: *mut c_void) -> c_int {
    // SAFETY: the value was created below, and MPI deletes it once.
    drop(unsafe { Box::from_raw(value.cast::<EngineComm>()) });
    0
}

/// MPI deletes the attributes of `MPI_COMM_SELF` before anything else when it ends.
unsafe extern "C" fn end(_object: usize, _key: c_int, _value: *mut c_void, _extra: *mut c_void) -> c_int {
    if let Ok(mpi) = crate::host::mpi() {
        shutdown::at_finalize(mpi);
    }
    aqueduct_comm::prepare_finalize();
    progress::end();
    committed::end();
    0
}

/// Sets an attribute of `MPI_COMM_SELF`, once. MPI deletes attributes in the reverse order of their creation (MPI 4.1, section 11.2.4): callbacks
/// of attributes set later run before this one and may still write. So it is set as soon as MPI is initialized, or at the first file.
pub(crate) fn act_at_finalize(mpi: &Mpi) -> Outcome<()> {
    static SET: OnceLock<Outcome<()>> = OnceLock::new();
    let set = || {
        let (mut last, own) = (0, mpi.constants.handles.comm_self);
        // SAFETY: callbacks of the types that MPI prescribes; the integer lives here.
        unsafe {
            let made =
                (mpi.functions.comm_create_keyval)(not_copied, end, &raw mut last, std::ptr::null_mut());
            mpi.check("MPI_Comm_create_keyval", made)?;
            let set = (mpi.functions.comm_set_attr)(own, last, (&raw const END).cast_mut().cast());
            mpi.check("MPI_Comm_set_attr", set)
        }
    };
    SET.get_or_init(set).clone()
}

fn key(mpi: &Mpi) -> Outcome<c_int> {
    static KEY: OnceLock<Outcome<c_int>> = OnceLock::new();
    let make = || {
        act_at_finalize(mpi)?;
        let mut key = 0;
        // SAFETY: as above.
        let made = unsafe {
            (mpi.functions.comm_create_keyval)(not_copied, gone, &raw mut key, std::ptr::null_mut())
        };
        mpi.check("MPI_Comm_create_keyval", made).map(|()| key)
    };
    KEY.get_or_init(make).clone()
}

/// The value of the attribute.
static END: u8 = 0;

/// The engine's communicator of the ranks of `comm`. Collective.
pub(crate) fn of(mpi: &Mpi, comm: usize) -> Outcome<EngineComm> {
    let refuse = |text: &str| Err(MpiError::new(mpi.constants.integers.comm, text));
    if comm == mpi.constants.handles.comm_null || comm == 0 {
        return refuse("MPI_COMM_NULL cannot open a file; pass a communicator");
    }
    let key = key(mpi)?;
    let (mut value, mut found) = (std::ptr::null_mut(), 0);
    // SAFETY: a communicator of the program; what is filled lives here.
    let got = unsafe { (mpi.functions.comm_get_attr)(comm, key, &raw mut value, &raw mut found) };
    mpi.check("MPI_Comm_get_attr", got)?;
    if found != 0 {
        // SAFETY: the attribute holds what was put there below, and lives as long as the communicator, which is in use.
        return Ok(unsafe { &*value.cast::<EngineComm>() }.clone());
    }
    ucx_progress::note_open(mpi);
    let mut between = 0;
    // SAFETY: as above.
    unsafe { (mpi.functions.comm_test_inter)(comm, &raw mut between) };
    if between != 0 {
        return refuse("an intercommunicator cannot open a file; pass an intracommunicator");
    }
    let made = ucx_progress::in_mpi(|| {
        progress::drive_mpi_progress(mpi);
        // SAFETY: a valid communicator; the result is dropped when MPI ends at the latest, with the attribute.
        unsafe { Comm::from_mpi(comm) }
    });
    let made = made.and_then(EngineComm::new);
    let made = made.map_err(|error| {
        // Printed, because the program gets only an error class and this affects every file.
        diagnostics::print_line(&format!("MPI_File_open: {error}"));
        MpiError::new(mpi.constants.integers.other, error.to_string())
    })?;
    let value = Box::into_raw(Box::new(made.clone()));
    // SAFETY: the value is freed when the attribute is deleted.
    let set = unsafe { (mpi.functions.comm_set_attr)(comm, key, value.cast()) };
    mpi.check("MPI_Comm_set_attr", set)?;
    Ok(made)
}
