//! Opening, closing, deleting; sizes, hints, modes.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::sync::{Arc, OnceLock};

use aqueduct_file::{Info, Mode, OpenOptions};

use super::{
    export, natural, no_file, put, put_handle, running, text, to_mpi_result, with_file, without_file,
};
use crate::communicator::{self, EngineComm};
use crate::file::{FileErrorContext, MpiFile, MpiGroup};
use crate::file::{error_handler, handle_table};
use crate::host::Mpi;
use crate::host::{MpiError, Outcome, to_engine_error};
use crate::settings::file_name::{self, DeviceWrappers};
use crate::{diagnostics, info, request, settings, shutdown};

fn wrappers() -> &'static DeviceWrappers {
    static WRAPPERS: OnceLock<DeviceWrappers> = OnceLock::new();
    WRAPPERS.get_or_init(DeviceWrappers::from_env)
}

/// The engine's mode; the engine reports contradictions, on all ranks.
fn mode(mpi: &Mpi, amode: c_int) -> Outcome<Mode> {
    let known = mpi.constants.integers;
    let has = |bit: i64| i64::from(amode) & bit != 0;
    let mut mode = match (has(known.mode_rdonly), has(known.mode_rdwr), has(known.mode_wronly)) {
        (true, false, false) => Mode::read_only(),
        (false, true, false) => Mode::read_write(),
        (false, false, true) => Mode::write_only(),
        _ => {
            let text =
                "the access mode must have exactly one of MPI_MODE_RDONLY, MPI_MODE_RDWR, MPI_MODE_WRONLY";
            return Err(MpiError::new(known.amode, text));
        }
    };
    if has(known.mode_create) {
        mode = mode.create();
    }
    if has(known.mode_excl) && (has(known.mode_create) || has(known.mode_rdonly)) {
        mode = mode.exclusive();
    }
    if has(known.mode_delete_on_close) {
        mode = mode.delete_on_close();
    }
    if has(known.mode_unique_open) {
        mode = mode.unique_open();
    }
    if has(known.mode_sequential) {
        mode = mode.sequential();
    }
    if has(known.mode_append) {
        mode = mode.append();
    }
    Ok(mode)
}

/// A contradictory mode, with which a rank with invalid arguments takes part in opening and fails with the others.
fn contradiction() -> Mode {
    Mode::read_only().create()
}

fn open(mpi: &'static Mpi, comm: usize, name: *const c_char, amode: c_int, hints: usize) -> Outcome<usize> {
    let comm = mpi.constants.handle(comm);
    let EngineComm { comm: ranks, board } = communicator::of(mpi, comm)?;
    let known = mpi.constants.integers;
    // A rank with invalid arguments must take part in the collective call: it opens with an invalid mode.
    let arguments = text(mpi, name, known.bad_file)
        .and_then(|name| Ok((name, mode(mpi, amode)?, info::read(mpi, mpi.constants.handle(hints))?)));
    let (name, mode, hints, wrong) = match arguments {
        Ok((name, mode, hints)) => (name, mode, hints, None),
        Err(fault) => (".".into(), contradiction(), Info::new(), Some(fault)),
    };
    settings::check(&ranks);
    let resolved = file_name::resolve(&name, wrappers());
    let opened = OpenOptions::from(mode).hints(&info::from_env(&ranks)).hints(&hints).open(&ranks, resolved);
    let file = match (opened, wrong) {
        (_, Some(fault)) => return Err(fault),
        (opened, None) => to_mpi_result(mpi, opened)?,
    };
    shutdown::note_open();
    diagnostics::print_banner(mpi, &ranks);
    let mut group = 0;
    // SAFETY: a valid communicator; the group is freed by its owner.
    mpi.check("MPI_Comm_group", unsafe { (mpi.functions.comm_group)(comm, &raw mut group) })?;
    let handler = error_handler::default(mpi);
    let inserted = handle_table::insert(|handle| {
        let owner = Arc::new(FileErrorContext::new(handle, handler));
        MpiFile::new(mpi, file, owner, amode, MpiGroup(group), board)
    });
    inserted.ok_or_else(|| MpiError::new(known.other, "too many files are open; close some"))
}

fn close(mpi: &'static Mpi, file: usize) -> Result<(), (Option<Arc<FileErrorContext>>, MpiError)> {
    let open = handle_table::remove(file).ok_or_else(|| (None, no_file(mpi)))?;
    let owner = Arc::clone(&open.error_context);
    // A split operation that the program has not ended is ended before the file is closed.
    let begun = open.split().take();
    drop(begun);
    request::finish_all_of(mpi, &owner);
    let busy = || MpiError::new(mpi.constants.integers.file_in_use, "another thread still uses this file");
    let MpiFile { file, .. } = Arc::into_inner(open).ok_or_else(|| (Some(Arc::clone(&owner)), busy()))?;
    to_mpi_result(mpi, file.close()).map_err(|fault| (Some(owner), fault))
}

