//! What a file holds, whatever its format: the one seam between commands and formats.

mod array_model;
mod cells;
mod element_type;
mod file_kind;
mod finding;
#[cfg(feature = "hdf5")]
mod hdf5;
mod mardyn;
mod molecule;
mod netcdf;
#[cfg(feature = "hdf5")]
mod netcdf4_dimensions;
mod object;
mod raw;
mod signature;
mod store;
mod stream;

use std::ffi::{OsStr, OsString};

use anyhow::{Result, bail, ensure};
use aqueduct::comm::{Comm, Launch};

pub(crate) use array_model::{Array, ArrayPart, AttributeValue, NamedAttribute, SharedDimension};
pub(crate) use element_type::{ElementType, NumberType, NumberValue};
pub(crate) use file_kind::{FileKind, detect};
pub(crate) use finding::Finding;
pub(crate) use raw::RawShape;

/// Whether an attribute, one of these, describes dimensions of a netCDF-4 file: in other formats they describe themselves.
pub(crate) fn is_internal(name: &str, all: &[NamedAttribute]) -> bool {
    #[cfg(feature = "hdf5")]
    return netcdf4_dimensions::is_internal(name, all);
    #[cfg(not(feature = "hdf5"))]
    return name.is_empty() && all.is_empty();
}

/// The attribute by which our writers mark what is complete: not a part of what is said about the data.
const COMPLETION_MARK: &str = "aqueduct_complete";

/// An open file. Its bytes are little-endian, whatever they are in the file.
pub(crate) trait ArrayFile {
    /// What kind of file it is, for people.
    fn format(&self) -> String;

    fn arrays(&self) -> &[Array];

    /// What is said about it, group by group: the path of the group, empty for the file as a whole, and its attributes.
    fn attributes(&self) -> Vec<(String, Vec<NamedAttribute>)> {
        Vec::new()
    }

    /// The dimensions that arrays share, in the order of the file.
    fn dimensions(&self) -> Vec<SharedDimension> {
        Vec::new()
    }

    /// Whether files of this kind can name dimensions and have attributes: what is not there is then really missing.
    fn holds_metadata(&self) -> bool {
        false
    }

    /// Whether it can hold dimensions that no array has: one that is not there is then really missing.
    fn holds_dimensions(&self) -> bool {
        false
    }

    /// Whether files of this kind give names to their arrays. One that has none stands for any array.
    fn names_arrays(&self) -> bool {
        true
    }

    /// More lines about it, for people.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// The version of netCDF, if it is one.
    fn netcdf_version(&self) -> Option<aqueduct::netcdf::CdfVersion> {
        None
    }

    /// A part of an array, by its number.
    fn read(&self, array: usize, part: &ArrayPart) -> Result<Vec<u8>>;

    /// Rows as people read them, one each; none where they are numbers, which [`Data::read`] gives.
    fn lines(&self, _array: usize, _rows: std::ops::Range<u64>) -> Option<Result<Vec<String>>> {
        None
    }

    /// Whether an array has anything in the file, however long it is said to be.
    fn is_stored(&self, _array: usize) -> bool {
        true
    }

    /// Whether [`Data::findings`] compares all bytes with checksums, so that reading would find nothing more.
    fn has_checksums(&self) -> bool {
        false
    }

    /// What is wrong beside what reading would tell.
    fn findings(&self) -> Result<Vec<Finding>>;
}

/// Opens a file, whatever it is; one that says nothing about itself is raw, of the shape that is given.
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
    bail!(
        "{} is an HDF5 file, and this command was built without it: cargo build --features hdf5",
        name.display()
    )
}

/// What is to be written into a file.
pub(crate) struct ArrayFileContent {
    pub(crate) arrays: Vec<Array>,
    pub(crate) dimensions: Vec<SharedDimension>,
    pub(crate) attributes: Vec<(String, Vec<NamedAttribute>)>,
}

/// What arrays are written into.
pub(crate) trait ArrayWriter {
    /// Why an array cannot be held, if it cannot.
    fn unsupported_reason(&self, array: &Array) -> Option<String>;

    /// Makes room for arrays, all of which can be held; what else of the content is lost, a line each.
    fn define(&mut self, content: &ArrayFileContent) -> Result<Vec<String>>;

    /// A part of an array, by its number.
    fn write(&mut self, array: usize, part: &ArrayPart, bytes: &[u8]) -> Result<()>;

