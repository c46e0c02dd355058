//! When the library is loaded: whether the program's calls will reach it is known then, and said if not.
//!
//! `unsafe` here: the loader is asked for addresses, and runs a function of ours.
#![allow(unsafe_code)]

mod elf_symbols;

use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aqueduct_comm::Host;

use crate::diagnostics;

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = look;

/// Where the program's calls of `MPI_File_*` lead.
enum PreloadCheck {
    /// To us.
    First,
    /// Nowhere yet: launchers and their helpers load us too, interpreters load MPI later.
    NoMpi,
    /// To this library, which the loader finds before us.
    Shadowed(PathBuf),
    /// To this library, which was loaded for a module alone before we were.
    LoadedLate(PathBuf),
    /// Into the program itself.
    StaticallyLinked(PathBuf),
}

extern "C" fn look() {
    let (note, text) = match check_preload() {
        PreloadCheck::First => return diagnostics::append_handshake("loaded"),
        PreloadCheck::NoMpi => {
            let program = std::env::current_exe().unwrap_or_default();
            return diagnostics::append_handshake(&format!("present {}", program.display()));
        }
        PreloadCheck::Shadowed(home) => {
            let home = home.display();
            let text = format!(
                "libaqueduct_mpiio.so was loaded behind {home} and will not be used, MPI_File_* stay that library's: name ours first in \
                 LD_PRELOAD, or link it before MPI (-laqueduct_mpiio -lmpi)"
            );
            (format!("behind {home}"), text)
        }
        PreloadCheck::LoadedLate(home) => {
            let home = home.display();
            let text = format!(
                "libaqueduct_mpiio.so was loaded too late, after {home}, and will not be used: name it in LD_PRELOAD when the program \
                 starts, or load it before MPI with RTLD_GLOBAL"
            );
            (format!("behind {home}"), text)
        }
        PreloadCheck::StaticallyLinked(program) => {
            let program = program.display();
            let text = format!(
                "{program} has MPI linked into it statically, so libaqueduct_mpiio.so will not be used: link it with the shared MPI library \
                 (without -static, -lmpi instead of libmpi.a)"
            );
            (format!("static {program}"), text)
        }
    };
    diagnostics::append_handshake(&note);
    diagnostics::print_line(&text);
}

fn check_preload() -> PreloadCheck {
    let program = std::env::current_exe().unwrap_or_default();
    // Tools stand in front of the plain name, MPI itself would be in front of both.
    let Some(found) = program_symbol(c"PMPI_File_open") else {
        return match Host::find() {
            Ok(host) => PreloadCheck::LoadedLate(host.path().to_owned()),
            Err(_) => PreloadCheck::NoMpi,
        };
    };
    let (theirs, ours) = (object_of_address(found), object_of_address(look as *mut c_void));
    if theirs.0 == ours.0 {
        // A function that we do not stand in front of.
        if program_symbol(c"MPI_Comm_rank").is_some() {
            return PreloadCheck::First;
        }
        return if elf_symbols::defines_function(&program, "PMPI_File_open") {
            PreloadCheck::StaticallyLinked(program)
        } else {
            PreloadCheck::NoMpi
        };
    }
    if is_same(&theirs.1, &program) {
        PreloadCheck::StaticallyLinked(program)
    } else {
        PreloadCheck::Shadowed(theirs.1)
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// What the program itself would get for a name. A library that was loaded for a module alone sees more than that.
fn program_symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the program's own handle, a C string; any address will do.
    let found = unsafe {
        let program = libc::dlopen(std::ptr::null(), libc::RTLD_LAZY);
        libc::dlsym(program, name.as_ptr())
    };
    (!found.is_null()).then_some(found)
}

/// The object that an address belongs to: where it lies, and its file.
fn object_of_address(address: *mut c_void) -> (usize, PathBuf) {
    // SAFETY: all fields of this plain structure may be zero; any address may be asked for; names of objects are C strings.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(address, &raw mut info);
        let name = if info.dli_fname.is_null() { c"" } else { CStr::from_ptr(info.dli_fname) };
        (info.dli_fbase as usize, PathBuf::from(OsStr::from_bytes(name.to_bytes())))
    }
}
