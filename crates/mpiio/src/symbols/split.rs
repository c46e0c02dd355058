//! Split collective functions: `_begin` and `_end`.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use super::access::PointerKind;
use super::{export, to_mpi_result, with_file};
use crate::buffer::{BufferArgs, BufferDirection};
use crate::file::{MpiFile, SplitOperation};
use crate::host::Mpi;
use crate::host::status;
use crate::host::{MpiError, Outcome};

/// Begins; `end` is the name of the call that ends it.
fn begin(
    file: usize,
    call: &'static str,
    place: PointerKind,
    direction: BufferDirection,
    memory: BufferArgs,
) -> c_int {
    with_file(call, file, |mpi, open| {
        let memory = BufferArgs { datatype: mpi.constants.handle(memory.datatype), ..memory };
        let (together, buffer) = place.collective(mpi, open, call, direction, memory);
        let split = match direction {
            BufferDirection::Read => together.begin_read(buffer),
            BufferDirection::Write => together.begin_write(buffer),
        };
        *open.split() = Some(SplitOperation { call, split: to_mpi_result(mpi, split)? });
        Ok(())
    })
}

fn end(file: usize, call: &'static str, told_in: *mut c_void) -> c_int {
    with_file(call, file, |mpi, open| {
        let moved = finish(mpi, open, call);
        let bytes = moved.as_ref().map_or_else(|fault| fault.transferred, |bytes| *bytes);
        status::set(mpi, told_in, bytes);
        moved.map(|_| ())
    })
}

fn finish(mpi: &Mpi, open: &MpiFile, call: &'static str) -> Outcome<u64> {
    let known = mpi.constants.integers;
    let mut split = open.split();
    let stem = call.trim_end_matches("_end");
    match &*split {
        None => {
            return Err(MpiError::new(
                known.unsupported_operation,
                "no split collective operation is active on this file",
            ));
        }
        Some(begun) if !begun.call.starts_with(stem) => {
            let text = format!(
                "the active split collective operation was begun by {}; call its own end function",
                begun.call
            );
            return Err(MpiError::new(known.unsupported_operation, text));
        }
        Some(_) => {}
    }
    let Some(begun) = split.take() else { return Ok(0) };
    drop(split);
    let (mut buffer, count) = to_mpi_result(mpi, begun.split.end())?;
    buffer.finish(mpi, count.bytes())
}

macro_rules! split {
    ($($begin:ident $profiled:ident $large:ident $profiled_large:ident $end:ident $profiled_end:ident $place:ident $direction:ident;)*) => {
        export! {$(
            fn $begin $profiled(file: usize, address: *mut c_void, count: c_int, datatype: usize) {
                let memory = BufferArgs { address, count: count.into(), datatype };
                begin(file, stringify!($begin), PointerKind::$place, BufferDirection::$direction, memory)
            }

            fn $large $profiled_large(file: usize, address: *mut c_void, count: i64, datatype: usize) {
                let memory = BufferArgs { address, count, datatype };
                begin(file, stringify!($begin), PointerKind::$place, BufferDirection::$direction, memory)
            }

            fn $end $profiled_end(file: usize, address: *mut c_void, status: *mut c_void) {
                let _ = address;
                end(file, stringify!($end), status)
            }
        )*}
    };
}

macro_rules! split_at {
    ($($begin:ident $profiled:ident $large:ident $profiled_large:ident $end:ident $profiled_end:ident $direction:ident;)*) => {
        export! {$(
            fn $begin $profiled(file: usize, offset: i64, address: *mut c_void, count: c_int, datatype: usize) {
                let memory = BufferArgs { address, count: count.into(), datatype };
                begin(file, stringify!($begin), PointerKind::At(offset), BufferDirection::$direction, memory)
            }

            fn $large $profiled_large(file: usize, offset: i64, address: *mut c_void, count: i64, datatype: usize) {
                let memory = BufferArgs { address, count, datatype };
                begin(file, stringify!($begin), PointerKind::At(offset), BufferDirection::$direction, memory)
            }

            fn $end $profiled_end(file: usize, address: *mut c_void, status: *mut c_void) {
                let _ = address;
                end(file, stringify!($end), status)
            }
        )*}
    };
}

split_at! {
    MPI_File_read_at_all_begin PMPI_File_read_at_all_begin MPI_File_read_at_all_begin_c PMPI_File_read_at_all_begin_c
        MPI_File_read_at_all_end PMPI_File_read_at_all_end Read;
    MPI_File_write_at_all_begin PMPI_File_write_at_all_begin MPI_File_write_at_all_begin_c PMPI_File_write_at_all_begin_c
        MPI_File_write_at_all_end PMPI_File_write_at_all_end Write;
}

split! {
    MPI_File_read_all_begin PMPI_File_read_all_begin MPI_File_read_all_begin_c PMPI_File_read_all_begin_c
        MPI_File_read_all_end PMPI_File_read_all_end Next Read;
    MPI_File_write_all_begin PMPI_File_write_all_begin MPI_File_write_all_begin_c PMPI_File_write_all_begin_c
        MPI_File_write_all_end PMPI_File_write_all_end Next Write;
    MPI_File_read_ordered_begin PMPI_File_read_ordered_begin MPI_File_read_ordered_begin_c PMPI_File_read_ordered_begin_c
        MPI_File_read_ordered_end PMPI_File_read_ordered_end Shared Read;
    MPI_File_write_ordered_begin PMPI_File_write_ordered_begin MPI_File_write_ordered_begin_c PMPI_File_write_ordered_begin_c
        MPI_File_write_ordered_end PMPI_File_write_ordered_end Shared Write;
}
