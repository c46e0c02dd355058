//! Probes an HDF5 file in a child process.
//!
//! With damaged files libhdf5 may crash, loop forever, or allocate without bound. So a child process with limits of processor time and
//! memory reads the metadata and reports it. If the child fails, the command continues and reports the file as damaged.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

/// The name of the hidden command.
pub(crate) const NAME: &str = "probe-hdf5";
/// Processor time for any file, in seconds; thousands of datasets take less than one second.
const SECONDS: u64 = 10;
/// One more second for each of these bytes, which may contain some thousand datasets.
const BYTES_PER_SECOND: u64 = 1 << 20;
/// Memory for any file.
const MEMORY: u64 = 1 << 30;
/// Additional memory per byte of the file, since metadata takes more space in memory.
const MEMORY_PER_BYTE: u64 = 16;
/// The exit status that says that libhdf5 reported the file as damaged.
const REFUSED: u8 = 1;

#[derive(clap::Args)]
pub(crate) struct Hdf5ProbeArguments {
    path: OsString,
}

/// The work of the child process.
pub(crate) fn run(arguments: &Hdf5ProbeArguments) -> Result<ExitCode> {
    let path = Path::new(&arguments.path);
    let length = path.metadata().with_context(|| format!("{}", path.display()))?.len();
    let limits = [
        (Resource::Cpu, SECONDS + length / BYTES_PER_SECOND),
        (Resource::As, MEMORY.saturating_add(length.saturating_mul(MEMORY_PER_BYTE))),
        // A crash of the child is an expected result: no core file.
        (Resource::Core, 0),
    ];
    for (resource, wanted) in limits {
        // The limit of this process may be lower.
        let most = getrlimit(resource).maximum.map_or(wanted, |most| most.min(wanted));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .with_context(|| format!("limiting {resource:?} to {most}"))?;
    }
    match aqueduct::hdf5::probe(path) {
        Ok(found) => {
            std::io::stdout().write_all(&found)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(what) => {
            eprint!("{what}");
            Ok(ExitCode::from(REFUSED))
        }
    }
}

/// Probes a file in a child process.
pub(crate) fn probe(path: &Path) -> Result<Vec<u8>, String> {
    // The running program itself, even if the file at its path was replaced.
    let mut child = Command::new("/proc/self/exe");
    child.arg0("aqueduct").args([NAME, "--"]).arg(path).stdin(Stdio::null());
    let output = child
        .output()
        .map_err(|error| format!("the process that probes the file could not be started: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(output.stdout),
        Some(code) if code == i32::from(REFUSED) => Err(said.trim().to_owned()),
        _ => Err(describe_crash(output.status, &said)),
    }
}

/// The message for a file on which the child process failed.
fn describe_crash(status: ExitStatus, said: &str) -> String {
    let mut what = match status.signal().and_then(Signal::from_named_raw) {
        Some(Signal::XCPU | Signal::KILL) => "libhdf5 exceeded its limit of processor time".to_owned(),
        Some(signal) => format!("libhdf5 crashed (signal {}) while reading the file", signal.as_raw()),
        None => format!("libhdf5 failed ({status}) while reading the file"),
    };
    if let Some(line) = said.lines().find(|line| !line.trim().is_empty()) {
        let _ = write!(what, ", with the message {:?}", line.trim());
    }
    what + ": the metadata of the file is damaged; use an older copy"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_child_by_a_signal_is_described() {
        let message = |raw| describe_crash(ExitStatus::from_raw(raw), "");
        assert!(message(11).starts_with("libhdf5 crashed (signal 11) while reading the file: the metadata"));
        assert!(message(24).starts_with("libhdf5 exceeded its limit of processor time: "), "{}", message(24));
        let panicked = describe_crash(ExitStatus::from_raw(101 << 8), "\nthread 'main' panicked\nmore");
        assert!(
            panicked.contains(
                "exit status: 101) while reading the file, with the message \"thread 'main' panicked\": "
            ),
            "{panicked}"
        );
    }
}
