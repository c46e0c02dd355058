//! The MPI libraries loaded in this process, whether or not their symbols are globally visible.
//!
//! `unsafe` here: callbacks of the dynamic loader.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Opens a library only if it is loaded.
pub(crate) const NO_LOAD: c_int = libc::RTLD_NOLOAD;

/// The loaded libraries whose names start with `libmpi`.
pub(crate) fn mpi_libraries() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    // SAFETY: the callback gets the pointer it is given here, and the list outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut found).cast()) };
    found
}

unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid entry, and `libraries` its list.
    let (name, found) = unsafe { ((*info).dlpi_name, &mut *found.cast::<Vec<PathBuf>>()) };
    if !name.is_null() {
        // SAFETY: names of loaded objects are C strings.
        let path = PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
        let is_mpi = |name: &OsStr| name.as_bytes().starts_with(b"libmpi");
        if path.file_name().is_some_and(is_mpi) {
            found.push(path);
        }
    }
    0
}

/// The file that the code or data at an address was loaded from.
pub(crate) fn file_of_address(address: *const c_void) -> Option<PathBuf> {
    // SAFETY: all fields of this plain structure may be zero.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; the structure lives here.
    if unsafe { libc::dladdr(address, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own C string, which lives as long as the object is loaded.
    Some(PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes())))
}
