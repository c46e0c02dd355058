//! The rate of the way `together` against a raw collective write of the same bytes, for records with lists and with arrays.
//!
//! `cargo run --release -p aqueduct-sph --example output_rate -- [PARTICLES] [RANKS] [ROUNDS] [FOLDER]`. The candidates take turns; each
//! write ends with a sync. Ratios are rates: best, and median of the rounds.

use std::time::Instant;

use anyhow::{Context, Result};
use aqueduct::comm::{Comm, Launch, Op};
use aqueduct::file::OpenOptions;
use aqueduct::object;
use aqueduct_sph::output::together;
use aqueduct_sph::quantity::QuantityTable;
use aqueduct_sph::record::{PackedParticle, ParticleRecord, StoredParticle};

/// Records of six stages: 14 scalars and 21 vectors.
type Arrays = PackedParticle<14, 21>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, default: u64| words.get(place).map_or(Ok(default), |word| word.parse());
    let (particles, ranks, rounds) = (number(0, 1_000_000)?, number(1, 2)?, number(2, 5)?);
    let folder = words.get(3).map_or_else(|| std::env::temp_dir().display().to_string(), Clone::clone);
    let rates = Launch::threads(ranks as usize)
        .run(|world| measure(world, particles, rounds, &folder).map_err(|error| format!("{error:#}")))?;
    let [raw, lists, arrays, raw_arrays] = rates.into_iter().next().context("no rank")?;
    let gigabytes = |bytes: usize| particles as f64 * bytes as f64 / 1e9;
    println!(
        "{particles} particles on {ranks} ranks: {:.3} GB as lists, {:.3} GB as arrays",
        gigabytes(644),
        gigabytes(628)
    );
    for (name, times, raw, bytes) in [("lists", &lists, &raw, 644), ("arrays", &arrays, &raw_arrays, 628)] {
        let ratios: Vec<f64> = sorted(raw.iter().zip(times).map(|(raw, time)| raw / time));
        let (best, raw_best) = (sorted(times.iter().copied())[0], sorted(raw.iter().copied())[0]);
        println!(
            "{name:>7}: {:.2} GB/s, raw collective write {:.2} GB/s; ratio of the rates {:.2} (best), {:.2} (median)",
            gigabytes(bytes) / best,
            gigabytes(bytes) / raw_best,
            raw_best / best,
            ratios[ratios.len() / 2]
        );
    }
    let ratio = sorted(arrays.iter().zip(&lists).map(|(arrays, lists)| lists / arrays));
    println!("time of lists / time of arrays: {:.2} (median)", ratio[ratio.len() / 2]);
    Ok(())
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The seconds of each round: raw bytes of lists, lists, arrays, raw bytes of arrays.
fn measure(world: &Comm, particles: u64, rounds: u64, folder: &str) -> Result<[Vec<f64>; 4]> {
    let table = QuantityTable::new(6, false, false);
    let border = |rank: usize| particles * rank as u64 / world.size() as u64;
    let ids = border(world.rank())..border(world.rank() + 1);
    let (lists, arrays) = (records::<ParticleRecord>(&table, ids.clone()), records::<Arrays>(&table, ids));
    let (list_bytes, array_bytes) = (object::encode_all(&lists), object::encode_all(&arrays));
    let mut times: [Vec<f64>; 4] = Default::default();
    let name = |what: &str| format!("{folder}/aqueduct-output-rate-{what}");
    for _ in 0..rounds {
        times[0].push(timed(world, || write_raw(world, &name("raw"), &list_bytes))?);
        times[1].push(timed(world, || together::write(world, &name("lists"), &lists))?);
        times[2].push(timed(world, || together::write(world, &name("arrays"), &arrays))?);
        times[3].push(timed(world, || write_raw(world, &name("raw"), &array_bytes))?);
    }
    world.barrier()?;
    if world.rank() == 0 {
        for what in ["raw", "lists", "lists.meta", "arrays", "arrays.meta"] {
            std::fs::remove_file(name(what))?;
        }
    }
    Ok(times)
}

fn records<R: StoredParticle>(table: &QuantityTable, ids: std::ops::Range<u64>) -> Vec<R> {
    let record = |number: u64| {
        let mut record = R::zeroed(table);
        let (id, _, scalars, vectors) = record.parts_mut();
        *id = number;
        scalars.iter_mut().for_each(|value| *value = number as f64 * 0.1);
        vectors.iter_mut().for_each(|value| *value = [number as f64 * 0.3, 1.0, 2.0]);
        record
    };
    ids.map(record).collect()
}

fn timed(world: &Comm, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    world.barrier()?;
    let began = Instant::now();
    work()?;
    Ok(world.allreduce_one(Op::Max, began.elapsed().as_secs_f64())?)
}

/// One contiguous collective write of bytes, sync, close; the file is replaced, as by the other candidates.
fn write_raw(world: &Comm, name: &str, bytes: &[u8]) -> Result<()> {
    if world.rank() == 0 {
        let _ = std::fs::remove_file(name);
    }
    world.barrier()?;
    let offset = world.exclusive_scan_one(Op::Sum, bytes.len() as u64)?.unwrap_or(0);
    let file = OpenOptions::new().write(true).create(true).open(world, name)?;
    file.at(offset).all().write(bytes)?;
    file.sync()?;
    Ok(file.close()?)
}
