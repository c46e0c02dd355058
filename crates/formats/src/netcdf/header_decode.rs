//! Decoding of headers: every count is compared with the length of the input before it is used.

use std::collections::HashSet;
use std::fmt;

use super::data_move::BEING_MOVED;
use super::header::{Attribute, DimensionId, NetcdfDimension, NetcdfHeader, Variable};
use super::header_encode::{ATTRIBUTES, DIMENSIONS, MAGIC, VARIABLES};
use super::header_swap::BEING_REPLACED;
use super::nc_type::NcType;
use super::sizes::{DatasetSizes, padded};
use super::value::Values;
use super::version::CdfVersion;

/// Why bytes are no header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetcdfHeaderError {
    /// More of the file is needed: at least so many bytes from its start on.
    Truncated {
        /// How many.
        needed: u64,
    },
    /// Something is wrong.
    Invalid {
        /// The byte of the file at which it is.
        offset: u64,
        /// What.
        what: String,
    },
}

impl fmt::Display for NetcdfHeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { needed } => write!(f, "the header is cut off: it has at least {needed} bytes"),
            Self::Invalid { offset, what } => write!(f, "at byte {offset}: {what}"),
        }
    }
}

type Result<T> = std::result::Result<T, NetcdfHeaderError>;

impl NetcdfHeader {
    /// The header at the start of `bytes`, which are the first ones of a file of `length` bytes.
    pub fn decode(bytes: &[u8], length: u64) -> Result<Self> {
        let mut cursor = HeaderCursor { bytes, at: 0, length, version: CdfVersion::Cdf1 };
        let version = cursor.magic()?;
        cursor.version = version;
        let records_at = cursor.at;
        let records = cursor.count()?;
        let dimensions = cursor.dimensions()?;
        let attributes = cursor.attributes()?;
        let variables_at = cursor.at;
        let variables = cursor.variables(&dimensions)?;
        let end = cursor.at;
        let header = Self { version, records: 0, dimensions, attributes, variables };
        let wrong = |what| NetcdfHeaderError::Invalid { offset: variables_at, what };
        let geometry = DatasetSizes::of(&header).map_err(wrong)?;
        check_variable_offsets(&header, &geometry, end).map_err(wrong)?;
        let records = count_records(&header, &geometry, records, length);
        let records = records.map_err(|what| NetcdfHeaderError::Invalid { offset: records_at, what })?;
        Ok(Self { records, ..header })
    }
}

/// The number of records. All bits set mean streaming: the number follows from the length of the file.
fn count_records(
    header: &NetcdfHeader,
    geometry: &DatasetSizes,
    stored: u64,
    length: u64,
) -> std::result::Result<u64, String> {
    let streaming = if header.version == CdfVersion::Cdf5 { u64::MAX } else { u64::from(u32::MAX) };
    let first = header.variables.iter().filter(|variable| header.is_record(variable));
    let first = first.map(|variable| variable.begin).min();
    let records = match first {
        _ if stored != streaming => stored,
        Some(first) if geometry.record > 0 => length.saturating_sub(first) / geometry.record,
        _ => 0,
    };
    let end = geometry.end(header, records);
    end.map(|_| records).ok_or_else(|| format!("{records} records exceed the maximum file size (2^63 - 1)"))
}

