//! Files of any format as arrays: the interface between commands and formats.

mod array_model;
mod cells;
mod chunk_references;
mod element_type;
mod field_arrays;
mod file_kind;
#[cfg(feature = "hdf5")]
mod hdf5;
mod mardyn;
mod molecule;
mod netcdf;
#[cfg(feature = "hdf5")]
mod netcdf4;
#[cfg(feature = "hdf5")]
mod netcdf4_dimensions;
mod object;
#[cfg(feature = "hdf5")]
mod padded_read;
mod ragged;
mod raw;
mod signature;
mod store;
mod stream;
#[cfg(feature = "hdf5")]
mod vtkhdf;

use std::ffi::{OsStr, OsString};
use std::ops::Range;

use anyhow::{Result, bail, ensure};
use aqueduct::comm::Comm;
use aqueduct::object::FileProvenance;

use crate::finding::Finding;
pub(crate) use array_model::{Array, ArrayPart, AttributeValue, NamedAttribute, SharedDimension};
pub(crate) use chunk_references::{ChunkCodec, ChunkReference, ChunkReferences};
pub(crate) use element_type::{ElementType, NumberType, NumberValue};
#[cfg(feature = "hdf5")]
pub(crate) use field_arrays::{FieldArray, fields_of};
#[cfg(feature = "hdf5")]
pub(crate) use file_kind::extension_of;
pub(crate) use file_kind::{FileKind, detect, with_suffix};
#[cfg(feature = "hdf5")]
pub(crate) use hdf5::as_datatype;
pub(crate) use raw::RawShape;

/// Whether an attribute, one of these, describes dimensions of a netCDF-4 file. Other formats do not need it.
pub(crate) fn is_internal(name: &str, all: &[NamedAttribute]) -> bool {
    #[cfg(feature = "hdf5")]
    return netcdf4_dimensions::is_internal(name, all);
    #[cfg(not(feature = "hdf5"))]
    return name.is_empty() && all.is_empty();
}

/// The attribute with which Aqueduct marks complete files; it is not metadata of the data.
const COMPLETION_MARK: &str = "aqueduct_complete";

/// How the elements of an array are stored, if the format says more than that they are adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "hdf5"), allow(dead_code, reason = "only HDF5 has chunks"))]
pub(crate) struct StorageSummary {
    /// The shape of a chunk; empty without chunks.
    pub(crate) chunk: Vec<u64>,
    /// The filters of the chunks with their parameters, in the order in which they were applied.
    pub(crate) filters: Vec<String>,
    /// The number of bytes in the file.
    pub(crate) bytes: u64,
}

/// A generation of a checkpoint store, after a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GenerationState {
    pub(crate) number: u64,
    /// Its step, ranks and time, if its manifest can be read.
    pub(crate) about: Option<String>,
    /// What is damaged, if anything is.
    pub(crate) damage: Option<String>,
    /// Whether a restart uses it.
    pub(crate) is_newest_whole: bool,
}

/// How much of a file is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VerifyDepth {
    /// Metadata, lengths and completeness marks.
    Quick,
    /// All bytes.
    Full,
}

/// An open file. Values are converted to little-endian. Every rank opens it; the methods are for a rank alone, unless they are collective.
pub(crate) trait ArrayFile {
    /// A description of the format.
    fn format(&self) -> String;

    fn arrays(&self) -> &[Array];

    /// The attributes of each group: the path of the group, empty for the file itself, and its attributes.
    fn attributes(&self) -> Vec<(String, Vec<NamedAttribute>)> {
        Vec::new()
    }

    /// The shared dimensions, in the order of the file.
    fn dimensions(&self) -> Vec<SharedDimension> {
        Vec::new()
    }

    /// Whether the format has names of dimensions and attributes. If so, a comparison reports missing ones.
    fn holds_metadata(&self) -> bool {
        false
    }

    /// Whether the format has dimensions without an array. If so, a comparison reports missing ones.
    fn holds_dimensions(&self) -> bool {
        false
    }

    /// Whether the format has array names. If not, its only array is compared with any array.
    fn names_arrays(&self) -> bool {
        true
    }

    /// The program that wrote the file, if the format records it.
    fn written_by(&self) -> Option<FileProvenance> {
        None
    }

    /// More lines for `inspect`.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// The netCDF version, if it is a netCDF file.
    fn netcdf_version(&self) -> Option<aqueduct::netcdf::CdfVersion> {
        None
    }

    /// How an array is stored.
    fn storage(&self, _array: usize) -> Option<StorageSummary> {
        None
    }

    /// Whether the writer has finished, if the format records it.
    fn is_finished(&self) -> Option<bool> {
        None
    }

    /// The number of ranks, from rank 0 on, that can read parts.
    fn readers(&self) -> usize {
        usize::MAX
    }

    /// Called once before the first part is read: verifies what must be verified as a whole. Collective.
    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// A part of an array, which is given by its index.
    fn read(&self, array: usize, part: &ArrayPart) -> Result<Vec<u8>>;

