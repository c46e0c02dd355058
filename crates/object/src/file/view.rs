//! Views: the objects of a file that a rank accesses. A view is independent of files and types.

use aqueduct_comm::{Comm, Op};
use aqueduct_file::View;
use aqueduct_file::layout::{Layout, LayoutError};

use crate::error::{Error, Kind, Result, agree};

/// The objects of a file that a rank accesses: a pattern that repeats from a first object on.
///
/// ```
/// use aqueduct_object::ObjectView;
///
/// // Of every five objects the first two.
/// let view = ObjectView::mask("11000")?;
/// assert_eq!((0..5).map(|at| view.number(at).unwrap()).collect::<Vec<_>>(), [0, 1, 5, 6, 10]);
/// // The same, after a header of three objects.
/// assert_eq!(view.starting_at(3).number(2), Some(8));
/// # Ok::<(), aqueduct_object::Error>(())
/// ```
///
/// | | objects of 3 ranks a, b, c |
/// |---|---|
/// | [`ObjectView::all`] | every rank accesses all objects |
/// | [`ObjectView::contiguous`] of 2, 4 and 3 | `a a b b b b c c c`, and again from a |
/// | [`ObjectView::block`] of 12 | `a a a a b b b b c c c c`, and again from a |
/// | [`ObjectView::round_robin`] | `a b c a b c a b c` |
/// | [`ObjectView::cyclic`] of 2 | `a a b b c c a a b b c c` |
/// | [`ObjectView::mask`], [`bools`](ObjectView::bools), [`pattern`](ObjectView::pattern) | a pattern of the program |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectView {
    /// The first object of the first period.
    start: u64,
    period: u64,
    /// Runs of objects in a period: first, length.
    runs: Vec<(u64, u64)>,
    /// The number of objects of the view in a period before each run.
    before: Vec<u64>,
    /// The number of objects of the view in a period.
    seen: u64,
}

impl Default for ObjectView {
    fn default() -> Self {
        Self::all()
    }
}

impl ObjectView {
    /// All objects.
    pub fn all() -> Self {
        Self { start: 0, period: 1, runs: vec![(0, 1)], before: vec![0], seen: 1 }
    }

    /// A mask of ones and zeros, such as `"11000"`, that repeats: the view has the objects at the ones.
    pub fn mask(mask: &str) -> Result<Self> {
        let bit = |letter: char| match letter {
            '0' => Ok(false),
            '1' => Ok(true),
            other => Err(refused(format!("{other:?} in the mask {mask:?}: a mask consists of 0 and 1"))),
        };
        Self::bools(&mask.chars().map(bit).collect::<Result<Vec<bool>>>()?)
    }

    /// A mask as a slice, that repeats.
    pub fn bools(mask: &[bool]) -> Result<Self> {
        Self::pattern(mask.len() as u64, |object| mask[object as usize])
    }

