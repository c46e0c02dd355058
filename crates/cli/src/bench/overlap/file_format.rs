//! The format of the files of the benchmark: how they are created, verified and deleted.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use aqueduct::comm::Comm;
use aqueduct::file::OpenOptions;
use aqueduct::formats::Selection;
use aqueduct::netcdf::NetcdfOpenOptions;
use aqueduct::stream::target::{FileTarget, NetcdfTarget, OutputTarget};
use aqueduct::stream::{Declaration, Error, Reader};

use super::OverlapArguments;

/// The format of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OverlapFormat {
    /// Stream files
    Stream,
    /// HDF5: a dataset for each box of each quantity, of full size from the start
    #[cfg(feature = "hdf5")]
    Hdf5,
    /// netCDF: a variable for each box of each quantity
    Netcdf,
}

/// Reads a step of an array.
type ReadStep<'r> = Box<dyn Fn(u64, u64, usize) -> Result<Vec<f64>> + 'r>;

impl OverlapFormat {
    /// The name of the array of a box of a quantity.
    pub(crate) fn array(number: u64, one: usize) -> String {
        format!("/quantity{number}/{one}")
    }

    /// Creates a file.
    pub(crate) fn create(
        self,
        comm: &Comm,
        name: &str,
        declared: &Arc<Declaration>,
    ) -> Result<Box<dyn OutputTarget>, Error> {
        Ok(match self {
            Self::Stream => Box::new(FileTarget::create(comm, name, declared)?),
            #[cfg(feature = "hdf5")]
            Self::Hdf5 => Box::new(aqueduct::stream::target::Hdf5Target::create(comm, name, declared)?),
            Self::Netcdf => Box::new(NetcdfTarget::create(comm, name, declared)?),
        })
    }

    /// Verifies every stored value; the ranks share the steps.
    pub(crate) fn verify(self, world: &Comm, arguments: &OverlapArguments, name: &str) -> Result<()> {
        match self {
            Self::Stream => verify_stream(world, arguments, name),
            #[cfg(feature = "hdf5")]
            Self::Hdf5 => {
                let file = aqueduct::hdf5::Hdf5OpenOptions::new().open(world, name)?;
                ensure!(file.is_complete() == Some(true), "{name} is not complete");
                let read = |step, number, one| {
                    let id = file.dataset(&Self::array(number, one))?;
                    ensure!(file.complete(id)? == Some(arguments.steps()), "{name} has missing steps");
                    let mut count = file.describe(id)?.shape.clone();
                    let mut start = vec![0; count.len()];
                    (start[0], count[0]) = (step, 1);
                    Ok(file.at(id, Selection::block(start, count)).read_vec::<f64>()?)
                };
                verify_steps(world, arguments, name, &(Box::new(read) as ReadStep<'_>))?;
                Ok(file.close()?)
            }
            Self::Netcdf => {
                let file = NetcdfOpenOptions::new().open(world, name)?;
                ensure!(file.records() == arguments.steps(), "{name} has {} steps", file.records());
                let read = |step, number, one| {
                    let variable = Self::array(number, one)[1..].replace('/', ".");
                    let id = file.variable(&variable)?;
                    Ok(file.at(id, Selection::record(step)).read_vec::<f64>()?)
                };
                verify_steps(world, arguments, name, &(Box::new(read) as ReadStep<'_>))?;
                Ok(file.close()?)
            }
        }
    }

    /// Deletes the files of an output. Collective.
    pub(crate) fn delete(self, world: &Comm, name: &str) -> Result<()> {
        let steps = (self == Self::Stream).then(|| format!("{name}.steps"));
        for name in [Some(name.to_owned()), steps].into_iter().flatten() {
            OpenOptions::new().read(true).write(true).delete_on_close(true).open(world, name)?.close()?;
        }
        Ok(())
    }
}

fn verify_stream(world: &Comm, arguments: &OverlapArguments, name: &str) -> Result<()> {
    let reader = Reader::open(world, name)?;
    ensure!(reader.is_finished() && reader.incomplete_steps().is_empty(), "{name} is not complete");
    let steps = reader.stored_steps().len();
    ensure!(steps as u64 == arguments.steps(), "{name} has {steps} steps");
    let boxes = arguments.boxes();
    for step in (0..arguments.steps()).skip(world.rank()).step_by(world.size()) {
        let stored = reader.step(step).with_context(|| format!("{name}: step {step} is missing"))?;
        for number in 0..arguments.data {
            let values = reader.read::<f64>(&format!("quantity {number}"), stored)?;
            if let Some((at, found)) = arguments.grid.first_wrong_value(&boxes, step, &values) {
                bail!("{name}, step {step}, quantity {number}: wrong value {found} at (z, y, x) = {at:?}");
            }
        }
    }
    Ok(())
}

/// Verifies the arrays of all boxes.
fn verify_steps(world: &Comm, arguments: &OverlapArguments, name: &str, read: &ReadStep<'_>) -> Result<()> {
    let boxes = arguments.boxes();
    for step in (0..arguments.steps()).skip(world.rank()).step_by(world.size()) {
        for number in 0..arguments.data {
            for (at, one) in boxes.iter().enumerate() {
                let values = read(step, number, at)?;
                let wrong = arguments.grid.first_wrong_value(std::slice::from_ref(one), step, &values);
                if let Some((at, found)) = wrong {
                    bail!(
                        "{name}, step {step}, quantity {number}: wrong value {found} at (z, y, x) = {at:?}"
                    );
                }
            }
        }
    }
    Ok(())
}
