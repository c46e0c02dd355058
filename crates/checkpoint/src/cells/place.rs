//! Where each cell goes: rank 0 hears of all runs and puts them in the order of the cells.
//!
//! That no two ranks hold a cell comes out on the way, for the price of a comparison: equal cells would stand side by side.

use aqueduct_comm::Comm;
use bytemuck::{Pod, Zeroable};

use super::sort::Run;
use crate::error::{Error, Kind, Result, agree};
use crate::grid::Grid;

/// A cell that holds particles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Entry {
    pub(crate) cell: u64,
    pub(crate) count: u64,
    /// The checksum of its particles, where the format has one.
    pub(crate) sum: u64,
}

/// What comes out.
pub(crate) struct Placed {
    /// For each run of this rank, how many particles lie before it in the file.
    pub(crate) first: Vec<u64>,
    /// All cells that hold particles, in order; at rank 0 only.
    pub(crate) cells: Vec<Entry>,
    /// Particles of all ranks.
    pub(crate) total: u64,
}

/// Collective.
pub(crate) fn place(comm: &Comm, name: &str, grid: &Grid, runs: &[Run], sums: &[u64]) -> Result<Placed> {
    let talk = |error| Error::talk("write", name, &error);
    let sums = sums.iter().copied().chain(std::iter::repeat(0));
    let mine: Vec<Entry> =
        runs.iter().zip(sums).map(|(run, sum)| Entry { cell: run.cell, count: run.count, sum }).collect();
    let all = comm.gather_varied(0, &mine).map_err(talk)?;
    let arranged = all.map_or(Ok((Vec::new(), Vec::new())), |all| arrange(name, grid, &all));
    let (cells, firsts) = agree(comm, "write", name, arranged)?;
    let first = comm.scatter_varied(0, &firsts).map_err(talk)?;
    let mut total = [cells.iter().map(|entry| entry.count).sum::<u64>()];
    comm.broadcast(0, &mut total).map_err(talk)?;
    Ok(Placed { first, cells, total: total[0] })
}

/// The cells of all ranks in order, and for each rank how many particles lie before each of its runs.
fn arrange(name: &str, grid: &Grid, all: &[Vec<Entry>]) -> Result<(Vec<Entry>, Vec<Vec<u64>>)> {
    let mut order: Vec<(u64, u32, u32)> = Vec::with_capacity(all.iter().map(Vec::len).sum());
    for (rank, entries) in all.iter().enumerate() {
        order.extend(entries.iter().zip(0..).map(|(entry, index)| (entry.cell, rank as u32, index)));
    }
    order.sort_unstable();
    if let Some(pair) = order.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let detail = format!(
            "ranks {} and {} both hold particles of cell {} of {:?}; give a grid whose cells lie on one rank each",
            pair[0].1,
            pair[1].1,
            pair[0].0,
            grid.cells()
        );
        return Err(Error::new(Kind::Overlap, "write", name, detail));
    }
    let mut firsts: Vec<Vec<u64>> = all.iter().map(|entries| vec![0; entries.len()]).collect();
    let mut cells = Vec::with_capacity(order.len());
    let mut before = 0;
    for (_, rank, index) in order {
        let entry = all[rank as usize][index as usize];
        firsts[rank as usize][index as usize] = before;
        before += entry.count;
        cells.push(entry);
    }
    Ok((cells, firsts))
}

/// Where runs of rows lie in a file, joined where they touch: (length in bytes, place).
pub(crate) fn blocks(runs: impl Iterator<Item = (u64, u64)>, row: u64) -> Vec<(u64, i64)> {
    let mut blocks: Vec<(u64, i64)> = Vec::new();
    for (first, count) in runs.filter(|(_, count)| *count > 0) {
        let (place, len) = ((first * row) as i64, count * row);
        match blocks.last_mut() {
            Some((length, start)) if *start + *length as i64 == place => *length += len,
            _ => blocks.push((len, place)),
        }
    }
    blocks
}
