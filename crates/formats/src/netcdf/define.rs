//! Definitions: at any time, all or none of a batch, the same on all ranks.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use xxhash_rust::xxh3::xxh3_64;

use super::file::NetcdfFile;
use super::header::{Attribute, DimensionId, NetcdfDimension, NetcdfHeader, Variable, VariableId};
use super::layout_planner::{DataShift, ExistingData, LayoutPlan, SizedHeader, plan_layout};
use super::name;
use super::nc_type::NcType;
use super::sizes::{DatasetSizes, VariableSize};
use super::value::Values;
use crate::error::{Error, Kind, Result};

/// Definitions that are being made: what a closure given to [`NetcdfFile::define`] gets.
#[derive(Debug)]
pub struct NetcdfDefinitions<'a> {
    file: &'a str,
    header: NetcdfHeader,
    /// The digests of the names of dimensions and of variables: one that is not there is a name that is free.
    taken: [HashSet<u64>; 2],
}

impl<'a> NetcdfDefinitions<'a> {
    fn new(file: &'a str, header: NetcdfHeader) -> Self {
        let digest = |name: &String| xxh3_64(name.as_bytes());
        let dimensions = header.dimensions.iter().map(|dimension| digest(&dimension.name)).collect();
        let variables = header.variables.iter().map(|variable| digest(&variable.name)).collect();
        Self { file, header, taken: [dimensions, variables] }
    }

    /// What there is, with the definitions made so far.
    pub fn header(&self) -> &NetcdfHeader {
        &self.header
    }

    /// A dimension of this length, at least 1.
    #[doc(alias = "ncmpi_def_dim")]
    pub fn dimension(&mut self, name: &str, length: u64) -> Result<DimensionId> {
        let most = self.header.version.longest();
        if length == 0 {
            let detail = format!(
                "dimension {name:?} has length 0, which stands for the unlimited one; use `unlimited`"
            );
            return Err(self.error(Kind::BadArgument, detail));
        }
        if length > most {
            let version = self.header.version;
            let detail =
                format!("dimension {name:?} has length {length}, {version} allows {most}; use CDF-5");
            return Err(self.error(Kind::TooLarge, detail));
        }
        self.add_dimension(name, Some(length))
    }

    /// The dimension that grows with the records; a file has one at most.
    #[doc(alias = "NC_UNLIMITED")]
    pub fn unlimited(&mut self, name: &str) -> Result<DimensionId> {
        if let Some(there) = self.header.unlimited() {
            let there = &self.header.dimensions[there.0].name;
            let detail =
                format!("dimension {there:?} is unlimited already; a file has one, {name:?} needs a length");
            return Err(self.error(Kind::BadArgument, detail));
        }
        self.add_dimension(name, None)
    }

    fn add_dimension(&mut self, name: &str, length: Option<u64>) -> Result<DimensionId> {
        let name = self.checked(name)?;
        let named = |dimension: &NetcdfDimension| dimension.name == name;
        if !self.taken[0].insert(xxh3_64(name.as_bytes())) && self.header.dimensions.iter().any(named) {
            return Err(self.error(Kind::NameExists, format!("there is a dimension {name:?} already")));
        }
        self.header.dimensions.push(NetcdfDimension { name, length });
        Ok(DimensionId(self.header.dimensions.len() - 1))
    }

    /// A variable of these dimensions, the slowest first; the unlimited one only in the first place. Without dimensions it is a single value.
    #[doc(alias = "ncmpi_def_var")]
    pub fn variable(&mut self, name: &str, kind: NcType, dimensions: &[DimensionId]) -> Result<VariableId> {
        let name = self.checked(name)?;
        let digest = xxh3_64(name.as_bytes());
        if self.taken[1].contains(&digest) && self.header.variables.iter().any(|there| there.name == name) {
            return Err(self.error(Kind::NameExists, format!("there is a variable {name:?} already")));
        }
        self.has(kind, || format!("variable {name:?}"))?;
        for (place, id) in dimensions.iter().enumerate() {
            let Some(dimension) = self.header.dimensions.get(id.0) else {
                let detail =
                    format!("dimension number {} of variable {name:?} belongs to another file", id.0);
                return Err(self.error(Kind::NoSuchName, detail));
            };
            if place > 0 && dimension.length.is_none() {
                let detail = format!(
                    "variable {name:?} has the unlimited dimension {:?} in place {place}; it can only be the first",
                    dimension.name
                );
                return Err(self.error(Kind::BadArgument, detail));
            }
        }
        let dimensions = dimensions.to_vec();
        let variable = Variable { name, kind, dimensions, attributes: Vec::new(), begin: 0 };
        VariableSize::of(&self.header, &variable).map_err(|what| self.error(Kind::TooLarge, what))?;
        self.taken[1].insert(digest);
        self.header.variables.push(variable);
        Ok(VariableId(self.header.variables.len() - 1))
    }

