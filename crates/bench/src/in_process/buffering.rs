//! Buffered files: the cost of a write that fits, the slowdown of a computation, the bandwidth of writes that do not fit.

use std::hint::black_box;
use std::time::{Duration, Instant};

use aqueduct::comm::{Comm, Launch, Op};
use aqueduct::file::{BufferOptions, Capacity, File, OpenOptions};
use aqueduct::stream::{Error, Role, split_io_servers};

use super::is_wanted;
use crate::table::FigureTable;
use crate::timing::{compute, seconds, slowest_rank};
use crate::tools::scratch_folder;

const RANKS: usize = 2;
const MIB: usize = 1 << 20;
/// Bytes of each rank that do not fit into `MEMORY`.
const SNAPSHOT: usize = 92_000_000;
const MEMORY: usize = 64_000_000;
/// Bytes per second of the throttled device below them.
const RATE: f64 = 800e6;
/// Time relative to that of the device: 0.9 of its bandwidth.
const MOST_OF_DEVICE_TIME: f64 = 1.11;
/// Rounds of [`compute`] that take some milliseconds.
const COMPUTE_ROUNDS: u64 = 100_000;

pub(crate) fn run(words: &[&str]) -> anyhow::Result<()> {
    let rounds = if words.contains(&"--quick") { 6 } else { 24 };
    let folder = scratch_folder()?;
    let disk = |name: &str| format!("ufs:{}", folder.path().join(name).display());
    let table = &mut FigureTable::default();
    let is_wanted = |part: &str| is_wanted(words, part);
    if is_wanted("visible") {
        visible(table, rounds, "at 400 MB/s", "throttle=400MB/s:memfs:visible");
    }
    if is_wanted("visible-disk") {
        visible(table, rounds, "on the disk", &disk("visible"));
    }
    if is_wanted("computing") {
        computing(table, rounds, "at 200 MB/s", "throttle=200MB/s:memfs:computing");
    }
    if is_wanted("computing-disk") {
        computing(table, rounds.min(12), "on the disk", &disk("computing"));
    }
    if is_wanted("overflow") {
        overflow(table, rounds.min(8), "throttle=800MB/s:memfs:overflow");
    }
    if is_wanted("overflow-disk") {
        overflow_on_disk(table, rounds.min(5), &disk("overflow"));
    }
    if is_wanted("overflow-served") {
        overflow_served(table, rounds.min(8), "throttle=800MB/s:memfs:served");
    }
    std::mem::take(table).finish();
    Ok(())
}

fn on_ranks<T: Send>(ranks: usize, program: impl Fn(&Comm) -> Result<T, Error> + Send + Sync) -> Vec<T> {
    Launch::threads(ranks).run(program).expect("the program runs")
}

fn open() -> OpenOptions {
    OpenOptions::new().read(true).write(true).create(true).delete_on_close(true)
}

fn memory(bytes: usize) -> BufferOptions {
    BufferOptions::new(Capacity::Bytes(bytes as u64))
}

/// A write that fits, against a copy of its bytes: one rank, so that only the copy and the buffer are measured.
fn visible(table: &mut FigureTable, rounds: usize, how: &str, name: &str) {
    const BYTES: usize = 8 * MIB;
    let ratios = on_ranks(1, |world| {
        let file = open().buffered(&memory(64 * MIB)).open(world, name)?;
        let data = vec![1u8; BYTES];
        let mut copies: Vec<Vec<u8>> = (0..4).map(|_| vec![0u8; BYTES]).collect();
        let mut ratios = Vec::new();
        for round in 0..rounds + 8 {
            black_box(compute(20 * COMPUTE_ROUNDS));
            // Several copies in turn, as buffer blocks are used in turn, so that the cache does not hold the target.
            let copy = &mut copies[round % 4];
            let copying = seconds(|| black_box(&mut *copy).copy_from_slice(black_box(&data)));
            std::thread::sleep(Duration::from_millis(40));
            let offset = (round * BYTES) as u64 % (1 << 28);
            let writing = seconds(|| {
                file.at(offset).write(&data).expect("a write");
            });
            // The first rounds include page faults of new memory.
            if round >= 8 {
                ratios.push(writing / copying);
            }
            file.sync()?;
        }
        file.close()?;
        Ok(ratios)
    });
    table.at_most(&format!("buffered write of 8 MiB that fits, {how} / memcpy"), &ratios[0], 1.25);
}

