//! HDF5: whole files, their metadata and the values that it describes.

use aqueduct_comm::Comm;
use aqueduct_formats::hdf5::{Datatype, Hdf5CreateOptions, Hdf5OpenOptions, numbers};
use aqueduct_formats::{Error, Result, Selection};

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
    run_rank(|world| {
        store(world, NAME, input)?;
        Ok::<_, Error>(check_named(read_all(world, input.len()), NAME))
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
    vec![file]
}
