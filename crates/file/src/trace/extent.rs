//! The bytes of a file that a call accessed, in compact form.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use smallvec::SmallVec;

use crate::layout::{Pattern, Strip};

/// Equally long runs at equal distances, and such rows at equal distances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct FileExtent {
    /// Where the first run starts.
    pub offset: u64,
    /// Bytes of a run.
    pub len: u64,
    /// From the start of a run to that of the next.
    pub stride: u64,
    /// Runs of a row.
    pub count: u64,
    /// From the start of a row to that of the next.
    pub row_stride: u64,
    /// Rows.
    pub rows: u64,
}

/// Strips of an access that are looked at.
const WALKED_STRIPS: usize = 256;

/// The extents of one call. There are seldom more than two.
pub(super) type CallExtents = SmallVec<[FileExtent; 4]>;

impl FileExtent {
    /// Its size in a file.
    pub const SIZE: usize = size_of::<Self>();

    /// One run.
    pub const fn run(offset: u64, len: u64) -> Self {
        Self { offset, len, stride: 0, count: 1, row_stride: 0, rows: 1 }
    }

    /// The runs of a strip; none if it is empty.
    pub(super) fn of_strip(strip: &Strip) -> Option<Self> {
        let strip = strip.joined();
        (strip.size() > 0).then(|| Self {
            offset: strip.span().start.max(0) as u64,
            len: strip.len,
            stride: if strip.count > 1 { strip.stride.unsigned_abs() } else { 0 },
            count: strip.count,
            row_stride: 0,
            rows: 1,
        })
    }

    /// False if it exceeds the maximum file size.
    pub(super) fn is_plausible(&self) -> bool {
        let last = self.span().end.max(self.offset.saturating_add(self.bytes()));
        self.count > 0 && self.rows > 0 && self.bytes() < 1 << 43 && last < 1 << 62
    }

    /// Bytes in all runs.
    pub fn bytes(&self) -> u64 {
        self.len.saturating_mul(self.count).saturating_mul(self.rows)
    }

    /// The bytes of the file from the first to after the last.
    pub fn span(&self) -> Range<u64> {
        let row = self.stride.saturating_mul(self.count.saturating_sub(1)).saturating_add(self.len);
        let rows = self.row_stride.saturating_mul(self.rows.saturating_sub(1));
        self.offset..self.offset.saturating_add(rows).saturating_add(row)
    }

    /// The runs, up to a number of them.
    pub fn runs(&self, most: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        let extent = *self;
        let rows = (0..extent.rows).flat_map(move |row| (0..extent.count).map(move |run| (row, run)));
        rows.take(most as usize).map(move |(row, run)| {
            let further =
                row.saturating_mul(extent.row_stride).saturating_add(run.saturating_mul(extent.stride));
            let start = extent.offset.saturating_add(further);
            start..start.saturating_add(extent.len)
        })
    }

    /// Takes another extent in as a further run or row, if it follows regularly.
    fn absorb(&mut self, next: &Self) -> bool {
        if next.rows != 1 {
            return false;
        }
        if self.rows == 1 && next.count == 1 && next.len == self.len && next.offset > self.offset {
            let last = self.offset.saturating_add(self.stride.saturating_mul(self.count - 1));
            let Some(distance) = next.offset.checked_sub(last) else { return false };
            if self.count == 1 && next.offset == self.offset + self.len {
                self.len += next.len;
                return true;
            }
            if self.count == 1 || distance == self.stride {
                (self.stride, self.count) = (distance, self.count + 1);
                return true;
            }
        }
        if self.count == 1 && self.rows == 1 && next.count == 1 && next.offset == self.offset + self.len {
            self.len += next.len;
            return true;
        }
        let is_row = next.len == self.len
            && next.count == self.count
            && (next.count == 1 || next.stride == self.stride);
        let last = self.offset.saturating_add(self.row_stride.saturating_mul(self.rows - 1));
        if !is_row || next.offset <= last || next.count == 1 {
            return false;
        }
        let distance = next.offset - last;
        if self.rows > 1 && distance != self.row_stride {
            return false;
        }
        (self.row_stride, self.rows) = (distance, self.rows + 1);
        true
    }
}

