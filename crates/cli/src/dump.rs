//! `aqueduct dump`: the values of a file as text.

use std::ffi::OsString;
use std::io::Write;
use std::ops::Range;
use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::array_file::{self, Array, ArrayFile, NumberType, RawShape};
use crate::standard_output::lock_stdout;

/// The number of objects that are read at once; they may have any size.
const AT_ONCE: usize = 1024;

#[derive(clap::Args)]
pub(crate) struct DumpArguments {
    /// A file of any known kind, or a checkpoint store
    file: OsString,
    /// Only this array, or all arrays of this group
    #[arg(long)]
    array: Option<String>,
    /// The first row to print, counted from 0
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Print at most this number of rows
    #[arg(long)]
    rows: Option<u64>,
    #[command(flatten)]
    raw: RawShape,
}

pub(crate) fn run(arguments: &DumpArguments) -> Result<ExitCode> {
    array_file::on_one_rank(|world| {
        let file = array_file::open(world, &arguments.file, &arguments.raw)?;
        let out = &mut lock_stdout();
        for at in array_file::select_arrays(file.arrays(), arguments.array.as_deref())? {
            print(&*file, at, arguments, out)?;
        }
        Ok(out.flush()?)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn print(file: &dyn ArrayFile, at: usize, arguments: &DumpArguments, out: &mut impl Write) -> Result<()> {
    let array = &file.arrays()[at];
    ensure!(
        arguments.from <= array.rows(),
        "{} has {} rows; there is no row {}",
        array.name,
        array.rows(),
        arguments.from
    );
    let end =
        arguments.rows.map_or(array.rows(), |rows| arguments.from.saturating_add(rows).min(array.rows()));
    writeln!(out, "# {} {}", array.name, array.element.name)?;
    if file.lines(at, 0..0).is_some() {
        return print_lines(file, at, arguments.from..end, out);
    }
    if array.row() == 0 {
        return Ok(());
    }
    let row = array.row_elements();
    for part in array.parts_of_rows(arguments.from..end) {
        let bytes = file.read(at, &part)?;
        // A part is some rows, or a part of one row.
        let (mut done, mut rest) = (0, &bytes[..]);
        while done < part.count {
            let place = (part.first + done) % row;
            let count = (row - place).min(part.count - done);
            let (some, others) = rest.split_at(((count * array.element.size) as usize).min(rest.len()));
            if place > 0 {
                out.write_all(b" ")?;
            }
            write_elements(array, some, out)?;
            if place + count == row {
                out.write_all(b"\n")?;
            }
            (done, rest) = (done + count, others);
        }
    }
    Ok(())
}

/// Prints objects with the names of their fields.
fn print_lines(file: &dyn ArrayFile, at: usize, rows: Range<u64>, out: &mut impl Write) -> Result<()> {
    for start in rows.clone().step_by(AT_ONCE) {
        let some = start..rows.end.min(start + AT_ONCE as u64);
        for line in file.lines(at, some).transpose()?.unwrap_or_default() {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// Prints elements of one row, separated by spaces. Text that is longer than a part is written in pieces.
fn write_elements(array: &Array, bytes: &[u8], out: &mut impl Write) -> Result<()> {
    let mut between = "";
    // Text along the last dimension.
    if array.element.as_number() == Some(NumberType::Char) {
        let width = if array.shape.len() > 1 { array.shape.last().copied().unwrap_or(1) } else { 1 };
        for text in bytes.chunks(width.max(1) as usize) {
            write!(out, "{between}{:?}", String::from_utf8_lossy(text).trim_end_matches('\0'))?;
            between = " ";
        }
        return Ok(());
    }
    for element in bytes.chunks_exact(array.element.size.max(1) as usize) {
        out.write_all(between.as_bytes())?;
        between = " ";
        match &array.element.parts {
            Some(parts) => {
                for (number, (at, _, kind)) in parts.iter().enumerate() {
                    let space = if number == 0 { "" } else { " " };
                    write!(out, "{space}{}", kind.text(&element[*at as usize..]))?;
                }
            }
            None => element.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?,
        }
    }
    Ok(())
}
