//! Outputs that are dropped without `finish`, on slow media and with slow ranks. The stall limit is 300 ms here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aqueduct_comm::{Comm, Launch};

use crate::target::{ChunkSource, FileTarget, OutputTarget, StepBatch};
use crate::write::stall_limit::STALL_LIMIT;
use crate::{
    Declaration, Error, Kind, Options, Output, OutputMode, Reader, Result, Role, Stream, StreamKey, Streams,
    split_io_servers,
};

const STEPS: u64 = 3;
/// Longer than the limit of waits for other ranks.
const LONG: Duration = STALL_LIMIT.saturating_mul(3);

/// A stream file on a slow medium: each step takes long, or each sync.
struct SlowTarget {
    inner: FileTarget,
    write: Duration,
    sync: Duration,
}

impl SlowTarget {
    fn create(
        comm: &Comm,
        name: &str,
        declared: &Arc<Declaration>,
        slow_sync: bool,
    ) -> Result<Box<dyn OutputTarget>> {
        let inner = FileTarget::create(comm, name, declared)?;
        let (write, sync) = if slow_sync { (Duration::ZERO, LONG) } else { (LONG, Duration::ZERO) };
        Ok(Box::new(Self { inner, write, sync }))
    }
}

impl OutputTarget for SlowTarget {
    fn write(&mut self, batch: &StepBatch, source: &mut dyn ChunkSource) -> Result<()> {
        std::thread::sleep(self.write);
        self.inner.write(batch, source)
    }

    fn is_persistent(&self) -> bool {
        self.inner.is_persistent()
    }

    fn sync(&mut self) -> Result<()> {
        std::thread::sleep(self.sync);
        self.inner.sync()
    }

    fn finish(self: Box<Self>, steps: u64) -> Result<()> {
        Box::new(self.inner).finish(steps)
    }
}

fn declare(comm: &Comm) -> (Streams, StreamKey<u64>) {
    let (rank, size) = (comm.rank() as u64, comm.size() as u64);
    let mut streams = Streams::new();
    let key = streams.add(Stream::array("level", [size]).block([rank], [1]));
    (streams, key)
}

fn options(durable: bool) -> Options {
    let options = Options::new().mode(OutputMode::Thread).buffers(8).memory(1 << 20);
    if durable { options.durable_every(1) } else { options }
}

/// Commits steps, after a pause each.
fn commit_steps(output: &mut Output, key: StreamKey<u64>, steps: u64, pause: Duration) -> Result<()> {
    (0..steps).try_for_each(|step| {
        std::thread::sleep(pause);
        output.step()?.put(key, &[step]).commit().map(drop)
    })
}

fn complete_steps(name: &str) -> u64 {
    let count = |world: &Comm| Ok::<_, Error>(Reader::open(world, name)?.stored_steps().len() as u64);
    Launch::threads(1).run(count).unwrap()[0]
}

fn failure() -> Error {
    Error::new(Kind::BadArgument, "compute", "the program", "the program fails here")
}

#[test]
fn slow_medium_loses_no_step_of_a_dropped_output() {
    for slow_sync in [false, true] {
        let name = format!("memfs:slow-{slow_sync}");
        let run = Launch::threads(2).run(|world| {
            let (streams, key) = declare(world);
            let make = |comm: &Comm, declared: &_| SlowTarget::create(comm, &name, declared, slow_sync);
            let mut output = options(slow_sync).create_on(world, &name, &streams, make)?;
            commit_steps(&mut output, key, STEPS, Duration::ZERO)
        });
        run.unwrap();
        assert_eq!(complete_steps(&name), STEPS, "slow sync: {slow_sync}");
    }
}

