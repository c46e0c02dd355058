//! Mutated HDF5 files of other programs: each is read or refused, without a panic, in bounded time and memory. In two of three files the checksums
//! of metadata blocks are computed anew, so that mutations reach what is decoded after them.
//!
//! `AQUEDUCT_MUTATIONS=100000` sets the number of files, `AQUEDUCT_SEED` the first seed.

#![cfg(feature = "hdf5")]

use std::path::Path;

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::hdf5::{Datatype, Hdf5OpenOptions};
use aqueduct_formats::{Result, Selection};
use aqueduct_testkit::external_tools::python;
use aqueduct_testkit::hdf5_checksums::ChecksummedBlocks;
use aqueduct_testkit::mutator::Mutator;
use aqueduct_testkit::rng::SeededRng;

/// The largest processor time for one file, in hundredths of a second; undamaged ones take some milliseconds.
const LONGEST: u64 = 1000;
/// The most additional memory, in KiB: 64 MiB, and what is read of one dataset.
const MOST_MEMORY: u64 = (64 << 10) + LARGEST_READ / 1024;
/// Datasets up to this size are read whole, of larger ones the first element.
const LARGEST_READ: u64 = 4 << 20;

/// The largest resident memory of this process so far, in KiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The processor time of this process so far, in hundredths of a second.
fn processor_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// Reads all that a file has; how many datasets were read and refused.
fn read_all(world: &Comm, path: &Path) -> Result<[u64; 2]> {
    let file = Hdf5OpenOptions::new().open(world, path)?;
    let mut counts = [0, 0];
    for (id, _) in file.datasets() {
        let dataset = file.describe(id)?;
        let bytes = dataset.elements().and_then(|count| count.checked_mul(dataset.datatype.size()));
        let done = if dataset.datatype == Datatype::VlenText {
            file.read_vlen_strings(id).map(drop)
        } else if bytes.is_some_and(|bytes| bytes <= LARGEST_READ) {
            file.at(id, Selection::whole()).all().read_bytes().map(drop)
        } else {
            let one = vec![0..1; dataset.shape.len()];
            file.at(id, &one[..]).all().read_bytes().map(drop)
        };
        counts[usize::from(done.is_err())] += 1;
    }
    file.close().map(|()| counts)
}

/// A mutated file: any bytes changed; the same with new checksums; or bytes of one block with a checksum changed.
fn mutated(seed: u64, originals: &[(Vec<u8>, ChecksummedBlocks)]) -> Vec<u8> {
    let random = &mut SeededRng::new(!seed);
    let (original, blocks) = &originals[random.below(originals.len())];
    match seed % 3 {
        0 => Mutator::new(seed, &[]).mutate(std::slice::from_ref(original)),
        1 => {
            let mut bytes = Mutator::new(seed, &[]).mutate(std::slice::from_ref(original));
            blocks.repair(&mut bytes);
            bytes
        }
        _ => {
            let mut bytes = original.clone();
            blocks.mutate(&mut bytes, random);
            bytes
        }
    }
}

#[test]
fn mutated_files_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(python) = python("h5py, netCDF4") else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/hdf5_corpus.py");
    let made = std::process::Command::new(python)
        .args(["-W", "ignore"])
        .arg(script)
        .arg(folder.path())
        .arg("mutated")
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let names = [
        "small-earliest.h5",
        "small-latest.h5",
        "filters-earliest.h5",
        "filters-latest.h5",
        "netcdf4.nc",
        "netcdf4-classic.nc",
        "matlab.mat",
        "paged.h5",
    ];
    let originals: Vec<(Vec<u8>, ChecksummedBlocks)> = names
        .iter()
        .map(|name| {
            let bytes = std::fs::read(folder.path().join(name)).unwrap();
            let blocks = ChecksummedBlocks::find(&bytes);
            assert!(!name.contains("latest") || blocks.len() > 50, "{name}: {} blocks", blocks.len());
            (bytes, blocks)
        })
        .collect();
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |given| given.parse().expect("a number"))
    };
    let (first, count) = (number("AQUEDUCT_SEED", 0), number("AQUEDUCT_MUTATIONS", 2000));
    let path = folder.path().join("mutated.h5");
    let totals = Launch::threads(1).run(|world| {
        let before = peak_memory();
        let [mut opened, mut refused, mut read, mut failed, mut sums] = [0u64; 5];
        for seed in first..first + count {
            std::fs::write(&path, mutated(seed, &originals)).unwrap();
            let start = processor_time();
            match read_all(world, &path) {
                Ok([good, bad]) => [opened, read, failed] = [opened + 1, read + good, failed + bad],
                Err(error) => {
                    assert!(error.to_string().contains("mutated.h5"), "AQUEDUCT_SEED={seed}: {error}");
                    refused += 1;
                    sums += u64::from(seed % 3 == 2 && error.to_string().contains("checksum is"));
                }
            }
            let memory = peak_memory().saturating_sub(before);
            let time = processor_time() - start;
            assert!(time < LONGEST, "AQUEDUCT_SEED={seed}: {time} hundredths of a second");
            assert!(memory < MOST_MEMORY, "AQUEDUCT_SEED={seed}: {memory} KiB");
        }
        eprintln!(
            "{count} files: {opened} opened, {refused} refused; {read} datasets read, {failed} refused"
        );
        eprintln!("{} KiB of memory", peak_memory().saturating_sub(before));
        // What is refused by its checksum is not decoded further.
        assert!(sums * 50 <= count, "{sums} of {count} files were refused by a checksum");
        Ok::<_, aqueduct_formats::Error>((opened, refused))
    });
    let (opened, refused) = totals.unwrap()[0];
    assert!(
        count < 100 || (opened * 20 > count && refused * 20 > count),
        "{opened} opened, {refused} refused"
    );
}
