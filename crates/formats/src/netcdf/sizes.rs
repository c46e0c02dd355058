//! How large things are: variables, records, and what a version of the format allows. Pure arithmetic that does not overflow.

use super::header::{NetcdfHeader, Variable};
use super::version::CdfVersion;
use crate::selection::PerDimension;

/// The size of one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VariableSize {
    pub(crate) is_record: bool,
    /// The lengths of its dimensions, without the unlimited one.
    pub(crate) lengths: PerDimension<u64>,
    /// Bytes of its data, or of one record of it.
    pub(crate) size: u64,
}

impl VariableSize {
    /// The size of a variable of this header, or that it is larger than every file.
    pub(crate) fn of(header: &NetcdfHeader, variable: &Variable) -> Result<Self, String> {
        let is_record = header.is_record(variable);
        let inner = &variable.dimensions[usize::from(is_record)..];
        let mut lengths = PerDimension::with_capacity(inner.len());
        for id in inner {
            let dimension = header.dimensions.get(id.0);
            let dimension = dimension.ok_or_else(|| {
                format!("variable {:?} has dimension number {}, which does not exist", variable.name, id.0)
            })?;
            let unlimited = || {
                let (name, variable) = (&dimension.name, &variable.name);
                format!(
                    "variable {variable:?} has the unlimited dimension {name:?} in another place than the first"
                )
            };
            lengths.push(dimension.length.ok_or_else(unlimited)?);
        }
        let size = lengths.iter().try_fold(variable.kind.size(), |size, length| size.checked_mul(*length));
        let size = size.filter(|size| *size <= i64::MAX as u64 - 3);
        let size = size.ok_or_else(|| format!("variable {:?} is larger than every file", variable.name))?;
        Ok(Self { is_record, lengths, size })
    }

    /// Its bytes with those up to the next variable.
    pub(crate) fn padded(&self) -> u64 {
        padded(self.size)
    }
}

/// The sizes of all variables of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatasetSizes {
    pub(crate) extents: Vec<VariableSize>,
    /// From one record to the next.
    pub(crate) record: u64,
}

/// Rounded up to four bytes.
pub(crate) fn padded(size: u64) -> u64 {
    size.next_multiple_of(4)
}

impl DatasetSizes {
    /// The sizes, or the variable that is larger than every file.
    pub(crate) fn of(header: &NetcdfHeader) -> Result<Self, String> {
        let extents: Vec<VariableSize> = header
            .variables
            .iter()
            .map(|variable| VariableSize::of(header, variable))
            .collect::<Result<_, _>>()?;
        let records = || extents.iter().filter(|extent| extent.is_record);
        let record = if records().count() == 1 {
            // The exception: a single record variable has no padding between its records.
            records().map(|extent| extent.size).sum()
        } else {
            let sum = records().try_fold(0u64, |sum, extent| sum.checked_add(extent.padded()));
            let sum = sum.filter(|sum| i64::try_from(*sum).is_ok());
            sum.ok_or("a record of all variables is larger than every file")?
        };
        Ok(Self { extents, record })
    }

    /// The end of all variables with so many records; none if it exceeds the maximum file size.
    pub(crate) fn end(&self, header: &NetcdfHeader, records: u64) -> Option<u64> {
        let placed = header.variables.iter().zip(&self.extents);
        let fixed = placed.clone().filter(|(_, extent)| !extent.is_record);
        let mut end = 0;
        for (variable, extent) in fixed {
            end = end.max(variable.begin.checked_add(extent.padded())?);
        }
        let first = placed.filter(|(_, extent)| extent.is_record).map(|(variable, _)| variable.begin).min();
        if let (Some(first), true) = (first, records > 0) {
            end = end.max(first.checked_add(records.checked_mul(self.record)?)?);
        }
        i64::try_from(end).is_ok().then_some(end)
    }

    /// Refuses what a version of the format cannot hold: only the last of the variables without records, if none has records, and only the last
    /// of those with records may be larger than the rest.
    pub(crate) fn fits(&self, header: &NetcdfHeader) -> Result<(), String> {
        let version = header.version;
        let named = || header.variables.iter().zip(&self.extents);
        let has_records = self.extents.iter().any(|extent| extent.is_record);
        for is_record in [false, true] {
            let last = self.extents.iter().rposition(|extent| extent.is_record == is_record);
            for (at, (variable, extent)) in named().enumerate() {
                let may_be_large = Some(at) == last && (is_record || !has_records);
                if extent.is_record == is_record && extent.size > version.largest() && !may_be_large {
                    return Err(too_large(version, variable, extent));
                }
            }
        }
        named().try_for_each(|(variable, _)| {
            if variable.begin <= version.last_begin() {
                return Ok(());
            }
            Err(format!(
                "the data of variable {:?} would begin at byte {}, {version} reaches up to {}; use CDF-5",
                variable.name,
                variable.begin,
                version.last_begin()
            ))
        })
    }
}

fn too_large(version: CdfVersion, variable: &Variable, extent: &VariableSize) -> String {
    let (name, size, most) = (&variable.name, extent.size, version.largest());
    let what = if extent.is_record { "a record of" } else { "" };
    format!(
        "{what} variable {name:?} has {size} bytes, {version} allows {most} for any but the last; use CDF-5, or define it last"
    )
}
