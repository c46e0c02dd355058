//! Comparison of constants with the headers of MPI implementations.
//!
//! A small C program prints the values of all expressions; it is compiled against each header there is. A missing header is said
//! and skipped; `AQUEDUCT_REQUIRE_MPI=1` makes that a failure.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use aqueduct_comm::abi::{Fact, MpiAbi};

use crate::launcher::which;

/// What is relied on of each implementation.
pub type Facts = fn(MpiAbi) -> Vec<Fact>;

/// Compares with Open MPI, as Debian has it.
pub fn open_mpi(facts: Facts) {
    let Some(compiler) = found("mpicc.openmpi", which("mpicc.openmpi")) else { return };
    compare(facts, MpiAbi::OpenMpi, "mpi.h", compiler.to_str().unwrap(), &["-ldl".into()]);
}

/// Compares with MPICH, as Debian has it; what would pass for anything is noticed.
pub fn mpich(facts: Facts) {
    let Some(compiler) = found("mpicc.mpich", which("mpicc.mpich")) else { return };
    let compiler = compiler.to_str().unwrap().to_owned();
    compare(facts, MpiAbi::Mpich, "mpi.h", &compiler, &[]);
    let wrong = std::panic::catch_unwind(|| compare(facts, MpiAbi::Standard, "mpi.h", &compiler, &[]));
    assert!(wrong.is_err(), "the constants of the standard interface pass for those of MPICH");
}

/// Compares with the standard interface of MPI 5, as the wheel of MPICH 5 has it.
pub fn standard(facts: Facts) {
    let Some(prefix) = found("the MPICH 5 wheel", wheel("AQUEDUCT_TEST_MPICH5")) else { return };
    compare(facts, MpiAbi::Standard, "mpi_abi.h", "cc", &[joined(&["-I"], &prefix.join("include"))]);
}

/// Compares with MPICH 5's own interface.
pub fn mpich_5(facts: Facts) {
    let Some(prefix) = found("the MPICH 5 wheel", wheel("AQUEDUCT_TEST_MPICH5")) else { return };
    compare(facts, MpiAbi::Mpich, "mpi.h", "cc", &[joined(&["-I"], &prefix.join("include"))]);
}

/// Compares with Open MPI 5.
pub fn open_mpi_5(facts: Facts) {
    let Some(prefix) = found("the Open MPI 5 wheel", wheel("AQUEDUCT_TEST_OPENMPI5")) else { return };
    let library = prefix.join("lib");
    let arguments = [
        joined(&["-I"], &prefix.join("include")),
        joined(&["-L"], &library),
        joined(&["-Wl,-rpath,"], &library),
        "-lmpi".into(),
        "-ldl".into(),
        // The wheel's library finds its own dependencies by its run path, which the linker does not follow.
        "-Wl,--allow-shlib-undefined".into(),
    ];
    compare(facts, MpiAbi::OpenMpi, "mpi.h", "cc", &arguments);
}

/// Prints one line per expression, its value as a long.
fn program(header: &str, facts: &[Fact]) -> String {
    let print = |fact: &Fact| format!("    printf(\"%ld\\n\", (long)({}));\n", fact.expression);
    let lines: String = facts.iter().map(print).collect();
    format!(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n\
         #include <{header}>\nint main(void) {{\n{lines}    return 0;\n}}\n"
    )
}

fn compare(facts: Facts, abi: MpiAbi, header: &str, compiler: &str, arguments: &[OsString]) {
    let facts = facts(abi);
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("facts.c"), folder.path().join("facts"));
    std::fs::write(&source, program(header, &facts)).unwrap();
    let compiled =
        Command::new(compiler).arg(&source).arg("-o").arg(&binary).args(arguments).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&binary).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let values: Vec<i64> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(values.len(), facts.len());
    for (fact, value) in facts.iter().zip(values) {
        assert_eq!(fact.value, value, "{abi:?}: {} in {header}", fact.expression);
    }
}

fn found(name: &str, path: Option<PathBuf>) -> Option<PathBuf> {
    let path = path.filter(|path| path.exists());
    if path.is_none() {
        assert!(env::var_os("AQUEDUCT_REQUIRE_MPI").is_none(), "{name} is required but not there");
        eprintln!("skipped: {name} is not there");
    }
    path
}

fn wheel(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from)
}

fn joined(words: &[&str], path: &Path) -> OsString {
    let mut word = OsString::from(words.concat());
    word.push(path);
    word
}
