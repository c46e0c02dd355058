//! Where a run begins: molecules from files or from a generator.

use anyhow::{Context, Result, ensure};
use aqueduct::checkpoint::{Molecule, SpatialRegion};
use aqueduct::comm::{Comm, Op};
use aqueduct::mardyn::{Component, PhaseSpace, PhaseSpaceFiles, PhaseSpaceFormat};

use crate::decomposition::Decomposition;
use crate::decomposition::cell_box::CellBox;
use crate::decomposition::grid::SimulationGrid;
use crate::input::config::{Config, MoleculeSource};
use crate::input::lattice_generator::LatticeGenerator;

/// What a run begins with: the phase space, the same on all ranks, and molecules that lie about where they belong.
pub struct InitialState {
    /// Box and components.
    pub space: PhaseSpace,
    /// Of this rank.
    pub molecules: Vec<Molecule>,
}

/// Opens or makes what the configuration says. Collective.
pub fn begin(world: &Comm, config: &Config) -> Result<InitialState> {
    match &config.source {
        MoleculeSource::Generator(start) => generate(world, config, start),
        MoleculeSource::Files(format, files) => load(world, config, *format, files),
    }
}

/// Box and components of what the configuration says, without the molecules. Collective.
pub fn space(world: &Comm, config: &Config) -> Result<PhaseSpace> {
    match &config.source {
        MoleculeSource::Generator(start) => generated_space(start),
        MoleculeSource::Files(format, files) => {
            complete(world, config, format.open(world, files)?.space().clone())
        }
    }
}

fn generate(world: &Comm, config: &Config, start: &LatticeGenerator) -> Result<InitialState> {
    let space = generated_space(start)?;
    let grid = SimulationGrid::new(space.length, config.cutoff, start.molecules)?;
    let decomposition = Decomposition::regular(&grid, world.size());
    let mut molecules = start.place(&grid, &decomposition, world.rank());
    start.set_velocities(world, 1.0, &mut molecules)?;
    Ok(InitialState { space, molecules })
}

/// What is generated is argon in its own units.
fn generated_space(start: &LatticeGenerator) -> Result<PhaseSpace> {
    let mut argon = Component::single(1.0, 1.0, 1.0);
    argon.lennard_jones[0].shift = 1.0;
    let mut space = PhaseSpace::new([start.length()?; 3], vec![argon]);
    space.temperature = Some(start.temperature);
    space.molecules = start.molecules;
    Ok(space)
}

fn load(
    world: &Comm,
    config: &Config,
    format: PhaseSpaceFormat,
    files: &PhaseSpaceFiles,
) -> Result<InitialState> {
    let input = format.open(world, files)?;
    let space = complete(world, config, input.space().clone())?;
    let grid = SimulationGrid::new(space.length, config.cutoff, space.molecules)
        .with_context(|| files.header.clone())?;
    let molecules =
        input.read(&region(&grid, &Decomposition::regular(&grid, world.size()).cell_box(world.rank())))?;
    let found = world.allreduce_one(Op::Sum, molecules.len() as u64)?;
    ensure!(
        found == space.molecules,
        "{}: {found} molecules were read instead of {}",
        files.header,
        space.molecules
    );
    Ok(InitialState { space, molecules })
}

/// With the components of another file, where this one has none.
fn complete(world: &Comm, config: &Config, mut space: PhaseSpace) -> Result<PhaseSpace> {
    if let (true, Some(file)) = (space.components.is_empty(), &config.components) {
        let input = PhaseSpaceFormat::OldStyle.open(world, &PhaseSpaceFiles::one(file))?;
        space.components.clone_from(&input.space().components);
        space.mixing.clone_from(&input.space().mixing);
        space.epsilon_rf = input.space().epsilon_rf;
    }
    Ok(space)
}

/// The box of space that a box of cells is. The boxes of all ranks together are the whole, without overlap.
pub fn region(grid: &SimulationGrid, brick: &CellBox) -> SpatialRegion {
    if brick.is_empty() {
        return SpatialRegion::new([0.0; 3], [0.0; 3]);
    }
    let edge = |axis: usize, cell: i64| {
        if cell == grid.shape[axis] { grid.length[axis] } else { cell as f64 * grid.cell_length()[axis] }
    };
    SpatialRegion::new(
        std::array::from_fn(|axis| edge(axis, brick.low[axis])),
        std::array::from_fn(|axis| edge(axis, brick.high[axis])),
    )
}
