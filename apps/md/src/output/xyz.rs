//! `XyzWriter`: a frame of extended XYZ with velocities, for viewers; molecules are ordered by id in every frame.

use anyhow::Result;
use aqueduct::formats::xyz::{Atom, XyzFrame, XyzWriter};

use crate::input::units::SimulationUnits;
use crate::simulation::Simulation;
use crate::simulation::exchange;

/// Element symbols for the components, which viewers know how to draw.
const SYMBOLS: [&str; 8] = ["Ar", "Kr", "Xe", "Ne", "O", "N", "C", "H"];

/// Writes the molecules of all ranks into a new file. Collective.
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
