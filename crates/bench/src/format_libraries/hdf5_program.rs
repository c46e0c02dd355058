//! The job of the benchmark `hdf5`: writes and reads a compressed dataset, defines and opens files of many datasets. Nothing is synced.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use aqueduct::comm::Comm;
use aqueduct::hdf5::{Hdf5Compression, Hdf5CreateOptions, Hdf5DatasetOptions, Hdf5OpenOptions};

use crate::timing::slowest_rank;

/// Values of a chunk, of a MiB.
const CHUNK: u64 = 1 << 17;

pub(crate) fn run(world: &Comm, file: &Path, words: &[String]) -> Result<()> {
    let [verb, numbers @ ..] = words else {
        bail!("usage: hdf5-job FILE write|read MIB, define DATASETS ATTRIBUTES, or shapes|attributes ROUNDS");
    };
    let numbers = numbers.iter().map(|number| number.parse()).collect::<Result<Vec<u64>, _>>()?;
    match (verb.as_str(), &numbers[..]) {
        ("write", [mib]) => write(world, file, *mib)?,
        ("read", [mib]) => read(world, file, *mib)?,
        ("define", [datasets, attributes]) => define(world, file, *datasets, *attributes)?,
        ("shapes" | "attributes", [rounds]) => open(world, file, verb == "attributes", *rounds)?,
        _ => bail!("{verb:?} is no action of hdf5-job"),
    }
    world.barrier()?;
    if world.rank() == 0 {
        println!("verified");
    }
    Ok(())
}

fn report(world: &Comm, seconds: f64) {
    if world.rank() == 0 {
        println!("seconds {seconds:.9}");
    }
}

/// Slowly rising numbers with a byte of noise.
fn value(at: u64) -> f64 {
    (at / 1000) as f64 + (at.wrapping_mul(2_654_435_761) >> 24 & 255) as f64 / 256.0
}

/// The values of a rank: whole chunks.
fn share(world: &Comm, mib: u64) -> std::ops::Range<u64> {
    let (rank, ranks) = (world.rank() as u64, world.size() as u64);
    mib * rank / ranks * CHUNK..mib * (rank + 1) / ranks * CHUNK
}

fn write(world: &Comm, path: &Path, mib: u64) -> Result<()> {
    let own = share(world, mib);
    let values: Vec<f64> = own.clone().map(value).collect();
    let options = Hdf5DatasetOptions::new().chunk(&[CHUNK]).compress(Hdf5Compression::Deflate(4));
    let seconds = slowest_rank(world, || {
        let mut file = Hdf5CreateOptions::new().replace().without_sync().create(world, path)?;
        let x = file.define(|file| file.dataset_with::<f64>("x", &[mib * CHUNK], &options))?;
        file.at(x, own.clone()).all().write(&values)?;
        Ok::<_, anyhow::Error>(file.close()?)
    })?;
    report(world, seconds);
    Ok(())
}

fn read(world: &Comm, path: &Path, mib: u64) -> Result<()> {
    let own = share(world, mib);
    let mut values = vec![-1.0f64; (own.end - own.start) as usize];
    let seconds = slowest_rank(world, || {
        let file = Hdf5OpenOptions::new().open(world, path)?;
        file.at(file.dataset("x")?, own.clone()).all().read(&mut values)?;
        Ok::<_, anyhow::Error>(file.close()?)
    })?;
    report(world, seconds);
    ensure!(
        own.zip(&values).all(|(at, found)| found.to_bits() == value(at).to_bits()),
        "other values were read"
    );
    Ok(())
}

fn define(world: &Comm, path: &Path, datasets: u64, attributes: u64) -> Result<()> {
    let seconds = slowest_rank(world, || {
        let mut file = Hdf5CreateOptions::new().replace().without_sync().create(world, path)?;
        file.define(|file| {
            for number in 0..datasets {
                let path = format!("group{}/dataset{number}", number % 100);
                file.dataset::<f64>(&path, &[number % 7 + 1])?;
                for attribute in 0..attributes {
                    file.attribute(&path, &format!("attribute{attribute}"), number + attribute)?;
                }
            }
            Ok(())
        })?;
        Ok::<_, anyhow::Error>(file.close()?)
    })?;
    report(world, seconds);
    Ok(())
}

/// Opens all datasets, and sums their elements or the values of their attributes.
fn open(world: &Comm, path: &Path, attributes: bool, rounds: u64) -> Result<()> {
    for _ in 0..rounds {
        let mut sum = 0;
        let seconds = slowest_rank(world, || {
            let file = Hdf5OpenOptions::new().open(world, path)?;
            for (id, path) in file.datasets() {
                sum += file.describe(id)?.elements().unwrap_or(0);
                if attributes {
                    let values = file.object(path)?.attributes.values();
                    sum += values.filter_map(|value| value.values::<u64>()?.first().copied()).sum::<u64>();
                }
            }
            Ok::<_, anyhow::Error>(file.close()?)
        })?;
        ensure!(sum > 0, "nothing was found");
        report(world, seconds);
    }
    Ok(())
}
