//! The dimensions of netCDF-4 files, which are HDF5 files with dimension scales: see "netCDF-4 file format" in the netCDF manual.
//!
//! Arrays refer to scales by HDF5 references, which are not read. The netCDF library also numbers the dimensions: `_Netcdf4Dimid` is the
//! number of a scale's dimension, `_Netcdf4Coordinates` has the numbers of an array's dimensions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aqueduct::hdf5::{Hdf5Attribute, Hdf5Object, ObjectTree};

use super::{NamedAttribute, SharedDimension};

/// Attributes by which the netCDF library describes dimensions and the file, not the data.
const INTERNAL: [&str; 4] = ["DIMENSION_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties"];
/// Attributes of a scale that describe it; other datasets may have attributes of these names.
const INTERNAL_OF_SCALES: [&str; 3] = ["CLASS", "NAME", "REFERENCE_LIST"];
/// The value of the attribute `CLASS` of a scale.
const SCALE: &str = "DIMENSION_SCALE";
/// The beginning of the attribute `NAME` of a scale without values.
const NO_VARIABLE: &str = "This is a netCDF dimension but not a netCDF variable";

/// Whether an attribute describes dimensions or the file, not the data; `all` are the attributes of the same object.
pub(super) fn is_internal(name: &str, all: &[NamedAttribute]) -> bool {
    let is_scale =
        || all.iter().any(|attribute| attribute.name == "CLASS" && attribute.value.to_string() == SCALE);
    INTERNAL.contains(&name) || (INTERNAL_OF_SCALES.contains(&name) && is_scale())
}

/// The dimensions of a file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct NamedScales {
    /// The dimensions in the order of their numbers.
    pub(super) shared: Vec<SharedDimension>,
    /// The names of each array's dimensions, by its path.
    pub(super) names: HashMap<String, Vec<String>>,
    /// Scales without values.
    pub(super) hidden: BTreeSet<String>,
}

impl NamedScales {
    /// `None` if an array has scales without numbers.
    pub(super) fn of(tree: &ObjectTree) -> Option<Self> {
        let mut scales: BTreeMap<i64, SharedDimension> = BTreeMap::new();
        let mut found = Self::default();
        for (path, node) in tree.iter().filter(|(_, node)| text(node, "CLASS") == Some(SCALE)) {
            let (number, dataset) = (numbers(node, "_Netcdf4Dimid")?, node.dataset.as_ref()?);
            let (number, length) = (*number.first()?, *dataset.shape.first()?);
            let name = path.trim_matches('/').replace('/', ".");
            let dimension = SharedDimension { name: name.clone(), length, grows: dataset.extendible };
            // An array of several dimensions may have the name of its first dimension.
            if dataset.shape.len() == 1 {
                found.names.insert(path.clone(), vec![name]);
            }
            if text(node, "NAME").is_some_and(|name| name.starts_with(NO_VARIABLE)) {
                found.hidden.insert(path.clone());
            }
            if scales.insert(number, dimension).is_some() {
                return None;
            }
        }
        for (path, node) in tree {
            let rank = node.dataset.as_ref().map_or(0, |dataset| dataset.shape.len());
            if !node.attributes.contains_key("DIMENSION_LIST") || found.names.contains_key(path) {
                continue;
            }
            let names = numbers(node, "_Netcdf4Coordinates")?
                .iter()
                .map(|number| Some(scales.get(number)?.name.clone()))
                .collect::<Option<Vec<_>>>()?;
            if names.len() != rank {
                return None;
            }
            // The scale of a growing dimension without values has the length 0; the arrays have the length of the dimension.
            let shape = node.dataset.iter().flat_map(|dataset| &dataset.shape);
            for (number, length) in numbers(node, "_Netcdf4Coordinates")?.iter().zip(shape) {
                if let Some(scale) = scales.get_mut(number).filter(|scale| scale.grows) {
                    scale.length = scale.length.max(*length);
                }
            }
            found.names.insert(path.clone(), names);
        }
        found.shared = scales.into_values().collect();
        (!found.shared.is_empty()).then_some(found)
    }
}

fn text<'n>(node: &'n Hdf5Object, name: &str) -> Option<&'n str> {
    node.attribute(name).and_then(Hdf5Attribute::text)
}

fn numbers(node: &Hdf5Object, name: &str) -> Option<Vec<i64>> {
    node.attribute(name)?.numbers().map(|numbers| numbers.into_iter().map(|number| number as i64).collect())
}
