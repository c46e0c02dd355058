//! netCDF files.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};

use anyhow::{Result, anyhow};
use aqueduct::comm::Comm;
use aqueduct::formats::Hyperslab;
use aqueduct::netcdf::{
    CdfVersion, DimensionId, NcType, NetcdfCreateOptions, NetcdfDefinitions, NetcdfFile, NetcdfHeader,
    NetcdfOpenOptions, NetcdfValue, Values, VariableId,
};

use super::field_arrays::{FieldArray, fields_of};
use super::{
    Array, ArrayFile, ArrayFileContent, ArrayPart, ArrayWriter, AttributeValue, COMPLETION_MARK,
    ChunkReference, ChunkReferences, ElementType, Finding, NamedAttribute, NumberType, SharedDimension,
    VerifyDepth, is_internal,
};

fn number(kind: NcType) -> NumberType {
    match kind {
        NcType::Byte => NumberType::I8,
        NcType::Char => NumberType::Char,
        NcType::UByte => NumberType::U8,
        NcType::Short => NumberType::I16,
        NcType::UShort => NumberType::U16,
        NcType::Int => NumberType::I32,
        NcType::UInt => NumberType::U32,
        NcType::Int64 => NumberType::I64,
        NcType::UInt64 => NumberType::U64,
        NcType::Float => NumberType::F32,
        NcType::Double => NumberType::F64,
    }
}

fn kind(number: NumberType) -> NcType {
    match number {
        NumberType::I8 => NcType::Byte,
        NumberType::Char => NcType::Char,
        NumberType::U8 => NcType::UByte,
        NumberType::I16 => NcType::Short,
        NumberType::U16 => NcType::UShort,
        NumberType::I32 => NcType::Int,
        NumberType::U32 => NcType::UInt,
        NumberType::I64 => NcType::Int64,
        NumberType::U64 => NcType::UInt64,
        NumberType::F32 => NcType::Float,
        NumberType::F64 => NcType::Double,
    }
}

/// Calls a generic function with the Rust type of a number type.
macro_rules! typed {
    ($number:expr, $function:ident($($argument:expr),*)) => {
        match $number {
            NumberType::I8 => $function::<i8>($($argument),*),
            NumberType::I16 => $function::<i16>($($argument),*),
            NumberType::I32 => $function::<i32>($($argument),*),
            NumberType::I64 => $function::<i64>($($argument),*),
            NumberType::U8 | NumberType::Char => $function::<u8>($($argument),*),
            NumberType::U16 => $function::<u16>($($argument),*),
            NumberType::U32 => $function::<u32>($($argument),*),
            NumberType::U64 => $function::<u64>($($argument),*),
            NumberType::F32 => $function::<f32>($($argument),*),
            NumberType::F64 => $function::<f64>($($argument),*),
        }
    };
}

fn read<T: NetcdfValue + aqueduct::object::Object>(
    dataset: &NetcdfFile,
    variable: VariableId,
    slab: Hyperslab,
) -> Result<Vec<u8>> {
    let values: Vec<T> = dataset.at(variable, slab).read_vec()?;
    Ok(aqueduct::object::encode_all(&values).into_owned())
}

fn write<T: NetcdfValue + aqueduct::object::Object>(
    dataset: &NetcdfFile,
    variable: VariableId,
    slab: Hyperslab,
    bytes: &[u8],
) -> Result<()> {
    let values: Vec<T> = aqueduct::object::decode_all(bytes, bytes.len() / size_of::<T>())?;
    Ok(dataset.at(variable, slab).write(&values)?)
}

/// The value of an attribute, independent of the format.
fn known(values: &Values) -> AttributeValue {
    fn bytes<T: aqueduct::object::Object>(values: &[T]) -> Vec<u8> {
        aqueduct::object::encode_all(values).into_owned()
    }
    let bytes = match values {
        Values::Char(text) => match std::str::from_utf8(text) {
            Ok(text) => return AttributeValue::Text(text.to_owned()),
            Err(_) => text.clone(),
        },
        Values::Byte(list) => bytes(list),
        Values::UByte(list) => list.clone(),
        Values::Short(list) => bytes(list),
        Values::UShort(list) => bytes(list),
        Values::Int(list) => bytes(list),
        Values::UInt(list) => bytes(list),
        Values::Int64(list) => bytes(list),
        Values::UInt64(list) => bytes(list),
        Values::Float(list) => bytes(list),
        Values::Double(list) => bytes(list),
    };
    AttributeValue::Numbers(number(values.kind()), vec![values.len() as u64], bytes)
}

