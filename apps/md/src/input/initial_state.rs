//! The initial state: molecules from files or from a generator.

use anyhow::{Context, Result, ensure};
use aqueduct::checkpoint::{Molecule, SpatialRegion};
use aqueduct::comm::{Comm, Op};
use aqueduct::mardyn::{MoleculeComponent, PhaseSpace, PhaseSpaceFiles, PhaseSpaceFormat};

use crate::decomposition::Decomposition;
use crate::decomposition::cell_box::CellBox;
use crate::decomposition::grid::SimulationGrid;
use crate::input::config::{Config, MoleculeSource};
use crate::input::lattice_generator::LatticeGenerator;

/// The initial state: the phase space, the same on all ranks, and the molecules, approximately on their ranks.
pub struct InitialState {
    /// Box and components.
    pub space: PhaseSpace,
    /// The molecules of this rank.
    pub molecules: Vec<Molecule>,
}

/// Reads or generates the initial state of a configuration. Collective.
pub fn begin(world: &Comm, config: &Config) -> Result<InitialState> {
    match &config.source {
        MoleculeSource::Generator(start) => generate(world, config, start),
        MoleculeSource::Files(format, files) => load(world, config, *format, files),
    }
}

/// Box and components of a configuration, without the molecules. Collective.
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

/// The component of generated molecules: argon in reduced units.
fn generated_space(start: &LatticeGenerator) -> Result<PhaseSpace> {
    let mut argon = MoleculeComponent::single(1.0, 1.0, 1.0);
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
        "{}: read {found} molecules instead of {}",
        files.header,
        space.molecules
    );
    Ok(InitialState { space, molecules })
}

/// Takes the components of another file if this one has none.
fn complete(world: &Comm, config: &Config, mut space: PhaseSpace) -> Result<PhaseSpace> {
    if let (true, Some(file)) = (space.components.is_empty(), &config.components) {
        let input = PhaseSpaceFormat::OldStyle.open(world, &PhaseSpaceFiles::one(file))?;
        space.components.clone_from(&input.space().components);
        space.mixing.clone_from(&input.space().mixing);
        space.epsilon_rf = input.space().epsilon_rf;
    }
    Ok(space)
}

/// The region of a box of cells. The regions of all ranks cover the whole box without overlap.
pub fn region(grid: &SimulationGrid, cell_box: &CellBox) -> SpatialRegion {
    if cell_box.is_empty() {
        return SpatialRegion::new([0.0; 3], [0.0; 3]);
    }
    let edge = |axis: usize, cell: i64| {
        if cell == grid.shape[axis] { grid.length[axis] } else { cell as f64 * grid.cell_length()[axis] }
    };
    SpatialRegion::new(
        std::array::from_fn(|axis| edge(axis, cell_box.low[axis])),
        std::array::from_fn(|axis| edge(axis, cell_box.high[axis])),
    )
}
