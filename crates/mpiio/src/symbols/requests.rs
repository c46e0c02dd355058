//! Access that does not wait.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use super::access::Place;
use super::{export, on_file, put_handle, told};
use crate::buffer::{Described, Direction};
use crate::request::Pending;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ranks {
    Alone,
    Together,
}

fn start(
    file: usize,
    call: &'static str,
    (place, ranks, direction): (Place, Ranks, Direction),
    memory: Described,
    made: *mut u8,
) -> c_int {
    on_file(call, file, |mpi, open| {
        put_handle(mpi, made, mpi.constants.handles.request_null)?;
        let memory = Described { datatype: mpi.constants.handle(memory.datatype), ..memory };
        let request = if ranks == Ranks::Together {
            let (together, buffer) = place.together(mpi, open, call, direction, memory);
            match direction {
                Direction::Read => together.start_read(buffer),
                Direction::Write => together.start_write(buffer),
            }
        } else {
            let access = place.of(mpi, open)?;
            let buffer = memory.buffer(mpi, open, direction)?;
            match direction {
                Direction::Read => access.start_read(buffer),
                Direction::Write => access.start_write(buffer),
            }
        };
        let pending = Pending::new(&open.owner, call, told(mpi, request)?);
        put_handle(mpi, made, pending.start(mpi)?)
    })
}

macro_rules! at_a_pointer {
    ($($name:ident $profiled:ident $large:ident $profiled_large:ident $place:ident $ranks:ident $direction:ident;)*) => {
        export! {$(
            fn $name $profiled(file: usize, address: *mut c_void, count: c_int, datatype: usize, request: *mut u8) {
                let memory = Described { address, count: count.into(), datatype };
                start(file, stringify!($name), (Place::$place, Ranks::$ranks, Direction::$direction), memory, request)
            }

            fn $large $profiled_large(
                file: usize, address: *mut c_void, count: i64, datatype: usize, request: *mut u8
            ) {
                let memory = Described { address, count, datatype };
                start(file, stringify!($large), (Place::$place, Ranks::$ranks, Direction::$direction), memory, request)
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
                let memory = Described { address, count: count.into(), datatype };
                let cell = (Place::At(offset), Ranks::$ranks, Direction::$direction);
                start(file, stringify!($name), cell, memory, request)
            }

            fn $large $profiled_large(
                file: usize, offset: i64, address: *mut c_void, count: i64, datatype: usize, request: *mut u8
            ) {
                let memory = Described { address, count, datatype };
                let cell = (Place::At(offset), Ranks::$ranks, Direction::$direction);
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
