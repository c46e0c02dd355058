//! Programs that end without `finish`: accepted steps are in the file, and failures are the result of `run`.

use aqueduct_comm::{Comm, Launch};
use aqueduct_stream::{
    Durability, Error, Kind, Options, Output, OutputMode, Reader, Reduction, Role, Stream, StreamKey,
    Streams, split_io_servers,
};
use aqueduct_testkit::launcher::TestLauncher;

/// Steps of each program. On the device below they take more than a second.
const STEPS: u64 = 6;
const SLOW: &str = "throttle=100MB/s,100ms:";

fn declare(world: &Comm) -> (Streams, StreamKey<u64>) {
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    let mut streams = Streams::new();
    let key = streams.add(Stream::array("level", [size, 8]).block([rank, 0], [1, 8]));
    (streams, key)
}

/// Commits all steps without waiting for any.
fn commit_steps(world: &Comm, options: &Options, name: &str) -> Result<Output, Error> {
    let (streams, key) = declare(world);
    let mut output = options.clone().buffers(8).memory(1 << 20).create(world, name, &streams)?;
    for step in 0..STEPS {
        output.step()?.put(key, &[step; 8]).commit()?;
    }
    Ok(output)
}

/// The number of complete steps of a file.
fn complete_steps(name: &str) -> u64 {
    let count = |world: &Comm| Ok::<_, Error>(Reader::open(world, name)?.stored_steps().len() as u64);
    Launch::threads(1).run(count).unwrap()[0]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Dropped,
    Error,
    Panic,
}

/// Ends the program in this way, on one rank.
fn end(ending: Ending, world: &Comm, output: Output) -> Result<(), Error> {
    match ending {
        Ending::Error if world.rank() == 1 => {
            Err(Error::new(Kind::BadArgument, "compute", "the program", "the program fails here"))
        }
        Ending::Panic if world.rank() == 1 => panic!("the program fails here"),
        _ => {
            drop(output);
            Ok(())
        }
    }
}

#[test]
fn accepted_steps_are_written_however_the_program_ends() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [OutputMode::Thread, OutputMode::Leaders] {
        for ending in [Ending::Dropped, Ending::Error, Ending::Panic] {
            let plain = folder.path().join(format!("{mode:?}-{ending:?}")).display().to_string();
            let name = format!("{SLOW}ufs:{plain}");
            let run = Launch::threads(2)
                .run(|world| end(ending, world, commit_steps(world, &Options::new().mode(mode), &name)?));
            assert_eq!(run.is_ok(), ending == Ending::Dropped, "{run:?}");
            assert_eq!(complete_steps(&plain), STEPS, "{mode:?} {ending:?}");
        }
    }
}

#[test]
fn servers_write_the_steps_of_all_clients_before_one_fails() {
    let folder = tempfile::tempdir().unwrap();
    for (ranks, servers) in [(3, 1), (6, 2)] {
        for ending in [Ending::Dropped, Ending::Error, Ending::Panic] {
            let plain = folder.path().join(format!("{servers}-{ending:?}")).display().to_string();
            let name = format!("{SLOW}ufs:{plain}");
            let run = Launch::threads(ranks).run(|world| match split_io_servers(world, servers)? {
                Role::Server(server) => server.serve().map(drop),
                Role::Compute(compute) => {
                    let options = Options::new().served_by(&compute);
                    end(ending, compute.comm(), commit_steps(compute.comm(), &options, &name)?)
                }
            });
            assert_eq!(run.is_ok(), ending == Ending::Dropped, "{run:?}");
            assert_eq!(complete_steps(&plain), STEPS, "{servers} servers, {ending:?}");
        }
    }
}

/// A job of a launcher whose output is not finished: the mode, and how the program ends.
const JOBS: [(&str, OutputMode, Ending); 4] = [
    ("thread dropped", OutputMode::Thread, Ending::Dropped),
    ("thread error", OutputMode::Thread, Ending::Error),
    ("served dropped", OutputMode::Servers, Ending::Dropped),
    ("served error", OutputMode::Servers, Ending::Error),
];
/// The number of the job, and the folder of its file.
const JOB: &str = "AQUEDUCT_TEST_JOB";
const FILE: &str = "AQUEDUCT_TEST_FILE";

