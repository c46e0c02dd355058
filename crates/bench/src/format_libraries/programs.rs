//! Programs that use parallel HDF5 and `PnetCDF`, 64 datasets or variables each: on the interposition library, and on the MPI-IO of
//! Open MPI. Each file is a new one. The time of a file and that of the whole job, from its start to its end, are compared.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{file_times, format_times};
use crate::table::{FigureTable, FigureTarget};
use crate::timing::best_and_median;
use crate::tools::{compile, folder, openmpi, preload_library};

/// Files that a program writes in one job.
const FILES: usize = 6;
/// Jobs of each candidate, in turn.
const ROUNDS: usize = 4;
/// Values of a dataset on each rank: 64 KiB, 1 MiB.
const DOUBLES: [usize; 2] = [8 << 10, 128 << 10];

/// The MPI-IO implementations. None: the preloaded library.
const IMPLEMENTATIONS: [(&str, Option<&str>); 3] =
    [("preload", None), ("ompio", Some("ompio")), ("romio", Some("romio321"))];

/// A program, its compiler wrapper, and the arguments before and after the source.
type ProgramSource = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const PROGRAMS: [ProgramSource; 2] = [
    ("PnetCDF", "mpicc.openmpi", &["-DNEW_FILES", "-DPNETCDF"], &["-lpnetcdf"]),
    ("HDF5", "h5pcc.openmpi", &["-DNEW_FILES"], &[]),
];

/// The least ratio of the better MPI-IO of Open MPI to the preloaded library, for a file and for a job.
const REQUIRED: f64 = 1.2;

pub(crate) fn run(words: &[&str]) -> Result<()> {
    if let Some(word) = words.first() {
        bail!("programs takes no argument {word}");
    }
    let folder = folder("peers")?;
    println!(
        "seconds of a file, best and median; ratio of the better MPI-IO of Open MPI to the preloaded library\n"
    );
    let mut table = FigureTable::default();
    for (name, compiler, before, after) in PROGRAMS {
        let target = folder.join(format!("programs.{}", name.to_lowercase()));
        let Some(program) = compile(compiler, before, "datasets.c", &target, after) else { continue };
        for (ranks, doubles) in [2, 4].into_iter().flat_map(|ranks| DOUBLES.map(|doubles| (ranks, doubles))) {
            compare(&mut table, name, &program, ranks, doubles)?;
        }
    }
    table.finish();
    Ok(())
}

/// Runs all implementations in turn and prints their times and ratio.
fn compare(table: &mut FigureTable, name: &str, program: &Path, ranks: usize, doubles: usize) -> Result<()> {
    // The times of the files, and of the jobs.
    let mut times = [(); IMPLEMENTATIONS.len()].map(|()| [Vec::new(), Vec::new()]);
    for _ in 0..ROUNDS {
        for ((implementation, io), [files, jobs]) in IMPLEMENTATIONS.iter().zip(&mut times) {
            let start = Instant::now();
            let new =
                job(program, ranks, doubles, *io).with_context(|| format!("{name}, {implementation}"))?;
            jobs.push(start.elapsed().as_secs_f64());
            files.extend(new);
        }
    }
    for (at, what) in ["a file", "a job"].into_iter().enumerate() {
        let figures = times.each_ref().map(|times| best_and_median(&times[at]));
        let [ours, theirs @ ..] = figures;
        let ratio =
            |at: usize| theirs.iter().map(|figure| figure[at]).fold(f64::INFINITY, f64::min) / ours[at];
        println!("    {}", format_times(IMPLEMENTATIONS.iter().map(|(name, _)| *name).zip(figures)));
        let label = format!("{name}, 64 × {} KiB on {ranks} ranks, {what}", doubles * 8 / 1024);
        table.row(&label, [ratio(0), ratio(1)], FigureTarget::AtLeast(REQUIRED));
    }
    Ok(())
}

fn job(program: &Path, ranks: usize, doubles: usize, io: Option<&str>) -> Result<Vec<f64>> {
    let mut job = openmpi(ranks, Some(120));
    match io {
        Some(io) => job.args(["--mca", "io", io]),
        None => job.arg("-x").arg(format!("LD_PRELOAD={}", preload_library().display())),
    };
    let file = folder("peers")?.join("datasets");
    file_times(job.arg(program).arg(file).args([doubles.to_string(), FILES.to_string()]))
}
