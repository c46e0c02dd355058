//! Our netCDF and HDF5 against `PnetCDF` and parallel HDF5, in turn: one dataset of 400 MB, one of 16 MiB, and 256 small ones.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{file_times, format_times};
use crate::table::{FigureTable, FigureTarget};
use crate::timing::best_and_median;
use crate::tools::{compile, folder, openmpi};

const RANKS: usize = 2;

/// What is written, how often, and the required ratio.
struct FormatCase {
    datasets: usize,
    /// Values of each dataset on each rank.
    doubles: usize,
    /// Files that a program writes in one job.
    files: usize,
    /// Jobs of each candidate, in turn.
    rounds: usize,
    /// Of netCDF, and of HDF5 without filters.
    required: [f64; 2],
}

/// The first has the size of 3.3 million molecules, 400 MB. Smaller files are written more often: times of milliseconds vary more.
const CASES: [FormatCase; 3] = [
    FormatCase { datasets: 1, doubles: 25_000_000, files: 2, rounds: 4, required: [1.5, 2.2] },
    FormatCase { datasets: 1, doubles: 1 << 20, files: 20, rounds: 6, required: [1.5, 1.5] },
    FormatCase { datasets: 256, doubles: 512, files: 40, rounds: 8, required: [5.0, 5.6] },
];

/// A library with which a format of ours is compared, and how its program is compiled.
struct ReferenceLibrary {
    format: &'static str,
    name: &'static str,
    /// Whether it is only measured with many datasets.
    many: bool,
    compiler: &'static str,
    before: &'static [&'static str],
    after: &'static [&'static str],
}

impl ReferenceLibrary {
    /// Whether it is measured in a case: compression with one dataset of many chunks.
    fn takes(&self, case: &FormatCase) -> bool {
        if self.format == "hdf5-deflate" { case.doubles == 1 << 20 } else { !self.many || case.datasets > 1 }
    }

    /// The ratio that is required of a case.
    fn required(&self, case: &FormatCase) -> f64 {
        match self.format {
            "hdf5" => case.required[1],
            "hdf5-deflate" => 1.5,
            _ => case.required[0],
        }
    }

    /// The row of a case.
    fn label(&self, case: &FormatCase) -> String {
        let (datasets, kib) = (case.datasets, case.doubles * 8 / 1024);
        format!("{}, {datasets} × {kib} KiB on {RANKS} ranks / {}", self.format, self.name)
    }
}

/// `PnetCDF` with queued accesses, its fastest interface, and with one collective call for each variable, the usual one.
const REFERENCE_LIBRARIES: [ReferenceLibrary; 4] = [
    ReferenceLibrary {
        format: "netcdf",
        name: "PnetCDF, queued",
        many: false,
        compiler: "mpicc.openmpi",
        before: &["-DPNETCDF"],
        after: &["-lpnetcdf"],
    },
    ReferenceLibrary {
        format: "netcdf",
        name: "PnetCDF, a call per variable",
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
    ReferenceLibrary {
        format: "hdf5-deflate",
        name: "parallel HDF5, filtered",
        many: false,
        compiler: "h5pcc.openmpi",
        before: &["-DDEFLATE=131072"],
        after: &[],
    },
];

/// The MPI-IO implementations of Open MPI: the better one counts.
const IMPLEMENTATIONS: [&str; 2] = ["ompio", "romio321"];

pub(crate) fn run(words: &[&str]) -> Result<()> {
    if let Some(word) = words.first() {
        bail!("formats takes no argument {word}");
    }
    let folder = folder("peers")?;
    println!("seconds of a file, best and median; ratio of the reference library to ours\n");
    let mut table = FigureTable::default();
    for case in &CASES {
        let libraries = REFERENCE_LIBRARIES.iter().enumerate();
        for (number, library) in libraries.filter(|(_, library)| library.takes(case)) {
            let count = format!("-DCOUNT={}", case.datasets);
            let target = folder.join(format!("datasets.{number}.{}", case.datasets));
            let before: Vec<&str> = library.before.iter().copied().chain([count.as_str()]).collect();
            match compile(library.compiler, &before, "datasets.c", &target, library.after) {
                Some(program) => compare(&mut table, &program, library, case)?,
                None => table.missing(&library.label(case)),
            }
        }
    }
    table.finish();
    Ok(())
}

/// Runs ours and the library in turn and prints their times and ratio.
fn compare(
    table: &mut FigureTable,
    program: &Path,
    library: &ReferenceLibrary,
    case: &FormatCase,
) -> Result<()> {
    let file = folder("peers")?.join(format!("datasets.{}", library.format));
    let [datasets, doubles, files] =
        [case.datasets, case.doubles, case.files].map(|number| number.to_string());
    let (mut ours, mut theirs) = (Vec::new(), [(); IMPLEMENTATIONS.len()].map(|()| Vec::new()));
    for _ in 0..case.rounds {
        let mut job = openmpi(RANKS, Some(120));
        job.arg(std::env::current_exe()?).arg("datasets").arg(&file);
        job.args([library.format, &datasets, &doubles, &files]);
        ours.extend(file_times(&mut job).with_context(|| format!("ours, {}", library.format))?);
        for (io, theirs) in IMPLEMENTATIONS.iter().zip(&mut theirs) {
            let mut job = openmpi(RANKS, Some(120));
            job.args(["--mca", "io", io]).arg(program).arg(&file).args([&doubles, &files]);
            theirs.extend(file_times(&mut job).with_context(|| format!("{}, {io}", library.name))?);
        }
    }
    // The file is as large as the data.
    let _ = std::fs::remove_file(&file);
    let (ours, theirs) = (best_and_median(&ours), theirs.map(|times| best_and_median(&times)));
    let ratio = |at: usize| theirs.iter().map(|figure| figure[at]).fold(f64::INFINITY, f64::min) / ours[at];
    let named = std::iter::once(("ours", ours)).chain(IMPLEMENTATIONS.into_iter().zip(theirs));
    println!("    {}", format_times(named));
    let target = FigureTarget::AtLeast(library.required(case));
    table.row(&library.label(case), [ratio(0), ratio(1)], target);
    Ok(())
}
