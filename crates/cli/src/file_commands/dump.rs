//! `aqueduct dump`: the values of a file.

mod ranges;

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use aqueduct::comm::Comm;
use aqueduct::formats::Hyperslab;

use self::ranges::{ArrayBox, IndexRanges};
use super::encoders::{ArrayEncoder, DumpForm, csv_field};
use crate::array_file::{self, Array, ArrayFile, ArrayPart, RawShape};
use crate::parallel::{RankCount, agree, in_order};
use crate::standard_output::root_output;

/// The number of objects that are read at once; they may have any size.
const AT_ONCE: usize = 1024;
/// The most ranks that make text: rank 0 holds that of all of them.
const MOST_RANKS: usize = 16;

#[derive(clap::Args)]
pub(crate) struct DumpArguments {
    /// A file of any known kind, or a checkpoint store
    file: OsString,
    /// Only this array, or all arrays of this group
    #[arg(long)]
    array: Option<String>,
    /// Ranges of indices in each dimension, counted from 0: first:end (the end is not printed), a single index, or : for all
    #[arg(long, value_name = "RANGES", conflicts_with_all = ["from", "rows"])]
    at: Option<IndexRanges>,
    /// The first row to print, counted from 0
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Print at most this number of rows
    #[arg(long)]
    rows: Option<u64>,
    #[command(flatten)]
    form: FormChoice,
    /// Write to this file instead of the standard output stream
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Multiply by the attribute `scale_factor` and add `add_offset`
    #[arg(long)]
    unpack: bool,
    #[command(flatten)]
    raw: RawShape,
    #[command(flatten)]
    ranks: RankCount,
}

/// The form of the output, text by default.
#[derive(clap::Args)]
#[group(multiple = false)]
struct FormChoice {
    /// An element per line with its indices: the columns are dimensions and fields
    #[arg(long)]
    csv: bool,
    /// Nested lists; records as objects; fill values as null
    #[arg(long)]
    json: bool,
    /// One array of numbers or records as a file of numpy
    #[arg(long)]
    npy: bool,
}

impl FormChoice {
    fn form(&self) -> DumpForm {
        match self {
            Self { csv: true, .. } => DumpForm::Csv,
            Self { json: true, .. } => DumpForm::Json,
            Self { npy: true, .. } => DumpForm::Npy,
            _ => DumpForm::Text,
        }
    }
}

