//! `aqueduct verify`: whether files are whole.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::data::{self, Shape};
use crate::out;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Object files, netCDF, HDF5, or raw files
    #[arg(required = true)]
    files: Vec<OsString>,
    #[command(flatten)]
    raw: Shape,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut failed = false;
    for name in &arguments.files {
        let complaints = data::alone(|world| {
            let file = data::open(world, name, &arguments.raw)?;
            let mut complaints = file.complaints()?;
            // Objects of several sizes have no rows to be read here; their checksums were compared.
            let in_rows = file.arrays().iter().enumerate().filter(|(_, array)| array.element.size > 0);
            for (at, array) in in_rows.filter(|(at, _)| file.is_stored(*at)) {
                let whole = array.portions().try_for_each(|rows| file.read(at, rows).map(drop));
                complaints.extend(whole.err().map(|error| format!("{}: {error:#}", array.name)));
            }
            Ok(complaints)
        });
        let complaints = complaints.unwrap_or_else(|error| vec![format!("{error:#}")]);
        failed |= !complaints.is_empty();
        let name = name.display();
        let whole = if complaints.is_empty() { format!("{name}: whole\n") } else { String::new() };
        out::tell(&complaints.iter().fold(whole, |told, complaint| format!("{told}{name}: {complaint}\n")))?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
