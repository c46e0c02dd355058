//! Blocking access: where × together or alone × direction.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use aqueduct_file::{Access, Incoming, Outgoing};

use super::{export, natural, on_file, told};
use crate::buffer::{Buffer, Described, Direction};
use crate::errors::Outcome;
use crate::mpi::Mpi;
use crate::open_file::OpenFile;
use crate::status;

/// Where an access begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    At(i64),
    Next,
    Shared,
}

impl Place {
    /// The engine's place; none where the program's cannot be.
    pub(super) fn of<'o>(self, mpi: &Mpi, open: &'o OpenFile) -> Outcome<Access<'o>> {
        Ok(match self {
            Self::At(offset) => open.file.at(natural(mpi, "the offset", offset)?),
            Self::Next => open.file.next(),
            Self::Shared => open.file.shared(),
        })
    }

    /// The same for an operation of all ranks: what is wrong with the place or the memory becomes the operation's error.
    pub(super) fn together<'o>(
        self,
        mpi: &Mpi,
        open: &'o OpenFile,
        call: &'static str,
        direction: Direction,
        memory: Described,
    ) -> (aqueduct_file::Together<'o>, Buffer) {
        let placed = self.of(mpi, open);
        let buffer = placed.as_ref().map_err(Clone::clone).and_then(|_| memory.buffer(mpi, open, direction));
        let buffer = buffer.unwrap_or_else(|fault| Buffer::refused(mpi, call, open, &fault));
        let access = placed.unwrap_or_else(|_| open.file.at(0));
        (access.all(), buffer)
    }
}

/// How ranks come to an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ranks {
    Alone,
    Together,
}

/// One cell of the table of accesses.
#[derive(Clone, Copy)]
struct Cell {
    call: &'static str,
    place: Place,
    ranks: Ranks,
    direction: Direction,
}

fn perform(file: usize, cell: Cell, memory: Described, told_in: *mut c_void) -> c_int {
    on_file(cell.call, file, |mpi, open| {
        let memory = Described { datatype: mpi.constants.handle(memory.datatype), ..memory };
        let moved = transfer(mpi, open, cell, memory);
        let bytes = moved.as_ref().map_or_else(|fault| fault.transferred, |bytes| *bytes);
        status::set(mpi, told_in, bytes);
        moved.map(|_| ())
    })
}

/// Moves the data; how many bytes.
fn transfer(mpi: &Mpi, open: &OpenFile, cell: Cell, memory: Described) -> Outcome<u64> {
    let Cell { call, place, ranks, direction } = cell;
    if ranks == Ranks::Together {
        let (together, mut buffer) = place.together(mpi, open, call, direction, memory);
        let count = match direction {
            Direction::Read => together.read(buffer.sink()),
            Direction::Write => together.write(buffer.source()),
        };
        return buffer.finish(mpi, told(mpi, count)?.bytes());
    }
    let access = place.of(mpi, open)?;
    let mut buffer = memory.buffer(mpi, open, direction)?;
    let count = match direction {
        Direction::Read => access.read(buffer.sink()),
        Direction::Write => access.write(buffer.source()),
    };
    buffer.finish(mpi, told(mpi, count)?.bytes())
}

/// The functions of a place that needs no offset, and with counts of either width.
macro_rules! at_a_pointer {
    ($($name:ident $profiled:ident $large:ident $profiled_large:ident $place:ident $ranks:ident $direction:ident;)*) => {
        export! {$(
            fn $name $profiled(
                file: usize, address: *mut c_void, count: c_int, datatype: usize, status: *mut c_void
            ) {
                let memory = Described { address, count: count.into(), datatype };
                let cell = Cell {
                    call: stringify!($name),
                    place: Place::$place,
                    ranks: Ranks::$ranks,
                    direction: Direction::$direction,
                };
                perform(file, cell, memory, status)
            }

            fn $large $profiled_large(
                file: usize, address: *mut c_void, count: i64, datatype: usize, status: *mut c_void
            ) {
                let memory = Described { address, count, datatype };
                let cell = Cell {
                    call: stringify!($large),
                    place: Place::$place,
                    ranks: Ranks::$ranks,
                    direction: Direction::$direction,
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
                let memory = Described { address, count: count.into(), datatype };
                let cell = Cell {
                    call: stringify!($name),
                    place: Place::At(offset),
                    ranks: Ranks::$ranks,
                    direction: Direction::$direction,
                };
                perform(file, cell, memory, status)
            }

            fn $large $profiled_large(
                file: usize, offset: i64, address: *mut c_void, count: i64, datatype: usize, status: *mut c_void
            ) {
                let memory = Described { address, count, datatype };
                let cell = Cell {
                    call: stringify!($large),
                    place: Place::At(offset),
                    ranks: Ranks::$ranks,
                    direction: Direction::$direction,
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
