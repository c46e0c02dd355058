//! `aqueduct inspect`: the structure of a file.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use crate::array_file::{self, Array, NamedAttribute, RawShape};
use crate::standard_output::{StandardOutput, lock_stdout};

#[derive(clap::Args)]
pub(crate) struct InspectArguments {
    /// A file of any known kind, or a checkpoint store
    file: OsString,
    #[command(flatten)]
    raw: RawShape,
}

pub(crate) fn run(arguments: &InspectArguments) -> Result<ExitCode> {
    array_file::on_one_rank(|world| {
        let file = array_file::open(world, &arguments.file, &arguments.raw)?;
        let mut out = lock_stdout();
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

fn print_attributes(out: &mut StandardOutput, owner: &str, attributes: &[NamedAttribute]) -> Result<()> {
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
