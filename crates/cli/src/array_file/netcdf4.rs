//! Writes arrays with named dimensions as HDF5 files with dimension scales: netCDF-4 files, and HDF5 files that the netCDF library reads too.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};

use anyhow::Result;
use aqueduct::comm::Comm;
use aqueduct::formats::netcdf4::{Netcdf4Definitions, Netcdf4Dimension, Netcdf4File};
use aqueduct::hdf5::{DatasetId, Datatype, Hdf5Attribute, Hdf5DatasetOptions};

use super::hdf5::{LABELS, chunk_of, dataset_options, datatype, value};
use super::{
    Array, ArrayFile, ArrayFileContent, ArrayPart, ArrayWriter, AttributeValue, NamedAttribute, NumberType,
    SharedDimension, is_internal,
};

/// The attribute with the fill value of a variable.
const FILL: &str = "_FillValue";
/// Names that describe variables and scales of netCDF-4; other HDF5 attributes may have them.
const RESERVED: [&str; 4] = [FILL, "CLASS", "NAME", "REFERENCE_LIST"];

/// The path of a dimension: `group.x` is the dimension x of a group, if there is such a group.
fn dimension_path(name: &str, groups: &BTreeSet<&str>) -> String {
    let parts = name.rmatch_indices('.').map(|(at, _)| (name[..at].replace('.', "/"), &name[at + 1..]));
    let mut inside = parts.filter(|(group, rest)| groups.contains(group.as_str()) && !rest.is_empty());
    inside.next().map_or_else(|| name.to_owned(), |(group, rest)| format!("{group}/{rest}"))
}

fn group_paths(attributes: &[(String, Vec<NamedAttribute>)]) -> BTreeSet<&str> {
    attributes.iter().map(|(group, _)| group.trim_matches('/')).filter(|group| !group.is_empty()).collect()
}

/// Why arrays and dimensions of a file cannot be in one file with scales, if they cannot.
pub(super) fn scale_conflict(from: &dyn ArrayFile) -> Option<String> {
    let attributes = from.attributes();
    let (groups, dimensions) = (group_paths(&attributes), from.dimensions());
    let paths: HashMap<String, &str> = dimensions
        .iter()
        .map(|dimension| (dimension_path(&dimension.name, &groups), dimension.name.as_str()))
        .collect();
    from.arrays().iter().find_map(|array| {
        let dimension = paths.get(array.name.trim_matches('/'))?;
        let is_coordinate = array.dimensions.len() == 1 && array.dimensions[0] == *dimension;
        let is_variable = datatype(&array.element).is_some_and(|ty| is_variable(&ty));
        (!is_coordinate || !is_variable).then(|| {
            format!(
                "the array {:?} has the name of a dimension, but is not its coordinate variable, which netCDF-4 cannot store here",
                array.name
            )
        })
    })
}

/// Whether netCDF-4 has variables of this type.
fn is_variable(ty: &Datatype) -> bool {
    matches!(ty, Datatype::Int(_) | Datatype::UInt(_) | Datatype::Float(_) | Datatype::Text(1))
}

pub(crate) struct Netcdf4ArrayWriter {
    file: Netcdf4File,
    name: OsString,
    /// Whether all arrays have to be variables of netCDF-4.
    is_strict: bool,
    datasets: Vec<DatasetId>,
    chunks: Vec<Option<Vec<u64>>>,
}

impl Netcdf4ArrayWriter {
    pub(super) fn create(world: &Comm, name: &OsStr, is_strict: bool) -> Result<Self> {
        let file = Netcdf4File::create(world, name)?;
        Ok(Self { file, name: name.to_owned(), is_strict, datasets: Vec::new(), chunks: Vec::new() })
    }
}

/// The record dimension: the first that grows and is the first dimension of all arrays that have it.
fn record_dimension(content: &ArrayFileContent) -> Option<&SharedDimension> {
    content.dimensions.iter().filter(|dimension| dimension.grows).find(|dimension| {
        content.arrays.iter().all(|array| {
            let others = array.dimensions.iter().skip(1).all(|name| *name != dimension.name);
            let first = array.dimensions.first() == Some(&dimension.name);
            others && (!first || array.rows() == dimension.length)
        })
    })
}

/// Definitions on their way into the file.
struct ScaleWriter<'w, 'd, 'f> {
    file: &'w mut Netcdf4Definitions<'d, 'f>,
    known: HashMap<String, (Netcdf4Dimension, u64)>,
    record: Option<&'w SharedDimension>,
    is_strict: bool,
    lost: Vec<String>,
}

