//! `MPI_File_set_view` and `MPI_File_get_view`.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use aqueduct_file::layout::Layout;
use aqueduct_file::{Info, Representation, View};

use super::{export, natural, put, put_handle, text, to_mpi_result, with_file};
use crate::buffer::datarep::{self, Datarep};
use crate::datatype::{self, DatatypeRef, ValueSizes};
use crate::file::{MpiFile, ViewTypes};
use crate::host::Mpi;
use crate::host::{MpiError, Outcome, to_engine_error};
use crate::info;

/// A view of the program, checked locally.
struct ViewArguments {
    types: ViewTypes,
    etype: Layout,
    filetype: Layout,
    /// The filetype with the sizes of the file representation, if they differ.
    stored: Option<Layout>,
    representation: Representation,
}

fn check_view_arguments(
    mpi: &Mpi,
    displacement: i64,
    etype: usize,
    filetype: usize,
    representation: *const c_char,
) -> Outcome<ViewArguments> {
    let known = mpi.constants.integers;
    let name = text(mpi, representation, known.arg)?.to_string_lossy().into_owned();
    let datarep = datarep::find(&name);
    let (etype, filetype) = (mpi.constants.handle(etype), mpi.constants.handle(filetype));
    let (layouts, representation) = match &datarep {
        None => {
            let representation = to_mpi_result(mpi, Representation::named(&name))?;
            ((datatype::layout(mpi, etype)?, datatype::layout(mpi, filetype)?), representation)
        }
        Some(datarep) => (stored(mpi, datarep, etype, filetype)?, Representation::Native),
    };
    let stored = if layouts.1.pattern().external32_size() != layouts.1.size() && name == "external32" {
        Some(datatype::stored_layout(mpi, filetype, ValueSizes::File(&external32))?)
    } else {
        None
    };
    let types = ViewTypes {
        displacement,
        etype: DatatypeRef::new(mpi, etype)?,
        filetype: DatatypeRef::new(mpi, filetype)?,
        representation: name,
        datarep,
    };
    Ok(ViewArguments { types, etype: layouts.0, filetype: layouts.1, stored, representation })
}

/// The bytes of a predefined datatype in external32.
#[allow(clippy::unnecessary_wraps, reason = "other representations may fail")]
fn external32(_handle: usize, layout: &Layout) -> Outcome<u64> {
    Ok(layout.pattern().external32_size())
}

/// Both types in the representation of the program.
fn stored(mpi: &Mpi, datarep: &Arc<Datarep>, etype: usize, filetype: usize) -> Outcome<(Layout, Layout)> {
    let width = |handle, _: &Layout| datarep.extent(mpi, handle);
    let sizes = ValueSizes::File(&width);
    Ok((datatype::stored_layout(mpi, etype, sizes)?, datatype::stored_layout(mpi, filetype, sizes)?))
}

fn set(mpi: &Mpi, open: &MpiFile, wanted: ViewArguments, hints: &Info) -> Outcome<()> {
    let ViewArguments { types, etype, filetype, stored, representation } = wanted;
    if types.displacement == mpi.constants.integers.displacement_current {
        to_mpi_result(mpi, open.file.set_view_here_and_info(&etype, &tileable(&filetype), hints))?;
    } else {
        match view(mpi, types.displacement, &etype, &filetype, representation) {
            Ok(view) => {
                let view = stored.map_or(view.clone(), |stored| view.stored_as(&tileable(&stored)));
                to_mpi_result(mpi, open.file.set_view_and_info(&view, hints))?;
            }
            Err(fault) => refuse(mpi, open, types.displacement, &fault).map_err(|_| fault)?,
        }
    }
    let displacement = open.file.view().displacement() as i64;
    open.set_view(ViewTypes { displacement, ..types });
    Ok(())
}