    /// Whether [`ArrayFile::read`] reads any box, not only a run of adjacent elements.
    fn reads_boxes(&self) -> bool {
        false
    }

    /// The same data in arrays of elements of constant size, if its elements have variable size. Collective.
    fn as_ragged(&self, _: &Comm) -> Result<Option<Box<dyn ArrayFile>>> {
        Ok(None)
    }

    #[cfg_attr(not(feature = "hdf5"), allow(dead_code, reason = "for files of VTKHDF"))]
    /// The number of each step of an array with any number of rows per step, and its rows.
    fn list_steps(&self, _array: usize) -> Option<Vec<(u64, Range<u64>)>> {
        None
    }

    /// The data that its arrays do not have, a line each.
    fn omissions(&self) -> Vec<String> {
        Vec::new()
    }

    /// Rows as text; `None` for arrays of numbers, which [`ArrayFile::read`] returns. The first call for an array is collective.
    fn lines(&self, _array: usize, _rows: Range<u64>) -> Option<Result<Vec<String>>> {
        None
    }

    /// Where the bytes of an array are.
    fn references(&self, _array: usize) -> Result<ChunkReferences> {
        bail!("a file of this format has no bytes that other readers understand")
    }

    /// Whether the file has data of an array.
    fn is_stored(&self, _array: usize) -> bool {
        true
    }

    /// Whether [`ArrayFile::findings`] verifies checksums of all bytes, so that reading them would find nothing more.
    fn has_checksums(&self) -> bool {
        false
    }

    /// Defects that reading does not find; the same on all ranks. Collective.
    fn findings(&self, depth: VerifyDepth) -> Result<Vec<Finding>>;

    /// The generations of a checkpoint store, after [`ArrayFile::findings`].
    fn generations(&self) -> Vec<GenerationState> {
        Vec::new()
    }
}

/// Opens a file of any kind. A file without a known kind is raw, with the given type and shape.
pub(crate) fn open(world: &Comm, name: &OsStr, raw: &RawShape) -> Result<Box<dyn ArrayFile>> {
    Ok(match detect(world, name, raw.is_given())? {
        FileKind::Store(folder) => Box::new(store::CheckpointArrayFile::open_latest(world, &folder)?),
        FileKind::Generation { store, number, part } => {
            Box::new(store::CheckpointArrayFile::open_generation(world, &store, number, part.as_deref())?)
        }
        FileKind::Stream(data) => Box::new(stream::StreamArrayFile::open(world, &data)?),
        FileKind::Objects(data) => Box::new(object::ObjectArrayFile::open(world, &data)?),
        FileKind::Cells => Box::new(cells::CellArrayFile::open(world, name)?),
        FileKind::Mardyn(format, files) => Box::new(mardyn::MardynArrayFile::open(world, format, &files)?),
        FileKind::NetCdf => Box::new(netcdf::NetcdfArrayFile::open(world, name)?),
        FileKind::Hdf5 => return open_hdf5(world, name),
        FileKind::Raw => Box::new(raw::RawArrayFile::open(world, name, raw)?),
    })
}

#[cfg(feature = "hdf5")]
fn open_hdf5(world: &Comm, name: &OsStr) -> Result<Box<dyn ArrayFile>> {
    Ok(Box::new(hdf5::Hdf5ArrayFile::open(world, name)?))
}

#[cfg(not(feature = "hdf5"))]
fn open_hdf5(_: &Comm, name: &OsStr) -> Result<Box<dyn ArrayFile>> {
    bail!("{} is an HDF5 file, but this command was built without the default feature `hdf5`", name.display())
}

/// The contents of a file that is written.
pub(crate) struct ArrayFileContent {
    pub(crate) arrays: Vec<Array>,
    pub(crate) dimensions: Vec<SharedDimension>,
    pub(crate) attributes: Vec<(String, Vec<NamedAttribute>)>,
}

/// A file that arrays are written to.
pub(crate) trait ArrayWriter {
    /// Why the format cannot store an array, if it cannot.
    fn unsupported_reason(&self, array: &Array) -> Option<String>;

    /// Defines arrays, all of which can be stored; returns which metadata is lost, a line each.
    fn define(&mut self, content: &ArrayFileContent) -> Result<Vec<String>>;

    /// The shape of the chunks of an array of which each is to be written at once.
    fn chunk(&self, _array: usize) -> Option<&[u64]> {
        None
    }

    /// The number of ranks, from rank 0 on, that can write parts.
    fn writers(&self) -> usize {
        usize::MAX
    }

    /// A part of an array, which is given by its index; `None` on ranks without a part. Collective.
    fn write(&mut self, array: usize, part: Option<(&ArrayPart, &[u8])>) -> Result<()>;

    /// The files that it has created so far.
    fn created_files(&self) -> Vec<OsString>;

    fn close(self: Box<Self>) -> Result<()>;
}

