//! What a run writes, by the lines of its configuration.

#[cfg(feature = "hdf5")]
pub mod h5md;
#[cfg(not(feature = "hdf5"))]
#[path = "output/without_h5md.rs"]
pub mod h5md;
pub mod phase;
pub mod result;
#[cfg(all(test, feature = "hdf5"))]
pub mod without_h5md;
pub mod xyz;

use anyhow::Result;
use aqueduct::checkpoint::mardyn::{Format, PhaseSpace};

use crate::config::{Config, Line, Writer};
use crate::row::Row;
use crate::simulation::Simulation;
use crate::units::Units;
use h5md::Frames;
use result::Results;

/// The outputs of a run.
pub struct Outputs {
    plugins: Vec<(Line, Plugin)>,
    units: Option<Units>,
}

enum Plugin {
    /// At rank 0 only.
    Results(Option<Results>),
    Xyz,
    H5md(Box<Frames>),
    Phase(Format),
}

impl Outputs {
    /// Of a new run, or of one that comes back to a step.
    pub fn open(config: &Config, rank: usize, back_to: Option<u64>) -> Result<Self> {
        let plugin = |line: &Line| {
            anyhow::Ok(match line.writer {
                Writer::Result if rank > 0 => Plugin::Results(None),
                Writer::Result => Plugin::Results(Some(Results::open(&line.prefix, back_to)?)),
                Writer::Xyz => Plugin::Xyz,
                Writer::H5md => Plugin::H5md(Box::new(Frames::new(&line.prefix, config.units)?)),
                Writer::Phase(format) => Plugin::Phase(format),
            })
        };
        let plugins = config.outputs.iter().map(|line| Ok((line.clone(), plugin(line)?)));
        Ok(Self { plugins: plugins.collect::<Result<_>>()?, units: config.units })
    }

    /// Whether one of them needs the energies of this step.
    pub fn want_energies(&self, step: u64) -> bool {
        self.plugins.iter().any(|(line, plugin)| due(line, step) && matches!(plugin, Plugin::Results(_)))
    }

    /// Writes what is due. Collective.
    pub fn write(&mut self, simulation: &Simulation, space: &PhaseSpace, row: Option<&Row>) -> Result<()> {
        let step = simulation.step();
        for (line, plugin) in self.plugins.iter_mut().filter(|(line, _)| due(line, step)) {
            match plugin {
                Plugin::Results(Some(results)) => {
                    if let Some(row) = row.filter(|row| !results.has(row.step)) {
                        results.write(row)?;
                    }
                }
                Plugin::Results(None) => {}
                Plugin::Xyz => {
                    let units = self.units.unwrap_or(Units::BARE);
                    xyz::write(simulation, units, &format!("{}-{step}.xyz", line.prefix))?;
                }
                Plugin::H5md(frames) => frames.write(simulation)?,
                Plugin::Phase(format) => {
                    phase::write(simulation, space, *format, &format!("{}-{step}", line.prefix))?;
                }
            }
        }
        Ok(())
    }

    /// Makes tables durable, so that none is behind a checkpoint, whatever fails.
    pub fn sync(&self) -> Result<()> {
        for (_, plugin) in &self.plugins {
            if let Plugin::Results(Some(results)) = plugin {
                results.sync()?;
            }
        }
        Ok(())
    }

    /// Ends the run's outputs: plots are drawn, files closed. Collective.
    pub fn finish(self) -> Result<()> {
        for (_, plugin) in self.plugins {
            match plugin {
                Plugin::Results(Some(results)) => drop(results.plot()?),
                Plugin::H5md(frames) => frames.close()?,
                Plugin::Results(None) | Plugin::Xyz | Plugin::Phase(_) => {}
            }
        }
        Ok(())
    }
}

fn due(line: &Line, step: u64) -> bool {
    step.is_multiple_of(line.every)
}
