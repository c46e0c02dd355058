//! HDF5 files that are damaged: the command reads them or says what is wrong; it never crashes, panics, waits without end or takes memory without
//! end, whatever the C library does. `AQUEDUCT_MUTATIONS=20000` looks at so many files, from `AQUEDUCT_SEED` on.
#![cfg(feature = "hdf5")]

mod folder;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use aqueduct::comm::{Comm, Launch};
use aqueduct::hdf5::Hdf5CreateOptions;
use aqueduct::object::Object;
use aqueduct_testkit::external_tools::run_with;
use aqueduct_testkit::mutator::Mutator;
use aqueduct_testkit::rng::SeededRng;

use folder::Folder;

/// KiB of memory, and seconds of processor time, for a command and for each process that it starts.
const MEMORY: u64 = 3 << 20;
const SECONDS: u64 = 60;

#[derive(Object, Clone)]
struct Particle {
    id: u16,
    position: [f64; 2],
}

/// What we write: a draft of our own, and what the library has added to one.
fn ours(folder: &Folder) {
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

/// The command with these words, with only so much memory and time.
fn limited(folder: &Folder, words: &[&str]) -> Output {
    let script = format!("ulimit -v {MEMORY} -t {SECONDS} -c 0; exec \"$@\"");
    let mut command = Command::new("bash");
    command.args(["-c", &script, "limited", env!("CARGO_BIN_EXE_aqueduct")]).args(words);
    command.current_dir(folder.path("")).output().unwrap()
}

#[test]
fn changed_files_are_read_or_refused() {
    let folder = Folder::new();
    ours(&folder);
    let mut names = vec!["plain.h5", "more.h5"];
    let paths = ["earliest.h5", "latest.h5", "links.h5"].map(|name| folder.path(name));
    let paths = paths.each_ref().map(|path| path.to_str().unwrap());
    if run_with("h5py", "foreign.py", &paths).is_some() {
        names.extend(["earliest.h5", "latest.h5"]);
    }
    let originals: Vec<Vec<u8>> = names.iter().map(|name| fs::read(folder.path(name)).unwrap()).collect();
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |given| given.parse().expect("a number"))
    };
    let (first, count) = (number("AQUEDUCT_SEED", 0), number("AQUEDUCT_MUTATIONS", 100));
    let (mut read, mut refused, mut survived) = (0, 0, 0);
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
        let told = String::from_utf8_lossy(&stderr) + String::from_utf8_lossy(&stdout);
        let case = format!("AQUEDUCT_SEED={seed} {words:?}: {status}");
        assert!(status.signal().is_none() && status.code().is_some_and(|code| code <= 2), "{case}: {told}");
        // What the child has said may be quoted.
        assert!(!told.starts_with("thread"), "{case}: {told}");
        if status.success() {
            read += 1;
        } else {
            // The shapes of two files that can both be read may differ.
            assert!(words[0] == "compare" || told.contains("changed.h5"), "{case}: {told}");
            refused += 1;
        }
        if told.contains("crashes in it") || told.contains("circles in it") {
            eprintln!("{case}: {}", told.lines().next().unwrap_or_default());
            survived += 1;
        }
    }
    eprintln!(
        "{read} read, {refused} refused, of which {survived} the library would not have come back from"
    );
    assert!(count < 50 || (read * 20 > count && refused * 20 > count), "{read} read, {refused} refused");
}

#[test]
fn groups_that_are_linked_to_again_and_again_end() {
    let folder = Folder::new();
    let paths = ["a.h5", "b.h5", "links.h5"].map(|name| folder.path(name));
    let paths = paths.each_ref().map(|path| path.to_str().unwrap());
    if run_with("h5py", "foreign.py", &paths).is_none() {
        return;
    }
    let told = folder.refused(&["inspect", "links.h5"]);
    assert!(told.contains("links.h5") && told.contains("linked to again and again"), "{told}");
    for name in ["a.h5", "b.h5"] {
        let told = folder.said(&["inspect", name]);
        assert!(
            told.contains("/g3/inner/chunks i32 12 × 5") && told.contains("  @title = a title"),
            "{told}"
        );
    }
}
