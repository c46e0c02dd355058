//! The output `together` of `sph`: 10^6 particles against a raw collective write of the same bytes; records of variable size against records of constant size.

use std::ops::Range;
use std::sync::Mutex;

use anyhow::{Context, Result};
use aqueduct::comm::{Comm, Launch, Op};
use aqueduct::file::OpenOptions;
use aqueduct::object;
use aqueduct_sph::output::together;
use aqueduct_sph::quantity::QuantityTable;
use aqueduct_sph::record::{PackedParticle, ParticleRecord, StoredParticle};

use crate::table::{FigureTable, FigureTarget};
use crate::timing::{alternate, best_and_median, ratios, slowest_rank};
use crate::tools::scratch_folder;

/// Records of six stages: 14 scalars and 21 vectors.
type Arrays = PackedParticle<14, 21>;

const RANKS: usize = 2;
const ROUNDS: usize = 5;

/// The seconds of a round: raw bytes, records.
type RateRounds = Vec<(f64, f64)>;

/// `--quick` writes 10^5 particles.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let particles = if words.contains(&"--quick") { 100_000 } else { 1_000_000 };
    let folder = scratch_folder()?;
    let measured = Mutex::new(None);
    Launch::threads(RANKS).run(|world| {
        let name = |what: &str| folder.path().join(what).display().to_string();
        let rounds = measure(world, particles, &name).map_err(|error| format!("{error:#}"))?;
        if world.rank() == 0 {
            *measured.lock().expect("no rank panics here") = Some(rounds);
        }
        Ok::<(), String>(())
    })?;
    let [lists, arrays] = measured.into_inner().expect("no rank panics here").context("no rank")?;
    let mut table = FigureTable::default();
    for (label, rounds) in [("lists", &lists), ("arrays", &arrays)] {
        table.at_least(
            &format!("{particles} particles as {label}: rate / raw collective write"),
            &ratios(rounds),
            0.5,
        );
    }
    let times = lists.iter().zip(&arrays).map(|((_, lists), (_, arrays))| lists / arrays);
    let times: Vec<f64> = times.collect();
    table.row("  time of lists / time of arrays", best_and_median(&times), FigureTarget::None);
    table.finish();
    Ok(())
}

/// The rounds of lists and of arrays. Files are replaced, and synced before the clock stops.
fn measure(world: &Comm, particles: u64, name: &dyn Fn(&str) -> String) -> Result<[RateRounds; 2]> {
    let border = |rank: usize| particles * rank as u64 / world.size() as u64;
    let ids = border(world.rank())..border(world.rank() + 1);
    Ok([rounds::<ParticleRecord>(world, ids.clone(), name)?, rounds::<Arrays>(world, ids, name)?])
}

fn rounds<R: StoredParticle>(
    world: &Comm,
    ids: Range<u64>,
    name: &dyn Fn(&str) -> String,
) -> Result<RateRounds> {
    let records = records::<R>(&QuantityTable::new(6, false, false), ids);
    let bytes = object::encode_all(&records);
    alternate(
        ROUNDS,
        || slowest_rank(world, || write_raw(world, &name("raw"), &bytes)),
        || slowest_rank(world, || together::write(world, &name("particles"), &records)),
    )
}

fn records<R: StoredParticle>(table: &QuantityTable, ids: Range<u64>) -> Vec<R> {
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

/// One contiguous collective write of bytes, sync, close; the file is replaced, as by the other candidate.
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
