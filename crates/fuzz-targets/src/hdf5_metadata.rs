//! HDF5: the metadata that the libhdf5 process reports about a file, and the values at the reported offsets.
//!
//! libhdf5 itself is not a target: it crashes on damaged files, so the command runs it in a separate process. The test `damaged` of
//! `crates/cli` mutates whole HDF5 files.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use aqueduct_comm::Comm;
use aqueduct_formats::hdf5::{Hdf5CreateOptions, Hdf5OpenOptions, numbers, probe};
use aqueduct_formats::{Error, Result, Selection};

use crate::FuzzTarget;
use crate::input::{check_named, join, load, remove_all, run_rank, split, store};

pub(crate) const TARGET: FuzzTarget =
    FuzzTarget { name: "hdf5_metadata", run, seeds, words: &["aqueduct_complete", "/", "//", "/a"] };

const NAME: &str = "memfs:fuzzed.h5";

/// The report that replaces that of libhdf5.
static REPORT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

#[expect(clippy::unnecessary_wraps, reason = "the signature of `Hdf5OpenOptions::probe_with`")]
fn report(_: &Path) -> std::result::Result<Vec<u8>, String> {
    Ok(REPORT.lock().unwrap_or_else(PoisonError::into_inner).clone())
}

fn run(input: &[u8]) -> bool {
    let (_, metadata, file) = split(input);
    *REPORT.lock().unwrap_or_else(PoisonError::into_inner) = metadata.to_vec();
    run_rank(|world| {
        store(world, NAME, file)?;
        Ok::<_, Error>(check_named(read_all(world, input.len()), NAME))
    })
}

fn read_all(world: &Comm, length: usize) -> Result<()> {
    let container = Hdf5OpenOptions::new().probe_with(report).open(world, NAME)?;
    let mut outcome = Ok(());
    for (id, path) in container.datasets() {
        let dataset = container.describe(id)?;
        let (datatype, sparse) = (dataset.datatype.clone(), dataset.is_sparse());
        let _ = (dataset.elements(), dataset.stored(), dataset.rows(), container.complete(id));
        // Unwritten values occupy no byte of the file, but all the memory that the caller asks for.
        if sparse {
            continue;
        }
        let read = container.at(id, Selection::whole()).read_bytes();
        if let Ok(bytes) = &read {
            assert!(bytes.len() <= length, "{} bytes of {path:?} in {length}", bytes.len());
            let _ = numbers(&datatype, bytes);
        }
        outcome = outcome.and(read.map(drop));
    }
    outcome
}

fn seeds() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("seed.h5");
    let name = path.to_str().expect("the temporary folder has a UTF-8 name");
    let file = run_rank(|world| {
        remove_all(&[NAME]);
        let mut file = Hdf5CreateOptions::new().create(world, name)?;
        let (plain, chunked) = file.define(|file| {
            file.attribute("/", "title", "a title")?;
            let plain = file.dataset::<f64>("/a/plain", &[4, 3])?;
            Ok((plain, file.extendible::<i32>("/a/chunked", &[6, 2], &[2, 2])?))
        })?;
        file.at(plain, [0..4, 0..3]).all().write(&[1.5f64; 12])?;
        file.at(chunked, [0..6, 0..2]).all().write(&[7i32; 12])?;
        file.close()?;
        load(world, name)
    });
    vec![join(0, &probe(&path).expect("libhdf5 reads the file"), &file)]
}
