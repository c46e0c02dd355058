//! Many regions as one: what a queue of accesses means for the file. Pure.
//!
//! A view of a file goes upwards. Regions that do not interlock are put in order as they are; those that do are taken apart along their slowest
//! dimension, again and again, until they follow one another or are single runs.

use std::ops::Range;

use aqueduct_file::layout::{Layout, LayoutError, Member, Vector};

use crate::byte_region::ByteRegion;

/// A part of one of the regions that were given.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RegionPart {
    /// Which.
    item: usize,
    /// Where its bytes begin among those of the whole region.
    first: u64,
    region: ByteRegion,
}

/// Bytes of an item, and where they lie among those of all, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MergedPart {
    pub(crate) item: usize,
    /// Which of the item's bytes.
    pub(crate) bytes: Range<u64>,
    /// Where they begin among those of all.
    pub(crate) at: u64,
}

/// All regions together.
#[derive(Clone, Debug)]
pub(crate) struct MergedRegions {
    /// Where the layout begins in the file.
    pub(crate) offset: u64,
    pub(crate) layout: Layout,
    /// How many bytes the layout has.
    pub(crate) bytes: u64,
    /// In the order of the items: where several have the same bytes, the last one written counts.
    pub(crate) shares: Vec<MergedPart>,
    /// The shares in the order of the file, if no two have the same bytes.
    order: Option<Vec<usize>>,
}

impl MergedRegions {
    /// Whether the bytes are those of one item after the other, so that [`within`](Combined::within) finds them.
    pub(crate) fn is_ordered(&self) -> bool {
        self.order.is_some()
    }

    /// What some of the bytes, in the order of the file, are: which bytes of which item, and where they begin among those that are asked for.
    pub(crate) fn parts_within(&self, bytes: Range<u64>) -> impl Iterator<Item = (usize, Range<u64>, usize)> {
        let order = self.order.as_deref().unwrap_or_default();
        let end = |share: &MergedPart| share.at + (share.bytes.end - share.bytes.start);
        let first = order.partition_point(|share| end(&self.shares[*share]) <= bytes.start);
        let shares = order[first..].iter().map(|share| &self.shares[*share]);
        shares.take_while(move |share| share.at < bytes.end).map(move |share| {
            let (from, to) = (share.at.max(bytes.start), end(share).min(bytes.end));
            let of_item = share.bytes.start + (from - share.at)..share.bytes.start + (to - share.at);
            (share.item, of_item, (from - bytes.start) as usize)
        })
    }
}

/// Combines regions; items without bytes have none. None if no item has any.
pub(crate) fn merge_regions<'r>(
    regions: impl Iterator<Item = Option<&'r ByteRegion>>,
) -> Result<Option<MergedRegions>, LayoutError> {
    let whole = |(item, region): (usize, Option<&ByteRegion>)| {
        region.map(|region| RegionPart { item, first: 0, region: region.clone() })
    };
    let mut ordered = Vec::new();
    order_parts(regions.enumerate().filter_map(whole).collect(), &mut ordered);
    let Some(offset) = ordered.first().map(|piece| piece.region.offset) else { return Ok(None) };
    let (mut parts, mut shares) = (Vec::new(), Vec::new());
    // The bytes of the layout so far, and their end in the file.
    let (mut bytes, mut reached) = (0, offset);
    let mut overlap = false;
    for RegionPart { item, first, region } in ordered {
        let hull = region.byte_span();
        if hull.start >= reached {
            shares.push(MergedPart { item, bytes: first..first + region.bytes(), at: bytes });
            bytes += region.bytes();
            parts.push(region);
        } else {
            overlap = true;
            // Runs that overlap: the bytes are there already, as far as `reached`.
            let known = reached - hull.start;
            shares.push(MergedPart { item, bytes: first..first + region.run, at: bytes - known });
            let more = region.run.saturating_sub(known);
            parts.extend(ByteRegion::new(reached, [], more).filter(|_| more > 0));
            bytes += more;
        }
        reached = reached.max(hull.end);
    }
    let mut order: Vec<usize> = (0..shares.len()).collect();
    shares.sort_by_key(|share: &MergedPart| share.item);
    order.sort_by_key(|share| shares[*share].at);
    let order = (!overlap).then_some(order);
    Ok(Some(MergedRegions { offset, layout: layout(&parts, offset)?, bytes, shares, order }))
}

/// Consecutive regions as a layout whose offset 0 is a byte of the file; equal ones at equal distances become one strided part.
fn layout(parts: &[ByteRegion], offset: u64) -> Result<Layout, LayoutError> {
    let (mut members, mut rest) = (Vec::new(), parts);
    while let Some(first) = rest.first() {
        let stride = rest.get(1).map_or(0, |second| second.offset - first.offset);
        let follows = |pair: &&[ByteRegion]| {
            pair[1].offset - pair[0].offset == stride
                && pair[1].run == first.run
                && pair[1].strides == first.strides
        };
        let count = 1 + rest.windows(2).take_while(follows).count();
        let vector = Vector { count: count as u64, block: 1, stride: stride as i64 };
        let layout = first.layout()?.hvector(vector)?;
        members.push(Member { count: 1, displacement: (first.offset - offset) as i64, layout });
        rest = &rest[count..];
    }
    Layout::structure(members)
}