/// Checks that variables are after the header and do not overlap, record variables after the others.
fn check_variable_offsets(
    header: &NetcdfHeader,
    geometry: &DatasetSizes,
    end: u64,
) -> std::result::Result<(), String> {
    let mut placed: Vec<_> = header.variables.iter().zip(&geometry.extents).collect();
    placed.sort_by_key(|(variable, extent)| (variable.begin, extent.size));
    let mut reached = [end; 2];
    let mut first = None;
    for (variable, extent) in placed {
        let (name, begin) = (&variable.name, variable.begin);
        let reached = &mut reached[usize::from(extent.is_record)];
        if begin < end {
            return Err(format!(
                "variable {name:?} begins at byte {begin}, inside the header of {end} bytes"
            ));
        }
        if begin < *reached && extent.size > 0 {
            return Err(format!("variable {name:?} begins at byte {begin}, inside another one"));
        }
        let over = begin.checked_add(extent.size).filter(|over| i64::try_from(*over).is_ok());
        *reached = (*reached)
            .max(over.ok_or_else(|| format!("variable {name:?} exceeds the maximum file size (2^63 - 1)"))?);
        if extent.is_record {
            first.get_or_insert(begin);
        }
    }
    let Some(first) = first else { return Ok(()) };
    if reached[0] > first {
        return Err(format!(
            "the records begin at byte {first}, before the end of a variable without records"
        ));
    }
    if reached[1] - first > padded(geometry.record) {
        return Err("the variables of a record lie further apart than records do".to_owned());
    }
    Ok(())
}

struct HeaderCursor<'a> {
    bytes: &'a [u8],
    at: u64,
    /// Of the whole file.
    length: u64,
    version: CdfVersion,
}

