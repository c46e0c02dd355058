//! What hidden output costs and saves, as ratios measured in one run: `cargo bench --bench streams`. Names choose parts, or what they begin with:
//! `-- visible overlap`.

#[path = "../crates/cli/src/overlap/matrices.rs"]
mod matrices;
#[path = "streams/sink.rs"]
mod sink;
#[path = "common/table.rs"]
mod table;

use std::hint::black_box;
use std::time::Instant;

use aqueduct::comm::{Comm, Launch, Op};
use aqueduct::stream::{
    Cuboid, Error, Options, Output, OutputMode, OutputReport, Role, Stream, StreamKey, Streams,
    split_io_servers,
};
use matrices::Matrices;
use rustix::time::{ClockId, clock_gettime};
use table::print_row;

const RANKS: usize = 2;
const HIDDEN: [OutputMode; 3] = [OutputMode::Thread, OutputMode::Leaders, OutputMode::Servers];

/// A program: what each rank stores, how much it computes, on what.
#[derive(Clone)]
struct Program {
    device: String,
    mode: OutputMode,
    /// `f64`s of each rank.
    values: [usize; RANKS],
    /// Into how many cuboids they are cut.
    cuboids: u64,
    /// Products of matrices in each step.
    products: u64,
    steps: u64,
    memory: u64,
    durable: bool,
    /// A step is followed by one that only copies what the other stores, into as many buffers.
    copies: bool,
}

/// What rank 0 has measured: the longest time of a rank per step, the sorted times of commits and of copies, and of the processor in them,
/// the time computed per step.
struct Ran {
    step: f64,
    /// Seconds of processors per step that all ranks and their threads spent beside computing: what output costs of them.
    output: f64,
    commits: Vec<f64>,
    copies: Vec<f64>,
    worked: [Vec<f64>; 2],
    computing: f64,
    report: OutputReport,
}

