//! `aqueduct convert`: converts a file to another format.

use std::collections::HashSet;
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, ensure};

use crate::array_file::{self, Array, ArrayFile, ArrayFileContent, ArrayPart, ArrayWriter, RawShape};
use crate::standard_output;

#[derive(clap::Args)]
pub(crate) struct ConvertArguments {
    /// A file of any known kind, or a checkpoint store
    from: OsString,
    /// The new file; its extension selects the format: .nc (classic), .nc4 (netCDF-4), .h5, .obj, .raw, .cells, .restart.inp, .restart.header.xml, .restart.mpi
    to: OsString,
    /// Only this array, or all arrays of this group
    #[arg(long)]
    array: Option<String>,
    #[command(flatten)]
    raw: RawShape,
}

pub(crate) fn run(arguments: &ConvertArguments) -> Result<ExitCode> {
    let lost = array_file::on_one_rank(|world| {
        if arguments.array.is_none() && array_file::convert_mardyn(world, &arguments.from, &arguments.to)? {
            return Ok(Vec::new());
        }
        let from = array_file::open(world, &arguments.from, &arguments.raw)?;
        let chosen = array_file::select_arrays(from.arrays(), arguments.array.as_deref())?;
        let mut to = array_file::create(world, &arguments.to, &*from)?;
        let written = write(&*from, &chosen, arguments.array.is_some(), &mut *to);
        let made = to.created_files();
        // An incomplete file is deleted; a file that existed before is not.
        let closed = written.and_then(|lost| to.close().map(|()| lost));
        let outcome = closed.inspect_err(|_| made.iter().for_each(|name| drop(aqueduct::file::delete(name))));
        outcome
            .with_context(|| format!("converting {} to {}", arguments.from.display(), arguments.to.display()))
    });
    for line in lost.map_err(explain_existing)? {
        eprintln!("aqueduct: warning: {line}");
    }
    standard_output::print(&format!("{} → {}\n", arguments.from.display(), arguments.to.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Replaces the remedy of an error about an existing file: the formats advise options of their interfaces, which the command lacks.
fn explain_existing(error: anyhow::Error) -> anyhow::Error {
    let errors = error.chain().filter_map(|cause| cause.downcast_ref::<aqueduct::Error>());
    let existing =
        errors.filter(|error| error.kind() == aqueduct::Kind::FileExists).map(aqueduct::Error::path).next();
    let message = existing.map(|path| anyhow!("{path}: the file exists; choose another name, or delete it"));
    message.unwrap_or(error)
}

/// Copies arrays and metadata; returns what is lost, a line each.
fn write(
    from: &dyn ArrayFile,
    chosen: &[usize],
    is_part: bool,
    to: &mut dyn ArrayWriter,
) -> Result<Vec<String>> {
    let (mut held, mut lost) = (Vec::new(), Vec::new());
    for at in chosen {
        let array = &from.arrays()[*at];
        match to.unsupported_reason(array) {
            None => held.push(*at),
            Some(why) => lost.push(format!("the array {:?} is omitted: {why}", array.name)),
        }
    }
    ensure!(!held.is_empty() || chosen.is_empty(), "{}", lost.join("; "));
    let arrays: Vec<Array> = held.iter().map(|at| from.arrays()[*at].clone()).collect();
    let used: HashSet<&String> = arrays.iter().flat_map(|array| &array.dimensions).collect();
    let mut dimensions = from.dimensions();
    dimensions.retain(|dimension| !is_part || used.contains(&dimension.name));
    let content = ArrayFileContent { dimensions, attributes: from.attributes(), arrays };
    lost.extend(to.define(&content)?);
    for (number, (at, array)) in held.iter().zip(&content.arrays).enumerate() {
        let parts: Box<dyn Iterator<Item = ArrayPart>> = match to.chunk(number) {
            Some(chunk) => Box::new(array.parts_of_chunks(chunk)),
            None => Box::new(array.parts()),
        };
        for part in parts {
            to.write(number, &part, &from.read(*at, &part)?)?;
        }
    }
    Ok(lost)
}
