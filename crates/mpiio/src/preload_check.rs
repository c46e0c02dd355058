//! Check, when the library is loaded, that the program's calls will reach it; a warning if not.
//!
//! `unsafe` here: queries of the dynamic loader, and a constructor function.
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

/// The library that the program's calls of `MPI_File_*` reach.
enum PreloadCheck {
    /// This one.
    First,
    /// None yet: launchers load this library too, and interpreters load MPI later.
    NoMpi,
    /// Another library, which the loader finds first.
    Shadowed(PathBuf),
    /// Another library, which was loaded for a module before this one.
    LoadedLate(PathBuf),
    /// The program itself.
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
    // Tools interpose the MPI_ name only; MPI itself has both names.
    let Some(found) = program_symbol(c"PMPI_File_open") else {
        return match Host::find() {
            Ok(host) => PreloadCheck::LoadedLate(host.path().to_owned()),
            Err(_) => PreloadCheck::NoMpi,
        };
    };
    let (theirs, ours) = (object_of_address(found), object_of_address(look as *mut c_void));
    if theirs.0 == ours.0 {
        // A function that this library does not define.
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

/// The address that the program itself gets for a name. Modules may see further libraries.
fn program_symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the program's own handle, a C string; any address will do.
    let found = unsafe {
        let program = libc::dlopen(std::ptr::null(), libc::RTLD_LAZY);
        libc::dlsym(program, name.as_ptr())
    };
    (!found.is_null()).then_some(found)
}

/// The base address and the file of the object of an address.
fn object_of_address(address: *mut c_void) -> (usize, PathBuf) {
    // SAFETY: all fields of this plain structure may be zero; any address may be asked for; names of objects are C strings.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(address, &raw mut info);
        let name = if info.dli_fname.is_null() { c"" } else { CStr::from_ptr(info.dli_fname) };
        (info.dli_fbase as usize, PathBuf::from(OsStr::from_bytes(name.to_bytes())))
    }
}
