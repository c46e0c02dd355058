//! The points of a rank in a stream, and their places in its list. Pure, apart from the check of all ranks together.

use aqueduct_comm::Comm;
use aqueduct_file::layout::{Layout, LayoutError};

use crate::error::{Error, Kind, Result, agree};

/// The points of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RankPoints {
    /// By their numbers in the global array, in the order in which this rank stores them.
    pub(crate) points: Vec<u64>,
    /// The number of points of the ranks before this one.
    pub(crate) before: u64,
    /// Their numbers in the list, ascending; empty if the list has the points in the order of the ranks.
    pub(crate) numbers: Vec<u64>,
}

/// Points whose numbers in the list follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointRun {
    /// The number of the first one in the list.
    pub start: u64,
    /// The number of the first one among the points of this rank.
    pub first: usize,
    /// The number of points.
    pub count: usize,
}

impl RankPoints {
    /// The places of the points in the list.
    pub(crate) fn runs(&self) -> Vec<PointRun> {
        if self.numbers.is_empty() {
            let whole = PointRun { start: self.before, first: 0, count: self.points.len() };
            return Some(whole).filter(|run| run.count > 0).into_iter().collect();
        }
        runs_of(&self.numbers)
    }

    /// The layout of the values in the list.
    pub(crate) fn layout(&self, value: &Layout) -> std::result::Result<Layout, LayoutError> {
        layout_of_runs(&self.runs(), value)
    }
}

/// Runs of ascending numbers.
pub(crate) fn runs_of(numbers: &[u64]) -> Vec<PointRun> {
    let mut runs: Vec<PointRun> = Vec::new();
    for (first, number) in numbers.iter().enumerate() {
        match runs.last_mut() {
            Some(last) if last.start + last.count as u64 == *number => last.count += 1,
            _ => runs.push(PointRun { start: *number, first, count: 1 }),
        }
    }
    runs
}

/// The layout of values at these places.
pub(crate) fn layout_of_runs(runs: &[PointRun], value: &Layout) -> std::result::Result<Layout, LayoutError> {
    if runs.is_empty() {
        return Ok(Layout::empty());
    }
    value.indexed(runs.iter().map(|run| (run.count as u64, run.start as i64)))
}

/// Fails unless the numbers of all ranks are those from 0 to `total`, each once: each rank checks a part of them. Collective.
pub(crate) fn check_numbers(
    comm: &Comm,
    file: &str,
    stream: &str,
    numbers: &[u64],
    total: u64,
) -> Result<()> {
    let refuse = |detail: String| {
        Err(Error::new(Kind::BadArgument, "create", file, format!("stream {stream:?}: {detail}")))
    };
    let ranks = comm.size() as u64;
    let part = total.div_ceil(ranks).max(1);
    let outside = numbers.iter().find(|number| **number >= total);
    let mine = outside.map_or(Ok(()), |number| {
        refuse(format!(
            "a point has the number {number} in the list of {total} points; number them from 0 on, each once"
        ))
    });
    agree(comm, "create", file, mine)?;
    let mut parts = vec![Vec::new(); comm.size()];
    for number in numbers {
        parts[(number / part) as usize].push(*number);
    }
    let received =
        comm.all_to_all_varied(&parts).map_err(|error| Error::from_comm("create", file, &error))?;
    let first = comm.rank() as u64 * part;
    let mut seen = vec![false; part as usize];
    let again = received
        .iter()
        .flatten()
        .find(|number| std::mem::replace(&mut seen[(**number - first) as usize], true));
    // As many as there are, and none twice: each is there once.
    let mine = again.map_or(Ok(()), |number| {
        refuse(format!("two points have the number {number} in the list; number them from 0 on, each once"))
    });
    agree(comm, "create", file, mine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_stored_at_their_numbers() {
        let value = Layout::bytes(4).unwrap();
        let points = RankPoints { points: vec![9, 9, 7, 1], before: 50, numbers: vec![0, 3, 4, 8] };
        let runs: Vec<(i64, u64)> =
            points.layout(&value).unwrap().pattern().runs(..).map(|run| (run.offset, run.len)).collect();
        assert_eq!(runs, [(0, 4), (12, 8), (32, 4)]);
        let in_order = RankPoints { numbers: Vec::new(), ..points };
        assert_eq!(in_order.runs(), [PointRun { start: 50, first: 0, count: 4 }]);
        assert_eq!(RankPoints::default().layout(&value).unwrap().size(), 0);
    }
}
