//! `motif serve` and `motif proxy`.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aqueduct::comm::{Comm, Launch};
use aqueduct_motif::input::database::DatabaseFile;
use aqueduct_motif::protocol::client::RpcClient;
use aqueduct_motif::protocol::http_server::{self, HttpLimits};
use aqueduct_motif::protocol::users::UserTable;
use aqueduct_motif::service::api::SearchService;
use aqueduct_motif::service::forward::{self, RemoteFiles};
use aqueduct_motif::service::local::{self, ServedFiles};
use aqueduct_motif::service::search_store::{SearchStore, StoreLimits};

/// Options of both services.
#[derive(clap::Args)]
struct ListenArguments {
    /// Lines name:password; without, everybody on this machine may search
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// The longest time of a search in seconds
    #[arg(long, default_value_t = 600)]
    time_limit: u64,
    /// The most hits of a search
    #[arg(long, default_value_t = 100_000)]
    most: u64,
    /// The most memory of the hits of a search
    #[arg(long, default_value = "64MiB", value_parser = super::size)]
    hit_memory: u64,
}

/// Options of `motif serve`.
#[derive(clap::Args)]
pub(super) struct ServeArguments {
    /// FASTA files: plain, gzip or bgzip
    #[arg(required = true)]
    files: Vec<String>,
    /// Number of ranks, if they are threads [default: `AQUEDUCT_RANKS`, else the number of cores]
    #[arg(long, short = 'n')]
    ranks: Option<usize>,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
    #[command(flatten)]
    common: ListenArguments,
}

/// Options of `motif proxy`.
#[derive(clap::Args)]
pub(super) struct ProxyArguments {
    /// The URL of the server: http://[user:password@]host:port
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7070")]
    to: String,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Seconds to wait for a server that is not available before a search fails
    #[arg(long, default_value_t = 300)]
    patience: u64,
    #[command(flatten)]
    common: ListenArguments,
}

fn users(common: &ListenArguments, listen: SocketAddr) -> Result<UserTable> {
    let Some(path) = &common.users else {
        ensure!(listen.ip().is_loopback(), "{listen} can be reached by other machines: give --users");
        return Ok(UserTable::default());
    };
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    UserTable::parse(&text).with_context(|| path.display().to_string())
}

fn limits(common: &ListenArguments) -> StoreLimits {
    let time = Duration::from_secs(common.time_limit);
    let memory_per_search = common.hit_memory;
    StoreLimits { time, hits_per_search: common.most, memory_per_search, ..StoreLimits::default() }
}

/// Starts to listen, in a thread, and prints the address.
fn listen(address: SocketAddr, body: usize, service: SearchService) -> Result<()> {
    let listener = http_server::bind(address)?;
    println!("motif: listening on http://{}", listener.local_addr()?);
    let all_bodies = body.max(64 << 20);
    let limits = HttpLimits { body, all_bodies, connections: 256, arrival: Duration::from_secs(15) };
    thread::Builder::new().name("motif http".to_owned()).spawn(move || {
        if let Err(error) = http_server::serve(listener, limits, Arc::new(service)) {
            eprintln!("motif: {error:#}");
            std::process::exit(1);
        }
    })?;
    Ok(())
}

pub(super) fn serve(arguments: &ServeArguments) -> Result<ExitCode> {
    let launch = Launch::from_env()?;
    let launch = arguments.ranks.map_or(launch.clone(), |ranks| launch.ranks(ranks));
    launch.run(|world| serve_rank(world, arguments).map_err(|error| format!("{error:#}")))?;
    Ok(ExitCode::SUCCESS)
}

fn serve_rank(world: &Comm, arguments: &ServeArguments) -> Result<()> {
    let files = DatabaseFile::inspect(world, &arguments.files)?;
    let served = ServedFiles::inspect(world, &files)?;
    let mut store = None;
    if world.rank() == 0 {
        let made = Arc::new(SearchStore::new(limits(&arguments.common)));
        let service = SearchService {
            store: Arc::clone(&made),
            users: users(&arguments.common, arguments.listen)?,
            databases: Box::new(served),
            page: None,
        };
        // The regions of a search within earlier hits can be long.
        listen(arguments.listen, 32 << 20, service)?;
        store = Some(made);
    }
    local::execute(world, &files, store.as_ref())
}

pub(super) fn proxy(arguments: &ProxyArguments) -> Result<ExitCode> {
    let client = RpcClient::new(&arguments.to)?;
    let store = Arc::new(SearchStore::new(limits(&arguments.common)));
    let service = SearchService {
        store: Arc::clone(&store),
        users: users(&arguments.common, arguments.listen)?,
        databases: Box::new(RemoteFiles::new(&client)),
        page: Some(aqueduct_motif::web_page::PAGE),
    };
    listen(arguments.listen, 1 << 20, service)?;
    forward::execute(&client, &store, Duration::from_secs(arguments.patience));
    Ok(ExitCode::SUCCESS)
}
