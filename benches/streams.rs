//! What hidden output costs and saves, as ratios measured in one run: `cargo bench --bench streams`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use aqueduct::comm::{Comm, Launch, Op};
use aqueduct::stage::{Cuboid, Error, Key, Mode, Options, Report, Role, Stream, Streams, split};

const RANKS: usize = 2;

/// A program: what each rank stores, how long it computes, on what.
#[derive(Clone)]
struct Program {
    device: &'static str,
    mode: Mode,
    /// `f64`s of each rank.
    values: [usize; RANKS],
    /// Into how many cuboids they are cut.
    cuboids: u64,
    computing: Duration,
    steps: u64,
    memory: u64,
}

/// The longest time of a rank per step, the times in commit of rank 0, sorted, and what it reports.
struct Ran {
    step: f64,
    commits: Vec<f64>,
    report: Report,
}

fn main() {
    let program = Program {
        device: "throttle=200MB/s:memfs",
        mode: Mode::Thread,
        values: [1 << 20; RANKS],
        cuboids: 1,
        computing: Duration::from_millis(300),
        steps: 12,
        memory: 1 << 28,
    };
    visible(&program);
    overlap(&program);
    choice(&program);
    overflow(&program);
    cuboids(&program);
}

fn tell(what: &str, ratio: f64, wanted: &str) {
    println!("{what:<64} {ratio:>7.3}   wanted {wanted}");
}

/// Computes for a while, on a processor.
fn compute(duration: Duration) {
    let end = Instant::now() + duration;
    let mut sum = 0u64;
    while Instant::now() < end {
        for number in 0..1000 {
            sum = black_box(sum.wrapping_mul(31).wrapping_add(number));
        }
    }
}

impl Program {
    fn run(&self, name: &str) -> Ran {
        let name = format!("{}:{name}", self.device);
        let ranks = RANKS + usize::from(self.mode == Mode::Servers);
        let mut all = Launch::threads(ranks).run(|world| self.role(world, &name)).expect("the program runs");
        all.swap_remove(0).expect("rank 0 computes")
    }

    /// The last of three ranks writes for the others, if servers are wanted.
    fn role(&self, world: &Comm, name: &str) -> Result<Option<Ran>, Error> {
        let options = Options::new().mode(self.mode).memory(self.memory);
        if self.mode != Mode::Servers {
            return self.rank(world, name, &options).map(Some);
        }
        match split(world, 1)? {
            Role::Server(server) => server.memory(RANKS as u64 * self.memory).serve().map(|_| None),
            Role::Compute(crew) => self.rank(crew.comm(), name, &options.served_by(&crew)).map(Some),
        }
    }

    fn declare(&self, world: &Comm) -> (Streams, Key<f64>) {
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
        let data = vec![1.5; self.values[world.rank()]];
        let mut output = options.create(world, name, &streams)?;
        world.barrier()?;
        let begin = Instant::now();
        let mut commits = Vec::new();
        for _ in 0..self.steps {
            compute(self.computing);
            let handing = Instant::now();
            output.step()?.put(key, &data).commit()?;
            commits.push(handing.elapsed().as_secs_f64());
        }
        commits.sort_by(f64::total_cmp);
        let report = output.finish()?;
        let taken = world.allreduce_one(Op::Max, begin.elapsed().as_secs_f64())?;
        Ok(Ran { step: taken / self.steps as f64, commits, report })
    }

    fn with(&self, mode: Mode) -> Self {
        Self { mode, ..self.clone() }
    }
}

/// What a snapshot that fits costs the program.
fn visible(program: &Program) {
    let source = vec![1.5f64; program.values[0]];
    let mut copy = vec![0.0f64; program.values[0]];
    let time = |copy: &mut Vec<f64>| {
        let begin = Instant::now();
        black_box(&mut *copy).copy_from_slice(black_box(&source));
        begin.elapsed().as_secs_f64()
    };
    // As in a step: the processor has done something else meanwhile.
    let mut copies: Vec<f64> = (0..12)
        .map(|_| {
            compute(Duration::from_millis(20));
            time(&mut copy)
        })
        .collect();
    copies.sort_by(f64::total_cmp);
    for mode in [Mode::Thread, Mode::Leaders, Mode::Servers] {
        let ran = program.with(mode).run("visible");
        let what = format!("{mode:?}: visible cost of 8 MiB per rank / memcpy");
        tell(&format!("{what}, best"), ran.commits[0] / copies[0], "<= 1.25");
        tell(&format!("{what}, median"), ran.commits[6] / copies[6], "<= 1.25");
    }
}

/// Computing and writing of the same order.
fn overlap(program: &Program) {
    let writing = Program { computing: Duration::ZERO, ..program.with(Mode::Blocking) }.run("writing").step;
    let program = Program { computing: Duration::from_secs_f64(writing), ..program.clone() };
    let longer = program.computing.as_secs_f64().max(writing);
    for mode in [Mode::Blocking, Mode::Thread, Mode::Leaders, Mode::Servers, Mode::Auto] {
        let ran = Program { steps: 40, ..program.with(mode) }.run("overlap");
        tell(&format!("{mode:?}: step / max(computing, writing)"), ran.step / longer, "<= 1.1 hidden");
        println!("    {:?}: {}", ran.report.mode, ran.report.reason);
    }
}

/// Where overlap cannot help, nothing is lost by choosing.
fn choice(program: &Program) {
    let small = Program {
        values: [60_000; RANKS],
        computing: Duration::from_millis(5),
        steps: 100,
        ..program.clone()
    };
    let slice =
        Program { values: [1 << 19, 0], computing: Duration::from_millis(20), steps: 40, ..program.clone() };
    for (what, program) in [("steps of 1 MB", small), ("a slice of one rank", slice)] {
        let blocking = program.with(Mode::Blocking).run("choice").step;
        let auto = program.with(Mode::Auto).run("choice");
        tell(&format!("{what}: auto / blocking"), auto.step / blocking, "<= 1.03");
        println!("    {:?}: {}", auto.report.mode, auto.report.reason);
    }
}

/// More than the buffers hold.
fn overflow(program: &Program) {
    let program = Program {
        values: [92 << 17; RANKS],
        memory: 64 << 20,
        computing: Duration::ZERO,
        steps: 3,
        ..program.clone()
    };
    let bytes = 8 * program.values.iter().sum::<usize>();
    for mode in [Mode::Thread, Mode::Leaders, Mode::Servers] {
        let ran = program.with(mode).run("overflow");
        assert!(ran.report.memory_peak <= 64 << 20, "the cap holds");
        let what = format!("{mode:?}: overflow, 92 MiB per rank into 64 MiB: throughput / device");
        tell(&what, bytes as f64 / ran.step / 2e8, ">= 0.9");
    }
}

/// Many small boxes beside a large one.
fn cuboids(program: &Program) {
    let program = Program {
        device: "memfs",
        values: [1 << 22; RANKS],
        computing: Duration::ZERO,
        ..program.with(Mode::Blocking)
    };
    let many = Program { cuboids: 256, ..program.clone() };
    // Taking turns.
    let mut ratios: Vec<f64> = (0..5)
        .map(|_| {
            let one = program.run("cuboid").commits;
            many.run("cuboids").commits[6] / one[6]
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    tell("256 cuboids / one of the same volume, median of 5", ratios[2], "<= 1.15");
}