/// The values of an attribute in this format, or why they cannot be stored.
fn values(value: &AttributeValue) -> Result<Values, String> {
    fn list<T: NetcdfValue + aqueduct::object::Object>(bytes: &[u8]) -> Result<Values, String> {
        let values: Vec<T> = aqueduct::object::decode_all(bytes, bytes.len() / size_of::<T>())
            .map_err(|error| error.to_string())?;
        Ok(Values::from(values))
    }
    match value {
        AttributeValue::Text(text) => Ok(Values::from(text.as_str())),
        AttributeValue::Numbers(NumberType::Char, _, bytes) => Ok(Values::Char(bytes.clone())),
        AttributeValue::Numbers(number, shape, bytes) if shape.len() <= 1 => typed!(number, list(bytes)),
        AttributeValue::Numbers(..) => Err("netCDF attributes have one dimension".to_owned()),
        AttributeValue::Texts(_) => Err("netCDF has no lists of strings".to_owned()),
        #[cfg(feature = "hdf5")]
        AttributeValue::Hdf5(aqueduct::hdf5::Hdf5Attribute::FixedText(text)) => {
            Ok(Values::from(text.as_str()))
        }
        #[cfg(feature = "hdf5")]
        AttributeValue::Hdf5(_) => Err(format!("netCDF has no {value}")),
        AttributeValue::Foreign(what) => Err(format!("{what} cannot be copied")),
    }
}

pub(crate) struct NetcdfArrayFile {
    dataset: NetcdfFile,
    variables: Vec<VariableId>,
    arrays: Vec<Array>,
}

impl NetcdfArrayFile {
    pub(crate) fn open(world: &Comm, name: &OsStr) -> Result<Self> {
        let dataset = NetcdfOpenOptions::new().open(world, name)?;
        let (mut variables, mut arrays) = (Vec::new(), Vec::new());
        let header = dataset.header();
        for variable in &header.variables {
            let id = dataset.variable(&variable.name)?;
            let grows = header.is_record(variable);
            let dimensions = variable.dimensions.iter().map(|id| header.dimensions[id.0].name.clone());
            arrays.push(Array {
                dimensions: dimensions.collect(),
                grows,
                complete: grows.then(|| dataset.records()),
                attributes: attributes(&variable.attributes),
                ..Array::new(&variable.name, ElementType::number(number(variable.kind)), dataset.shape(id)?)
            });
            variables.push(id);
        }
        Ok(Self { dataset, variables, arrays })
    }

    fn header(&self) -> &NetcdfHeader {
        self.dataset.header()
    }
}

fn attributes(attributes: &[aqueduct::netcdf::Attribute]) -> Vec<NamedAttribute> {
    let others = attributes.iter().filter(|attribute| attribute.name != COMPLETION_MARK);
    others.map(|attribute| NamedAttribute::new(&attribute.name, known(&attribute.values))).collect()
}

impl ArrayFile for NetcdfArrayFile {
    fn format(&self) -> String {
        format!("netCDF, {}, {} records", self.header().version, self.dataset.records())
    }

    fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    fn attributes(&self) -> Vec<(String, Vec<NamedAttribute>)> {
        vec![(String::new(), attributes(&self.header().attributes))]
    }

    fn dimensions(&self) -> Vec<SharedDimension> {
        let dimension = |dimension: &aqueduct::netcdf::NetcdfDimension| SharedDimension {
            name: dimension.name.clone(),
            length: dimension.length.unwrap_or_else(|| self.dataset.records()),
            grows: dimension.length.is_none(),
        };
        self.header().dimensions.iter().map(dimension).collect()
    }

    fn holds_metadata(&self) -> bool {
        true
    }

    fn holds_dimensions(&self) -> bool {
        true
    }

    fn netcdf_version(&self) -> Option<CdfVersion> {
        Some(self.header().version)
    }

    fn read(&self, array: usize, part: &ArrayPart) -> Result<Vec<u8>> {
        let what = &self.arrays[array];
        let number = what
            .element
            .as_number()
            .ok_or_else(|| anyhow!("{} has elements that are not numbers", what.name))?;
        typed!(number, read(&self.dataset, self.variables[array], part.slab.clone()))
    }

    fn reads_boxes(&self) -> bool {
        true
    }

    fn references(&self, array: usize) -> Result<ChunkReferences> {
        let (variable, name) =
            (self.dataset.describe(self.variables[array])?, OsStr::new(self.dataset.name()));
        let array = &self.arrays[array];
        if !self.header().is_record(variable) {
            let found = ChunkReferences::adjacent(array, name, variable.begin);
            return Ok(ChunkReferences { is_big_endian: true, ..found });
        }
        let chunk: Vec<u64> = std::iter::once(1).chain(array.shape.iter().skip(1).copied()).collect();
        let record = |number: u64| {
            let mut index = vec![0; array.shape.len()];
            index[0] = number;
            let offset = variable.begin + number * self.dataset.record_size();
            ChunkReference { index, file: name.to_owned(), offset, bytes: array.row() }
        };
        let records = (0..array.rows()).map(record).collect();
        Ok(ChunkReferences { is_big_endian: true, ..ChunkReferences::plain(chunk, records) })
    }

