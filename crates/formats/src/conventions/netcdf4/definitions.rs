//! Definitions of a netCDF-4 file: dimensions, variables and attributes as datasets and attributes of HDF5.

use aqueduct_object::Object;

use crate::error::{Error, Kind, Result};
use crate::hdf5::{DatasetId, Datatype, Hdf5Attribute, Hdf5DatasetOptions, Hdf5Definitions};

/// The value of the attribute `CLASS` of a dimension scale.
pub(super) const SCALE: &str = "DIMENSION_SCALE";
/// The beginning of the attribute `NAME` of a scale without values.
const NO_VARIABLE: &str = "This is a netCDF dimension but not a netCDF variable.";
/// Attributes that describe dimensions.
const RESERVED: [&str; 9] = [
    "CLASS",
    "NAME",
    "REFERENCE_LIST",
    "DIMENSION_LIST",
    "_Netcdf4Dimid",
    "_Netcdf4Coordinates",
    "_nc3_strict",
    "_NCProperties",
    "_FillValue",
];
/// Bytes of a chunk, unless a record has more.
const CHUNK: u64 = 1 << 16;
/// The most records of a chunk.
const MOST_RECORDS: u64 = 1 << 10;
/// Bytes of the largest chunk.
const LARGEST_CHUNK: u64 = 4 << 20;

/// A dimension of a netCDF-4 file, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Netcdf4Dimension(usize);

/// A dimension and its scale.
#[derive(Clone, Debug)]
pub(super) struct ScaleState {
    pub(super) path: String,
    pub(super) length: u64,
    pub(super) is_record: bool,
    /// Whether its dataset is defined.
    pub(super) is_stored: bool,
    /// The variables that have it, and as which of their dimensions.
    pub(super) uses: Vec<(String, u32)>,
    /// How many of them its attribute has.
    pub(super) stored_uses: usize,
}

/// Definitions that are being made: what a closure given to [`Netcdf4File::define`](super::Netcdf4File::define) gets.
#[derive(Debug)]
pub struct Netcdf4Definitions<'d, 'f> {
    pub(super) name: &'d str,
    pub(super) file: &'d mut Hdf5Definitions<'f>,
    pub(super) scales: &'d mut Vec<ScaleState>,
    pub(super) records: u64,
    /// The lists of dimensions of new variables, by their paths.
    pub(super) lists: Vec<(String, Hdf5Attribute)>,
}

