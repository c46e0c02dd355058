//! Looking at an HDF5 file in a process of its own.
//!
//! The C library is not made for damaged bytes: it may crash, turn in circles, or ask for memory without end. What it finds is told by a child of
//! this command, which has only so much time and memory; whatever happens to it, the command goes on and says what is wrong with the file.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

/// The name of the hidden command.
pub(crate) const NAME: &str = "look-at-hdf5";
/// Processor time for any file: thousands of datasets take less than one second.
const SECONDS: u64 = 10;
/// More for each so many bytes, in which there may be some thousand datasets.
const BYTES_PER_SECOND: u64 = 1 << 20;
/// Memory for any file.
const MEMORY: u64 = 1 << 30;
/// More for each byte of a file: what it says takes more room in memory.
const MEMORY_PER_BYTE: u64 = 16;
/// What says that the library has understood the file to be damaged.
const REFUSED: u8 = 1;

#[derive(clap::Args)]
pub(crate) struct Hdf5ProbeArguments {
    path: OsString,
}

/// What the child does.
pub(crate) fn run(arguments: &Hdf5ProbeArguments) -> Result<ExitCode> {
    let path = Path::new(&arguments.path);
    let length = path.metadata().with_context(|| format!("{}", path.display()))?.len();
    let limits = [
        (Resource::Cpu, SECONDS + length / BYTES_PER_SECOND),
        (Resource::As, MEMORY.saturating_add(length.saturating_mul(MEMORY_PER_BYTE))),
        // A crash here is an answer, not something to be looked into.
        (Resource::Core, 0),
    ];
    for (resource, wanted) in limits {
        // Somebody may have set a narrower one.
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

/// Has a child look at a file.
pub(crate) fn probe(path: &Path) -> Result<Vec<u8>, String> {
    // The program that this is, even if another one has its name by now.
    let mut child = Command::new("/proc/self/exe");
    child.arg0("aqueduct").args([NAME, "--"]).arg(path).stdin(Stdio::null());
    let output =
        child.output().map_err(|error| format!("a process to look at it could not be started: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(output.stdout),
        Some(code) if code == i32::from(REFUSED) => Err(said.trim().to_owned()),
        _ => Err(describe_crash(output.status, &said)),
    }
}

/// What is wrong with a file that the library has not come back from.
fn describe_crash(status: ExitStatus, said: &str) -> String {
    let mut what = match status.signal().and_then(Signal::from_named_raw) {
        Some(Signal::XCPU | Signal::KILL) => "it turns in circles in it".to_owned(),
        Some(signal) => format!("it crashes in it (signal {})", signal.as_raw()),
        None => format!("it fails in it ({status})"),
    };
    if let Some(line) = said.lines().find(|line| !line.trim().is_empty()) {
        let _ = write!(what, ", saying {:?}", line.trim());
    }
    what + ": the file's description is damaged, take an older copy of it"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_by_a_signal_is_told() {
        let told = |raw| describe_crash(ExitStatus::from_raw(raw), "");
        assert!(told(11).starts_with("it crashes in it (signal 11): the file's description is damaged"));
        assert!(told(24).starts_with("it turns in circles in it: "), "{}", told(24));
        let panicked = describe_crash(ExitStatus::from_raw(101 << 8), "\nthread 'main' panicked\nmore");
        assert!(panicked.contains("exit status: 101), saying \"thread 'main' panicked\": "), "{panicked}");
    }
}
