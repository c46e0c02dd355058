//! A run from its first to its last step.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use aqueduct::comm::Comm;

use crate::config::Config;
use crate::output::step_files::{StepFiles, StepHeader};
use crate::output::{self, OutputCost, OutputWay, StepOutput};
use crate::record::RecordForm;
use crate::restart::{self, RunStart};
use crate::simulation::{SphSimulation, Totals};
use crate::times::RunTimes;
use crate::viewers::{picture, vtk_series};

/// What is computed and stored.
#[derive(Clone, Debug)]
pub struct SphSettings {
    /// The configuration; a restart uses that of the stored step.
    pub config: Config,
    /// The last step.
    pub steps: u64,
    /// The way of output; none stores nothing.
    pub way: Option<OutputWay>,
    /// The form of records.
    pub record: RecordForm,
    /// The names of files.
    pub files: StepFiles,
    /// Steps between two outputs.
    pub every: u64,
    /// Steps between two pictures, or 0.
    pub pictures: u64,
    /// Steps between two frames of a VTKHDF file, or 0.
    pub vtk: u64,
    /// Where the run starts.
    pub start: RunStart,
    /// The file for the times.
    pub times: Option<PathBuf>,
    /// The number of lines to print.
    pub rows: u64,
}

impl SphSettings {
    /// A run of some steps that stores nothing and prints nothing.
    pub fn new(config: Config, steps: u64) -> Self {
        Self {
            config,
            steps,
            way: None,
            record: RecordForm::Lists,
            files: StepFiles { prefix: "sph".to_owned(), device: String::new() },
            every: 1,
            pictures: 0,
            vtk: 0,
            start: RunStart::New,
            times: None,
            rows: 0,
        }
    }
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct SphOutcome {
    /// The sums of the last state.
    pub totals: Totals,
    /// The last step.
    pub step: u64,
    /// The times.
    pub times: RunTimes,
}

/// Runs a simulation. Collective.
pub fn run(world: &Comm, settings: &SphSettings) -> Result<SphOutcome> {
    let prints = world.rank() == 0 && settings.rows > 0;
    let print = |line: &str| {
        if prints {
            println!("{line}");
        }
    };
    let (mut simulation, resumed) = begin(world, settings, print)?;
    print(&introduction(world, &simulation));
    let first = simulation.state().step;
    let mut writer = RunWriter::create(world, settings, &simulation)?;
    let between = (settings.steps.saturating_sub(first) / settings.rows.max(1)).max(1);
    let began = Instant::now();
    loop {
        let step = simulation.state().step;
        let last = step >= settings.steps;
        if settings.rows > 0 && ((step - first).is_multiple_of(between) || last) {
            let totals = simulation.totals()?;
            print(&row(&simulation, &totals));
        }
        // A restarted run has stored this step.
        if step > first || !resumed {
            writer.write(&mut simulation, last)?;
        }
        if last {
            break;
        }
        simulation.advance()?;
    }
    let (cost, aside) = writer.finish()?;
    let total = began.elapsed().saturating_sub(aside);
    let compute = total.saturating_sub(cost.io + cost.talk);
    let seconds = [compute, cost.io, cost.talk, total].map(|time| time.as_secs_f64());
    let way = settings.way.map_or("none", OutputWay::name);
    let times = RunTimes::new(world, way, seconds, cost.bytes)?;
    if let (Some(path), 0) = (&settings.times, world.rank()) {
        times.append(path)?;
    }
    print(&pace(&simulation, first, &times));
    Ok(SphOutcome { totals: simulation.totals()?, step: simulation.state().step, times })
}

fn begin<'w>(
    world: &'w Comm,
    settings: &SphSettings,
    print: impl Fn(&str),
) -> Result<(SphSimulation<'w>, bool)> {
    let continues = matches!(settings.start, RunStart::Latest | RunStart::LatestIfAny | RunStart::Step(_));
    if continues && let Some(simulation) = restart::resume(world, &settings.files, settings.start, &print)? {
        return Ok((simulation, true));
    }
    if settings.way.is_some() && !continues {
        restart::begin(world, &settings.files, settings.start)?;
    }
    Ok((SphSimulation::new(world, &settings.config)?, false))
}

/// The outputs of a run.
struct RunWriter<'s> {
    settings: &'s SphSettings,
    output: Option<Box<dyn StepOutput>>,
    vtk: Option<vtk_series::VtkSeries>,
    first: u64,
    written: u64,
    /// The time of pictures and other files for viewers, which does not count.
    aside: Duration,
    waiting: Duration,
}

