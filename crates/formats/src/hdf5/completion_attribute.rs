//! Completion attributes, which record how many rows are complete. They are changed in place.
//!
//! A completion attribute has eight bytes in one sector, so that its change is atomic, and is about one dataset. Object headers of version 1
//! have no checksum that it would invalidate.

use std::sync::atomic::{AtomicU64, Ordering};

use aqueduct_comm::Op;
use aqueduct_file::View;
use aqueduct_file::layout::{Basic, Layout};

use super::file::{DatasetId, Hdf5File};
use super::model::tree::UNDEFINED_ADDRESS;
use crate::byte_region::ByteRegion;
use crate::error::{Error, Kind, Result};
use crate::merge::merge_regions;

/// How far a dataset is.
#[derive(Debug)]
pub(super) struct CompletionState {
    /// Whether the file has the attribute.
    pub(super) marked: bool,
    /// Where; known to rank 0.
    pub(super) address: u64,
    /// The dimension whose rows are counted.
    pub(super) dimension: usize,
    /// How many rows are marked as complete.
    pub(super) complete: AtomicU64,
    /// How many rows this rank knows to be written.
    pub(super) rows_written: AtomicU64,
}

impl Hdf5File {
    /// Rank 0, which knows where they are, writes marks, one list after the other, each durable before the next. Collective, with as many lists on all ranks.
    pub(super) fn write_marks(&self, operation: &'static str, lists: &[&[(u64, u64)]]) -> Result<()> {
        let mut written = Ok(());
        for (number, marks) in lists.iter().enumerate() {
            if self.is_root() {
                written = written.and_then(|()| self.put(marks));
            }
            // Without syncs what one process writes is there in that order.
            if self.core.durable || number + 1 == lists.len() {
                self.core.agree(operation, std::mem::replace(&mut written, Ok(())))?;
                self.core.sync()?;
            }
        }
        Ok(())
    }

    fn put(&self, marks: &[(u64, u64)]) -> Result<()> {
        let regions: Vec<_> = marks.iter().map(|(address, _)| ByteRegion::new(*address, [], 8)).collect();
        let combined = merge_regions(regions.iter().map(Option::as_ref))
            .map_err(|error| self.core.error(Kind::BadArgument, "mark", error.to_string()))?;
        let Some(combined) = combined else { return Ok(()) };
        let mut bytes = vec![0; combined.bytes as usize];
        for share in &combined.shares {
            bytes[share.at as usize..share.at as usize + 8]
                .copy_from_slice(&marks[share.item].1.to_le_bytes());
        }
        let view = View::new(combined.offset, &Layout::from(Basic::Byte), &combined.layout)?;
        self.core.file.with_view(&view).write(&bytes)?;
        Ok(())
    }

    /// Takes marks back before rows that are complete change: `lowest` is the first row of each dataset that this rank changes. Collective.
    pub(super) fn lower_marks(&self, lowest: &[u64]) -> Result<()> {
        let talk = |error| Error::from_comm("write", &self.core.name, &error);
        let lowest = self.core.comm.allreduce(Op::Min, lowest).map_err(talk)?;
        let mut marks = Vec::new();
        for ((_, progress), row) in self.datasets.iter().zip(lowest) {
            if progress.marked && row < progress.complete.load(Ordering::Relaxed) {
                progress.complete.store(row, Ordering::Relaxed);
                marks.push((progress.address, row));
            }
        }
        self.write_marks("write", &[&marks])
    }

    /// The dimension whose rows are counted.
    pub(super) fn rows_dimension(&self, id: DatasetId) -> usize {
        self.datasets.get(id.0).map_or(0, |(_, progress)| progress.dimension)
    }

    /// Notes that rows are written up to this one.
    pub(super) fn note_rows_written(&self, dataset: usize, rows: u64) {
        self.datasets[dataset].1.rows_written.fetch_max(rows, Ordering::Relaxed);
    }

    /// Takes rows of datasets back: `rows` of each are complete from now on, at most; they can be written again. Durable when it
    /// returns. Collective, and the same on all ranks.
    pub fn take_back(&mut self, rows: &[(DatasetId, u64)]) -> Result<()> {
        self.may_write("take back")?;
        let mut lowest = vec![UNDEFINED_ADDRESS; self.datasets.len()];
        for (id, rows) in rows {
            self.dataset_by_id("take back", *id)?;
            lowest[id.0] = *rows;
            self.datasets[id.0].1.rows_written.fetch_min(*rows, Ordering::Relaxed);
        }
        self.lower_marks(&lowest)
    }

    /// Which rows of datasets a write changes that are marked as complete: the first of each, and whether there are any.
    pub(super) fn find_overwritten(&self, writes: impl Iterator<Item = (usize, u64)>) -> (Vec<u64>, bool) {
        let (mut lowest, mut any) = (vec![UNDEFINED_ADDRESS; self.datasets.len()], false);
        for (dataset, row) in writes {
            let progress = &self.datasets[dataset].1;
            any |= progress.marked && row < progress.complete.load(Ordering::Relaxed);
            lowest[dataset] = lowest[dataset].min(row);
        }
        (lowest, any)
    }
}
