//! `motif convert`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use aqueduct::comm::Launch;
use aqueduct_motif::input::contents::read_contents;
use aqueduct_motif::input::database::DatabaseFile;
use aqueduct_motif::input::packed_writer::{PackedSummary, PackedWriter};
use aqueduct_motif::query::ResidueKind;

/// Options of `motif convert`.
#[derive(clap::Args)]
pub(super) struct PackArguments {
    /// Sequence files in any format; names may have the prefix of a device
    #[arg(required = true)]
    files: Vec<String>,
    /// The packed file to write
    #[arg(long, short)]
    output: PathBuf,
    /// Bits of a residue: 2 for A, C, G, T with few other letters, 4 for many ambiguity codes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=4))]
    bits: u32,
    /// The residues: dna, rna, or auto, which looks at the start of each file
    #[arg(long, default_value = "auto", value_parser = ["auto", "dna", "rna"])]
    kind: String,
}

pub(super) fn run(arguments: &PackArguments) -> Result<ExitCode> {
    let all =
        Launch::threads(1).run(|world| convert(world, arguments).map_err(|error| format!("{error:#}")))?;
    for PackedSummary { sequences, residues, bytes } in all {
        println!(
            "{}: {residues} residues in {sequences} sequences, {bytes} bytes",
            arguments.output.display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn convert(world: &aqueduct::comm::Comm, arguments: &PackArguments) -> Result<PackedSummary> {
    let files = DatabaseFile::inspect(world, &arguments.files)?;
    let kind = match ResidueKind::from_name(&arguments.kind) {
        Some(kind) => kind,
        None => {
            let kinds = DatabaseFile::guess_kinds(world, &files)?;
            let names = files.iter().map(|file| file.name.as_str());
            DatabaseFile::common_kind(names.zip(kinds)).context("--kind auto")?
        }
    };
    let mut writer = PackedWriter::create(&arguments.output, arguments.bits, kind)?;
    for file in &files {
        read_contents(world, file, |piece| writer.feed(piece)).with_context(|| file.name.clone())?;
        writer.end_of_file().with_context(|| file.name.clone())?;
    }
    writer.finish()
}
