//! Streams under real launchers, and programs that are killed: the reader knows exactly which steps are complete.
//!
//! The program that is started is this one: each rank of the job runs the one test `a_job`. A launcher that is not installed is skipped,
//! and said so; `AQUEDUCT_REQUIRE_MPI=1` makes that a failure.

#[path = "cases/levels.rs"]
mod levels;
#[path = "cases/model.rs"]
mod model;
#[path = "cases/story.rs"]
mod story;

use std::path::Path;
use std::process::Command;

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{BufferOptions, Capacity, File, OpenOptions};
use aqueduct_stream::{Error, Options, OutputMode, Reader, Role, split_io_servers};
use aqueduct_testkit::mpi_job::{self, ARGUMENTS, FOLDER, MpiJob};
use story::{Cut, check, check_end, write};

const JOB: MpiJob = MpiJob::new(env!("CARGO_TARGET_TMPDIR"));
/// Who is killed in a job: see `KILLS`.
const KILLED: &str = "AQUEDUCT_TEST_KILLED";
const STEPS: u64 = 7;
const CUT: Cut = Cut { axis: 1, uneven: true, halo: 1 };
/// The step before which a rank is killed.
const FATAL: u64 = 5;

fn job(world: &Comm, folder: &str) -> Result<(), Error> {
    for mode in [OutputMode::Blocking, OutputMode::Thread, OutputMode::Leaders, OutputMode::Auto] {
        for (memory, kind) in [(1 << 20, "roomy"), (700, "tight")] {
            let name = format!("ufs:{folder}/{mode:?}-{kind}");
            write(world, &name, &Options::new().replace().mode(mode).memory(memory), CUT, STEPS)?;
            let reader = Reader::open(world, &name)?;
            check(&reader, world.size(), 0..STEPS);
            check_end(&reader, STEPS);
        }
    }
    for (servers, memory) in [(1, 1 << 20), (1, 4000), (2, 1 << 20), (2, 4000)] {
        if world.size() >= 3 * servers {
            served(world, &format!("ufs:{folder}/served-{servers}-{memory}"), servers, memory)?;
        }
    }
    if world.size() >= 3 {
        buffered(world, &format!("ufs:{folder}/buffered"))?;
    }
    if world.rank() == 0 {
        println!("streams passed on {} ranks of {} nodes", world.size(), world.node_count());
    }
    Ok(())
}

/// The same with ranks that only write, which have little memory.
fn served(world: &Comm, name: &str, servers: usize, memory: u64) -> Result<(), Error> {
    match split_io_servers(world, servers)? {
        Role::Server(server) => {
            let service = server.memory(memory).serve()?;
            assert!(service.memory_peak <= memory && service.failures.is_empty(), "{service:?}");
        }
        Role::Compute(crew) => {
            let options = Options::new().replace().served_by(&crew).memory(memory);
            let report = write(crew.comm(), name, &options, CUT, STEPS)?;
            assert!(
                report.mode == OutputMode::Servers && report.memory_peak <= report.memory_cap,
                "{report:?}"
            );
        }
    }
    world.barrier()?;
    let reader = Reader::open(world, name)?;
    check(&reader, world.size() - servers, 0..STEPS);
    check_end(&reader, STEPS);
    Ok(())
}

/// A buffered file whose ranks have little memory, and whose server has a little more.
fn buffered(world: &Comm, name: &str) -> Result<(), Error> {
    const BYTES: usize = 100_000;
    match split_io_servers(world, 1)? {
        Role::Server(server) => {
            let service = server.memory(200_000).serve()?;
            assert!(service.memory_peak <= 200_000 && service.failures.is_empty(), "{service:?}");
            assert_eq!((service.files, service.bytes), (1, ((world.size() - 1) * BYTES) as u64));
        }
        Role::Compute(crew) => {
            let file = OpenOptions::new().read(true).write(true).create(true).open(crew.comm(), name)?;
            let file = crew.buffered(file, &BufferOptions::new(Capacity::Bytes(10_000)))?;
            let rank = crew.comm().rank();
            for start in (0..BYTES).step_by(7_000) {
                let part = vec![rank as u8 + 1; 7_000.min(BYTES - start)];
                file.at((rank * BYTES + start) as u64).all().write(&part)?;
            }
            file.sync()?;
            let told = file.buffering().expect("it is buffered");
            assert!(told.durable == BYTES as u64 && told.together.peak <= told.together.cap, "{told:?}");
            file.close()?;
        }
    }
    world.barrier()?;
    let file = File::open(world, name)?;
    let mut bytes = vec![0u8; file.size()? as usize];
    file.at(0).read(&mut bytes)?;
    assert_eq!(bytes.len(), (world.size() - 1) * BYTES);
    assert!(bytes.iter().enumerate().all(|(at, byte)| *byte as usize == at / BYTES + 1));
    file.close()
}

fn die() {
    let myself = rustix::process::getpid();
    rustix::process::kill_process(myself, rustix::process::Signal::KILL).expect("a process may kill itself");
}

/// The last rank, which serves, or the first one, which computes, is killed.
fn served_to_be_killed(world: &Comm, folder: &str, server_dies: bool) -> Result<(), Error> {
    match split_io_servers(world, 1)? {
        Role::Server(server) if server_dies => {
            let deadly =
                |comm: &Comm, name: &str, declared: &std::sync::Arc<aqueduct_stream::Declaration>| {
                    let target = aqueduct_stream::target::FileTarget::create(comm, name, declared)?;
                    Ok(Box::new(Deadly(target)) as Box<dyn aqueduct_stream::target::OutputTarget>)
                };
            server.serve_into(deadly).map(drop)
        }
        Role::Server(server) => server.serve().map(drop),
        Role::Compute(crew) => {
            let (streams, keys) = story::declare(crew.comm(), CUT);
            let options = Options::new().replace().served_by(&crew).durable_every(2);
            let mut output = options.create(crew.comm(), &format!("ufs:{folder}/killed"), &streams)?;
            for step in 0..STEPS {
                if !server_dies && step == FATAL && world.rank() == 0 {
                    die();
                }
                story::step(crew.comm(), &mut output, &keys, CUT, step)?;
                if crew.comm().rank() == 1 {
                    println!("durable: {}", output.progress().durable);
                }
            }
            output.finish().map(drop)
        }
    }
}

