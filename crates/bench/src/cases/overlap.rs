//! A non-blocking collective write beside a computation of the same duration.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use aqueduct::comm::{Comm, Op};
use aqueduct::file::{File, OpenOptions};

use crate::timing::{calibrate_compute, compute, slowest_rank};

const BYTES: usize = 32 << 20;
const REPETITIONS: usize = 5;

/// Prints one line per repetition: seconds of the write, of the computation, of the non-blocking call, and of both overlapped.
pub(crate) fn run(world: &Comm, path: &Path) -> Result<()> {
    let name = format!("throttle=200MB/s:{}", path.with_extension("cached").display());
    let file = OpenOptions::new().read(true).write(true).open(world, name)?;
    let mut data = vec![0u8; BYTES];
    aqueduct_patterns::fill(world.rank() as u64, &mut data);
    let place = (BYTES * world.rank()) as u64;
    for _ in 0..REPETITIONS {
        let write = slowest_rank(world, || {
            file.at(place).all().write(&data)?;
            anyhow::Ok(())
        })?;
        let rounds = calibrate_compute(write);
        let computing = slowest_rank(world, || {
            black_box(compute(rounds));
            anyhow::Ok(())
        })?;
        let (call, both, back) = overlapped(world, &file, place, data, rounds)?;
        data = back;
        if world.rank() == 0 {
            let level = world.thread_level().map_or("threads".to_owned(), |level| format!("{level:?}"));
            println!("overlap {level} {write} {computing} {call} {both}");
        }
    }
    let sum =
        aqueduct_patterns::sum_of_file(&path.with_extension("cached"), (BYTES * world.size()) as u64, false)?;
    if world.rank() == 0 {
        println!("overlap sum {sum:016x}");
    }
    file.close()?;
    Ok(())
}

/// The seconds of the non-blocking call and of write and computation overlapped, and the data.
fn overlapped(
    world: &Comm,
    file: &File,
    place: u64,
    data: Vec<u8>,
    rounds: u64,
) -> Result<(f64, f64, Vec<u8>)> {
    world.barrier()?;
    let start = Instant::now();
    let request = file.at(place).all().start_write(data)?;
    let call = start.elapsed().as_secs_f64();
    black_box(compute(rounds));
    let (data, _) = request.wait()?;
    let both = start.elapsed().as_secs_f64();
    Ok((world.allreduce_one(Op::Max, call)?, world.allreduce_one(Op::Max, both)?, data))
}
