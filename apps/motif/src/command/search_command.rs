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
use aqueduct_motif::matcher::estimate::HitEstimate;
use aqueduct_motif::output::{self, HitFormat};
use aqueduct_motif::protocol::client::{CallError, RpcClient};
use aqueduct_motif::query::{Query, QueryGrammar, ResidueKind};
use aqueduct_motif::search::{FileDistribution, SearchOutcome, SearchProgress, SearchSettings, search};
use aqueduct_motif::service::api::kind_of;
use aqueduct_motif::service::forward::search_via;
use aqueduct_motif::service::search_request::SearchRequest;
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
    #[arg(long, value_name = "URL", conflicts_with_all = ["ranks", "within", "distribute", "input", "shares", "buffer", "times"])]
    via: Option<String>,
    /// Number of ranks, if they are threads [default: `AQUEDUCT_RANKS`, else the number of cores]
    #[arg(long, short = 'n')]
    ranks: Option<usize>,
    /// The residues: dna, rna, protein, or auto, which looks at the start of each file
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
    /// The search stops if its hits take so much memory
    #[arg(long, default_value = "1GiB", value_parser = super::size, conflicts_with = "via")]
    hit_memory: u64,
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
    #[arg(long, default_value = "1MiB", value_parser = super::size)]
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

/// Searches through a service, which has the same options for queries.
fn run_via(url: &str, arguments: &SearchArguments) -> Result<ExitCode> {
    let mut request = json!({
        "query": arguments.query, "kind": arguments.kind, "plain": arguments.plain, "strands": arguments.strands,
        "every": arguments.every, "most": arguments.most, "databases": arguments.files,
    });
    if let Some(longest) = arguments.longest {
        request["longest"] = json!(longest);
    }
    let client = RpcClient::new(url)?;
    let list = client.call("motif.databases", &[]).map_err(CallError::into_error)?;
    let kind_of = |names: &[String]| kind_of(&list, names);
    // The kind is needed here too: the values of constraints are printed.
    let (parsed, _) = SearchRequest::from_value(&request, kind_of)?;
    let bar = (!arguments.quiet && stderr().is_terminal()).then(|| ProgressBar::new(1000));
    let show = |status: &Value| {
        if let (Some(bar), Some(done)) = (&bar, status["done"].as_f64()) {
            bar.set_position((done * 1000.0) as u64);
        }
    };
    let (hits, complete) = search_via(&client, &parsed.to_value(), show)?;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    if let Some(name) = &arguments.hits {
        let written = Launch::threads(1)
            .run(|world| hit::write_hits(world, name, &hits).map_err(|error| format!("{error:#}")));
        written.with_context(|| format!("writing {name}"))?;
    }
    let outcome = SearchOutcome { hits, complete, ..SearchOutcome::default() };
    print(arguments, &parsed.parse_query()?, &outcome, false)?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn rank(world: &Comm, arguments: &SearchArguments) -> Result<bool> {
    let files = DatabaseFile::inspect(world, &arguments.files)?;
    let kind = match ResidueKind::from_name(&arguments.kind) {
        Some(kind) => kind,
        None => {
            let kinds = DatabaseFile::guess_kinds(world, &files)?;
            let names = files.iter().map(|file| file.name.as_str());
            DatabaseFile::common_kind(names.zip(kinds)).context("--kind auto")?
        }
    };
    let query = QueryGrammar::new(kind).plain(arguments.plain).parse(&arguments.query);
    let query = query.map_err(|error| anyhow!("the query is invalid at {error}"))?;
    let settings = settings(world, arguments, query, &files)?;
    let notes = world.rank() == 0 && !arguments.quiet;
    if notes {
        print_notes(&settings, files.iter().map(|file| file.length).sum());
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
        print(arguments, &settings.query, &outcome, notes)?;
        write_times(world, arguments, &outcome)?;
    }
    Ok(outcome.complete)
}

fn settings(
    world: &Comm,
    arguments: &SearchArguments,
    query: Query,
    files: &[DatabaseFile],
) -> Result<SearchSettings> {
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
    settings.most_bytes = arguments.hit_memory;
    if let Some(name) = &arguments.within {
        let hits = hit::read_hits(world, name)?;
        let regions = regions(name, &Regions::of_hits(&hits, arguments.around), files)?;
        let left_out = regions.1.join(", ");
        if world.rank() == 0 && !left_out.is_empty() {
            eprintln!("motif: {name} also has hits in {left_out}, which is not searched");
        }
        settings.within = Some(Arc::new(regions.0));
    }
    Ok(settings)
}

/// The regions of an object file with the names that the files have in this search, and the names of files that are not searched.
fn regions(name: &str, found: &Regions, files: &[DatabaseFile]) -> Result<(Regions, Vec<String>)> {
    let place = |file: &str| DatabaseFile::find(files, file).map(|file| file.name.clone());
    let all = found.files();
    let left_out: Vec<String> =
        all.iter().filter(|file| place(file).is_none()).map(|file| (*file).to_owned()).collect();
    ensure!(
        left_out.is_empty() || left_out.len() < all.len(),
        "the hits of {name} are in {}, which is not one of the files: search the files in which they were found",
        left_out.join(", ")
    );
    Ok((found.with_files(place), left_out))
}

fn print_notes(settings: &SearchSettings, residues: u64) {
    let query = &settings.query;
    if query.terms.iter().any(|term| term.errors.limit() > 0) {
        let estimate = HitEstimate::new(query, settings.longest_hit());
        let strands = if settings.searches_second_strand() { 2.0 } else { 1.0 };
        let expected = estimate.per_start * residues as f64 * strands;
        let about = if estimate.is_lower_bound { "more than" } else { "about" };
        let many = if expected > settings.most as f64 { "; the search stops at --most" } else { "" };
        eprintln!("motif: in random sequences of this size the query has {about} {expected:.0} hits{many}");
    }
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

fn print(arguments: &SearchArguments, query: &Query, outcome: &SearchOutcome, notes: bool) -> Result<()> {
    let mut out = BufWriter::new(stdout().lock());
    let format = HitFormat::from_name(&arguments.format).unwrap_or(HitFormat::Text);
    let written = if arguments.count {
        writeln!(out, "{}", outcome.hits.len())
    } else {
        output::write_hits(&mut out, format, &outcome.hits, query)
    };
    let written = written.and_then(|()| out.flush());
    // A reader such as `head` may close the pipe.
    written
        .or_else(|error| if error.kind() == std::io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })?;
    if !outcome.complete {
        eprintln!(
            "motif: stopped after {} hits: there are more; narrow the query or raise --most or --hit-memory",
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