/// A target that dies, and its process with it.
struct Deadly(aqueduct_stream::target::FileTarget);

impl aqueduct_stream::target::OutputTarget for Deadly {
    fn write(
        &mut self,
        parcel: &aqueduct_stream::target::StepBatch,
        supply: &mut dyn aqueduct_stream::target::ChunkSource,
    ) -> Result<(), Error> {
        if parcel.step == FATAL {
            die();
        }
        self.0.write(parcel, supply)
    }

    fn is_persistent(&self) -> bool {
        self.0.is_persistent()
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.0.sync()
    }

    fn finish(self: Box<Self>, steps: u64) -> Result<(), Error> {
        Box::new(self.0).finish(steps)
    }
}

/// Says what is durable, until its last rank is killed.
fn job_to_be_killed(world: &Comm, folder: &str, mode: OutputMode) -> Result<(), Error> {
    let (streams, keys) = story::declare(world, CUT);
    let options = Options::new().replace().mode(mode).durable_every(2);
    let mut output = options.create(world, &format!("ufs:{folder}/killed"), &streams)?;
    for step in 0..STEPS {
        if step == FATAL && world.rank() + 1 == world.size() {
            die();
        }
        story::step(world, &mut output, &keys, CUT, step)?;
        if world.rank() == 0 {
            println!("durable: {}", output.progress().durable);
        }
    }
    output.finish().map(drop)
}

/// Started by a launcher: one rank of the job. Started by hand: all of them, as threads.
#[test]
fn a_job() {
    let killed = std::env::var(KILLED).ok().filter(|mode| !mode.is_empty());
    JOB.run(|world, name| match killed.as_deref() {
        Some("server") => served_to_be_killed(world, name, true),
        Some("client") => served_to_be_killed(world, name, false),
        Some("level's server") => levels::job(world, name, true),
        Some("level's client") => levels::job(world, name, false),
        Some("blocking") => job_to_be_killed(world, name, OutputMode::Blocking),
        Some(_) => job_to_be_killed(world, name, OutputMode::Thread),
        None => job(world, name),
    });
}

/// What a killed program has left: what it said is durable, complete; what was accepted at most; nothing wrong.
fn judge_killed(folder: &str, who: &str, said: &str, context: &str) {
    let durable = said.lines().filter_map(|line| line.strip_prefix("durable: ")?.parse().ok()).max();
    let durable: u64 = durable.unwrap_or(0);
    if who.contains("level") {
        return levels::judge(Path::new(folder), 3, durable, context);
    }
    let read = |world: &Comm| {
        let reader = Reader::open(world, &format!("ufs:{folder}/killed"))?;
        assert!(!reader.is_finished(), "{context}");
        check(&reader, 3, 0..durable);
        for parcel in reader.stored_steps() {
            assert!(parcel.step <= FATAL && !parcel.is_closing, "{context}: {parcel:?}");
            check(&reader, 3, parcel.step..parcel.step + 1);
        }
        assert_eq!(reader.verify()?, [], "{context}");
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(read).unwrap();
}

/// What is killed, and on how many ranks, of which three compute.
const KILLS: [(&str, usize); 6] = [
    ("blocking", 3),
    ("thread", 3),
    ("server", 4),
    ("client", 4),
    ("level's server", 4),
    ("level's client", 4),
];

/// Has each of them killed, somehow.
fn kill(launcher: &str, start: impl Fn(usize, &[(&str, &str)]) -> (bool, String)) {
    for (who, ranks) in KILLS {
        let folder = JOB.folder();
        let path = mpi_job::path(&folder);
        let (success, said) = start(ranks, &[(FOLDER, path), ("AQUEDUCT_NODE_RANKS", ""), (KILLED, who)]);
        assert!(!success, "{said}");
        judge_killed(path, who, &said, &format!("{launcher}, {who}"));
    }
}

/// Threads are killed all at once.
#[test]
fn threads_that_are_killed() {
    kill("threads", |ranks, variables| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(ARGUMENTS).envs(variables.iter().copied());
        let output = command.env("AQUEDUCT_RANKS", ranks.to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // A client may be killed before another one has come to say anything.
        assert!(said.contains("durable: ") || variables.contains(&(KILLED, "client")), "{said}");
        (output.status.success(), said)
    });
}

fn under(name: &str) {
    let Some(launcher) = JOB.launcher(name) else { return };
    for (ranks, per_node, nodes) in [(1, "", 1), (3, "", 1), (4, "", 1), (4, "2", 2), (8, "4", 2)] {
        let (_folder, output) =
            JOB.launch(&launcher, ranks, &[("AQUEDUCT_NODE_RANKS", per_node), (KILLED, "")]);
        let expected = format!("streams passed on {ranks} ranks of {nodes} nodes");
        assert!(output.contains(&expected), "{output}");
    }
    kill(name, |ranks, variables| {
        let job = launcher.job(ranks, &ARGUMENTS, variables);
        (job.success, job.output)
    });
}

#[test]
fn openmpi() {
    under("openmpi");
}

#[test]
fn mpich() {
    under("mpich");
}
