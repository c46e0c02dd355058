//! File pointers.
#![allow(unsafe_code)]

use std::ffi::c_int;

use aqueduct_file::Whence;

use super::{export, put, to_mpi_result, with_file};
use crate::host::Mpi;
use crate::host::{MpiError, Outcome};

fn whence(mpi: &Mpi, whence: c_int) -> Outcome<Whence> {
    let known = mpi.constants.integers;
    match i64::from(whence) {
        from if from == known.seek_set => Ok(Whence::Start),
        from if from == known.seek_cur => Ok(Whence::Current),
        from if from == known.seek_end => Ok(Whence::End),
        _ => Err(MpiError::new(
            known.arg,
            format!("{whence} is none of MPI_SEEK_SET, MPI_SEEK_CUR, MPI_SEEK_END"),
        )),
    }
}

export! {
    fn MPI_File_seek PMPI_File_seek(file: usize, offset: i64, from: c_int) {
        with_file("MPI_File_seek", file, |mpi, open| {
            to_mpi_result(mpi, open.file.seek(offset, whence(mpi, from)?)).map(|_| ())
        })
    }

    fn MPI_File_get_position PMPI_File_get_position(file: usize, offset: *mut i64) {
        with_file("MPI_File_get_position", file, |mpi, open| {
            put(mpi, offset, to_mpi_result(mpi, open.file.position())? as i64)
        })
    }

    fn MPI_File_seek_shared PMPI_File_seek_shared(file: usize, offset: i64, from: c_int) {
        with_file("MPI_File_seek_shared", file, |mpi, open| {
            let from = whence(mpi, from);
            // A rank with an invalid argument takes part with an invalid target: all ranks fail.
            let moved = match &from {
                Ok(from) => open.file.seek_shared(offset, *from),
                Err(_) => open.file.seek_shared(i64::MIN, Whence::Start),
            };
            from.and_then(|_| to_mpi_result(mpi, moved)).map(|_| ())
        })
    }

    fn MPI_File_get_position_shared PMPI_File_get_position_shared(file: usize, offset: *mut i64) {
        with_file("MPI_File_get_position_shared", file, |mpi, open| {
            put(mpi, offset, to_mpi_result(mpi, open.file.position_shared())? as i64)
        })
    }
}
