//! All benchmarks of the project. `cargo xtask bench NAME` builds and runs them; `README.md` describes what is measured.

mod applications;
mod cases;
mod format_libraries;
mod in_process;
mod messages;
mod peers;
mod table;
mod tools;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use aqueduct::comm::{Comm, Launch};
use aqueduct_patterns::timing;

struct Benchmark {
    name: &'static str,
    summary: &'static str,
    run: fn(&[&str]) -> Result<()>,
}

const BENCHMARKS: [Benchmark; 16] = [
    Benchmark {
        name: "foundations",
        summary: "devices and collective calls against system calls and memcpy",
        run: in_process::foundations::run,
    },
    Benchmark {
        name: "objects",
        summary: "object files against raw files [sizes|opening|particles|projection]… [--quick]",
        run: in_process::objects::run,
    },
    Benchmark {
        name: "streams",
        summary: "cost and overlap of asynchronous output [visible|overlap|slowed|choice|overflow|cuboids]…",
        run: in_process::streams::run,
    },
    Benchmark {
        name: "buffering",
        summary: "cost and overlap of buffered files [visible|computing|overflow]… [--quick]",
        run: in_process::buffering::run,
    },
    Benchmark {
        name: "checkpoint",
        summary: "cell files, phase spaces, checkpoints [cells|linear|ascii|waiting]… [MOLECULES]",
        run: in_process::checkpoint::run,
    },
    Benchmark {
        name: "peers",
        summary: "the engine against MPI-IO of Open MPI (OMPIO, ROMIO) and MPICH; 25 minutes; see `peers --help`",
        run: peers::run,
    },
    Benchmark {
        name: "formats",
        summary: "netCDF and HDF5 against PnetCDF and parallel HDF5",
        run: format_libraries::formats::run,
    },
    Benchmark {
        name: "hdf5",
        summary: "compressed HDF5 and files of many datasets against h5py and the C library [MIB]",
        run: hdf5_benchmark,
    },
    Benchmark {
        name: "programs",
        summary: "PnetCDF and parallel HDF5 on the interposition library against their own MPI-IO",
        run: format_libraries::programs::run,
    },
    Benchmark {
        name: "python",
        summary: "the Python package against Rust, parallel h5py, h5py and numpy [--quick]",
        run: format_libraries::python::run,
    },
    Benchmark {
        name: "motif",
        summary: "sequence search against other tools; parallel input [exact|tools|approximate|input]… [--quick]",
        run: applications::motif::run,
    },
    Benchmark {
        name: "wave",
        summary: "ultrasound: speed, and output in each mode [speed|sizes|slice|boxes|points|drain|buffers|group|checkpoint]… [--quick|--large]",
        run: applications::wave::run,
    },
    Benchmark {
        name: "sph",
        summary: "output of 10^6 particles against a raw collective write [--quick]",
        run: applications::sph::run,
    },
    Benchmark {
        name: "fmm",
        summary: "stored steps of all ranks, and in the background, against rank 0 alone [--quick]",
        run: applications::fmm::run,
    },
    Benchmark {
        name: "tunnel",
        summary: "remote memory against a bare socket [contiguous|latency|patterns|clients|snapshot]… [--quick]",
        run: in_process::tunnel::run,
    },
    Benchmark {
        name: "messages",
        summary: "messages of objects against derived datatypes of MPI",
        run: messages::run,
    },
];

/// Jobs that `peers`, `formats`, `hdf5` and `messages` start.
const JOBS: [&str; 8] =
    ["time", "verify", "memory", "lifetime", "overlap", "datasets", "hdf5-job", "message-job"];

#[cfg(feature = "hdf5")]
fn hdf5_benchmark(words: &[&str]) -> Result<()> {
    format_libraries::hdf5::run(words)
}

#[cfg(not(feature = "hdf5"))]
fn hdf5_benchmark(_: &[&str]) -> Result<()> {
    bail!("this program was built without HDF5, which is a default feature")
}

const JOB_USAGE: &str = "\
aqueduct-bench time|verify|memory FILE CASE…    cases such as tiles:collective:write:1048576:cached
aqueduct-bench lifetime FILE CASE…              cases such as tiles:collective:write:1048576:new
aqueduct-bench overlap FILE
aqueduct-bench datasets FILE netcdf|hdf5 COUNT DOUBLES ROUNDS
aqueduct-bench hdf5-job FILE write|read MIB, define DATASETS ATTRIBUTES, shapes|attributes ROUNDS
aqueduct-bench message-job trivial|padded COUNT
FILE.cached and FILE.direct must exist and be large enough.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        [] | ["--list" | "--help"] => {
            print_list();
            Ok(())
        }
        [name, rest @ ..] => match BENCHMARKS.iter().find(|benchmark| benchmark.name == *name) {
            Some(benchmark) => (benchmark.run)(rest),
            None if JOBS.contains(name) => run_job(&arguments),
            None => Err(anyhow!("there is no benchmark {name}; `cargo xtask bench --list` prints them all")),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("aqueduct-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn print_list() {
    for Benchmark { name, summary, .. } in &BENCHMARKS {
        println!("{name:12} {summary}");
    }
}

/// Runs a job on this rank, or on thread ranks.
fn run_job(words: &[String]) -> Result<()> {
    let job = |world: &Comm| job(world, words).map_err(|error| format!("{error:#}"));
    Launch::from_env()?.run(job)?;
    Ok(())
}

fn job(world: &Comm, words: &[String]) -> Result<()> {
    if let [verb, rest @ ..] = words
        && verb == "message-job"
    {
        return messages::job(world, rest);
    }
    let [verb, file, rest @ ..] = words else {
        bail!("FILE is missing\n{JOB_USAGE}");
    };
    let file = Path::new(file);
    match verb.as_str() {
        "overlap" => cases::overlap::run(world, file),
        "datasets" => format_libraries::dataset_program::run(world, file, rest),
        #[cfg(feature = "hdf5")]
        "hdf5-job" => format_libraries::hdf5_program::run(world, file, rest),
        _ => cases::run(world, verb, file, rest),
    }
}
