//! The demonstration: a small job on all layers.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use aqueduct::comm::{Comm, Launch, Op};
use aqueduct::device::units::ByteSize;
use aqueduct::file::layout::{Basic, Layout};
use aqueduct::file::{File, Kind, Mode, OpenOptions, View};

use crate::standard_output;

const OWN_FILE: &str = "aqueduct-demo.bin";

#[derive(clap::Args)]
#[group(id = "demo")]
pub(crate) struct DemoArguments {
    /// Number of ranks, if they are threads [default: `AQUEDUCT_RANKS`, else the number of cores]
    #[arg(long, short = 'n')]
    ranks: Option<usize>,
    /// Bytes that each rank writes, such as 64MiB
    #[arg(long, short, default_value = "16MiB", value_name = "SIZE")]
    size: ByteSize,
    /// Bytes that each rank writes in one collective call
    #[arg(long, short, default_value = "4MiB", value_name = "SIZE")]
    block: ByteSize,
    /// Size of an element; elements are distributed round-robin
    #[arg(long, short, default_value = "4KiB", value_name = "SIZE")]
    element: ByteSize,
    /// The shared file, optionally with device and layers: memfs:x, uring:out.bin, throttle=200MB/s:out.bin. Deleted at the end
    #[arg(long, short, value_name = "NAME", default_value = OWN_FILE)]
    file: OsString,
    /// Replace an existing file; its contents are lost
    #[arg(long)]
    overwrite: bool,
    /// Keep the file instead of deleting it
    #[arg(long)]
    keep: bool,
}

/// The duration of each part on the slowest rank.
struct PhaseTimes {
    write: Duration,
    sync: Duration,
    read: Duration,
}

pub(crate) fn run(arguments: &DemoArguments) -> Result<()> {
    let element = arguments.element.0;
    ensure!(element > 0 && element.is_multiple_of(8), "--element must be a multiple of 8 bytes");
    ensure!(
        arguments.block.0 > 0 && arguments.block.0.is_multiple_of(element),
        "--block must be a multiple of the element size, {}",
        arguments.element
    );
    ensure!(
        arguments.size.0.is_multiple_of(arguments.block.0),
        "--size must be a multiple of the block size, {}",
        arguments.block
    );
    let launch = Launch::from_env()?;
    let launch = arguments.ranks.map_or(launch.clone(), |ranks| launch.ranks(ranks));
    launch.run(|world| job(world, arguments).map_err(|error| format!("{error:#}")))?;
    Ok(())
}

fn job(world: &Comm, arguments: &DemoArguments) -> Result<()> {
    // An existing file is not deleted, unless it is left of an interrupted demonstration.
    let ours = arguments.overwrite || arguments.file == OWN_FILE;
    let mode = if ours { Mode::read_write().create() } else { Mode::read_write().exclusive() };
    let mode = if arguments.keep { mode } else { mode.delete_on_close() };
    let file = OpenOptions::from(mode).open(world, &arguments.file).map_err(|error| match error.kind() {
        Kind::FileExists => {
            anyhow!(
                "{} exists; choose another name with --file, or replace it with --overwrite",
                arguments.file.display()
            )
        }
        _ => error.into(),
    })?;
    file.set_size(0)?;
    let times = measure(world, &file, arguments)?;
    file.close()?;
    if world.rank() == 0 {
        standard_output::print(&report(world, arguments, &times)?)?;
    }
    Ok(())
}

fn measure(world: &Comm, file: &File, arguments: &DemoArguments) -> Result<PhaseTimes> {
    let element = Layout::from(Basic::U64).contiguous(arguments.element.0 / 8)?;
    let mut block: Vec<u64> = Vec::new();
    let length = arguments.block.0 as usize / 8;
    let room = block.try_reserve_exact(length);
    room.with_context(|| {
        format!("--block {} does not fit into memory; choose a smaller block", arguments.block)
    })?;
    block.resize(length, 0);
    let blocks = arguments.size.0 / arguments.block.0;

    file.set_view(&round_robin_view(world, &element, world.rank())?)?;
    let mut write = Duration::ZERO;
    for number in 0..blocks {
        fill(world.rank(), number, &mut block);
        write += timed(world, || Ok(file.at_pointer().all().write(&block).map(|_| ())?))?;
    }
    let sync = timed(world, || Ok(file.sync()?))?;

    let neighbour = (world.rank() + 1) % world.size();
    file.set_view(&round_robin_view(world, &element, neighbour)?)?;
    let mut expected = block.clone();
    let mut read = Duration::ZERO;
    for number in 0..blocks {
        read += timed(world, || {
            let count = file.at_pointer().all().read(&mut block)?;
            ensure!(count.bytes() == arguments.block.0, "the file ends in block {number}");
            Ok(())
        })?;
        fill(neighbour, number, &mut expected);
        ensure!(block == expected, "rank {} read wrong numbers in block {number}", world.rank());
    }
    Ok(PhaseTimes { write, sync, read })
}

/// The view of the elements of `rank`, distributed round-robin.
fn round_robin_view(world: &Comm, element: &Layout, rank: usize) -> Result<View> {
    let round = element.resized(0, element.extent() * world.size() as i64)?;
    Ok(View::new(element.size() * rank as u64, element, &round)?)
}

/// The time of the slowest rank, from a common start.
fn timed(world: &Comm, work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    world.barrier()?;
    let start = Instant::now();
    work()?;
    let slowest = world.allreduce_one(Op::Max, start.elapsed().as_nanos() as u64)?;
    Ok(Duration::from_nanos(slowest))
}

/// The numbers of a rank, which every rank can compute.
fn fill(rank: usize, block: u64, numbers: &mut [u64]) {
    let start = (rank as u64) << 48 | block << 32;
    for (at, number) in numbers.iter_mut().enumerate() {
        *number = (start + at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

fn report(world: &Comm, arguments: &DemoArguments, times: &PhaseTimes) -> Result<String> {
    let total = arguments.size.0 * world.size() as u64;
    let rate = |time: Duration| total as f64 / 1e6 / time.as_secs_f64().max(1e-9);
    let mut text = String::new();
    let (ranks, nodes, name) = (world.size(), world.node_count(), arguments.file.display());
    let many = |count: usize| if count == 1 { "" } else { "s" };
    let transport = world.transport();
    writeln!(text, "{ranks} rank{} on {nodes} node{} ({transport})", many(ranks), many(nodes))?;
    writeln!(
        text,
        "one shared file {name}, {} per rank in elements of {}, round-robin",
        arguments.size, arguments.element
    )?;
    writeln!(text, "  collective write {:>8.0} MB/s", rate(times.write))?;
    writeln!(text, "  sync             {:>8.1} ms", times.sync.as_secs_f64() * 1e3)?;
    writeln!(text, "  collective read  {:>8.0} MB/s   (the elements of the neighbour)", rate(times.read))?;
    writeln!(text, "all {total} bytes verified")?;
    Ok(text)
}
