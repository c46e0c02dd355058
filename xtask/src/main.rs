//! Commands for development: `cargo xtask test`, `cargo xtask bench` and others.

mod bench;
mod big_endian;
mod fast;
mod gallery;
mod hosts;
mod mpi4py;
mod mpiio;
mod packages;
mod publishing;
mod python;
mod sanitize;
mod shell;
mod test;
mod wheels;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask test [STAGE…]        install missing packages, then run all stages of CI, or those named
cargo xtask test --fast          format, lints, unit tests and quick integration tests: two minutes, no MPI, no Python
cargo xtask prepare              install everything that tests need; prints the variables with its paths
cargo xtask mpiio                build the interposition library, target/release/libaqueduct_mpiio.so
cargo xtask hosts                run jobs of both MPI libraries and servers of remote memory on several hosts (network namespaces); needs root
cargo xtask wheel [--dev]        build the Python package, check it, and test it serially, on threads and under MPI; --dev builds
                                 what is built for tests anyhow
cargo xtask soak [MINUTES]       open files on many communicators for 10 minutes or MINUTES; memory, descriptors and threads must not grow
cargo xtask valgrind             run C programs on the interposition library under valgrind
cargo xtask sanitize address     run tests under AddressSanitizer; `thread` for ThreadSanitizer; needs nightly
    aqueduct-comm aqueduct-file  these packages only
cargo xtask miri                 run the tests of objects, layouts and codecs under Miri; needs nightly and its component miri
cargo xtask big-endian           run the tests of objects on an emulated s390x; needs qemu-user and a cross compiler
cargo xtask release-checks       install the tools of RELEASING.md and check packages, dependencies, spelling, API changes
cargo xtask bench [--list]       list the benchmarks
cargo xtask bench NAME …         run a benchmark with its arguments
cargo xtask gallery              make the plots and pictures of docs/images; some minutes on a quiet machine";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["test", "--fast"] => fast::run_all(),
        ["test", stages @ ..] => test::run_stages(stages),
        ["prepare"] => test::prepare(),
        ["mpiio"] => mpiio::build(),
        ["hosts"] => hosts::run_all(),
        ["wheel"] => python::test_wheel("release"),
        ["wheel", "--dev"] => python::test_wheel("dev"),
        ["soak"] => mpiio::soak(None),
        ["soak", minutes] => mpiio::soak(Some(minutes)),
        ["valgrind"] => mpiio::valgrind(),
        ["sanitize", sanitizer, packages @ ..] => sanitize::sanitize(sanitizer, packages),
        ["miri"] => sanitize::miri(),
        ["big-endian"] => big_endian::run_tests(),
        ["release-checks"] => publishing::check_release(),
        ["bench", words @ ..] => bench::start(words),
        ["gallery"] => gallery::make(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
