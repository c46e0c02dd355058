//! Our HDF5 against h5py, the C library, and itself on one rank: compressed datasets read and written, and files of many datasets opened.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::file_times;
use crate::table::FigureTable;
use crate::tools::{compile, openmpi, scratch_folder, succeeds};

const RANKS: usize = 2;
/// Jobs of each candidate, in turn.
const ROUNDS: usize = 3;
/// Times in one job that a file of many datasets is opened.
const OPENINGS: &str = "3";

/// Reads the compressed dataset as a program would, and checks a value.
const H5PY_READ: &str = "
import sys, time, h5py
start = time.perf_counter()
with h5py.File(sys.argv[1], 'r') as file:
    values = file['x'][...]
print('seconds', time.perf_counter() - start)
at = len(values) - 7
if values[at] == at // 1000 + (at * 2654435761 % 2**32 >> 24) / 256:
    print('verified')
";

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let mib = match words {
        [] => 1024,
        [mib] => mib.parse::<u64>().context("usage: hdf5 [MIB]: the size of the compressed dataset")?,
        _ => bail!("usage: hdf5 [MIB]: the size of the compressed dataset"),
    };
    let folder = scratch_folder()?;
    let mut table = FigureTable::default();
    compressed(&mut table, &folder.path().join("packed.h5"), mib)?;
    opening(&mut table, folder.path())?;
    table.finish();
    Ok(())
}

fn job(ranks: usize, file: &Path, words: &[&str]) -> Result<Vec<f64>> {
    let mut job = openmpi(ranks, Some(600));
    job.arg(std::env::current_exe()?).arg("hdf5-job").arg(file).args(words);
    file_times(&mut job).with_context(|| format!("{words:?} on {ranks} ranks"))
}

fn compressed(table: &mut FigureTable, file: &Path, mib: u64) -> Result<()> {
    let size = mib.to_string();
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    let python = python();
    for _ in 0..ROUNDS {
        let one = job(1, file, &["write", &size])?[0];
        writes.push(one / job(RANKS, file, &["write", &size])?[0]);
        let ours = job(RANKS, file, &["read", &size])?[0];
        if let Some(python) = python {
            let mut command = Command::new(python);
            let theirs = file_times(command.args(["-c", H5PY_READ]).arg(file)).context("h5py")?[0];
            reads.push(theirs / ours);
        }
    }
    let label = format!("{mib} MiB written through shuffle and deflate: one rank / {RANKS} ranks");
    table.at_least(&label, &writes, 1.8);
    let label = format!("{mib} MiB read through deflate and shuffle: h5py / ours on {RANKS} ranks");
    if reads.is_empty() {
        table.missing(&label);
    } else {
        table.at_least(&label, &reads, 1.8);
    }
    Ok(())
}

/// A Python with h5py.
fn python() -> Option<&'static str> {
    ["python3", "/usr/bin/python3"]
        .into_iter()
        .find(|python| succeeds(Command::new(python).args(["-c", "import h5py"])))
}

fn opening(table: &mut FigureTable, folder: &Path) -> Result<()> {
    let file = folder.join("many.h5");
    job(1, &file, &["define", "10000", "10"])?;
    let peer = compile("h5pcc.openmpi", &[], "hdf5_open.c", &folder.join("hdf5_open"), &[]);
    for (verb, what) in [("shapes", "with their shapes"), ("attributes", "with 100 000 attributes")] {
        let label = format!("10 000 datasets opened {what}: C library / ours");
        let Some(peer) = &peer else {
            table.missing(&label);
            continue;
        };
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let ours = job(1, &file, &[verb, OPENINGS])?;
            let theirs =
                file_times(Command::new(peer).arg(&file).args([verb, OPENINGS])).context("C library")?;
            ratios.extend(theirs.iter().zip(&ours).map(|(theirs, ours)| theirs / ours));
        }
        table.at_least(&label, &ratios, 1.0);
    }
    Ok(())
}
