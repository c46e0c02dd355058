//! Distributed arrays in a checkpoint: each rank writes its block; a restart reads any block.

use aqueduct_comm::Comm;
use aqueduct_file::hyperslab::{Hyperslab, volume};
use aqueduct_file::layout::{Basic, Layout, Order};
use aqueduct_file::{Mode, View};

use super::commit::sums;
use super::manifest::ManifestEntry;
use super::part::ArrayBlock;
use crate::error::{Error, Kind, Result, agree};
use crate::existing_file::ExistingFile;

/// Writes all blocks in one collective access.
pub(super) fn write(
    comm: &Comm,
    name: &str,
    kind: &str,
    element: u64,
    block: &ArrayBlock,
    bytes: &[u8],
) -> Result<ManifestEntry> {
    check_coverage(comm, name, block)?;
    let length = volume(&block.shape).and_then(|elements| elements.checked_mul(element));
    let length = length.ok_or_else(|| {
        Error::new(
            Kind::BadArgument,
            "write",
            name,
            format!("the array of shape {:?} is too large; give the shape in elements", block.shape),
        )
    })?;
    let file = ExistingFile::Replace.create_options(Mode::read_write()).open(comm, name)?;
    file.set_size(length)?;
    file.with_view(&view(name, element, block)?).all().write(bytes)?;
    file.sync()?;
    let sums = sums(comm, &file, length)?;
    file.close()?;
    Ok(ManifestEntry {
        bytes: length,
        signature: kind.into(),
        shape: block.shape.clone(),
        sums,
        ..ManifestEntry::default()
    })
}

/// The view of a block.
pub(super) fn view(name: &str, element: u64, block: &ArrayBlock) -> Result<View> {
    let element = Layout::from(Basic::U8).contiguous(element);
    let filetype = element.and_then(|element| element.subarray(&block.shape, &block.slab, Order::C));
    let filetype =
        filetype.map_err(|error| Error::new(Kind::BadArgument, "access", name, error.to_string()))?;
    View::new(0, &Layout::from(Basic::U8), &filetype)
}

/// Checks that every element is written by exactly one rank: no two blocks overlap, and their volumes
/// add up to that of the array.
fn check_coverage(comm: &Comm, name: &str, block: &ArrayBlock) -> Result<()> {
    let corners = [&block.slab.start[..], &block.slab.count[..]].concat();
    let all = comm.gather_varied(0, &corners).map_err(|error| Error::from_comm("write", name, &error))?;
    let checked = all.map_or(Ok(()), |all| {
        let refuse = |kind, detail: String| Err(Error::new(kind, "write", name, detail));
        let slab = |corners: &Vec<u64>| {
            let (start, count) = corners.split_at(block.shape.len());
            Hyperslab::new(start, count)
        };
        let slabs: Vec<Hyperslab> = all.iter().map(slab).collect();
        let held: u64 = slabs.iter().map(|slab| slab.volume().unwrap_or(0)).sum();
        if let Some((one, other)) = overlapping_pair(&slabs) {
            return refuse(
                Kind::Overlap,
                format!(
                    "ranks {one} and {other} write the same elements of the array; assign each element to one rank"
                ),
            );
        }
        let wanted = volume(&block.shape).unwrap_or(u64::MAX);
        if held == wanted {
            return Ok(());
        }
        refuse(
            Kind::BadArgument,
            format!("the ranks write {held} of the {wanted} elements of the array; assign each element to one rank"),
        )
    });
    agree(comm, "write", name, checked)
}

/// The ranks of two slabs that overlap. The slabs are sorted by their start in the first dimension,
/// so only those that start before the end of a slab can overlap it.
fn overlapping_pair(slabs: &[Hyperslab]) -> Option<(usize, usize)> {
    let mut order: Vec<usize> = (0..slabs.len()).filter(|rank| !slabs[*rank].is_empty()).collect();
    order.sort_by_key(|rank| slabs[*rank].start.first());
    for (index, one) in order.iter().enumerate() {
        let end = slabs[*one].ranges().next().map(|first| first.end);
        let starts_before = |other: &&usize| end.is_none() || slabs[**other].start.first() < end.as_ref();
        let mut near = order[index + 1..].iter().take_while(starts_before);
        if let Some(other) = near.find(|other| slabs[*one].overlaps(&slabs[**other])) {
            return Some((*one.min(other), *one.max(other)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_slabs_are_found() {
        let quarters = [[0, 0], [0, 2], [2, 0], [2, 2]].map(|start| Hyperslab::new(start, [2, 2]));
        let mut slabs = quarters.to_vec();
        slabs.push(Hyperslab::new([1, 1], [0, 4]));
        assert_eq!(overlapping_pair(&slabs), None);
        slabs[2] = Hyperslab::new([1, 1], [3, 1]);
        assert_eq!(overlapping_pair(&slabs), Some((0, 2)));
        assert_eq!(overlapping_pair(&[Hyperslab::default(), Hyperslab::default()]), Some((0, 1)));
    }
}
