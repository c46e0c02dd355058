//! Our netCDF and HDF5 beside `PnetCDF` and parallel HDF5: the same data from the same launcher, one large dataset and 256 small ones.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::programs::{best_and_median, compile};
use crate::shell::{cargo, command, root, run};

/// Files that a program makes in one job.
const FILES: usize = 4;
/// Jobs of each contender, taking turns.
const ROUNDS: usize = 3;
const RANKS: usize = 2;

/// Datasets, values of each on each rank, and how many times as fast ours is to be.
const CASES: [(usize, usize, f64); 2] = [(1, 8 << 20, 1.5), (256, 512, 5.0)];

pub(crate) fn run_all() -> Result<()> {
    let folder = root().join("target/peers");
    std::fs::create_dir_all(&folder)?;
    let mut build = cargo(&["build", "--release", "--package", "aqueduct-bench", "--features", "hdf5"]);
    crate::test::with_hdf5(&mut build);
    run(&mut build)?;
    println!("\nseconds of a file, best and median; × theirs, by the medians\n");
    for (count, doubles, wanted) in CASES {
        for (format, rival) in [("netcdf", "PnetCDF"), ("hdf5", "parallel HDF5")] {
            let defined = format!("-DCOUNT={count}");
            let name = format!("datasets.{format}.{count}");
            let program = match format {
                "netcdf" => {
                    compile("mpicc.openmpi", &folder, &name, &["-DPNETCDF", &defined], &["-lpnetcdf"])
                }
                _ => compile("h5pcc.openmpi", &folder, &name, &[&defined], &[]),
            };
            let Some(program) = program else {
                println!("{rival}: n/a, its compiler wrapper or library for Open MPI is not there");
                continue;
            };
            race(&folder, &program, (format, rival), (count, doubles, wanted))?;
        }
    }
    Ok(())
}

fn race(folder: &Path, theirs: &Path, names: (&str, &str), case: (usize, usize, f64)) -> Result<()> {
    let ((format, rival), (count, doubles, wanted)) = (names, case);
    let (file, files) = (folder.join(format!("datasets.{format}")), FILES.to_string());
    let (counted, doubled) = (count.to_string(), doubles.to_string());
    let (mut ours_took, mut theirs_took) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut job = launched(&root().join("target/release/aqueduct-bench"));
        job.arg("datasets").arg(&file).args([format, &counted, &doubled, &files]);
        ours_took.extend(times(&mut job).with_context(|| format!("ours, {format}"))?);
        let mut job = launched(theirs);
        job.arg(&file).args([&doubled, &files]);
        theirs_took.extend(times(&mut job).with_context(|| rival.to_owned())?);
    }
    // A file that is left over is as large as the data.
    let _ = std::fs::remove_file(&file);
    let (ours, theirs) = (best_and_median(ours_took), best_and_median(theirs_took));
    let ratio = theirs[1] / ours[1];
    let verdict = if ratio >= wanted { "reached" } else { "NOT reached" };
    println!(
        "{format}, {count} × {} KiB on {RANKS} ranks each: ours {:.4} {:.4}, {rival} {:.4} {:.4}; {ratio:.2} ×, required {wanted} × {verdict}",
        doubles * 8 / 1024,
        ours[0],
        ours[1],
        theirs[0],
        theirs[1]
    );
    Ok(())
}

fn launched(program: &Path) -> Command {
    let mut job = command("timeout", &["120", "mpirun.openmpi", "--oversubscribe", "--bind-to", "none"]);
    job.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    job.args(["-n", &RANKS.to_string()]).arg(program);
    job
}

/// What each file of one job took; an error unless the program has read the same values back.
fn times(job: &mut Command) -> Result<Vec<f64>> {
    let output = job.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let verified = output.status.success() && text.lines().any(|line| line == "verified");
    ensure!(verified, "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(text.lines().filter_map(|line| line.strip_prefix("seconds ")?.parse().ok()).collect())
}
