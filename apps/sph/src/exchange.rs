//! Messages between ranks: particles to their owners, values of particles to the neighbours that need them.

use anyhow::Result;
use aqueduct::comm::{Comm, SendRequest};
use aqueduct_decomposition::cell_box::CellBox;
use aqueduct_decomposition::grid::SimulationGrid;
use aqueduct_decomposition::halo::Neighbour;

use crate::particle_set::ParticleSet;

const GHOSTS: u32 = 1;

/// Sends particles to the owners of their positions: `owner` returns the rank of a particle.
pub fn send_to_owners(
    world: &Comm,
    particles: &mut ParticleSet,
    owner: impl Fn(usize) -> usize,
) -> Result<()> {
    let mut parts: Vec<Vec<u64>> = vec![Vec::new(); world.size()];
    let mut stay = Vec::with_capacity(particles.len());
    for at in 0..particles.len() {
        match owner(at) {
            rank if rank == world.rank() => stay.push(at),
            rank => particles.pack_row(at, &mut parts[rank]),
        }
    }
    if stay.len() < particles.len() {
        particles.select(&stay);
    }
    // Few ranks exchange particles, if any: only these send.
    let messages: Vec<(usize, Vec<u8>)> = parts
        .into_iter()
        .enumerate()
        .filter(|(_, words)| !words.is_empty())
        .map(|(rank, words)| (rank, words.iter().flat_map(|word| word.to_le_bytes()).collect()))
        .collect();
    let mut arrived = world.route(&messages)?;
    arrived.sort_unstable_by_key(|(rank, _)| *rank);
    for (_, bytes) in arrived {
        let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        particles.unpack_rows(&words);
    }
    Ok(())
}

/// Which particles a rank sends to its neighbours and receives from them, for one arrangement of the particles.
#[derive(Debug, Default)]
pub struct GhostPlan {
    /// Per neighbour: its rank, the indices of the particles that it gets, and the shift of each across the periodic boundary.
    sends: Vec<(usize, Vec<u32>, Vec<[f64; 3]>)>,
    /// Per neighbour: its rank and the number of particles that it sends.
    receives: Vec<(usize, usize)>,
    /// The cell of each ghost in the grown box of this rank.
    pub cells: Vec<usize>,
}

impl GhostPlan {
    /// The plan for particles that are sorted by cell; `starts` has the index of the first one of each cell of the box. Collective.
    pub fn new(world: &Comm, cell_box: &CellBox, neighbours: &[Neighbour], starts: &[usize]) -> Result<Self> {
        let mut plan = Self::default();
        let mut counts: Vec<Vec<u64>> = Vec::new();
        for neighbour in neighbours {
            let (mut indices, mut shifts, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
            for strip in &neighbour.outgoing {
                for cell in strip.source.iter() {
                    let place = cell_box.index(cell);
                    let range = starts[place]..starts[place + 1];
                    numbers.push(range.len() as u64);
                    shifts.extend(std::iter::repeat_n(strip.shift, range.len()));
                    indices.extend(range.map(|at| at as u32));
                }
            }
            plan.sends.push((neighbour.rank, indices, shifts));
            counts.push(numbers);
        }
        let around = cell_box.grown();
        for (neighbour, numbers) in
            neighbours.iter().zip(swap(world, neighbours.iter().map(|n| n.rank), counts)?)
        {
            let cells = neighbour.incoming.iter().flat_map(|strip| strip.target.iter());
            let before = plan.cells.len();
            for (cell, number) in cells.zip(numbers) {
                plan.cells.extend(std::iter::repeat_n(around.index(cell), number as usize));
            }
            plan.receives.push((neighbour.rank, plan.cells.len() - before));
        }
        Ok(plan)
    }

    /// The number of ghosts.
    pub fn ghosts(&self) -> usize {
        self.cells.len()
    }

    /// Sends `width` values of each particle that a neighbour needs, which `fill` appends, and returns those of the ghosts in their order.
    /// The second argument of `fill` is the shift of positions. Collective among neighbours.
    pub fn exchange(
        &self,
        world: &Comm,
        width: usize,
        fill: impl Fn(usize, [f64; 3], &mut Vec<f64>),
    ) -> Result<Vec<f64>> {
        let pack = |(_, indices, shifts): &(usize, Vec<u32>, Vec<[f64; 3]>)| {
            let mut values = Vec::with_capacity(width * indices.len());
            for (at, shift) in indices.iter().zip(shifts) {
                fill(*at as usize, *shift, &mut values);
            }
            values
        };
        let parts = self.sends.iter().map(pack).collect();
        let arrived = swap(world, self.sends.iter().map(|(rank, ..)| *rank), parts)?;
        for ((rank, count), values) in self.receives.iter().zip(&arrived) {
            anyhow::ensure!(
                values.len() == width * count,
                "rank {rank} sent {} values of {count} particles, expected {width} of each",
                values.len()
            );
        }
        Ok(arrived.concat())
    }
}

/// Sends a part to each of these ranks and receives one from each. A rank can be its own neighbour.
fn swap<T: aqueduct::comm::Plain>(
    world: &Comm,
    ranks: impl Iterator<Item = usize> + Clone,
    parts: Vec<Vec<T>>,
) -> Result<Vec<Vec<T>>> {
    let (mut own, mut sending) = (None, Vec::new());
    for (rank, part) in ranks.clone().zip(parts) {
        if rank == world.rank() {
            own = Some(part);
        } else {
            sending.push(world.start_send(rank, GHOSTS, part)?);
        }
    }
    let mut arrived = Vec::with_capacity(sending.len() + 1);
    for rank in ranks {
        arrived.push(match &mut own {
            Some(part) if rank == world.rank() => std::mem::take(part),
            _ => world.receive(rank, GHOSTS)?.0,
        });
    }
    sending.into_iter().try_for_each(SendRequest::wait)?;
    Ok(arrived)
}

/// The order of particles by cell of the box and, inside a cell, by id; and the index of the first one of each cell, and the end.
pub fn cell_order(
    grid: &SimulationGrid,
    cell_box: &CellBox,
    positions: &[[f64; 3]],
    ids: &[u64],
) -> (Vec<usize>, Vec<usize>) {
    let places: Vec<usize> = positions.iter().map(|x| cell_box.index(grid.cell_of(*x))).collect();
    let mut starts = vec![0usize; cell_box.cells() + 1];
    places.iter().for_each(|cell| starts[cell + 1] += 1);
    for cell in 1..starts.len() {
        starts[cell] += starts[cell - 1];
    }
    let mut order: Vec<usize> = (0..positions.len()).collect();
    order.sort_unstable_by_key(|at| (places[*at], ids[*at]));
    (order, starts)
}
