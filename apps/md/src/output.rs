//! The outputs of a run, one per line `output` of its configuration.

#[cfg(feature = "hdf5")]
pub mod h5md;
#[cfg(not(feature = "hdf5"))]
#[path = "output/without_h5md.rs"]
pub mod h5md;
pub mod lock;
pub mod output_marks;
pub mod parallel_text;
pub mod phase_space;
pub mod plot;
pub mod pov;
pub mod result;
pub mod result_row;
pub mod stale_files;
pub mod vis;
#[cfg(all(test, feature = "hdf5"))]
pub mod without_h5md;
pub mod xyz;

use std::path::PathBuf;

use anyhow::Result;
use aqueduct::comm::Comm;
use aqueduct::mardyn::{PhaseSpace, PhaseSpaceFormat};

use crate::input::config::{Config, OutputKind, OutputLine};
use crate::input::units::SimulationUnits;
use crate::output::result_row::ResultRow;
use crate::simulation::Simulation;
use h5md::H5mdOutput;
use output_marks::OutputMarks;
use result::{ResultTable, TableMark};
use stale_files::StaleFiles;
use vis::{VisFile, VisStart};

/// The outputs of a run.
pub struct Outputs {
    plugins: Vec<(OutputLine, OutputPlugin)>,
    units: SimulationUnits,
}

/// The state of the outputs at the checkpoint of a restart.
#[derive(Clone, Debug)]
pub struct OutputState {
    /// The step.
    pub step: u64,
    /// The positions of the outputs at that step.
    pub marks: OutputMarks,
}

enum OutputPlugin {
    /// At rank 0 only.
    Results(Option<ResultTable>),
    Xyz,
    Pov,
    Vis(VisFile),
    H5md(Box<H5mdOutput>),
    Phase(PhaseSpaceFormat),
}

impl Outputs {
    /// Opens the outputs. After a restart, output that was written after the checkpoint is removed. Collective.
    pub fn open(config: &Config, world: &Comm, back_to: Option<&OutputState>) -> Result<Self> {
        let units = config.units.unwrap_or(SimulationUnits::BARE);
        // Without the time of the checkpoint, files of this run cannot be distinguished from others.
        let later = back_to.and_then(|state| {
            let inputs = config.inputs().into_iter().map(PathBuf::from).collect();
            Some(StaleFiles { step: state.step, taken: state.marks.taken()?, inputs })
        });
        let plugin = |line: &OutputLine| {
            let mark = back_to.and_then(|state| state.marks.get(line));
            if let Some(later) = later.as_ref().filter(|_| world.rank() == 0) {
                later.remove(&line.prefix, &endings(line.kind))?;
            }
            anyhow::Ok(match line.kind {
                OutputKind::Result if world.rank() > 0 => OutputPlugin::Results(None),
                OutputKind::Result => {
                    let length = mark.and_then(|mark| mark.first().copied());
                    let back_to = back_to.map(|state| TableMark { step: state.step, length });
                    OutputPlugin::Results(Some(ResultTable::open(&line.prefix, back_to)?))
                }
                OutputKind::Xyz => OutputPlugin::Xyz,
                OutputKind::Pov => OutputPlugin::Pov,
                OutputKind::Vis => {
                    let start = VisStart::of_mark(back_to.is_some(), mark);
                    OutputPlugin::Vis(VisFile::open(world, &line.prefix, units, start)?)
                }
                OutputKind::H5md => {
                    OutputPlugin::H5md(Box::new(H5mdOutput::open(world, &line.prefix, config.units, mark)?))
                }
                OutputKind::Phase(format) => OutputPlugin::Phase(format),
            })
        };
        let plugins = config.outputs.iter().map(|line| Ok((line.clone(), plugin(line)?)));
        Ok(Self { plugins: plugins.collect::<Result<_>>()?, units })
    }

    /// Whether an output needs the energies of this step.
    pub fn want_energies(&self, step: u64) -> bool {
        self.plugins
            .iter()
            .any(|(line, plugin)| due(line, step) && matches!(plugin, OutputPlugin::Results(_)))
    }

    /// Writes the outputs that are due. Collective.
    pub fn write(
        &mut self,
        simulation: &Simulation,
        space: &PhaseSpace,
        row: Option<&ResultRow>,
    ) -> Result<()> {
        let step = simulation.step();
        for (line, plugin) in self.plugins.iter_mut().filter(|(line, _)| due(line, step)) {
            let name = |ending: &str| format!("{}-{step}{ending}", line.prefix);
            match plugin {
                OutputPlugin::Results(Some(results)) => {
                    if let Some(row) = row.filter(|row| !results.has(row.step)) {
                        results.write(row)?;
                    }
                }
                OutputPlugin::Results(None) => {}
                OutputPlugin::Xyz => xyz::write(simulation, self.units, &name(".xyz"))?,
                OutputPlugin::Pov => pov::write(simulation, space, &name(".pov"))?,
                OutputPlugin::Vis(file) => file.write(simulation)?,
                OutputPlugin::H5md(frames) => frames.write(simulation)?,
                OutputPlugin::Phase(format) => phase_space::write(simulation, space, *format, &name(""))?,
            }
        }
        Ok(())
    }

    /// Syncs growing files, so that no output is older than the next checkpoint; returns the positions on all ranks. Collective.
    pub fn sync(&self, world: &Comm) -> Result<OutputMarks> {
        let mut marks = OutputMarks::now();
        for (line, plugin) in &self.plugins {
            match plugin {
                OutputPlugin::Results(Some(results)) => marks.set(line, &[results.sync()?]),
                OutputPlugin::Vis(file) => {
                    let (length, last) = file.sync()?;
                    marks.set(line, &[Some(length), last].into_iter().flatten().collect::<Vec<_>>());
                }
                OutputPlugin::H5md(frames) => marks.set(line, &frames.mark()),
                OutputPlugin::Results(None)
                | OutputPlugin::Xyz
                | OutputPlugin::Pov
                | OutputPlugin::Phase(_) => {}
            }
        }
        let text = world.broadcast_vec(0, marks.encode().into_bytes())?;
        OutputMarks::decode(&String::from_utf8_lossy(&text))
    }

    /// Ends the outputs: draws plots and closes files. Collective.
    pub fn finish(self) -> Result<()> {
        for (_, plugin) in self.plugins {
            match plugin {
                OutputPlugin::Results(Some(results)) => drop(results.plot()?),
                OutputPlugin::H5md(frames) => frames.close()?,
                OutputPlugin::Vis(file) => file.close()?,
                OutputPlugin::Results(None)
                | OutputPlugin::Xyz
                | OutputPlugin::Pov
                | OutputPlugin::Phase(_) => {}
            }
        }
        Ok(())
    }
}

/// The suffixes of the files that a writer creates for a step.
fn endings(writer: OutputKind) -> Vec<String> {
    match writer {
        OutputKind::Result | OutputKind::Vis => Vec::new(),
        OutputKind::Xyz => vec![".xyz".to_owned()],
        OutputKind::Pov => vec![".pov".to_owned()],
        OutputKind::H5md => vec![".h5md".to_owned()],
        OutputKind::Phase(format) => {
            let files = format.files("");
            [files.header, files.data].into_iter().filter(|ending| !ending.is_empty()).collect()
        }
    }
}

fn due(line: &OutputLine, step: u64) -> bool {
    step.is_multiple_of(line.every)
}