    /// A pattern of `period` objects that repeats, given by a function.
    ///
    /// ```
    /// # use aqueduct_object::ObjectView;
    /// let diagonal = ObjectView::pattern(9, |object| object % 4 == 0)?;
    /// assert_eq!(diagonal.number(3), Some(9));
    /// # Ok::<(), aqueduct_object::Error>(())
    /// ```
    pub fn pattern(period: u64, mut sees: impl FnMut(u64) -> bool) -> Result<Self> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for object in (0..period).filter(|object| sees(*object)) {
            match runs.last_mut() {
                Some((first, length)) if *first + *length == object => *length += 1,
                _ => runs.push((object, 1)),
            }
        }
        Self::of_runs(period, runs)
    }

    /// Each rank has `count` objects of its own, in rank order. The pattern repeats, for example for time steps, so that no rank accesses the part of
    /// another. The counts may differ. Collective; the view can be used for any number of files.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// # use aqueduct_object::ObjectView;
    /// Launch::threads(3).run(|world| {
    ///     let count = world.rank() as u64 + 1;
    ///     let view = ObjectView::contiguous(world, count)?;
    ///     assert_eq!(view.number(0), Some([0, 1, 3][world.rank()]));
    ///     assert_eq!(view.number(count), Some(6 + [0, 1, 3][world.rank()]), "the second round");
    ///     Ok::<_, aqueduct_object::Error>(())
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn contiguous(comm: &Comm, count: u64) -> Result<Self> {
        // With this bound every sum of counts is less than 2^64.
        let countable = if count <= u64::MAX / comm.size() as u64 {
            Ok(())
        } else {
            Err(refused(format!("{count} objects per rank exceed the maximum file size; pass fewer")))
        };
        agree(comm, "view", "view", countable)?;
        let before = comm.exclusive_scan(Op::Sum, &[count])?.map_or(0, |before| before[0]);
        let total = comm.allreduce_one(Op::Sum, count)?;
        let runs = if count > 0 { vec![(before, count)] } else { Vec::new() };
        Self::of_runs(total.max(1), runs)
    }

    /// One block of `total` objects per rank, of equal lengths except the last ones. The pattern repeats, for example for time steps.
    pub fn block(comm: &Comm, total: u64) -> Result<Self> {
        let length = total.div_ceil(comm.size() as u64);
        let first = (length * comm.rank() as u64).min(total);
        let runs = if first < total { vec![(first, length.min(total - first))] } else { Vec::new() };
        Self::of_runs(total, runs)
    }

    /// Objects distributed round-robin over the ranks.
    pub fn round_robin(comm: &Comm) -> Self {
        // One object of a period with one object per rank is a valid view.
        Self::cyclic(comm, 1).unwrap_or_default()
    }

    /// Blocks of `block` objects distributed round-robin over the ranks.
    pub fn cyclic(comm: &Comm, block: u64) -> Result<Self> {
        let period = block.checked_mul(comm.size() as u64);
        let period = period
            .ok_or_else(|| refused(format!("rounds of {block} objects exceed the maximum file size")))?;
        Self::of_runs(period, vec![(block * comm.rank() as u64, block)])
    }

    fn of_runs(period: u64, runs: Vec<(u64, u64)>) -> Result<Self> {
        if period == 0 {
            return Err(refused("the pattern has no objects; it needs at least one".to_owned()));
        }
        let mut seen = 0;
        let mut add = |length: u64| {
            seen += length;
            seen - length
        };
        let before = runs.iter().map(|(_, length)| add(*length)).collect();
        Ok(Self { start: 0, period, runs, before, seen })
    }

    /// The same pattern from object `start` of the file on.
    #[must_use]
    pub fn starting_at(&self, start: u64) -> Self {
        Self { start, ..self.clone() }
    }

    /// The number in the file of object `place` of this view; none beyond the maximum file size, or if the view is empty.
    pub fn number(&self, place: u64) -> Option<u64> {
        let (round, within) = (place.checked_div(self.seen)?, place.checked_rem(self.seen)?);
        let run = self.before.partition_point(|before| *before <= within) - 1;
        let inside = self.runs[run].0 + (within - self.before[run]);
        round.checked_mul(self.period)?.checked_add(inside)?.checked_add(self.start)
    }

    /// The number of objects of the view before object `number` of the file.
    pub fn count_before(&self, number: u64) -> u64 {
        let Some(behind) = number.checked_sub(self.start) else { return 0 };
        let (rounds, within) = (behind / self.period, behind % self.period);
        let whole = rounds.saturating_mul(self.seen);
        let run = self.runs.partition_point(|(first, _)| *first < within);
        let partly = run.checked_sub(1).map_or(0, |run| {
            let (first, length) = self.runs[run];
            self.before[run] + (within - first).min(length)
        });
        whole.saturating_add(partly)
    }

    /// The position of object `number` of the file in this view, if the view has it.
    pub fn place(&self, number: u64) -> Option<u64> {
        let place = self.count_before(number);
        (self.number(place) == Some(number)).then_some(place)
    }

    /// True if it has all objects from its start on.
    pub(crate) fn is_dense(&self) -> bool {
        self.seen == self.period
    }

    /// The view of the file layer: `part` bytes at `offset` of objects of `size` bytes.
    pub(crate) fn bytes(&self, size: u64, offset: u64, part: u64) -> Result<View> {
        let broken = |error: LayoutError| refused(error.to_string());
        let etype = Layout::bytes(part).map_err(broken)?;
        let wide = |objects: u64| {
            let bytes = objects.checked_mul(size).and_then(|bytes| i64::try_from(bytes).ok());
            bytes.ok_or_else(|| refused("the pattern exceeds the maximum file size".to_owned()))
        };
        let displacement = wide(self.start)? as u64 + offset;
        if self.is_dense() && part == size {
            return View::of(displacement, &etype);
        }
        let spaced = etype.resized(0, wide(1)?).map_err(broken)?;
        let runs = self.runs.iter().map(|(first, length)| (*length, *first as i64));
        let tiled =
            spaced.indexed(runs).and_then(|layout| layout.resized(0, wide(self.period).unwrap_or(i64::MAX)));
        wide(self.period)?;
        View::new(displacement, &etype, &tiled.map_err(broken)?)
    }
}

fn refused(detail: String) -> Error {
    Error::new(Kind::BadArgument, "view", "view", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of a view below a limit, found by testing each.
    fn model(mask: &[bool], start: u64, limit: u64) -> Vec<u64> {
        (start..limit).filter(|number| mask[((number - start) % mask.len() as u64) as usize]).collect()
    }

    #[test]
    fn masks_see_what_is_under_a_one() {
        for length in 1..=6u32 {
            for bits in 0..1u32 << length {
                let mask: Vec<bool> = (0..length).map(|bit| bits >> bit & 1 == 1).collect();
                for start in [0, 3] {
                    let view = ObjectView::bools(&mask).unwrap().starting_at(start);
                    let expected = model(&mask, start, 40);
                    let numbers: Vec<u64> =
                        (0..expected.len() as u64).map(|at| view.number(at).unwrap()).collect();
                    assert_eq!(numbers, expected);
                    for number in 0..40 {
                        let before = expected.iter().filter(|seen| **seen < number).count() as u64;
                        assert_eq!(view.count_before(number), before, "{mask:?} {start} {number}");
                        let place = expected.iter().position(|seen| *seen == number);
                        assert_eq!(view.place(number), place.map(|place| place as u64));
                    }
                }
            }
        }
    }

    #[test]
    fn senseless_views_are_refused() {
        for bad in ["", "10x"] {
            assert_eq!(ObjectView::mask(bad).unwrap_err().kind(), Kind::BadArgument);
        }
        assert!(ObjectView::all().starting_at(u64::MAX).bytes(8, 0, 8).is_err());
        assert!(ObjectView::pattern(3, |_| false).unwrap().number(0).is_none());
    }
}
