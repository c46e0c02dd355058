//! HDF5 files of h5py with unallocated storage, which is read as the fill value; and variable-length strings.
#![cfg(feature = "hdf5")]

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::hdf5::{Datatype, Hdf5File, Hdf5OpenOptions};
use aqueduct_formats::{Kind, Result, Selection};
use aqueduct_object::Object;
use aqueduct_testkit::external_tools;

#[derive(Object, Clone, Debug, PartialEq)]
struct Particle {
    id: u32,
    position: [f64; 3],
    charged: bool,
}

fn all<T: Object>(file: &Hdf5File, path: &str) -> Result<Vec<T>> {
    file.at(file.dataset(path)?, Selection::whole()).all().read_vec()
}

/// The values of a dataset of 5 × 7 of which two chunks of 2 × 3 were written.
fn partly(fill: f64) -> Vec<f64> {
    let mut values = vec![fill; 35];
    values[0..2].copy_from_slice(&[1.0, 2.0]);
    values[3 * 7 + 4] = 34.0;
    values
}

fn read(file: &Hdf5File) -> Result<()> {
    assert_eq!(all::<i32>(file, "empty/zeros")?, [0; 12]);
    assert_eq!(all::<i32>(file, "empty/sevens")?, [7; 12]);
    assert_eq!(all::<f64>(file, "empty/single")?, [2.5]);
    let particle = Particle { id: 3, position: [0.75, 1.0, 1.25], charged: true };
    assert_eq!(all::<Particle>(file, "empty/particles")?, vec![particle; 3]);
    assert_eq!(all::<i64>(file, "whole")?, [0, 1, 2, 3, 4, 5]);
    // A part of a dataset that is larger than memory.
    let huge = file.dataset("empty/huge")?;
    assert_eq!(file.at(huge, 999_999_999_999_990..1_000_000_000_000_000).all().read_vec::<f64>()?, [0.5; 10]);
    let error = file.at(huge, Selection::whole()).all().read_vec::<f64>().unwrap_err();
    assert!(error.to_string().contains("read it in parts"), "{error}");
    Ok(())
}

fn read_chunks(file: &Hdf5File) -> Result<()> {
    assert_eq!(all::<u16>(file, "empty/chunks")?, [9; 35]);
    assert_eq!(all::<f64>(file, "part/zeros")?, partly(0.0));
    assert_eq!(all::<f64>(file, "part/filled")?, partly(-1.5));
    // An independent read with strides over allocated and unallocated chunks, and of an unallocated dataset. The memory held other values before.
    let (mut some, mut none) = ([77.0; 6], [77i32; 2]);
    let mut queue = file.queue();
    queue.get(file.dataset("part/filled")?, Selection::block([1, 0], [2, 3]).stride([2, 2]), &mut some);
    queue.get(file.dataset("empty/sevens")?, [1..2, 1..3], &mut none);
    queue.run()?;
    assert_eq!((some, none), ([-1.5, -1.5, -1.5, -1.5, -1.5, 34.0], [7, 7]));
    Ok(())
}

fn read_texts(file: &Hdf5File) -> Result<()> {
    let text = file.dataset("text")?;
    assert_eq!(file.describe(text)?.datatype, Datatype::VlenText);
    assert_eq!(file.read_vlen_strings(text)?, ["ab", "", "ä".repeat(40).as_str()]);
    assert_eq!(file.read_vlen_strings(file.dataset("ascii")?)?, ["x", "yz"]);
    assert_eq!(file.read_vlen_strings(file.dataset("unwritten_text")?)?, ["", ""]);
    assert_eq!(file.read_vlen_strings(file.dataset("whole")?).unwrap_err().kind(), Kind::WrongType);
    let error = file.at(text, Selection::whole()).all().read_vec::<u64>().unwrap_err();
    assert!(error.to_string().contains("text of any length"), "{error}");
    Ok(())
}

#[test]
fn unallocated_storage_is_read_as_the_fill_value() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for userblock in ["0", "512"] {
        let path = folder.path().join(format!("sparse-{userblock}.h5"));
        let shown = path.to_str().expect("UTF-8");
        let Some(printed) = external_tools::run_with("h5py", "hdf5_peer.py", &["sparse", shown, userblock])
        else {
            return;
        };
        assert_eq!(printed, "sparse\n");
        let check = |world: &Comm| {
            let file = Hdf5OpenOptions::new().open(world, &path)?;
            read(&file)?;
            read_texts(&file)?;
            read_chunks(&file)?;
            file.close()
        };
        Launch::threads(2).run(check).unwrap();
        if userblock != "0" {
            continue;
        }
        // Allocated chunks are written; writes to others are errors on all ranks.
        let write = |world: &Comm| {
            let file = Hdf5OpenOptions::new().writable().open(world, &path)?;
            let part = file.dataset("part/filled")?;
            let rank = world.rank() as u64;
            let error = file.at(part, [4..5, rank..rank + 1]).all().write(&[0.5]).unwrap_err();
            assert!(error.to_string().contains("never given a place"), "{error}");
            file.at(part, [rank..rank + 1, 0..2]).all().write(&[1.0, 2.0])?;
            let mut expected = partly(-1.5);
            expected[7..9].copy_from_slice(&[1.0, 2.0]);
            assert_eq!(all::<f64>(&file, "part/filled")?, expected);
            file.close()
        };
        Launch::threads(2).run(write).unwrap();
    }
}
