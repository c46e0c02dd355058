//! The part of one rank of a stream: its sampled values in memory and their places in the file. Pure.

use aqueduct_file::layout::{Layout, LayoutError, Member, Pattern};

use crate::declare::box_layout::box_layout;
use crate::declare::rank_points::RankPoints;
use crate::declare::stream::{SampledRegion, Stream};
use crate::declare::stream_info::StreamInfo;
use crate::value::ValueKind;
use aqueduct_file::hyperslab::{Hyperslab, volume};

/// The part of this rank of a stream.
#[derive(Clone, Debug)]
pub(crate) struct RankShare {
    /// The block of the global array that this rank holds.
    pub(crate) block: Hyperslab,
    /// The parts of the stream's boxes that this rank stores, in the order of its values: the number of the box, and
    /// the part, counted from the start of the global array.
    pub(crate) parts: Vec<(usize, Hyperslab)>,
    /// The number of values that the program passes in a step; none: any number.
    pub(crate) expected: Option<u64>,
    /// The layout of the sampled values among them.
    pub(crate) memory: Pattern,
    /// The layout of the stored values in the stream's part of a batch; for a list, of one item.
    pub(crate) place: Layout,
    /// The number of stored items of this rank; 0 for a list, which has another number in each step.
    pub(crate) items: u64,
}

impl RankShare {
    /// Why a declaration is invalid; none if it is valid.
    pub(crate) fn objection(stream: &Stream, about: &StreamInfo) -> Option<String> {
        if stream.name.is_empty() {
            return Some("a stream has no name; give it one".to_owned());
        }
        if stream.every == Some(0) {
            return Some("it is stored every 0 steps; give 1 or more, or leave it out".to_owned());
        }
        if let Some(kind) = about.stored_as {
            let is_real = |kind| matches!(kind, ValueKind::F32 | ValueKind::F64);
            let accumulated = about.accumulated();
            if kind != accumulated && !(is_real(kind) && is_real(accumulated)) {
                return Some(format!(
                    "values {accumulated:?} cannot be stored as {kind:?}; f32 and f64 are converted"
                ));
            }
        }
        if !about.reduction.suits(about.kind) {
            let (kind, reduction) = (about.kind, about.reduction);
            return Some(format!("values {kind:?} have no reduction {reduction:?}; convert them first"));
        }
        if stream.sampled == SampledRegion::List {
            return Self::list_objection(stream);
        }
        if let Some(objection) = stream.storage.objection(about.array_count()) {
            return Some(objection);
        }
        if let Some(schema) = &stream.object {
            let name = schema.name();
            return Some(format!(
                "{name} are objects, not values of an array; declare it by Stream::objects"
            ));
        }
        if stream.shape.is_empty() {
            return Some("the array has no dimensions; give its shape".to_owned());
        }
        let bytes = about.items().zip(about.item_bytes()).and_then(|(items, each)| items.checked_mul(each));
        if volume(&stream.shape).is_none() || bytes.is_none_or(|bytes| bytes > i64::MAX as u64) {
            return Some("the array has more elements than can be counted".to_owned());
        }
        let shape = &stream.shape;
        if !stream.block.is_inside(shape) {
            let block = &stream.block;
            return Some(format!(
                "this rank's block of shape {:?} at {:?} does not lie in the array of shape {shape:?}",
                block.count, block.start
            ));
        }
        if let Some(memory) = &stream.memory {
            let block = Hyperslab::new(memory.start.clone(), stream.block.count.clone());
            if !block.is_inside(&memory.count) {
                return Some(format!("the block {block:?} does not lie in the memory {:?}", memory.count));
            }
        }
        let held = |point: &u64| position(*point, shape).is_some_and(|at| holds(&stream.block, &at));
        let not_held = |point: &u64| {
            format!("the point {point} does not lie in this rank's block; each rank gives its own")
        };
        match &stream.sampled {
            SampledRegion::Cuboids(cuboids) => {
                let outside = cuboids.iter().find(|cuboid| !cuboid.is_inside(shape))?;
                Some(format!("the cuboid {outside:?} does not lie in the array {shape:?}"))
            }
            SampledRegion::Points(points) => points.iter().find(|point| !held(point)).map(not_held),
            SampledRegion::ListedPoints(points) => {
                points.iter().map(|(_, point)| point).find(|point| !held(point)).map(not_held)
            }
            SampledRegion::Whole | SampledRegion::List => None,
        }
    }

