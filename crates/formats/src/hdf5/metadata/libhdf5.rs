//! The C library at work on a file of the operating system: what it is asked to change, and what it finds. One rank does this.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use hdf5_metno::dataset::Layout;
use hdf5_metno::plist::attribute_create::CharEncoding;
use hdf5_metno::plist::dataset_create::{AllocTime, FillTime};
use hdf5_metno::types::{FixedAscii, FixedUnicode, TypeDescriptor, VarLenAscii, VarLenUnicode};
use hdf5_metno::{Extent, Extents, File, Group, LinkType, Location, LocationType, Result, SimpleExtents};

use super::ffi;
use crate::hdf5::model::attribute::Hdf5Attribute;
use crate::hdf5::model::datatype::Datatype;
use crate::hdf5::model::definition::{DatasetAddresses, Hdf5Definition, NewDataset};
use crate::hdf5::model::tree::{
    COMPLETION_ATTRIBUTE, Dataset, Hdf5Object, ObjectTree, Storage, UNDEFINED_ADDRESS, grid, too_many,
};

/// Small things lie together in blocks of so many bytes, so that data follows data.
const META_BLOCK: u64 = 64 << 10;
/// The alignment of all blocks: a completion attribute is then inside one sector.
const ALIGNMENT: u64 = 8;
/// Groups inside of groups that are followed: a link to a group further out would never end.
const DEEPEST: usize = 64;
/// No link to a group or dataset takes fewer bytes of a file.
const SHORTEST_LINK: u64 = 16;
/// The longest text of fixed length.
const LONGEST: usize = 4096;

fn options() -> hdf5_metno::FileBuilder {
    let mut options = File::with_options();
    // The earliest format: its headers have no checksums, so that marks can be changed in their places.
    options.with_fapl(|access| {
        access.libver_bounds(
            hdf5_metno::file::LibraryVersion::Earliest,
            hdf5_metno::file::LibraryVersion::latest(),
        );
        // The library's lock would live on in programs that this one starts meanwhile.
        access.file_locking(false);
        access.alignment(1, ALIGNMENT).meta_block_size(META_BLOCK)
    });
    options
}

/// Makes changes, and gives marks, those of new datasets among them, these values; where datasets are afterwards.
pub(crate) fn apply_definitions(
    path: &Path,
    changes: &[Hdf5Definition],
    tree: &ObjectTree,
    marks: &HashMap<&str, u64>,
) -> Result<Vec<DatasetAddresses>> {
    let file = options().open_rw(path)?;
    let (mut placed, mut marks) = (Vec::new(), marks.clone());
    for change in changes {
        match change {
            Hdf5Definition::Group(path) => drop(file.create_group(path)?),
            Hdf5Definition::Dataset(path, new) => {
                placed.push(create_dataset(&file, path, new, marks.remove(path.as_str()))?);
            }
            Hdf5Definition::Extend(path, rows) => placed.push(extend(&file, path, *rows, tree, &placed)?),
            Hdf5Definition::Attribute(path, name, values) => {
                write_attribute(&at(&file, path)?, name, values)?;
            }
        }
    }
    mark_all(&file, marks)?;
    file.close()?;
    Ok(placed)
}

/// Writes the marks of these objects.
pub(crate) fn set_marks<'a>(path: &Path, marks: impl Iterator<Item = (&'a str, u64)>) -> Result<()> {
    let file = options().open_rw(path)?;
    mark_all(&file, marks)?;
    file.close()
}

fn mark_all<'a>(file: &File, marks: impl IntoIterator<Item = (&'a str, u64)>) -> Result<()> {
    marks
        .into_iter()
        .try_for_each(|(path, value)| at(file, path)?.attr(COMPLETION_ATTRIBUTE)?.write_scalar(&value))
}

fn mark(location: &Location, value: u64) -> Result<()> {
    // With a name in ASCII the value is aligned to eight bytes, and so is inside one sector.
    location
        .new_attr::<u64>()
        .char_encoding(CharEncoding::Ascii)
        .create(COMPLETION_ATTRIBUTE)?
        .write_scalar(&value)
}

/// A group or dataset.
fn at(file: &File, path: &str) -> Result<Location> {
    file.open_by_token(file.loc_info_by_name(path)?.token)
}

