//! Our netCDF and HDF5 beside `PnetCDF` and parallel HDF5: the same data from the same launcher, in turn. One large dataset, a middling one, and 256
//! small ones.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::programs::{best_and_median, compile};
use crate::shell::{cargo, command, root, run};

const RANKS: usize = 2;

/// What is written, how often, and how many times as fast ours is to be.
struct FormatCase {
    datasets: usize,
    /// Values of each dataset on each rank.
    doubles: usize,
    /// Files that a program makes in one job.
    files: usize,
    /// Jobs of each contender, taking turns.
    rounds: usize,
    required: f64,
}

/// The first is what 3.3 million molecules have, 400 MB. The smaller the files, the more of them: a few milliseconds are easily disturbed.
const CASES: [FormatCase; 3] = [
    FormatCase { datasets: 1, doubles: 25_000_000, files: 2, rounds: 4, required: 1.5 },
    FormatCase { datasets: 1, doubles: 1 << 20, files: 20, rounds: 6, required: 1.5 },
    FormatCase { datasets: 256, doubles: 512, files: 40, rounds: 8, required: 5.0 },
];

/// A format, whose library ours runs against and in which way, and how a program of that is compiled.
struct ReferenceLibrary {
    format: &'static str,
    name: &'static str,
    /// Whether it differs from the others only where there are many datasets.
    many: bool,
    compiler: &'static str,
    before: &'static [&'static str],
    after: &'static [&'static str],
}

/// `PnetCDF` in its best way, and in the one that most programs take.
const REFERENCE_LIBRARIES: [ReferenceLibrary; 3] = [
    ReferenceLibrary {
        format: "netcdf",
        name: "PnetCDF, all queued",
        many: false,
        compiler: "mpicc.openmpi",
        before: &["-DPNETCDF"],
        after: &["-lpnetcdf"],
    },
    ReferenceLibrary {
        format: "netcdf",
        name: "PnetCDF, a call each",
        many: true,
        compiler: "mpicc.openmpi",
        before: &["-DPNETCDF", "-DBLOCKING"],
        after: &["-lpnetcdf"],
    },
    ReferenceLibrary {
        format: "hdf5",
        name: "parallel HDF5",
        many: false,
        compiler: "h5pcc.openmpi",
        before: &[],
        after: &[],
    },
];

/// The two ways in which Open MPI comes to files: ours is compared with the better one.
const WAYS: [&str; 2] = ["ompio", "romio321"];

pub(crate) fn run_all() -> Result<()> {
    let folder = root().join("target/peers");
    std::fs::create_dir_all(&folder)?;
    let mut build = cargo(&["build", "--release", "--package", "aqueduct-bench", "--features", "hdf5"]);
    crate::test::with_hdf5(&mut build);
    run(&mut build)?;
    println!(
        "\nseconds of a file, best and median; × the better one of theirs, by the medians and by the best\n"
    );
    for case in &CASES {
        for (number, rival) in
            REFERENCE_LIBRARIES.iter().enumerate().filter(|(_, rival)| !rival.many || case.datasets > 1)
        {
            let defined = format!("-DCOUNT={}", case.datasets);
            let name = format!("datasets.{number}.{}", case.datasets);
            let before: Vec<&str> = rival.before.iter().copied().chain([defined.as_str()]).collect();
            match compile(rival.compiler, &folder, &name, &before, rival.after) {
                Some(program) => compare_times(&folder, &program, rival, case)?,
                None => {
                    println!(
                        "{}: n/a, its compiler wrapper or library for Open MPI is not there",
                        rival.name
                    );
                }
            }
        }
    }
    Ok(())
}

fn compare_times(folder: &Path, program: &Path, rival: &ReferenceLibrary, case: &FormatCase) -> Result<()> {
    let file = folder.join(format!("datasets.{}", rival.format));
    let [datasets, doubles, files] =
        [case.datasets, case.doubles, case.files].map(|number| number.to_string());
    let (mut ours, mut theirs) = (Vec::new(), vec![Vec::new(); WAYS.len()]);
    for _ in 0..case.rounds {
        let mut job = launched(&[], &root().join("target/release/aqueduct-bench"));
        job.arg("datasets").arg(&file).args([rival.format, &datasets, &doubles, &files]);
        ours.extend(times(&mut job).with_context(|| format!("ours, {}", rival.format))?);
        for (way, theirs) in WAYS.iter().zip(&mut theirs) {
            let mut job = launched(&["--mca", "io", way], program);
            job.arg(&file).args([&doubles, &files]);
            theirs.extend(times(&mut job).with_context(|| format!("{}, {way}", rival.name))?);
        }
    }
    // A file that is left over is as large as the data.
    let _ = std::fs::remove_file(&file);
    let (ours, theirs) = (best_and_median(ours), theirs.into_iter().map(best_and_median));
    let theirs: Vec<[f64; 2]> = theirs.collect();
    let ratio =
        |which: usize| theirs.iter().map(|figure| figure[which]).fold(f64::INFINITY, f64::min) / ours[which];
    let ([best, median], required) = ([ratio(0), ratio(1)], case.required);
    let shown: Vec<String> = WAYS
        .iter()
        .zip(&theirs)
        .map(|(way, [best, median])| format!("{way} {best:.4} {median:.4}"))
        .collect();
    println!(
        "{}, {datasets} × {} KiB on {RANKS} ranks each: ours {:.4} {:.4}, {}: {}; {median:.2} × ({best:.2} ×), required {required} × {}",
        rival.format,
        case.doubles * 8 / 1024,
        ours[0],
        ours[1],
        rival.name,
        shown.join(", "),
        if median >= required { "reached" } else { "NOT reached" },
    );
    Ok(())
}

fn launched(words: &[&str], program: &Path) -> Command {
    let mut job = command("timeout", &["120", "mpirun.openmpi", "--oversubscribe", "--bind-to", "none"]);
    job.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    job.args(words).args(["-n", &RANKS.to_string()]).arg(program);
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
