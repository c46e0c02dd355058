//! An open netCDF file.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use aqueduct_file::{Counters, PrefetchStats};

use super::header::{DimensionId, NetcdfHeader, Variable, VariableId};
use super::layout_planner::ReservedSpace;
use super::sizes::DatasetSizes;
use super::slab_bytes::AccessedVariable;
use crate::error::{Kind, Result};
use crate::format_file::FormatFile;

/// A netCDF file that all ranks of a communicator have open.
///
/// Made by [`NetcdfCreateOptions`](super::NetcdfCreateOptions) and [`NetcdfOpenOptions`](super::NetcdfOpenOptions). Its methods say whether
/// they are *collective*: called by all ranks, in the same order. Other programs see written data after
/// [`commit`](NetcdfFile::commit) or [`close`](NetcdfFile::close): without them, records that were added are not counted.
pub struct NetcdfFile {
    pub(super) core: FormatFile,
    pub(super) reserved: ReservedSpace,
    /// The header, with the number of committed records.
    pub(super) header: NetcdfHeader,
    /// Whether rank 0 has yet to write that: there is no data, and the ranks meet before they write any together.
    pub(super) unwritten: AtomicBool,
    pub(super) sizes: DatasetSizes,
    /// How many records this rank knows of.
    pub(super) records: AtomicU64,
    /// The number of records in the file.
    pub(super) committed: AtomicU64,
    /// Whether this rank has written data.
    pub(super) touched: AtomicBool,
}

impl std::fmt::Debug for NetcdfFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dataset")
            .field("name", &self.core.name)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

impl NetcdfFile {
    /// Whether what was synced outlives the process and a restart of the machine: not on `memfs:` and tmpfs.
    pub fn is_persistent(&self) -> bool {
        self.core.file.is_persistent()
    }

    /// The name it was opened by.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The header: dimensions, attributes, variables. Its number of records is the committed one;
    /// [`records`](NetcdfFile::records) knows of more.
    pub fn header(&self) -> &NetcdfHeader {
        &self.header
    }

    /// The bytes from one record to the next, with those of all variables.
    pub fn record_size(&self) -> u64 {
        self.sizes.record
    }

    /// What this rank has done to the file since it was opened.
    pub fn counters(&self) -> Counters {
        self.core.counters()
    }

    /// Statistics of reading ahead: independent reads of a file that is only read, of the same part of consecutive records for example. The
    /// hint `aqueduct_prefetch` is the limit of the memory; 0 disables it.
    pub fn prefetch_stats(&self) -> PrefetchStats {
        self.core.file.prefetch_stats()
    }

    /// The variable of this name.
    pub fn variable(&self, name: &str) -> Result<VariableId> {
        self.header.find_variable(name).ok_or_else(|| {
            let detail = format!("there is no variable {name:?} among {}", self.header.variables.len());
            self.core.error(Kind::NoSuchName, "variable", detail)
        })
    }

    /// The dimension of this name.
    pub fn dimension(&self, name: &str) -> Result<DimensionId> {
        self.header.find_dimension(name).ok_or_else(|| {
            let detail = format!("there is no dimension {name:?} among {}", self.header.dimensions.len());
            self.core.error(Kind::NoSuchName, "dimension", detail)
        })
    }

    /// The metadata of a variable.
    pub fn describe(&self, variable: VariableId) -> Result<&Variable> {
        self.accessed_variable("describe", variable, false).map(|target| target.variable)
    }

    /// The length of each of its dimensions; of the unlimited one, how many records this rank knows of.
    pub fn shape(&self, variable: VariableId) -> Result<Vec<u64>> {
        let extent = self.accessed_variable("shape", variable, false)?.extent;
        Ok(extent
            .is_record
            .then(|| self.records())
            .into_iter()
            .chain(extent.lengths.iter().copied())
            .collect())
    }