/// Puts pieces in the order of the file; those left over one another are runs.
fn order_parts(mut pieces: Vec<RegionPart>, ordered: &mut Vec<RegionPart>) {
    pieces.sort_by_key(|piece| piece.region.offset);
    let mut pieces = pieces.into_iter().peekable();
    while let Some(first) = pieces.next() {
        let mut end = first.region.byte_span().end;
        if pieces.peek().is_none_or(|next| next.region.offset >= end) {
            ordered.push(first);
            continue;
        }
        let mut group = vec![first];
        while let Some(next) = pieces.next_if(|next| next.region.offset < end) {
            end = end.max(next.region.byte_span().end);
            group.push(next);
        }
        let runs = group.iter().all(|piece| piece.region.strides.is_empty());
        if runs {
            ordered.append(&mut group);
        } else {
            order_parts(group.into_iter().flat_map(split).collect(), ordered);
        }
    }
}

fn split(piece: RegionPart) -> Vec<RegionPart> {
    let Some(parts) = piece.region.split() else { return vec![piece] };
    let mut first = piece.first;
    let place = |region: ByteRegion| {
        let start = first;
        first += region.bytes();
        RegionPart { item: piece.item, first: start, region }
    };
    parts.map(place).collect()
}

#[cfg(test)]
mod tests {
    use aqueduct_testkit::rng::SeededRng;

    use super::*;
    use crate::byte_region::RegionStride;

    /// The bytes of a region, one by one.
    fn bytes(region: &ByteRegion) -> Vec<u64> {
        match region.split() {
            Some(parts) => parts.flat_map(|part| bytes(&part)).collect(),
            None => (region.offset..region.offset + region.run).collect(),
        }
    }

    fn random(seeded: &mut SeededRng) -> Option<ByteRegion> {
        let size = 1 + seeded.below(3) as u64;
        let inner =
            RegionStride { count: seeded.below(4) as u64, stride: size * (1 + seeded.below(3) as u64) };
        let stride = inner.stride * (1 + inner.count + seeded.below(3) as u64);
        let outer = RegionStride { count: seeded.below(4) as u64, stride };
        ByteRegion::new(seeded.below(60) as u64 / size * size, [outer, inner], size)
    }

    /// Every byte of every item is found at its place in the file, whatever interlocks with whatever; and the layout goes upwards.
    #[test]
    fn shares_say_where_the_bytes_of_items_lie() {
        for seed in 0..3000 {
            let seeded = &mut SeededRng::new(seed);
            let regions: Vec<_> = (0..=seeded.below(5)).map(|_| random(seeded)).collect();
            let Some(combined) = merge_regions(regions.iter().map(Option::as_ref)).unwrap() else {
                assert!(regions.iter().all(Option::is_none), "seed {seed}");
                continue;
            };
            assert!(combined.layout.is_monotone(), "seed {seed}: {regions:?}");
            let places: Vec<u64> = combined
                .layout
                .runs(..)
                .flat_map(|run| (0..run.len).map(move |at| run.offset as u64 + at))
                .map(|at| at + combined.offset)
                .collect();
            assert_eq!(places.len() as u64, combined.bytes, "seed {seed}");
            let mut found: Vec<Vec<Option<u64>>> = regions
                .iter()
                .map(|region| vec![None; region.as_ref().map_or(0, ByteRegion::bytes) as usize])
                .collect();
            for share in &combined.shares {
                for (step, byte) in share.bytes.clone().enumerate() {
                    found[share.item][byte as usize] = Some(places[share.at as usize + step]);
                }
            }
            if combined.is_ordered() {
                let part = seeded.below(combined.bytes as usize + 1) as u64;
                let part = part..part + seeded.below((combined.bytes - part) as usize + 1) as u64;
                let mut next = part.start;
                for (item, bytes, at) in combined.parts_within(part.clone()) {
                    assert_eq!(at as u64 + part.start, next, "seed {seed}");
                    for byte in bytes {
                        assert_eq!(found[item][byte as usize], Some(places[next as usize]), "seed {seed}");
                        next += 1;
                    }
                }
                assert_eq!(next, part.end, "seed {seed}: all of them");
            }
            for (region, found) in regions.iter().zip(found) {
                let expected: Vec<_> = region.iter().flat_map(bytes).map(Some).collect();
                assert_eq!(found, expected, "seed {seed}: {regions:?}");
            }
        }
    }

    #[test]
    fn records_of_many_variables_stay_compact() {
        // Ten variables of a record of 1000 bytes, a block of 5 × 7 bytes of each, in 20 records.
        let variable = |at: u64| {
            let steps = [RegionStride { count: 20, stride: 1000 }, RegionStride { count: 5, stride: 10 }];
            ByteRegion::new(at * 100, steps, 7)
        };
        let regions: Vec<_> = (0..10).map(variable).collect();
        let combined = merge_regions(regions.iter().map(Option::as_ref)).unwrap().unwrap();
        assert_eq!((combined.bytes, combined.shares.len()), (10 * 20 * 35, 200));
    }
}
