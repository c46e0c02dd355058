//! HDF5: whole files, their metadata and the values that it describes.

use std::path::Path;

use aqueduct_comm::Comm;
use aqueduct_formats::hdf5::{
    Datatype, Hdf5Compression, Hdf5CreateOptions, Hdf5DatasetOptions, Hdf5OpenOptions, numbers,
};
use aqueduct_formats::{Error, Result, Selection};
use aqueduct_testkit::external_tools::python;
use aqueduct_testkit::hdf5_checksums::repair_headers;

use crate::FuzzTarget;
use crate::input::{check_named, load, remove_all, run_rank, store};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    name: "hdf5_metadata",
    run,
    seeds,
    words: &[
        "OHDR", "OCHK", "TREE", "SNOD", "HEAP", "GCOL", "FRHP", "FHDB", "FHIB", "BTHD", "BTLF", "FAHD",
        "EAHD",
    ],
};

const NAME: &str = "memfs:fuzzed.h5";
/// Unwritten and compressed datasets up to this size are read.
const LARGEST_READ: u64 = 1 << 20;

fn run(input: &[u8]) -> bool {
    let mut repaired = input.to_vec();
    repair_headers(&mut repaired);
    run_rank(|world| {
        let mut accepted = false;
        for bytes in [input, &repaired] {
            store(world, NAME, bytes)?;
            accepted |= check_named(read_all(world, bytes.len()), NAME);
        }
        Ok::<_, Error>(accepted)
    })
}

fn read_all(world: &Comm, length: usize) -> Result<()> {
    let container = Hdf5OpenOptions::new().open(world, NAME)?;
    let mut outcome = Ok(());
    for (id, path) in container.datasets() {
        let dataset = container.describe(id)?;
        let (datatype, sparse) = (dataset.datatype.clone(), dataset.is_sparse());
        let _ = (dataset.elements(), dataset.stored(), dataset.rows(), container.complete(id));
        // Unwritten values and those of compressed chunks occupy all the memory that the caller asks for.
        if sparse
            && dataset.elements().is_none_or(|count| count.saturating_mul(datatype.size()) > LARGEST_READ)
        {
            continue;
        }
        let read = container.at(id, Selection::whole()).read_bytes();
        if let Ok(bytes) = &read {
            assert!(sparse || bytes.len() <= length, "{} bytes of {path:?} in {length}", bytes.len());
            let _ = numbers(&datatype, bytes);
        }
        if datatype == Datatype::VlenText {
            outcome = outcome.and(container.read_vlen_strings(id).map(drop));
        }
        outcome = outcome.and(read.map(drop));
    }
    outcome
}

/// A file with checksums: groups, attributes and chunk indexes of the latest version of the format.
const LATEST: &str = "
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], 'w', libver='latest') as file:
    file['group/x'] = np.arange(6.0)
    file['soft'] = h5py.SoftLink('/group/x')
    file.create_dataset('fixed', data=np.arange(12), chunks=(4,), compression='gzip', shuffle=True)
    file.create_dataset('grows', data=np.arange(12), chunks=(2,), maxshape=(None,))
    file.create_dataset('tree', data=np.ones((4, 4)), chunks=(2, 2), maxshape=(None, None), fletcher32=True)
    for number in range(12):
        file.attrs[f'attribute {number}'] = f'value {number}'
        file.create_group(f'many/g{number}')
";

fn seeds() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut files = vec![own_seed(folder.path())];
    let latest = folder.path().join("latest.h5");
    if let Some(python) = python("h5py") {
        let made = std::process::Command::new(python).args(["-c", LATEST]).arg(&latest).status();
        assert!(made.is_ok_and(|made| made.success()), "h5py writes a seed");
        files.push(std::fs::read(latest).expect("it was written"));
    }
    files
}

fn own_seed(folder: &Path) -> Vec<u8> {
    let path = folder.join("seed.h5");
    let name = path.to_str().expect("the temporary folder has a UTF-8 name");
    run_rank(|world| {
        remove_all(&[NAME]);
        let mut file = Hdf5CreateOptions::new().create(world, name)?;
        let packed = Hdf5DatasetOptions::new().chunk(&[3, 2]).compress(Hdf5Compression::default()).checksum();
        let (plain, chunked, packed) = file.define(|file| {
            file.attribute("/", "title", "a title")?;
            let plain = file.dataset::<f64>("/a/plain", &[4, 3])?;
            let chunked = file.extendible::<i32>("/a/chunked", &[6, 2], &[2, 2])?;
            Ok((plain, chunked, file.dataset_with::<i32>("/a/packed", &[6, 2], &packed)?))
        })?;
        file.at(plain, [0..4, 0..3]).all().write(&[1.5f64; 12])?;
        file.at(chunked, [0..6, 0..2]).all().write(&[7i32; 12])?;
        file.at(packed, [0..6, 0..2]).all().write(&[9i32; 12])?;
        file.close()?;
        load(world, name)
    })
}
