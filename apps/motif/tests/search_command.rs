//! The commands `generate` and `search` as processes: the same hits under each launcher, on any number of ranks and in each format of
//! the file; hits as an object file, in which a later search looks.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use aqueduct_testkit::launcher::TestLauncher;
use flate2::Compression;
use flate2::write::GzEncoder;

const CARG: &str = "CC(A|T){6}GG";
const PLANTED: &str = "CCATATATGGACGTACGTAC";

/// The output of a command that must succeed, on threads.
fn motif(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_motif"))
        .args(arguments)
        .env("AQUEDUCT_MPI", "none")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn genome(folder: &Path) -> String {
    let path = folder.join("genome.fa").display().to_string();
    motif(&["generate", &path, "--size", "2MiB", "--sequences", "5", "--plant", PLANTED]);
    path
}

/// The hits on one thread and, equal to the byte, under a launcher.
fn same_hits_under(launcher: &str) {
    let program = Path::new(env!("CARGO_BIN_EXE_motif"));
    let Some(launcher) = TestLauncher::find(launcher, program) else { return };
    let folder = tempfile::tempdir().unwrap();
    let genome = genome(folder.path());
    let search = ["search", CARG, &genome, "--format", "tsv", "--strands", "both"];
    let expected = motif(&[&search[..], &["-n", "1"]].concat());
    assert!(expected.lines().count() > 50, "{expected}");
    for (ranks, distribution) in [(1, "bytes"), (3, "bytes"), (3, "sequences"), (5, "bytes")] {
        let found = launcher.succeeds(ranks, &[&search[..], &["--distribute", distribution]].concat(), &[]);
        assert!(found == expected, "{ranks} ranks, {distribution}");
    }
}

#[test]
fn open_mpi_finds_the_same_hits() {
    same_hits_under("openmpi");
}

#[test]
fn mpich_finds_the_same_hits() {
    same_hits_under("mpich");
}

#[test]
fn a_later_search_looks_within_the_hits_of_an_object_file() {
    let folder = tempfile::tempdir().unwrap();
    let genome = genome(folder.path());
    let hits = folder.path().join("found.obj").display().to_string();
    let count = |arguments: &[&str]| motif(arguments).trim().parse::<usize>().unwrap();
    let boxes = count(&["search", CARG, &genome, "--hits", &hits, "--count", "-n", "3"]);
    let everywhere = count(&["search", "ACGTACGTAC", &genome, "--count"]);
    let within =
        count(&["search", "ACGTACGTAC", &genome, "--within", &hits, "--around", "20", "--count", "-n", "2"]);
    let planted = count(&["search", PLANTED, &genome, "--count"]);
    assert!(planted > 0 && boxes > planted);
    assert!(within >= planted && within <= everywhere, "{planted} {within} {everywhere}");
    let inside = count(&["search", "CCATATATGG", &genome, "--within", &hits, "--count"]);
    assert_eq!(inside, count(&["search", "CCATATATGG", &genome, "--count"]), "every one is a CArG box");
}

#[test]
fn compressed_files_have_the_same_hits() {
    let folder = tempfile::tempdir().unwrap();
    let genome = genome(folder.path());
    let text = fs::read(&genome).unwrap();
    let zipped = format!("{genome}.gz");
    let mut encoder = GzEncoder::new(fs::File::create(&zipped).unwrap(), Compression::fast());
    encoder.write_all(&text).unwrap();
    encoder.finish().unwrap();
    let hits = |path: &str, ranks: &str| motif(&["search", CARG, path, "--format", "tsv", "-n", ranks]);
    let places = |table: &str| {
        let columns = |line: &str| line.split('\t').skip(1).map(str::to_owned).collect::<Vec<_>>();
        table.lines().map(columns).collect::<Vec<_>>()
    };
    let expected = hits(&genome, "1");
    for ranks in ["1", "3"] {
        assert_eq!(places(&hits(&zipped, ranks)), places(&expected), "{ranks} ranks");
    }
}
