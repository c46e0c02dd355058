//! A header as bytes.

use super::header::{Attribute, NetcdfHeader, Variable};
use super::sizes::{DatasetSizes, VariableSize, padded};
use super::version::CdfVersion;

pub(crate) const MAGIC: &[u8; 3] = b"CDF";
pub(crate) const DIMENSIONS: u32 = 10;
pub(crate) const VARIABLES: u32 = 11;
pub(crate) const ATTRIBUTES: u32 = 12;
/// The offset of the number of records.
pub(crate) const RECORDS_AT: u64 = 4;

impl NetcdfHeader {
    /// The bytes at the start of a file. Fails if it describes more than the version of the format can hold.
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        self.encode_sized(&DatasetSizes::of(self)?)
    }

    /// The same, where the sizes of its variables are known already.
    pub(crate) fn encode_sized(&self, geometry: &DatasetSizes) -> Result<Vec<u8>, String> {
        geometry.fits(self)?;
        self.fits()?;
        let mut out = HeaderEncoder { version: self.version, bytes: Vec::new() };
        out.bytes.extend_from_slice(MAGIC);
        out.bytes.push(self.version.code());
        out.count(self.records);
        out.list(DIMENSIONS, &self.dimensions, |out, dimension| {
            out.name(&dimension.name);
            out.count(dimension.length.unwrap_or(0));
        });
        out.attributes(&self.attributes);
        let variables: Vec<_> = self.variables.iter().zip(&geometry.extents).collect();
        out.list(VARIABLES, &variables, |out, (variable, extent)| out.variable(variable, extent));
        Ok(out.bytes)
    }

    /// Refuses what has no place in the version of the format.
    fn fits(&self) -> Result<(), String> {
        let version = self.version;
        let most = if version == CdfVersion::Cdf5 { i64::MAX as u64 } else { u64::from(u32::MAX) };
        if self.records > version.most_records() {
            return Err(format!("{version} has no room for {} records; use CDF-5", self.records));
        }
        if let Some(long) =
            self.dimensions.iter().find(|long| long.length.is_some_and(|length| length > most))
        {
            return Err(format!("dimension {:?} is longer than {version} allows; use CDF-5", long.name));
        }
        if self.dimensions.iter().filter(|dimension| dimension.length.is_none()).count() > 1 {
            return Err("more than one dimension is unlimited; a file has one at most".to_owned());
        }
        if let Some(none) = self.dimensions.iter().find(|none| none.length == Some(0)) {
            return Err(format!(
                "dimension {:?} has length 0, which stands for the unlimited one",
                none.name
            ));
        }
        let of_variables = self.variables.iter().flat_map(|variable| &variable.attributes);
        let attributes = self.attributes.iter().chain(of_variables);
        let kinds = attributes.map(|attribute| (&attribute.name, attribute.values.kind()));
        let kinds = kinds.chain(self.variables.iter().map(|variable| (&variable.name, variable.kind)));
        for (name, kind) in kinds {
            if !version.has(kind) {
                return Err(format!(
                    "{version} has no type {kind}, which {name:?} is of; use CDF-5 or another type"
                ));
            }
        }
        Ok(())
    }

    /// The number of records as stored in the file.
    pub(crate) fn encode_records(version: CdfVersion, records: u64) -> Vec<u8> {
        let mut out = HeaderEncoder { version, bytes: Vec::new() };
        out.count(records);
        out.bytes
    }
}

struct HeaderEncoder {
    version: CdfVersion,
    bytes: Vec<u8>,
}

impl HeaderEncoder {
    fn word(&mut self, word: u32) {
        self.bytes.extend_from_slice(&word.to_be_bytes());
    }

    /// A count; what it may be has been checked.
    fn count(&mut self, count: u64) {
        match self.version.count_width() {
            4 => self.word(count as u32),
            _ => self.bytes.extend_from_slice(&count.to_be_bytes()),
        }
    }

    fn pad(&mut self) {
        self.bytes.resize(padded(self.bytes.len() as u64) as usize, 0);
    }

    fn name(&mut self, name: &str) {
        self.count(name.len() as u64);
        self.bytes.extend_from_slice(name.as_bytes());
        self.pad();
    }

    fn list<T>(&mut self, tag: u32, items: &[T], each: impl Fn(&mut Self, &T)) {
        self.word(if items.is_empty() { 0 } else { tag });
        self.count(items.len() as u64);
        items.iter().for_each(|item| each(self, item));
    }

    fn attributes(&mut self, attributes: &[Attribute]) {
        self.list(ATTRIBUTES, attributes, |out, attribute| {
            out.name(&attribute.name);
            out.word(attribute.values.kind().code());
            out.count(attribute.values.len() as u64);
            out.bytes.extend_from_slice(&attribute.values.stored());
            out.pad();
        });
    }

    fn variable(&mut self, variable: &Variable, extent: &VariableSize) {
        self.name(&variable.name);
        self.count(variable.dimensions.len() as u64);
        variable.dimensions.iter().for_each(|id| self.count(id.0 as u64));
        self.attributes(&variable.attributes);
        self.word(variable.kind.code());
        // Where it does not fit, all bits are set: readers compute the size themselves.
        let most = if self.version == CdfVersion::Cdf5 { u64::MAX } else { u64::from(u32::MAX) };
        self.count(extent.padded().min(most));
        match self.version.begin_width() {
            4 => self.word(variable.begin as u32),
            _ => self.bytes.extend_from_slice(&variable.begin.to_be_bytes()),
        }
    }
}
