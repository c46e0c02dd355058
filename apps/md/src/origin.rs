//! Where a run begins: molecules from files or from a generator.

use anyhow::{Context, Result, ensure};
use aqueduct::checkpoint::mardyn::{Component, Files, Format, PhaseSpace};
use aqueduct::checkpoint::{Molecule, Region};
use aqueduct::comm::{Comm, Op};

use crate::brick::Brick;
use crate::config::{Config, Origin};
use crate::decomposition::Decomposition;
use crate::grid::Grid;
use crate::start::Start;

/// What a run begins with: the phase space, the same on all ranks, and molecules that lie about where they belong.
pub struct Beginning {
    /// Box and components.
    pub space: PhaseSpace,
    /// Of this rank.
    pub molecules: Vec<Molecule>,
}

/// Opens or makes what the configuration says. Collective.
pub fn begin(world: &Comm, config: &Config) -> Result<Beginning> {
    match &config.origin {
        Origin::Generator(start) => generate(world, config, start),
        Origin::Files(format, files) => load(world, config, *format, files),
    }
}

/// Box and components of what the configuration says, without the molecules. Collective.
pub fn space(world: &Comm, config: &Config) -> Result<PhaseSpace> {
    match &config.origin {
        Origin::Generator(start) => described(start),
        Origin::Files(format, files) => complete(world, config, format.open(world, files)?.space().clone()),
    }
}

fn generate(world: &Comm, config: &Config, start: &Start) -> Result<Beginning> {
    let space = described(start)?;
    let grid = Grid::new(space.length, config.cutoff, start.molecules)?;
    let decomposition = Decomposition::regular(&grid, world.size());
    let mut molecules = start.place(&grid, &decomposition, world.rank());
    start.warm(world, 1.0, &mut molecules)?;
    Ok(Beginning { space, molecules })
}

/// What is generated is argon in its own units.
fn described(start: &Start) -> Result<PhaseSpace> {
    let mut argon = Component::single(1.0, 1.0, 1.0);
    argon.lennard_jones[0].shift = 1.0;
    let mut space = PhaseSpace::new([start.length()?; 3], vec![argon]);
    space.temperature = Some(start.temperature);
    space.molecules = start.molecules;
    Ok(space)
}

fn load(world: &Comm, config: &Config, format: Format, files: &Files) -> Result<Beginning> {
    let input = format.open(world, files)?;
    let space = complete(world, config, input.space().clone())?;
    let grid =
        Grid::new(space.length, config.cutoff, space.molecules).with_context(|| files.header.clone())?;
    let molecules =
        input.read(&region(&grid, &Decomposition::regular(&grid, world.size()).brick(world.rank())))?;
    let found = world.allreduce_one(Op::Sum, molecules.len() as u64)?;
    ensure!(
        found == space.molecules,
        "{}: {found} molecules were read instead of {}",
        files.header,
        space.molecules
    );
    Ok(Beginning { space, molecules })
}

/// With the components of another file, where this one has none.
fn complete(world: &Comm, config: &Config, mut space: PhaseSpace) -> Result<PhaseSpace> {
    if let (true, Some(file)) = (space.components.is_empty(), &config.components) {
        let input = Format::OldStyle.open(world, &Files::one(file))?;
        space.components.clone_from(&input.space().components);
        space.mixing.clone_from(&input.space().mixing);
        space.epsilon_rf = input.space().epsilon_rf;
    }
    Ok(space)
}

/// The box of space that a box of cells is. The boxes of all ranks together are the whole, without overlap.
pub fn region(grid: &Grid, brick: &Brick) -> Region {
    if brick.is_empty() {
        return Region::new([0.0; 3], [0.0; 3]);
    }
    let edge = |axis: usize, cell: i64| {
        if cell == grid.shape[axis] { grid.length[axis] } else { cell as f64 * grid.cell_length()[axis] }
    };
    Region::new(
        std::array::from_fn(|axis| edge(axis, brick.low[axis])),
        std::array::from_fn(|axis| edge(axis, brick.high[axis])),
    )
}
