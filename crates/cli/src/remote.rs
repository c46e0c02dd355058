//! `aqueduct serve`, `servers`, `list` and `remove`: remote memory.

mod serve;

use std::ffi::OsString;
use std::io::Write as _;

use anyhow::Result;
use aqueduct::device::units::ByteSize;
use aqueduct::tunnel::ServerSet;

use crate::standard_output::lock_stdout;

pub(crate) use serve::{ServeMemoryArguments, serve};

#[derive(clap::Args)]
pub(crate) struct ServersArguments {
    /// `HOST:PORT,…` or `unix:/PATH`; default: the servers that announce themselves in the folder `AQUEDUCT_SERVERS`
    #[arg(default_value = "")]
    servers: String,
}

#[derive(clap::Args)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    servers: ServersArguments,
    /// Only files whose names begin with this
    #[arg(long, default_value = "")]
    prefix: String,
}

#[derive(clap::Args)]
pub(crate) struct RemoveArguments {
    /// Names with any device, such as tunnel:HOST:PORT/FILE
    #[arg(required = true)]
    names: Vec<OsString>,
}

/// Prints the state of each server.
pub(crate) fn servers(arguments: &ServersArguments) -> Result<()> {
    let set = ServerSet::connect(&arguments.servers)?;
    let mut out = lock_stdout();
    for server in set.servers() {
        let status = server.status()?;
        let seconds = (status.uptime as f64 / 1000.0).max(0.001);
        let memory = match status.memory {
            0 => "files in a folder".to_owned(),
            memory => {
                format!("memory {} of {}, {} files", ByteSize(status.used), ByteSize(memory), status.files)
            }
        };
        writeln!(
            out,
            "{}: {memory}; {} sessions, {} connections; written {} ({:.1} MB/s), read {} ({:.1} MB/s); {} greetings refused; {seconds:.0} s",
            server.address(),
            status.sessions,
            status.connections,
            ByteSize(status.written),
            status.written as f64 / seconds / 1e6,
            ByteSize(status.read),
            status.read as f64 / seconds / 1e6,
            status.refused,
        )?;
    }
    Ok(out.flush()?)
}

/// Prints all files: the length and the name.
pub(crate) fn list(arguments: &ListArguments) -> Result<()> {
    let set = ServerSet::connect(&arguments.servers.servers)?;
    let mut files = std::collections::BTreeMap::<Vec<u8>, u64>::new();
    for server in set.servers() {
        for file in server.list(arguments.prefix.as_bytes())? {
            // The length is the largest end of the parts.
            let end = files.entry(file.name).or_default();
            *end = (*end).max(file.end);
        }
    }
    let mut out = lock_stdout();
    for (name, len) in files {
        writeln!(out, "{len:>16} {}", String::from_utf8_lossy(&name))?;
    }
    Ok(out.flush()?)
}

/// Deletes files; the first failure is the error, after all others were tried.
pub(crate) fn remove(arguments: &RemoveArguments) -> Result<()> {
    aqueduct::tunnel::register();
    let outcomes: Vec<_> = arguments.names.iter().map(aqueduct::device::delete).collect();
    for outcome in outcomes {
        outcome?;
    }
    Ok(())
}
