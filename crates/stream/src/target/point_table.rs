//! The numbers of the points of a stream, stored beside its values.

use aqueduct_comm::{Comm, Op};

use crate::declare::declaration::Declaration;
use crate::error::{Error, Result};

/// Writes this rank's points of a stream, run by run: `write` is collective, and called as often on all ranks.
pub(super) fn write_points(
    comm: &Comm,
    name: &str,
    declared: &Declaration,
    stream: usize,
    write: impl Fn(u64, &[u64]) -> Result<()>,
) -> Result<()> {
    let (mine, runs) = (declared.points(stream), declared.point_runs(stream));
    let rounds = comm.allreduce_one(Op::Max, runs.len() as u64);
    let rounds = rounds.map_err(|error| Error::from_comm("create", name, &error))? as usize;
    (0..rounds).try_for_each(|round| match runs.get(round) {
        Some(run) => write(run.start, &mine[run.first..run.first + run.count]),
        None => write(0, &[]),
    })
}
