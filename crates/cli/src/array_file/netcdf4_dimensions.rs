//! The dimensions of netCDF-4 files, which are HDF5 files with dimension scales: see "netCDF-4 file format" in the netCDF manual.
//!
//! Arrays refer to scales by HDF5 references. The netCDF library also numbers the dimensions: `_Netcdf4Dimid` is the number of a scale's
//! dimension, `_Netcdf4Coordinates` has the numbers of an array's dimensions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aqueduct::hdf5::{Hdf5Attribute, Hdf5Object, ObjectTree};

use super::{NamedAttribute, SharedDimension};

/// Attributes by which the netCDF library describes dimensions and the file, not the data.
const INTERNAL: [&str; 4] = ["DIMENSION_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties"];
/// Attributes of a scale that describe it; other datasets may have attributes of these names.
const INTERNAL_OF_SCALES: [&str; 3] = ["CLASS", "NAME", "REFERENCE_LIST"];
/// The value of the attribute `CLASS` of a scale.
const SCALE: &str = "DIMENSION_SCALE";
/// Scales without a number are numbered from here on.
const UNNUMBERED: i64 = 1 << 40;
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
    /// `None` if the file has no scales, or an array has others than those.
    pub(super) fn of(tree: &ObjectTree) -> Option<Self> {
        let mut scales: BTreeMap<i64, SharedDimension> = BTreeMap::new();
        let mut paths: HashMap<&str, i64> = HashMap::new();
        let mut found = Self::default();
        for (path, node) in tree.iter().filter(|(_, node)| text(node, "CLASS") == Some(SCALE)) {
            let dataset = node.dataset.as_ref()?;
            // Scales of other programs than the netCDF library have no numbers.
            let number = match numbers(node, "_Netcdf4Dimid") {
                Some(numbers) => *numbers.first()?,
                None => UNNUMBERED + scales.len() as i64,
            };
            let length = *dataset.shape.first()?;
            let name = path.trim_matches('/').replace('/', ".");
            let dimension = SharedDimension { name: name.clone(), length, grows: dataset.extendible };
            // An array of several dimensions may have the name of its first dimension.
            if dataset.shape.len() == 1 {
                found.names.insert(path.clone(), vec![name]);
            }
            if text(node, "NAME").is_some_and(|name| name.starts_with(NO_VARIABLE)) {
                found.hidden.insert(path.clone());
            }
            paths.insert(path, number);
            if scales.insert(number, dimension).is_some() {
                return None;
            }
        }
        for (path, node) in tree {
            let Some(dataset) = node.dataset.as_ref() else { continue };
            if !node.attributes.contains_key("DIMENSION_LIST") || found.names.contains_key(path) {
                continue;
            }
            let own = dimension_numbers(node, &paths)?;
            if own.len() != dataset.shape.len() {
                return None;
            }
            let name = |number: &Option<i64>| match number {
                Some(number) => Some(scales.get(number)?.name.clone()),
                None => Some(String::new()),
            };
            let names = own.iter().map(name).collect::<Option<Vec<_>>>()?;
            // The scale of a growing dimension without values has the length 0; the arrays have the length of the dimension.
            for (number, length) in own.iter().zip(&dataset.shape) {
                let scale = number.and_then(|number| scales.get_mut(&number));
                if let Some(scale) = scale.filter(|scale| scale.grows) {
                    scale.length = scale.length.max(*length);
                }
            }
            found.names.insert(path.clone(), names);
        }
        found.shared = scales.into_values().collect();
        (!found.shared.is_empty()).then_some(found)
    }

    /// The shape of an array as the netCDF library shows it: dimensions that grow have the same length in all arrays.
    pub(super) fn shape(&self, path: &str, stored: &[u64]) -> Vec<u64> {
        let names = self.names.get(path).filter(|names| names.len() == stored.len());
        let Some(names) = names else { return stored.to_vec() };
        let length = |(name, stored): (&String, &u64)| {
            let shared = self.shared.iter().find(|shared| shared.grows && shared.name == *name);
            shared.map_or(*stored, |shared| shared.length.max(*stored))
        };
        names.iter().zip(stored).map(length).collect()
    }
}

/// The number of the scale of each dimension; none for a dimension without one.
fn dimension_numbers(node: &Hdf5Object, paths: &HashMap<&str, i64>) -> Option<Vec<Option<i64>>> {
    match node.attribute("DIMENSION_LIST") {
        Some(Hdf5Attribute::References(lists)) => {
            let number = |list: &Vec<String>| match list.first() {
                Some(path) => paths.get(path.as_str()).map(|number| Some(*number)),
                None => Some(None),
            };
            lists.iter().map(number).collect()
        }
        _ => Some(numbers(node, "_Netcdf4Coordinates")?.into_iter().map(Some).collect()),
    }
}

fn text<'n>(node: &'n Hdf5Object, name: &str) -> Option<&'n str> {
    node.attribute(name).and_then(Hdf5Attribute::text)
}

fn numbers(node: &Hdf5Object, name: &str) -> Option<Vec<i64>> {
    node.attribute(name)?.numbers().map(|numbers| numbers.into_iter().map(|number| number as i64).collect())
}