fn create_dataset(
    file: &File,
    path: &str,
    new: &NewDataset,
    marked: Option<u64>,
) -> Result<DatasetAddresses> {
    let dimension = |(at, length): (usize, &u64)| {
        if at == 0 && new.extendible {
            Extent::resizable(*length as usize)
        } else {
            Extent::fixed(*length as usize)
        }
    };
    let extents = match new.shape.as_slice() {
        [] => Extents::Scalar,
        shape => Extents::Simple(SimpleExtents::from_vec(shape.iter().enumerate().map(dimension).collect())),
    };
    // As a finished type: a description would be laid out as C does it, with gaps.
    let datatype = hdf5_metno::Datatype::from_descriptor(&new.datatype.descriptor()?)?;
    let builder = file.new_dataset_builder().empty_as(&datatype).shape(extents);
    let builder =
        builder.alloc_time(Some(AllocTime::Early)).fill_time(FillTime::Never).obj_track_times(false);
    let builder = match &new.chunk {
        Some(chunk) => builder.chunk(chunk.iter().map(|length| *length as usize).collect::<Vec<_>>()),
        None => builder.no_chunk().layout(Layout::Contiguous),
    };
    let dataset = builder.create(path)?;
    if let Some(value) = marked {
        mark(&dataset, value)?;
    }
    let addresses = match &new.chunk {
        Some(chunk) => chunks(&dataset, &new.shape, chunk, 0)?,
        None => vec![dataset.offset().unwrap_or(UNDEFINED_ADDRESS)],
    };
    Ok(DatasetAddresses { path: path.to_owned(), known: 0, addresses })
}

fn extend(
    file: &File,
    path: &str,
    rows: u64,
    tree: &ObjectTree,
    placed: &[DatasetAddresses],
) -> Result<DatasetAddresses> {
    let dataset = file.dataset(path)?;
    let mut shape: Vec<u64> = dataset.shape().iter().map(|length| *length as u64).collect();
    shape[0] = rows;
    dataset.resize(shape.iter().map(|length| *length as usize).collect::<Vec<_>>())?;
    let chunk: Vec<u64> = dataset.chunk().unwrap_or_default().iter().map(|length| *length as u64).collect();
    let before =
        tree.get(path).and_then(|node| node.dataset.as_ref()).map_or(0, |dataset| match &dataset.storage {
            Storage::Chunked(_, addresses) => addresses.len() as u64,
            _ => 0,
        });
    let now = placed
        .iter()
        .filter(|placed| placed.path == path)
        .map(|placed| placed.known + placed.addresses.len() as u64);
    let known = now.max().unwrap_or(before);
    Ok(DatasetAddresses { path: path.to_owned(), known, addresses: chunks(&dataset, &shape, &chunk, known)? })
}

/// The addresses of chunks, from one of them on.
fn chunks(dataset: &hdf5_metno::Dataset, shape: &[u64], chunk: &[u64], first: u64) -> Result<Vec<u64>> {
    let grid = grid(shape, chunk);
    let count = grid.iter().product::<u64>();
    let address = |mut number: u64| {
        let mut coordinates = vec![0; grid.len()];
        for at in (0..grid.len()).rev() {
            coordinates[at] = number % grid[at] * chunk[at];
            number /= grid[at];
        }
        ffi::chunk(dataset, &coordinates).map(|(address, _)| address)
    };
    (first..count).map(address).collect()
}

/// The addresses of all chunks; [`NOWHERE`] for those that the file does not have.
fn all_chunks(dataset: &hdf5_metno::Dataset, shape: &[u64], chunk: &[u64]) -> Result<Vec<u64>> {
    let grid = grid(shape, chunk);
    let count = grid.iter().product::<u64>() as usize;
    let there = dataset.num_chunks().ok_or("the number of its chunks is not known")?;
    if there >= count {
        return chunks(dataset, shape, chunk, 0);
    }
    // Each lookup walks over all existing chunks; only a few of the declared ones may exist.
    let mut addresses = vec![UNDEFINED_ADDRESS; count];
    for index in 0..there {
        let found = dataset.chunk_info(index).ok_or("the place of a chunk is not known")?;
        let place = found.offset.iter().zip(chunk).map(|(offset, chunk)| offset / (*chunk).max(1));
        let inside = place
            .zip(&grid)
            .try_fold(0, |at, (place, length)| (place < *length).then(|| at * length + place));
        // One outside was left there by a program that has shrunk the dataset.
        if let Some(at) = inside {
            addresses[at as usize] = found.addr;
        }
    }
    Ok(addresses)
}

