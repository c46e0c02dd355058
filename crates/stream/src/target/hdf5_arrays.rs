//! The datasets of streams in an HDF5 file: names, shapes, chunks, attributes.

use aqueduct_formats::hdf5::{
    DatasetId, Datatype, Hdf5Attribute, Hdf5Compression, Hdf5DatasetOptions, Hdf5Definitions, Hdf5File,
};

use super::row_numbering::{RowNumbering, arrays, is_recorded};
use crate::declare::array_storage::StreamAttribute;
use crate::declare::declaration::Declaration;
use crate::declare::stream_info::{StreamInfo, StreamRegion};
use crate::error::{Error, Kind, Result};
use crate::value::{ValueKind, by_kind};

/// Bytes of the smallest chunk of small rows.
const CHUNK: u64 = 1 << 16;
/// Bytes of the largest chunk: HDF5 limits chunks to less than 4 GiB.
const LARGEST_CHUNK: u64 = 1 << 30;
/// Bytes of the largest compressed chunk, which one rank compresses.
const LARGEST_COMPRESSED: u64 = 4 << 20;

/// Rows of fewer bytes are not compressed: a chunk has one row, so that no step writes a chunk of another one again.
const SMALLEST_COMPRESSED: u64 = 1 << 10;

pub(super) type Hdf5DefineResult<T> = aqueduct_formats::Result<T>;

fn datatype<T: aqueduct_object::Object>() -> Datatype {
    Datatype::of::<T>().expect("every number has a type in HDF5")
}

fn datatype_of(kind: ValueKind) -> Datatype {
    match kind {
        ValueKind::Bool => Datatype::Bool,
        ValueKind::F16 => Datatype::Float(2),
        // The compound type that h5py has for complex numbers.
        ValueKind::Complex64 | ValueKind::Complex128 => {
            let part = Datatype::Float(kind.width() as u32 / 2);
            let fields = [("r", 0), ("i", part.size())];
            let fields = fields.map(|(name, at)| (name.to_owned(), at, part.clone()));
            Datatype::Compound(kind.width(), fields.to_vec())
        }
        kind => by_kind!(kind, datatype()),
    }
}

/// The numbers of rows: with a fixed number of steps only stored ones have rows.
pub(super) fn numbering(steps: Option<u64>) -> RowNumbering {
    if steps.is_some() { RowNumbering::StoredSteps } else { RowNumbering::EveryStep }
}

/// Fails if a stream has no place in a file of arrays.
pub(super) fn check_arrays(name: &str, declared: &Declaration) -> Result<()> {
    let refuse = |detail| Err(Error::new(Kind::Unsupported, "create", name, detail));
    for about in declared.streams() {
        let stream = &about.name;
        if about.region == StreamRegion::List {
            return refuse(format!(
                "stream {stream:?} is a list, which has no place in a file of arrays; use a stream file, or an object file"
            ));
        }
        if about.storage.leading > 0 && is_recorded(about) && declared.steps().is_none() {
            return refuse(format!(
                "stream {stream:?} has leading dimensions before the steps, whose number has to be known; give it by Options::steps"
            ));
        }
    }
    Ok(())
}

/// A dataset as it is stored.
pub(super) struct StoredArray {
    pub(super) path: String,
    /// All dimensions; the number of steps is 0 if it is not known.
    shape: Vec<u64>,
    /// Those of the array alone.
    inner: Vec<u64>,
}

/// The datasets of a stream; none for one without elements.
pub(super) fn stored_arrays(about: &StreamInfo, steps: Option<u64>) -> Vec<Option<StoredArray>> {
    let rows = is_recorded(about).then(|| steps.map_or(0, |steps| numbering(Some(steps)).rows(about, steps)));
    let stored = |(name, inner): (String, Vec<u64>)| {
        let path = if name.starts_with('/') { name } else { format!("/{name}") };
        let shape =
            std::iter::repeat_n(1, about.storage.leading).chain(rows).chain(inner.iter().copied()).collect();
        (!inner.contains(&0)).then_some(StoredArray { path, shape, inner })
    };
    arrays(about).into_iter().map(stored).collect()
}

/// Fails if a dataset of the file is another one than the declared one.
pub(super) fn check_stored(
    file: &Hdf5File,
    id: DatasetId,
    array: &StoredArray,
    about: &StreamInfo,
    fixed: bool,
) -> Result<()> {
    let there = file.describe(id)?;
    let grows = is_recorded(about) && !fixed;
    let same = if grows {
        there.extendible && there.shape[1..] == array.shape[1..]
    } else {
        there.shape == array.shape
    };
    if same && there.datatype == datatype_of(about.stored()) {
        return Ok(());
    }
    let detail = format!(
        "dataset {:?} has the shape {:?} and the type {}; the streams declare {:?} {:?}",
        array.path,
        there.shape,
        there.datatype,
        array.shape,
        about.stored()
    );
    Err(Error::new(Kind::BadArgument, "resume", file.name(), detail))
}

