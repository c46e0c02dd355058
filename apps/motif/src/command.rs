//! The command line.

mod convert_command;
mod generate_command;
mod search_command;
mod service_command;

use std::process::ExitCode;

use anyhow::Result;

/// Parallel search for motifs in sequence databases.
///
/// A query is a regular expression over residues, or several joined by `@`, with constraints: `CC(A|T){6}GG`,
/// `TATA @ (N{5,20})/gc(40,100) @ (ACGTACGT)/edit(1)`. Ranks are threads of this process, or the processes of an MPI job.
#[derive(clap::Parser)]
#[command(name = "motif", version)]
pub(crate) struct MotifArguments {
    #[command(subcommand)]
    command: MotifCommand,
}

#[derive(clap::Subcommand)]
enum MotifCommand {
    /// Search files for a query
    Search(Box<search_command::SearchArguments>),
    /// Serve files: searches by XML-RPC, executed on all ranks
    Serve(service_command::ServeArguments),
    /// Users, queue, kept results and a web page in front of a server
    Proxy(service_command::ProxyArguments),
    /// Pack DNA or RNA with 2 or 4 bits for a residue, with an index of the sequences
    Convert(convert_command::PackArguments),
    /// Write a random genome with planted motifs
    Generate(generate_command::GenerateArguments),
}

pub(crate) fn run(arguments: MotifArguments) -> Result<ExitCode> {
    match arguments.command {
        MotifCommand::Search(arguments) => search_command::run(&arguments),
        MotifCommand::Serve(arguments) => service_command::serve(&arguments),
        MotifCommand::Proxy(arguments) => service_command::proxy(&arguments),
        MotifCommand::Convert(arguments) => convert_command::run(&arguments),
        MotifCommand::Generate(arguments) => generate_command::run(&arguments),
    }
}

/// Parses a size: `512MiB`, `4M`, `1000`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err("give a size such as 512MiB, 4M or 1000".to_owned()),
    };
    let number: u64 = text[..digits].parse().map_err(|_| "give a size such as 512MiB".to_owned())?;
    number.checked_mul(unit).ok_or_else(|| "the size is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("512MiB"), Ok(512 << 20));
        assert_eq!(size("3"), Ok(3));
        assert_eq!(size("2kb"), Ok(2000));
        assert!(size("x").is_err() && size("99999999999GiB").is_err() && size("").is_err());
    }
}