    fn list_objection(stream: &Stream) -> Option<String> {
        if stream.reduction != crate::Reduction::None {
            return Some("a list has other items in every step, which cannot be reduced".to_owned());
        }
        if stream.stored_as.is_some() {
            return Some("the items of a list are stored as they are; leave stored_as out".to_owned());
        }
        if let Some(schema) = stream.object.as_ref().filter(|schema| schema.size() == Some(0)) {
            return Some(format!("objects of {} have no bytes: there is nothing to store", schema.name()));
        }
        (stream.shape[0] == 0 || stream.shape[0] > 1 << 32)
            .then(|| format!("items of {} values; give 1 to 2^32", stream.shape[0]))
    }

    /// The part of a valid declaration, with this rank's points.
    pub(crate) fn new(stream: &Stream, about: &StreamInfo, points: &RankPoints) -> Result<Self, LayoutError> {
        let sampled = Layout::bytes(about.kind.width())?;
        let stored = Layout::bytes(about.stored().width())?;
        let inside = stream.memory.clone().unwrap_or_else(|| Hyperslab::whole(&stream.block.count[..]));
        let expected = Some(volume(&inside.count).unwrap_or(u64::MAX)).filter(|_| !stream.block.is_empty());
        let expected = expected.or(Some(0));
        let (memory, place) = match &stream.sampled {
            SampledRegion::List => {
                let item = Layout::bytes(about.item_bytes().unwrap_or(0))?;
                let block = stream.block.clone();
                let (parts, memory) = (Vec::new(), sampled.tiled(0)?);
                return Ok(Self { block, parts, expected: None, memory, place: item, items: 0 });
            }
            SampledRegion::Points(_) | SampledRegion::ListedPoints(_) => {
                let at = |point: &u64| linear(&position(*point, &stream.shape)?, &stream.block, &inside);
                let memory = sampled.indexed_block(1, points.points.iter().filter_map(at))?;
                (memory, points.layout(&stored)?)
            }
            SampledRegion::Whole | SampledRegion::Cuboids(_) => {
                boxes(stream, about, &inside, &sampled, &stored)?
            }
        };
        let items = memory.size() / about.kind.width();
        let held = about.boxes().into_iter().map(|one| one.intersection(&stream.block)).enumerate();
        let parts = held.filter(|(_, part)| !part.is_empty()).collect();
        Ok(Self { block: stream.block.clone(), parts, expected, memory: memory.tiled(1)?, place, items })
    }
}

/// The parts of each box that are in this rank's block: in memory, and in the boxes one after the other.
fn boxes(
    stream: &Stream,
    about: &StreamInfo,
    inside: &Hyperslab,
    sampled: &Layout,
    stored: &Layout,
) -> Result<(Layout, Layout), LayoutError> {
    let (mut memory, mut place) = (Vec::new(), Vec::new());
    let mut start = 0;
    for cuboid in about.boxes() {
        let part = cuboid.intersection(&stream.block);
        if !part.is_empty() {
            let here = part.relative_to(&stream.block).shifted(&inside.start);
            memory.push(Member {
                count: 1,
                displacement: 0,
                layout: box_layout(&here, sampled, &inside.count)?,
            });
            let there = box_layout(&part.relative_to(&cuboid), stored, &cuboid.count)?;
            place.push(Member { count: 1, displacement: start as i64, layout: there });
        }
        start += cuboid.volume().unwrap_or(0) * about.stored().width();
    }
    Ok((Layout::structure(memory)?, Layout::structure(place)?))
}

/// The same bytes, moved by a distance.
pub(crate) fn shift_layout(layout: &Layout, by: u64) -> Result<Layout, LayoutError> {
    if layout.size() == 0 {
        return Ok(Layout::empty());
    }
    Layout::structure([Member { count: 1, displacement: by as i64, layout: layout.clone() }])
}

/// The index of element number `point` of an array.
fn position(point: u64, shape: &[u64]) -> Option<Vec<u64>> {
    let mut rest = point;
    let mut position = vec![0; shape.len()];
    for (at, size) in position.iter_mut().zip(shape).rev() {
        *at = rest % (*size).max(1);
        rest /= (*size).max(1);
    }
    (rest == 0 && !shape.contains(&0)).then_some(position)
}

fn holds(block: &Hyperslab, position: &[u64]) -> bool {
    let sides = position.iter().zip(block.start.iter().zip(&block.count));
    sides.into_iter().all(|(at, (start, size))| at.checked_sub(*start).is_some_and(|at| at < *size))
}

