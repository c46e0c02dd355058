//! The fault matrix: a rank, a server or the device fails at any point, in every mode. No rank waits forever, every
//! rank gets the error, and earlier complete steps are in the file.

#[path = "cases/all_streams.rs"]
#[allow(dead_code, reason = "part of it is for tests that end well")]
mod all_streams;
#[path = "cases/model.rs"]
#[allow(dead_code, reason = "part of it is for tests that end well")]
mod model;

use std::sync::Arc;
use std::time::Duration;

use all_streams::{Cut, check};
use aqueduct_comm::{Comm, Launch};
use aqueduct_stream::target::{ChunkSource, FileTarget, OutputTarget, StepBatch};
use aqueduct_stream::{
    Declaration, Error, Kind, Options, Output, OutputMode, Reader, Role, Server, split_io_servers,
};

const CUT: Cut = Cut { axis: 0, uneven: false, halo: 0 };
const STEPS: u64 = 4;
/// Longer than any run here; a longer wait never ends.
const DEADLINE: Duration = Duration::from_secs(60);

/// Fails if `work` does not end.
fn ends<T: Send + 'static>(context: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, found) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || _ = tell.send(work()));
    match found.recv_timeout(DEADLINE) {
        Ok(outcome) => outcome,
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("{context}: it hangs"),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => panic!("{context}: {:?}", worker.join()),
    }
}

/// The configuration of a program.
#[derive(Clone, Copy, Debug)]
struct Setting {
    mode: OutputMode,
    ranks: usize,
    servers: usize,
    /// The memory of a client and of a server.
    memory: (u64, u64),
}

const SETTINGS: [Setting; 5] = [
    Setting { mode: OutputMode::Blocking, ranks: 3, servers: 0, memory: (600, 0) },
    Setting { mode: OutputMode::Thread, ranks: 3, servers: 0, memory: (600, 0) },
    Setting { mode: OutputMode::Leaders, ranks: 3, servers: 0, memory: (900, 0) },
    Setting { mode: OutputMode::Servers, ranks: 4, servers: 1, memory: (1000, 5000) },
    Setting { mode: OutputMode::Servers, ranks: 6, servers: 2, memory: (1 << 20, 1 << 20) },
];

/// Runs `compute` on the compute ranks, `serve` on the servers.
fn run(
    setting: Setting,
    world: &Comm,
    serve: impl FnOnce(Server) -> Result<(), Error>,
    compute: impl FnOnce(&Comm, &Options) -> Result<(), Error>,
) -> Result<(), Error> {
    let options =
        Options::new().replace().mode(setting.mode).memory(setting.memory.0).durable_every(2).group(2);
    if setting.servers == 0 {
        return compute(world, &options);
    }
    match split_io_servers(world, setting.servers)? {
        Role::Server(server) => serve(server.memory(setting.memory.1)),
        Role::Compute(group) => compute(group.comm(), &options.served_by(&group)),
    }
}

/// A compute rank ends at any point, with an error or a panic.
#[test]
fn a_compute_rank_fails() {
    for setting in SETTINGS {
        for (dying, panics) in [(0, false), (2, false), (1, true)] {
            for at in 0..=STEPS {
                let context = format!("{setting:?}, rank {dying} in step {at}");
                let name = format!("memfs:dies-{:?}-{}-{dying}-{at}", setting.mode, setting.servers);
                let error = ends(&context, move || {
                    let job = |comm: &Comm, options: &Options| {
                        let (streams, keys) = all_streams::declare(comm, CUT);
                        let mut output = options.create(comm, &name, &streams)?;
                        for step in 0..=STEPS {
                            if (comm.rank(), step) == (dying, at) {
                                assert!(!panics, "it panics here");
                                return Err(Error::new(Kind::Unsupported, "live", "a rank", "it fails here"));
                            }
                            if step < STEPS {
                                all_streams::step(comm, &mut output, &keys, CUT, step)?;
                            }
                        }
                        output.finish().map(drop)
                    };
                    let program = |world: &Comm| run(setting, world, |server| server.serve().map(drop), job);
                    Launch::threads(setting.ranks).run(program).unwrap_err()
                });
                assert!(error.to_string().contains("here"), "{context}: {error}");
            }
        }
    }
}

