//! HDF5 files.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::ops::Range;

use anyhow::{Result, anyhow, bail, ensure};
use aqueduct::comm::Comm;
use aqueduct::hdf5::{
    ChunkFilter, ChunkLocation, DatasetId, Datatype, Hdf5Attribute, Hdf5CreateOptions, Hdf5DatasetOptions,
    Hdf5Definitions, Hdf5File, Hdf5Object, Hdf5OpenOptions, StoredByteOrder,
};

use super::netcdf4_dimensions::NamedScales;
use super::padded_read;
use super::{
    Array, ArrayFile, ArrayFileContent, ArrayPart, ArrayWriter, AttributeValue, COMPLETION_MARK, ChunkCodec,
    ChunkReference, ChunkReferences, ElementType, Finding, NamedAttribute, NumberType, SharedDimension,
    StorageSummary, VerifyDepth, element_type, is_internal,
};

/// The attribute in which `H5DSset_label` stores the names of a dataset's dimensions.
pub(super) const LABELS: &str = "DIMENSION_LABELS";

fn element(ty: &Datatype) -> ElementType {
    let mut parts = Vec::new();
    let known = collect(ty, 0, "", &mut parts).is_some();
    // Variable-length strings have no size.
    let size = if *ty == Datatype::VlenText { 0 } else { ty.size() };
    let element = ElementType::new(ty.to_string(), size, known.then_some(parts));
    ElementType { datatype: Some(ty.clone()), ..element }
}

/// The number type of a datatype.
fn as_number(ty: &Datatype) -> Option<NumberType> {
    Some(match ty {
        Datatype::Int(1) => NumberType::I8,
        Datatype::Int(2) => NumberType::I16,
        Datatype::Int(4) => NumberType::I32,
        Datatype::Int(8) => NumberType::I64,
        Datatype::UInt(1) => NumberType::U8,
        Datatype::UInt(2) => NumberType::U16,
        Datatype::UInt(4) => NumberType::U32,
        Datatype::UInt(8) => NumberType::U64,
        Datatype::Float(4) => NumberType::F32,
        Datatype::Float(8) => NumberType::F64,
        // netCDF-4 stores char as strings of length 1.
        Datatype::Text(1) => NumberType::Char,
        _ => return None,
    })
}

pub(crate) fn as_datatype(number: NumberType) -> Datatype {
    match number {
        NumberType::I8 | NumberType::I16 | NumberType::I32 | NumberType::I64 => {
            Datatype::Int(number.size() as u32)
        }
        NumberType::U8 | NumberType::U16 | NumberType::U32 | NumberType::U64 => {
            Datatype::UInt(number.size() as u32)
        }
        NumberType::F32 | NumberType::F64 => Datatype::Float(number.size() as u32),
        NumberType::Char => Datatype::Text(1),
    }
}

/// The numbers of a type; `None` if it has other fields.
fn collect(ty: &Datatype, at: u64, name: &str, parts: &mut Vec<(u64, String, NumberType)>) -> Option<()> {
    let number = match ty {
        Datatype::Bool => NumberType::U8,
        Datatype::Enum(size, _) => as_number(&Datatype::UInt(*size))?,
        Datatype::Array(of, count) => {
            return (0..*count).try_for_each(|index| {
                collect(of, at + index * of.size(), &format!("{name}[{index}]"), parts)
            });
        }
        Datatype::Compound(_, fields) => {
            return fields.iter().try_for_each(|(field, offset, ty)| {
                let inner = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
                collect(ty, at + offset, &inner, parts)
            });
        }
        other => as_number(other)?,
    };
    element_type::push(parts, (at, name.to_owned(), number))
}

/// The element type of an array; `None` if it is not supported.
pub(super) fn datatype(element: &ElementType) -> Option<Datatype> {
    if let Some(native) = &element.datatype {
        return (*native != Datatype::VlenText).then(|| native.clone()).filter(|native| !is_foreign(native));
    }
    if let Some(number) = element.as_number() {
        return Some(as_datatype(number));
    }
    let fields = element.parts.as_ref()?.iter();
    let fields = fields.map(|(at, name, number)| (name.clone(), *at, as_datatype(*number))).collect();
    Some(Datatype::Compound(element.size, fields))
}

