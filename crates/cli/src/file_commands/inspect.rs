//! `aqueduct inspect`: the structure of files.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use aqueduct::comm::Comm;
use aqueduct::object::UtcTime;
use serde_json::{Value, json};

use super::json as as_json;
use super::statistics::{self, NumberStatistics};
use crate::array_file::{self, Array, ArrayFile, NamedAttribute, RawShape, StorageSummary};
use crate::parallel::{RankCount, agree};
use crate::report;
use crate::standard_output::{StandardOutput, root_output};
use crate::terminal::{Palette, TextRole, progress_bar};

#[derive(clap::Args)]
pub(crate) struct InspectArguments {
    /// Files of any known kind, and checkpoint stores
    #[arg(required = true)]
    files: Vec<OsString>,
    /// Only this array, or all arrays of this group
    #[arg(long)]
    array: Option<String>,
    /// Read all values; print minimum, maximum, mean and the number of NaN of each array
    #[arg(long)]
    stats: bool,
    /// Print groups with their arrays and attributes as a tree
    #[arg(long)]
    tree: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    raw: RawShape,
    #[command(flatten)]
    ranks: RankCount,
}

pub(crate) fn run(arguments: &InspectArguments) -> Result<ExitCode> {
    let files: Vec<&OsStr> = arguments.files.iter().map(|name| &**name).collect();
    // Without statistics only metadata is read.
    let sized = if arguments.stats { &files[..] } else { &[] };
    arguments.ranks.run(sized, |world| {
        let out = &mut root_output(world);
        let mut all = Vec::new();
        for name in &files {
            let file = agree(world, array_file::open(world, name, &arguments.raw))?;
            let contents = InspectedFile::of(world, &*file, arguments)?;
            let shown = if arguments.json {
                all.push(contents.json(name));
                Ok(())
            } else if arguments.tree {
                contents.print_tree(name, out)
            } else {
                contents.print(name, out)
            };
            agree(world, shown)?;
        }
        let printed = if arguments.json { print_json(out, &all) } else { Ok(()) };
        agree(world, printed.and_then(|()| Ok(out.flush()?)))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn print_json(out: &mut StandardOutput, all: &[Value]) -> Result<()> {
    Ok(writeln!(out, "{:#}", json!({"files": all}))?)
}

/// What is printed of a file.
struct InspectedFile<'f> {
    file: &'f dyn ArrayFile,
    arrays: Vec<InspectedArray<'f>>,
    attributes: Vec<(String, Vec<NamedAttribute>)>,
    palette: Palette,
}

/// What is printed of an array.
struct InspectedArray<'f> {
    array: &'f Array,
    storage: Option<StorageSummary>,
    /// By field; empty if they are not wanted, or the elements are not numbers.
    statistics: Vec<(String, NumberStatistics)>,
}

impl<'f> InspectedFile<'f> {
    /// Collective.
    fn of(world: &Comm, file: &'f dyn ArrayFile, arguments: &InspectArguments) -> Result<Self> {
        let chosen = array_file::select_arrays(file.arrays(), arguments.array.as_deref())?;
        let size = |at: &usize| file.arrays()[*at].rows().saturating_mul(file.arrays()[*at].row());
        let bar = progress_bar(world, chosen.iter().map(size).fold(0, u64::saturating_add));
        if arguments.stats {
            agree(world, file.prepare())?;
        }
        let mut arrays = Vec::new();
        for at in chosen {
            let wanted = arguments.stats;
            let statistics = if wanted { statistics::of_array(world, file, at, &bar)? } else { Vec::new() };
            arrays.push(InspectedArray { array: &file.arrays()[at], storage: file.storage(at), statistics });
        }
        bar.finish_and_clear();
        let is_all = arguments.array.is_none();
        let attributes = if is_all { file.attributes() } else { Vec::new() };
        Ok(Self { file, arrays, attributes, palette: Palette::of_stdout() })
    }

    fn print(&self, name: &OsStr, out: &mut StandardOutput) -> Result<()> {
        let shown = self.palette.paint(TextRole::Name, &name.display().to_string());
        writeln!(out, "{shown}: {}", self.file.format())?;
        for array in &self.arrays {
            writeln!(out, "  {}", array.line(&array.array.name, self.palette))?;
            array.print_statistics("    ", out)?;
        }
        self.print_remarks(out)?;
        for (group, attributes) in &self.attributes {
            print_attributes(out, &format!("  {group}"), attributes)?;
        }
        for InspectedArray { array, .. } in &self.arrays {
            print_attributes(out, &format!("  {}", array.name), &array.attributes)?;
        }
        Ok(())
    }

    fn print_remarks(&self, out: &mut StandardOutput) -> Result<()> {
        let writer = self.file.written_by().map(|writer| format!("written by {writer}"));
        for remark in writer.into_iter().chain(self.file.remarks()) {
            writeln!(out, "  {remark}")?;
        }
        Ok(())
    }

    /// Groups before their contents, each level indented by two spaces.
    fn print_tree(&self, name: &OsStr, out: &mut StandardOutput) -> Result<()> {
        let shown = self.palette.paint(TextRole::Name, &name.display().to_string());
        writeln!(out, "{shown}: {}", self.file.format())?;
        for dimension in self.file.dimensions() {
            let grows = if dimension.grows { ", grows" } else { "" };
            writeln!(out, "  dimension {} = {}{grows}", dimension.name, dimension.length)?;
        }
        self.print_remarks(out)?;
        // Paths in the order of the tree: `/a/b` after `/a`, before `/ab`.
        let place = |path: &str| path.trim_matches('/').split('/').map(str::to_owned).collect::<Vec<_>>();
        let mut nodes: Vec<(Vec<String>, Option<&InspectedArray<'_>>, &[NamedAttribute])> = Vec::new();
        nodes.extend(self.attributes.iter().map(|(group, all)| (place(group), None, &all[..])));
        nodes.extend(
            self.arrays.iter().map(|one| (place(&one.array.name), Some(one), &one.array.attributes[..])),
        );
        nodes.sort_by(|one, other| one.0.cmp(&other.0));
        for (path, array, attributes) in nodes {
            let is_root = path.iter().all(String::is_empty);
            let depth = if is_root { 1 } else { 2 * path.len() };
            let indent = " ".repeat(if is_root { 2 } else { depth });
            let own = path.last().map_or("", |own| own);
            match array {
                Some(array) => {
                    writeln!(out, "{indent}{}", array.line(own, self.palette))?;
                    array.print_statistics(&format!("{indent}  "), out)?;
                }
                None if is_root => {}
                None => writeln!(out, "{indent}{}/", self.palette.paint(TextRole::Name, own))?,
            }
            let inner = if is_root { indent } else { format!("{indent}  ") };
            print_attributes(out, &inner, attributes)?;
        }
        Ok(())
    }

    fn json(&self, name: &OsStr) -> Value {
        let dimension = |one: &array_file::SharedDimension| json!({"name": one.name, "length": one.length, "grows": one.grows});
        let groups = self.attributes.iter().filter(|(_, all)| !all.is_empty());
        let groups: serde_json::Map<_, _> = groups
            .map(|(group, all)| (format!("/{}", group.trim_matches('/')), as_json::attributes(all)))
            .collect();
        json!({
            "file": name.to_string_lossy(),
            "format": self.file.format(),
            "finished": self.file.is_finished(),
            "written_by": self.file.written_by().map(|writer| {
                json!({"program": writer.program, "version": writer.version, "ranks": writer.ranks, "time": UtcTime(writer.time).to_string()})
            }),
            "arrays": self.arrays.iter().map(InspectedArray::json).collect::<Vec<_>>(),
            "dimensions": self.file.dimensions().iter().map(dimension).collect::<Vec<_>>(),
            "attributes": groups,
            "remarks": self.file.remarks(),
        })
    }
}

impl InspectedArray<'_> {
    /// Type, shape, size, storage.
    fn line(&self, name: &str, palette: Palette) -> String {
        let array = self.array;
        let length =
            |(at, length): (usize, &u64)| match array.dimensions.get(at).filter(|name| !name.is_empty()) {
                Some(name) => format!("{length} ({name})"),
                None => length.to_string(),
            };
        let lengths: Vec<String> = array.shape.iter().enumerate().map(length).collect();
        let shape = if lengths.is_empty() { "single".to_owned() } else { lengths.join(" × ") };
        let grows = if array.grows { ", grows" } else { "" };
        let complete = array.complete.map_or(String::new(), |rows| format!(", {rows} complete"));
        let bytes = array.rows().saturating_mul(array.row());
        let size = if array.element.size == 0 {
            String::new()
        } else {
            format!(", {}", report::bytes(bytes as f64))
        };
        let storage = self.storage.as_ref().map_or(String::new(), |storage| storage_text(storage, bytes));
        let storage = palette.paint(TextRole::Faint, &format!("{size}{storage}"));
        format!(
            "{} {} {shape}{grows}{complete}{storage}",
            palette.paint(TextRole::Name, name),
            array.element.name
        )
    }

    fn print_statistics(&self, indent: &str, out: &mut StandardOutput) -> Result<()> {
        for (field, statistics) in &self.statistics {
            let joint = if field.is_empty() { "" } else { ": " };
            writeln!(out, "{indent}{field}{joint}{statistics}")?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let array = self.array;
        let storage = self.storage.as_ref().map(
            |storage| json!({"chunk": storage.chunk, "filters": storage.filters, "bytes": storage.bytes}),
        );
        let statistics: serde_json::Map<_, _> =
            self.statistics.iter().map(|(field, one)| (field.clone(), one.json())).collect();
        json!({
            "name": array.name,
            "type": array.element.name,
            "shape": array.shape,
            "dimensions": array.dimensions,
            "grows": array.grows,
            "complete": array.complete,
            "bytes": array.rows().saturating_mul(array.row()),
            "storage": storage,
            "statistics": if statistics.is_empty() { Value::Null } else { statistics.into() },
            "attributes": as_json::attributes(&array.attributes),
        })
    }
}

/// Chunks, filters, and the stored size if it is another one.
fn storage_text(storage: &StorageSummary, bytes: u64) -> String {
    let mut parts = Vec::new();
    if !storage.chunk.is_empty() {
        let lengths: Vec<String> = storage.chunk.iter().map(u64::to_string).collect();
        parts.push(format!(", chunks {}", lengths.join(" × ")));
    }
    if !storage.filters.is_empty() {
        parts.push(format!(", {}", storage.filters.join(" + ")));
    }
    if storage.bytes != bytes {
        parts.push(format!(", {} stored", report::bytes(storage.bytes as f64)));
    }
    parts.concat()
}

fn print_attributes(out: &mut StandardOutput, owner: &str, attributes: &[NamedAttribute]) -> Result<()> {
    for attribute in attributes {
        writeln!(out, "{owner}@{} = {}", attribute.name, attribute.value)?;
    }
    Ok(())
}
