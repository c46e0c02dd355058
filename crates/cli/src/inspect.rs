//! `aqueduct inspect`: what a file holds.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use crate::data::{self, Array, Shape};
use crate::out::out;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// An object file, netCDF, HDF5, or a raw file
    file: OsString,
    #[command(flatten)]
    raw: Shape,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    data::alone(|world| {
        let file = data::open(world, &arguments.file, &arguments.raw)?;
        let mut out = out();
        writeln!(out, "{}: {}", arguments.file.display(), file.format())?;
        for array in file.arrays() {
            writeln!(out, "  {}", line(array))?;
        }
        for (what, said) in file.notes() {
            writeln!(out, "  {what} = {said}")?;
        }
        Ok(out.flush()?)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn line(array: &Array) -> String {
    let lengths: Vec<String> = array.shape.iter().map(ToString::to_string).collect();
    let shape = if lengths.is_empty() { "single".to_owned() } else { lengths.join(" × ") };
    let grows = if array.grows { ", grows" } else { "" };
    let complete = array.complete.map_or(String::new(), |rows| format!(", {rows} complete"));
    format!("{} {} {shape}{grows}{complete}", array.name, array.element.name)
}