/// Commits steps until one fails; checks that `finish` returns the same error.
fn until_failure(comm: &Comm, output: Output, keys: &all_streams::Keys) -> Option<Error> {
    let mut output = output;
    let found = (0..STEPS).find_map(|step| all_streams::step(comm, &mut output, keys, CUT, step).err());
    let at_finish = output.finish().err();
    if let (Some(found), Some(at_finish)) = (&found, &at_finish) {
        assert_eq!(found.step(), at_finish.step(), "{found}, then {at_finish}");
    }
    assert!(found.is_none() || at_finish.is_some(), "finish found nothing after {found:?}");
    at_finish
}

/// The device fails at its first, second, third … write or sync: all ranks get the error with the step, and earlier
/// complete steps can be read.
#[test]
fn the_device_fails() {
    for setting in SETTINGS {
        for part in ["write=nospace", "sync=io"] {
            let mut harmless = 0;
            for at in (1..30).chain((30..900).step_by(17)) {
                let context = format!("{setting:?}, {part} number {at}");
                let inner =
                    format!("fails-{:?}-{}-{part}-{at}", setting.mode, setting.servers).replace('=', "-");
                let fault = if part == "sync=io" { format!("sync=#{at}") } else { format!("{part}@#{at}") };
                // The same name would be the same device, whose fault is over.
                let seed = setting.mode as u64 * 100 + setting.servers as u64;
                let name = format!("fault=seed={seed},{fault}:memfs:{inner}");
                let found = ends(&context, move || {
                    let found = std::sync::Mutex::new(Vec::new());
                    let job = |comm: &Comm, options: &Options| {
                        let (streams, keys) = all_streams::declare(comm, CUT);
                        let outcome = options.create(comm, &name, &streams);
                        let error = outcome.map_or_else(Some, |output| until_failure(comm, output, &keys));
                        found.lock().unwrap().push(error);
                        Ok(())
                    };
                    let program = |world: &Comm| run(setting, world, |server| server.serve().map(drop), job);
                    Launch::threads(setting.ranks).run(program).unwrap();
                    found.into_inner().unwrap()
                });
                assert_eq!(found.len(), setting.ranks - setting.servers, "{context}");
                let steps: Vec<Option<u64>> = found.iter().flatten().map(Error::step).collect();
                if steps.is_empty() {
                    harmless += 1;
                    if harmless > 2 {
                        break;
                    }
                    continue;
                }
                assert_eq!(steps.len(), found.len(), "{context}: some ranks know nothing: {found:?}");
                assert!(steps.iter().all(|step| *step == steps[0]), "{context}: {found:?}");
                let is_of_the_device = |error: &Error| error.kind() != Kind::Communication;
                assert!(found.iter().flatten().all(is_of_the_device), "{context}: {found:?}");
                // An error of creation or of the end belongs to no step.
                if let Some(complete) = steps[0] {
                    let writers = setting.ranks - setting.servers;
                    let read = |world: &Comm| {
                        let reader = Reader::open(world, &format!("memfs:{inner}"))?;
                        assert!(!reader.is_finished());
                        check(&reader, writers, 0..complete);
                        Ok::<_, Error>(())
                    };
                    Launch::threads(1).run(read).unwrap();
                }
            }
            assert!(harmless > 2, "{setting:?}: {part} never came to an end");
        }
    }
}

/// What a target does wrong, and in which step.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    /// It panics while it writes.
    Write(u64),
    /// It panics at the end.
    Finish,
}

struct Panics {
    inner: FileTarget,
    wrong: Wrong,
}

impl OutputTarget for Panics {
    fn write(&mut self, batch: &StepBatch, source: &mut dyn ChunkSource) -> Result<(), Error> {
        assert!(!matches!(self.wrong, Wrong::Write(step) if step == batch.step), "it panics here");
        self.inner.write(batch, source)
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.inner.sync()
    }

