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
        // Pieces are read ahead.
        let options = ["--distribute", distribution, "--buffer", "64KiB"];
        let found = launcher.succeeds(ranks, &[&search[..], &options].concat(), &[]);
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

/// Hits are of a file, not of the name that it was given.
#[test]
fn hits_are_found_again_by_another_name_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let genome = genome(folder.path());
    let other = folder.path().join("other.fa").display().to_string();
    motif(&["generate", &other, "--size", "64KiB", "--seed", "9", "--plant", PLANTED]);
    let hits = folder.path().join("found.obj").display().to_string();
    let found = motif(&["search", PLANTED, &genome, &other, "--hits", &hits, "--count", "-q"]);
    let within = |name: &str| {
        let words = ["search", "ACGTACGTAC", name, "--within", &hits, "--count", "-q", "-n", "2"];
        let output = Command::new(env!("CARGO_BIN_EXE_motif"))
            .args(words)
            .env("AQUEDUCT_MPI", "none")
            .current_dir(folder.path())
            .output()
            .unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(found, "290\n");
    for name in ["genome.fa", "./genome.fa", "ufs:genome.fa", "throttle=900MB/s:genome.fa"] {
        let (count, notes) = within(name);
        assert_eq!(count, "50\n", "{name}: {notes}");
        assert!(notes.contains("other.fa, which is not searched"), "{notes}");
    }
    fs::write(folder.path().join("unrelated.fa"), ">a\nACGTACGTACGT\n").unwrap();
    let (count, message) = within("unrelated.fa");
    assert!(count.is_empty() && message.contains("which is not one of the files"), "{count} {message}");
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

/// Hits of the box as (sequence, first residue from 1) in the table that `motif` prints.
fn box_places(genome: &str) -> Vec<(String, u64)> {
    let table = motif(&["search", CARG, genome, "--format", "tsv", "-n", "3"]);
    let place = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        columns[3].parse().ok().map(|start| (columns[2].to_owned(), start))
    };
    table.lines().filter_map(place).collect()
}

#[test]
fn grep_finds_the_same_places() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.fa").display().to_string();
    motif(&["generate", &path, "--size", "2MiB", "--sequences", "3", "--width", "0", "--plant", PLANTED]);
    // Two boxes cannot overlap, so that `grep -o` prints all of them.
    let found = Command::new("grep").args(["-obE", "CC(A|T){6}GG", &path]).output().unwrap();
    let text = fs::read(&path).unwrap();
    let mut expected = Vec::new();
    for line in String::from_utf8(found.stdout).unwrap().lines() {
        let at: usize = line.split(':').next().unwrap().parse().unwrap();
        let header = text[..at].iter().rposition(|byte| *byte == b'>').unwrap();
        let end = header + text[header..].iter().position(|byte| *byte == b'\n').unwrap();
        let name = String::from_utf8_lossy(&text[header + 1..end]);
        let name = name.split_whitespace().next().unwrap().to_owned();
        expected.push((name, (at - end) as u64));
    }
    assert!(expected.len() > 100, "{}", expected.len());
    assert_eq!(box_places(&path), expected);
}

/// [EMBOSS fuzznuc](https://emboss.sourceforge.net/apps/release/6.6/emboss/apps/fuzznuc.html), where it is installed.
#[test]
fn fuzznuc_finds_the_same_places() {
    if Command::new("fuzznuc").arg("-version").output().is_err() {
        println!("skipped: fuzznuc is missing (Debian package emboss)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let genome = genome(folder.path());
    let report = folder.path().join("fuzznuc.gff");
    let fuzznuc = |pattern: &str, mismatches: &str| {
        let status = Command::new("fuzznuc")
            .args(["-sequence", &genome, "-pattern", pattern, "-pmismatch", mismatches])
            .args(["-rformat", "gff", "-auto", "-outfile"])
            .arg(&report)
            .status();
        assert!(status.unwrap().success());
        let places = fs::read_to_string(&report).unwrap();
        let place = |line: &str| {
            let columns: Vec<&str> = line.split('\t').collect();
            (columns[0].to_owned(), columns[3].parse().unwrap())
        };
        let mut places: Vec<(String, u64)> =
            places.lines().filter(|line| !line.starts_with('#')).map(place).collect();
        places.sort();
        places
    };
    let mut boxes = box_places(&genome);
    boxes.sort();
    assert!(boxes.len() > 100);
    assert_eq!(fuzznuc("CC[AT](6)GG", "0"), boxes);
    let count = motif(&["search", "(CCATATATGG)/hamming(2)", &genome, "--count", "-n", "2"]);
    assert_eq!(fuzznuc("CCATATATGG", "2").len(), count.trim().parse::<usize>().unwrap());
}