/// Whether a type has fields that cannot be copied.
fn is_foreign(ty: &Datatype) -> bool {
    match ty {
        Datatype::Other(..) | Datatype::VlenText => true,
        Datatype::Array(of, _) => is_foreign(of),
        Datatype::Compound(_, fields) => fields.iter().any(|(_, _, ty)| is_foreign(ty)),
        _ => false,
    }
}

/// The attributes of a node, without completion marks and names of dimensions; of a netCDF-4 file, without those that describe scales.
fn attributes(node: &Hdf5Object, is_netcdf4: bool) -> Vec<NamedAttribute> {
    let own = node.attributes.iter().filter(|(name, _)| *name != COMPLETION_MARK);
    let own = own.filter(|(name, value)| *name != LABELS || !matches!(value, Hdf5Attribute::Texts(_)));
    let all: Vec<_> = own.map(|(name, value)| NamedAttribute::new(name, known(value))).collect();
    let shown = all.iter().filter(|attribute| !is_netcdf4 || !is_internal(&attribute.name, &all));
    shown.cloned().collect()
}

fn known(value: &Hdf5Attribute) -> AttributeValue {
    match value {
        Hdf5Attribute::Text(text) => AttributeValue::Text(text.clone()),
        Hdf5Attribute::Texts(texts) => AttributeValue::Texts(texts.clone()),
        Hdf5Attribute::Values(ty, shape, bytes) => match as_number(ty) {
            Some(number) => AttributeValue::Numbers(number, shape.clone(), bytes.clone()),
            None => AttributeValue::Hdf5(value.clone()),
        },
        Hdf5Attribute::FixedText(_) => AttributeValue::Hdf5(value.clone()),
        Hdf5Attribute::References(_) | Hdf5Attribute::ScaleUses(_) => {
            AttributeValue::Foreign("references to objects".to_owned())
        }
        Hdf5Attribute::Other(what) => AttributeValue::Foreign(what.clone()),
    }
}

/// The value of an attribute in this format, or why it cannot be stored.
pub(super) fn value(value: &AttributeValue) -> Result<Hdf5Attribute, String> {
    match value {
        AttributeValue::Text(text) if text.trim_end_matches('\0').contains('\0') => {
            Err("HDF5 cannot store text that contains a zero byte".to_owned())
        }
        AttributeValue::Text(text) => Ok(Hdf5Attribute::from(text.trim_end_matches('\0'))),
        AttributeValue::Texts(texts) => Ok(Hdf5Attribute::Texts(texts.clone())),
        AttributeValue::Numbers(_, _, bytes) if bytes.is_empty() => {
            Err("attributes without a value are not supported".to_owned())
        }
        AttributeValue::Numbers(number, shape, bytes) => {
            // A list of one number, from a format that has only lists, becomes a scalar.
            let shape = if shape[..] == [1] { Vec::new() } else { shape.clone() };
            Ok(Hdf5Attribute::Values(as_datatype(*number), shape, bytes.clone()))
        }
        AttributeValue::Hdf5(value) => Ok(value.clone()),
        AttributeValue::Foreign(what) => Err(format!("{what} cannot be copied")),
    }
}

/// Writes the attributes of a group or dataset; adds those that cannot be stored to `lost`.
fn write_attribute(
    file: &mut Hdf5Definitions<'_>,
    owner: &str,
    attributes: &[NamedAttribute],
    lost: &mut Vec<String>,
) -> aqueduct::formats::Result<()> {
    // Scales are written as labels, so attributes that describe scales would be wrong.
    let own = attributes.iter().filter(|attribute| !is_internal(&attribute.name, attributes));
    for attribute in own {
        match value(&attribute.value) {
            Ok(value) => file.attribute(owner, &attribute.name, value)?,
            Err(why) => lost.push(format!("the attribute {} of {owner} is omitted: {why}", attribute.name)),
        }
    }
    Ok(())
}

pub(crate) struct Hdf5ArrayFile {
    open: Hdf5File,
    datasets: Vec<DatasetId>,
    arrays: Vec<Array>,
    /// The text of each array of strings, once it was read.
    texts: Vec<OnceCell<Vec<String>>>,
    scales: NamedScales,
}

