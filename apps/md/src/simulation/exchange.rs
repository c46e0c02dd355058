//! Exchange of molecules between ranks: to their owners, and ghost molecules to the neighbours.

use anyhow::{Result, bail};
use aqueduct::comm::{Comm, Op, Plain};

use crate::decomposition::Decomposition;
use crate::decomposition::cell_box::CellBox;
use crate::decomposition::grid::SimulationGrid;
use crate::decomposition::halo::Neighbour;
use crate::force::linked_cells::Ghost;
use aqueduct::checkpoint::Molecule;

const MOVED: u32 = 1;
const COPIED: u32 = 2;

/// Sends molecules on any ranks to their owners.
pub fn send_to_owners(
    world: &Comm,
    owner: impl Fn(&Molecule) -> usize,
    molecules: &[Molecule],
) -> Result<Vec<Molecule>> {
    let mut parts: Vec<Vec<Molecule>> = vec![Vec::new(); world.size()];
    molecules.iter().for_each(|molecule| parts[owner(molecule)].push(*molecule));
    Ok(world.all_to_all_varied(&parts)?.concat())
}

/// Distributes the molecules of all ranks by id, about evenly if ids are dense. The order is the same in every step and for every number of
/// ranks. Collective.
pub fn sort_by_id(world: &Comm, molecules: &[Molecule]) -> Result<Vec<Molecule>> {
    let ids = || molecules.iter().map(|molecule| molecule.id);
    let [least, least_below] = [ids().min().unwrap_or(u64::MAX), !ids().max().unwrap_or(0)];
    let ends = world.allreduce(Op::Min, &[least, least_below])?;
    let (least, greatest) = (ends[0], !ends[1]);
    let (span, ranks) = (u128::from(greatest.saturating_sub(least)) + 1, world.size() as u128);
    let owner = |molecule: &Molecule| (u128::from(molecule.id - least) * ranks / span) as usize;
    let mut mine = send_to_owners(world, owner, molecules)?;
    mine.sort_unstable_by_key(|molecule| molecule.id);
    Ok(mine)
}

/// Sends molecules that have left the box of this rank to the neighbours that own them now.
pub fn migrate(
    world: &Comm,
    grid: &SimulationGrid,
    decomposition: &Decomposition,
    neighbours: &[Neighbour],
    molecules: &mut Vec<Molecule>,
) -> Result<()> {
    let mut parts: Vec<Vec<Molecule>> = vec![Vec::new(); neighbours.len()];
    let cell_box = decomposition.cell_box(world.rank());
    let mut lost = None;
    molecules.retain(|molecule| {
        let cell = grid.cell_of(molecule.position);
        if cell_box.contains(cell) {
            return true;
        }
        let owner = decomposition.owner(cell);
        match neighbours.iter().position(|neighbour| neighbour.rank == owner) {
            Some(place) => parts[place].push(*molecule),
            None => lost = Some((molecule.id, owner)),
        }
        false
    });
    if let Some((id, owner)) = lost {
        bail!(
            "molecule {id} moved beyond the neighbours of rank {} to rank {owner}; use a shorter timestepLength",
            world.rank()
        );
    }
    for arrived in swap(world, MOVED, neighbours, parts)? {
        molecules.extend(arrived);
    }
    Ok(())
}

/// Copies of the molecules in the layer of cells around this rank's box, with the indices of their cells in the grown box.
///
/// `molecules` are sorted; `starts` has the index of the first molecule of each cell of the rank's box.
pub fn ghosts(
    world: &Comm,
    cell_box: &CellBox,
    neighbours: &[Neighbour],
    molecules: &[Molecule],
    starts: &[usize],
) -> Result<Vec<Ghost>> {
    let parts = neighbours.iter().map(|neighbour| copies(cell_box, neighbour, molecules, starts)).collect();
    let arrived = swap(world, COPIED, neighbours, parts)?;
    let around = cell_box.grown();
    let mut ghosts = Vec::with_capacity(arrived.iter().map(Vec::len).sum());
    for (neighbour, copies) in neighbours.iter().zip(arrived) {
        let places: Vec<usize> = neighbour
            .incoming
            .iter()
            .flat_map(|strip| strip.target.iter())
            .map(|cell| around.index(cell))
            .collect();
        ghosts
            .extend(copies.iter().map(|ghost| Ghost { cell: places[ghost.cell as usize] as u32, ..*ghost }));
    }
    Ok(ghosts)
}

/// The molecules that a neighbour needs, with the indices of their cells among those that it gets from this rank.
fn copies(cell_box: &CellBox, neighbour: &Neighbour, molecules: &[Molecule], starts: &[usize]) -> Vec<Ghost> {
    let mut copies = Vec::new();
    let cells =
        neighbour.outgoing.iter().flat_map(|strip| strip.source.iter().map(|cell| (cell, strip.shift)));
    for (number, (cell, shift)) in cells.enumerate() {
        let place = cell_box.index(cell);
        copies.extend(molecules[starts[place]..starts[place + 1]].iter().map(|molecule| Ghost {
            position: std::array::from_fn(|axis| molecule.position[axis] + shift[axis]),
            component: molecule.component as u32,
            cell: number as u32,
        }));
    }
    copies
}

/// Sends a part to each neighbour and receives one from each.
fn swap<T: Plain>(
    world: &Comm,
    tag: u32,
    neighbours: &[Neighbour],
    parts: Vec<Vec<T>>,
) -> Result<Vec<Vec<T>>> {
    let mut own = None;
    let mut sending = Vec::new();
    for (neighbour, part) in neighbours.iter().zip(parts) {
        if neighbour.rank == world.rank() {
            own = Some(part);
        } else {
            sending.push(world.start_send(neighbour.rank, tag, part)?);
        }
    }
    let mut arrived = Vec::with_capacity(neighbours.len());
    for neighbour in neighbours {
        arrived.push(match &mut own {
            Some(part) if neighbour.rank == world.rank() => std::mem::take(part),
            _ => world.receive(neighbour.rank, tag)?.0,
        });
    }
    sending.into_iter().try_for_each(|sending| sending.wait().map(drop))?;
    Ok(arrived)
}
