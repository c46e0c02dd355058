//! The header of a file: dimensions, attributes, variables and the offsets of their data.

use super::name;
use super::nc_type::NcType;
use super::value::Values;
use super::version::CdfVersion;

/// A dimension of a file, by its number: its place in [`NetcdfHeader::dimensions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DimensionId(pub usize);

/// A variable of a file, by its number: its place in [`NetcdfHeader::variables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub usize);

/// A named length that variables have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetcdfDimension {
    /// Its name.
    pub name: String,
    /// Its length; none for the unlimited one, which is as long as there are records.
    pub length: Option<u64>,
}

/// A named piece of information about the file or a variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: Values,
}

/// An array of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub kind: NcType,
    /// Its dimensions, the slowest first; none for a single value.
    pub dimensions: Vec<DimensionId>,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
    /// The byte of the file at which its data, or that of its first record, begins.
    pub begin: u64,
}

impl Variable {
    /// The values of the attribute of this name.
    pub fn attribute(&self, name: &str) -> Option<&Values> {
        find(&self.attributes, name)
    }
}

/// The header of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct NetcdfHeader {
    /// The version of the format.
    pub version: CdfVersion,
    /// How many records there are: the length of the unlimited dimension.
    pub records: u64,
    /// The dimensions.
    pub dimensions: Vec<NetcdfDimension>,
    /// The attributes of the file.
    pub attributes: Vec<Attribute>,
    /// The variables.
    pub variables: Vec<Variable>,
}

impl NetcdfHeader {
    /// Without any definition.
    pub fn new(version: CdfVersion) -> Self {
        Self { version, records: 0, dimensions: Vec::new(), attributes: Vec::new(), variables: Vec::new() }
    }

    /// The values of the attribute of the file with this name.
    pub fn attribute(&self, name: &str) -> Option<&Values> {
        find(&self.attributes, name)
    }

    /// The variable of this name.
    pub fn find_variable(&self, name: &str) -> Option<VariableId> {
        let name = name::normal(name);
        self.variables.iter().position(|variable| variable.name == name).map(VariableId)
    }

    /// The dimension of this name.
    pub fn find_dimension(&self, name: &str) -> Option<DimensionId> {
        let name = name::normal(name);
        self.dimensions.iter().position(|dimension| dimension.name == name).map(DimensionId)
    }

    /// The unlimited dimension, if there is one.
    pub fn unlimited(&self) -> Option<DimensionId> {
        self.dimensions.iter().position(|dimension| dimension.length.is_none()).map(DimensionId)
    }

    /// Whether the variable has records: its first dimension is the unlimited one.
    pub fn is_record(&self, variable: &Variable) -> bool {
        let first = variable.dimensions.first().and_then(|id| self.dimensions.get(id.0));
        first.is_some_and(|dimension| dimension.length.is_none())
    }
}

pub(crate) fn find<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a Values> {
    let name = name::normal(name);
    attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.values)
}