    fn findings(&self, _: VerifyDepth) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}

pub(crate) struct NetcdfArrayWriter {
    dataset: NetcdfFile,
    name: OsString,
    /// The variables of each array: one, one for each field of records, or none if it is omitted. With the size of an element.
    arrays: Vec<(u64, Vec<(VariableId, FieldArray)>)>,
}

impl NetcdfArrayWriter {
    /// Creates a file with the netCDF version of the source, if it is a netCDF file.
    pub(crate) fn create(world: &Comm, name: &OsStr, version: Option<CdfVersion>) -> Result<Self> {
        let create = version
            .map_or_else(NetcdfCreateOptions::new, |version| NetcdfCreateOptions::new().version(version));
        Ok(Self { dataset: create.create(world, name)?, name: name.to_owned(), arrays: Vec::new() })
    }
}

impl ArrayWriter for NetcdfArrayWriter {
    fn unsupported_reason(&self, array: &Array) -> Option<String> {
        let element = &array.element;
        if element.parts.as_ref().is_none_or(Vec::is_empty) {
            return Some(format!("its elements are {}, but netCDF can only store numbers", element.name));
        }
        let fixed = array.shape.iter().skip(usize::from(array.grows));
        fixed.into_iter().any(|length| *length == 0).then(|| {
            format!(
                "its shape is {:?}, but in netCDF only the record dimension can have the length 0",
                array.shape
            )
        })
    }

    fn define(&mut self, content: &ArrayFileContent) -> Result<Vec<String>> {
        let records = RecordDimension::of(content);
        let (made, lost) = self.dataset.define(|file| {
            let mut naming = DimensionTable { known: HashMap::new(), records: &records, lost: Vec::new() };
            for dimension in &content.dimensions {
                naming.define_shared(file, dimension)?;
            }
            for (group, attributes) in &content.attributes {
                let own = attributes.iter().filter(|attribute| !is_internal(&attribute.name, attributes));
                for attribute in own {
                    match (group.as_str(), values(&attribute.value)) {
                        ("", Ok(values)) => file.attribute(&attribute.name, values)?,
                        ("", Err(why)) => {
                            naming.lost.push(format!("the attribute {} is omitted: {why}", attribute.name));
                        }
                        (group, _) => naming.lost.push(format!(
                            "the attribute {} of the group {group} is omitted: netCDF has no groups",
                            attribute.name
                        )),
                    }
                }
            }
            let mut made = Vec::new();
            for array in &content.arrays {
                let mut variables = Vec::new();
                for field in fields_of(array) {
                    let variable = define_variable(file, &field.array, field.number, &mut naming)?;
                    variables.extend(variable.map(|variable| (variable, field)));
                }
                made.push((array.element.size, variables));
            }
            Ok((made, naming.lost))
        })?;
        self.arrays = made;
        Ok(lost)
    }

    fn write(&mut self, array: usize, part: Option<(&ArrayPart, &[u8])>) -> Result<()> {
        let (Some((part, bytes)), (size, variables)) = (part, &self.arrays[array]) else { return Ok(()) };
        for (variable, field) in variables {
            let slab = field.slab(part);
            let (dataset, number) = (&self.dataset, field.number);
            if variables.len() == 1 && *size == number.size() {
                typed!(number, write(dataset, *variable, slab, bytes))?;
            } else {
                typed!(number, write(dataset, *variable, slab, &field.extract(bytes, *size)))?;
            }
        }
        Ok(())
    }

    fn created_files(&self) -> Vec<OsString> {
        vec![self.name.clone()]
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.dataset.close()?)
    }
}

fn define_variable(
    file: &mut NetcdfDefinitions<'_>,
    array: &Array,
    number: NumberType,
    naming: &mut DimensionTable<'_>,
) -> aqueduct::formats::Result<Option<VariableId>> {
    if array.grows && array.rows() == 0 && !naming.records.is_first_of(array) {
        naming.lost.push(format!(
            "the array {:?} is omitted: its shape is {:?}, but in netCDF only the record dimension {} can have the length 0",
            array.name, array.shape, naming.records.name
        ));
        return Ok(None);
    }
    let name = array.name.trim_matches('/').replace('/', ".");
    let mut dimensions = Vec::new();
    for at in 0..array.shape.len() {
        dimensions.push(naming.dimension(file, array, &name, at)?);
    }
    let variable = file.variable(&name, kind(number), &dimensions)?;
    let own = ElementType::number(number).name;
    if array.element.name != own && number != NumberType::Char {
        naming.lost.push(format!("{}: {} becomes {own}", array.name, array.element.name));
    }
    // Attributes with names of dimensions are not needed: netCDF dimensions have names.
    let named = !array.dimensions.is_empty();
    let all = &array.attributes;
    for attribute in all.iter().filter(|attribute| !named || !is_internal(&attribute.name, all)) {
        let value = values(&attribute.value).and_then(|values| {
            let fits = attribute.name != "_FillValue" || (values.kind(), values.len()) == (kind(number), 1);
            if fits {
                Ok(values)
            } else {
                Err("a fill value must be one value of the array's type".to_owned())
            }
        });
        match value {
            Ok(values) => file.attribute_of(variable, &attribute.name, values)?,
            Err(why) => naming
                .lost
                .push(format!("the attribute {} of {} is omitted: {why}", attribute.name, array.name)),
        }
    }
    Ok(Some(variable))
}