fn write_attribute(location: &Location, name: &str, values: &Hdf5Attribute) -> Result<()> {
    if location.attr(name).is_ok() {
        location.delete_attr(name)?;
    }
    let text = |text: &str| text.parse::<VarLenUnicode>().map_err(|error| error.to_string());
    match values {
        Hdf5Attribute::Text(value) => {
            location.new_attr::<VarLenUnicode>().create(name)?.write_scalar(&text(value)?)
        }
        Hdf5Attribute::FixedText(value) => {
            // Some readers take text of fixed length in ASCII alone.
            let size = value.len().max(1);
            let ascii = value.is_ascii();
            let ty =
                if ascii { TypeDescriptor::FixedAscii(size) } else { TypeDescriptor::FixedUnicode(size) };
            let made = location.new_attr_builder().empty_as(&ty).create(name)?;
            let long = || format!("text of fixed length has up to {LONGEST} bytes, and no zeros");
            if ascii {
                made.write_scalar(&FixedAscii::<LONGEST>::from_ascii(value).map_err(|_| long())?)
            } else {
                made.write_scalar(&value.parse::<FixedUnicode<LONGEST>>().map_err(|_| long())?)
            }
        }
        Hdf5Attribute::Texts(values) => {
            let values =
                values.iter().map(|value| text(value)).collect::<std::result::Result<Vec<_>, _>>()?;
            location.new_attr::<VarLenUnicode>().shape(values.len()).create(name)?.write_raw(&values)
        }
        Hdf5Attribute::Values(ty, shape, bytes) => {
            let ty = hdf5_metno::Datatype::from_descriptor(&ty.descriptor()?)?;
            let shape: Vec<usize> = shape.iter().map(|length| *length as usize).collect();
            let builder = location.new_attr_builder().empty_as(&ty);
            let made =
                if shape.is_empty() { builder.create(name)? } else { builder.shape(shape).create(name)? };
            ffi::write(&made, &ty, bytes)
        }
        Hdf5Attribute::Other(what) => {
            Err(format!("attribute {name} is {what}, which is not written here").into())
        }
    }
}

/// What there is in a file.
pub(crate) fn probe_file(path: &Path) -> Result<ObjectTree> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    let file = options().open(path)?;
    let mut tree = ObjectTree::new();
    tree.insert("/".to_owned(), Hdf5Object { attributes: read_attributes(&file, length), dataset: None });
    walk(&file, "", length, &mut tree)?;
    Ok(tree)
}

fn walk(group: &Group, path: &str, length: u64, tree: &mut ObjectTree) -> Result<()> {
    if path.matches('/').count() > DEEPEST {
        return Err(format!(
            "{path}: groups lie in groups more than {DEEPEST} deep; perhaps a link to one further out"
        )
        .into());
    }
    let mut names = Vec::new();
    group.iter_visit_default(|name, link| {
        if link.link_type == LinkType::Hard {
            names.push(name.to_owned());
        }
        Ok(())
    })?;
    for name in names {
        let inner = format!("{path}/{name}");
        if tree.len() as u64 > length / SHORTEST_LINK {
            return Err(format!(
                "{inner}: more groups and datasets than {length} bytes can name: they are linked to again and again"
            )
            .into());
        }
        let kind = group.loc_type_by_name(&name)?;
        if kind == LocationType::Group {
            let group = group.group(&name)?;
            tree.insert(
                inner.clone(),
                Hdf5Object { attributes: read_attributes(&group, length), dataset: None },
            );
            walk(&group, &inner, length, tree)?;
        } else if kind == LocationType::Dataset {
            let dataset = group.dataset(&name)?;
            let attributes = read_attributes(&dataset, length);
            tree.insert(inner, Hdf5Object { attributes, dataset: Some(describe_dataset(&dataset)?) });
        }
    }
    Ok(())
}

fn describe_dataset(dataset: &hdf5_metno::Dataset) -> Result<Dataset> {
    let shape: Vec<u64> = dataset.shape().iter().map(|length| *length as u64).collect();
    let grows = dataset
        .space()?
        .maxdims()
        .first()
        .is_some_and(|most| most.is_none_or(|most| most as u64 > shape.first().copied().unwrap_or(0)));
    let stored = dataset.dtype()?;
    let datatype = datatype(&stored);
    if datatype.size() == 0 {
        return Err(format!("{}: elements without a byte", dataset.name()).into());
    }
    let fill = datatype.foreign().is_none().then(|| ffi::fill(dataset, &stored)).flatten();
    let fill = fill.filter(|fill| fill.iter().any(|byte| *byte != 0)).unwrap_or_default();
    let storage = if let Some(filter) = dataset.filters().first() {
        Storage::Unsupported(format!("its chunks are packed ({filter:?}); `h5repack -f NONE` unpacks them"))
    } else {
        match dataset.layout() {
            Layout::Contiguous => match dataset.offset() {
                Some(address) if dataset.storage_size() > 0 || dataset.size() == 0 => {
                    Storage::Contiguous(address)
                }
                _ if dataset.size() == 0 => Storage::Contiguous(0),
                _ => Storage::Contiguous(UNDEFINED_ADDRESS),
            },
            Layout::Chunked => {
                let chunk: Vec<u64> =
                    dataset.chunk().unwrap_or_default().iter().map(|length| *length as u64).collect();
                match too_many(&shape, &chunk) {
                    _ if chunk.len() != shape.len() => {
                        return Err(format!("{}: chunks of {chunk:?} in {shape:?}", dataset.name()).into());
                    }
                    Some(why) => Storage::Unsupported(format!("{why}: `h5repack -l CHUNK=…` does")),
                    // Versions of the library differ in whether the places of chunks count from the start of the file then.
                    None if dataset.file()?.userblock() > 0 => Storage::Unsupported(
                        "it is in chunks, in a file with a user block; `h5unjam` takes that away".to_owned(),
                    ),
                    None => {
                        let addresses = all_chunks(dataset, &shape, &chunk)?;
                        Storage::Chunked(chunk, addresses)
                    }
                }
            }
            other => Storage::Unsupported(format!(
                "its layout is {other:?}; `h5repack -l CONTI` makes it contiguous"
            )),
        }
    };
    Ok(Dataset { datatype, shape, extendible: grows, storage, fill })
}

