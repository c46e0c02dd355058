//! The Python package against the same calls from Rust, against parallel h5py, h5py and numpy.
//!
//! `cargo xtask bench python` builds the wheel and names the interpreter that has it. Each case alternates between the candidates.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use aqueduct::comm::Launch;
use aqueduct::hdf5::Hdf5CreateOptions;

use crate::table::FigureTable;
use crate::tools::{equalize, root, succeeds};

/// The interpreter with the package, set by `cargo xtask bench python`.
const INTERPRETER: &str = "AQUEDUCT_BENCH_PYTHON";
/// The interpreter with parallel h5py: that of Debian.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";
/// Bytes of the array.
const BYTES: u64 = 1 << 30;

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let python = env::var(INTERPRETER).context("start it by `cargo xtask bench python`")?;
    let rounds = if words.contains(&"--quick") { 2 } else { 5 };
    // In memory if possible: the medium is the same for all.
    let memory = Path::new("/dev/shm");
    let folder =
        if memory.is_dir() { tempfile::tempdir_in(memory)? } else { crate::tools::scratch_folder()? };
    let folder = folder.path();
    let mut table = FigureTable::default();
    for ranks in [2, 4] {
        let mut ratios = Vec::new();
        for _ in 0..rounds {
            prepare(folder);
            let rust = array(folder, ranks)?;
            prepare(folder);
            let ours = script(Command::new(&python), "threads", folder, ranks)?[0];
            ratios.push(rust / ours);
        }
        let name = format!("1 GiB to HDF5 from {ranks} threads: time of Rust / time of Python");
        table.at_least(&name, &ratios, 0.9);
    }
    for ranks in [2, 4] {
        let name = format!("1 GiB to HDF5 from {ranks} processes: time of parallel h5py / ours");
        let mut ratios = Vec::new();
        for _ in 0..rounds {
            prepare(folder);
            let Some(peer) = parallel(SYSTEM_PYTHON, "h5py-mpi", folder, ranks)? else { break };
            prepare(folder);
            let Some(ours) = parallel(&python, "ours-mpi", folder, ranks)? else { break };
            ratios.push(peer / ours);
        }
        if ratios.is_empty() {
            println!("{name}: n/a, python3-h5py-mpi, python3-mpi4py or mpirun.openmpi is missing");
        } else {
            table.at_least(&name, &ratios, 2.0);
        }
    }
    let (mut writes, mut reads, mut records) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let peer = script(Command::new(&python), "h5py-slices", folder, 1)?;
        let ours = script(Command::new(&python), "ours-slices", folder, 1)?;
        writes.push(peer[0] / ours[0]);
        reads.push(peer[1] / ours[1]);
        let peer = script(Command::new(&python), "tofile-records", folder, 1)?[0];
        records.push(peer / script(Command::new(&python), "ours-records", folder, 1)?[0]);
    }
    table.at_least("10 000 small slices written: time of h5py / ours", &writes, 1.0);
    table.at_least("10 000 small slices read: time of h5py / ours", &reads, 1.0);
    table.at_least("10⁶ records: time of numpy.tofile and fsync / ours", &records, 0.9);
    table.finish();
    Ok(())
}

/// Removes the files of earlier turns, and brings memory into one state: a turn needs memory for the array and for the file.
fn prepare(folder: &Path) {
    for name in ["array.h5", "peer.h5"] {
        // There is none before the first turn.
        let _ = std::fs::remove_file(folder.join(name));
    }
    equalize(folder, 2 * BYTES);
}

/// Seconds of what `threads` in `figures.py` does, from Rust.
fn array(folder: &Path, ranks: usize) -> Result<f64> {
    let path = folder.join("array.h5");
    let times = Launch::threads(ranks).run(|world| {
        let count = BYTES / 8 / world.size() as u64;
        let first = count * world.rank() as u64;
        let mine = vec![world.rank() as f64; count as usize];
        crate::timing::slowest_rank(world, || {
            let mut file = Hdf5CreateOptions::new().replace().without_sync().create(world, &path)?;
            let all = count * world.size() as u64;
            let x = file.define(|file| file.dataset::<f64>("x", &[all]))?;
            #[allow(clippy::single_range_in_vec_init, reason = "a hyperslab of one dimension is one range")]
            file.at(x, [first..first + count]).write(&mine)?;
            file.close()
        })
    })?;
    Ok(times[0])
}

/// The seconds that a case of `figures.py` prints: one number, or a list.
fn script(mut command: Command, case: &str, folder: &Path, ranks: usize) -> Result<Vec<f64>> {
    let program = root().join("python/benches/figures.py");
    let output = command.arg(program).arg(case).arg(folder).arg(ranks.to_string()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{case}: {}", String::from_utf8_lossy(&output.stderr));
    let numbers = text.trim().trim_matches(['[', ']']).split(',').map(|number| number.trim().parse());
    numbers.collect::<Result<_, _>>().with_context(|| format!("{case} printed {text:?}"))
}

/// The seconds of a case under `mpirun`; none if this interpreter cannot run it.
fn parallel(python: &str, case: &str, folder: &Path, ranks: usize) -> Result<Option<f64>> {
    let modules =
        if case == "h5py-mpi" { "import h5py._debian_h5py_mpi, mpi4py" } else { "import aqueduct_io" };
    let can = succeeds(Command::new(python).args(["-c", modules]))
        && succeeds(Command::new("mpirun.openmpi").arg("--version"));
    if !can {
        return Ok(None);
    }
    let mut command = Command::new("mpirun.openmpi");
    command.args(["--oversubscribe", "--allow-run-as-root", "-n", &ranks.to_string(), python]);
    Ok(Some(script(command, case, folder, ranks)?[0]))
}
