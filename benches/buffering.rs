//! What active buffering costs and saves, as ratios measured in one run: `cargo bench --bench buffering`; `-- --quick` for fewer rounds. Names choose parts,
//! or what they begin with: `-- visible overflow-disk`.

#[path = "common/table.rs"]
mod table;

use std::hint::black_box;
use std::time::{Duration, Instant};

use aqueduct::comm::{Comm, Launch, Op};
use aqueduct::file::{BufferOptions, Capacity, File, OpenOptions};
use aqueduct::stream::{Error, Role, split_io_servers};
use table::print_row;

const RANKS: usize = 2;
const MIB: usize = 1 << 20;
/// 92 MB of each rank into 64 MB.
const SNAPSHOT: usize = 92_000_000;
const MEMORY: usize = 64_000_000;
/// The rate of the throttled device of those.
const RATE: f64 = 800e6;

fn main() {
    let quick = std::env::args().any(|word| word == "--quick");
    let rounds = if quick { 6 } else { 24 };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder for the files");
    let disk = |name: &str| format!("ufs:{}", folder.path().join(name).display());
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let parts: [(&str, &dyn Fn()); 7] = [
        ("visible", &|| visible(rounds, "at 400 MB/s", "throttle=400MB/s:memfs:visible")),
        ("visible-disk", &|| visible(rounds, "on the disk", &disk("visible"))),
        ("computing", &|| computing(rounds, "at 200 MB/s", "throttle=200MB/s:memfs:computing")),
        ("computing-disk", &|| computing(rounds.min(12), "on the disk", &disk("computing"))),
        ("overflow", &|| overflow(rounds.min(8), "throttle=800MB/s:memfs:overflow")),
        ("overflow-disk", &|| overflow_on(rounds.min(5), &disk("overflow"))),
        ("overflow-served", &|| overflow_served(rounds.min(8), "throttle=800MB/s:memfs:served")),
    ];
    for (name, part) in parts {
        if asked.is_empty() || asked.iter().any(|word| name.starts_with(word.as_str())) {
            part();
        }
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}

/// A fixed amount of work on a processor.
fn compute(units: u64) -> u64 {
    (0..units * 100_000).fold(0u64, |sum, number| black_box(sum.wrapping_mul(31).wrapping_add(number)))
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

/// A snapshot that fits, beside copying its bytes: one rank, so that nothing but the copy and the buffer is seen.
fn visible(rounds: usize, how: &str, name: &str) {
    const BYTES: usize = 8 * MIB;
    let ratios = on_ranks(1, |world| {
        let file = open().buffered(&memory(64 * MIB)).open(world, name)?;
        let data = vec![1u8; BYTES];
        let mut copies: Vec<Vec<u8>> = (0..4).map(|_| vec![0u8; BYTES]).collect();
        let mut ratios = Vec::new();
        for round in 0..rounds + 8 {
            black_box(compute(20));
            // Several copies in turn, as blocks are used in turn: what a cache holds of the last is not what is measured.
            let copy = &mut copies[round % 4];
            let copying = seconds(|| black_box(&mut *copy).copy_from_slice(black_box(&data)));
            std::thread::sleep(Duration::from_millis(40));
            let place = (round * BYTES) as u64 % (1 << 28);
            let writing = seconds(|| {
                file.at(place).write(&data).expect("a write");
            });
            // The first rounds touch memory for the first time.
            if round >= 8 {
                ratios.push(writing / copying);
            }
            file.sync()?;
        }
        file.close()?;
        Ok(ratios)
    });
    print_row(&format!("a snapshot of 8 MiB that fits, {how} / memcpy of its bytes"), &ratios[0], "<= 1.25");
}

/// A computation while its last snapshot is written, beside the same computation alone.
fn computing(rounds: usize, how: &str, name: &str) {
    const BYTES: usize = 8 * MIB;
    let ratios = on_ranks(RANKS, |world| {
        let file = open().buffered(&memory(64 * MIB)).open(world, name)?;
        let data = vec![1u8; BYTES];
        let place = |round: usize| ((round % 8 * RANKS + world.rank()) * BYTES) as u64;
        let mut ratios = Vec::new();
        for round in 0..rounds {
            world.barrier().expect("a barrier");
            let alone = seconds(|| {
                black_box(compute(1500));
            });
            file.at(place(round)).all().write(&data)?;
            let beside = seconds(|| {
                black_box(compute(1500));
            });
            let [alone, beside] =
                [alone, beside].map(|time| world.allreduce_one(Op::Max, time).expect("a talk"));
            ratios.push(beside / alone);
            file.sync()?;
        }
        file.close()?;
        Ok(ratios)
    });
    print_row(&format!("computation while 2 x 8 MiB are written {how} / alone"), &ratios[0], "<= 1.05");
}

/// The time of a snapshot of all ranks until it is durable.
fn snapshot(comm: &Comm, file: &File, data: &[u8]) -> Result<f64, Error> {
    comm.barrier()?;
    let begin = Instant::now();
    file.at((comm.rank() * SNAPSHOT) as u64).all().write(data)?;
    file.sync()?;
    Ok(comm.allreduce_one(Op::Max, begin.elapsed().as_secs_f64())?)
}

/// The times of snapshots that do not fit; the first one, which touches the file's memory, is not counted.
fn snapshots(comm: &Comm, file: &File, rounds: usize) -> Result<Vec<f64>, Error> {
    let data = vec![1u8; SNAPSHOT];
    snapshot(comm, file, &data)?;
    let times = (0..rounds).map(|_| snapshot(comm, file, &data)).collect::<Result<_, _>>()?;
    let told = file.buffering().expect("it is buffered");
    assert!(told.together.peak <= MEMORY as u64 && told.waits > 0, "{told:?}");
    Ok(times)
}

/// As what is missing to the device, so that less is better as above.
fn of_device(times: &[f64]) -> Vec<f64> {
    times.iter().map(|time| time / ((RANKS * SNAPSHOT) as f64 / RATE)).collect()
}

const WANTED: &str = "<= 1.11 (0.9 of the device)";

/// 92 MB of each rank into 64 MB: the device is never idle.
fn overflow(rounds: usize, name: &str) {
    let times = on_ranks(RANKS, |world| {
        let file = open().buffered(&memory(MEMORY)).open(world, name)?;
        let times = snapshots(world, &file, rounds)?;
        file.close()?;
        Ok(times)
    });
    let what = "92 MB of each rank into 64 MB, at 800 MB/s / time of the device";
    print_row(what, &of_device(&times[0]), WANTED);
}

/// The same on a disk: beside writing without a buffer, round by round.
fn overflow_on(rounds: usize, name: &str) {
    let ratios = on_ranks(RANKS, |world| {
        let file = open().buffered(&memory(MEMORY)).open(world, name)?;
        let plain = open().open(world, format!("{name}-plain"))?;
        let data = vec![1u8; SNAPSHOT];
        let mut ratios = Vec::new();
        for round in 0..=rounds {
            let alone = snapshot(world, &plain, &data)?;
            let buffered = snapshot(world, &file, &data)?;
            // The first round finds places on the disk.
            if round > 0 {
                ratios.push(buffered / alone);
            }
        }
        plain.close()?;
        file.close()?;
        Ok(ratios)
    });
    print_row("92 MB of each rank into 64 MB, on the disk / without a buffer", &ratios[0], WANTED);
}

/// The same through the memory of a server, a third rank.
fn overflow_served(rounds: usize, name: &str) {
    let times = on_ranks(RANKS + 1, |world| match split_io_servers(world, 1)? {
        Role::Server(server) => {
            let service = server.memory(MEMORY as u64).serve()?;
            assert!(service.memory_peak <= service.memory_cap, "{service:?}");
            Ok(Vec::new())
        }
        Role::Compute(crew) => {
            let file = crew.buffered(open().open(crew.comm(), name)?, &memory(MEMORY))?;
            let times = snapshots(crew.comm(), &file, rounds)?;
            file.close()?;
            Ok(times)
        }
    });
    let what = "92 MB of each rank into 64 MB and a server's, at 800 MB/s / device";
    print_row(what, &of_device(&times[0]), WANTED);
}
