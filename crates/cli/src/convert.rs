//! `aqueduct convert`: what a file holds, in a file of another format.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::data::{self, Array, Shape};
use crate::out;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// An object file, netCDF, HDF5, or a raw file
    from: OsString,
    /// The file to be made; its end says what it will be: .nc, .h5, .obj, .raw
    to: OsString,
    /// This array, or all arrays of this group, only
    #[arg(long)]
    array: Option<String>,
    #[command(flatten)]
    raw: Shape,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    data::alone(|world| {
        let from = data::open(world, &arguments.from, &arguments.raw)?;
        let chosen = data::chosen(from.arrays(), arguments.array.as_deref())?;
        let arrays: Vec<Array> = chosen.iter().map(|at| from.arrays()[*at].clone()).collect();
        let mut to = data::create(world, &arguments.to)?;
        let written = to.define(&arrays, &from.notes()).and_then(|()| {
            chosen.iter().zip(&arrays).enumerate().try_for_each(|(number, (at, array))| {
                array.portions().try_for_each(|rows| to.write(number, rows.clone(), &from.read(*at, rows)?))
            })
        });
        let made = to.made(&arguments.to);
        // Half a file is no file; one that was there before is not ours to delete.
        let closed = written.and_then(|()| to.close());
        let outcome = closed.inspect_err(|_| made.iter().for_each(|name| drop(aqueduct::file::delete(name))));
        outcome
            .with_context(|| format!("writing {} into {}", arguments.from.display(), arguments.to.display()))
    })?;
    out::tell(&format!("{} → {}\n", arguments.from.display(), arguments.to.display()))?;
    Ok(ExitCode::SUCCESS)
}