/// Adds an extent, merged with the last one if it continues it. With `most` extents the last one is extended over the new one: false.
pub(super) fn add(extents: &mut CallExtents, next: FileExtent, most: usize) -> bool {
    if let Some(last) = extents.last_mut() {
        if last.absorb(&next) {
            return true;
        }
        if extents.len() >= most {
            let span = |extent: &FileExtent| extent.span();
            let end = extents.len() - 1;
            let (last, next) = (span(&extents[end]), span(&next));
            let start = last.start.min(next.start);
            extents[end] = FileExtent::run(start, last.end.max(next.end) - start);
            return false;
        }
    }
    extents.push(next);
    true
}

/// The extents of a window of a pattern and the number of its runs; false if they cover more than its bytes.
pub(super) fn of_pattern(pattern: &Pattern, window: &Range<u64>, most: usize) -> (CallExtents, u64, bool) {
    let (mut extents, mut runs, mut bytes, mut exact) = (CallExtents::new(), 0u64, 0u64, true);
    for strip in pattern.strips(window.clone()).take(WALKED_STRIPS) {
        runs += strip.count;
        bytes += strip.size();
        exact &= FileExtent::of_strip(&strip).is_none_or(|next| add(&mut extents, next, most));
    }
    let all = window.end - window.start;
    if bytes < all && bytes > 0 {
        let rest = pattern.span(window.start + bytes..window.end);
        let (start, end) = (rest.start.max(0) as u64, rest.end.max(0) as u64);
        extents.push(FileExtent::run(start, end - start));
        runs = (u128::from(runs) * u128::from(all) / u128::from(bytes)) as u64;
        exact = false;
    }
    (extents, runs, exact)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Basic, Layout, Vector};
    use proptest::prelude::*;

    fn bytes_of(extents: &[FileExtent]) -> Vec<u64> {
        let mut all: Vec<u64> = extents.iter().flat_map(|extent| extent.runs(u64::MAX).flatten()).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn a_box_of_three_dimensions_is_one_extent() {
        let row = Layout::from(Basic::Byte).contiguous(4).unwrap();
        let plane = row.hvector(Vector { count: 3, block: 1, stride: 16 }).unwrap();
        let cube = plane.resized(0, 160).unwrap().contiguous(5).unwrap().endless(7).unwrap();
        let (extents, runs, exact) = of_pattern(&cube, &(0..60), 32);
        let expected = FileExtent { offset: 7, len: 4, stride: 16, count: 3, row_stride: 160, rows: 5 };
        assert_eq!((extents.as_slice(), runs, exact), ([expected].as_slice(), 15, true));
    }

    #[test]
    fn runs_that_go_back_are_extents_of_their_own() {
        let mut extents = CallExtents::new();
        for offset in [0, 16, 32, 8, 8, 0] {
            assert!(add(&mut extents, FileExtent::run(offset, 4), 32));
        }
        let mut bytes: Vec<u64> = [0, 16, 32, 8, 8, 0].iter().flat_map(|start| *start..start + 4).collect();
        bytes.sort_unstable();
        assert_eq!(bytes_of(&extents), bytes);
    }

    proptest! {
        #[test]
        fn exact_extents_have_the_bytes_of_the_pattern(
            lengths in proptest::collection::vec((1u64..9, 0u64..9), 1..40),
            window in (0u64..50, 0u64..50),
            most in 1usize..40,
        ) {
            let mut at = 0;
            let blocks: Vec<(u64, i64)> = lengths.iter().map(|(len, gap)| {
                at += gap;
                let block = (*len, at as i64);
                at += len;
                block
            }).collect();
            let pattern = Layout::from(Basic::Byte).hindexed(blocks).unwrap().tiled(1).unwrap();
            let window = window.0.min(pattern.size())..(window.0 + window.1).min(pattern.size());
            let (extents, _, exact) = of_pattern(&pattern, &window, most);
            prop_assert!(extents.len() <= most + 1);
            let expected: Vec<u64> = pattern
                .runs(window)
                .flat_map(|run| run.offset as u64..run.offset as u64 + run.len)
                .collect();
            let found = bytes_of(&extents);
            if exact {
                prop_assert_eq!(found, expected);
            } else {
                prop_assert!(expected.iter().all(|byte| found.contains(byte)));
            }
        }
    }
}
