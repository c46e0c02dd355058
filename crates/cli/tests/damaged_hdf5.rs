//! Damaged HDF5 files: the command reads them or reports an error. It never crashes, panics, hangs or allocates without bound.
//! `AQUEDUCT_MUTATIONS=20000` sets the number of files, `AQUEDUCT_SEED` the first seed.
#![cfg(feature = "hdf5")]

mod test_folder;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use aqueduct::comm::{Comm, Launch};
use aqueduct::hdf5::Hdf5CreateOptions;
use aqueduct::object::Object;
use aqueduct_testkit::external_tools::run_with;
use aqueduct_testkit::mutator::Mutator;
use aqueduct_testkit::rng::SeededRng;

use test_folder::TestFolder;

/// Limits of each process: memory in KiB, processor time in seconds.
const MEMORY: u64 = 3 << 20;
const SECONDS: u64 = 60;

#[derive(Object, Clone)]
struct Particle {
    id: u16,
    position: [f64; 2],
}

/// Writes two files: one of contiguous datasets, one of chunks and compound types.
fn write_files(folder: &TestFolder) {
    let write = |world: &Comm| {
        let mut file = Hdf5CreateOptions::new().create(world, folder.path("plain.h5"))?;
        let ids = file.define(|file| {
            file.attribute("/", "numbers", &[1i32, 2, 3][..])?;
            Ok([file.dataset::<f64>("/a/b/c", &[4, 3])?, file.dataset::<f64>("/a/d", &[12])?])
        })?;
        file.at(ids[0], [0..4, 0..3]).all().write(&[1.5f64; 12])?;
        file.at(ids[1], 0..12).all().write(&[2.5f64; 12])?;
        file.close()?;
        let mut file = Hdf5CreateOptions::new().create(world, folder.path("more.h5"))?;
        let (grows, particles) = file.define(|file| {
            file.attribute("/", "title", "a title")?;
            let grows = file.extendible::<i32>("/g/grows", &[6, 2], &[2, 2])?;
            Ok((grows, file.dataset::<Particle>("/particles", &[3])?))
        })?;
        file.at(grows, [0..6, 0..2]).all().write(&[7; 12])?;
        file.at(particles, 0..3).all().write(&vec![Particle { id: 3, position: [0.5; 2] }; 3])?;
        file.close()
    };
    Launch::threads(1).run(write).unwrap();
}

/// Runs the command with limits of memory and processor time.
fn limited(folder: &TestFolder, words: &[&str]) -> Output {
    let script = format!("ulimit -v {MEMORY} -t {SECONDS} -c 0; exec \"$@\"");
    let mut command = Command::new("bash");
    command.args(["-c", &script, "limited", env!("CARGO_BIN_EXE_aqueduct")]).args(words);
    command.current_dir(folder.path("")).output().unwrap()
}

#[test]
fn mutated_hdf5_files_are_read_or_rejected() {
    let folder = TestFolder::new();
    write_files(&folder);
    let mut names = vec!["plain.h5", "more.h5"];
    let paths = ["earliest.h5", "latest.h5", "links.h5"].map(|name| folder.path(name));
    let paths = paths.each_ref().map(|path| path.to_str().unwrap());
    if run_with("h5py", "hdf5_versions.py", &paths).is_some() {
        names.extend(["earliest.h5", "latest.h5"]);
    }
    let originals: Vec<Vec<u8>> = names.iter().map(|name| fs::read(folder.path(name)).unwrap()).collect();
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |given| given.parse().expect("a number"))
    };
    let (first, count) = (number("AQUEDUCT_SEED", 0), number("AQUEDUCT_MUTATIONS", 100));
    let (mut read, mut rejected) = (0, 0);
    for seed in first..first + count {
        let seeded = &mut SeededRng::new(seed);
        let bytes = Mutator::new(seed, &[]).mutate(&originals);
        fs::write(folder.path("changed.h5"), bytes).unwrap();
        let words: &[&str] = match seeded.below(4) {
            0 => &["inspect", "changed.h5"],
            1 => &["dump", "changed.h5"],
            2 => &["compare", "changed.h5", "plain.h5"],
            _ => &["verify", "changed.h5"],
        };
        let Output { status, stdout, stderr } = limited(&folder, words);
        let message = String::from_utf8_lossy(&stderr) + String::from_utf8_lossy(&stdout);
        let case = format!("AQUEDUCT_SEED={seed} {words:?}: {status}");
        assert!(
            status.signal().is_none() && status.code().is_some_and(|code| code <= 2),
            "{case}: {message}"
        );
        assert!(!message.contains("panicked"), "{case}: {message}");
        if status.success() {
            read += 1;
        } else {
            // Two readable files may differ in shape.
            assert!(words[0] == "compare" || message.contains("changed.h5"), "{case}: {message}");
            rejected += 1;
        }
    }
    eprintln!("{read} read, {rejected} rejected");
    assert!(count < 50 || (read * 20 > count && rejected * 20 > count), "{read} read, {rejected} rejected");
}

#[test]
fn exponentially_many_paths_to_groups_are_an_error() {
    let folder = TestFolder::new();
    let paths = ["a.h5", "b.h5", "links.h5"].map(|name| folder.path(name));
    let paths = paths.each_ref().map(|path| path.to_str().unwrap());
    if run_with("h5py", "hdf5_versions.py", &paths).is_none() {
        return;
    }
    let message = folder.exit_2(&["inspect", "links.h5"]);
    assert!(message.contains("links.h5") && message.contains("linked to again and again"), "{message}");
    for name in ["a.h5", "b.h5"] {
        let message = folder.succeed(&["inspect", name]);
        assert!(
            message.contains("/g3/inner/chunks i32 12 × 5") && message.contains("  @title = a title"),
            "{message}"
        );
    }
}