/// One rank of a job. Does nothing unless a launcher starts it.
#[test]
fn a_job() {
    let (Ok(job), Ok(name)) = (std::env::var(JOB), std::env::var(FILE)) else { return };
    let (_, mode, ending) = JOBS.into_iter().find(|(name, ..)| *name == job).unwrap();
    let program = |world: &Comm| {
        if mode == OutputMode::Thread {
            return end(ending, world, commit_steps(world, &Options::new().mode(mode), &name)?);
        }
        match split_io_servers(world, 1)? {
            Role::Server(server) => server.serve().map(drop),
            Role::Compute(compute) => {
                let options = Options::new().served_by(&compute);
                end(ending, compute.comm(), commit_steps(compute.comm(), &options, &name)?)
            }
        }
    };
    aqueduct_comm::run(program).unwrap();
}

/// Processes instead of threads: a rank that fails ends the job.
fn under(launcher: &str) {
    let Some(launcher) = TestLauncher::find(launcher, &std::env::current_exe().unwrap()) else { return };
    for (job, _, ending) in JOBS {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let plain = folder.path().join("run").display().to_string();
        let name = format!("{SLOW}ufs:{plain}");
        let done = launcher.job(3, &["--exact", "a_job", "--nocapture"], &[(JOB, job), (FILE, &name)]);
        assert_eq!(done.success, ending == Ending::Dropped, "{job}: {} {}", done.output, done.errors);
        assert_eq!(complete_steps(&plain), STEPS, "{job}: {}", done.errors);
    }
}

#[test]
fn openmpi() {
    under("openmpi");
}

#[test]
fn mpich() {
    under("mpich");
}

#[test]
fn failure_that_no_call_returned_is_the_result_of_run() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("{SLOW}fault=seed=1,write=#6+:ufs:{}/run", folder.path().display());
    let run = Launch::threads(2).run(|world| {
        // All steps are accepted before the first one fails.
        drop(commit_steps(world, &Options::new().mode(OutputMode::Thread), &name)?);
        Ok::<_, Error>(())
    });
    let shown = run.unwrap_err().to_string();
    assert!(shown.contains("dropped without `finish`") && shown.contains("step "), "{shown}");
}

#[test]
fn reductions_that_were_never_stored_are_the_result_of_run() {
    let run = Launch::threads(2).run(|world| {
        let (rank, mut streams) = (world.rank() as u64, Streams::new());
        let peak = Stream::array("peak", [2]).block([rank], [1]).reduce(Reduction::Max);
        let peak = streams.add::<f64>(peak);
        let mut output = Output::create(world, "memfs:forgotten", &streams)?;
        output.step()?.put(peak, &[1.0]).commit()?;
        Ok::<_, Error>(())
    });
    let shown = run.unwrap_err().to_string();
    assert!(shown.contains("memfs:forgotten") && shown.contains("`finish` stores them"), "{shown}");
}

/// On a device that is not persistent no step is durable, however often it is synced.
#[test]
fn steps_in_memory_are_never_durable() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let real = format!("ufs:{}/run", folder.path().display());
    for (name, persistent) in [("memfs:volatile", false), (real.as_str(), true)] {
        for mode in [OutputMode::Blocking, OutputMode::Thread, OutputMode::Leaders, OutputMode::Servers] {
            let check = |world: &Comm, options: &Options| {
                let (streams, key) = declare(world);
                let mut output = options.clone().replace().durable_every(1).create(world, name, &streams)?;
                let receipt = output.step()?.put(key, &[7; 8]).commit()?;
                output.flush()?;
                assert_eq!(output.progress().durable, u64::from(persistent), "{name} {mode:?}");
                let expected = if persistent { Durability::Durable } else { Durability::Visible };
                assert_eq!(receipt.state()?, expected, "{name} {mode:?}");
                output.finish()?;
                assert_eq!(receipt.state()?, expected, "{name} {mode:?}, at the end");
                Ok::<_, Error>(())
            };
            let run = Launch::threads(3).run(|world| {
                if mode != OutputMode::Servers {
                    return check(world, &Options::new().mode(mode));
                }
                match split_io_servers(world, 1)? {
                    Role::Server(server) => server.serve().map(drop),
                    Role::Compute(compute) => check(compute.comm(), &Options::new().served_by(&compute)),
                }
            });
            run.unwrap();
        }
    }
}
