//! `aqueduct convert`: converts a file to another format.

mod encoded_writer;
#[cfg(feature = "hdf5")]
mod particles;

use std::collections::HashSet;
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, ensure};
use aqueduct::comm::Comm;
use indicatif::ProgressBar;

use self::encoded_writer::EncodedArrayWriter;
#[cfg(feature = "hdf5")]
use self::particles::Particles;
use crate::array_file::{self, Array, ArrayFile, ArrayFileContent, ArrayPart, ArrayWriter, RawShape};
use crate::parallel::{RankCount, agree};
use crate::standard_output;
use crate::terminal::progress_bar;

#[derive(clap::Args)]
pub(crate) struct ConvertArguments {
    /// A file of any known kind, or a checkpoint store
    from: OsString,
    /// The new file; its extension selects the format: .nc, .nc4, .h5, .vtkhdf, .obj, .npy, .csv, .json, .raw, .cells, .restart.inp, .restart.header.xml,
    /// .restart.mpi
    to: OsString,
    /// Only this array, or all arrays of this group
    #[arg(long)]
    array: Option<String>,
    /// To VTKHDF: the array, or the field of records, that has the positions of particles [default: one that is called position]
    #[arg(long)]
    #[cfg_attr(not(feature = "hdf5"), allow(dead_code, reason = "VTKHDF is HDF5"))]
    positions: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    raw: RawShape,
    #[command(flatten)]
    ranks: RankCount,
}

pub(crate) fn run(arguments: &ConvertArguments) -> Result<ExitCode> {
    let (from, to) = (arguments.from.display(), arguments.to.display());
    arguments.ranks.run(&[&arguments.from], |world| {
        let lost = convert(world, arguments).map_err(explain_existing)?;
        let report = || {
            for line in &lost {
                eprintln!("aqueduct: warning: {line}");
            }
            if arguments.json {
                let all =
                    serde_json::json!({"from": from.to_string(), "to": to.to_string(), "warnings": lost});
                return standard_output::print(&format!("{all:#}\n"));
            }
            standard_output::print(&format!("{from} → {to}\n"))
        };
        let printed = if world.rank() == 0 { report() } else { Ok(()) };
        agree(world, printed.map_err(anyhow::Error::from))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Converts the file; what is lost, a line each. Collective.
fn convert(world: &Comm, arguments: &ConvertArguments) -> Result<Vec<String>> {
    if arguments.array.is_none() && array_file::convert_mardyn(world, &arguments.from, &arguments.to)? {
        return Ok(Vec::new());
    }
    let from = agree(world, array_file::open(world, &arguments.from, &arguments.raw))?;
    let from = from.as_ragged(world)?.unwrap_or(from);
    let chosen = array_file::select_arrays(from.arrays(), arguments.array.as_deref())?;
    #[cfg(feature = "hdf5")]
    if let Some(particles) = Particles::find(&*from, &chosen, arguments)? {
        return particles.write(world, &arguments.to);
    }
    let mut to = agree(world, create(world, arguments, &*from))?;
    let written = write(world, &*from, &chosen, arguments.array.is_some(), &mut *to);
    let made = to.created_files();
    // An incomplete file is deleted; a file that existed before is not.
    let closed = written.and_then(|lost| agree(world, to.close()).map(|()| lost));
    let outcome = closed.inspect_err(|_| {
        if world.rank() == 0 {
            made.iter().for_each(|name| drop(aqueduct::file::delete(name)));
        }
    });
    outcome.with_context(|| format!("converting {} to {}", arguments.from.display(), arguments.to.display()))
}

/// Creates the file of the format that the extension of its name selects.
fn create(world: &Comm, arguments: &ConvertArguments, from: &dyn ArrayFile) -> Result<Box<dyn ArrayWriter>> {
    match EncodedArrayWriter::of_name(world, &arguments.to)? {
        Some(writer) => Ok(Box::new(writer)),
        None => array_file::create(world, &arguments.to, from),
    }
}

/// Replaces the remedy of an error about an existing file: the formats advise options of their interfaces, which the command lacks.
fn explain_existing(error: anyhow::Error) -> anyhow::Error {
    let errors = error.chain().filter_map(|cause| cause.downcast_ref::<aqueduct::Error>());
    let existing =
        errors.filter(|error| error.kind() == aqueduct::Kind::FileExists).map(aqueduct::Error::path).next();
    let message = existing.map(|path| anyhow!("{path}: the file exists; choose another name, or delete it"));
    message.unwrap_or(error)
}

/// Copies arrays and metadata; returns what is lost, a line each. Collective.
fn write(
    world: &Comm,
    from: &dyn ArrayFile,
    chosen: &[usize],
    is_part: bool,
    to: &mut dyn ArrayWriter,
) -> Result<Vec<String>> {
    let (mut held, mut lost) = (Vec::new(), if is_part { Vec::new() } else { from.omissions() });
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
    lost.extend(agree(world, to.define(&content))?);
    agree(world, from.prepare())?;
    let size = |array: &Array| array.rows().saturating_mul(array.row());
    let bar = progress_bar(world, content.arrays.iter().map(size).fold(0, u64::saturating_add));
    for (number, (at, array)) in held.iter().zip(&content.arrays).enumerate() {
        write_array(world, (from, *at), (to, number), array, &bar)?;
    }
    bar.finish_and_clear();
    Ok(lost)
}

/// Copies an array: in each round every rank has a part. Collective.
fn write_array(
    world: &Comm,
    (from, at): (&dyn ArrayFile, usize),
    (to, number): (&mut dyn ArrayWriter, usize),
    array: &Array,
    bar: &ProgressBar,
) -> Result<()> {
    let workers = from.readers().min(to.writers()).clamp(1, world.size());
    let mut parts: Box<dyn Iterator<Item = ArrayPart>> = match to.chunk(number) {
        Some(chunk) => Box::new(array.parts_of_chunks(chunk)),
        None => Box::new(array.parts()),
    };
    loop {
        let round: Vec<ArrayPart> = parts.by_ref().take(workers).collect();
        if round.is_empty() {
            return Ok(());
        }
        let mine = round.get(world.rank());
        let bytes = agree(world, mine.map(|part| from.read(at, part)).transpose())?;
        agree(world, to.write(number, mine.zip(bytes.as_deref())))?;
        bar.inc(round.iter().map(|part| part.count * array.element.size).sum());
    }
}