impl ScaleWriter<'_, '_, '_> {
    fn is_record(&self, name: &str) -> bool {
        self.record.is_some_and(|record| record.name == name)
    }

    fn define_dimension(
        &mut self,
        dimension: &SharedDimension,
        groups: &BTreeSet<&str>,
    ) -> aqueduct::formats::Result<()> {
        let path = dimension_path(&dimension.name, groups);
        let is_record = self.is_record(&dimension.name);
        if dimension.grows && !is_record {
            let name = &dimension.name;
            self.lost.push(format!(
                "the dimension {name} becomes fixed: one dimension can grow here, the first of arrays"
            ));
        }
        let made = if is_record {
            self.file.record_dimension(&path)?
        } else {
            self.file.dimension(&path, dimension.length)?
        };
        self.known.insert(dimension.name.clone(), (made, dimension.length));
        Ok(())
    }

    /// The dimensions of an array: those of its names, and new ones where it has none, or one of another length.
    fn dimensions(&mut self, array: &Array) -> aqueduct::formats::Result<Vec<Netcdf4Dimension>> {
        let mut found = Vec::new();
        for (at, length) in array.shape.iter().enumerate() {
            let given = array.dimensions.get(at).map_or("", String::as_str);
            let own = format!("{}.{at}", array.name.trim_matches('/'));
            found.push(match self.known.get(given) {
                Some((dimension, known)) if known == length => *dimension,
                _ => {
                    if !given.is_empty() {
                        self.lost
                            .push(format!("the dimension {given} of {} is renamed to {own}", array.name));
                    }
                    self.file.dimension(&own, *length)?
                }
            });
        }
        Ok(found)
    }

    /// Whether an array becomes a variable with scales.
    fn is_scaled(&self, array: &Array) -> bool {
        let is_named = array.dimensions.iter().any(|name| !name.is_empty());
        let is_variable = datatype(&array.element).is_some_and(|ty| is_variable(&ty));
        is_variable && (is_named || self.is_strict || array.shape.is_empty())
    }

    fn define_array(&mut self, array: &Array, ty: Datatype) -> aqueduct::formats::Result<DatasetId> {
        if !self.is_scaled(array) {
            let is_named = array.dimensions.iter().any(|name| !name.is_empty());
            let dataset =
                self.file.hdf5().dataset_with_as(&array.name, ty, &array.shape, &dataset_options(array))?;
            if is_named {
                let labels = Hdf5Attribute::Texts(array.dimensions.clone());
                self.file.hdf5().attribute(&array.name, LABELS, labels)?;
            }
            return Ok(dataset);
        }
        let dimensions = self.dimensions(array)?;
        let has_records = array.dimensions.first().is_some_and(|name| self.is_record(name));
        let base = if array.storage.is_some() { dataset_options(array) } else { Hdf5DatasetOptions::new() };
        let options = base.fill_bytes(&fill_value(array).unwrap_or_default());
        if array.grows && !has_records {
            self.lost.push(format!("the first dimension of {} becomes fixed", array.name));
        }
        self.file.variable_as(&array.name, ty, &dimensions, &options)
    }

    fn write_attributes(
        &mut self,
        owner: &str,
        attributes: &[NamedAttribute],
        array: Option<&Array>,
    ) -> aqueduct::formats::Result<()> {
        for attribute in attributes.iter().filter(|attribute| !is_internal(&attribute.name, attributes)) {
            let value = match (attribute.name.as_str(), array) {
                (FILL, Some(array)) if fill_value(array).is_some() && self.is_scaled(array) => continue,
                (FILL, Some(_)) if self.is_strict => {
                    Err("a fill value must be one value of the array's type".to_owned())
                }
                _ => value(&attribute.value),
            };
            match value {
                Ok(value) if RESERVED.contains(&attribute.name.as_str()) => {
                    self.file.hdf5().attribute(owner, &attribute.name, value)?;
                }
                Ok(value) => self.file.attribute(owner, &attribute.name, value)?,
                Err(why) => {
                    self.lost.push(format!("the attribute {} of {owner} is omitted: {why}", attribute.name));
                }
            }
        }
        Ok(())
    }
}

/// The fill value that an array's attribute says, if it is one of its type.
fn fill_value(array: &Array) -> Option<Vec<u8>> {
    let attribute = array.attributes.iter().find(|attribute| attribute.name == FILL)?;
    match &attribute.value {
        AttributeValue::Numbers(number, _, bytes) => {
            let fits = array.element.as_number() == Some(*number) && bytes.len() as u64 == number.size();
            fits.then(|| bytes.clone())
        }
        AttributeValue::Text(text) => {
            let fits = array.element.as_number() == Some(NumberType::Char) && text.len() == 1;
            fits.then(|| text.clone().into_bytes())
        }
        _ => None,
    }
}

impl ArrayWriter for Netcdf4ArrayWriter {
    fn unsupported_reason(&self, array: &Array) -> Option<String> {
        let name = &array.element.name;
        match datatype(&array.element) {
            None => Some(format!("its elements {name} are not supported")),
            Some(ty) if self.is_strict && !is_variable(&ty) => {
                Some(format!("its elements are {name}, but variables of netCDF-4 are numbers here"))
            }
            Some(_) => None,
        }
    }

    fn define(&mut self, content: &ArrayFileContent) -> Result<Vec<String>> {
        let (groups, record) = (group_paths(&content.attributes), record_dimension(content));
        let is_strict = self.is_strict;
        let (datasets, lost) = self.file.define(|file| {
            let mut writer = ScaleWriter { file, known: HashMap::new(), record, is_strict, lost: Vec::new() };
            for group in &groups {
                writer.file.group(group)?;
            }
            for dimension in &content.dimensions {
                writer.define_dimension(dimension, &groups)?;
            }
            let mut datasets = Vec::new();
            for array in &content.arrays {
                let Some(ty) = datatype(&array.element) else { continue };
                datasets.push(writer.define_array(array, ty)?);
                writer.write_attributes(&array.name, &array.attributes, Some(array))?;
            }
            for (group, attributes) in &content.attributes {
                let owner = if group.is_empty() { "/" } else { group };
                writer.write_attributes(owner, attributes, None)?;
            }
            Ok((datasets, writer.lost))
        })?;
        if let Some(record) = record {
            self.file.extend(record.length)?;
        }
        self.datasets = datasets;
        self.chunks = content.arrays.iter().map(chunk_of).collect();
        Ok(lost)
    }

    fn chunk(&self, array: usize) -> Option<&[u64]> {
        self.chunks[array].as_deref()
    }

    fn write(&mut self, array: usize, part: Option<(&ArrayPart, &[u8])>) -> Result<()> {
        let mut queue = self.file.hdf5().queue();
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
