//! The lines of code of one collective write and of the read of a share, compared with plain MPI-IO that makes a file of the same bytes.

use std::fs;
use std::path::Path;
use std::process::Command;

use aqueduct::comm::Launch;
use aqueduct_sph::fluid::Fluid;
use aqueduct_sph::output::together;
use aqueduct_sph::record::ParticleRecord;
use aqueduct_testkit::launcher::TestLauncher;

/// The lines between a mark and `[end]`, without comments and empty ones.
fn lines(source: &str, mark: &str) -> usize {
    let (_, part) = source.split_once(&format!("[lines of code: {mark}]")).expect("the mark");
    let (part, _) = part.split_once("[end]").expect("the end");
    let is_code = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with("//") && !line.starts_with("/*") && !line.starts_with("*/")
    };
    part.lines().skip(1).filter(is_code).count()
}

#[test]
fn output_and_input_take_an_eighth_of_the_lines() {
    let ours = include_str!("../../src/output/together.rs");
    let plain = include_str!("../programs/plain_mpi_io.c");
    let count = |source: &str| (lines(source, "write"), lines(source, "read"));
    let (ours, plain) = (count(ours), count(plain));
    println!("lines of code to write and to read: {ours:?} with objects, {plain:?} with plain MPI-IO");
    assert!(ours.0 <= 7 && ours.1 <= 7, "{ours:?}");
    let (all, other) = (ours.0 + ours.1, plain.0 + plain.1);
    assert!(8 * all <= other, "{all} lines, plain MPI-IO {other}: more than an eighth");
}

/// The particle of the program in C.
fn example(id: u64) -> ParticleRecord {
    let number = |at: u64| (10 * id + at) as f64;
    ParticleRecord {
        scalars: (0..id % 3).map(number).collect(),
        vectors: (0..=id % 2).map(|row| [0, 1, 2].map(|axis| -number(3 * row + axis))).collect(),
        id,
        fluid: Fluid::from_code((id % 3) as u8).unwrap(),
    }
}

#[test]
fn plain_mpi_io_makes_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (program, plain, objects) = (path("plain_mpi_io"), path("plain"), path("objects"));
    let Some(launcher) = TestLauncher::find("mpich", Path::new(&program)) else { return };
    let source = Path::new("tests/programs/plain_mpi_io.c");
    let compiled = Command::new("mpicc.mpich")
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-o", &program])
        .arg(source)
        .status();
    assert!(compiled.expect("mpich has a compiler").success());
    launcher.succeeds(4, &["write", &plain], &[]);
    Launch::threads(4)
        .run(|world| {
            let rank = world.rank() as u64;
            let first = (0..rank).map(|other| 3 + other).sum::<u64>();
            let mine: Vec<ParticleRecord> = (first..first + 3 + rank).map(example).collect();
            together::write(world, &objects, &mine).map_err(|error| format!("{error:#}"))
        })
        .unwrap();
    assert!(fs::read(&plain).unwrap() == fs::read(&objects).unwrap(), "both programs write the same data");
    for ranks in [1, 3, 7] {
        let output = launcher.succeeds(ranks, &["read", &plain], &[]);
        assert_eq!(output.trim(), "18 particles, 18 as written");
        let read = |world: &aqueduct::comm::Comm| {
            together::read::<ParticleRecord>(world, &objects).map_err(|error| format!("{error:#}"))
        };
        let found = Launch::threads(ranks).run(read).unwrap().concat();
        assert_eq!(found, (0..18).map(example).collect::<Vec<_>>());
    }
}
