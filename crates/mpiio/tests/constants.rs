//! Every constant and layout that we rely on, compared with each MPI implementation's own header.
//!
//! A small C program prints the values of all expressions; it is compiled against each header there is. A missing header is said
//! and skipped; `AQUEDUCT_REQUIRE_MPI=1` makes that a failure.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use aqueduct_comm::abi::{Fact, Flavour};
use aqueduct_mpiio::flavour::facts;

/// Prints one line per expression, its value as a long.
fn program(header: &str, facts: &[Fact]) -> String {
    let print = |fact: &Fact| format!("    printf(\"%ld\\n\", (long)({}));\n", fact.expression);
    let lines: String = facts.iter().map(print).collect();
    format!(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n\
         #include <{header}>\nint main(void) {{\n{lines}    return 0;\n}}\n"
    )
}

fn compare(flavour: Flavour, header: &str, compiler: &str, arguments: &[OsString]) {
    let facts = facts(flavour);
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
        assert_eq!(fact.value, value, "{flavour:?}: {} in {header}", fact.expression);
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

fn in_path(command: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(command)).find(|path| path.is_file())
}

fn wheel(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from)
}

fn joined(words: &[&str], path: &Path) -> OsString {
    let mut word = OsString::from(words.concat());
    word.push(path);
    word
}

#[test]
fn open_mpi() {
    let Some(compiler) = found("mpicc.openmpi", in_path("mpicc.openmpi")) else { return };
    compare(Flavour::OpenMpi, "mpi.h", compiler.to_str().unwrap(), &["-ldl".into()]);
}

#[test]
fn mpich() {
    let Some(compiler) = found("mpicc.mpich", in_path("mpicc.mpich")) else { return };
    compare(Flavour::Mpich, "mpi.h", compiler.to_str().unwrap(), &[]);
}

#[test]
fn standard() {
    let Some(prefix) = found("the MPICH 5 wheel", wheel("AQUEDUCT_TEST_MPICH5")) else { return };
    compare(Flavour::Standard, "mpi_abi.h", "cc", &[joined(&["-I"], &prefix.join("include"))]);
}

#[test]
fn mpich_5() {
    let Some(prefix) = found("the MPICH 5 wheel", wheel("AQUEDUCT_TEST_MPICH5")) else { return };
    compare(Flavour::Mpich, "mpi.h", "cc", &[joined(&["-I"], &prefix.join("include"))]);
}

#[test]
fn open_mpi_5() {
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
    compare(Flavour::OpenMpi, "mpi.h", "cc", &arguments);
}

#[test]
fn a_wrong_constant_is_noticed() {
    let Some(compiler) = found("mpicc.mpich", in_path("mpicc.mpich")) else { return };
    let compiler = compiler.to_str().unwrap().to_owned();
    let wrong = std::panic::catch_unwind(|| compare(Flavour::Standard, "mpi.h", &compiler, &[]));
    assert!(wrong.is_err(), "the constants of the standard interface pass for those of MPICH");
}
