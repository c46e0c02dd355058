//! When the library is loaded: whether it will be used at all is known then, and said if not.
//!
//! `unsafe` here: the loader is asked for addresses, and runs a function of ours.
#![allow(unsafe_code)]

use std::ffi::c_void;

use crate::verbose;

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = look;

extern "C" fn look() {
    let visible = |name: &std::ffi::CStr| {
        // SAFETY: a C string; any address will do.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
    };
    // A launcher and its helpers load us too, and have no MPI.
    if visible(c"MPI_Init").is_null() {
        return;
    }
    verbose::note("loaded");
    // Tools stand in front of the plain name, MPI itself would be in front of both.
    let found = visible(c"PMPI_File_open");
    if home(found) != home(look as *mut c_void) {
        verbose::say(
            "libaqueduct_mpiio.so was loaded behind the MPI library and will not be used: name it first in LD_PRELOAD, \
             or link it before MPI",
        );
    }
}

/// The object that an address belongs to.
fn home(address: *mut c_void) -> *mut c_void {
    // SAFETY: all fields of this plain structure may be zero; any address may be asked for.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(address, &raw mut info);
        info.dli_fbase
    }
}
