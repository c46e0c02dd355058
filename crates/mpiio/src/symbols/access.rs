//! Blocking access functions: positioning × coordination × direction.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use aqueduct_file::{Access, Incoming, Outgoing};

use super::{export, natural, to_mpi_result, with_file};
use crate::buffer::{AccessBuffer, BufferArgs, BufferDirection};
use crate::file::MpiFile;
use crate::host::Mpi;
use crate::host::Outcome;
use crate::host::status;

/// Where an access begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum PointerKind {
    At(i64),
    Next,
    Shared,
}

impl PointerKind {
    /// The engine's position; none if the program's is invalid.
    pub(super) fn access<'o>(self, mpi: &Mpi, open: &'o MpiFile) -> Outcome<Access<'o>> {
        Ok(match self {
            Self::At(offset) => open.file.at(natural(mpi, "the offset", offset)?),
            Self::Next => open.file.at_pointer(),
            Self::Shared => open.file.shared(),
        })
    }

    /// As above for a collective operation: an invalid position or buffer becomes the error of the operation.
    pub(super) fn collective<'o>(
        self,
        mpi: &Mpi,
        open: &'o MpiFile,
        call: &'static str,
        direction: BufferDirection,
        memory: BufferArgs,
    ) -> (aqueduct_file::CollectiveAccess<'o>, AccessBuffer) {
        let placed = self.access(mpi, open);
        let buffer = placed
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|_| memory.buffer(mpi, open.representation(), direction));
        let buffer =
            buffer.unwrap_or_else(|fault| AccessBuffer::failing(mpi, call, open.file.name(), &fault));
        let access = placed.unwrap_or_else(|_| open.file.at(0));
        (access.all(), buffer)
    }
}

/// Independent or collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallScope {
    Alone,
    Together,
}

/// One kind of access.
#[derive(Clone, Copy)]
struct AccessKind {
    call: &'static str,
    place: PointerKind,
    ranks: CallScope,
    direction: BufferDirection,
}

fn perform(file: usize, cell: AccessKind, memory: BufferArgs, told_in: *mut c_void) -> c_int {
    with_file(cell.call, file, |mpi, open| {
        let memory = BufferArgs { datatype: mpi.constants.handle(memory.datatype), ..memory };
        let moved = transfer(mpi, open, cell, memory);
        let bytes = moved.as_ref().map_or_else(|fault| fault.transferred, |bytes| *bytes);
        status::set(mpi, told_in, bytes);
        moved.map(|_| ())
    })
}

/// Transfers the data; the number of bytes.
fn transfer(mpi: &Mpi, open: &MpiFile, cell: AccessKind, memory: BufferArgs) -> Outcome<u64> {
    let AccessKind { call, place, ranks, direction } = cell;
    if ranks == CallScope::Together {
        let (together, mut buffer) = place.collective(mpi, open, call, direction, memory);
        let count = match direction {
            BufferDirection::Read => together.read(buffer.sink()),
            BufferDirection::Write => together.write(buffer.source()),
        };
        return buffer.finish(mpi, to_mpi_result(mpi, count)?.bytes());
    }
    let access = place.access(mpi, open)?;
    let mut buffer = memory.buffer(mpi, open.representation(), direction)?;
    let count = match direction {
        BufferDirection::Read => access.read(buffer.sink()),
        BufferDirection::Write => access.write(buffer.source()),
    };
    buffer.finish(mpi, to_mpi_result(mpi, count)?.bytes())
}

/// The functions of a positioning without an offset, with counts of both widths.
macro_rules! at_a_pointer {
    ($($name:ident $profiled:ident $large:ident $profiled_large:ident $place:ident $ranks:ident $direction:ident;)*) => {
        export! {$(
            fn $name $profiled(
                file: usize, address: *mut c_void, count: c_int, datatype: usize, status: *mut c_void
            ) {
                let memory = BufferArgs { address, count: count.into(), datatype };
                let cell = AccessKind {
                    call: stringify!($name),
                    place: PointerKind::$place,
                    ranks: CallScope::$ranks,
                    direction: BufferDirection::$direction,
                };
                perform(file, cell, memory, status)
            }

            fn $large $profiled_large(
                file: usize, address: *mut c_void, count: i64, datatype: usize, status: *mut c_void
            ) {
                let memory = BufferArgs { address, count, datatype };
                let cell = AccessKind {
                    call: stringify!($large),
                    place: PointerKind::$place,
                    ranks: CallScope::$ranks,
                    direction: BufferDirection::$direction,
                };
                perform(file, cell, memory, status)
            }
        )*}
    };
}

/// The functions with an explicit offset.
macro_rules! at_an_offset {
    ($($name:ident $profiled:ident $large:ident $profiled_large:ident $ranks:ident $direction:ident;)*) => {
        export! {$(
            fn $name $profiled(
                file: usize, offset: i64, address: *mut c_void, count: c_int, datatype: usize, status: *mut c_void
            ) {
                let memory = BufferArgs { address, count: count.into(), datatype };
                let cell = AccessKind {
                    call: stringify!($name),
                    place: PointerKind::At(offset),
                    ranks: CallScope::$ranks,
                    direction: BufferDirection::$direction,
                };
                perform(file, cell, memory, status)
            }

            fn $large $profiled_large(
                file: usize, offset: i64, address: *mut c_void, count: i64, datatype: usize, status: *mut c_void
            ) {
                let memory = BufferArgs { address, count, datatype };
                let cell = AccessKind {
                    call: stringify!($large),
                    place: PointerKind::At(offset),
                    ranks: CallScope::$ranks,
                    direction: BufferDirection::$direction,
                };
                perform(file, cell, memory, status)
            }
        )*}
    };
}

at_an_offset! {
    MPI_File_read_at PMPI_File_read_at MPI_File_read_at_c PMPI_File_read_at_c Alone Read;
    MPI_File_write_at PMPI_File_write_at MPI_File_write_at_c PMPI_File_write_at_c Alone Write;
    MPI_File_read_at_all PMPI_File_read_at_all MPI_File_read_at_all_c PMPI_File_read_at_all_c Together Read;
    MPI_File_write_at_all PMPI_File_write_at_all MPI_File_write_at_all_c PMPI_File_write_at_all_c Together Write;
}

at_a_pointer! {
    MPI_File_read PMPI_File_read MPI_File_read_c PMPI_File_read_c Next Alone Read;
    MPI_File_write PMPI_File_write MPI_File_write_c PMPI_File_write_c Next Alone Write;
    MPI_File_read_all PMPI_File_read_all MPI_File_read_all_c PMPI_File_read_all_c Next Together Read;
    MPI_File_write_all PMPI_File_write_all MPI_File_write_all_c PMPI_File_write_all_c Next Together Write;
    MPI_File_read_shared PMPI_File_read_shared MPI_File_read_shared_c PMPI_File_read_shared_c Shared Alone Read;
    MPI_File_write_shared PMPI_File_write_shared MPI_File_write_shared_c PMPI_File_write_shared_c Shared Alone Write;
    MPI_File_read_ordered PMPI_File_read_ordered MPI_File_read_ordered_c PMPI_File_read_ordered_c Shared Together Read;
    MPI_File_write_ordered PMPI_File_write_ordered MPI_File_write_ordered_c PMPI_File_write_ordered_c
        Shared Together Write;
}