/// Creates a file of the format that its extension selects.
pub(crate) fn create(world: &Comm, name: &OsStr, from: &dyn ArrayFile) -> Result<Box<dyn ArrayWriter>> {
    if let Some(writer) = molecule::MoleculeWriter::of_name(world, name)? {
        return Ok(Box::new(writer));
    }
    match file_kind::extension_of(name).as_str() {
        "nc" => Ok(Box::new(netcdf::NetcdfArrayWriter::create(world, name, from.netcdf_version())?)),
        "nc4" => create_netcdf4(world, name, from),
        "h5" | "hdf5" => create_hdf5(world, name, from),
        #[cfg(feature = "hdf5")]
        "vtkhdf" => Ok(Box::new(vtkhdf::VtkImageWriter::create(world, name)?)),
        "obj" => Ok(Box::new(object::ObjectArrayWriter::new(world, name))),
        "raw" | "bin" => Ok(Box::new(raw::RawArrayWriter::create(world, name)?)),
        other => bail!(
            "{}: unknown extension {other:?}; use .nc, .nc4, .h5, .vtkhdf, .obj, .npy, .csv, .json, .raw, .cells, \
             .restart.inp, .restart.header.xml or .restart.mpi",
            name.display()
        ),
    }
}

/// With the dimensions of the source as dimension scales, if it has any.
#[cfg(feature = "hdf5")]
fn create_hdf5(world: &Comm, name: &OsStr, from: &dyn ArrayFile) -> Result<Box<dyn ArrayWriter>> {
    if !from.dimensions().is_empty() && netcdf4::scale_conflict(from).is_none() {
        return Ok(Box::new(netcdf4::Netcdf4ArrayWriter::create(world, name, false)?));
    }
    Ok(Box::new(hdf5::Hdf5ArrayWriter::create(world, name)?))
}

#[cfg(feature = "hdf5")]
fn create_netcdf4(world: &Comm, name: &OsStr, from: &dyn ArrayFile) -> Result<Box<dyn ArrayWriter>> {
    if let Some(why) = netcdf4::scale_conflict(from) {
        bail!("{}: {why}", name.display());
    }
    Ok(Box::new(netcdf4::Netcdf4ArrayWriter::create(world, name, true)?))
}

#[cfg(not(feature = "hdf5"))]
fn create_netcdf4(world: &Comm, name: &OsStr, from: &dyn ArrayFile) -> Result<Box<dyn ArrayWriter>> {
    create_hdf5(world, name, from)
}

#[cfg(not(feature = "hdf5"))]
fn create_hdf5(_: &Comm, name: &OsStr, _: &dyn ArrayFile) -> Result<Box<dyn ArrayWriter>> {
    bail!("{}: this command was built without the default feature `hdf5`", name.display())
}

/// The metadata that a format without attributes and names of dimensions loses, a line each.
fn lost_metadata(format: &str, content: &ArrayFileContent) -> Vec<String> {
    let names = |attributes: &[NamedAttribute]| {
        attributes.iter().map(|attribute| attribute.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let groups = content.attributes.iter().map(|(group, attributes)| (group.as_str(), attributes));
    let arrays = content.arrays.iter().map(|array| (array.name.as_str(), &array.attributes));
    let mut lost: Vec<String> = groups
        .chain(arrays)
        .filter(|(_, attributes)| !attributes.is_empty())
        .map(|(owner, attributes)| {
            let owner = if owner.is_empty() { "the file" } else { owner };
            format!("{format} has no attributes: {} of {owner} are omitted", names(attributes))
        })
        .collect();
    for array in content.arrays.iter().filter(|array| !array.dimensions.is_empty()) {
        let (name, dimensions) = (&array.name, array.dimensions.join(", "));
        lost.push(format!("{format} has no names of dimensions: {dimensions} of {name} are omitted"));
    }
    lost
}

/// The arrays that a name selects: one array, all arrays of a group, or all arrays without a name.
pub(crate) fn select_arrays(arrays: &[Array], name: Option<&str>) -> Result<Vec<usize>> {
    let Some(name) = name else { return Ok((0..arrays.len()).collect()) };
    let wanted = name.trim_matches('/');
    let fits = |array: &Array| {
        let own = array.name.trim_start_matches('/');
        own == wanted || own.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('/'))
    };
    let found: Vec<usize> = (0..arrays.len()).filter(|at| fits(&arrays[*at])).collect();
    let names = || arrays.iter().map(|array| array.name.as_str()).take(20).collect::<Vec<_>>().join(", ");
    let more = if arrays.len() > 20 { ", …" } else { "" };
    ensure!(
        !found.is_empty(),
        "there is no array or group {name:?}; the arrays of the file are {}{more}",
        names()
    );
    Ok(found)
}

/// Converts between two formats of `MarDyn`, with the whole header; returns whether both files are phase spaces.
pub(crate) fn convert_mardyn(world: &Comm, from: &OsStr, to: &OsStr) -> Result<bool> {
    match detect(world, from, true)? {
        FileKind::Mardyn(format, files) => mardyn::convert(world, (format, &files), to),
        _ => Ok(false),
    }
}
