//! `aqueduct verify`: whether files are whole.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::data::{self, Shape};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Object files, netCDF, HDF5, or raw files
    #[arg(required = true)]
    files: Vec<OsString>,
    #[command(flatten)]
    raw: Shape,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let mut failed = false;
    for name in &arguments.files {
        let complaints = data::alone(|world| {
            let file = data::open(world, name, &arguments.raw)?;
            let mut complaints = file.complaints()?;
            for (at, array) in file.arrays().iter().enumerate() {
                let whole = array.portions().try_for_each(|rows| file.read(at, rows).map(drop));
                complaints.extend(whole.err().map(|error| format!("{}: {error:#}", array.name)));
            }
            Ok(complaints)
        });
        let complaints = complaints.unwrap_or_else(|error| vec![format!("{error:#}")]);
        failed |= !complaints.is_empty();
        if complaints.is_empty() {
            println!("{}: whole", name.display());
        }
        for complaint in complaints {
            println!("{}: {complaint}", name.display());
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
