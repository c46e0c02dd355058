//! Asynchronous output: its cost for the program, its overlap with computation, its bandwidth.

use std::hint::black_box;
use std::time::Instant;

use anyhow::ensure;
use aqueduct::comm::{Comm, Launch, Op};
use aqueduct::stream::{
    Error, Hyperslab, Options, Output, OutputMode, OutputReport, Role, Stream, StreamKey, Streams,
    split_io_servers,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::ClockId;

use super::{discard_device, is_wanted};
use crate::table::{FigureTable, FigureTarget};
use crate::timing::{best_and_median, cpu_seconds};
use crate::tools::scratch_folder;
use matrices::Matrices;

// The same computation as in `aqueduct bench overlap`, whose crate has no library.
#[path = "../../../cli/src/bench/overlap/matrices.rs"]
mod matrices;

const RANKS: usize = 2;
const HIDDEN: [OutputMode; 3] = [OutputMode::Thread, OutputMode::Leaders, OutputMode::Servers];

/// A program that computes and writes in steps.
#[derive(Clone)]
struct StreamProgram {
    device: String,
    mode: OutputMode,
    /// `f64`s of each rank.
    values: [usize; RANKS],
    /// The number of cuboids of the stream.
    cuboids: u64,
    /// Matrix products in each step.
    products: u64,
    steps: u64,
    memory: u64,
    durable: bool,
    /// Whether each step is followed by one that only copies its data, into as many buffers.
    copies: bool,
    /// Whether I/O threads run on processors that no rank is bound to.
    free_cores: bool,
}

/// The measurements of rank 0, in seconds.
struct ProgramTimes {
    /// Time per step of the slowest rank.
    step: f64,
    /// CPU time per step of all ranks and their threads without the computation: the cost of output.
    output: f64,
    commits: Vec<f64>,
    copies: Vec<f64>,
    /// CPU time of the commits and of the copies.
    cpu: [Vec<f64>; 2],
    /// Time of the computation per step.
    computing: f64,
    report: OutputReport,
}

type StreamBenchmark = fn(&mut FigureTable, &StreamProgram);

const PARTS: [(&str, StreamBenchmark); 10] = [
    ("visible", visible),
    ("overlap-slow", overlap_slow),
    ("overlap-fast", overlap_fast),
    ("overlap-copied", overlap_copied),
    ("overlap-disk", overlap_disk),
    ("slowed", slowed),
    ("placement", placement),
    ("choice", choice),
    ("overflow", overflow),
    ("cuboids", cuboids),
];

pub(crate) fn run(words: &[&str]) -> anyhow::Result<()> {
    let program = StreamProgram {
        device: "throttle=200MB/s:memfs:".to_owned(),
        mode: OutputMode::Thread,
        values: [1 << 20; RANKS],
        cuboids: 1,
        products: 0,
        steps: 12,
        memory: 1 << 28,
        durable: false,
        copies: false,
        free_cores: false,
    };
    let parts: Vec<_> = PARTS.iter().filter(|(name, _)| is_wanted(words, name)).collect();
    ensure!(
        !parts.is_empty(),
        "streams has no part {}; the parts are {:?}",
        words.join(" "),
        PARTS.map(|part| part.0)
    );
    let mut table = FigureTable::default();
    for (_, part) in parts {
        part(&mut table, &program);
    }
    table.finish();
    Ok(())
}

/// The result, the elapsed seconds and the CPU seconds of this thread.
fn timed<R>(work: impl FnOnce() -> R) -> (R, f64, f64) {
    let (start, cpu) = (Instant::now(), cpu_seconds(ClockId::ThreadCPUTime));
    let result = work();
    (result, start.elapsed().as_secs_f64(), cpu_seconds(ClockId::ThreadCPUTime) - cpu)
}

fn median(times: &[f64]) -> f64 {
    best_and_median(times)[1]
}

fn multiply(matrices: &mut Matrices, times: u64) {
    (0..times).for_each(|_| matrices.multiply());
}

/// The number of products that take so many seconds if every rank computes.
fn products(seconds: f64) -> u64 {
    let time = |_: &Comm| {
        let mut matrices = Matrices::new();
        multiply(&mut matrices, 200);
        let begin = Instant::now();
        multiply(&mut matrices, 2000);
        Ok::<_, Error>(begin.elapsed().as_secs_f64() / 2000.0)
    };
    let each = Launch::threads(RANKS).run(time).expect("products are computed");
    (seconds * RANKS as f64 / each.iter().sum::<f64>()).round() as u64
}

impl StreamProgram {
    fn run(&self, name: &str) -> ProgramTimes {
        let name = format!("{}{name}", self.device);
        let ranks = RANKS + usize::from(self.mode == OutputMode::Servers);
        let mut all = Launch::threads(ranks).run(|world| self.role(world, &name)).expect("the program runs");
        all.swap_remove(0).expect("rank 0 computes")
    }

    /// In the mode `Servers` the last of three ranks is the I/O server.
    fn role(&self, world: &Comm, name: &str) -> Result<Option<ProgramTimes>, Error> {
        let options = Options::new().mode(self.mode).memory(self.memory).replace();
        let options = if self.durable { options.durable_every(1) } else { options };
        let options = if self.free_cores { options.free_cores() } else { options };
        if self.mode != OutputMode::Servers {
            return self.rank(world, name, &options).map(Some);
        }
        match split_io_servers(world, 1)? {
            Role::Server(server) => server.memory(RANKS as u64 * self.memory).serve().map(|_| None),
            Role::Compute(group) => self.rank(group.comm(), name, &options.served_by(&group)).map(Some),
        }
    }

    fn declare(&self, world: &Comm) -> (Streams, StreamKey<f64>) {
        let total = self.values.iter().sum::<usize>() as u64;
        let start = self.values[..world.rank()].iter().sum::<usize>() as u64;
        let stream = Stream::array("values", [total]).block([start], [self.values[world.rank()] as u64]);
        let each = total / self.cuboids;
        let cuboids = (0..self.cuboids).map(|number| Hyperslab::new([number * each], [each]));
        let mut streams = Streams::new();
        let key = streams.add(if self.cuboids > 1 { stream.cuboids(cuboids) } else { stream });
        (streams, key)
    }

    fn rank(&self, world: &Comm, name: &str, options: &Options) -> Result<ProgramTimes, Error> {
        let (streams, key) = self.declare(world);
        let output = options.create(world, name, &streams)?;
        world.barrier()?;
        self.compute(world, output, key)
    }

    fn compute(&self, world: &Comm, mut output: Output, key: StreamKey<f64>) -> Result<ProgramTimes, Error> {
        let data = vec![1.5; self.values[world.rank()]];
        let mut rotating = if self.copies { vec![vec![0.0; data.len()]; 2] } else { Vec::new() };
        let (mut matrices, mut commits, mut copies) = (Matrices::new(), Vec::new(), Vec::new());
        let (mut computing, mut computing_cpu, mut cpu) = (0.0, 0.0, [Vec::new(), Vec::new()]);
        world.barrier()?;
        let (start, before) = (Instant::now(), cpu_seconds(ClockId::ProcessCPUTime));
        for _ in 0..self.steps {
            let ((), time, thread_cpu) = timed(|| multiply(&mut matrices, self.products));
            computing += time;
            computing_cpu += thread_cpu;
            let (committed, time, thread_cpu) = timed(|| output.step()?.put(key, &data).commit());
            committed?;
            commits.push(time);
            cpu[0].push(thread_cpu);
            if self.copies {
                multiply(&mut matrices, self.products);
                let copy = || black_box(&mut rotating[0]).copy_from_slice(black_box(&data));
                let ((), time, thread_cpu) = timed(copy);
                copies.push(time);
                cpu[1].push(thread_cpu);
                rotating.rotate_left(1);
            }
        }
        let report = output.finish()?;
        let total = world.allreduce_one(Op::Max, start.elapsed().as_secs_f64())?;
        let computing_cpu = world.allreduce_one(Op::Sum, computing_cpu)?;
        let output = cpu_seconds(ClockId::ProcessCPUTime) - before - computing_cpu;
        let [step, output, computing] = [total, output, computing].map(|time| time / self.steps as f64);
        Ok(ProgramTimes { step, output, commits, copies, cpu, computing, report })
    }

    fn with(&self, mode: OutputMode) -> Self {
        Self { mode, ..self.clone() }
    }
}

/// The time of a commit that fits, against a copy of its bytes by the same program: caches are as cold, and there are as many buffers.
fn visible(table: &mut FigureTable, program: &StreamProgram) {
    // Longer than the write of a step takes.
    let program = StreamProgram { products: products(0.12), steps: 15, copies: true, ..program.clone() };
    for mode in HIDDEN {
        let times = program.with(mode).run("visible");
        let [commits, copies] = [best_and_median(&times.commits), best_and_median(&times.copies)];
        let label = format!("{mode:?}: commit of 8 MiB per rank / memcpy");
        table.row(&label, [commits[0] / copies[0], commits[1] / copies[1]], FigureTarget::AtMost(1.25));
        let [commits, copies] = times.cpu.map(|times| best_and_median(&times));
        let ratios = [commits[0] / copies[0], commits[1] / copies[1]];
        table.row(&format!("{label}, CPU time"), ratios, FigureTarget::AtMost(1.25));
    }
}

/// A folder on the disk, and the device name of its files.
fn disk() -> (tempfile::TempDir, String) {
    let folder = scratch_folder().expect("a folder on the disk");
    let device = format!("ufs:{}/", folder.path().display());
    (folder, device)
}

/// Computing and writing take the same time.
fn overlap_slow(table: &mut FigureTable, program: &StreamProgram) {
    overlap_on(table, "200 MB/s", &StreamProgram { steps: 40, ..program.clone() });
}

/// A device without CPU time.
fn overlap_fast(table: &mut FigureTable, program: &StreamProgram) {
    discard_device::register();
    overlap_on(
        table,
        "1 GB/s",
        &StreamProgram { device: "throttle=1GB/s:discard:".to_owned(), steps: 60, ..program.clone() },
    );
}

/// A device that copies the data.
fn overlap_copied(table: &mut FigureTable, program: &StreamProgram) {
    let device = "throttle=1GB/s:memfs:".to_owned();
    overlap_on(table, "1 GB/s, copied", &StreamProgram { device, steps: 60, ..program.clone() });
}

/// A disk; every step is synced.
fn overlap_disk(table: &mut FigureTable, program: &StreamProgram) {
    let (folder, device) = disk();
    overlap_on(table, "disk, synced", &StreamProgram { device, durable: true, steps: 25, ..program.clone() });
    drop(folder);
}

/// Rounds of computing, writing, and both.
const TURNS: usize = 5;

fn overlap_on(table: &mut FigureTable, medium: &str, program: &StreamProgram) {
    let alone = |program: &StreamProgram| {
        StreamProgram { products: 0, steps: 8, ..program.with(OutputMode::Blocking) }.run("writing")
    };
    let program = StreamProgram { products: products(alone(program).step), ..program.clone() };
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    for mode in
        [OutputMode::Blocking, OutputMode::Thread, OutputMode::Leaders, OutputMode::Servers, OutputMode::Auto]
    {
        let (mut output, mut possible, mut reports) = (Vec::new(), Vec::new(), Vec::new());
        let ratio = |_| {
            // Measured in each round: the bandwidth of a disk varies.
            let (before, computing) = (alone(&program).step, program.computing());
            let times = program.with(mode).run("overlap");
            let longer = computing.max(f64::midpoint(before, alone(&program).step));
            // The cores compute and copy: the step cannot be shorter than that.
            let busy = (RANKS as f64 * computing + times.output) / cores;
            output.push(times.output);
            possible.push(times.step / longer.max(busy));
            reports.push(times.report);
            times.step / longer
        };
        let ratios: Vec<f64> = (0..TURNS).map(ratio).collect();
        table.at_most(&format!("{medium}, {mode:?}: step / max(computing, writing)"), &ratios, 1.1);
        println!(
            "    CPU time of output: {:.2} ms per step; step / least step with that CPU time: {:.3}",
            median(&output) * 1e3,
            median(&possible)
        );
        if let Some(report) = reports.last() {
            println!("    {report}");
        }
    }
}

impl StreamProgram {
    /// The seconds of the computation of a step without output.
    fn computing(&self) -> f64 {
        let time = |_: &Comm| {
            let (mut matrices, begin) = (Matrices::new(), Instant::now());
            (0..5).for_each(|_| multiply(&mut matrices, self.products));
            Ok::<_, Error>(begin.elapsed().as_secs_f64() / 5.0)
        };
        let all = Launch::threads(RANKS).run(time).expect("products are computed");
        all.into_iter().fold(0.0, f64::max)
    }
}

/// The slowdown of the computation while output is written: the same products with output and without, in turn.
fn slowed(table: &mut FigureTable, program: &StreamProgram) {
    for (medium, device) in [("100 MB/s", "throttle=100MB/s:memfs:"), ("200 MB/s", "throttle=200MB/s:memfs:")]
    {
        let program = StreamProgram { device: device.to_owned(), steps: 10, ..program.clone() };
        let writing =
            StreamProgram { products: 0, steps: 4, ..program.with(OutputMode::Blocking) }.run("writing").step;
        // The device is nearly always busy.
        let program = StreamProgram { products: products(1.05 * writing), ..program };
        for mode in HIDDEN {
            let ratio = |_| program.with(mode).run("slowed").computing / program.computing();
            let ratios: Vec<f64> = (0..3).map(ratio).collect();
            table.at_most(&format!("{medium}, {mode:?}: computing while writing / alone"), &ratios, 1.05);
        }
    }
}

/// The slowdown of the computation of ranks that are bound to one processor: by an I/O thread on the same one, and on one that it finds free.
fn placement(table: &mut FigureTable, program: &StreamProgram) {
    let measure = || {
        // The ranks, and I/O threads that are not placed, inherit the processor of this thread.
        let allowed = sched_getaffinity(None).expect("the processors of this thread");
        let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).expect("there is one");
        let mut only = CpuSet::new();
        only.set(first);
        sched_setaffinity(None, &only).expect("this thread is bound");
        let writing =
            StreamProgram { products: 0, steps: 4, ..program.with(OutputMode::Blocking) }.run("writing").step;
        let program = StreamProgram { products: products(1.05 * writing), steps: 10, ..program.clone() };
        for (place, free_cores, target) in [
            ("on the processor of the ranks", false, FigureTarget::None),
            ("on a free processor", true, FigureTarget::AtMost(1.05)),
        ] {
            let program = StreamProgram { free_cores, ..program.clone() };
            let ratio = |_| program.run("placement").computing / program.computing();
            let ratios: Vec<f64> = (0..3).map(ratio).collect();
            let label = format!("I/O thread {place}: computing while writing / alone");
            table.row(&label, best_and_median(&ratios), target);
        }
    };
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("placement: skipped, this process may use one processor only");
        return;
    }
    std::thread::scope(|scope| scope.spawn(measure).join()).expect("the program runs");
}

