//! `aqueduct convert`: what a file holds, in a file of another format.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::data::{self, Array, Shape};

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
            for (number, (at, array)) in chosen.iter().zip(&arrays).enumerate() {
                array
                    .portions()
                    .try_for_each(|rows| to.write(number, rows.clone(), &from.read(*at, rows)?))?;
            }
            to.close()
        });
        // Half a file is no file.
        written.inspect_err(|_| drop(aqueduct::file::delete(&arguments.to)))
    })?;
    println!("{} → {}", arguments.from.display(), arguments.to.display());
    Ok(ExitCode::SUCCESS)
}
