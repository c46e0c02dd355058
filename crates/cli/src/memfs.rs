//! `aqueduct memfs`: files in the memory of this node that MPI programs have left.

use std::ffi::OsString;
use std::io::Write as _;

use anyhow::{Result, bail};
use aqueduct::device::units::ByteSize;
use aqueduct::device::{Device, NodeMemFile, NodeMemFs};
use clap::Subcommand;

use crate::standard_output::lock_stdout;

#[derive(Subcommand)]
pub(crate) enum MemfsCommand {
    /// List the files: length, memory, whether a process has it open, name
    Ls,
    /// Delete files that no process has open
    Rm {
        /// Names as in memfs:NAME
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        names: Vec<OsString>,
        /// Delete all files that no process has open
        #[arg(long)]
        all: bool,
    },
}

pub(crate) fn run(command: &MemfsCommand) -> Result<()> {
    let memory = NodeMemFs::new(None);
    match command {
        MemfsCommand::Ls => list(&memory.files()?),
        MemfsCommand::Rm { all: true, .. } => {
            let closed = memory.files()?.into_iter().filter(|file| !file.open).map(|file| file.name);
            remove(&memory, &closed.collect::<Vec<_>>())
        }
        MemfsCommand::Rm { names, .. } => remove(&memory, names),
    }
}

fn list(files: &[NodeMemFile]) -> Result<()> {
    let mut out = lock_stdout();
    for file in files {
        let state = if file.open { "open" } else { "closed" };
        writeln!(
            out,
            "{:>16} {:>10} {state:<6} {}",
            file.len,
            ByteSize(file.memory).to_string(),
            file.name.display()
        )?;
    }
    Ok(out.flush()?)
}

/// Deletes all that can be deleted; the first failure is the error.
fn remove(memory: &NodeMemFs, names: &[OsString]) -> Result<()> {
    let failures: Vec<_> = names.iter().filter_map(|name| memory.delete(name).err()).collect();
    match failures.into_iter().next() {
        Some(error) => bail!(error),
        None => Ok(()),
    }
}
