//! Programs of the field through the C door beside the MPI library's own files: parallel HDF5 and `PnetCDF`, 64 datasets or variables each.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::mpiio;
use crate::shell::{command, root, succeeds};

/// Files that a program makes in one job.
const FILES: usize = 6;
/// Jobs of each contender, taking turns.
const ROUNDS: usize = 4;
/// Values of a dataset on each rank: 64 KiB, 1 MiB.
const DOUBLES: [usize; 2] = [8 << 10, 128 << 10];

/// How the program comes to its files.
const WAYS: [(&str, Option<&str>); 3] =
    [("door", None), ("ompio", Some("ompio")), ("romio", Some("romio321"))];

pub(crate) fn run() -> Result<()> {
    let folder = root().join("target/peers");
    std::fs::create_dir_all(&folder)?;
    mpiio::build()?;
    let programs = [("PnetCDF", pnetcdf(&folder)), ("HDF5", hdf5(&folder))];
    println!("\nseconds of a file, best and median; × the best median of the others\n");
    for (name, program) in programs {
        let Some(program) = program else {
            println!("{name}: n/a, its compiler wrapper or library for Open MPI is not there");
            continue;
        };
        for (ranks, doubles) in [2, 4].into_iter().flat_map(|ranks| DOUBLES.map(|doubles| (ranks, doubles))) {
            compare_times(name, &program, &folder, ranks, doubles)?;
        }
    }
    Ok(())
}

/// All ways in turn, and a line of what they took.
fn compare_times(name: &str, program: &Path, folder: &Path, ranks: usize, doubles: usize) -> Result<()> {
    let mut times = vec![Vec::new(); WAYS.len()];
    for _ in 0..ROUNDS {
        for ((way, io), times) in WAYS.iter().zip(&mut times) {
            times
                .extend(job(program, folder, ranks, doubles, *io).with_context(|| format!("{name}, {way}"))?);
        }
    }
    let figures: Vec<[f64; 2]> = times.into_iter().map(best_and_median).collect();
    let [ours, theirs @ ..] = &figures[..] else { bail!("nobody took part") };
    let rival = theirs.iter().map(|figure| figure[1]).fold(f64::INFINITY, f64::min);
    let shown: Vec<String> = WAYS
        .iter()
        .zip(&figures)
        .map(|((way, _), [best, median])| format!("{way} {best:.4} {median:.4}"))
        .collect();
    let kib = doubles * 8 / 1024;
    println!("{name}, 64 × {kib} KiB on {ranks} ranks each: {}; {:.2} ×", shown.join(", "), rival / ours[1]);
    Ok(())
}

pub(super) fn best_and_median(mut times: Vec<f64>) -> [f64; 2] {
    times.sort_by(f64::total_cmp);
    [times[0], times[times.len() / 2]]
}

/// What each file of one job took; an error unless the program has read the same values back.
fn job(program: &Path, folder: &Path, ranks: usize, doubles: usize, io: Option<&str>) -> Result<Vec<f64>> {
    let (ranks, doubles, files) = (ranks.to_string(), doubles.to_string(), FILES.to_string());
    let mut job = command("timeout", &["120", "mpirun.openmpi", "--oversubscribe", "--bind-to", "none"]);
    job.args(["-n", &ranks]);
    job.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    match io {
        Some(io) => job.args(["--mca", "io", io]),
        None => job
            .arg("-x")
            .arg(format!("LD_PRELOAD={}", root().join("target/release/libaqueduct_mpiio.so").display())),
    };
    let output = job.arg(program).arg(folder.join("datasets")).args([&doubles, &files]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let verified = output.status.success() && text.lines().any(|line| line == "verified");
    ensure!(verified, "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    let seconds = text.lines().filter_map(|line| line.strip_prefix("seconds ")?.parse().ok());
    Ok(seconds.collect())
}

fn pnetcdf(folder: &Path) -> Option<PathBuf> {
    compile("mpicc.openmpi", folder, "datasets.pnetcdf", &["-DPNETCDF"], &["-lpnetcdf"])
}

fn hdf5(folder: &Path) -> Option<PathBuf> {
    compile("h5pcc.openmpi", folder, "datasets.hdf5", &[], &[])
}

pub(super) fn compile(
    compiler: &str,
    folder: &Path,
    name: &str,
    before: &[&str],
    after: &[&str],
) -> Option<PathBuf> {
    let program = folder.join(name);
    let mut command = command(compiler, &["-O2", "-Wall", "-o"]);
    // The wrapper of HDF5 leaves an object file where it stands.
    command.current_dir(folder);
    command.arg(&program).args(before).arg(root().join("crates/bench/peer/datasets.c")).args(after);
    succeeds(&mut command).then_some(program)
}