/// The number of an element of the block in the array in memory.
fn linear(position: &[u64], block: &Hyperslab, inside: &Hyperslab) -> Option<i64> {
    let sides = position.iter().zip(&block.start).zip(inside.start.iter().zip(&inside.count));
    let number = sides.fold(0, |number, ((at, start), (first, size))| number * size + (at - start + first));
    i64::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use aqueduct_object::Object;

    use super::*;
    use crate::declare::stream::Reduction;

    fn piece(stream: &Stream) -> RankShare {
        let about = StreamInfo::new(stream, ValueKind::U16);
        assert_eq!(RankShare::objection(stream, &about), None);
        let points = match &stream.sampled {
            SampledRegion::Points(points) => points.clone(),
            _ => Vec::new(),
        };
        RankShare::new(stream, &about, &RankPoints { points, before: 5, numbers: Vec::new() }).unwrap()
    }

    /// The offset and length of runs.
    fn runs(pattern: &Pattern) -> Vec<(i64, u64)> {
        pattern.runs(..).map(|run| (run.offset, run.len)).collect()
    }

    #[test]
    fn a_block_with_halo_is_stored_in_each_box() {
        let stream = Stream::array("a", [4, 4]).block([2, 0], [2, 4]).in_memory([4, 6], [1, 1]);
        let stream = stream.cuboids([Hyperslab::new([0, 0], [2, 2]), Hyperslab::new([1, 1], [2, 2])]);
        let piece = piece(&stream);
        // Of the second box, elements (2, 1) and (2, 2): row 1 of memory, columns 2 and 3.
        assert_eq!(runs(&piece.memory), [(2 * 8, 4)]);
        // After four elements of the first box and two of the second.
        assert_eq!(runs(piece.place.pattern()), [(2 * 6, 4)]);
        assert_eq!((piece.items, piece.expected), (2, Some(24)));
    }

    #[test]
    fn points_follow_those_of_the_ranks_before() {
        let stream = Stream::array("a", [4, 4]).block([2, 0], [2, 4]).points([15, 8, 9]);
        let points = piece(&stream);
        assert_eq!(runs(&points.memory), [(14, 2), (0, 4)]);
        assert_eq!(runs(points.place.pattern()), [(10, 6)]);
        let mean = piece(&stream.reduce(Reduction::Mean));
        assert_eq!(runs(mean.place.pattern()), [(40, 24)], "means are wider than what they are of");
    }

    #[test]
    fn a_rank_without_data_has_an_empty_share() {
        let nothing = piece(&Stream::array("a", [4, 4]));
        assert_eq!((nothing.items, nothing.expected, nothing.place.size()), (0, Some(0), 0));
    }

    #[test]
    fn invalid_declarations_are_named() {
        let array = || Stream::array("a", [4, 4]).block([0, 0], [4, 4]);
        let wrong = [
            (array().block([3, 0], [2, 1]), "this rank's block"),
            (array().in_memory([4, 4], [0, 1]), "does not lie in the memory"),
            (array().cuboids([Hyperslab::new([0], [1])]), "the cuboid"),
            (array().points([3, 16]), "the point 16"),
            (array().block([0, 0], [1, 4]).points([4]), "the point 4"),
            (array().every(0), "every 0 steps"),
            (array().stored_as::<u8>(), "cannot be stored as U8"),
            (array().paths(["/a", "/b"]), "2 paths for 1 arrays"),
            (array().deflate(10), "levels 0 to 9"),
            (array().block([0, 0], [1, 4]).listed_points([(0, 4)]), "the point 4"),
            (Stream::array("", [1]), "no name"),
            (Stream::array("a", []), "no dimensions"),
            (Stream::array("a", [1 << 40, 1 << 40]), "more elements"),
            (Stream::list("a", 0), "items of 0 values"),
            (Stream::list("a", 1).reduce(Reduction::Max), "cannot be reduced"),
            (Stream { object: Some(u8::schema()), ..array() }, "declare it by Stream::objects"),
            (Stream { object: Some(<()>::schema()), ..Stream::objects("a") }, "have no bytes"),
        ];
        for (stream, words) in wrong {
            let objection = RankShare::objection(&stream, &StreamInfo::new(&stream, ValueKind::F64)).unwrap();
            assert!(objection.contains(words), "{objection}");
        }
    }
}
