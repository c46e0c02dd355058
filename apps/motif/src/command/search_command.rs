//! `motif search`.

use std::fs::OpenOptions;
use std::io::{BufWriter, IsTerminal, Write, stderr, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use aqueduct::comm::{Comm, Launch};
use aqueduct_motif::hit::{self, Regions};
use aqueduct_motif::input::database::DatabaseFile;
use aqueduct_motif::input::piece_reader::InputMode;
use aqueduct_motif::output::{self, HitFormat};
use aqueduct_motif::protocol::client::RpcClient;
use aqueduct_motif::query::{Query, QueryGrammar, ResidueKind};
use aqueduct_motif::search::{FileDistribution, SearchOutcome, SearchProgress, SearchSettings, search};
use aqueduct_motif::service::forward::search_via;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

/// Options of `motif search`.
#[allow(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[derive(clap::Args)]
pub(super) struct SearchArguments {
    /// The query, for example 'CC(A|T){6}GG'
    query: String,
    /// FASTA files: plain, gzip or bgzip; a name may have the prefix of a device
    #[arg(required_unless_present = "via")]
    files: Vec<String>,
    /// Search through a server or a proxy: http://[user:password@]host:port; files are names of its databases, none means all
    #[arg(long, value_name = "URL")]
    via: Option<String>,
    /// Number of ranks, if they are threads [default: `AQUEDUCT_RANKS`, else the number of cores]
    #[arg(long, short = 'n')]
    ranks: Option<usize>,
    /// The residues: dna, rna, protein, or auto, which looks at the first file
    #[arg(long, default_value = "auto", value_parser = ["auto", "dna", "rna", "protein"])]
    kind: String,
    /// Letters stand for themselves: no ambiguity codes
    #[arg(long)]
    plain: bool,
    /// The strands of nucleotides to search
    #[arg(long, default_value = "forward", value_parser = ["forward", "both"])]
    strands: String,
    /// All hits of each start instead of the longest
    #[arg(long)]
    every: bool,
    /// The longest hit, for queries without a limit [default: 10000]
    #[arg(long, value_name = "RESIDUES")]
    longest: Option<usize>,
    /// Stop after so many hits
    #[arg(long, default_value_t = 1_000_000)]
    most: u64,
    /// Only within the hits of an earlier search, an object file of --hits
    #[arg(long, value_name = "FILE")]
    within: Option<String>,
    /// With --within: widen the hits by so many residues on both sides
    #[arg(long, default_value_t = 0, requires = "within")]
    around: u64,
    /// How files are distributed over ranks
    #[arg(long, default_value = "bytes", value_parser = ["bytes", "sequences", "files"])]
    distribute: String,
    /// Who reads: each rank its part, or rank 0, which sends it on
    #[arg(long, default_value = "together", value_parser = ["together", "master"])]
    input: String,
    /// Weights of the ranks, for example 2,1,1: the first one searches half of each file
    #[arg(long, value_delimiter = ',')]
    shares: Vec<u64>,
    /// Bytes that a rank reads at once
    #[arg(long, default_value = "4MiB", value_parser = super::size)]
    buffer: u64,
    /// Format of the hits on the standard output
    #[arg(long, default_value = "text", value_parser = ["text", "tsv", "gff3", "fasta"])]
    format: String,
    /// Print the number of hits only
    #[arg(long, short)]
    count: bool,
    /// Also write the hits to an object file, which --within reads
    #[arg(long, value_name = "FILE")]
    hits: Option<String>,
    /// Append the times as a line of JSON
    #[arg(long, value_name = "FILE")]
    times: Option<PathBuf>,
    /// No progress bar and no notes
    #[arg(long, short)]
    quiet: bool,
}

pub(super) fn run(arguments: &SearchArguments) -> Result<ExitCode> {
    if let Some(url) = &arguments.via {
        return run_via(url, arguments);
    }
    let launch = Launch::from_env()?;
    let launch = arguments.ranks.map_or(launch.clone(), |ranks| launch.ranks(ranks));
    let complete = launch.run(|world| rank(world, arguments).map_err(|error| format!("{error:#}")))?;
    Ok(if complete.iter().all(|complete| *complete) { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

/// Searches through a service.
fn run_via(url: &str, arguments: &SearchArguments) -> Result<ExitCode> {
    let kind = ResidueKind::from_name(&arguments.kind).unwrap_or(ResidueKind::Dna);
    let query =
        Query::parse(&arguments.query, kind).map_err(|error| anyhow!("the query is invalid at {error}"))?;
    ensure!(
        arguments.within.is_none(),
        "--within needs files; through a service use the web page or XML-RPC"
    );
    let mut request = json!({
        "query": arguments.query, "kind": kind.name(), "strands": arguments.strands, "every": arguments.every,
        "most": arguments.most, "databases": arguments.files,
    });
    if let Some(longest) = arguments.longest {
        request["longest"] = json!(longest);
    }
    let bar = (!arguments.quiet && stderr().is_terminal()).then(|| ProgressBar::new(1000));
    let show = |status: &Value| {
        if let (Some(bar), Some(done)) = (&bar, status["done"].as_f64()) {
            bar.set_position((done * 1000.0) as u64);
        }
    };
    let (hits, complete) = search_via(&RpcClient::new(url)?, &request, show)?;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let outcome = SearchOutcome { hits, complete, ..SearchOutcome::default() };
    print(arguments, &SearchSettings::new(query), &outcome, false)?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn rank(world: &Comm, arguments: &SearchArguments) -> Result<bool> {
    let files = DatabaseFile::inspect(world, &arguments.files)?;
    let kind = match ResidueKind::from_name(&arguments.kind) {
        Some(kind) => kind,
        None => DatabaseFile::guess_kind(world, &files)?,
    };
    let query = QueryGrammar::new(kind).plain(arguments.plain).parse(&arguments.query);
    let query = query.map_err(|error| anyhow!("the query is invalid at {error}"))?;
    let settings = settings(world, arguments, query)?;
    let notes = world.rank() == 0 && !arguments.quiet;
    if notes {
        print_notes(&settings);
    }
    let bar = (notes && stderr().is_terminal()).then(progress_bar);
    let show = |progress: SearchProgress| {
        if let Some(bar) = &bar {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
            bar.set_message(format!("{} hits", progress.hits));
        }
    };
    let outcome = search(world, &files, &settings, Some(&show))?;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    if let Some(name) = &arguments.hits {
        hit::write_hits(world, name, &outcome.hits)?;
    }
    if world.rank() == 0 {
        print(arguments, &settings, &outcome, notes)?;
        write_times(world, arguments, &outcome)?;
    }
    Ok(outcome.complete)
}

fn settings(world: &Comm, arguments: &SearchArguments, query: Query) -> Result<SearchSettings> {
    ensure!(arguments.buffer >= 1 && arguments.buffer <= 1 << 32, "--buffer is between 1 byte and 4 GiB");
    ensure!(arguments.longest.is_none_or(|longest| longest > 0), "--longest is at least 1");
    let mut settings = SearchSettings::new(query);
    settings.longest = arguments.longest;
    settings.every = arguments.every;
    settings.both_strands = arguments.strands == "both";
    settings.distribution = match arguments.distribute.as_str() {
        "files" => FileDistribution::Files,
        "sequences" => FileDistribution::Sequences,
        _ => FileDistribution::Bytes,
    };
    settings.input = if arguments.input == "master" { InputMode::Master } else { InputMode::Together };
    settings.shares.clone_from(&arguments.shares);
    settings.buffer = arguments.buffer as usize;
    settings.most = arguments.most;
    if let Some(name) = &arguments.within {
        let hits = hit::read_hits(world, name)?;
        settings.within = Some(Arc::new(Regions::of_hits(&hits, arguments.around)));
    }
    Ok(settings)
}

fn print_notes(settings: &SearchSettings) {
    let query = &settings.query;
    if settings.both_strands && query.is_self_complementary() {
        eprintln!(
            "motif: the query is its own reverse complement: both strands have the same hits, reported once"
        );
    }
    if settings.longest.is_none() && query.most_length().is_none() {
        let longest = settings.longest_hit();
        eprintln!(
            "motif: the query has no longest hit; hits of up to {longest} residues are found (--longest)"
        );
    }
}

fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    let style = "{elapsed_precise} [{bar:40}] {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left, {msg}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn print(
    arguments: &SearchArguments,
    settings: &SearchSettings,
    outcome: &SearchOutcome,
    notes: bool,
) -> Result<()> {
    let mut out = BufWriter::new(stdout().lock());
    let format = HitFormat::from_name(&arguments.format).unwrap_or(HitFormat::Text);
    let written = if arguments.count {
        writeln!(out, "{}", outcome.hits.len())
    } else {
        output::write_hits(&mut out, format, &outcome.hits, &settings.query)
    };
    let written = written.and_then(|()| out.flush());
    // A reader such as `head` may close the pipe.
    written
        .or_else(|error| if error.kind() == std::io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })?;
    if !outcome.complete {
        eprintln!(
            "motif: stopped after {} hits: there are more; narrow the query or raise --most",
            outcome.hits.len()
        );
    }
    if notes {
        let rate = outcome.residues as f64 / outcome.total.max(1e-9) / 1e6;
        eprintln!(
            "motif: {} hits in {} residues, {:.2} s, {rate:.0} million residues per second ({})",
            outcome.hits.len(),
            outcome.residues,
            outcome.total,
            outcome.method
        );
    }
    Ok(())
}

fn write_times(world: &Comm, arguments: &SearchArguments, outcome: &SearchOutcome) -> Result<()> {
    let Some(path) = &arguments.times else { return Ok(()) };
    let line = serde_json::json!({
        "program": "motif", "ranks": world.size(), "output": arguments.input, "compute": outcome.compute,
        "io": outcome.io, "talk": outcome.talk, "total": outcome.total, "bytes": outcome.bytes,
    });
    let file = OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| writeln!(file, "{line}"));
    written.with_context(|| format!("writing {}", path.display()))
}