impl<'s> RunWriter<'s> {
    fn create(world: &Comm, settings: &'s SphSettings, simulation: &SphSimulation) -> Result<Self> {
        let first = simulation.state().step;
        let create = |way| {
            output::create(world, way, settings.record, simulation.quantities(), &settings.files, first)
        };
        let output = settings.way.map(create).transpose()?;
        let vtk =
            (settings.vtk > 0).then(|| vtk_series::VtkSeries::create(world, &settings.files.prefix, first));
        let zero = Duration::ZERO;
        Ok(Self { settings, output, vtk: vtk.transpose()?, first, written: 0, aside: zero, waiting: zero })
    }

    /// Writes what is due in this step, then balances the load.
    fn write(&mut self, simulation: &mut SphSimulation, last: bool) -> Result<()> {
        let settings = self.settings;
        let step = simulation.state().step;
        let due = |every: u64| every > 0 && (step.is_multiple_of(every) || last);
        let began = Instant::now();
        if due(settings.pictures) {
            picture::write(simulation, &settings.files.picture(step))?;
        }
        if let Some(vtk) = self.vtk.as_mut().filter(|_| due(settings.vtk)) {
            vtk.write(simulation)?;
        }
        self.aside += began.elapsed();
        if !due(settings.every) {
            return Ok(());
        }
        if let Some(output) = &mut self.output {
            let particles = simulation
                .world()
                .allreduce_one(aqueduct::comm::Op::Sum, simulation.particles().len() as u64)?;
            let header = StepHeader {
                state: simulation.state(),
                particles,
                ranks: simulation.world().size(),
                way: settings.way.unwrap_or(OutputWay::Together),
                record: settings.record,
                stream: (settings.way == Some(OutputWay::Stream)).then_some((self.first, self.written)),
                quantities: simulation.quantities().clone(),
                config: simulation.config().summary(),
            };
            output.write(simulation, &header)?;
            self.written += 1;
            // The ranks meet for the load balancing; waiting for the slowest writer is a part of the output.
            let began = Instant::now();
            simulation.world().barrier()?;
            self.waiting += began.elapsed();
        }
        simulation.balance()?;
        Ok(())
    }

    fn finish(self) -> Result<(OutputCost, Duration)> {
        let began = Instant::now();
        if let Some(vtk) = self.vtk {
            vtk.close()?;
        }
        let aside = self.aside + began.elapsed();
        let mut cost = self.output.map_or(Ok(OutputCost::default()), StepOutput::finish)?;
        cost.io += self.waiting;
        Ok((cost, aside))
    }
}

fn introduction(world: &Comm, simulation: &SphSimulation) -> String {
    let config = simulation.config();
    format!(
        "{:?} of {:?} cells, {} kernel, {} integrator, {} quantities, {} ranks ({}), {:?} decomposition\n\
         {:>8} {:>12} {:>10} {:>10} {:>10} {:>8} {:>8}",
        config.scene,
        config.cells,
        config.kernel.name(),
        config.integrator.name(),
        simulation.quantities().scalars.len() + simulation.quantities().vectors.len(),
        world.size(),
        world.transport(),
        config.decomposition,
        "step",
        "time/s",
        "particles",
        "diesel",
        "front/m",
        "density",
        "speed"
    )
}

fn row(simulation: &SphSimulation, totals: &Totals) -> String {
    let state = simulation.state();
    format!(
        "{:>8} {:>12.5} {:>10} {:>10} {:>10.4} {:>8.4} {:>8.4}",
        state.step,
        state.time,
        totals.particles,
        totals.diesel,
        totals.front.max(0.0),
        totals.compression,
        totals.speed
    )
}

fn pace(simulation: &SphSimulation, first: u64, times: &RunTimes) -> String {
    let steps = simulation.state().step - first;
    let mut line = format!("{steps} steps in {:.2} s: computing {:.2} s", times.total, times.compute);
    if times.output != "none" {
        let rate = times.bytes as f64 / (times.io + times.talk).max(1e-9) / 1e6;
        let (way, io, talk, megabytes) = (&times.output, times.io, times.talk, times.bytes as f64 / 1e6);
        let _ = write!(
            line,
            ", output ({way}) {io:.2} s, its messages {talk:.2} s, {megabytes:.1} MB at {rate:.1} MB/s"
        );
    }
    if simulation.rejected() > 0 {
        let _ = write!(line, "; {} steps repeated with a shorter length", simulation.rejected());
    }
    line
}
