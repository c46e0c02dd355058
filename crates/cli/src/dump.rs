//! `aqueduct dump`: the values of a file as text.

use std::ffi::OsString;
use std::io::Write;
use std::ops::Range;
use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::data::{self, Array, Data, Number, Shape};
use crate::out::out;

/// Objects that are asked for at once: they may be of any size.
const AT_ONCE: usize = 1024;
/// Bytes of rows that are read at once, if a row is not longer.
const ROWS_AT_ONCE: u64 = 4 << 20;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A file of any kind that the command knows, or a checkpoint store
    file: OsString,
    /// This array, or all arrays of this group, only
    #[arg(long)]
    array: Option<String>,
    /// From this row of the first dimension on
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// So many rows at most
    #[arg(long)]
    rows: Option<u64>,
    #[command(flatten)]
    raw: Shape,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    data::alone(|world| {
        let file = data::open(world, &arguments.file, &arguments.raw)?;
        let out = &mut out();
        for at in data::chosen(file.arrays(), arguments.array.as_deref())? {
            print(&*file, at, arguments, out)?;
        }
        Ok(out.flush()?)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn print(file: &dyn Data, at: usize, arguments: &Arguments, out: &mut impl Write) -> Result<()> {
    let array = &file.arrays()[at];
    ensure!(
        arguments.from <= array.rows(),
        "{} has {} rows, not {}",
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
    let at_once = (ROWS_AT_ONCE / array.row().max(1)).max(1);
    let mut next = if array.row() == 0 { end } else { arguments.from };
    while next < end {
        let rows = next..next.saturating_add(at_once).min(end);
        next = rows.end;
        let bytes = file.read(at, &array.part_of_rows(rows))?;
        for row in bytes.chunks((array.row().max(1)) as usize) {
            writeln!(out, "{}", line(array, row))?;
        }
    }
    Ok(())
}

/// Objects, with the names of their fields.
fn print_lines(file: &dyn Data, at: usize, rows: Range<u64>, out: &mut impl Write) -> Result<()> {
    for start in rows.clone().step_by(AT_ONCE) {
        let some = start..rows.end.min(start + AT_ONCE as u64);
        for line in file.lines(at, some).transpose()?.unwrap_or_default() {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

fn line(array: &Array, row: &[u8]) -> String {
    // Text along the last dimension.
    if array.element.as_number() == Some(Number::Char) {
        let width = if array.shape.len() > 1 { array.shape.last().copied().unwrap_or(1) } else { 1 };
        let texts = row
            .chunks(width.max(1) as usize)
            .map(|text| format!("{:?}", String::from_utf8_lossy(text).trim_end_matches('\0')));
        return texts.collect::<Vec<_>>().join(" ");
    }
    let element = |bytes: &[u8]| match &array.element.parts {
        Some(parts) => {
            let numbers: Vec<String> =
                parts.iter().map(|(at, _, number)| number.text(&bytes[*at as usize..])).collect();
            numbers.join(" ")
        }
        None => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat(),
    };
    let elements: Vec<String> = row.chunks_exact(array.element.size.max(1) as usize).map(element).collect();
    elements.join(" ")
}