    /// Sets an attribute of the file; replaces an attribute of this name.
    #[doc(alias = "ncmpi_put_att")]
    pub fn attribute(&mut self, name: &str, values: impl Into<Values>) -> Result<()> {
        let attribute = self.checked_attribute(name, values.into())?;
        put(&mut self.header.attributes, attribute);
        Ok(())
    }

    /// Sets an attribute of a variable; replaces an attribute of this name.
    #[doc(alias = "ncmpi_put_att")]
    pub fn attribute_of(
        &mut self,
        variable: VariableId,
        name: &str,
        values: impl Into<Values>,
    ) -> Result<()> {
        let attribute = self.checked_attribute(name, values.into())?;
        let kind = self.variable_mut(variable)?.kind;
        if attribute.name == "_FillValue" && (attribute.values.kind(), attribute.values.len()) != (kind, 1) {
            let detail = format!("_FillValue is one value of the variable's type, {kind}");
            return Err(self.error(Kind::WrongType, detail));
        }
        put(&mut self.variable_mut(variable)?.attributes, attribute);
        Ok(())
    }

    /// Takes an attribute of the file, or of a variable, away; whether it was there.
    pub fn remove_attribute(&mut self, variable: Option<VariableId>, name: &str) -> Result<bool> {
        let name = name::normal(name);
        let attributes = match variable {
            Some(variable) => &mut self.variable_mut(variable)?.attributes,
            None => &mut self.header.attributes,
        };
        let before = attributes.len();
        attributes.retain(|attribute| attribute.name != name);
        Ok(attributes.len() < before)
    }

    fn variable_mut(&mut self, id: VariableId) -> Result<&mut Variable> {
        self.header.variables.get_mut(id.0).ok_or_else(|| {
            let detail = format!("variable number {} belongs to another file", id.0);
            Error::new(Kind::NoSuchName, "define", self.file, detail)
        })
    }

    fn checked(&self, name: &str) -> Result<String> {
        name::checked(name).map_err(|what| self.error(Kind::BadArgument, what))
    }

    fn checked_attribute(&self, name: &str, values: Values) -> Result<Attribute> {
        let name = self.checked(name)?;
        self.has(values.kind(), || format!("attribute {name:?}"))?;
        Ok(Attribute { name, values })
    }

    fn has(&self, kind: NcType, what: impl Fn() -> String) -> Result<()> {
        let version = self.header.version;
        if version.has(kind) {
            return Ok(());
        }
        let detail =
            format!("{version} has no type {kind}, which {} is of; use CDF-5 or another type", what());
        Err(self.error(Kind::WrongType, detail))
    }

    fn error(&self, kind: Kind, detail: impl Into<String>) -> Error {
        Error::new(kind, "define", self.file, detail)
    }
}

fn put(attributes: &mut Vec<Attribute>, attribute: Attribute) {
    match attributes.iter_mut().find(|there| there.name == attribute.name) {
        Some(there) => *there = attribute,
        None => attributes.push(attribute),
    }
}

