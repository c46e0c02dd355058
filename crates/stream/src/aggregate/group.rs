//! A group of consecutive ranks, as the leader or server that writes for all of them sees it. Pure.

use aqueduct_file::layout::{Layout, LayoutError, Member};

use super::{GatherPlan, MemberShare, box_order};
use crate::declare::box_layout::box_layout;
use crate::declare::declaration::Declaration;
use crate::declare::output_plan::OutputPlan;
use crate::declare::rank_points::{PointRun, RankPoints, layout_of_runs};
use crate::declare::rank_share::{RankShare, shift_layout};
use crate::declare::stream_info::{StreamInfo, StreamRegion};
use aqueduct_file::hyperslab::Hyperslab;

/// A group of consecutive ranks, as one rank with more boxes.
#[derive(Clone, Debug)]
pub(crate) struct AggregationGroup {
    /// The declaration of the writer for all of them.
    pub(crate) declaration: Declaration,
    /// The places of each member's bytes among those of the group: one list per stream. Empty for lists, whose items
    /// change.
    member_layouts: Vec<Vec<Layout>>,
    members: usize,
}

impl AggregationGroup {
    /// Merges the shares of the members, in the order of their ranks: one share for each stream.
    pub(crate) fn new(abouts: &[StreamInfo], members: &[Vec<MemberShare>]) -> Result<Self, LayoutError> {
        let (mut pieces, mut spots, mut points) = (Vec::new(), Vec::new(), Vec::new());
        for (stream, about) in abouts.iter().enumerate() {
            let shares: Vec<&MemberShare> = members.iter().filter_map(|shares| shares.get(stream)).collect();
            let all = merged_points(&shares);
            let mut parts = Vec::new();
            let (place, places) = match about.region {
                StreamRegion::List => (Layout::bytes(about.item_bytes().unwrap_or(0))?, Vec::new()),
                StreamRegion::Points(_) => points_of(about, &shares, &all)?,
                StreamRegion::Whole | StreamRegion::Cuboids(_) => boxes_of(about, &shares, &mut parts)?,
            };
            let items =
                if about.region == StreamRegion::List { 0 } else { place.size() / about.stored().width() };
            let block = Hyperslab::empty(about.shape.len());
            pieces.push(RankShare {
                block,
                parts,
                expected: None,
                memory: Layout::empty().tiled(0)?,
                place,
                items,
            });
            spots.push(places);
            points.push(all);
        }
        let plan = OutputPlan::default();
        let declared = Declaration { streams: abouts.to_vec(), shares: pieces, points, plan };
        Ok(Self { declaration: declared, member_layouts: spots, members: members.len() })
    }

    /// How a batch of these streams is assembled; `items` has, for each member, its number of items of each stream.
    pub(crate) fn gather_plan(
        &self,
        streams: &[usize],
        items: &[Vec<u64>],
    ) -> Result<GatherPlan, LayoutError> {
        let mut parts = vec![Vec::new(); self.members];
        let (mut totals, mut sizes, mut start) = (Vec::new(), Vec::new(), 0u64);
        for (at, stream) in streams.iter().enumerate() {
            let (about, piece) = (&self.declaration.streams[*stream], &self.declaration.shares[*stream]);
            let each = about.item_bytes().unwrap_or(0);
            let mut inside = 0u64;
            for (member, parts) in parts.iter_mut().enumerate() {
                let spot = match about.region {
                    StreamRegion::List => {
                        let bytes = items.get(member).map_or(0, |items| items[at]).saturating_mul(each);
                        inside += bytes;
                        shift_layout(&Layout::bytes(bytes)?, start + inside - bytes)?
                    }
                    _ => shift_layout(&self.member_layouts[*stream][member], start)?,
                };
                parts.push(Member { count: 1, displacement: 0, layout: spot });
            }
            let bytes = if about.region == StreamRegion::List { inside } else { piece.place.size() };
            totals.push(bytes / each.max(1));
            sizes.push((bytes, about.stored().width()));
            start += bytes;
        }
        let spot = |parts: Vec<Member>| {
            Layout::structure(parts.into_iter().filter(|part| part.layout.size() > 0))?.tiled(1)
        };
        let spots = parts.into_iter().map(spot).collect::<Result<_, _>>()?;
        Ok(GatherPlan::new(spots, totals, sizes))
    }
}

/// The points of all members, in the order of the list.
fn merged_points(shares: &[&MemberShare]) -> RankPoints {
    let mut points: Vec<(u64, u64)> = Vec::new();
    for run_points in shares.iter().map(|share| &share.points) {
        for run in run_points.runs() {
            let here = &run_points.points[run.first..run.first + run.count];
            points.extend((run.start..).zip(here.iter().copied()));
        }
    }
    points.sort_unstable();
    let (numbers, points) = points.into_iter().unzip();
    RankPoints { points, before: shares.first().map_or(0, |share| share.points.before), numbers }
}

