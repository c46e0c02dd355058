//! A buffered file with the memory of a server as a level, whose program is killed: durable steps are in the file,
//! and the count of each rank in the file is the number of its complete steps.

use std::path::Path;
use std::time::Duration;

use aqueduct_comm::Comm;
use aqueduct_file::{BufferOptions, Capacity, OpenOptions};
use aqueduct_stream::{ComputeGroup, Error, Role, split_io_servers};

/// A rank's part of the file: the number of complete steps, and the steps.
const COUNTER: usize = 8;
const STEP: usize = 4000;
const STEPS: u64 = 200;
const PART: usize = COUNTER + STEPS as usize * STEP;
/// Syncs after each so many steps.
const DURABLE_EVERY: u64 = 8;
/// A process is killed about here, between two syncs.
const FATAL: u64 = 45;

fn path(folder: &str) -> String {
    format!("{folder}/levels")
}

fn pattern(rank: usize, step: u64) -> Vec<u8> {
    (0..STEP as u64).map(|at| 1 + ((at + 7 * step + 31 * rank as u64) % 250) as u8).collect()
}

fn counted(file: &[u8], rank: usize) -> u64 {
    let counter = file.get(rank * PART..).and_then(|part| part.first_chunk::<COUNTER>());
    counter.map_or(0, |counter| u64::from_le_bytes(*counter))
}

/// Kills this process as soon as the file has this number of steps of the first rank.
fn die_on_time(path: String) {
    std::thread::spawn(move || {
        loop {
            if std::fs::read(&path).is_ok_and(|file| counted(&file, 0) >= FATAL) {
                super::die();
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    });
}

/// The last rank is a server. It is killed while it writes, or the second rank is killed while it passes data.
pub(crate) fn job(world: &Comm, folder: &str, server_dies: bool) -> Result<(), Error> {
    match split_io_servers(world, 1)? {
        Role::Server(server) => {
            if server_dies {
                die_on_time(path(folder));
            }
            server.memory(100_000).serve().map(drop)
        }
        Role::Compute(compute) => commit_steps(&compute, folder, !server_dies),
    }
}

fn commit_steps(compute: &ComputeGroup, folder: &str, dies: bool) -> Result<(), Error> {
    let (comm, rank) = (compute.comm(), compute.comm().rank());
    let file =
        OpenOptions::new().read(true).write(true).create(true).open(comm, format!("ufs:{}", path(folder)))?;
    let file = compute.buffered(file, &BufferOptions::new(Capacity::Bytes(3 * STEP as u64)))?;
    let start = (rank * PART) as u64;
    for step in 0..STEPS {
        if dies && step == FATAL && rank == 1 {
            super::die();
        }
        if !dies && step >= FATAL {
            // The thread that kills the server gets a time slice before the last step, on a loaded machine too.
            std::thread::sleep(Duration::from_millis(5));
        }
        file.at(start + (COUNTER + step as usize * STEP) as u64).write(&pattern(rank, step))?;
        file.at(start).write(&[step + 1])?;
        if (step + 1).is_multiple_of(DURABLE_EVERY) {
            file.sync()?;
            if rank == 0 {
                println!("durable: {}", step + 1);
            }
        }
    }
    file.close()
}

/// Each rank has left a prefix of its writes, at least the durable ones; the last write perhaps partially.
pub(crate) fn check_file(folder: &Path, ranks: usize, durable: u64, context: &str) {
    let file = std::fs::read(folder.join("levels")).unwrap();
    assert!((DURABLE_EVERY..STEPS).contains(&durable), "{context}: {durable} steps were said to be durable");
    for rank in 0..ranks {
        let complete = counted(&file, rank);
        assert!(complete >= durable && complete < STEPS, "{context}, rank {rank}: {complete} of {durable}");
        let first = rank * PART + COUNTER;
        let step = |step: u64| file.get(first + step as usize * STEP..).unwrap_or(&[]);
        for number in 0..complete {
            assert!(
                step(number).starts_with(&pattern(rank, number)),
                "{context}, rank {rank}: step {number}"
            );
        }
        let begun: Vec<u8> =
            step(complete).iter().copied().take(STEP).take_while(|byte| *byte != 0).collect();
        assert!(pattern(rank, complete).starts_with(&begun), "{context}, rank {rank}: step {complete}");
        let behind = STEPS.saturating_sub(complete) as usize * STEP;
        let mut later = step(complete).iter().take(behind).skip(begun.len());
        assert!(later.all(|byte| *byte == 0), "{context}, rank {rank}: writes behind step {complete}");
    }
}
