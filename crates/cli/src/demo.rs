//! The demonstration: a true small job on the layers there are.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use aqueduct::comm::{Comm, Launch, Op};
use aqueduct::device::{self, Handle, HandleExt, OpenOptions, SyncScope, quantity::Size};

/// All ranks write one shared file, read it back shifted by one rank, and verify every byte.
///
/// Ranks are threads of this process, or the processes of an MPI job: `mpirun -n 4 aqueduct demo`.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Ranks, where they are threads [default: as `AQUEDUCT_RANKS` says, else the number of cores]
    #[arg(long, short = 'n')]
    ranks: Option<usize>,
    /// Bytes that each rank writes, such as 64MiB
    #[arg(long, short, default_value = "64MiB", value_name = "SIZE")]
    size: Size,
    /// Bytes in one access
    #[arg(long, short, default_value = "1MiB", value_name = "SIZE")]
    block: Size,
    /// The shared file, with device and wrappers in front: memfs:x, uring:out.bin, throttle=200MB/s:out.bin
    #[arg(long, short, value_name = "NAME", default_value = "aqueduct-demo.bin")]
    file: OsString,
    /// Leave the file where it is
    #[arg(long)]
    keep: bool,
}

/// How long each part took, on the slowest rank.
struct Times {
    write: Duration,
    sync: Duration,
    read: Duration,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.block.0 > 0, "--block must be at least one byte");
    let launch = Launch::from_env()?;
    let launch = arguments.ranks.map_or(launch.clone(), |ranks| launch.ranks(ranks));
    launch.run(|world| job(world, arguments).map_err(|error| format!("{error:#}")))?;
    Ok(())
}

fn job(world: &Comm, arguments: &Arguments) -> Result<()> {
    let name = || arguments.file.display();
    let file = open(world, arguments)?;
    if !file.capabilities().shared && world.transport() != "threads of one process" {
        anyhow::bail!("{} lives in one process: MPI ranks need a shared file, such as ufs:out.bin", name());
    }
    let times = measure(world, &*file, arguments)?;
    if world.rank() == 0 {
        print!("{}", report(world, arguments, &times)?);
    }
    drop(file);
    world.barrier()?;
    if world.rank() == 0 && !arguments.keep {
        device::delete(&arguments.file).context("clearing up")?;
    }
    Ok(())
}

/// Rank 0 creates the file, then all open it.
fn open(world: &Comm, arguments: &Arguments) -> Result<std::sync::Arc<dyn Handle>> {
    let options = OpenOptions::read_write().rank(world.rank());
    let first = (world.rank() == 0)
        .then(|| device::open(&arguments.file, &options.clone().create(true).truncate(true)));
    let created = first.transpose()?;
    world.barrier()?;
    Ok(match created {
        Some(file) => file,
        None => device::open(&arguments.file, &options)?,
    })
}

fn measure(world: &Comm, file: &dyn Handle, arguments: &Arguments) -> Result<Times> {
    let (size, block) = (arguments.size.0, arguments.block.0);
    let mine = world.rank() as u64 * size;
    let mut bytes = vec![0; block as usize];
    let write = timed(world, |clock| {
        each_block(size, block, |at, len| {
            fill(mine + at, &mut bytes[..len]);
            Ok(clock.time(|| file.write_at(mine + at, &bytes[..len]))?)
        })
    })?;
    let sync = timed(world, |clock| Ok(clock.time(|| file.sync(SyncScope::Data))?))?;
    let theirs = ((world.rank() + 1) % world.size()) as u64 * size;
    let mut expected = vec![0; block as usize];
    let read = timed(world, |clock| {
        each_block(size, block, |at, len| {
            let count = clock.time(|| file.read_at(theirs + at, &mut bytes[..len]))?;
            fill(theirs + at, &mut expected[..len]);
            ensure!(count == len as u64, "the file ends {} bytes early", len as u64 - count);
            ensure!(bytes[..len] == expected[..len], "wrong bytes at offset {}", theirs + at);
            Ok(())
        })
    })?;
    Ok(Times { write, sync, read })
}

/// Counts the time of the accesses alone, not that of making and comparing bytes.
#[derive(Default)]
struct Clock {
    spent: Duration,
}

impl Clock {
    fn time<T>(&mut self, access: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let value = access();
        self.spent += start.elapsed();
        value
    }
}

/// The time of the slowest rank, from a common start.
fn timed(world: &Comm, work: impl FnOnce(&mut Clock) -> Result<()>) -> Result<Duration> {
    world.barrier()?;
    let mut clock = Clock::default();
    work(&mut clock)?;
    let slowest = world.allreduce_one(Op::Max, clock.spent.as_nanos() as u64)?;
    Ok(Duration::from_nanos(slowest))
}

fn each_block(size: u64, block: u64, mut work: impl FnMut(u64, usize) -> Result<()>) -> Result<()> {
    let mut at = 0;
    while at < size {
        let len = block.min(size - at);
        work(at, len as usize)?;
        at += len;
    }
    Ok(())
}

/// Bytes that depend on their place in the file alone, so that any rank can tell them.
fn fill(offset: u64, bytes: &mut [u8]) {
    for (at, word) in (offset..).step_by(8).zip(bytes.chunks_mut(8)) {
        let value = at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        word.copy_from_slice(&value[..word.len()]);
    }
}

fn report(world: &Comm, arguments: &Arguments, times: &Times) -> Result<String> {
    let total = arguments.size.0 * world.size() as u64;
    let rate = |time: Duration| total as f64 / 1e6 / time.as_secs_f64().max(1e-9);
    let mut text = String::new();
    let (ranks, nodes, name) = (world.size(), world.node_count(), arguments.file.display());
    writeln!(text, "{ranks} ranks on {nodes} node(s), by {}", world.transport())?;
    writeln!(text, "one shared file {name}, {} per rank, blocks of {}", arguments.size, arguments.block)?;
    writeln!(text, "  write   {:>8.0} MB/s", rate(times.write))?;
    writeln!(text, "  sync    {:>8.1} ms", times.sync.as_secs_f64() * 1e3)?;
    writeln!(text, "  read    {:>8.0} MB/s   (each rank its neighbour's part)", rate(times.read))?;
    writeln!(text, "all {total} bytes verified")?;
    Ok(text)
}