/// A client that fails waits for the server; without that wait the server writes the steps nevertheless.
#[test]
fn slow_medium_of_a_server_loses_no_step_of_a_client_that_fails() {
    for (slow_sync, waits) in [(false, true), (true, true), (false, false), (true, false)] {
        let name = format!("memfs:served-slow-{slow_sync}-{waits}");
        let run = Launch::threads(3).run(|world| match split_io_servers(world, 1)? {
            Role::Server(server) => {
                let make = |comm: &Comm, name: &str, declared: &Arc<Declaration>| {
                    SlowTarget::create(comm, name, declared, slow_sync)
                };
                server.serve_into(make).map(drop)
            }
            Role::Compute(compute) => {
                let (streams, key) = declare(compute.comm());
                let options = options(slow_sync).mode(OutputMode::Servers).served_by(&compute);
                let mut output = options.create(compute.comm(), &name, &streams)?;
                commit_steps(&mut output, key, STEPS, Duration::ZERO)?;
                compute.comm().barrier()?;
                if !waits {
                    std::mem::forget(output);
                }
                if compute.comm().rank() == 1 { Err(failure()) } else { Ok(()) }
            }
        });
        assert!(run.unwrap_err().to_string().contains("the program fails here"));
        assert_eq!(complete_steps(&name), STEPS, "slow sync: {slow_sync}, the clients wait: {waits}");
    }
}

/// Commits steps on ranks of which the first is slow, and then drops the output.
fn commit_with_a_slow_rank(comm: &Comm, options: &Options, name: &str) -> Result<()> {
    let (streams, key) = declare(comm);
    let mut output = options.create(comm, name, &streams)?;
    let pause = if comm.rank() == 0 { LONG } else { Duration::ZERO };
    commit_steps(&mut output, key, STEPS, pause)
}

#[test]
fn rank_that_is_ahead_waits_for_slower_ones() {
    Launch::threads(2).run(|world| commit_with_a_slow_rank(world, &options(false), "memfs:ahead")).unwrap();
    assert_eq!(complete_steps("memfs:ahead"), STEPS);
    let run = Launch::threads(3).run(|world| match split_io_servers(world, 1)? {
        Role::Server(server) => server.serve().map(drop),
        Role::Compute(compute) => {
            let options = options(false).mode(OutputMode::Servers).served_by(&compute);
            commit_with_a_slow_rank(compute.comm(), &options, "memfs:served-ahead")
        }
    });
    run.unwrap();
    assert_eq!(complete_steps("memfs:served-ahead"), STEPS);
}

/// Rank 1 is ahead and fails, while rank 0 waits for a message from it.
fn fail_while_awaited(comm: &Comm, options: &Options, name: &str) -> Result<()> {
    let (streams, key) = declare(comm);
    let mut output = options.create(comm, name, &streams)?;
    commit_steps(&mut output, key, 1, Duration::ZERO)?;
    if comm.rank() == 1 {
        commit_steps(&mut output, key, STEPS, Duration::ZERO)?;
        return Err(failure());
    }
    comm.receive::<u8>(1, 7).map_err(|error| Error::from_comm("compute", "the program", &error))?;
    output.finish().map(drop)
}

#[test]
fn rank_that_is_ahead_and_fails_does_not_block_other_ranks() {
    let begin = Instant::now();
    let run = Launch::threads(2).run(|world| fail_while_awaited(world, &options(false), "memfs:fails-ahead"));
    assert!(run.unwrap_err().to_string().contains("the program fails here"));
    let run = Launch::threads(3).run(|world| match split_io_servers(world, 1)? {
        Role::Server(server) => server.serve().map(drop),
        Role::Compute(compute) => {
            let options = options(false).mode(OutputMode::Servers).served_by(&compute);
            fail_while_awaited(compute.comm(), &options, "memfs:served-fails-ahead")
        }
    });
    assert!(run.unwrap_err().to_string().contains("the program fails here"));
    assert!(begin.elapsed() < 100 * STALL_LIMIT, "{:?}", begin.elapsed());
    assert_eq!(["memfs:fails-ahead", "memfs:served-fails-ahead"].map(complete_steps), [1, 1]);
}