impl Hdf5ArrayFile {
    pub(crate) fn open(world: &Comm, name: &OsStr) -> Result<Self> {
        let file = Hdf5OpenOptions::new().open(world, name)?;
        let (mut datasets, mut arrays) = (Vec::new(), Vec::new());
        let scales = NamedScales::of(file.tree()).unwrap_or_default();
        for (id, path) in file.datasets().filter(|(_, path)| !scales.hidden.contains(*path)) {
            let (dataset, node) = (file.describe(id)?, file.object(path)?);
            let dimensions = match node.attribute(LABELS) {
                Some(Hdf5Attribute::Texts(labels)) if labels.len() == dataset.shape.len() => labels.clone(),
                _ => scales.names.get(path).cloned().unwrap_or_default(),
            };
            arrays.push(Array {
                dimensions,
                grows: dataset.extendible,
                complete: file.complete(id)?,
                attributes: attributes(node, !scales.shared.is_empty()),
                storage: Some(Hdf5DatasetOptions::like(dataset)).filter(|like| like.chunk_shape().is_some()),
                ..Array::new(path, element(&dataset.datatype), scales.shape(path, &dataset.shape))
            });
            datasets.push(id);
        }
        let texts = arrays.iter().map(|_| OnceCell::new()).collect();
        Ok(Self { open: file, datasets, arrays, texts, scales })
    }

    fn is_text(&self, array: usize) -> bool {
        self.open.describe(self.datasets[array]).is_ok_and(|dataset| dataset.datatype == Datatype::VlenText)
    }

    /// Rows of strings.
    fn texts(&self, array: usize, rows: &Range<u64>) -> Result<impl Iterator<Item = &[String]>> {
        let all = match self.texts[array].get() {
            Some(all) => all,
            None => {
                let mut all = self.open.read_vlen_strings(self.datasets[array])?;
                // Records that were never written.
                let (shown, stored) = (&self.arrays[array].shape, self.open.describe(self.datasets[array])?);
                if shown.len() == stored.shape.len() && shown.get(1..) == stored.shape.get(1..) {
                    all.resize(shown.iter().product::<u64>() as usize, String::new());
                }
                self.texts[array].get_or_init(|| all)
            }
        };
        let row = self.arrays[array].shape.iter().skip(1).product::<u64>().max(1) as usize;
        let wanted = rows.end.saturating_sub(rows.start) as usize;
        Ok(all.chunks(row).skip(rows.start as usize).take(wanted))
    }
}

/// A filter that other readers know.
fn chunk_codec(filter: &ChunkFilter, size: u64) -> Result<ChunkCodec> {
    let first = filter.parameters.first().copied();
    Ok(match filter.id {
        1 => ChunkCodec::Deflate(first.unwrap_or(6)),
        2 => ChunkCodec::Shuffle(first.map_or(size, u64::from)),
        3 => ChunkCodec::Fletcher32,
        32_015 => ChunkCodec::Zstd(first.unwrap_or(3)),
        _ => bail!("its chunks have the filter {}, which readers of Zarr do not have", filter_text(filter)),
    })
}

/// A filter with its parameters.
fn filter_text(filter: &ChunkFilter) -> String {
    let level = filter.parameters.first().map_or(String::new(), |level| format!(" {level}"));
    match filter.id {
        1 => format!("deflate{level}"),
        2 => "shuffle".to_owned(),
        3 => "fletcher32".to_owned(),
        4 => "szip".to_owned(),
        5 => "n-bit".to_owned(),
        6 => "scale-offset".to_owned(),
        32_000 => "lzf".to_owned(),
        32_001 => "blosc".to_owned(),
        32_004 => "lz4".to_owned(),
        32_015 => format!("zstd{level}"),
        other => format!("filter {other}"),
    }
}

impl ArrayFile for Hdf5ArrayFile {
    fn format(&self) -> String {
        let complete = match self.open.is_complete() {
            None => "without a completion mark",
            Some(true) => "complete",
            Some(false) => "incomplete: being written, or interrupted",
        };
        format!("HDF5, {complete}")
    }

    fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    fn attributes(&self) -> Vec<(String, Vec<NamedAttribute>)> {
        let groups = self.open.tree().iter().filter(|(_, node)| node.dataset.is_none());
        let named = |path: &String| if path == "/" { String::new() } else { path.clone() };
        let is_netcdf4 = !self.scales.shared.is_empty();
        groups.map(|(path, node)| (named(path), attributes(node, is_netcdf4))).collect()
    }

    fn dimensions(&self) -> Vec<SharedDimension> {
        self.scales.shared.clone()
    }

    fn holds_metadata(&self) -> bool {
        true
    }

    fn holds_dimensions(&self) -> bool {
        let root = self.open.tree().get("/");
        !self.scales.shared.is_empty() || root.is_some_and(|root| root.attribute("_NCProperties").is_some())
    }

    fn read(&self, array: usize, part: &ArrayPart) -> Result<Vec<u8>> {
        if self.is_text(array) {
            return Err(anyhow!(
                "{} has variable-length strings, which have no bytes of fixed size",
                self.arrays[array].name
            ));
        }
        padded_read::read(&self.open, self.datasets[array], &part.slab)
    }

    fn is_stored(&self, array: usize) -> bool {
        let dataset = self.open.describe(self.datasets[array]);
        // Reading reports data that cannot be read.
        dataset.is_ok_and(|dataset| !dataset.is_sparse() || dataset.stored() > 0)
    }

    fn lines(&self, array: usize, rows: Range<u64>) -> Option<Result<Vec<String>>> {
        let line = |row: &[String]| row.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(" ");
        self.is_text(array).then(|| Ok(self.texts(array, &rows)?.map(line).collect()))
    }

    fn reads_boxes(&self) -> bool {
        true
    }

    fn is_finished(&self) -> Option<bool> {
        self.open.is_complete()
    }

    fn references(&self, array: usize) -> Result<ChunkReferences> {
        let dataset = self.open.describe(self.datasets[array])?;
        let is_big_endian = match dataset.stored_byte_order() {
            StoredByteOrder::Little => false,
            StoredByteOrder::Big => true,
            StoredByteOrder::Other => bail!("its elements are not stored as they are read"),
        };
        let locations = dataset.chunk_locations();
        ensure!(!self.is_text(array), "its text is in heaps of the file");
        ensure!(!locations.is_empty() || dataset.is_sparse(), "it is stored in the metadata of the file");
        ensure!(
            locations.iter().all(|chunk| chunk.skipped_filters == 0),
            "filters of some of its chunks were skipped"
        );
        let codec = |filter: &ChunkFilter| chunk_codec(filter, dataset.datatype.size());
        let codecs = dataset.filters().iter().map(codec).collect::<Result<Vec<ChunkCodec>>>()?;
        let name = OsString::from(self.open.name());
        let reference = |chunk: ChunkLocation| ChunkReference {
            index: chunk.index,
            file: name.clone(),
            offset: chunk.offset,
            bytes: chunk.bytes,
        };
        let fill = dataset.is_sparse().then(|| dataset.fill_value());
        let chunk = dataset.chunk().unwrap_or(&dataset.shape).to_vec();
        let chunks = locations.into_iter().map(reference).collect();
        Ok(ChunkReferences { chunk, is_big_endian, codecs, chunks, fill })
    }

    fn storage(&self, array: usize) -> Option<StorageSummary> {
        let dataset = self.open.describe(self.datasets[array]).ok()?;
        let filters = dataset.filters().iter().map(filter_text).collect();
        let chunk = dataset.chunk().unwrap_or_default().to_vec();
        Some(StorageSummary { chunk, filters, bytes: dataset.stored() })
    }

    fn findings(&self, depth: VerifyDepth) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        let is_checked = |at: usize| depth == VerifyDepth::Full && self.is_text(at);
        for (at, array) in self.arrays.iter().enumerate().filter(|(at, _)| is_checked(*at)) {
            findings.extend(self.texts(at, &(0..0)).err().map(|error| Finding::of_part(&array.name, &error)));
        }
        if self.open.is_complete() == Some(false) {
            let text = "incomplete: the file is being written, or its program was interrupted";
            findings.push(Finding::damage(text));
        }
        for array in &self.arrays {
            if let Some(complete) = array.complete.filter(|complete| *complete < array.rows()) {
                let text = format!("{}: {complete} of {} rows are complete", array.name, array.rows());
                findings.push(Finding::damage(text));
            }
        }
        Ok(findings)
    }
}