fn view(
    mpi: &Mpi,
    displacement: i64,
    etype: &Layout,
    filetype: &Layout,
    representation: Representation,
) -> Outcome<View> {
    let displacement = natural(mpi, "the displacement", displacement)?;
    let filetype = tileable(filetype);
    let view = to_mpi_result(mpi, View::new(displacement, etype, &filetype)).map_err(|fault| {
        // Programs expect MPI_ERR_IO for an erroneous filetype.
        let is_unsorted = etype.size() > 0 && !filetype.is_sorted();
        if is_unsorted { MpiError::new(mpi.constants.integers.io, fault.text) } else { fault }
    })?;
    Ok(view.represented(representation))
}

/// The filetype, with bounds for consecutive copies. Libraries make filetypes for a single copy with bounds
/// that make copies overlap; the bytes they access do not change.
fn tileable(filetype: &Layout) -> Layout {
    let one = filetype.pattern();
    if filetype.is_sorted() || one.lowest() < 0 || !one.is_sorted() {
        return filetype.clone();
    }
    filetype.resized(0, one.highest()).unwrap_or_else(|_| filetype.clone())
}

/// Fails, with all other ranks.
fn refuse(mpi: &Mpi, open: &MpiFile, displacement: i64, fault: &MpiError) -> Outcome<()> {
    let error = to_engine_error(mpi, "set_view", open.file.name(), fault);
    let here = displacement == mpi.constants.integers.displacement_current;
    to_mpi_result(mpi, if here { open.file.refuse_view_here(error) } else { open.file.refuse_view(error) })
}

export! {
    fn MPI_File_set_view PMPI_File_set_view(
        file: usize, displacement: i64, etype: usize, filetype: usize, representation: *const c_char, hints: usize
    ) {
        with_file("MPI_File_set_view", file, |mpi, open| {
            let hints = info::read(mpi, mpi.constants.handle(hints));
            let wanted = hints.and_then(|hints| {
                Ok((check_view_arguments(mpi, displacement, etype, filetype, representation)?, hints))
            });
            match wanted {
                Ok((wanted, hints)) => set(mpi, open, wanted, &hints),
                Err(fault) => refuse(mpi, open, displacement, &fault).map_err(|_| fault),
            }
        })
    }

    fn MPI_File_get_view PMPI_File_get_view(
        file: usize, displacement: *mut i64, etype: *mut u8, filetype: *mut u8, representation: *mut c_char
    ) {
        with_file("MPI_File_get_view", file, |mpi, open| {
            let view = open.view();
            put(mpi, displacement, view.displacement)?;
            put_handle(mpi, etype, view.etype.to_program(mpi)?)?;
            put_handle(mpi, filetype, view.filetype.to_program(mpi)?)?;
            for (at, byte) in view.representation.bytes().chain([0]).enumerate() {
                put(mpi, representation.wrapping_add(at), byte as c_char)?;
            }
            Ok(())
        })
    }

    fn MPI_File_get_type_extent PMPI_File_get_type_extent(file: usize, datatype: usize, extent: *mut i64) {
        with_file("MPI_File_get_type_extent", file, |mpi, open| {
            put(mpi, extent, type_extent(mpi, open, mpi.constants.handle(datatype))?)
        })
    }

    fn MPI_File_get_type_extent_c PMPI_File_get_type_extent_c(file: usize, datatype: usize, extent: *mut i64) {
        with_file("MPI_File_get_type_extent_c", file, |mpi, open| {
            put(mpi, extent, type_extent(mpi, open, mpi.constants.handle(datatype))?)
        })
    }
}

/// From one item to the next in the file.
fn type_extent(mpi: &Mpi, open: &MpiFile, datatype: usize) -> Outcome<i64> {
    let layout = datatype::layout(mpi, datatype)?;
    let Some(datarep) = open.view().datarep.clone() else {
        if open.view().representation == "external32" && layout.pattern().external32_size() != layout.size() {
            return Ok(datatype::stored_layout(mpi, datatype, ValueSizes::File(&external32))?.extent());
        }
        return Ok(open.file.type_extent(&layout));
    };
    let width = |handle, _: &Layout| datarep.extent(mpi, handle);
    Ok(datatype::stored_layout(mpi, datatype, ValueSizes::File(&width))?.extent())
}
