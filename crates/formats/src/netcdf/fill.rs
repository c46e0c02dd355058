//! Filling: giving all values of a variable, or of a record of it, the value that stands for "never written".

use super::file::NetcdfFile;
use super::header::VariableId;
use super::sizes::padded;
use crate::error::{Kind, Result};

/// What a rank writes at once.
const PORTION: u64 = 4 << 20;

impl NetcdfFile {
    /// Writes the fill value to all of a variable without records, or to one record of a variable with them: the one of the
    /// attribute `_FillValue`, or the usual
    /// one of its type. All ranks write a part. The padding before the next variable is filled, too. Collective.
    ///
    /// Files are not filled otherwise: unwritten values are zero.
    #[doc(alias = "ncmpi_fill_var_rec")]
    pub fn fill(&self, variable: VariableId, record: Option<u64>) -> Result<()> {
        let place = self.core.may_write("fill").and_then(|()| self.place("fill", variable, record));
        let mine = record.map_or(0, |record| record.saturating_add(1));
        let ((begin, size, value), [records]) = self.agree_with_max("fill", place, [mine])?;
        // The shares are cut between values.
        let values = size.div_ceil(value.len() as u64);
        let (rank, ranks) = (self.core.comm.rank() as u64, self.core.comm.size() as u64);
        let share = values.div_ceil(ranks);
        let (first, last) = ((share * rank).min(values), (share * (rank + 1)).min(values));
        let portion = PORTION / value.len() as u64;
        let bytes = value.repeat(portion.min(last - first) as usize);
        let mut at = first;
        let mut write = || -> Result<()> {
            while at < last {
                let count = portion.min(last - at) * value.len() as u64;
                let offset = at * value.len() as u64;
                let count = count.min(size - offset);
                self.core.file.at(begin + offset).write(&bytes[..count as usize])?;
                at += portion;
            }
            Ok(())
        };
        let written = write();
        self.core.agree("fill", written)?;
        self.note_records(records);
        Ok(())
    }

    /// The offset of the values, their number of bytes with padding, and the fill value as stored in the file.
    fn place(
        &self,
        operation: &'static str,
        id: VariableId,
        record: Option<u64>,
    ) -> Result<(u64, u64, Vec<u8>)> {
        let target = self.accessed_variable(operation, id, true)?;
        let (variable, extent) = (target.variable, target.extent);
        if extent.is_record != record.is_some() {
            let name = &variable.name;
            let detail = if extent.is_record {
                format!("variable {name:?} has records; say which one")
            } else {
                format!("variable {name:?} has no records; fill all of it")
            };
            return Err(self.core.error(Kind::BadArgument, operation, detail));
        }
        let begin = match record {
            None => Some(variable.begin),
            Some(record) if record >= target.records => None,
            Some(record) => record.checked_mul(target.record).and_then(|by| by.checked_add(variable.begin)),
        };
        let end = begin.and_then(|begin| begin.checked_add(extent.padded()));
        let begin = begin.filter(|_| end.is_some_and(|end| end < i64::MAX as u64)).ok_or_else(|| {
            let detail = format!(
                "record {record:?} of variable {:?} exceeds the maximum file size (2^63 - 1)",
                variable.name
            );
            self.core.error(Kind::BadArgument, operation, detail)
        })?;
        // A single record variable has no padding between its records.
        let size = if extent.is_record { extent.padded().min(target.record) } else { padded(extent.size) };
        let own =
            variable.attribute("_FillValue").filter(|own| own.kind() == variable.kind && own.len() == 1);
        let value = own.map_or_else(|| variable.kind.default_fill(), super::value::Values::stored);
        Ok((begin, size, value))
    }
}
