//! The same program as `peer/datasets.c` on our formats: creates a file of datasets, writes a part of each on every rank in one collective
//! call, closes it, and prints the seconds of each file. The last file is read back. Nothing is synced.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use aqueduct::comm::Comm;
use aqueduct::netcdf::{NcType, NetcdfCreateOptions, NetcdfOpenOptions, Selection};

use crate::timing::slowest_rank;

/// The number of datasets, and of values of each on a rank.
#[derive(Clone, Copy)]
struct DatasetSize {
    count: usize,
    doubles: usize,
}

pub(crate) fn run(world: &Comm, file: &Path, words: &[String]) -> Result<()> {
    let [format, count, doubles, rounds] = words else {
        bail!("usage: datasets FILE netcdf|hdf5|hdf5-deflate COUNT DOUBLES ROUNDS");
    };
    let size = DatasetSize { count: count.parse()?, doubles: doubles.parse()? };
    let data: Vec<Vec<f64>> = (0..size.count).map(|at| values(size, at, world.rank())).collect();
    let (write, read): (Write, Read) = match format.as_str() {
        "netcdf" => (write_netcdf, read_netcdf),
        "hdf5" => hdf5()?,
        "hdf5-deflate" => hdf5_deflate()?,
        other => bail!("{other:?} is neither netcdf, hdf5 nor hdf5-deflate"),
    };
    for _ in 0..rounds.parse()? {
        let seconds = slowest_rank(world, || write(world, file, size, &data))?;
        if world.rank() == 0 {
            println!("seconds {seconds:.9}");
        }
    }
    let mut back = vec![vec![-1.0; size.doubles]; size.count];
    read(world, file, size, &mut back)?;
    ensure!(back == data, "rank {} did not read the same values back", world.rank());
    world.barrier()?;
    if world.rank() == 0 {
        println!("verified");
    }
    Ok(())
}

type Write = fn(&Comm, &Path, DatasetSize, &[Vec<f64>]) -> Result<()>;
type Read = fn(&Comm, &Path, DatasetSize, &mut [Vec<f64>]) -> Result<()>;

fn values(size: DatasetSize, dataset: usize, rank: usize) -> Vec<f64> {
    (0..size.doubles).map(|at| dataset as f64 * 1e6 + rank as f64 * 1e4 + (at % 9973) as f64).collect()
}

/// The part of a rank.
fn part(world: &Comm, size: DatasetSize) -> std::ops::Range<u64> {
    let (rank, doubles) = (world.rank() as u64, size.doubles as u64);
    rank * doubles..(rank + 1) * doubles
}

fn write_netcdf(world: &Comm, file: &Path, size: DatasetSize, data: &[Vec<f64>]) -> Result<()> {
    let mut dataset = NetcdfCreateOptions::new().replace().without_sync().create(world, file)?;
    let length = (world.size() * size.doubles) as u64;
    let variables = dataset.define(|file| {
        let x = file.dimension("x", length)?;
        (0..size.count)
            .map(|at| file.variable(&format!("v{at}"), NcType::Double, &[x]))
            .collect::<Result<Vec<_>, _>>()
    })?;
    let mut queue = dataset.queue();
    for (variable, data) in variables.iter().zip(data) {
        queue.put(*variable, part(world, size), data);
    }
    queue.run_all()?;
    Ok(dataset.close()?)
}

fn read_netcdf(world: &Comm, file: &Path, size: DatasetSize, data: &mut [Vec<f64>]) -> Result<()> {
    let dataset = NetcdfOpenOptions::new().open(world, file)?;
    let mut queue = dataset.queue();
    for (at, data) in data.iter_mut().enumerate() {
        queue.get(dataset.variable(&format!("v{at}"))?, Selection::from(part(world, size)), data);
    }
    queue.run_all()?;
    Ok(dataset.close()?)
}

#[cfg(not(feature = "hdf5"))]
fn hdf5_deflate() -> Result<(Write, Read)> {
    hdf5()
}

#[cfg(feature = "hdf5")]
#[allow(clippy::unnecessary_wraps, reason = "the same signature as without the feature")]
fn hdf5_deflate() -> Result<(Write, Read)> {
    Ok((hdf5::write_deflated, hdf5::read))
}

#[cfg(not(feature = "hdf5"))]
fn hdf5() -> Result<(Write, Read)> {
    bail!("this program was built without HDF5, which is a default feature")
}

#[cfg(feature = "hdf5")]
#[allow(clippy::unnecessary_wraps, reason = "the same signature as without the feature")]
fn hdf5() -> Result<(Write, Read)> {
    Ok((hdf5::write, hdf5::read))
}

#[cfg(feature = "hdf5")]
mod hdf5 {
    use std::path::Path;

    use anyhow::Result;
    use aqueduct::comm::Comm;
    use aqueduct::hdf5::{Hdf5Compression, Hdf5CreateOptions, Hdf5DatasetOptions, Hdf5OpenOptions};

    use super::{DatasetSize, part};

    /// Values of a chunk that is compressed; the same as in `peer/datasets.c`.
    const CHUNK: u64 = 1 << 17;

    pub(super) fn write(world: &Comm, file: &Path, size: DatasetSize, data: &[Vec<f64>]) -> Result<()> {
        write_with(world, file, size, data, &Hdf5DatasetOptions::new())
    }

    pub(super) fn write_deflated(
        world: &Comm,
        file: &Path,
        size: DatasetSize,
        data: &[Vec<f64>],
    ) -> Result<()> {
        let options = Hdf5DatasetOptions::new().chunk(&[CHUNK]).compress(Hdf5Compression::Deflate(4));
        write_with(world, file, size, data, &options)
    }

    fn write_with(
        world: &Comm,
        file: &Path,
        size: DatasetSize,
        data: &[Vec<f64>],
        options: &Hdf5DatasetOptions,
    ) -> Result<()> {
        let mut container = Hdf5CreateOptions::new().replace().without_sync().create(world, file)?;
        let length = (world.size() * size.doubles) as u64;
        let datasets = container.define(|file| {
            (0..size.count)
                .map(|at| file.dataset_with::<f64>(&format!("d{at}"), &[length], options))
                .collect::<Result<Vec<_>, _>>()
        })?;
        let mut queue = container.queue();
        for (dataset, data) in datasets.iter().zip(data) {
            queue.put(*dataset, part(world, size), data);
        }
        queue.run_all()?;
        Ok(container.close()?)
    }

    pub(super) fn read(world: &Comm, file: &Path, size: DatasetSize, data: &mut [Vec<f64>]) -> Result<()> {
        let container = Hdf5OpenOptions::new().open(world, file)?;
        let mut queue = container.queue();
        for (at, data) in data.iter_mut().enumerate() {
            queue.get(container.dataset(&format!("d{at}"))?, part(world, size), data);
        }
        queue.run_all()?;
        Ok(container.close()?)
    }
}
