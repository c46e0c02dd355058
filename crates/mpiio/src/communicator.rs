//! The engine's communicator for each communicator of the program: made once, kept as an attribute of it, gone with it.
//!
//! `unsafe` here: attributes are addresses, and MPI calls back when they go.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::{Arc, OnceLock};

use aqueduct_comm::Comm;

use crate::ending::{self, EndingBoard};
use crate::errors::{Fault, Outcome};
use crate::mpi::Mpi;
use crate::{datatype::committed, progress, verbose};

/// What is made of a communicator of the program.
#[derive(Clone)]
pub(crate) struct Adopted {
    pub(crate) ranks: Comm,
    pub(crate) board: Arc<EndingBoard>,
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
    // SAFETY: the value was made below, and MPI says once that it goes.
    drop(unsafe { Box::from_raw(value.cast::<Adopted>()) });
    0
}

/// MPI deletes the attributes of `MPI_COMM_SELF` before anything else when it ends.
unsafe extern "C" fn end(_object: usize, _key: c_int, _value: *mut c_void, _extra: *mut c_void) -> c_int {
    if let Ok(mpi) = crate::mpi::mpi() {
        ending::at_finalize(mpi);
    }
    aqueduct_comm::before_mpi_ends();
    progress::end();
    committed::end();
    0
}

fn key(mpi: &Mpi) -> Outcome<c_int> {
    static KEY: OnceLock<Result<c_int, Fault>> = OnceLock::new();
    let make = || {
        let (mut key, mut last) = (0, 0);
        let create = mpi.functions.comm_create_keyval;
        // SAFETY: callbacks of the types that MPI prescribes; integers live here.
        unsafe {
            let made = create(not_copied, gone, &raw mut key, std::ptr::null_mut());
            mpi.check("MPI_Comm_create_keyval", made)?;
            let made = create(not_copied, end, &raw mut last, std::ptr::null_mut());
            mpi.check("MPI_Comm_create_keyval", made)?;
            let own = mpi.constants.handles.comm_self;
            let set = (mpi.functions.comm_set_attr)(own, last, (&raw const END).cast_mut().cast());
            mpi.check("MPI_Comm_set_attr", set)?;
        }
        Ok(key)
    };
    KEY.get_or_init(make).clone()
}

/// Something to point to: an attribute has a value.
static END: u8 = 0;

/// The engine's communicator of the ranks of `comm`. Collective.
pub(crate) fn of(mpi: &Mpi, comm: usize) -> Outcome<Adopted> {
    let refuse = |text: &str| Err(Fault::new(mpi.constants.integers.comm, text));
    if comm == mpi.constants.handles.comm_null || comm == 0 {
        return refuse("MPI_COMM_NULL opens no file; pass a communicator");
    }
    let key = key(mpi)?;
    let (mut value, mut found) = (std::ptr::null_mut(), 0);
    // SAFETY: a communicator of the program; what is filled lives here.
    let got = unsafe { (mpi.functions.comm_get_attr)(comm, key, &raw mut value, &raw mut found) };
    mpi.check("MPI_Comm_get_attr", got)?;
    if found != 0 {
        // SAFETY: the attribute holds what was put there below, and lives as long as the communicator, which is in use.
        return Ok(unsafe { &*value.cast::<Adopted>() }.clone());
    }
    let mut between = 0;
    // SAFETY: as above.
    unsafe { (mpi.functions.comm_test_inter)(comm, &raw mut between) };
    if between != 0 {
        return refuse("an intercommunicator opens no file; pass an intracommunicator");
    }
    // SAFETY: a valid communicator; the result is dropped when MPI ends at the latest, with the attribute.
    let made = unsafe { Comm::from_mpi(comm) };
    let made = made.and_then(|ranks| Ok(Adopted { board: EndingBoard::new(&ranks)?, ranks }));
    let made = made.map_err(|error| {
        // The program gets a class only, and this concerns every file.
        verbose::say(&format!("MPI_File_open: {error}"));
        Fault::new(mpi.constants.integers.other, error.to_string())
    })?;
    let value = Box::into_raw(Box::new(made.clone()));
    // SAFETY: the value is given back when the attribute goes.
    let set = unsafe { (mpi.functions.comm_set_attr)(comm, key, value.cast()) };
    mpi.check("MPI_Comm_set_attr", set)?;
    Ok(made)
}