export! {
    fn MPI_File_open PMPI_File_open
        (comm: usize, name: *const c_char, amode: c_int, hints: usize, file: *mut usize)
    {
        without_file("MPI_File_open", |mpi| {
            put(mpi, file, mpi.constants.handles.file_null)?;
            put(mpi, file, open(mpi, comm, name, amode, hints)?)
        })
    }

    fn MPI_File_close PMPI_File_close(file: *mut usize) {
        let call = "MPI_File_close";
        let mpi = match running(call) {
            Ok(mpi) => mpi,
            Err(code) => return code,
        };
        if file.is_null() {
            return without_file(call, |mpi| Err(no_file(mpi)));
        }
        // SAFETY: the caller's handle.
        let closed = unsafe { *file };
        match close(mpi, closed) {
            Ok(()) => {
                // SAFETY: as above.
                unsafe { *file = mpi.constants.handles.file_null };
                0
            }
            Err((None, fault)) => without_file(call, |_| Err(fault)),
            Err((Some(owner), fault)) => {
                // SAFETY: as above. The file is closed even if an error is returned.
                unsafe { *file = mpi.constants.handles.file_null };
                owner.raise(mpi, call, &fault)
            }
        }
    }

    fn MPI_File_delete PMPI_File_delete(name: *const c_char, hints: usize) {
        let _ = hints;
        without_file("MPI_File_delete", |mpi| {
            let name = text(mpi, name, mpi.constants.integers.bad_file)?;
            to_mpi_result(mpi, aqueduct_file::delete(file_name::resolve(&name, wrappers())))
        })
    }

    fn MPI_File_set_size PMPI_File_set_size(file: usize, size: i64) {
        with_file("MPI_File_set_size", file, |mpi, open| {
            // A negative size fails on all ranks: it exceeds the maximum file size.
            to_mpi_result(mpi, open.file.set_size(u64::try_from(size).unwrap_or(u64::MAX)))
        })
    }

    fn MPI_File_preallocate PMPI_File_preallocate(file: usize, size: i64) {
        with_file("MPI_File_preallocate", file, |mpi, open| {
            to_mpi_result(mpi, open.file.preallocate(u64::try_from(size).unwrap_or(u64::MAX)))
        })
    }

    fn MPI_File_get_size PMPI_File_get_size(file: usize, size: *mut i64) {
        with_file("MPI_File_get_size", file, |mpi, open| {
            put(mpi, size, to_mpi_result(mpi, open.file.size())? as i64)
        })
    }

    fn MPI_File_get_group PMPI_File_get_group(file: usize, group: *mut u8) {
        with_file("MPI_File_get_group", file, |mpi, open| {
            let (own, mut copy) = (open.group.0, 0);
            // SAFETY: the union of a group with itself is a new handle of it, which the program frees.
            let made = unsafe { (mpi.functions.group_union)(own, own, &raw mut copy) };
            mpi.check("MPI_Group_union", made)?;
            put_handle(mpi, group, copy)
        })
    }

    fn MPI_File_get_amode PMPI_File_get_amode(file: usize, amode: *mut c_int) {
        with_file("MPI_File_get_amode", file, |mpi, open| put(mpi, amode, open.amode))
    }

    fn MPI_File_set_info PMPI_File_set_info(file: usize, hints: usize) {
        with_file("MPI_File_set_info", file, |mpi, open| {
            match info::read(mpi, mpi.constants.handle(hints)) {
                Ok(hints) => to_mpi_result(mpi, open.file.set_info(&hints)),
                Err(fault) => {
                    let error = to_engine_error(mpi, "set_info", open.file.name(), &fault);
                    to_mpi_result(mpi, open.file.refuse_info(error)).map_err(|_| fault)
                }
            }
        })
    }

    fn MPI_File_get_info PMPI_File_get_info(file: usize, hints: *mut u8) {
        with_file("MPI_File_get_info", file, |mpi, open| {
            put_handle(mpi, hints, info::create(mpi, &open.file.info())?)
        })
    }

    fn MPI_File_sync PMPI_File_sync(file: usize) {
        with_file("MPI_File_sync", file, |mpi, open| to_mpi_result(mpi, open.file.sync()))
    }

    fn MPI_File_set_atomicity PMPI_File_set_atomicity(file: usize, atomic: c_int) {
        with_file("MPI_File_set_atomicity", file, |mpi, open| to_mpi_result(mpi, open.file.set_atomic(atomic != 0)))
    }

    fn MPI_File_get_atomicity PMPI_File_get_atomicity(file: usize, atomic: *mut c_int) {
        with_file("MPI_File_get_atomicity", file, |mpi, open| {
            put(mpi, atomic, c_int::from(open.file.is_atomic()))
        })
    }

    fn MPI_File_get_byte_offset PMPI_File_get_byte_offset(file: usize, offset: i64, bytes: *mut i64) {
        with_file("MPI_File_get_byte_offset", file, |mpi, open| {
            let offset = natural(mpi, "the offset", offset)?;
            put(mpi, bytes, to_mpi_result(mpi, open.file.byte_offset(offset))? as i64)
        })
    }
}
