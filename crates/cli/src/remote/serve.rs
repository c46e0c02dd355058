//! `aqueduct serve`: a server of remote memory.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use aqueduct::device::available_memory;
use aqueduct::device::units::{ByteSize, parse_duration};
use aqueduct::tunnel::announce::Membership;
use aqueduct::tunnel::{Address, DEFAULT_PORT, Key, ServerOptions, TunnelServer};

#[derive(clap::Args)]
pub(crate) struct ServeMemoryArguments {
    /// `HOST:PORT` or `unix:/PATH`; several are allowed
    #[arg(long, default_values_t = vec![format!("0.0.0.0:{DEFAULT_PORT}")])]
    listen: Vec<String>,
    /// Memory for all files and buffers: bytes (64GiB) or a part of the available memory (80%)
    #[arg(long, default_value = "80%")]
    memory: String,
    /// Keep files in this folder, as ordinary files in the page cache, which the system writes back
    #[arg(long)]
    store: Option<PathBuf>,
    /// A folder that all clients see, in which the servers of a set announce themselves; it has the key
    #[arg(long)]
    announce: Option<PathBuf>,
    /// How many servers the set has
    #[arg(long, requires = "announce", default_value_t = 1)]
    of: u16,
    /// The place of this server in the set; default: `SLURM_PROCID`, or the first free one
    #[arg(long, requires = "announce")]
    index: Option<u16>,
    /// The host name that clients connect to, in the announcement; default: the name of this machine
    #[arg(long, requires = "announce")]
    host: Option<String>,
    /// The key file; it is created if there is none
    #[arg(long, conflicts_with = "announce")]
    key: Option<PathBuf>,
    /// How long to wait for clients when the server is asked to stop
    #[arg(long, default_value = "30s")]
    grace: String,
    /// A client without a sign of life for so long loses its locks and open files
    #[arg(long, default_value = "10s")]
    silence: String,
    /// The most connections
    #[arg(long, default_value_t = 4096)]
    connections: usize,
}

/// Serves until SIGTERM or SIGINT. The exit status is 0 if nothing was dropped, otherwise 1.
pub(crate) fn serve(arguments: &ServeMemoryArguments) -> Result<ExitCode> {
    // Registered first: a signal that arrives during the start is not lost.
    let signals = count_signals()?;
    let grace = parse_duration(&arguments.grace).context("--grace")?;
    let listen = arguments.listen.iter().map(|text| text.parse::<Address>().map_err(anyhow::Error::msg));
    let mut options = ServerOptions {
        listen: listen.collect::<Result<_>>()?,
        memory: memory(&arguments.memory)?,
        store: arguments.store.clone(),
        silence: parse_duration(&arguments.silence).context("--silence")?,
        connections: arguments.connections,
        ..ServerOptions::default()
    };
    let membership = match &arguments.announce {
        Some(folder) => {
            let from_slurm = || std::env::var("SLURM_PROCID").ok()?.parse().ok();
            Some(Membership::join(folder, arguments.of, arguments.index.or_else(from_slurm))?)
        }
        None => None,
    };
    let mut key_place = String::from("no key: Unix sockets of this user only");
    if let Some(place) = &membership {
        (options.key, options.set) = (Some(place.key.clone()), place.set);
        (options.index, options.count) = (place.index, place.count);
        key_place =
            format!("key in {}", arguments.announce.as_deref().unwrap_or("".as_ref()).join("key").display());
    } else if let Some(path) = &arguments.key {
        options.key = Some(Key::read_or_create(path)?);
        key_place = format!("key in {}", path.display());
    }
    let memory = ByteSize(options.memory);
    let server = TunnelServer::start(options).context("use --announce FOLDER or --key FILE")?;
    if let Some(place) = &membership {
        place.publish(&announced(&server.addresses()[0], arguments.host.as_deref()))?;
    }
    let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    println!("aqueduct serve: ready on {}, memory {memory}, {key_place}", addresses.join(" and "));
    while signals.load(Ordering::Acquire) == 0 {
        thread::sleep(Duration::from_millis(20));
    }
    if let Some(place) = &membership {
        place.leave();
    }
    let report = server.stop(grace, &|| signals.load(Ordering::Acquire) > 1);
    for (name, bytes) in &report.dropped {
        println!("aqueduct serve: dropped {name} ({bytes} bytes)");
    }
    if let Some(why) = &report.sync_failure {
        println!("aqueduct serve: files of the folder may not be durable: {why}");
    }
    let held: u64 = report.dropped.iter().map(|(_, bytes)| bytes).sum();
    println!("aqueduct serve: ended; {} bytes written by clients, {held} bytes dropped", report.written);
    let whole = report.dropped.is_empty() && !report.interrupted && report.sync_failure.is_none();
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The number of signals that ask for an end.
fn count_signals() -> Result<Arc<AtomicUsize>> {
    let count = Arc::new(AtomicUsize::new(0));
    let mut signals =
        signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])?;
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for _ in signals.forever() {
            counted.fetch_add(1, Ordering::AcqRel);
        }
    });
    Ok(count)
}

/// The address for clients: that of any interface is replaced by the name of the machine.
fn announced(address: &Address, host: Option<&str>) -> Address {
    match address {
        Address::Tcp(listened, port) => {
            let name =
                || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
            let is_any = ["0.0.0.0", "::"].contains(&listened.as_str());
            let default = || if is_any { name() } else { listened.clone() };
            Address::Tcp(host.map_or_else(default, str::to_owned), *port)
        }
        path @ Address::Unix(_) => path.clone(),
    }
}

/// Bytes, or a part of the memory that the machine and the control group leave.
fn memory(text: &str) -> Result<u64> {
    let Some(percent) = text.strip_suffix('%') else {
        return Ok(text.parse::<ByteSize>().context("--memory")?.0);
    };
    match percent.parse::<u64>() {
        Ok(percent @ 1..=100) => Ok(available_memory() / 100 * percent),
        _ => bail!("--memory {text}: write a size such as 64GiB, or 1% to 100%"),
    }
}
