//! `aqueduct serve`, `servers`, `list`, `copy` and `remove`: remote memory.

mod serve;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use aqueduct::device::units::ByteSize;
use aqueduct::device::{DeviceOpenOptions, HandleExt, SyncScope};
use aqueduct::tunnel::ServerSet;

use crate::standard_output::lock_stdout;

pub(crate) use serve::{ServeMemoryArguments, serve};

/// Bytes copied at a time.
const BUFFER: usize = 8 << 20;

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
pub(crate) struct CopyArguments {
    /// A name with any device: tunnel:HOST:PORT/FILE, memfs:FILE, a path
    source: OsString,
    /// A name with any device, or a folder
    target: OsString,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
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

/// Copies a file between any devices.
pub(crate) fn copy(arguments: &CopyArguments) -> Result<()> {
    aqueduct::tunnel::register();
    let source = aqueduct::device::open(&arguments.source, &DeviceOpenOptions::read_only())?;
    let target = target_name(&arguments.source, &arguments.target);
    let options =
        DeviceOpenOptions::write_only().create(true).exclusive(!arguments.force).truncate(arguments.force);
    let copied =
        aqueduct::device::open(&target, &options).with_context(|| "use --force to replace a file")?;
    let len = source.len()?;
    let mut buffer = vec![0; BUFFER.min(len as usize)];
    let mut at = 0;
    while at < len {
        let wanted = (len - at).min(buffer.len() as u64) as usize;
        let count = source.read_at(at, &mut buffer[..wanted])?;
        if count == 0 {
            bail!("{}: the file has become shorter while it was copied", arguments.source.display());
        }
        // Holes stay holes.
        if buffer[..count as usize].iter().any(|byte| *byte != 0) {
            copied.write_at(at, &buffer[..count as usize])?;
        }
        at += count;
    }
    copied.set_len(len)?;
    copied.sync(SyncScope::Entry)?;
    Ok(copied.close()?)
}

/// A folder as the target gets a file of the same name.
fn target_name(source: &OsString, target: &OsString) -> OsString {
    let is_folder = Path::new(target).is_dir();
    let last = source.to_string_lossy().rsplit(['/', ':']).next().unwrap_or_default().to_owned();
    if is_folder { Path::new(target).join(last).into_os_string() } else { target.clone() }
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
