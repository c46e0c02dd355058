//! Arrays in a checkpoint: boxes of one global array, written by their ranks, read by any.

use aqueduct_comm::Comm;
use aqueduct_file::layout::{Basic, Dimension, Layout, Order};
use aqueduct_file::{Mode, View};

use super::commit::sums;
use super::manifest::ManifestEntry;
use super::part::{ArrayBlock, volume};
use crate::error::{Error, Kind, Result, agree};
use crate::open_options::{ExistingFile, write_behind_open};

/// Writes all boxes as one collective access.
pub(super) fn write(
    comm: &Comm,
    name: &str,
    kind: &str,
    element: u64,
    block: &ArrayBlock,
    bytes: &[u8],
) -> Result<ManifestEntry> {
    check_coverage(comm, name, block)?;
    let length = volume(&block.global).and_then(|elements| elements.checked_mul(element));
    let length = length.ok_or_else(|| {
        Error::new(
            Kind::BadArgument,
            "write",
            name,
            format!("an array of {:?} is too large; give its sides in elements", block.global),
        )
    })?;
    let file = write_behind_open(Mode::read_write(), ExistingFile::Replace).open(comm, name)?;
    file.set_size(length)?;
    file.with_view(&view(name, element, block)?).all().write(bytes)?;
    file.sync()?;
    let sums = sums(comm, &file, length)?;
    file.close()?;
    Ok(ManifestEntry {
        bytes: length,
        signature: kind.into(),
        shape: block.global.clone(),
        sums,
        ..ManifestEntry::default()
    })
}

/// The view of a box.
pub(super) fn view(name: &str, element: u64, block: &ArrayBlock) -> Result<View> {
    let sides = block.global.iter().zip(&block.shape).zip(&block.start);
    let dimensions: Vec<Dimension> =
        sides.map(|((&size, &subsize), &start)| Dimension { size, subsize, start }).collect();
    let made = || {
        let element = Layout::from(Basic::U8).contiguous(element)?;
        element.subarray(&dimensions, Order::C)
    };
    let bad = |detail: String| Error::new(Kind::BadArgument, "access", name, detail);
    let filetype = made().map_err(|error| bad(error.to_string()))?;
    View::new(0, &Layout::from(Basic::U8), &filetype)
}

/// Whether every element is written by exactly one rank: as many as there are, and no two boxes meet.
fn check_coverage(comm: &Comm, name: &str, block: &ArrayBlock) -> Result<()> {
    let talk = |error| Error::from_comm("write", name, &error);
    let corners = [&block.start[..], &block.shape[..]].concat();
    let all = comm.gather_varied(0, &corners).map_err(talk)?;
    let checked = all.map_or(Ok(()), |all| {
        let refuse = |kind, detail: String| Err(Error::new(kind, "write", name, detail));
        let dimensions = block.global.len();
        let held: u64 = all.iter().map(|corners| volume(&corners[dimensions..]).unwrap_or(0)).sum();
        if let Some((one, other)) = overlapping_pair(&all, dimensions) {
            return refuse(
                Kind::Overlap,
                format!("ranks {one} and {other} bring the same elements of the array; give each to one"),
            );
        }
        let wanted = volume(&block.global).unwrap_or(u64::MAX);
        if held == wanted {
            return Ok(());
        }
        refuse(
            Kind::BadArgument,
            format!("the ranks bring {held} elements of an array of {wanted}; all must come from someone"),
        )
    });
    agree(comm, "write", name, checked)
}

/// Two boxes that have elements in common. In the order of their beginnings along the first dimension, only those can meet that begin before the end.
fn overlapping_pair(boxes: &[Vec<u64>], dimensions: usize) -> Option<(usize, usize)> {
    let range = |rank: usize, d: usize| (boxes[rank][d], boxes[rank][d] + boxes[rank][dimensions + d]);
    let mut order: Vec<usize> =
        (0..boxes.len()).filter(|rank| boxes[*rank][dimensions..].iter().all(|&n| n > 0)).collect();
    if dimensions == 0 {
        return (order.len() > 1).then(|| (order[0], order[1]));
    }
    order.sort_unstable_by_key(|rank| boxes[*rank][0]);
    for (index, one) in order.iter().enumerate() {
        let near = order[index + 1..].iter().take_while(|other| boxes[**other][0] < range(*one, 0).1);
        let meets = |other: &&usize| {
            (0..dimensions).all(|d| {
                let ((a, b), (c, d)) = (range(*one, d), range(**other, d));
                a < d && c < b
            })
        };
        if let Some(other) = near.into_iter().find(meets) {
            return Some((*one.min(other), *one.max(other)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_that_meet_are_found() {
        let quarters =
            vec![vec![0, 0, 2, 2], vec![0, 2, 2, 2], vec![2, 0, 2, 2], vec![2, 2, 2, 2], vec![1, 1, 0, 4]];
        assert_eq!(overlapping_pair(&quarters, 2), None);
        let mut wide = quarters;
        wide[2] = vec![1, 1, 3, 1];
        assert_eq!(overlapping_pair(&wide, 2), Some((0, 2)));
        assert_eq!(overlapping_pair(&[vec![], vec![]], 0), Some((0, 1)));
    }
}
