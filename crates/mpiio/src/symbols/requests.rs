//! Non-blocking access functions.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use super::access::PointerKind;
use super::{export, put_handle, to_mpi_result, with_file};
use crate::buffer::{BufferArgs, BufferDirection};
use crate::request::PendingRequest;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestScope {
    Alone,
    Together,
}

fn start(
    file: usize,
    call: &'static str,
    (place, ranks, direction): (PointerKind, RequestScope, BufferDirection),
    memory: BufferArgs,
    made: *mut u8,
) -> c_int {
    with_file(call, file, |mpi, open| {
        put_handle(mpi, made, mpi.constants.handles.request_null)?;
        let memory = BufferArgs { datatype: mpi.constants.handle(memory.datatype), ..memory };
        let request = if ranks == RequestScope::Together {
            let (together, buffer) = place.collective(mpi, open, call, direction, memory);
            match direction {
                BufferDirection::Read => together.start_read(buffer),
                BufferDirection::Write => together.start_write(buffer),
            }
        } else {
            let access = place.access(mpi, open)?;
            let buffer = memory.buffer(mpi, open.representation(), direction)?;
            match direction {
                BufferDirection::Read => access.start_read(buffer),
                BufferDirection::Write => access.start_write(buffer),
            }
        };
        let pending = PendingRequest::new(&open.error_context, call, to_mpi_result(mpi, request)?);
        put_handle(mpi, made, pending.start(mpi)?)
    })
}

macro_rules! at_a_pointer {
    ($($name:ident $profiled:ident $large:ident $profiled_large:ident $place:ident $ranks:ident $direction:ident;)*) => {
        export! {$(
            fn $name $profiled(file: usize, address: *mut c_void, count: c_int, datatype: usize, request: *mut u8) {
                let memory = BufferArgs { address, count: count.into(), datatype };
                start(file, stringify!($name), (PointerKind::$place, RequestScope::$ranks, BufferDirection::$direction), memory, request)
            }

            fn $large $profiled_large(
                file: usize, address: *mut c_void, count: i64, datatype: usize, request: *mut u8
            ) {
                let memory = BufferArgs { address, count, datatype };
                start(file, stringify!($large), (PointerKind::$place, RequestScope::$ranks, BufferDirection::$direction), memory, request)
            }
        )*}
    };
}

macro_rules! at_an_offset {
    ($($name:ident $profiled:ident $large:ident $profiled_large:ident $ranks:ident $direction:ident;)*) => {
        export! {$(
            fn $name $profiled(
                file: usize, offset: i64, address: *mut c_void, count: c_int, datatype: usize, request: *mut u8
            ) {
                let memory = BufferArgs { address, count: count.into(), datatype };
                let cell = (PointerKind::At(offset), RequestScope::$ranks, BufferDirection::$direction);
                start(file, stringify!($name), cell, memory, request)
            }

            fn $large $profiled_large(
                file: usize, offset: i64, address: *mut c_void, count: i64, datatype: usize, request: *mut u8
            ) {
                let memory = BufferArgs { address, count, datatype };
                let cell = (PointerKind::At(offset), RequestScope::$ranks, BufferDirection::$direction);
                start(file, stringify!($large), cell, memory, request)
            }
        )*}
    };
}

at_an_offset! {
    MPI_File_iread_at PMPI_File_iread_at MPI_File_iread_at_c PMPI_File_iread_at_c Alone Read;
    MPI_File_iwrite_at PMPI_File_iwrite_at MPI_File_iwrite_at_c PMPI_File_iwrite_at_c Alone Write;
    MPI_File_iread_at_all PMPI_File_iread_at_all MPI_File_iread_at_all_c PMPI_File_iread_at_all_c Together Read;
    MPI_File_iwrite_at_all PMPI_File_iwrite_at_all MPI_File_iwrite_at_all_c PMPI_File_iwrite_at_all_c Together Write;
}

at_a_pointer! {
    MPI_File_iread PMPI_File_iread MPI_File_iread_c PMPI_File_iread_c Next Alone Read;
    MPI_File_iwrite PMPI_File_iwrite MPI_File_iwrite_c PMPI_File_iwrite_c Next Alone Write;
    MPI_File_iread_all PMPI_File_iread_all MPI_File_iread_all_c PMPI_File_iread_all_c Next Together Read;
    MPI_File_iwrite_all PMPI_File_iwrite_all MPI_File_iwrite_all_c PMPI_File_iwrite_all_c Next Together Write;
    MPI_File_iread_shared PMPI_File_iread_shared MPI_File_iread_shared_c PMPI_File_iread_shared_c Shared Alone Read;
    MPI_File_iwrite_shared PMPI_File_iwrite_shared MPI_File_iwrite_shared_c PMPI_File_iwrite_shared_c
        Shared Alone Write;
}
