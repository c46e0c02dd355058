//! Streams under real launchers, and programs that are killed: the reader finds exactly the complete steps.
//!
//! The program that is started is this one: each rank of the job runs the one test `a_job`. A launcher that is not
//! installed is skipped with a notice; `AQUEDUCT_REQUIRE_MPI=1` makes that a failure.

#[path = "cases/all_streams.rs"]
mod all_streams;
#[path = "cases/killed_buffered_file.rs"]
mod killed_buffered_file;
#[path = "cases/model.rs"]
mod model;

use std::path::Path;
use std::process::Command;

use all_streams::{Cut, check, check_end, write};
use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{BufferOptions, Capacity, File, OpenOptions};
use aqueduct_stream::{Error, Options, OutputMode, Reader, Role, split_io_servers};
use aqueduct_testkit::mpi_job::{self, ARGUMENTS, FOLDER, MpiJob};

const JOB: MpiJob = MpiJob::new(env!("CARGO_TARGET_TMPDIR"));
/// The process that is killed in a job: see `KILLS`.
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

/// The same with I/O servers, which have little memory.
fn served(world: &Comm, name: &str, servers: usize, memory: u64) -> Result<(), Error> {
    match split_io_servers(world, servers)? {
        Role::Server(server) => {
            let service = server.memory(memory).serve()?;
            assert!(service.memory_peak <= memory && service.failures.is_empty(), "{service:?}");
        }
        Role::Compute(compute) => {
            let options = Options::new().replace().served_by(&compute).memory(memory);
            let report = write(compute.comm(), name, &options, CUT, STEPS)?;
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
        Role::Compute(compute) => {
            let file = OpenOptions::new().read(true).write(true).create(true).open(compute.comm(), name)?;
            let file = compute.buffered(file, &BufferOptions::new(Capacity::Bytes(10_000)))?;
            let rank = compute.comm().rank();
            for start in (0..BYTES).step_by(7_000) {
                let part = vec![rank as u8 + 1; 7_000.min(BYTES - start)];
                file.at((rank * BYTES + start) as u64).all().write(&part)?;
            }
            file.sync()?;
            let status = file.buffering().expect("it is buffered");
            assert!(
                status.durable == BYTES as u64 && status.together.peak <= status.together.cap,
                "{status:?}"
            );
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

/// The last rank, a server, or the first one, a compute rank, is killed.
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
        Role::Compute(compute) => {
            let (streams, keys) = all_streams::declare(compute.comm(), CUT);
            let options = Options::new().replace().served_by(&compute).durable_every(2);
            let mut output = options.create(compute.comm(), &format!("ufs:{folder}/killed"), &streams)?;
            for step in 0..STEPS {
                if !server_dies && step == FATAL && world.rank() == 0 {
                    die();
                }
                all_streams::step(compute.comm(), &mut output, &keys, CUT, step)?;
                if compute.comm().rank() == 1 {
                    println!("durable: {}", output.progress().durable);
                }
            }
            output.finish().map(drop)
        }
    }
}

/// A target that kills its process.
struct Deadly(aqueduct_stream::target::FileTarget);

impl aqueduct_stream::target::OutputTarget for Deadly {
    fn write(
        &mut self,
        batch: &aqueduct_stream::target::StepBatch,
        source: &mut dyn aqueduct_stream::target::ChunkSource,
    ) -> Result<(), Error> {
        if batch.step == FATAL {
            die();
        }
        self.0.write(batch, source)
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

/// Prints the durable steps, until its last rank is killed.
fn job_to_be_killed(world: &Comm, folder: &str, mode: OutputMode) -> Result<(), Error> {
    let (streams, keys) = all_streams::declare(world, CUT);
    let options = Options::new().replace().mode(mode).durable_every(2);
    let mut output = options.create(world, &format!("ufs:{folder}/killed"), &streams)?;
    for step in 0..STEPS {
        if step == FATAL && world.rank() + 1 == world.size() {
            die();
        }
        all_streams::step(world, &mut output, &keys, CUT, step)?;
        if world.rank() == 0 {
            println!("durable: {}", output.progress().durable);
        }
    }
    output.finish().map(drop)
}

/// Started by a launcher: one rank of the job. Otherwise: all of them, as threads.
#[test]
fn a_job() {
    let killed = std::env::var(KILLED).ok().filter(|mode| !mode.is_empty());
    JOB.run(|world, name| match killed.as_deref() {
        Some("server") => served_to_be_killed(world, name, true),
        Some("client") => served_to_be_killed(world, name, false),
        Some("level's server") => killed_buffered_file::job(world, name, true),
        Some("level's client") => killed_buffered_file::job(world, name, false),
        Some("blocking") => job_to_be_killed(world, name, OutputMode::Blocking),
        Some(_) => job_to_be_killed(world, name, OutputMode::Thread),
        None => job(world, name),
    });
}

/// Checks the file of a killed program: durable steps are complete, at most the accepted ones exist, and no value is
/// wrong.
fn judge_killed(folder: &str, who: &str, said: &str, context: &str) {
    let durable = said.lines().filter_map(|line| line.strip_prefix("durable: ")?.parse().ok()).max();
    let durable: u64 = durable.unwrap_or(0);
    if who.contains("level") {
        return killed_buffered_file::check_file(Path::new(folder), 3, durable, context);
    }
    let read = |world: &Comm| {
        let reader = Reader::open(world, &format!("ufs:{folder}/killed"))?;
        assert!(!reader.is_finished(), "{context}");
        check(&reader, 3, 0..durable);
        for batch in reader.stored_steps() {
            assert!(batch.step <= FATAL && !batch.is_closing, "{context}: {batch:?}");
            check(&reader, 3, batch.step..batch.step + 1);
        }
        assert_eq!(reader.verify()?, [], "{context}");
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(read).unwrap();
}

/// The process that is killed, and the number of ranks, of which three are compute ranks.
const KILLS: [(&str, usize); 6] = [
    ("blocking", 3),
    ("thread", 3),
    ("server", 4),
    ("client", 4),
    ("level's server", 4),
    ("level's client", 4),
];

/// Kills each of them, under a launcher or with threads.
fn kill(launcher: &str, start: impl Fn(usize, &[(&str, &str)]) -> (bool, String)) {
    for (who, ranks) in KILLS {
        let folder = JOB.folder();
        let path = mpi_job::path(&folder);
        let (success, said) = start(ranks, &[(FOLDER, path), ("AQUEDUCT_NODE_RANKS", ""), (KILLED, who)]);
        assert!(!success, "{said}");
        judge_killed(path, who, &said, &format!("{launcher}, {who}"));
    }
}

/// Threads are killed together.
#[test]
fn killed_threads() {
    kill("threads", |ranks, variables| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(ARGUMENTS).envs(variables.iter().copied());
        let output = command.env("AQUEDUCT_RANKS", ranks.to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // A client may be killed before another one has printed anything.
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