/// A computation while data is written in the background, against the same computation alone.
fn computing(table: &mut FigureTable, rounds: usize, how: &str, name: &str) {
    const BYTES: usize = 8 * MIB;
    let ratios = on_ranks(RANKS, |world| {
        let file = open().buffered(&memory(64 * MIB)).open(world, name)?;
        let data = vec![1u8; BYTES];
        let offset = |round: usize| ((round % 8 * RANKS + world.rank()) * BYTES) as u64;
        let mut ratios = Vec::new();
        for round in 0..rounds {
            let work = || {
                black_box(compute(1500 * COMPUTE_ROUNDS));
                Ok::<_, Error>(())
            };
            let alone = slowest_rank(world, work)?;
            file.at(offset(round)).all().write(&data)?;
            let start = Instant::now();
            work()?;
            let overlapped = world.allreduce_one(Op::Max, start.elapsed().as_secs_f64())?;
            ratios.push(overlapped / alone);
            file.sync()?;
        }
        file.close()?;
        Ok(ratios)
    });
    table.at_most(&format!("computation while 2 × 8 MiB are written {how} / alone"), &ratios[0], 1.05);
}

/// The time until a snapshot of all ranks is durable.
fn snapshot(comm: &Comm, file: &File, data: &[u8]) -> Result<f64, Error> {
    slowest_rank(comm, || {
        file.at((comm.rank() * SNAPSHOT) as u64).all().write(data)?;
        file.sync()
    })
}

/// The times of snapshots that do not fit. The first one, with page faults of new memory, does not count.
fn snapshots(comm: &Comm, file: &File, rounds: usize) -> Result<Vec<f64>, Error> {
    let data = vec![1u8; SNAPSHOT];
    snapshot(comm, file, &data)?;
    let times = (0..rounds).map(|_| snapshot(comm, file, &data)).collect::<Result<_, _>>()?;
    let status = file.buffering().expect("the file is buffered");
    assert!(status.together.peak <= MEMORY as u64 && status.waits > 0, "{status:?}");
    Ok(times)
}

/// Times divided by the time of the device.
fn relative_to_device(times: &[f64]) -> Vec<f64> {
    times.iter().map(|time| time / ((RANKS * SNAPSHOT) as f64 / RATE)).collect()
}

/// 92 MB of each rank into 64 MB: the device must not become idle.
fn overflow(table: &mut FigureTable, rounds: usize, name: &str) {
    let times = on_ranks(RANKS, |world| {
        let file = open().buffered(&memory(MEMORY)).open(world, name)?;
        let times = snapshots(world, &file, rounds)?;
        file.close()?;
        Ok(times)
    });
    let label = "92 MB of each rank into 64 MB, at 800 MB/s / time of the device";
    table.at_most(label, &relative_to_device(&times[0]), MOST_OF_DEVICE_TIME);
}

/// The same on a disk, against writes without a buffer.
fn overflow_on_disk(table: &mut FigureTable, rounds: usize, name: &str) {
    let ratios = on_ranks(RANKS, |world| {
        let file = open().buffered(&memory(MEMORY)).open(world, name)?;
        let plain = open().open(world, format!("{name}-plain"))?;
        let data = vec![1u8; SNAPSHOT];
        let mut ratios = Vec::new();
        for round in 0..=rounds {
            let alone = snapshot(world, &plain, &data)?;
            let buffered = snapshot(world, &file, &data)?;
            // In the first round the file system allocates blocks.
            if round > 0 {
                ratios.push(buffered / alone);
            }
        }
        plain.close()?;
        file.close()?;
        Ok(ratios)
    });
    let label = "92 MB of each rank into 64 MB, on the disk / without a buffer";
    table.at_most(label, &ratios[0], MOST_OF_DEVICE_TIME);
}

/// The same through the memory of an I/O server, a third rank.
fn overflow_served(table: &mut FigureTable, rounds: usize, name: &str) {
    let times = on_ranks(RANKS + 1, |world| match split_io_servers(world, 1)? {
        Role::Server(server) => {
            let service = server.memory(MEMORY as u64).serve()?;
            assert!(service.memory_peak <= service.memory_cap, "{service:?}");
            Ok(Vec::new())
        }
        Role::Compute(group) => {
            let file = group.buffered(open().open(group.comm(), name)?, &memory(MEMORY))?;
            let times = snapshots(group.comm(), &file, rounds)?;
            file.close()?;
            Ok(times)
        }
    });
    let label = "92 MB of each rank into 64 MB and those of a server, at 800 MB/s / time of the device";
    table.at_most(label, &relative_to_device(&times[0]), MOST_OF_DEVICE_TIME);
}
