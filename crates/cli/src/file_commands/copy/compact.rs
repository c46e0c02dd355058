//! `aqueduct compact`: copies the current objects of an object file to a new file, without the bytes of objects that were overwritten since.

use std::ffi::OsString;

use anyhow::Result;
use aqueduct::comm::{Comm, Launch};
use aqueduct::object;

use crate::standard_output;

#[derive(clap::Args)]
pub(crate) struct CompactArguments {
    /// The object file
    file: OsString,
    /// The name of the new file, on any device
    into: OsString,
    /// Number of ranks, if they are threads [default: `AQUEDUCT_RANKS`, else the number of cores]
    #[arg(long, short = 'n')]
    ranks: Option<usize>,
}

pub(crate) fn run(arguments: &CompactArguments) -> Result<()> {
    let launch = Launch::from_env()?;
    let launch = arguments.ranks.map_or(launch.clone(), |ranks| launch.ranks(ranks));
    launch.run(|world| compact(world, arguments).map_err(|error| format!("{error:#}")))?;
    Ok(())
}

fn compact(world: &Comm, arguments: &CompactArguments) -> Result<()> {
    let report = object::compact(world, &arguments.file, &arguments.into)?;
    if world.rank() > 0 {
        return Ok(());
    }
    let (from, into) = (arguments.file.display(), arguments.into.display());
    let (objects, before, after) = (report.objects, report.before, report.after);
    standard_output::print(&format!(
        "{from} -> {into}: {objects} objects, {before} bytes before, {after} after\n"
    ))?;
    Ok(())
}
