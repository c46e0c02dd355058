//! Small liquids for the tests, and the molecules of all ranks.

use anyhow::Result;
use aqueduct::checkpoint::Molecule;
use aqueduct::comm::{Comm, Launch};
use aqueduct_md::decomposition::grid::SimulationGrid;
use aqueduct_md::decomposition::{Decomposition, DecompositionMethod};
use aqueduct_md::force::potential::{LennardJonesCentre, Potential};
use aqueduct_md::input::lattice_generator::{Lattice, LatticeGenerator};
use aqueduct_md::simulation::{Model, Simulation, Thermostat};

pub(crate) const ARGON: LennardJonesCentre =
    LennardJonesCentre { mass: 1.0, epsilon: 1.0, sigma: 1.0, shifted: true };

/// Argon at this density.
pub(crate) fn liquid(
    molecules: u64,
    density: f64,
    method: DecompositionMethod,
    thermostat: Option<Thermostat>,
) -> (LatticeGenerator, Model) {
    let start = LatticeGenerator { lattice: Lattice::Fcc, molecules, density, temperature: 1.1, seed: 3 };
    let grid = SimulationGrid::new([start.length().unwrap(); 3], 2.5, molecules).unwrap();
    let potential = Potential::new(vec![Some(ARGON)], 2.5, |_, _| (1.0, 1.0));
    (
        start,
        Model { grid, potential, timestep: 0.004, thermostat, decomposition_method: method, rebalance: 5 },
    )
}

/// A simulation in its initial state.
pub(crate) fn begin<'w>(world: &'w Comm, start: &LatticeGenerator, model: &Model) -> Result<Simulation<'w>> {
    let decomposition = Decomposition::regular(&model.grid, world.size());
    let mut molecules = start.place(&model.grid, &decomposition, world.rank());
    start.set_velocities(world, 1.0, &mut molecules)?;
    Simulation::new(world, model.clone(), molecules, 0, 0.0)
}

/// The molecules of all ranks, by id.
pub(crate) fn gather(world: &Comm, mine: &[Molecule]) -> Result<Vec<Molecule>> {
    let mut all = world.allgather_varied(mine)?.concat();
    all.sort_by_key(|molecule| molecule.id);
    Ok(all)
}

/// Runs on this number of threads; the result of rank 0.
pub(crate) fn on<T: Send>(ranks: usize, program: impl Fn(&Comm) -> Result<T> + Sync) -> T {
    Launch::threads(ranks)
        .run(|world| program(world).map_err(|error| format!("{error:#}")))
        .unwrap()
        .remove(0)
}