impl<'a> HeaderCursor<'a> {
    fn wrong<T>(offset: u64, what: impl Into<String>) -> Result<T> {
        Err(NetcdfHeaderError::Invalid { offset, what: what.into() })
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.length);
        let Some(end) = end else {
            let left = self.length - self.at;
            return Self::wrong(
                self.at,
                format!("the header is cut off: {count} bytes here, {left} are left"),
            );
        };
        if end > self.bytes.len() as u64 {
            return Err(NetcdfHeaderError::Truncated { needed: end });
        }
        let taken = &self.bytes[self.at as usize..end as usize];
        self.at = end;
        Ok(taken)
    }

    fn magic(&mut self) -> Result<CdfVersion> {
        let magic = self.take(4)?;
        if magic == BEING_MOVED {
            let what = "its data is being moved, or was when the program ended, and is in part in the old and in part in the new \
                        places; wait for that program, or take a copy made before";
            return Self::wrong(0, what);
        }
        if magic == BEING_REPLACED {
            let what = "its header was being replaced when the program ended, and the copy of it at the end of the file is gone; \
                        take a copy made before";
            return Self::wrong(0, what);
        }
        if magic.starts_with(b"\x89HDF") {
            return Self::wrong(0, "this is an HDF5 file (perhaps netCDF-4), not netCDF classic");
        }
        match CdfVersion::from_code(magic[3]) {
            Some(version) if &magic[..3] == MAGIC => Ok(version),
            _ => Self::wrong(
                0,
                format!("this is no netCDF classic file: it begins with {}", magic.escape_ascii()),
            ),
        }
    }

    fn word(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes(bytes.try_into().expect("four bytes")))
    }

    fn long(&mut self) -> Result<u64> {
        let bytes = self.take(8)?;
        Ok(u64::from_be_bytes(bytes.try_into().expect("eight bytes")))
    }

    fn count(&mut self) -> Result<u64> {
        if self.version.count_width() == 4 { self.word().map(u64::from) } else { self.long() }
    }

    fn name(&mut self, taken: &mut HashSet<&'a str>, what: &str) -> Result<String> {
        let start = self.at;
        let count = self.count()?;
        let bytes = self.take(count)?;
        self.take(padded(count) - count)?;
        let Ok(name) = std::str::from_utf8(bytes) else {
            return Self::wrong(start, format!("the name of {what} is not UTF-8: {}", bytes.escape_ascii()));
        };
        if name.is_empty() {
            return Self::wrong(start, format!("{what} has no name"));
        }
        if !taken.insert(name) {
            return Self::wrong(start, format!("{what} {name:?} is there twice"));
        }
        Ok(name.to_owned())
    }

    /// A list of items that take at least `least` bytes each.
    fn list<T>(
        &mut self,
        tag: u32,
        least: u64,
        mut each: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let start = self.at;
        let found = self.word()?;
        let count = self.count()?;
        if found != tag && (found != 0 || count != 0) {
            return Self::wrong(
                start,
                format!("the tag of a list is {found}, expected {tag} or an absent list"),
            );
        }
        if count > (self.length - self.at) / least {
            return Self::wrong(start, format!("a list has {count} items, more than the file has room for"));
        }
        (0..count).map(|_| each(self)).collect()
    }

    fn dimensions(&mut self) -> Result<Vec<NetcdfDimension>> {
        let (mut names, mut unlimited) = (HashSet::new(), false);
        self.list(DIMENSIONS, 8, |cursor| {
            let name = cursor.name(&mut names, "dimension")?;
            let at = cursor.at;
            let length = cursor.count()?;
            if length == 0 && std::mem::replace(&mut unlimited, true) {
                return Self::wrong(at, format!("dimension {name:?} is a second one without limit"));
            }
            if i64::try_from(length).is_err() {
                return Self::wrong(at, format!("dimension {name:?} has a negative length"));
            }
            Ok(NetcdfDimension { name, length: (length > 0).then_some(length) })
        })
    }

    fn attributes(&mut self) -> Result<Vec<Attribute>> {
        let mut names = HashSet::new();
        self.list(ATTRIBUTES, 12, |cursor| {
            let name = cursor.name(&mut names, "attribute")?;
            let kind = cursor.kind()?;
            let at = cursor.at;
            let size = cursor.count()?.checked_mul(kind.size()).filter(|size| *size <= cursor.length);
            let Some(size) = size else {
                return Self::wrong(at, format!("attribute {name:?} is larger than the file"));
            };
            let bytes = cursor.take(size)?;
            cursor.take(padded(size) - size)?;
            Ok(Attribute { name, values: Values::loaded(kind, bytes) })
        })
    }

    fn kind(&mut self) -> Result<NcType> {
        let at = self.at;
        let code = self.word()?;
        match NcType::from_code(code) {
            Some(kind) if self.version.has(kind) => Ok(kind),
            _ => Self::wrong(at, format!("{} has no type {code}", self.version)),
        }
    }

    fn variables(&mut self, dimensions: &[NetcdfDimension]) -> Result<Vec<Variable>> {
        let mut names = HashSet::new();
        self.list(VARIABLES, 32, |cursor| {
            let name = cursor.name(&mut names, "variable")?;
            let ids = cursor.dimension_ids(&name, dimensions)?;
            let attributes = cursor.attributes()?;
            let kind = cursor.kind()?;
            // The stored size is redundant, and wrong where it does not fit.
            cursor.count()?;
            let begin =
                if cursor.version.begin_width() == 4 { cursor.word()?.into() } else { cursor.long()? };
            Ok(Variable { name, kind, dimensions: ids, attributes, begin })
        })
    }

    fn dimension_ids(&mut self, name: &str, dimensions: &[NetcdfDimension]) -> Result<Vec<DimensionId>> {
        let start = self.at;
        let rank = self.count()?;
        if rank > (self.length - self.at) / self.version.count_width() {
            return Self::wrong(
                start,
                format!("variable {name:?} has {rank} dimensions, more than the file has room for"),
            );
        }
        let mut ids = Vec::new();
        for place in 0..rank {
            let at = self.at;
            let id = self.count()?;
            let Some(dimension) = usize::try_from(id).ok().and_then(|id| dimensions.get(id)) else {
                return Self::wrong(
                    at,
                    format!("variable {name:?} has dimension number {id}, which does not exist"),
                );
            };
            if place > 0 && dimension.length.is_none() {
                let what =
                    format!("variable {name:?} has the unlimited dimension in another place than the first");
                return Self::wrong(at, what);
            }
            ids.push(DimensionId(id as usize));
        }
        Ok(ids)
    }
}