pub(crate) fn run(arguments: &DumpArguments) -> Result<ExitCode> {
    // For some values one rank is enough.
    let is_part = arguments.at.is_some() || arguments.rows.is_some();
    let sized = if is_part { &[][..] } else { &[&*arguments.file] };
    arguments.ranks.run(sized, |world| {
        let file = agree(world, array_file::open(world, &arguments.file, &arguments.raw))?;
        let chosen = array_file::select_arrays(file.arrays(), arguments.array.as_deref())?;
        let form = arguments.form.form();
        ensure!(
            form != DumpForm::Npy || chosen.len() == 1,
            "npy can store one array, not {}; select one with --array",
            chosen.len()
        );
        agree(world, file.prepare())?;
        let mut out = agree(world, output(world, arguments))?;
        for (number, at) in chosen.into_iter().enumerate() {
            put(
                world,
                &mut *out,
                if form != DumpForm::Json {
                    b""
                } else if number == 0 {
                    b"["
                } else {
                    b","
                },
            )?;
            print(world, &*file, at, arguments, &mut *out)?;
        }
        put(world, &mut *out, if form == DumpForm::Json { b"]\n" } else { b"" })?;
        agree(world, out.flush().map_err(anyhow::Error::from))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The standard output stream or a file, on rank 0.
fn output(world: &Comm, arguments: &DumpArguments) -> Result<Box<dyn Write>> {
    match arguments.output.as_ref().filter(|_| world.rank() == 0) {
        Some(path) => {
            let file = File::create_new(path).with_context(|| format!("creating {}", path.display()))?;
            Ok(Box::new(BufWriter::new(file)))
        }
        None => Ok(Box::new(root_output(world))),
    }
}

/// Prints text on rank 0. Collective.
fn put(world: &Comm, out: &mut dyn Write, text: &[u8]) -> Result<()> {
    let printed = if world.rank() == 0 { out.write_all(text) } else { Ok(()) };
    agree(world, printed.map_err(anyhow::Error::from))
}

/// Prints a part of an array. Collective.
fn print(
    world: &Comm,
    file: &dyn ArrayFile,
    at: usize,
    arguments: &DumpArguments,
    out: &mut dyn Write,
) -> Result<()> {
    let array = &file.arrays()[at];
    let ranges = arguments.at.clone().unwrap_or_else(|| IndexRanges::of_rows(arguments.from, arguments.rows));
    let chosen = ranges.of_array(array)?;
    let form = arguments.form.form();
    let shown = chosen.as_array(array);
    let encoder = ArrayEncoder::new(form, &shown, arguments.unpack)?;
    put(world, out, &encoder.header())?;
    // Records of numbers are text with the names of their fields; in other forms the fields are columns.
    let is_lines =
        file.lines(at, 0..0).is_some() && (form == DumpForm::Text || array.element.parts.is_none());
    if is_lines {
        return print_lines(world, file, at, &chosen, form, out);
    }
    if array.element.size > 0 && !shown.shape.contains(&0) {
        let read = |(part, slab): &(ArrayPart, Hyperslab)| encoder.part(part, read_box(file, at, slab)?);
        in_order(world, file.readers().min(MOST_RANKS), chosen.parts(array), read, |_, text| {
            Ok(out.write_all(&text)?)
        })?;
    }
    put(world, out, encoder.end())
}

/// A box of an array, in runs of adjacent elements if the format reads only those.
fn read_box(file: &dyn ArrayFile, at: usize, slab: &Hyperslab) -> Result<Vec<u8>> {
    let array = &file.arrays()[at];
    let runs = ranges::runs(&array.shape, slab);
    match &runs[..] {
        [run] => file.read(at, run),
        _ if file.reads_boxes() => {
            let count = slab.volume().unwrap_or(0);
            file.read(at, &ArrayPart { slab: slab.clone(), first: 0, count })
        }
        _ => {
            let mut bytes = Vec::new();
            runs.iter().try_for_each(|run| file.read(at, run).map(|some| bytes.extend(some)))?;
            Ok(bytes)
        }
    }
}

/// Prints objects with the names of their fields.
fn print_lines(
    world: &Comm,
    file: &dyn ArrayFile,
    at: usize,
    chosen: &ArrayBox,
    form: DumpForm,
    out: &mut dyn Write,
) -> Result<()> {
    let array: &Array = &file.arrays()[at];
    let rows = ranges::rows(array, chosen);
    let pieces = rows.clone().step_by(AT_ONCE).map(|from| from..rows.end.min(from + AT_ONCE as u64));
    let first = rows.start;
    let read = |some: &Range<u64>| {
        let lines = file.lines(at, some.clone()).transpose()?.unwrap_or_default();
        let line = |(row, line): (u64, String)| match form {
            DumpForm::Csv => format!("{row},{}\n", csv_field(&line)),
            DumpForm::Json => {
                let start = if row == first { "[" } else { "," };
                format!("{start}{}", serde_json::Value::String(line))
            }
            DumpForm::Text | DumpForm::Npy => format!("{line}\n"),
        };
        Ok(some.clone().zip(lines).map(line).collect::<String>().into_bytes())
    };
    in_order(world, MOST_RANKS, pieces, read, |_, text| Ok(out.write_all(&text)?))?;
    put(
        world,
        out,
        if form != DumpForm::Json {
            b""
        } else if rows.is_empty() {
            b"[]}"
        } else {
            b"]}"
        },
    )
}
