//! The prototype of a time-stepping program: it computes, stores sub-domains of its grid, and computes on.

mod grid;
mod load;
mod matrices;
mod mode_run;
mod table;
mod timeline;
mod timeline_svg;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use aqueduct::comm::{Comm, Launch};
use aqueduct::device::units::ByteSize;
use aqueduct::stream::OutputMode;

use self::grid::{GridShape, StoredRegion};
use self::load::LoadAmount;
use self::mode_run::ModeResult;
use crate::standard_output;

/// What each mode of output costs a time-stepping program: blocking, thread, leaders, servers and auto in one run.
///
/// In every iteration each rank computes its block of a grid, works off the loads, and hands the block over. The value at (x, y, z) in
/// step t is x + y·a + z·a² + t·a³, so that every stored value is verified exactly, whatever the number of ranks. Ranks are threads of this
/// process, or the processes of an MPI job: `mpirun -n 4 aqueduct bench overlap`.
#[derive(clap::Args)]
#[group(id = "overlap")]
pub(crate) struct OverlapArguments {
    /// Ranks, where they are threads [default: as `AQUEDUCT_RANKS` says, else the number of cores]
    #[arg(long, short = 'n')]
    ranks: Option<usize>,
    /// The grid: a side, or z×y×x
    #[arg(long, short, default_value = "128")]
    grid: GridShape,
    /// What is stored of it
    #[arg(long, short, value_enum, default_value = "whole")]
    region: StoredRegion,
    /// How many boxes, where cuboids are stored
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    cuboids: u64,
    /// Iterations of the program
    #[arg(long, short, default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    iterations: u64,
    /// Quantities that are stored in each step
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    data: u64,
    /// Steps that are stored in each iteration
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    write: u64,
    /// Buffers that rotate
    #[arg(long, default_value_t = 2)]
    buffers: usize,
    /// What all buffers of a rank may take [default: an eighth of the available memory, divided by the ranks]
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Load of the processor in each iteration: products of 64×64 matrices on each rank
    #[arg(long, default_value_t = 0.0)]
    cpu: f64,
    /// Load of the memory: bytes copied on each rank
    #[arg(long, default_value = "0B", value_name = "SIZE")]
    copies: ByteSize,
    /// Load of the network: bytes broadcast to all ranks
    #[arg(long, default_value = "0B", value_name = "SIZE")]
    broadcasts: ByteSize,
    /// Modes to compare, in this order
    #[arg(long, short, value_enum, value_delimiter = ',', default_values_t = OverlapMode::ALL)]
    modes: Vec<OverlapMode>,
    /// Ranks that serve, in the mode `servers`: they compute nothing, the others share their part of the load
    #[arg(long, default_value_t = 1)]
    servers: usize,
    /// Ranks of a group, in the mode `leaders` [default: those of a node]
    #[arg(long)]
    group: Option<usize>,
    /// Keep I/O threads on these processors
    #[arg(long, value_delimiter = ',')]
    pin: Vec<usize>,
    /// Runs of every mode; the table has the fastest of each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeat: u64,
    /// The files: each mode writes one, with its name behind this one. Device and wrappers in front: throttle=200MB/s:memfs:x. Deleted at the end
    #[arg(long, short, value_name = "NAME", default_value = "aqueduct-overlap")]
    file: String,
    /// Use files that exist already: their contents are lost
    #[arg(long)]
    overwrite: bool,
    /// Leave the files where they are instead of deleting them
    #[arg(long)]
    keep: bool,
    /// Write all runs to a file, as comma-separated values
    #[arg(long, value_name = "PATH")]
    csv: Option<PathBuf>,
    /// Draw when each rank computed, handed over and wrote
    #[arg(long, value_name = "PATH")]
    svg: Option<PathBuf>,
}

/// A mode of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OverlapMode {
    Blocking,
    Thread,
    Leaders,
    Servers,
    Auto,
}

impl OverlapMode {
    const ALL: [Self; 5] = [Self::Blocking, Self::Thread, Self::Leaders, Self::Servers, Self::Auto];

    fn mode(self) -> OutputMode {
        match self {
            Self::Blocking => OutputMode::Blocking,
            Self::Thread => OutputMode::Thread,
            Self::Leaders => OutputMode::Leaders,
            Self::Servers => OutputMode::Servers,
            Self::Auto => OutputMode::Auto,
        }
    }
}

impl std::fmt::Display for OverlapMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

impl OverlapArguments {
    fn steps(&self) -> u64 {
        self.iterations * self.write
    }

    fn amount(&self) -> LoadAmount {
        LoadAmount { products: self.cpu.max(0.0), copied: self.copies.0, broadcast: self.broadcasts.0 }
    }

    /// Bytes that all ranks store in the whole run.
    fn bytes(&self) -> u64 {
        let values: u64 = self
            .grid
            .boxes(self.region, self.cuboids)
            .iter()
            .filter_map(aqueduct::stream::Cuboid::volume)
            .sum();
        8 * values * self.data * self.steps()
    }
}

pub(crate) fn run(arguments: &OverlapArguments) -> Result<()> {
    let steps = arguments.steps();
    ensure!(
        arguments.grid.is_exact(steps),
        "values of step {steps} would not be exact; give fewer steps or a smaller grid"
    );
    ensure!(arguments.cpu.is_finite(), "--cpu is a number of products");
    let launch = Launch::from_env()?;
    let launch = arguments.ranks.map_or(launch.clone(), |ranks| launch.ranks(ranks));
    launch.run(|world| job(world, arguments).map_err(|error| format!("{error:#}")))?;
    Ok(())
}

fn job(world: &Comm, arguments: &OverlapArguments) -> Result<()> {
    let able = |choice: &&OverlapMode| {
        **choice != OverlapMode::Servers || world.size() >= 2 * arguments.servers.max(1)
    };
    let modes: Vec<OverlapMode> = arguments.modes.iter().filter(able).copied().collect();
    let mut trials: Vec<ModeResult> = Vec::new();
    for _ in 0..arguments.repeat {
        for choice in &modes {
            trials.extend(mode_run::run(world, arguments, *choice)?);
        }
    }
    if world.rank() != 0 {
        return Ok(());
    }
    let mut told = table::table(world, arguments, &trials);
    if modes.len() < arguments.modes.len() {
        let (ranks, servers) = (world.size(), arguments.servers);
        writeln!(told, "servers were left out: {ranks} ranks are too few for {servers} of them")?;
    }
    standard_output::print(&told)?;
    if let Some(path) = &arguments.csv {
        let written = std::fs::write(path, table::csv(arguments, &trials));
        written.with_context(|| format!("writing the runs to {}", path.display()))?;
    }
    if let Some(path) = &arguments.svg {
        let written = std::fs::write(path, timeline_svg::draw(&table::fastest(&trials)));
        written.with_context(|| format!("writing the drawing to {}", path.display()))?;
    }
    Ok(())
}
