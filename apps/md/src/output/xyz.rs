//! `XyzWriter`: a frame of extended XYZ, for viewers, written by all ranks at once; molecules in the order of their ids, as in every
//! other frame.

use anyhow::{Context, Result};
use aqueduct::comm::Op;
use aqueduct::file::{Mode, Open};

use crate::exchange;
use crate::simulation::Simulation;
use aqueduct::checkpoint::Molecule;

/// Symbols of elements stand for components: viewers know how to draw them.
const SYMBOLS: [&str; 8] = ["Ar", "Kr", "Xe", "Ne", "O", "N", "C", "H"];

/// Writes the molecules of all ranks into a file of their own. Collective.
pub fn write(simulation: &Simulation, name: &str) -> Result<()> {
    let world = simulation.world();
    let total = world.allreduce_one(Op::Sum, simulation.molecules().len() as u64)?;
    let mut text = if world.rank() == 0 { head(simulation, total) } else { Vec::new() };
    exchange::by_id(world, simulation.molecules())?.iter().for_each(|molecule| line(&mut text, molecule));
    let failed = || format!("XyzWriter: writing {name}");
    let file = Open::new(Mode::write_only().create()).open(world, name).with_context(failed)?;
    file.set_size(0).with_context(failed)?;
    file.shared().all().write(&text).with_context(failed)?;
    file.close().with_context(failed)
}

fn head(simulation: &Simulation, total: u64) -> Vec<u8> {
    let [x, y, z] = simulation.model().grid.length;
    let (step, time) = (simulation.step(), simulation.time());
    format!(
        "{total}\nLattice=\"{x} 0 0 0 {y} 0 0 0 {z}\" Properties=species:S:1:pos:R:3:velo:R:3:id:I:1 \
         pbc=\"T T T\" step={step} time={time}\n"
    )
    .into_bytes()
}

fn line(text: &mut Vec<u8>, molecule: &Molecule) {
    let mut digits = zmij::Buffer::new();
    text.extend_from_slice(SYMBOLS[molecule.component as usize % SYMBOLS.len()].as_bytes());
    for number in molecule.position.iter().chain(&molecule.velocity) {
        text.push(b' ');
        text.extend_from_slice(digits.format(*number).as_bytes());
    }
    text.extend_from_slice(format!(" {}\n", molecule.id).as_bytes());
}