/// The places of the points of a group in the stream, and those of each member among them.
fn points_of(
    about: &StreamInfo,
    shares: &[&MemberShare],
    all: &RankPoints,
) -> Result<(Layout, Vec<Layout>), LayoutError> {
    let value = Layout::bytes(about.stored().width())?;
    let inside = |run: PointRun| {
        // The numbers of a member that follow one another do so among those of the group.
        let start = all.numbers.partition_point(|number| *number < run.start) as u64;
        PointRun { start, ..run }
    };
    let spot = |share: &&MemberShare| {
        let runs: Vec<PointRun> = share.points.runs().into_iter().map(inside).collect();
        layout_of_runs(&runs, &value)
    };
    let spots = shares.iter().map(spot).collect::<Result<Vec<_>, LayoutError>>()?;
    Ok((all.layout(&value)?, spots))
}

/// Boxes in file order: their places in the stream, and each member's part of them among the bytes of all.
fn boxes_of(
    about: &StreamInfo,
    shares: &[&MemberShare],
    joints: &mut Vec<(usize, Hyperslab)>,
) -> Result<(Layout, Vec<Layout>), LayoutError> {
    let width = about.stored().width();
    let value = Layout::bytes(width)?;
    let (mut place, mut parts) = (Vec::new(), vec![Vec::new(); shares.len()]);
    let (mut start, mut data) = (0u64, 0u64);
    for (number, cuboid) in about.boxes().into_iter().enumerate() {
        let held = |share: &&MemberShare| share.block.intersection(&cuboid).relative_to(&cuboid);
        let held: Vec<Hyperslab> = shares.iter().map(held).collect();
        for joint in box_order::boxes_in_file_order(&held, &cuboid.count) {
            let there = box_layout(&joint, &value, &cuboid.count)?;
            for (parts, held) in parts.iter_mut().zip(&held) {
                let part = held.intersection(&joint);
                if !part.is_empty() {
                    let layout = box_layout(&part.relative_to(&joint), &value, &joint.count)?;
                    parts.push(Member { count: 1, displacement: data as i64, layout });
                }
            }
            data += there.size();
            joints.push((number, joint.shifted(&cuboid.start)));
            place.push(Member { count: 1, displacement: start as i64, layout: there });
        }
        start += cuboid.volume().unwrap_or(0) * width;
    }
    let spots = parts.into_iter().map(Layout::structure).collect::<Result<_, _>>()?;
    Ok((Layout::structure(place)?, spots))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declare::stream::Stream;
    use crate::value::ValueKind;
    use aqueduct_testkit::rng::SeededRng;

    /// Random blocks of an array: every byte of each member is stored at the same place, whichever rank writes it.
    #[test]
    fn a_group_stores_the_bytes_of_its_members() {
        for number in 0..300 {
            let mut seed = SeededRng::new(number);
            let shape: Vec<u64> = (0..3).map(|_| 1 + seed.number() % 5).collect();
            let (columns, rows) = (1 + seed.number() % 3, 1 + seed.number() % 3);
            let cut = |size: u64, parts: u64, at: u64| (size * at / parts, size * (at + 1) / parts);
            let boxes: Vec<Hyperslab> = (0..=seed.below(3)).map(|_| random_box(&mut seed, &shape)).collect();
            let mut streams = Vec::new();
            for rank in 0..columns * rows {
                let (first, last) = cut(shape[1], rows, rank / columns);
                let (left, right) = cut(shape[2], columns, rank % columns);
                let block = ([0, first, left], [shape[0], last - first, right - left]);
                let stream = Stream::array("a", shape.clone()).block(block.0, block.1);
                streams.push(stream.cuboids(boxes.clone()));
            }
            let skip = seed.below(streams.len());
            compare(&streams[skip..], number);
        }
    }

    fn random_box(seed: &mut SeededRng, shape: &[u64]) -> Hyperslab {
        let start: Vec<u64> = shape.iter().map(|size| seed.number() % size).collect();
        let sides = shape.iter().zip(&start);
        let side: Vec<u64> = sides.map(|(size, start)| 1 + seed.number() % (size - start)).collect();
        Hyperslab::new(start, side)
    }

    fn compare(streams: &[Stream], number: u64) {
        let about = StreamInfo::new(&streams[0], ValueKind::U16);
        let member = |stream: &Stream| {
            vec![MemberShare { block: stream.block.clone(), points: RankPoints::default() }]
        };
        let members: Vec<Vec<MemberShare>> = streams.iter().map(member).collect();
        let group = AggregationGroup::new(std::slice::from_ref(&about), &members).unwrap();
        let plan = group.gather_plan(&[0], &vec![vec![0]; members.len()]).unwrap();
        let place = &group.declaration.shares[0].place;
        assert!(place.size() == 0 || place.is_sorted(), "seed {number}");
        let mut data = vec![0u8; plan.bytes() as usize];
        let mut expected = std::collections::HashMap::new();
        for (at, stream) in streams.iter().enumerate() {
            let own = RankShare::new(stream, &about, &RankPoints::default()).unwrap().place;
            let bytes: Vec<u8> = (0..own.size()).map(|byte| (at as u64 * 50 + byte) as u8).collect();
            let places = own.runs(..).flat_map(|run| run.offset..run.end());
            expected.extend(places.zip(bytes.clone()));
            plan.member_pattern(at).scatter(&bytes, 0, &mut data).unwrap();
        }
        let places = place.runs(..).flat_map(|run| run.offset..run.end());
        let found: std::collections::HashMap<i64, u8> = places.zip(data).collect();
        assert_eq!(found, expected, "seed {number}");
    }
}
