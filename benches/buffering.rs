//! What active buffering costs and saves, as ratios measured in one run: `cargo bench --bench buffering`; `-- --quick` for fewer rounds.

use std::hint::black_box;
use std::time::{Duration, Instant};

use aqueduct::comm::{Comm, Launch, Op};
use aqueduct::file::{Buffered, Capacity, Error, Mode, Open};

const RANKS: usize = 2;
const MIB: usize = 1 << 20;

fn main() {
    let quick = std::env::args().any(|word| word == "--quick");
    let rounds = if quick { 6 } else { 24 };
    visible(rounds);
    computing(rounds);
    overflow(rounds.min(8));
}

fn tell(what: &str, ratios: &[f64], wanted: &str) {
    let mut ratios = ratios.to_vec();
    ratios.sort_by(f64::total_cmp);
    let (best, median) = (ratios[0], ratios[ratios.len() / 2]);
    println!("{what:<64} best {best:>7.3} median {median:>7.3}   wanted {wanted}");
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

fn open(memory: usize) -> Open {
    let buffered = Buffered::new(Capacity::Bytes(memory as u64));
    Open::new(Mode::read_write().create().delete_on_close()).buffered(&buffered)
}

/// A snapshot that fits, beside copying its bytes: one rank, so that nothing but the copy and the buffer is seen.
fn visible(rounds: usize) {
    const BYTES: usize = 8 * MIB;
    let ratios = on_ranks(1, |world| {
        let file = open(64 * MIB).open(world, "throttle=400MB/s:memfs:visible")?;
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
    tell("a snapshot of 8 MiB that fits / memcpy of its bytes", &ratios[0], "<= 1.25");
}

/// A computation while its last snapshot is written, beside the same computation alone.
fn computing(rounds: usize) {
    const BYTES: usize = 8 * MIB;
    let ratios = on_ranks(RANKS, |world| {
        let file = open(64 * MIB).open(world, "throttle=200MB/s:memfs:computing")?;
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
    tell("computation while 2 x 8 MiB are written at 200 MB/s / alone", &ratios[0], "<= 1.05");
}

/// 92 MB of each rank into 64 MB: the device is never idle.
fn overflow(rounds: usize) {
    const BYTES: usize = 92_000_000;
    const RATE: f64 = 800e6;
    let ratios = on_ranks(RANKS, |world| {
        let file = open(64_000_000).open(world, "throttle=800MB/s:memfs:overflow")?;
        let data = vec![1u8; BYTES];
        let place = (world.rank() * BYTES) as u64;
        // Touches the file's memory, which no disk would have to find.
        file.at(place).all().write(&data)?;
        file.sync()?;
        let mut ratios = Vec::new();
        for _ in 0..rounds {
            world.barrier().expect("a barrier");
            let begin = Instant::now();
            file.at(place).all().write(&data)?;
            file.sync()?;
            let time = world.allreduce_one(Op::Max, begin.elapsed().as_secs_f64()).expect("a talk");
            // Reported as what is missing to the device, so that less is better as above.
            ratios.push(time / ((RANKS * BYTES) as f64 / RATE));
        }
        let told = file.buffering().expect("it is buffered");
        assert!(told.memory.peak <= 64_000_000 && told.waits > 0, "{told:?}");
        file.close()?;
        Ok(ratios)
    });
    tell(
        "92 MB of each rank into 64 MB: time / time of the device",
        &ratios[0],
        "<= 1.11 (0.9 of the device)",
    );
}
