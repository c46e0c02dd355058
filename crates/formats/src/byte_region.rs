//! Regions: which bytes of a file a part of a variable has. Pure.

use std::ops::Range;

use aqueduct_file::layout::{Layout, LayoutError, Vector};

use crate::selection::PerDimension;

/// Equally long runs of bytes, nested as the dimensions of an array are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByteRegion {
    /// Where the first run begins.
    pub(crate) offset: u64,
    /// The slowest first.
    pub(crate) strides: PerDimension<RegionStride>,
    /// Bytes of a run.
    pub(crate) run: u64,
}

/// So many, so far apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionStride {
    pub(crate) count: u64,
    /// In bytes.
    pub(crate) stride: u64,
}

impl ByteRegion {
    /// A region whose adjacent innermost steps are merged into runs; none without bytes.
    pub(crate) fn new(offset: u64, steps: impl IntoIterator<Item = RegionStride>, run: u64) -> Option<Self> {
        let mut region = Self { offset, strides: PerDimension::new(), run };
        for step in steps {
            match step.count {
                0 => return None,
                1 => {}
                _ => region.strides.push(step),
            }
        }
        while let Some(step) = region.strides.last().filter(|step| step.stride == region.run) {
            region.run *= step.count;
            region.strides.pop();
        }
        Some(region)
    }

    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> u64 {
        self.strides.iter().fold(self.run, |bytes, step| bytes * step.count)
    }

    /// The range from its first to its last byte.
    pub(crate) fn byte_span(&self) -> Range<u64> {
        let last = self.strides.iter().fold(self.offset, |at, step| at + (step.count - 1) * step.stride);
        self.offset..last + self.run
    }

    /// Its parts along the slowest dimension; none if it is one run.
    pub(crate) fn split(&self) -> Option<impl Iterator<Item = Self>> {
        let (first, rest) = self.strides.split_first()?;
        Some((0..first.count).map(move |at| Self {
            offset: self.offset + at * first.stride,
            strides: PerDimension::from_slice(rest),
            run: self.run,
        }))
    }

    /// The same bytes as a layout whose offset 0 is the region's first byte.
    pub(crate) fn layout(&self) -> Result<Layout, LayoutError> {
        self.strides.iter().rev().try_fold(Layout::bytes(self.run)?, |layout, step| {
            layout.hvector(Vector { count: step.count, block: 1, stride: step.stride as i64 })
        })
    }
}