pub(crate) struct Hdf5ArrayWriter {
    file: Hdf5File,
    name: OsString,
    datasets: Vec<DatasetId>,
    chunks: Vec<Option<Vec<u64>>>,
}

/// How an array is stored: as in the file that it comes from, in chunks that parts of it can have whole.
pub(super) fn dataset_options(array: &Array) -> Hdf5DatasetOptions {
    let options = array.storage.clone().unwrap_or_default();
    let given = options.chunk_shape().filter(|chunk| chunk.len() == array.shape.len());
    let chunk = match given {
        Some(chunk) => Some(array.suitable_chunk(chunk)),
        // Chunks of about a MiB.
        None if array.grows => {
            let rows = ((1 << 20) / array.row().max(1)).clamp(1, array.rows().max(1));
            let others = array.shape.iter().skip(1).map(|length| (*length).max(1));
            Some(std::iter::once(rows).chain(others).collect())
        }
        None => None,
    };
    let options = chunk.map_or_else(Hdf5DatasetOptions::new, |chunk| options.chunk(&chunk));
    if array.grows { options.extendible() } else { options }
}

/// The shape of the chunks of an array that has some.
pub(super) fn chunk_of(array: &Array) -> Option<Vec<u64>> {
    let options = array.storage.as_ref().map(|_| dataset_options(array));
    options.and_then(|options| options.chunk_shape().map(<[u64]>::to_vec))
}

impl Hdf5ArrayWriter {
    pub(crate) fn create(world: &Comm, name: &OsStr) -> Result<Self> {
        Ok(Self {
            file: Hdf5CreateOptions::new().create(world, name)?,
            name: name.to_owned(),
            datasets: Vec::new(),
            chunks: Vec::new(),
        })
    }
}

impl ArrayWriter for Hdf5ArrayWriter {
    fn unsupported_reason(&self, array: &Array) -> Option<String> {
        let unknown = datatype(&array.element).is_none();
        unknown.then(|| format!("its elements {} are not supported", array.element.name))
    }

    fn define(&mut self, content: &ArrayFileContent) -> Result<Vec<String>> {
        let (datasets, lost) = self.file.define(|file| {
            let (mut datasets, mut lost) = (Vec::new(), Vec::new());
            for (group, attributes) in &content.attributes {
                let path = if group.is_empty() { "/" } else { group };
                if path != "/" {
                    file.group(path)?;
                }
                write_attribute(file, path, attributes, &mut lost)?;
            }
            for array in &content.arrays {
                let Some(ty) = datatype(&array.element) else { continue };
                let dataset = file.dataset_with_as(&array.name, ty, &array.shape, &dataset_options(array))?;
                if array.dimensions.iter().any(|name| !name.is_empty()) {
                    file.attribute(&array.name, LABELS, Hdf5Attribute::Texts(array.dimensions.clone()))?;
                }
                write_attribute(file, &array.name, &array.attributes, &mut lost)?;
                datasets.push(dataset);
            }
            let unused = |name: &str| {
                !content.arrays.iter().any(|array| array.dimensions.iter().any(|own| own == name))
            };
            for dimension in content.dimensions.iter().filter(|dimension| unused(&dimension.name)) {
                lost.push(format!(
                    "the dimension {} is omitted: it belongs to no array, which HDF5 cannot store",
                    dimension.name
                ));
            }
            Ok((datasets, lost))
        })?;
        self.datasets = datasets;
        self.chunks = content.arrays.iter().map(chunk_of).collect();
        Ok(lost)
    }

    fn chunk(&self, array: usize) -> Option<&[u64]> {
        self.chunks[array].as_deref()
    }

    fn write(&mut self, array: usize, part: Option<(&ArrayPart, &[u8])>) -> Result<()> {
        let mut queue = self.file.queue();
        if let Some((part, bytes)) = part {
            queue.put_bytes(self.datasets[array], part.slab.clone(), bytes);
        }
        Ok(queue.run_all()?)
    }

    fn created_files(&self) -> Vec<OsString> {
        vec![self.name.clone()]
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.file.close()?)
    }
}
