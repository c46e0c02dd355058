//! What a run writes, by the lines of its configuration.

#[cfg(feature = "hdf5")]
pub mod h5md;
#[cfg(not(feature = "hdf5"))]
#[path = "output/without_h5md.rs"]
pub mod h5md;
pub mod later;
pub mod lock;
pub mod marks;
pub mod phase;
pub mod pov;
pub mod result;
pub mod text;
pub mod vis;
#[cfg(all(test, feature = "hdf5"))]
pub mod without_h5md;
pub mod xyz;

use std::path::PathBuf;

use anyhow::Result;
use aqueduct::checkpoint::mardyn::{Format, PhaseSpace};
use aqueduct::comm::Comm;

use crate::config::{Config, Line, Writer};
use crate::row::Row;
use crate::simulation::Simulation;
use crate::units::Units;
use h5md::Frames;
use later::LaterFiles;
use marks::OutputMarks;
use result::{Results, TableMark};
use vis::{VisFile, VisStart};

/// The outputs of a run.
pub struct Outputs {
    plugins: Vec<(Line, Plugin)>,
    units: Units,
}

/// Where a run comes back to.
#[derive(Clone, Debug)]
pub struct OutputState {
    /// The step.
    pub step: u64,
    /// How far the outputs were then.
    pub marks: OutputMarks,
}

enum Plugin {
    /// At rank 0 only.
    Results(Option<Results>),
    Xyz,
    Pov,
    Vis(VisFile),
    H5md(Box<Frames>),
    Phase(Format),
}

impl Outputs {
    /// Of a new run, or of one that comes back: then what was written since is taken back. Collective.
    pub fn open(config: &Config, world: &Comm, back_to: Option<&OutputState>) -> Result<Self> {
        let units = config.units.unwrap_or(Units::BARE);
        // Where it is not known when the checkpoint was taken, nobody knows which files are of this run.
        let later = back_to.and_then(|state| {
            let inputs = config.inputs().into_iter().map(PathBuf::from).collect();
            Some(LaterFiles { step: state.step, taken: state.marks.taken()?, inputs })
        });
        let plugin = |line: &Line| {
            let mark = back_to.and_then(|state| state.marks.get(line));
            if let Some(later) = later.as_ref().filter(|_| world.rank() == 0) {
                later.remove(&line.prefix, &endings(line.writer))?;
            }
            anyhow::Ok(match line.writer {
                Writer::Result if world.rank() > 0 => Plugin::Results(None),
                Writer::Result => {
                    let length = mark.and_then(|mark| mark.first().copied());
                    let back_to = back_to.map(|state| TableMark { step: state.step, length });
                    Plugin::Results(Some(Results::open(&line.prefix, back_to)?))
                }
                Writer::Xyz => Plugin::Xyz,
                Writer::Pov => Plugin::Pov,
                Writer::Vis => {
                    let start = VisStart::of_mark(back_to.is_some(), mark);
                    Plugin::Vis(VisFile::open(world, &line.prefix, units, start)?)
                }
                Writer::H5md => {
                    Plugin::H5md(Box::new(Frames::open(world, &line.prefix, config.units, mark)?))
                }
                Writer::Phase(format) => Plugin::Phase(format),
            })
        };
        let plugins = config.outputs.iter().map(|line| Ok((line.clone(), plugin(line)?)));
        Ok(Self { plugins: plugins.collect::<Result<_>>()?, units })
    }

    /// Whether one of them needs the energies of this step.
    pub fn want_energies(&self, step: u64) -> bool {
        self.plugins.iter().any(|(line, plugin)| due(line, step) && matches!(plugin, Plugin::Results(_)))
    }

    /// Writes what is due. Collective.
    pub fn write(&mut self, simulation: &Simulation, space: &PhaseSpace, row: Option<&Row>) -> Result<()> {
        let step = simulation.step();
        for (line, plugin) in self.plugins.iter_mut().filter(|(line, _)| due(line, step)) {
            let name = |ending: &str| format!("{}-{step}{ending}", line.prefix);
            match plugin {
                Plugin::Results(Some(results)) => {
                    if let Some(row) = row.filter(|row| !results.has(row.step)) {
                        results.write(row)?;
                    }
                }
                Plugin::Results(None) => {}
                Plugin::Xyz => xyz::write(simulation, self.units, &name(".xyz"))?,
                Plugin::Pov => pov::write(simulation, space, &name(".pov"))?,
                Plugin::Vis(file) => file.write(simulation)?,
                Plugin::H5md(frames) => frames.write(simulation)?,
                Plugin::Phase(format) => phase::write(simulation, space, *format, &name(""))?,
            }
        }
        Ok(())
    }

    /// Makes what grows durable, so that none is behind a checkpoint, whatever fails; how far everything is, known to all ranks. Collective.
    pub fn sync(&self, world: &Comm) -> Result<OutputMarks> {
        let mut marks = OutputMarks::now();
        for (line, plugin) in &self.plugins {
            match plugin {
                Plugin::Results(Some(results)) => marks.set(line, &[results.sync()?]),
                Plugin::Vis(file) => {
                    let (length, last) = file.sync()?;
                    marks.set(line, &[Some(length), last].into_iter().flatten().collect::<Vec<_>>());
                }
                Plugin::H5md(frames) => marks.set(line, &frames.mark()),
                Plugin::Results(None) | Plugin::Xyz | Plugin::Pov | Plugin::Phase(_) => {}
            }
        }
        let text = world.broadcast_vec(0, marks.encode().into_bytes())?;
        OutputMarks::decode(&String::from_utf8_lossy(&text))
    }

    /// Ends the run's outputs: plots are drawn, files closed. Collective.
    pub fn finish(self) -> Result<()> {
        for (_, plugin) in self.plugins {
            match plugin {
                Plugin::Results(Some(results)) => drop(results.plot()?),
                Plugin::H5md(frames) => frames.close()?,
                Plugin::Vis(file) => file.close()?,
                Plugin::Results(None) | Plugin::Xyz | Plugin::Pov | Plugin::Phase(_) => {}
            }
        }
        Ok(())
    }
}

/// What the names of the files end with that a writer makes for a step.
fn endings(writer: Writer) -> Vec<String> {
    match writer {
        Writer::Result | Writer::Vis => Vec::new(),
        Writer::Xyz => vec![".xyz".to_owned()],
        Writer::Pov => vec![".pov".to_owned()],
        Writer::H5md => vec![".h5md".to_owned()],
        Writer::Phase(format) => {
            let files = format.files("");
            [files.header, files.data].into_iter().filter(|ending| !ending.is_empty()).collect()
        }
    }
}

fn due(line: &Line, step: u64) -> bool {
    step.is_multiple_of(line.every)
}