/// Defines the datasets of a stream.
pub(super) fn define_arrays(
    file: &mut Hdf5Definitions<'_>,
    about: &StreamInfo,
    steps: Option<u64>,
    compression: Option<Hdf5Compression>,
) -> Hdf5DefineResult<Vec<Option<DatasetId>>> {
    let mut datasets = Vec::new();
    let boxes = about.boxes();
    for (number, array) in stored_arrays(about, steps).into_iter().enumerate() {
        let Some(array) = array else {
            datasets.push(None);
            continue;
        };
        let options = dataset_options(about, &array, steps, compression);
        let kind = datatype_of(about.stored());
        let path = &array.path;
        datasets.push(Some(file.dataset_with_as(path, kind, &array.shape, &options)?));
        if about.storage.leading > 0 && is_recorded(about) {
            file.count_rows_along(path, about.storage.leading as u64)?;
        }
        let reduction = format!("{:?}", about.reduction).to_lowercase();
        file.attribute(path, "reduction", reduction.as_str())?;
        if let Some(every) = about.every {
            file.attribute(path, "every", every)?;
        }
        if about.from > 0 {
            file.attribute(path, "from", about.from)?;
        }
        if let (StreamRegion::Cuboids(_), Some(one)) = (&about.region, boxes.get(number)) {
            file.attribute(path, "start", one.start.as_slice())?;
        }
        for (name, value) in &about.storage.attributes {
            file.attribute(path, name, attribute_of(value))?;
        }
    }
    Ok(datasets)
}

/// How a dataset is stored: in one piece if its size is known, unless the program wants chunks.
fn dataset_options(
    about: &StreamInfo,
    array: &StoredArray,
    steps: Option<u64>,
    compression: Option<Hdf5Compression>,
) -> Hdf5DatasetOptions {
    let width = about.stored().width();
    let grows = is_recorded(about) && steps.is_none();
    let bytes = array.inner.iter().fold(width, |bytes, side| bytes.saturating_mul(*side));
    let compression = compression.filter(|_| bytes >= SMALLEST_COMPRESSED);
    let compression = about.storage.deflate.map(Hdf5Compression::Deflate).or(compression);
    let mut options = Hdf5DatasetOptions::new();
    if grows || compression.is_some() || about.storage.chunk.is_some() {
        let largest = if compression.is_some() { LARGEST_COMPRESSED } else { LARGEST_CHUNK };
        let mut rows = chunk(&array.inner, width, largest);
        if compression.is_some() || !grows {
            rows[0] = 1;
        }
        let before = array.shape.len() - array.inner.len();
        let default = if before == 0 { rows[1..].to_vec() } else { [vec![1; before - 1], rows].concat() };
        options = options.chunk(about.storage.chunk.as_deref().unwrap_or(&default));
    }
    if grows {
        options = options.extendible();
    }
    compression.map_or(options.clone(), |compression| options.compress(compression))
}

fn attribute_of(value: &StreamAttribute) -> Hdf5Attribute {
    match value {
        StreamAttribute::Text(text) => text.as_str().into(),
        StreamAttribute::FixedText(text) => Hdf5Attribute::fixed(text),
        StreamAttribute::Unsigned(numbers) => numbers_of(numbers),
        StreamAttribute::Signed(numbers) => numbers_of(numbers),
        StreamAttribute::Real(numbers) => numbers_of(numbers),
    }
}

/// A single number, or a list of them.
fn numbers_of<T: aqueduct_object::Object>(numbers: &[T]) -> Hdf5Attribute {
    let shape: &[u64] = if numbers.len() == 1 { &[] } else { &[numbers.len() as u64] };
    Hdf5Attribute::shaped(shape, numbers).unwrap_or_else(Hdf5Attribute::Other)
}

/// Chunks of one row, of several small rows, or of a part of a very large one.
fn chunk(shape: &[u64], width: u64, largest: u64) -> Vec<u64> {
    let bytes = |sides: &[u64]| sides.iter().fold(width, |all, side| all.saturating_mul(*side));
    let mut chunk = shape.to_vec();
    while let (true, Some(side)) = (bytes(&chunk) > largest, chunk.iter_mut().find(|side| **side > 1)) {
        *side = side.div_ceil(2);
    }
    let rows = (CHUNK / bytes(&chunk)).clamp(1, 1024);
    [&[rows], &chunk[..]].concat()
}

/// Defines the dataset of the points of a stream, unless the program names its arrays.
pub(super) fn define_points(
    file: &mut Hdf5Definitions<'_>,
    about: &StreamInfo,
) -> Hdf5DefineResult<Option<DatasetId>> {
    let StreamRegion::Points(count @ 1..) = about.region else { return Ok(None) };
    if !about.storage.paths.is_empty() {
        return Ok(None);
    }
    file.dataset::<u64>(&format!("/{}.points", about.name), &[count]).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_rows_and_stay_below_the_limit() {
        assert_eq!(chunk(&[4, 5], 8, LARGEST_CHUNK), [409, 4, 5]);
        assert_eq!(chunk(&[3], 1, LARGEST_CHUNK), [1024, 3]);
        assert_eq!(chunk(&[1000, 1000], 4, LARGEST_CHUNK), [1, 1000, 1000]);
        assert_eq!(chunk(&[1 << 12, 1 << 12, 1 << 12], 8, LARGEST_CHUNK), [1, 8, 1 << 12, 1 << 12]);
        assert_eq!(chunk(&[64, 512, 512], 4, LARGEST_COMPRESSED), [1, 4, 512, 512]);
        assert_eq!(chunk(&[u64::MAX, 1 << 40], 8, LARGEST_CHUNK)[1..], [1, 1 << 27]);
    }
}