impl NetcdfFile {
    /// Defines dimensions, variables and attributes, at any time. Data that is there stays where it is; definitions for
    /// which there is no room are refused,
    /// all of them, with [`Kind::HeaderFull`]. Collective: every rank makes the same definitions.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// # use aqueduct_formats::netcdf::{NetcdfCreateOptions, Selection, NcType};
    /// # Launch::threads(2).run(|world| {
    /// # let mut dataset = NetcdfCreateOptions::new().replace().create(world, "memfs:defined.nc")?;
    /// let x = dataset.define(|file| file.dimension("x", 10))?;
    /// let depth = dataset.define(|file| {
    ///     let depth = file.variable("depth", NcType::Double, &[x])?;
    ///     file.attribute_of(depth, "units", "m")?;
    ///     Ok(depth)
    /// })?;
    /// # dataset.at(depth, Selection::whole()).all().write(&[0.5f64; 10])?;
    /// # dataset.close()
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn define<T>(&mut self, work: impl FnOnce(&mut NetcdfDefinitions<'_>) -> Result<T>) -> Result<T> {
        let (made, prepared) = self.prepare("define", work)?;
        let LayoutPlan { shifts, why } = &prepared.arranged;
        if !shifts.is_empty() {
            let bytes: u64 = shifts.iter().map(DataShift::bytes).fold(0, u64::saturating_add);
            let detail = format!(
                "{why}: {bytes} bytes of data would have to move; define more at once before data is written, leave more room \
                 (`NetcdfCreateOptions::header_room`, `NetcdfCreateOptions::fixed_room`), or let the data be copied with `rearrange`"
            );
            return Err(self.core.error(Kind::HeaderFull, "define", detail));
        }
        self.adopt("define", prepared)?;
        Ok(made)
    }

    /// As [`define`](NetcdfFile::define), and *copies data* where it is in the way; how many bytes that were. All ranks copy
    /// together. A file whose copying is interrupted says so when it is
    /// opened: its data is then lost. Collective.
    pub fn rearrange<T>(
        &mut self,
        work: impl FnOnce(&mut NetcdfDefinitions<'_>) -> Result<T>,
    ) -> Result<(T, u64)> {
        let (made, prepared) = self.prepare("rearrange", work)?;
        let moved = self.move_data(&prepared.arranged.shifts)?;
        self.adopt("rearrange", prepared)?;
        Ok((made, moved))
    }

    /// The definitions of a closure, agreed, with places for everything.
    fn prepare<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut NetcdfDefinitions<'_>) -> Result<T>,
    ) -> Result<(T, PreparedDefinitions)> {
        let mut definitions = NetcdfDefinitions::new(&self.core.name, self.header.clone());
        definitions.header.records = self.committed.load(Ordering::Relaxed);
        let made = self.core.may_write(operation).and_then(|()| work(&mut definitions));
        let mut header = definitions.header;
        let too_large = |what: String| self.core.error(Kind::TooLarge, operation, what);
        let sized = made.and_then(|made| {
            let geometry = DatasetSizes::of(&header).map_err(too_large)?;
            let bytes = header.encode_sized(&geometry).map_err(too_large)?;
            Ok((made, geometry, bytes))
        });
        let hash = sized.as_ref().ok().map(|(_, _, bytes)| xxh3_64(bytes));
        let numbers = [self.records(), self.is_touched().into()];
        let ((made, geometry, bytes), [records, touched]) =
            self.core.agree_same(operation, sized, "list of definitions", hash, numbers)?;
        self.records.store(records, Ordering::Relaxed);
        let standing = if touched > 0 { ExistingData::Data { records } } else { ExistingData::Empty };
        let sized = SizedHeader { header: &mut header, sizes: &geometry, length: bytes.len() as u64 };
        let arranged = plan_layout(&self.header, sized, standing, self.reserved).map_err(too_large)?;
        Ok((made, PreparedDefinitions { header, geometry, arranged, touched: touched > 0 }))
    }

    /// Takes definitions for what there is. The header is replaced with care if there is data, or an older header, to lose; if there is neither, it is
    /// written when the ranks meet next. Collective.
    fn adopt(&mut self, operation: &'static str, prepared: PreparedDefinitions) -> Result<()> {
        let PreparedDefinitions { header, geometry, touched, .. } = prepared;
        if touched || !self.unwritten.load(Ordering::Relaxed) {
            self.replace_header(operation, &header)?;
            self.unwritten.store(false, Ordering::Relaxed);
        }
        (self.header, self.sizes) = (header, geometry);
        Ok(())
    }

    /// The bytes of a header, which all ranks have alike.
    pub(super) fn encoded(&self, operation: &'static str, header: &NetcdfHeader) -> Result<Vec<u8>> {
        header.encode().map_err(|what| self.core.error(Kind::TooLarge, operation, what))
    }
}

/// Definitions that all ranks have made.
struct PreparedDefinitions {
    header: NetcdfHeader,
    geometry: DatasetSizes,
    arranged: LayoutPlan,
    /// Whether any rank has written data.
    touched: bool,
}