impl<'f> Netcdf4Definitions<'_, 'f> {
    /// A dimension of this length; `group/name` is one of a group.
    #[doc(alias = "nc_def_dim")]
    pub fn dimension(&mut self, name: &str, length: u64) -> Result<Netcdf4Dimension> {
        self.add_scale(name, length, false)
    }

    /// The record dimension, which is extended by [`extend`](super::Netcdf4File::extend). It is the first of each variable that has it.
    #[doc(alias = "NC_UNLIMITED")]
    pub fn record_dimension(&mut self, name: &str) -> Result<Netcdf4Dimension> {
        if let Some(other) = self.scales.iter().find(|scale| scale.is_record) {
            let detail = format!("there is a record dimension {:?} already; a file has one", other.path);
            return Err(self.error(Kind::NameExists, detail));
        }
        self.add_scale(name, self.records, true)
    }

    fn add_scale(&mut self, name: &str, length: u64, is_record: bool) -> Result<Netcdf4Dimension> {
        let path = format!("/{}", name.trim_matches('/'));
        if self.scales.iter().any(|scale| scale.path == path) || self.file.tree().contains_key(&path) {
            return Err(self.error(Kind::NameExists, format!("there is a {path:?} already")));
        }
        let (uses, stored_uses, is_stored) = (Vec::new(), 0, false);
        self.scales.push(ScaleState { path, length, is_record, is_stored, uses, stored_uses });
        Ok(Netcdf4Dimension(self.scales.len() - 1))
    }

    /// A variable of numbers with these dimensions; one with the name of its only dimension is the coordinate variable of it. Chunks of records, and of
    /// compressed variables, have a shape that suits them unless the options have one.
    #[doc(alias = "nc_def_var")]
    pub fn variable<T: Object>(
        &mut self,
        name: &str,
        dimensions: &[Netcdf4Dimension],
        options: &Hdf5DatasetOptions,
    ) -> Result<DatasetId> {
        let datatype = Datatype::of::<T>().map_err(|what| self.error(Kind::WrongType, what))?;
        self.variable_as(name, datatype, dimensions, options)
    }

    /// The same, of a type that is known as a value: a number, or text of one character (`NC_CHAR`).
    pub fn variable_as(
        &mut self,
        name: &str,
        datatype: Datatype,
        dimensions: &[Netcdf4Dimension],
        options: &Hdf5DatasetOptions,
    ) -> Result<DatasetId> {
        let path = format!("/{}", name.trim_matches('/'));
        if !matches!(datatype, Datatype::Int(_) | Datatype::UInt(_) | Datatype::Float(_) | Datatype::Text(1))
        {
            let detail = format!(
                "variable {path:?} of {datatype}: variables of netCDF-4 are numbers or characters here"
            );
            return Err(self.error(Kind::WrongType, detail));
        }
        let scales = dimensions.iter().map(|dimension| self.scales.get(dimension.0));
        let scales = scales.collect::<Option<Vec<_>>>();
        let scales = scales.ok_or_else(|| self.error(Kind::NoSuchName, "a dimension of another file"))?;
        if scales.iter().skip(1).any(|scale| scale.is_record) {
            let detail = format!("variable {path:?}: the record dimension has to be the first one");
            return Err(self.error(Kind::BadArgument, detail));
        }
        let shape: Vec<u64> = scales.iter().map(|scale| scale.length).collect();
        let has_records = scales.first().is_some_and(|scale| scale.is_record);
        let is_coordinate = matches!(scales[..], [scale] if scale.path == path);
        if !is_coordinate && self.scales.iter().any(|scale| scale.path == path) {
            let detail = format!("variable {path:?} has the name of a dimension, which is not its only one");
            return Err(self.error(Kind::BadArgument, detail));
        }
        let mut options = options.clone();
        options.extendible = has_records;
        if options.chunk.is_none() && (has_records || options.has_filters()) {
            options.chunk = Some(suitable_chunk(&shape, has_records, datatype.size()));
        }
        let dataset = self.file.dataset_with_as(&path, datatype.clone(), &shape, &options)?;
        if !options.fill.is_empty() {
            let value = Hdf5Attribute::Values(datatype, vec![1], options.fill.clone());
            self.file.attribute(&path, "_FillValue", value)?;
        }
        if is_coordinate {
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            self.describe_scale(dimensions[0].0, &name)?;
        } else if !dimensions.is_empty() {
            let lists = dimensions.iter().map(|dimension| vec![self.scales[dimension.0].path.clone()]);
            let lists = Hdf5Attribute::References(lists.collect());
            // The scales are defined first.
            self.lists.push((path.clone(), lists));
            let numbers: Vec<i32> = dimensions.iter().map(|dimension| dimension.0 as i32).collect();
            self.file.attribute(&path, "_Netcdf4Coordinates", &numbers[..])?;
            for (at, dimension) in (0..).zip(dimensions) {
                self.scales[dimension.0].uses.push((path.clone(), at));
            }
        }
        Ok(dataset)
    }

    /// Sets an attribute of a variable or group, or of the file (`/`). Text becomes characters (`NC_CHAR`), lists of texts become strings.
    #[doc(alias = "nc_put_att")]
    pub fn attribute(&mut self, owner: &str, name: &str, value: impl Into<Hdf5Attribute>) -> Result<()> {
        if RESERVED.contains(&name) {
            let detail = format!("attribute {name:?} is set by this library");
            return Err(self.error(Kind::BadArgument, detail));
        }
        let value = match value.into() {
            Hdf5Attribute::Text(text) => Hdf5Attribute::FixedText(text),
            Hdf5Attribute::Values(ty, shape, bytes) if shape.is_empty() => {
                Hdf5Attribute::Values(ty, vec![1], bytes)
            }
            other => other,
        };
        self.file.attribute(owner, name, value)
    }

    /// The definitions of HDF5: for datasets and attributes that are not variables of netCDF-4.
    pub fn hdf5(&mut self) -> &mut Hdf5Definitions<'f> {
        self.file
    }

    /// A group with nothing in it.
    pub fn group(&mut self, path: &str) -> Result<()> {
        self.file.group(path)
    }

    fn describe_scale(&mut self, number: usize, name: &str) -> Result<()> {
        let scale = &mut self.scales[number];
        scale.is_stored = true;
        let terminated = |text: &str| Hdf5Attribute::fixed(format!("{text}\0"));
        self.file.attribute(&scale.path, "CLASS", terminated(SCALE))?;
        self.file.attribute(&scale.path, "NAME", terminated(name))?;
        self.file.attribute(&scale.path, "_Netcdf4Dimid", number as i32)
    }

    /// Defines the scales of dimensions without a variable, and adds to scales the variables that use them.
    pub(super) fn finish(&mut self) -> Result<()> {
        for number in 0..self.scales.len() {
            let scale = &self.scales[number];
            if !scale.is_stored {
                let mut options = Hdf5DatasetOptions::new().unallocated();
                if scale.is_record {
                    options = options.chunk(&[MOST_RECORDS]).extendible();
                }
                let (path, length) = (scale.path.clone(), scale.length);
                self.file.dataset_with_as(&path, Datatype::Float(4), &[length], &options)?;
                self.describe_scale(number, &format!("{NO_VARIABLE}{length:10}"))?;
            }
            let scale = &mut self.scales[number];
            if scale.uses.len() > scale.stored_uses {
                let uses = Hdf5Attribute::ScaleUses(scale.uses.clone());
                self.file.attribute(&scale.path, "REFERENCE_LIST", uses)?;
                scale.stored_uses = scale.uses.len();
            }
        }
        let mut lists = self.lists.drain(..);
        lists.try_for_each(|(path, list)| self.file.attribute(&path, "DIMENSION_LIST", list))
    }

    fn error(&self, kind: Kind, detail: impl Into<String>) -> Error {
        Error::new(kind, "define", self.name, detail)
    }
}