type Part = (&'static str, fn(&Program));
const PARTS: [Part; 9] = [
    ("visible", visible),
    ("overlap-slow", overlap_slow),
    ("overlap-fast", overlap_fast),
    ("overlap-copied", overlap_copied),
    ("overlap-disk", overlap_disk),
    ("slowed", slowed),
    ("choice", choice),
    ("overflow", overflow),
    ("cuboids", cuboids),
];

fn main() {
    let program = Program {
        device: "throttle=200MB/s:memfs:".to_owned(),
        mode: OutputMode::Thread,
        values: [1 << 20; RANKS],
        cuboids: 1,
        products: 0,
        steps: 12,
        memory: 1 << 28,
        durable: false,
        copies: false,
    };
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for (name, part) in PARTS {
        if asked.is_empty() || asked.iter().any(|word| name.starts_with(word.as_str())) {
            part(&program);
        }
    }
}

fn tell(what: &str, ratio: f64, wanted: &str) {
    print_row(what, &[ratio], wanted);
}

/// How long the clock and this thread's processor run meanwhile.
fn timed<R>(work: impl FnOnce() -> R) -> (R, f64, f64) {
    let (begin, worked) = (Instant::now(), processor(ClockId::ThreadCPUTime));
    let done = work();
    (done, begin.elapsed().as_secs_f64(), processor(ClockId::ThreadCPUTime) - worked)
}

/// Seconds of processors so far, of a thread or of all.
fn processor(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The median of what a trial gives, tried so often.
fn median_of(trials: usize, trial: impl FnMut(usize) -> f64) -> f64 {
    let mut all: Vec<f64> = (0..trials).map(trial).collect();
    all.sort_by(f64::total_cmp);
    median(&all)
}

fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn multiply(matrices: &mut Matrices, times: u64) {
    (0..times).for_each(|_| matrices.multiply());
}

/// How many products take so long, where every rank computes.
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

impl Program {
    fn run(&self, name: &str) -> Ran {
        let name = format!("{}{name}", self.device);
        let ranks = RANKS + usize::from(self.mode == OutputMode::Servers);
        let mut all = Launch::threads(ranks).run(|world| self.role(world, &name)).expect("the program runs");
        all.swap_remove(0).expect("rank 0 computes")
    }

    /// The last of three ranks writes for the others, if servers are wanted.
    fn role(&self, world: &Comm, name: &str) -> Result<Option<Ran>, Error> {
        let options = Options::new().mode(self.mode).memory(self.memory).replace();
        let options = if self.durable { options.durable_every(1) } else { options };
        if self.mode != OutputMode::Servers {
            return self.rank(world, name, &options).map(Some);
        }
        match split_io_servers(world, 1)? {
            Role::Server(server) => server.memory(RANKS as u64 * self.memory).serve().map(|_| None),
            Role::Compute(crew) => self.rank(crew.comm(), name, &options.served_by(&crew)).map(Some),
        }
    }

    fn declare(&self, world: &Comm) -> (Streams, StreamKey<f64>) {
        let total = self.values.iter().sum::<usize>() as u64;
        let start = self.values[..world.rank()].iter().sum::<usize>() as u64;
        let stream = Stream::array("values", [total]).block([start], [self.values[world.rank()] as u64]);
        let each = total / self.cuboids;
        let cuboids = (0..self.cuboids).map(|number| Cuboid::new([number * each], [each]));
        let mut streams = Streams::new();
        let key = streams.add(if self.cuboids > 1 { stream.cuboids(cuboids) } else { stream });
        (streams, key)
    }

    fn rank(&self, world: &Comm, name: &str, options: &Options) -> Result<Ran, Error> {
        let (streams, key) = self.declare(world);
        let output = options.create(world, name, &streams)?;
        world.barrier()?;
        self.compute(world, output, key)
    }

    fn compute(&self, world: &Comm, mut output: Output, key: StreamKey<f64>) -> Result<Ran, Error> {
        let data = vec![1.5; self.values[world.rank()]];
        let mut rotating = if self.copies { vec![vec![0.0; data.len()]; 2] } else { Vec::new() };
        let (mut matrices, mut commits, mut copies) = (Matrices::new(), Vec::new(), Vec::new());
        let (mut computing, mut computed, mut worked) = (0.0, 0.0, [Vec::new(), Vec::new()]);
        world.barrier()?;
        let (begin, before) = (Instant::now(), processor(ClockId::ProcessCPUTime));
        for _ in 0..self.steps {
            let ((), time, processor) = timed(|| multiply(&mut matrices, self.products));
            computing += time;
            computed += processor;
            let (committed, time, processor) = timed(|| output.step()?.put(key, &data).commit());
            committed?;
            commits.push(time);
            worked[0].push(processor);
            if self.copies {
                multiply(&mut matrices, self.products);
                let copy = || black_box(&mut rotating[0]).copy_from_slice(black_box(&data));
                let ((), time, processor) = timed(copy);
                copies.push(time);
                worked[1].push(processor);
                rotating.rotate_left(1);
            }
        }
        for times in [&mut commits, &mut copies].into_iter().chain(&mut worked) {
            times.sort_by(f64::total_cmp);
        }
        let report = output.finish()?;
        let taken = world.allreduce_one(Op::Max, begin.elapsed().as_secs_f64())?;
        let computed = world.allreduce_one(Op::Sum, computed)?;
        let output = processor(ClockId::ProcessCPUTime) - before - computed;
        let [step, output, computing] = [taken, output, computing].map(|time| time / self.steps as f64);
        Ok(Ran { step, output, commits, copies, worked, computing, report })
    }

    fn with(&self, mode: OutputMode) -> Self {
        Self { mode, ..self.clone() }
    }
}

/// What a snapshot that fits costs the program, beside a copy of its bytes by the same program in between: as cold, into as many buffers.
fn visible(program: &Program) {
    // Longer than a snapshot takes to be written.
    let program = Program { products: products(0.12), steps: 15, copies: true, ..program.clone() };
    for mode in HIDDEN {
        let ran = program.with(mode).run("visible");
        let what = format!("{mode:?}: visible cost of 8 MiB per rank / memcpy");
        tell(&format!("{what}, best"), ran.commits[0] / ran.copies[0], "<= 1.25");
        tell(&format!("{what}, median"), median(&ran.commits) / median(&ran.copies), "<= 1.25");
        let [commits, copies] = &ran.worked;
        tell(&format!("{what}, processor time, median"), median(commits) / median(copies), "<= 1.25");
    }
}

/// A name on the disk under the build's folder; the file is gone when the folder is.
fn disk() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on the disk");
    let device = format!("ufs:{}/", folder.path().display());
    (folder, device)
}

/// Computing and writing of the same order.
fn overlap_slow(program: &Program) {
    overlap_on("200 MB/s", &Program { steps: 40, ..program.clone() });
}

/// A medium that takes bytes without a processor.
fn overlap_fast(program: &Program) {
    sink::register();
    overlap_on(
        "1 GB/s",
        &Program { device: "throttle=1GB/s:sink:".to_owned(), steps: 60, ..program.clone() },
    );
}

/// One that copies them.
fn overlap_copied(program: &Program) {
    let device = "throttle=1GB/s:memfs:".to_owned();
    overlap_on("1 GB/s, copied", &Program { device, steps: 60, ..program.clone() });
}

/// Every step is synced.
fn overlap_disk(program: &Program) {
    let (folder, device) = disk();
    overlap_on("disk, synced", &Program { device, durable: true, steps: 25, ..program.clone() });
    drop(folder);
}

/// How often computing alone, writing alone and both are measured in turn.
const TURNS: usize = 5;

fn overlap_on(medium: &str, program: &Program) {
    let alone = |program: &Program| {
        Program { products: 0, steps: 8, ..program.with(OutputMode::Blocking) }.run("writing")
    };
    let program = Program { products: products(alone(program).step), ..program.clone() };
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    for mode in
        [OutputMode::Blocking, OutputMode::Thread, OutputMode::Leaders, OutputMode::Servers, OutputMode::Auto]
    {
        let (mut output, mut possible, mut reports) = (Vec::new(), Vec::new(), Vec::new());
        let ratio = median_of(TURNS, |_| {
            // Beside it, since a disk is not the same at all times.
            let (before, computing) = (alone(&program).step, program.computing());
            let ran = program.with(mode).run("overlap");
            let longer = computing.max(f64::midpoint(before, alone(&program).step));
            // Nobody does more than the processors can: they compute, and they copy.
            let busy = (RANKS as f64 * computing + ran.output) / cores;
            output.push(ran.output);
            possible.push(ran.step / longer.max(busy));
            reports.push(ran.report);
            ran.step / longer
        });
        [&mut output, &mut possible].into_iter().for_each(|times| times.sort_by(f64::total_cmp));
        tell(&format!("{medium}, {mode:?}: step / max(computing, writing)"), ratio, "<= 1.1 hidden");
        println!(
            "    output takes {:.2} ms of processors per step; step / the least that leaves: {:.3}",
            median(&output) * 1e3,
            median(&possible)
        );
        if let Some(report) = reports.last() {
            println!("    {report}");
        }
    }
}

impl Program {
    /// What a step computes where nothing is stored, in seconds.
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

/// How much slower a program computes while its output drains: the same products, in turns with output and without.
fn slowed(program: &Program) {
    for (medium, device) in [("100 MB/s", "throttle=100MB/s:memfs:"), ("200 MB/s", "throttle=200MB/s:memfs:")]
    {
        let program = Program { device: device.to_owned(), steps: 10, ..program.clone() };
        let writing =
            Program { products: 0, steps: 4, ..program.with(OutputMode::Blocking) }.run("writing").step;
        // The medium is busy nearly always.
        let program = Program { products: products(1.05 * writing), ..program };
        for mode in HIDDEN {
            let ratio = median_of(3, |_| program.with(mode).run("slowed").computing / program.computing());
            tell(&format!("{medium}, {mode:?}: computing while draining / alone"), ratio, "<= 1.05");
        }
    }
}

/// Where overlap cannot help, nothing is lost by choosing.
fn choice(program: &Program) {
    let small = Program { values: [60_000; RANKS], products: products(0.005), steps: 60, ..program.clone() };
    let slice = Program { values: [1 << 19, 0], products: products(0.02), steps: 20, ..program.clone() };
    for (what, program) in [("steps of 1 MB", small), ("a slice of one rank", slice)] {
        let mut chosen = None;
        // Short runs in turns, each way first as often: what else the machine does meets both.
        let ratio = median_of(16, |turn| {
            let [mut blocking, mut auto] = [0.0; 2];
            for own in [turn % 2 == 0, turn % 2 == 1] {
                let ran =
                    program.with(if own { OutputMode::Auto } else { OutputMode::Blocking }).run("choice");
                *(if own { &mut auto } else { &mut blocking }) = ran.step;
                chosen = if own { Some(ran.report) } else { chosen.take() };
            }
            auto / blocking
        });
        tell(&format!("{what}: auto / blocking, median of 16"), ratio, "<= 1.03");
        let report = chosen.expect("auto has run");
        println!("    {:?}: {}", report.mode, report.reason);
    }
}

/// More than the buffers hold.
fn overflow(program: &Program) {
    let program = Program { values: [92 << 17; RANKS], memory: 64 << 20, steps: 3, ..program.clone() };
    let bytes = 8 * program.values.iter().sum::<usize>();
    for mode in HIDDEN {
        let ran = program.with(mode).run("overflow");
        assert!(ran.report.memory_peak <= 64 << 20, "the cap holds");
        let what = format!("{mode:?}: overflow, 92 MiB per rank into 64 MiB: throughput / device");
        tell(&what, bytes as f64 / ran.step / 2e8, ">= 0.9");
    }
}

/// Many small boxes beside a large one.
fn cuboids(program: &Program) {
    let program = Program {
        device: "memfs:".to_owned(),
        values: [1 << 22; RANKS],
        ..program.with(OutputMode::Blocking)
    };
    let many = Program { cuboids: 256, ..program.clone() };
    // Taking turns.
    let ratio =
        median_of(5, |_| median(&many.run("cuboids").commits) / median(&program.run("cuboid").commits));
    tell("256 cuboids / one of the same volume, median of 5", ratio, "<= 1.15");
}
