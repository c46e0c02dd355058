//! `motif generate`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use aqueduct_motif::generate::{GenomeSettings, write_genome};

/// Options of `motif generate`.
#[derive(clap::Args)]
pub(super) struct GenerateArguments {
    /// The FASTA file to write
    output: PathBuf,
    /// Number of sequences
    #[arg(long, default_value_t = 24)]
    sequences: u64,
    /// Number of residues of all sequences
    #[arg(long, default_value = "64MiB", value_parser = super::size)]
    size: u64,
    /// Seed of the random numbers; the same seed gives the same genome
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Width of lines; 0 writes each sequence as one line
    #[arg(long, default_value_t = 60)]
    width: usize,
    /// A word of A, C, G and T to plant in each sequence
    #[arg(long, value_name = "WORD")]
    plant: Option<String>,
    /// How often it is planted in each sequence
    #[arg(long, default_value_t = 10, requires = "plant")]
    copies: u64,
}

pub(super) fn run(arguments: &GenerateArguments) -> Result<ExitCode> {
    let plant = arguments.plant.as_ref().map(|word| word.to_ascii_uppercase().into_bytes());
    if let Some(word) = &plant {
        let valid = !word.is_empty() && word.iter().all(|letter| b"ACGT".contains(letter));
        ensure!(valid, "--plant needs a word of A, C, G and T");
        let room = arguments.size / arguments.sequences.max(1) / arguments.copies.max(1);
        ensure!(room >= word.len() as u64, "the sequences are too short for {} copies", arguments.copies);
    }
    let settings = GenomeSettings {
        sequences: arguments.sequences,
        residues: arguments.size,
        seed: arguments.seed,
        width: arguments.width,
        plant: plant.map(|word| (word, arguments.copies)),
    };
    let name = arguments.output.display();
    let file = File::create(&arguments.output).with_context(|| format!("creating {name}"))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let planted = write_genome(&mut out, &settings).with_context(|| format!("writing {name}"))?;
    out.flush().with_context(|| format!("writing {name}"))?;
    println!(
        "{name}: {} residues in {} sequences, {} planted words",
        settings.residues,
        settings.sequences,
        planted.len()
    );
    Ok(ExitCode::SUCCESS)
}
