//! `aqueduct bench overlap`: a time-stepping program that computes and stores parts of its grid.

mod file_format;
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

use self::file_format::OverlapFormat;
use self::grid::{GridShape, StoredRegion};
use self::load::LoadAmount;
use self::mode_run::ModeResult;
use crate::standard_output;

#[derive(clap::Args)]
#[group(id = "overlap")]
pub(crate) struct OverlapArguments {
    /// Number of ranks, if they are threads [default: `AQUEDUCT_RANKS`, else the number of cores]
    #[arg(long, short = 'n')]
    ranks: Option<usize>,
    /// The size of the grid: one side, or z×y×x
    #[arg(long, short, default_value = "128")]
    grid: GridShape,
    /// The part of the grid that is stored
    #[arg(long, short, value_enum, default_value = "whole")]
    region: StoredRegion,
    /// Number of boxes, with --region cuboids
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    cuboids: u64,
    /// The size of a box, with --region cuboids: one side, or z×y×x [default: half of its share of the grid]
    #[arg(long, value_name = "SIZE")]
    box_size: Option<GridShape>,
    /// The format of the files
    #[arg(long, value_enum, default_value = "stream")]
    format: OverlapFormat,
    /// Sync after so many steps [default: only at the end]
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u64).range(1..))]
    durable_every: Option<u64>,
    /// Number of iterations
    #[arg(long, short, default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    iterations: u64,
    /// Number of quantities that are stored in each step
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    data: u64,
    /// Number of steps that are stored in each iteration
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    write: u64,
    /// Number of buffers that are used in rotation
    #[arg(long, default_value_t = 2)]
    buffers: usize,
    /// Memory limit of all buffers of a rank [default: an eighth of the available memory, divided by the ranks]
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Processor load per iteration: products of 64×64 matrices on each rank
    #[arg(long, default_value_t = 0.0)]
    cpu: f64,
    /// Memory load per iteration: bytes copied on each rank
    #[arg(long, default_value = "0B", value_name = "SIZE")]
    copies: ByteSize,
    /// Network load per iteration: bytes broadcast to all ranks
    #[arg(long, default_value = "0B", value_name = "SIZE")]
    broadcasts: ByteSize,
    /// Modes to compare, in this order
    #[arg(long, short, value_enum, value_delimiter = ',', default_values_t = OverlapMode::ALL)]
    modes: Vec<OverlapMode>,
    /// Number of I/O server ranks in the mode `servers`; they do not compute, the other ranks share their load
    #[arg(long, default_value_t = 1)]
    servers: usize,
    /// Ranks per group in the mode `leaders` [default: the ranks of a node]
    #[arg(long)]
    group: Option<usize>,
    /// Bind I/O threads to these processors
    #[arg(long, value_delimiter = ',')]
    pin: Vec<usize>,
    /// Runs of each mode; the table shows the fastest
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeat: u64,
    /// Prefix of the file names, optionally with device and layers: throttle=200MB/s:memfs:x. Each mode appends its name. Deleted at the end
    #[arg(long, short, value_name = "NAME", default_value = "aqueduct-overlap")]
    file: String,
    /// Replace existing files; their contents are lost
    #[arg(long)]
    overwrite: bool,
    /// Keep the files instead of deleting them
    #[arg(long)]
    keep: bool,
    /// Write all runs to this CSV file
    #[arg(long, value_name = "PATH")]
    csv: Option<PathBuf>,
    /// Draw a timeline of computation, commits and writes of each rank to this SVG file
    #[arg(long, value_name = "PATH")]
    svg: Option<PathBuf>,
}

/// An output mode.
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

    /// The boxes that are stored.
    fn boxes(&self) -> Vec<aqueduct::stream::Hyperslab> {
        self.grid.boxes(self.region, self.cuboids, self.box_size)
    }

    fn amount(&self) -> LoadAmount {
        LoadAmount { products: self.cpu.max(0.0), copied: self.copies.0, broadcast: self.broadcasts.0 }
    }

    /// Bytes that all ranks store in a run.
    fn bytes(&self) -> u64 {
        let values: u64 = self.boxes().iter().filter_map(aqueduct::stream::Hyperslab::volume).sum();
        8 * values * self.data * self.steps()
    }
}

pub(crate) fn run(arguments: &OverlapArguments) -> Result<()> {
    let steps = arguments.steps();
    ensure!(
        arguments.grid.is_exact(steps),
        "the values of step {steps} would not be exact; use fewer steps or a smaller grid"
    );
    if let Some(size) = arguments.box_size {
        let most = arguments.grid.most_boxes(size);
        let (cuboids, grid) = (arguments.cuboids, arguments.grid);
        ensure!(
            arguments.region == StoredRegion::Cuboids,
            "--box-size is the size of boxes; add --region cuboids"
        );
        ensure!(
            cuboids <= most,
            "{cuboids} boxes of {size} do not fit the grid {grid}, which has room for {most}"
        );
    }
    ensure!(arguments.cpu.is_finite(), "--cpu must be a finite number of matrix products");
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
    let mut text = table::table(world, arguments, &trials);
    if modes.len() < arguments.modes.len() {
        let (ranks, servers) = (world.size(), arguments.servers);
        writeln!(text, "servers were skipped: {ranks} ranks are too few for {servers} servers")?;
    }
    standard_output::print(&text)?;
    if let Some(path) = &arguments.csv {
        let written = std::fs::write(path, table::csv(arguments, &trials));
        written.with_context(|| format!("writing the runs to {}", path.display()))?;
    }
    if let Some(path) = &arguments.svg {
        let written = std::fs::write(path, timeline_svg::draw(&table::fastest(&trials)));
        written.with_context(|| format!("writing the timeline to {}", path.display()))?;
    }
    Ok(())
}