    fn finish(self: Box<Self>, steps: u64) -> Result<(), Error> {
        assert!(!matches!(self.wrong, Wrong::Finish), "it panics here");
        Box::new(self.inner).finish(steps)
    }
}

/// A server fails: while it creates, while it writes, at the end. Its clients get the error; with a rank that panics,
/// the program ends.
#[test]
fn a_server_fails() {
    for setting in SETTINGS.into_iter().filter(|setting| setting.servers > 0) {
        for wrong in [Wrong::Write(0), Wrong::Write(2), Wrong::Finish] {
            let context = format!("{setting:?}, {wrong:?}");
            ends(&context, move || {
                let make = |comm: &Comm, name: &str, declared: &Arc<Declaration>| {
                    let inner = FileTarget::create(comm, name, declared)?;
                    Ok(Box::new(Panics { inner, wrong }) as Box<dyn OutputTarget>)
                };
                let serve = |server: Server| {
                    let service = server.serve_into(make)?;
                    assert_eq!(service.failures.len(), 1, "{service:?}");
                    Ok(())
                };
                let name = format!("memfs:server-{}-{wrong:?}", setting.servers);
                let job = |comm: &Comm, options: &Options| {
                    let (streams, keys) = all_streams::declare(comm, CUT);
                    let error = until_failure(comm, options.create(comm, &name, &streams)?, &keys).unwrap();
                    assert!(error.to_string().contains("panicked"), "{error}");
                    let step = if let Wrong::Write(step) = wrong { Some(step) } else { None };
                    assert_eq!(error.step(), step, "{error}");
                    Ok(())
                };
                Launch::threads(setting.ranks).run(|world| run(setting, world, serve, job)).unwrap();
            });
        }
        let context = format!("{setting:?}, a server that panics");
        let error = ends(&context, move || {
            let serve = |server: Server| server.serve_into(|_, _, _| panic!("it panics here")).map(drop);
            let job = |comm: &Comm, options: &Options| {
                let (streams, keys) = all_streams::declare(comm, CUT);
                let mut output = options.create(comm, "memfs:server-panics", &streams)?;
                all_streams::step(comm, &mut output, &keys, CUT, 0)?;
                output.finish().map(drop)
            };
            Launch::threads(setting.ranks).run(|world| run(setting, world, serve, job)).unwrap_err()
        });
        assert!(error.to_string().contains("panics here"), "{error}");
    }
}

/// Clients drop an output, each at another step, and continue; servers continue too.
#[test]
fn a_dropped_output_does_not_block_a_server() {
    for setting in SETTINGS.into_iter().filter(|setting| setting.servers > 0) {
        for last in 0..STEPS {
            let context = format!("{setting:?}, dropped after {last}");
            ends(&context, move || {
                let job = |comm: &Comm, options: &Options| {
                    let (streams, keys) = all_streams::declare(comm, CUT);
                    let name = format!("memfs:dropped-{}-{last}", setting.servers);
                    let mut output = options.create(comm, &name, &streams)?;
                    let steps = if comm.rank() == 0 { last } else { STEPS };
                    for step in 0..steps {
                        // Steps that the other clients cannot write any more are an error in time.
                        if all_streams::step(comm, &mut output, &keys, CUT, step).is_err() {
                            break;
                        }
                    }
                    drop(output);
                    comm.barrier()?;
                    // The servers still accept outputs.
                    let mut next = options.create(comm, &format!("{name}-next"), &streams)?;
                    all_streams::step(comm, &mut next, &keys, CUT, 0)?;
                    next.finish().map(drop)
                };
                let program = |world: &Comm| run(setting, world, |server| server.serve().map(drop), job);
                // Steps that rank 0 did not commit are the result, unless a call has returned the error already.
                if let Err(error) = Launch::threads(setting.ranks).run(program) {
                    let shown = error.to_string();
                    assert!(shown.contains("dropped without `finish`") && last < STEPS, "{shown}");
                }
            });
        }
    }
}
