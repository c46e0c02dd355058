//! Cuts: which bytes of the file a part of a variable has. Pure.

use super::header::Variable;
use super::sizes::VariableSize;
use crate::byte_region::{ByteRegion, RegionStride};
use crate::selection::{self, PerDimension, Selection, ValueExtent};

/// A variable and its derived sizes.
#[derive(Clone, Copy)]
pub(crate) struct AccessedVariable<'a> {
    pub(crate) variable: &'a Variable,
    pub(crate) extent: &'a VariableSize,
    /// From one record to the next.
    pub(crate) record: u64,
    /// How many records may be accessed: those there are, or all there could be.
    pub(crate) records: u64,
}

/// A part of a variable as bytes of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlabBytes {
    /// None without values.
    pub(crate) region: Option<ByteRegion>,
    /// The number of records that there are at least if it is written.
    pub(crate) records: u64,
}

impl AccessedVariable<'_> {
    /// The length of each dimension, with that of the records.
    fn lengths(&self) -> PerDimension<u64> {
        let records = self.extent.is_record.then_some(self.records);
        records.into_iter().chain(self.extent.lengths.iter().copied()).collect()
    }

    fn shape<'a>(&'a self, lengths: &'a [u64]) -> selection::ArrayBounds<'a> {
        selection::ArrayBounds {
            what: "variable",
            name: &self.variable.name,
            lengths,
            extendible: self.extent.is_record,
        }
    }

    /// How many values a part has, to be read.
    pub(crate) fn values(&self, slab: &Selection) -> Result<u64, String> {
        slab.values(self.shape(&self.lengths()))
    }

    /// The bytes of a part, which is to have so many values.
    pub(crate) fn slab_bytes(
        &self,
        slab: &Selection,
        writes: bool,
        values: ValueExtent<'_>,
    ) -> Result<SlabBytes, String> {
        let Self { variable, extent, .. } = self;
        let block = slab.resolve_checked(self.shape(&self.lengths()), writes, values)?;
        if values.values == 0 {
            return Ok(SlabBytes { region: None, records: 0 });
        }
        let strides = strides_of(variable.kind.size(), extent, self.record);
        let offset = block.start.iter().zip(&strides).try_fold(variable.begin, |at, (start, stride)| {
            at.checked_add(start.checked_mul(*stride)?).filter(|at| i64::try_from(*at).is_ok())
        });
        let steps: Option<PerDimension<RegionStride>> = (0..block.count.len())
            .map(|at| {
                Some(RegionStride {
                    count: block.count[at],
                    stride: strides[at].checked_mul(block.stride[at])?,
                })
            })
            .collect();
        let region = offset.zip(steps).and_then(|(offset, steps)| {
            let mut last = offset;
            for step in &steps {
                last = last.checked_add((step.count - 1).checked_mul(step.stride)?)?;
            }
            last.checked_add(variable.kind.size()).filter(|last| *last < i64::MAX as u64)?;
            ByteRegion::new(offset, steps, variable.kind.size())
        });
        let region = region.ok_or_else(|| {
            format!("the part of variable {:?} exceeds the maximum file size (2^63 - 1)", variable.name)
        })?;
        let records = if extent.is_record { block.rows() } else { 0 };
        Ok(SlabBytes { region: Some(region), records })
    }
}

/// Bytes from one to the next in each dimension.
fn strides_of(size: u64, extent: &VariableSize, record: u64) -> PerDimension<u64> {
    let mut strides = PerDimension::from_elem(size, extent.lengths.len());
    for at in (1..extent.lengths.len()).rev() {
        strides[at - 1] = strides[at] * extent.lengths[at];
    }
    if extent.is_record {
        strides.insert(0, record);
    }
    strides
}