/// The shape of chunks: one record or a few small ones, or some rows.
fn suitable_chunk(shape: &[u64], has_records: bool, size: u64) -> Vec<u64> {
    let row = |from: usize, shape: &[u64]| -> u64 {
        shape[from..].iter().fold(size, |bytes, length| bytes.saturating_mul((*length).max(1)))
    };
    let mut chunk: Vec<u64> = shape.iter().map(|length| (*length).max(1)).collect();
    let first = usize::from(has_records);
    if has_records {
        chunk[0] = (CHUNK / row(1, shape).max(1)).clamp(1, MOST_RECORDS);
    }
    for (at, length) in chunk.iter_mut().enumerate().skip(first) {
        let rest = row(at + 1, shape);
        *length = (LARGEST_CHUNK / rest.max(1)).clamp(1, *length);
        if *length > 1 {
            break;
        }
    }
    chunk
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_records_or_rows() {
        assert_eq!(suitable_chunk(&[0], true, 8), [1024]);
        assert_eq!(suitable_chunk(&[5, 100, 100], true, 4), [1, 100, 100]);
        assert_eq!(suitable_chunk(&[0, 4], true, 4), [1024, 4]);
        assert_eq!(suitable_chunk(&[4096, 1024, 4], false, 8), [128, 1024, 4]);
        assert_eq!(suitable_chunk(&[3, 5 << 20], false, 1), [1, 4 << 20]);
    }
}