    /// How many records this rank knows of: those that all ranks wrote together or committed, and those it wrote alone.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Makes what all ranks have written part of the file, all or nothing: first the data, durably, then the number of
    /// records, in one small write. A crash before that leaves
    /// the file with the records it had. Collective.
    #[doc(alias = "ncmpi_sync")]
    pub fn commit(&self) -> Result<()> {
        if !self.core.writable {
            return Ok(());
        }
        // Each rank has written what it wanted to: the longest that any of them sees is the file.
        let size = self.core.file.size();
        let mine = [self.records(), self.is_touched().into(), *size.as_ref().unwrap_or(&0)];
        let (_, [records, touched, size]) = self.agree_with_max("commit", size, mine)?;
        self.records.store(records, Ordering::Relaxed);
        if touched > 0 {
            // Readers expect the full length of the last variable, although its end may be unwritten.
            let end = self.sizes.end(&self.header, records).unwrap_or(0);
            if size < end {
                self.core.file.set_size(end)?;
            }
        }
        self.core.sync()?;
        if records == self.committed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let written = self.write_on_root(
            super::header_encode::RECORDS_AT,
            &NetcdfHeader::encode_records(self.header.version, records),
        );
        self.core.agree("commit", written)?;
        self.committed.store(records, Ordering::Relaxed);
        self.core.sync()
    }

    /// Takes records back: the file has `records` of them from now on, at most; they can be written again. Durable when it
    /// returns. Collective, and the same on all ranks.
    pub fn take_back(&self, records: u64) -> Result<()> {
        self.core.may_write("take back")?;
        if self.records() <= records {
            return Ok(());
        }
        let bytes = NetcdfHeader::encode_records(self.header.version, records);
        let written = self.write_on_root(super::header_encode::RECORDS_AT, &bytes);
        self.core.agree("take back", written)?;
        self.records.store(records, Ordering::Relaxed);
        self.committed.store(records, Ordering::Relaxed);
        self.core.sync()
    }

    /// Commits and closes the file. Collective.
    pub fn close(self) -> Result<()> {
        self.commit()?;
        self.core.close()
    }

    pub(super) fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed)
    }

    /// A variable, as an access needs it.
    pub(super) fn accessed_variable(
        &self,
        operation: &'static str,
        id: VariableId,
        writes: bool,
    ) -> Result<AccessedVariable<'_>> {
        let known = self.header.variables.get(id.0).zip(self.sizes.extents.get(id.0));
        let (variable, extent) = known.ok_or_else(|| {
            let detail = format!("there is no variable number {}; it belongs to another file", id.0);
            self.core.error(Kind::NoSuchName, operation, detail)
        })?;
        let records = if writes { self.header.version.most_records() } else { self.records() };
        Ok(AccessedVariable { variable, extent, record: self.sizes.record, records })
    }

    /// Notes that so many records are there now.
    pub(super) fn note_records(&self, records: u64) {
        self.touched.store(true, Ordering::Relaxed);
        self.records.fetch_max(records, Ordering::Relaxed);
    }

    /// An outcome agreed, with the greatest of each of the ranks' numbers. A header that has not been written yet is written then, so that its
    /// definition needs no separate collective call. Collective.
    pub(super) fn agree_with_max<T, const N: usize>(
        &self,
        operation: &'static str,
        mine: Result<T>,
        numbers: [u64; N],
    ) -> Result<(T, [u64; N])> {
        let unwritten = self.unwritten.load(Ordering::Relaxed);
        let mine = mine.and_then(|mine| {
            if unwritten && self.core.is_root() {
                let bytes = self.header.encode_sized(&self.sizes);
                let bytes = bytes.map_err(|what| self.core.error(Kind::TooLarge, operation, what))?;
                self.write_on_root(0, &bytes)?;
            }
            Ok(mine)
        });
        let agreed = self.core.agree_with_max(operation, mine, numbers)?;
        self.unwritten.store(false, Ordering::Relaxed);
        Ok(agreed)
    }

    /// Writes on rank 0.
    pub(super) fn write_on_root(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.core.comm.rank() == 0 {
            self.core.file.at(offset).write(bytes)?;
        }
        Ok(())
    }
}
