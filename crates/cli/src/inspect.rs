//! `aqueduct inspect`: what a file holds.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use crate::data::{self, Array, NamedAttribute, Shape};
use crate::out::{Out, out};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A file of any kind that the command knows, or a checkpoint store
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
        for remark in file.remarks() {
            writeln!(out, "  {remark}")?;
        }
        for (group, attributes) in file.attributes() {
            print_attributes(&mut out, &group, &attributes)?;
        }
        for array in file.arrays() {
            print_attributes(&mut out, &array.name, &array.attributes)?;
        }
        Ok(out.flush()?)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn print_attributes(out: &mut Out, owner: &str, attributes: &[NamedAttribute]) -> Result<()> {
    for attribute in attributes {
        writeln!(out, "  {owner}@{} = {}", attribute.name, attribute.value)?;
    }
    Ok(())
}

fn line(array: &Array) -> String {
    let length = |(at, length): (usize, &u64)| match array.dimensions.get(at).filter(|name| !name.is_empty())
    {
        Some(name) => format!("{length} ({name})"),
        None => length.to_string(),
    };
    let lengths: Vec<String> = array.shape.iter().enumerate().map(length).collect();
    let shape = if lengths.is_empty() { "single".to_owned() } else { lengths.join(" × ") };
    let grows = if array.grows { ", grows" } else { "" };
    let complete = array.complete.map_or(String::new(), |rows| format!(", {rows} complete"));
    format!("{} {} {shape}{grows}{complete}", array.name, array.element.name)
}
