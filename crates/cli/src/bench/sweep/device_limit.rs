//! The limit of the device: plain writes and reads, by one rank and by all.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use aqueduct::comm::{Comm, Op};
use aqueduct::device::{self, DeviceOpenOptions, HandleExt};

use crate::bench::target::{TargetArguments, agree};

/// Bytes of each rank.
const BYTES: u64 = 32 << 20;
const PIECE: u64 = 4 << 20;
const REPETITIONS: usize = 3;

/// Bytes per second: of one rank and of all, written and read. Collective.
pub(super) fn measure(world: &Comm, target: &TargetArguments) -> Result<[[f64; 2]; 2]> {
    let path = PathBuf::from(format!("{}.limit", target.file));
    target.create(world, &path, BYTES)?;
    let mut rates = [[0.0f64; 2]; 2];
    let measured = (|| {
        let file = device::open(&path, &DeviceOpenOptions::read_write().rank(world.rank()))?;
        let mut memory = vec![1u8; PIECE as usize];
        for (of_all, is_read) in [(false, false), (false, true), (true, false), (true, true)] {
            let ranks = if of_all { world.size() } else { 1 };
            for _ in 0..REPETITIONS {
                world.barrier()?;
                let start = Instant::now();
                if world.rank() < ranks {
                    let first = BYTES * world.rank() as u64;
                    for at in (first..first + BYTES).step_by(PIECE as usize) {
                        if is_read {
                            file.read_at(at, &mut memory)?;
                        } else {
                            file.write_at(at, &memory)?;
                        }
                    }
                }
                let seconds = world.allreduce_one(Op::Max, start.elapsed().as_secs_f64())?;
                let rate = (BYTES * ranks as u64) as f64 / seconds.max(1e-9);
                let best = &mut rates[usize::from(of_all)][usize::from(is_read)];
                *best = best.max(rate);
            }
        }
        file.close()?;
        anyhow::Ok(())
    })();
    let measured = agree(world, measured);
    TargetArguments::delete(world, &path)?;
    measured.map(|()| rates)
}
