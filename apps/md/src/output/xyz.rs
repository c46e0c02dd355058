//! `XyzWriter`: a frame of extended XYZ, for viewers, with velocities; molecules in the order of their ids, as in every other frame.

use anyhow::Result;
use aqueduct::formats::xyz::{Atom, XyzFrame, XyzWriter};

use crate::input::units::SimulationUnits;
use crate::simulation::Simulation;
use crate::simulation::exchange;

/// Symbols of elements stand for components: viewers know how to draw them.
const SYMBOLS: [&str; 8] = ["Ar", "Kr", "Xe", "Ne", "O", "N", "C", "H"];

/// Writes the molecules of all ranks into a file of their own. Collective.
pub fn write(simulation: &Simulation, units: SimulationUnits, name: &str) -> Result<()> {
    let molecules = exchange::sort_by_id(simulation.world(), simulation.molecules())?;
    let species = |component: u64| SYMBOLS[component as usize % SYMBOLS.len()];
    let atoms: Vec<Atom> = molecules
        .iter()
        .map(|molecule| Atom {
            species: species(molecule.component),
            position: units.place(molecule.position),
            velocity: Some(units.velocity(molecule.velocity)),
        })
        .collect();
    let mut writer = XyzWriter::replace(simulation.world(), name)?;
    let edges = units.place(simulation.model().grid.length);
    writer.write(&XyzFrame { time: simulation.time() * units.time, edges }, &atoms)?;
    Ok(writer.close()?)
}