    /// The files that it has made so far.
    fn created_files(&self) -> Vec<OsString>;

    fn close(self: Box<Self>) -> Result<()>;
}

/// Creates a file of the format that the end of its name stands for.
pub(crate) fn create(world: &Comm, name: &OsStr, from: &dyn ArrayFile) -> Result<Box<dyn ArrayWriter>> {
    if let Some(writer) = molecule::MoleculeWriter::of_name(world, name)? {
        return Ok(Box::new(writer));
    }
    match file_kind::extension_of(name).as_str() {
        "nc" => Ok(Box::new(netcdf::NetcdfArrayWriter::create(world, name, from.netcdf_version())?)),
        "h5" | "hdf5" => create_hdf5(world, name),
        "obj" => Ok(Box::new(object::ObjectArrayWriter::new(world, name))),
        "raw" | "bin" => Ok(Box::new(raw::RawArrayWriter::create(world, name)?)),
        other => bail!(
            "{}: the end {other:?} stands for no format; .nc, .h5, .obj, .raw, .cells, .restart.inp, .restart.header.xml and .restart.mpi do",
            name.display()
        ),
    }
}

#[cfg(feature = "hdf5")]
fn create_hdf5(world: &Comm, name: &OsStr) -> Result<Box<dyn ArrayWriter>> {
    Ok(Box::new(hdf5::Hdf5ArrayWriter::create(world, name)?))
}

#[cfg(not(feature = "hdf5"))]
fn create_hdf5(_: &Comm, name: &OsStr) -> Result<Box<dyn ArrayWriter>> {
    bail!("{}: this command was built without HDF5: cargo build --features hdf5", name.display())
}

/// What a format without attributes and names of dimensions loses of an array and of its file, a line each.
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
            format!("{format} has no attributes: {} of {owner} are left out", names(attributes))
        })
        .collect();
    for array in content.arrays.iter().filter(|array| !array.dimensions.is_empty()) {
        let (name, dimensions) = (&array.name, array.dimensions.join(", "));
        lost.push(format!("{format} has no names of dimensions: {dimensions} of {name} are left out"));
    }
    lost
}

/// Makes the allocator of glibc keep memory of the size of array parts. It returns the free end of a heap to the kernel from twice the size of the
/// largest block on that it has unmapped so far (`M_TRIM_THRESHOLD` in mallopt(3)): the two buffers of `compare` would be given back and faulted in
/// again for every part, which takes as long as comparing them.
fn keep_freed_memory() {
    const BLOCK: usize = 24 << 20;
    // Never touched: it takes address space alone.
    drop(std::hint::black_box(Vec::<u8>::with_capacity(BLOCK)));
}

/// Does the work of a command on one rank.
pub(crate) fn on_one_rank<R: Send>(work: impl Fn(&Comm) -> Result<R> + Sync) -> Result<R> {
    keep_freed_memory();
    // Nobody else has to learn of a failure, which is told as it is.
    let mut results = Launch::threads(1).run(|world| Ok::<_, aqueduct::comm::Error>(work(world)))?;
    ensure!(results.len() == 1, "one rank has one result");
    results.remove(0)
}

/// The arrays that a name stands for: one of them, all in a group, or all without a name.
pub(crate) fn select_arrays(arrays: &[Array], name: Option<&str>) -> Result<Vec<usize>> {
    let Some(name) = name else { return Ok((0..arrays.len()).collect()) };
    let wanted = name.trim_matches('/');
    let fits = |array: &Array| {
        let own = array.name.trim_start_matches('/');
        own == wanted || own.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('/'))
    };
    let found: Vec<usize> = (0..arrays.len()).filter(|at| fits(&arrays[*at])).collect();
    let names = || arrays.iter().map(|array| array.name.as_str()).take(20).collect::<Vec<_>>().join(", ");
    ensure!(
        !found.is_empty(),
        "there is no array or group {name:?}; there are {}: {}",
        arrays.len(),
        names()
    );
    Ok(found)
}

/// Converts one phase space of `MarDyn` into another, with all that their heads have in common; whether both are ones.
pub(crate) fn convert_mardyn(world: &Comm, from: &OsStr, to: &OsStr) -> Result<bool> {
    match detect(world, from, true)? {
        FileKind::Mardyn(format, files) => mardyn::convert(world, (format, &files), to),
        _ => Ok(false),
    }
}
