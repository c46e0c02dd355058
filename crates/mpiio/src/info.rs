//! Info objects: hints between the program's MPI and the engine.
//!
//! `unsafe` here: MPI fills buffers.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::sync::Once;

use aqueduct_comm::Comm;
use aqueduct_file::Info;

use crate::host::Mpi;
use crate::host::{MpiError, Outcome};
use crate::{diagnostics, settings};

/// More than any implementation's longest key.
const KEY: usize = 1024;

/// The hints of an info object.
pub(crate) fn read(mpi: &Mpi, handle: usize) -> Outcome<Info> {
    let (handles, functions) = (&mpi.constants.handles, &mpi.functions);
    let mut info = Info::new();
    if handle == handles.info_null {
        return Ok(info);
    }
    if handle == 0 {
        return Err(MpiError::new(
            mpi.constants.integers.info,
            "invalid info object; pass MPI_INFO_NULL for no hints",
        ));
    }
    let mut keys = 0;
    // SAFETY: integers and buffers live here; keys are shorter than the buffer, and a value's length is queried first.
    unsafe {
        mpi.check("MPI_Info_get_nkeys", (functions.info_get_nkeys)(handle, &raw mut keys))?;
        for number in 0..keys {
            let mut key = [0u8; KEY];
            let got = (functions.info_get_nthkey)(handle, number, key.as_mut_ptr().cast());
            mpi.check("MPI_Info_get_nthkey", got)?;
            let key: *const c_char = key.as_ptr().cast();
            let (mut len, mut there) = (0, 0);
            let got = (functions.info_get_valuelen)(handle, key, &raw mut len, &raw mut there);
            mpi.check("MPI_Info_get_valuelen", got)?;
            let mut value = vec![0u8; len.max(0) as usize + 1];
            let got = (functions.info_get)(handle, key, len, value.as_mut_ptr().cast(), &raw mut there);
            mpi.check("MPI_Info_get", got)?;
            if there != 0 {
                let value = CStr::from_bytes_until_nul(&value).unwrap_or_default();
                info.set(CStr::from_ptr(key).to_string_lossy().trim(), value.to_string_lossy().trim());
            }
        }
    }
    Ok(info)
}

/// Hints for buffering from the environment, for unchanged programs.
///
/// Between machines a buffered file guarantees only MPI's sync-barrier-sync rule. Some programs rely on more, for example parallel HDF5,
/// so the user must enable it.
pub(crate) fn from_env(ranks: &Comm) -> Info {
    static SAID: Once = Once::new();
    let known = [
        ("AQUEDUCT_BUFFER", "aqueduct_buffer"),
        ("AQUEDUCT_SPILL", "aqueduct_spill"),
        ("AQUEDUCT_SPILL_SIZE", "aqueduct_spill_size"),
    ];
    let given = known.into_iter().filter_map(|(variable, key)| Some((key, settings::valid(variable)?)));
    let info: Info = given.collect();
    let everywhere = settings::valid("AQUEDUCT_BUFFER_NODES").is_some_and(|value| value == "1");
    if info.get("aqueduct_buffer").is_none() || ranks.node_count() == 1 || everywhere {
        return info;
    }
    if aqueduct_report::is_enabled() && ranks.rank() == 0 {
        SAID.call_once(|| {
            diagnostics::print_line(
                "files are not buffered: the ranks are on several machines; if the program syncs before ranks read or write over what \
                 others wrote, as MPI wants it, AQUEDUCT_BUFFER_NODES=1 buffers them",
            );
        });
    }
    Info::new()
}

/// A new info object with these hints.
pub(crate) fn create(mpi: &Mpi, info: &Info) -> Outcome<usize> {
    let mut handle = 0;
    // SAFETY: fills a handle that lives here.
    mpi.check("MPI_Info_create", unsafe { (mpi.functions.info_create)(&raw mut handle) })?;
    for (key, value) in info.iter() {
        let (Ok(key), Ok(value)) = (CString::new(key), CString::new(value)) else { continue };
        // Some implementations reject empty values; they have no effect.
        if !value.is_empty() {
            // SAFETY: a handle created here and C strings that live here.
            let set = unsafe { (mpi.functions.info_set)(handle, key.as_ptr(), value.as_ptr()) };
            mpi.check("MPI_Info_set", set)?;
        }
    }
    Ok(handle)
}