/// A type, if its bytes are what ours would be.
fn datatype(ty: &hdf5_metno::Datatype) -> Datatype {
    let Ok(descriptor) = ty.to_descriptor() else {
        return Datatype::Other("a type that is not known here".to_owned(), ty.size() as u64);
    };
    let known = Datatype::from_descriptor(&descriptor);
    let text = matches!(known, Datatype::Text(_) | Datatype::VlenText);
    let same = known.descriptor().ok().and_then(|same| hdf5_metno::Datatype::from_descriptor(&same).ok());
    if text || same.is_some_and(|same| same == *ty) {
        return known;
    }
    Datatype::Other(format!("{descriptor}, in another form than this machine's"), ty.size() as u64)
}

/// All attributes of an object, in a file of so many bytes.
fn read_attributes(location: &Location, length: u64) -> BTreeMap<String, Hdf5Attribute> {
    let names = location.attr_names().unwrap_or_default();
    let value = |name: String| {
        let value = location.attr(&name).and_then(|attribute| read_attribute(&attribute, length));
        (name, value.unwrap_or_else(|error| Hdf5Attribute::Other(error.to_string())))
    };
    names.into_iter().map(value).collect()
}

fn read_attribute(attribute: &hdf5_metno::Attribute, length: u64) -> Result<Hdf5Attribute> {
    let ty = attribute.dtype()?;
    let claimed = attribute.shape().iter().try_fold(ty.size(), |bytes, length| bytes.checked_mul(*length));
    if claimed.is_none_or(|bytes| bytes as u64 > length) {
        return Ok(Hdf5Attribute::Other(format!("damaged: more values than {length} bytes can hold")));
    }
    let descriptor = ty.to_descriptor()?;
    let texts = |texts: Vec<String>| {
        if attribute.is_scalar() {
            Hdf5Attribute::Text(texts.into_iter().next().unwrap_or_default())
        } else {
            Hdf5Attribute::Texts(texts)
        }
    };
    Ok(match &descriptor {
        TypeDescriptor::VarLenUnicode => {
            texts(attribute.read_raw::<VarLenUnicode>()?.iter().map(ToString::to_string).collect())
        }
        TypeDescriptor::VarLenAscii => {
            texts(attribute.read_raw::<VarLenAscii>()?.iter().map(ToString::to_string).collect())
        }
        TypeDescriptor::FixedAscii(size) if *size <= LONGEST && attribute.is_scalar() => {
            Hdf5Attribute::FixedText(attribute.read_scalar::<FixedAscii<LONGEST>>()?.to_string())
        }
        TypeDescriptor::FixedUnicode(size) if *size <= LONGEST && attribute.is_scalar() => {
            Hdf5Attribute::FixedText(attribute.read_scalar::<FixedUnicode<LONGEST>>()?.to_string())
        }
        _ => {
            let known = datatype(&ty);
            if let Some(what) = known.foreign() {
                return Ok(Hdf5Attribute::Other(what.to_owned()));
            }
            let shape = attribute.shape().iter().map(|length| *length as u64).collect();
            Hdf5Attribute::Values(known, shape, ffi::read(attribute, &ty)?)
        }
    })
}

/// All elements of a dataset that are text of any length.
pub(crate) fn read_vlen_strings(path: &Path, dataset: &str) -> Result<Vec<String>> {
    let dataset = options().open(path)?.dataset(dataset)?;
    Ok(match dataset.dtype()?.to_descriptor()? {
        TypeDescriptor::VarLenAscii => {
            dataset.read_raw::<VarLenAscii>()?.iter().map(ToString::to_string).collect()
        }
        _ => dataset.read_raw::<VarLenUnicode>()?.iter().map(ToString::to_string).collect(),
    })
}

/// The version of the superblock, if that is what these bytes begin with.
pub(crate) fn version_of(first: &[u8]) -> Option<u8> {
    first.strip_prefix(b"\x89HDF\r\n\x1a\n").and_then(|rest| rest.first().copied())
}