/// The record dimension, the only one that grows in netCDF.
struct RecordDimension {
    name: String,
    length: Option<u64>,
}

impl RecordDimension {
    /// The record dimension of the file, or the first dimension of the first array that grows.
    fn of(content: &ArrayFileContent) -> Self {
        if let Some(shared) = content.dimensions.iter().find(|dimension| dimension.grows) {
            return Self { name: shared.name.clone(), length: Some(shared.length) };
        }
        let first = content.arrays.iter().find(|array| array.grows);
        let name = first.and_then(|array| array.dimensions.first()).filter(|name| !name.is_empty());
        Self { name: name.map_or("step".to_owned(), Clone::clone), length: first.map(Array::rows) }
    }

    fn is_first_of(&self, array: &Array) -> bool {
        let named = array.dimensions.first().filter(|name| !name.is_empty());
        array.grows && self.length == Some(array.rows()) && named.is_none_or(|name| *name == self.name)
    }
}

/// Dimensions by name; each name has one length.
struct DimensionTable<'r> {
    known: HashMap<String, (DimensionId, u64)>,
    records: &'r RecordDimension,
    lost: Vec<String>,
}

impl DimensionTable<'_> {
    /// Adds a dimension of the file. netCDF has no fixed dimension of length 0.
    fn define_shared(
        &mut self,
        file: &mut NetcdfDefinitions<'_>,
        dimension: &SharedDimension,
    ) -> aqueduct::formats::Result<()> {
        let is_record = dimension.grows && dimension.name == self.records.name;
        if dimension.length == 0 && !is_record {
            self.lost.push(format!(
                "the dimension {} is omitted: it has the length 0, but in netCDF only the record dimension can",
                dimension.name
            ));
            return Ok(());
        }
        self.define(file, dimension).map(drop)
    }

    fn define(
        &mut self,
        file: &mut NetcdfDefinitions<'_>,
        dimension: &SharedDimension,
    ) -> aqueduct::formats::Result<DimensionId> {
        let id = if dimension.grows && dimension.name == self.records.name {
            file.unlimited(&dimension.name)?
        } else {
            if dimension.grows {
                let (name, records) = (&dimension.name, &self.records.name);
                self.lost.push(format!(
                    "the dimension {name} becomes fixed: netCDF has only one dimension that grows, {records}"
                ));
            }
            file.dimension(&dimension.name, dimension.length)?
        };
        self.known.insert(dimension.name.clone(), (id, dimension.length));
        Ok(id)
    }

    /// The dimension of an array: by its name, if it has one, otherwise a new one.
    fn dimension(
        &mut self,
        file: &mut NetcdfDefinitions<'_>,
        array: &Array,
        name: &str,
        at: usize,
    ) -> aqueduct::formats::Result<DimensionId> {
        let (own, length) = (format!("{name}.{at}"), array.shape[at]);
        let is_record = at == 0 && self.records.is_first_of(array);
        let given = array.dimensions.get(at).filter(|given| !given.is_empty());
        let mut wanted = match given {
            _ if is_record => self.records.name.clone(),
            Some(given) => given.trim_matches('/').replace('/', "."),
            None => own.clone(),
        };
        if at > 0 && wanted == self.records.name && self.records.length.is_some() {
            self.lost.push(format!(
                "the dimension {wanted} of {} becomes fixed and is renamed to {own}: in netCDF only the first dimension of an array can grow",
                array.name
            ));
            wanted.clone_from(&own);
        }
        match self.known.get(&wanted) {
            Some((id, known)) if *known == length => return Ok(*id),
            Some((_, known)) => {
                self.lost.push(format!(
                    "the dimension {wanted} of {} is renamed to {own}: it has the length {length}, but in another array {known}",
                    array.name
                ));
                wanted = own;
            }
            None => {}
        }
        if at == 0 && array.grows && !is_record {
            self.lost.push(format!(
                "the first dimension of {} becomes fixed: netCDF has only one dimension that grows, {}",
                array.name, self.records.name
            ));
        }
        self.define(file, &SharedDimension { name: wanted, length, grows: is_record })
    }
}
