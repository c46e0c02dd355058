//! A collective write that does not wait, beside computation of the same length.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use aqueduct::comm::{Comm, Op};
use aqueduct::file::{File, OpenOptions};

use crate::contents;

const BYTES: usize = 32 << 20;
const REPETITIONS: usize = 5;
/// Rounds of computation between two looks at the clock, in calibration.
const STRIDE: u64 = 1 << 16;

/// Prints one line per repetition: seconds of the write alone, of the computation alone, of the call, and of both together.
pub(crate) fn run(world: &Comm, path: &Path) -> Result<()> {
    let name = format!("throttle=200MB/s:{}", path.with_extension("cached").display());
    let file = OpenOptions::new().read(true).write(true).open(world, name)?;
    let mut data = vec![0u8; BYTES];
    contents::fill(world.rank() as u64, &mut data);
    let place = (BYTES * world.rank()) as u64;
    for _ in 0..REPETITIONS {
        let write = together(world, || {
            file.at(place).all().write(&data)?;
            Ok(())
        })?;
        let rounds = calibrate(write);
        let compute = together(world, || {
            black_box(busy(rounds));
            Ok(())
        })?;
        let (call, both, back) = beside(world, &file, place, data, rounds)?;
        data = back;
        if world.rank() == 0 {
            let level = world.thread_level().map_or("threads".to_owned(), |level| format!("{level:?}"));
            println!("overlap {level} {write} {compute} {call} {both}");
        }
    }
    let sum = contents::sum_of_file(&path.with_extension("cached"), (BYTES * world.size()) as u64, false)?;
    if world.rank() == 0 {
        println!("overlap sum {sum:016x}");
    }
    file.close()?;
    Ok(())
}

/// The seconds of the call, of all of it, and the data.
fn beside(world: &Comm, file: &File, place: u64, data: Vec<u8>, rounds: u64) -> Result<(f64, f64, Vec<u8>)> {
    world.barrier()?;
    let start = Instant::now();
    let request = file.at(place).all().start_write(data)?;
    let call = start.elapsed().as_secs_f64();
    black_box(busy(rounds));
    let (data, _) = request.wait()?;
    let both = start.elapsed().as_secs_f64();
    Ok((world.allreduce_one(Op::Max, call)?, world.allreduce_one(Op::Max, both)?, data))
}

fn together(world: &Comm, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    world.barrier()?;
    let start = Instant::now();
    work()?;
    Ok(world.allreduce_one(Op::Max, start.elapsed().as_secs_f64())?)
}

/// Computation without memory.
fn busy(rounds: u64) -> u64 {
    (0..rounds).fold(1, |state: u64, round| black_box(state.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round))
}

/// How many rounds take so many seconds on this rank, as fast as it is now.
fn calibrate(seconds: f64) -> u64 {
    let (start, mut rounds) = (Instant::now(), 0);
    while start.elapsed().as_secs_f64() < seconds {
        black_box(busy(STRIDE));
        rounds += STRIDE;
    }
    rounds
}
