//! Cell files written by a C program as `MarDyn` does: with an MPI datatype, and with cells that do not fill the box.

use std::path::{Path, PathBuf};
use std::process::Command;

use aqueduct_comm::{Comm, Launch};
use aqueduct_mardyn::{Error, Molecule, PhaseSpaceFiles, PhaseSpaceFormat, SpatialRegion};
use aqueduct_testkit::external_tools;
use aqueduct_testkit::launcher::TestLauncher;

const LENGTH: [f64; 3] = [2.5, 4.0, 3.0];
const HEADER: &str = "mardyn trunk 20120726\nt 0\nL 2.5 4 3\nC 2\n1 0 0 0 0\n0 0 0 1 1 1 0 0\n0 0 0\n\
    1 0 0 0 0\n0 0 0 1 1 1 0 0\n0 0 0\n1 1\n1e10\nN 40\nM ICRVQD\n";

/// Molecule `n` of the program.
fn molecule(n: u64) -> Molecule {
    let part = |d: usize, factor: u64, of: u64| LENGTH[d] * (n * factor % of) as f64 / 40.0;
    let x = part(0, 7, 40);
    let position = [x, part(1, 11, 40), part(2, 13, if x < 2.0 { 40 } else { 20 })];
    let number = |k: u64| 0.1 * k as f64 + n as f64;
    Molecule {
        id: 1000 + 7 * n,
        component: n % 2,
        position,
        velocity: [3, 4, 5].map(number),
        orientation: [6, 7, 8, 9].map(number),
        angular_momentum: [10, 11, 12].map(number),
    }
}

/// Compiles the program for an MPI library.
fn compile(mpi: &str, folder: &Path) -> Option<PathBuf> {
    let compiler = external_tools::command(&format!("mpicc.{mpi}"))?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/mpi_cell_writer.c");
    let program = folder.join(format!("mpi_cell_writer.{mpi}"));
    let status = Command::new(compiler).arg("-O1").arg("-o").arg(&program).arg(source).arg("-lm").status();
    assert!(status.unwrap().success());
    Some(program)
}

fn check_files_of_the_program(mpi: &str) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(program) = compile(mpi, folder.path()) else { return };
    let Some(launcher) = TestLauncher::find(mpi, &program) else { return };
    let path = |name: &str| folder.path().join(name).display().to_string();
    let files = PhaseSpaceFiles::two(path("run.restart"), path("run.restart.mpi"));
    launcher.succeeds(2, &[&files.data], &[]);
    std::fs::write(&files.header, HEADER).unwrap();
    let expected: Vec<Molecule> = (0..40).map(molecule).collect();
    for ranks in 1..=4 {
        let work = |world: &Comm| {
            let input = PhaseSpaceFormat::MpiIo.open(world, &files)?;
            let border = |rank: usize| LENGTH[0] * rank as f64 / ranks as f64;
            let (low, high) = (border(world.rank()), border(world.rank() + 1));
            let mine = input.read(&SpatialRegion::new([low, 0.0, 0.0], [high, LENGTH[1], LENGTH[2]]))?;
            assert!(mine.iter().all(|molecule| (low..high).contains(&molecule.position[0])));
            Ok::<_, Error>((mine, input.read_share()?))
        };
        let (read, shared): (Vec<_>, Vec<_>) = Launch::threads(ranks).run(work).unwrap().into_iter().unzip();
        for mut found in [read.concat(), shared.concat()] {
            found.sort_by_key(|molecule| molecule.id);
            assert!(found == expected, "on {ranks} ranks");
        }
    }
}

#[test]
fn files_written_with_openmpi_are_read() {
    check_files_of_the_program("openmpi");
}

#[test]
fn files_written_with_mpich_are_read() {
    check_files_of_the_program("mpich");
}
