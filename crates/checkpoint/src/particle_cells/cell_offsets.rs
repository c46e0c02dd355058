//! The offsets of cells in a file. Rank 0 gathers the runs of all ranks and sorts them by cell.
//!
//! The sort also finds a cell that two ranks hold, since equal cells are then adjacent. Other formats that store particles by cell can
//! use these functions too.

use aqueduct_comm::Comm;
use aqueduct_file::View;
use aqueduct_file::layout::{Basic, Layout};
use bytemuck::{Pod, Zeroable};

use super::particle_order::{CellRun, ParticleOrder};
use crate::error::{Error, Kind, Result, agree};
use crate::grid::CellGrid;
use crate::molecule::Particle;

/// A cell with particles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct OccupiedCell {
    /// The number of the cell.
    pub cell: u64,
    /// The number of particles in it.
    pub count: u64,
}

/// The offsets of a rank's runs, and, at rank 0, all cells.
pub struct CellOffsets {
    /// For each run of this rank, the number of particles before it in the file.
    pub first: Vec<u64>,
    /// All cells with particles, ascending; at rank 0 only.
    pub cells: Vec<OccupiedCell>,
    /// For each of these cells, the rank and the number of its run there; at rank 0 only.
    pub owners: Vec<(u32, u32)>,
    /// The number of particles of all ranks.
    pub total: u64,
}

/// Sorts this rank's particles by cell; an error on one rank is an error on all. Collective.
pub fn order_particles<P: Particle>(
    comm: &Comm,
    name: &str,
    grid: &CellGrid,
    particles: &[P],
) -> Result<ParticleOrder> {
    let found = ParticleOrder::of(grid, particles);
    agree(comm, "write", name, found.map_err(|detail| Error::new(Kind::BadArgument, "write", name, detail)))
}

/// Assigns an offset in the file to each run of cells of all ranks. Collective.
pub fn assign_offsets(comm: &Comm, name: &str, grid: &CellGrid, runs: &[CellRun]) -> Result<CellOffsets> {
    let comm_error = |error| Error::from_comm("write", name, &error);
    let mine: Vec<OccupiedCell> =
        runs.iter().map(|run| OccupiedCell { cell: run.cell, count: run.count }).collect();
    let all = comm.gather_varied(0, &mine).map_err(comm_error)?;
    let arranged = all.map_or_else(|| Ok(SortedCells::default()), |all| sort_cells(name, grid, &all));
    let SortedCells { cells, owners, firsts } = agree(comm, "write", name, arranged)?;
    let first = comm.scatter_varied(0, &firsts).map_err(comm_error)?;
    let mut total = [cells.iter().map(|entry| entry.count).sum::<u64>()];
    comm.broadcast(0, &mut total).map_err(comm_error)?;
    Ok(CellOffsets { first, cells, owners, total: total[0] })
}

/// The cells of all ranks, ascending, their owners, and for each rank the number of particles before each of its runs.
#[derive(Default)]
struct SortedCells {
    cells: Vec<OccupiedCell>,
    owners: Vec<(u32, u32)>,
    firsts: Vec<Vec<u64>>,
}

fn sort_cells(name: &str, grid: &CellGrid, all: &[Vec<OccupiedCell>]) -> Result<SortedCells> {
    let mut order: Vec<(u64, u32, u32)> = Vec::with_capacity(all.iter().map(Vec::len).sum());
    for (rank, entries) in all.iter().enumerate() {
        order.extend(entries.iter().zip(0..).map(|(entry, index)| (entry.cell, rank as u32, index)));
    }
    order.sort_unstable();
    if let Some(pair) = order.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let detail = format!(
            "ranks {} and {} both hold particles of cell {} of {:?}; use a grid in which each cell is on one rank",
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
    for (_, rank, index) in &order {
        let entry = all[*rank as usize][*index as usize];
        firsts[*rank as usize][*index as usize] = before;
        before += entry.count;
        cells.push(entry);
    }
    let owners = order.into_iter().map(|(_, rank, index)| (rank, index)).collect();
    Ok(SortedCells { cells, owners, firsts })
}

/// The blocks of a file that runs of rows occupy, adjacent ones joined: length in bytes, offset.
pub fn blocks(runs: impl Iterator<Item = (u64, u64)>, row: u64) -> Vec<(u64, i64)> {
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

/// The view of blocks of bytes whose offsets count from `start`.
pub fn block_view(name: &str, start: u64, blocks: &[(u64, i64)]) -> Result<View> {
    let byte = Layout::from(Basic::U8);
    let made = byte.hindexed(blocks.iter().copied()).map_err(|error| error.to_string());
    let bad = |detail: String| Error::new(Kind::Damaged, "access", name, detail);
    let view =
        made.and_then(|filetype| View::new(start, &byte, &filetype).map_err(|error| error.to_string()));
    view.map_err(bad)
}