/// The automatic mode where overlap cannot help: it must cost no more than the blocking mode.
fn choice(table: &mut FigureTable, program: &StreamProgram) {
    let small =
        StreamProgram { values: [60_000; RANKS], products: products(0.005), steps: 60, ..program.clone() };
    let slice =
        StreamProgram { values: [1 << 19, 0], products: products(0.02), steps: 20, ..program.clone() };
    for (what, program) in [("steps of 1 MB", small), ("a slice of one rank", slice)] {
        let mut chosen = None;
        // Short runs in alternating order: other load of the machine affects both modes alike.
        let ratio = |turn: usize| {
            let [mut blocking, mut auto] = [0.0; 2];
            for own in [turn.is_multiple_of(2), !turn.is_multiple_of(2)] {
                let times =
                    program.with(if own { OutputMode::Auto } else { OutputMode::Blocking }).run("choice");
                *(if own { &mut auto } else { &mut blocking }) = times.step;
                chosen = if own { Some(times.report) } else { chosen.take() };
            }
            auto / blocking
        };
        let ratios: Vec<f64> = (0..16).map(ratio).collect();
        table.at_most(&format!("{what}: auto / blocking"), &ratios, 1.03);
        let report = chosen.expect("auto has run");
        println!("    {:?}: {}", report.mode, report.reason);
    }
}

/// Steps that do not fit into the buffers.
fn overflow(table: &mut FigureTable, program: &StreamProgram) {
    let program = StreamProgram { values: [92 << 17; RANKS], memory: 64 << 20, steps: 3, ..program.clone() };
    let bytes = 8 * program.values.iter().sum::<usize>();
    for mode in HIDDEN {
        let times = program.with(mode).run("overflow");
        assert!(times.report.memory_peak <= 64 << 20, "the memory limit holds");
        let label = format!("{mode:?}: 92 MiB per rank into 64 MiB: bandwidth / device");
        table.at_least(&label, &[bytes as f64 / times.step / 2e8], 0.9);
    }
}

/// Many small cuboids against a large one.
fn cuboids(table: &mut FigureTable, program: &StreamProgram) {
    let program = StreamProgram {
        device: "memfs:".to_owned(),
        values: [1 << 22; RANKS],
        ..program.with(OutputMode::Blocking)
    };
    let many = StreamProgram { cuboids: 256, ..program.clone() };
    let ratio = |_| median(&many.run("cuboids").commits) / median(&program.run("cuboid").commits);
    let ratios: Vec<f64> = (0..5).map(ratio).collect();
    table.at_most("256 cuboids / one of the same volume", &ratios, 1.15);
}
