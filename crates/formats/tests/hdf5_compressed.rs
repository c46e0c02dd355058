//! HDF5 datasets with filters, written by several ranks and read by h5py: whole chunks, chunks that ranks share, steps, rewritten chunks.
#![cfg(feature = "hdf5")]

use std::path::Path;

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::hdf5::{Hdf5Compression, Hdf5CreateOptions, Hdf5DatasetOptions, Hdf5OpenOptions};
use aqueduct_formats::{Kind, Result, Selection};
use aqueduct_testkit::external_tools;

const ROWS: u64 = 37;
const COLUMNS: u64 = 50;
const STEPS: u64 = 5;

fn value(row: u64, column: u64) -> f64 {
    ((row * COLUMNS + column) / 7) as f64
}

/// The columns of a rank; the last rank has none if there are more than two.
fn columns(world: &Comm) -> std::ops::Range<u64> {
    let ranks = if world.size() > 2 { world.size() - 1 } else { world.size() } as u64;
    let rank = (world.rank() as u64).min(ranks);
    COLUMNS * rank / ranks..COLUMNS * (rank + 1).min(ranks) / ranks
}

fn rows_of(rows: std::ops::Range<u64>, columns: &std::ops::Range<u64>) -> Vec<f64> {
    rows.flat_map(|row| columns.clone().map(move |column| value(row, column))).collect()
}

fn write(world: &Comm, path: &Path) -> Result<()> {
    let mut file = Hdf5CreateOptions::new().replace().without_sync().create(world, path)?;
    let chunked = |chunk: &[u64]| Hdf5DatasetOptions::new().chunk(chunk);
    let (fixed, steps, zstd, summed, plain) = file.define(|file| {
        let deflate = chunked(&[8, 16]).compress(Hdf5Compression::Deflate(6));
        let fixed = file.dataset_with::<f64>("deep/fixed", &[ROWS, COLUMNS], &deflate)?;
        let rows = chunked(&[2, 16]).extendible().compress(Hdf5Compression::default()).checksum();
        let steps = file.dataset_with::<f64>("steps", &[0, COLUMNS], &rows)?;
        let zstd = chunked(&[8, 16]).compress(Hdf5Compression::Zstd(3));
        let zstd = file.dataset_with::<f64>("zstd", &[ROWS, COLUMNS], &zstd)?;
        let summed = file.dataset_with::<f64>("summed", &[ROWS, COLUMNS], &chunked(&[5, 50]).checksum())?;
        file.attribute("deep/fixed", "unit", "Pa")?;
        Ok((fixed, steps, zstd, summed, file.dataset::<f64>("plain", &[ROWS, COLUMNS])?))
    })?;
    let mine = columns(world);
    let part = rows_of(0..ROWS, &mine);
    let mut queue = file.queue();
    for dataset in [fixed, zstd, summed, plain] {
        queue.put(dataset, [0..ROWS, mine.clone()], &part);
    }
    let before = queue.len();
    assert_eq!(before, if mine.is_empty() { 0 } else { 4 });
    queue.run_all()?;
    for step in 0..STEPS {
        file.define(|file| file.extend(steps, step + 1))?;
        let row = rows_of(step..step + 1, &mine);
        let mut queue = file.queue();
        queue.put(steps, [step..step + 1, mine.clone()], &row);
        queue.start_all()?.wait()?;
        file.commit()?;
        assert_eq!(file.complete(steps)?, Some(step + 1));
    }
    if !mine.is_empty() {
        let alone =
            file.at(fixed, [0..1, mine.clone()]).write(&part[..mine.end as usize - mine.start as usize]);
        assert!(alone.unwrap_err().to_string().contains("together"));
    }
    file.close()
}

fn check(world: &Comm, path: &Path) -> Result<()> {
    let file = Hdf5OpenOptions::new().open(world, path)?;
    assert_eq!(file.is_complete(), Some(true));
    for name in ["deep/fixed", "zstd", "summed", "plain"] {
        let dataset = file.dataset(name)?;
        assert_eq!(file.complete(dataset)?, Some(ROWS), "{name}");
        let values: Vec<f64> = file.at(dataset, Selection::whole()).all().read_vec()?;
        assert!(values == rows_of(0..ROWS, &(0..COLUMNS)), "{name}");
    }
    let steps = file.dataset("steps")?;
    let values: Vec<f64> = file.at(steps, Selection::whole()).all().read_vec()?;
    assert!(values == rows_of(0..STEPS, &(0..COLUMNS)));
    assert!(file.describe(file.dataset("deep/fixed")?)?.stored() < ROWS * COLUMNS * 4);
    file.close()
}

#[test]
fn compressed_datasets_of_any_number_of_ranks_are_read() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for ranks in [1, 2, 4] {
        let path = folder.path().join(format!("compressed-{ranks}.h5"));
        Launch::threads(ranks).run(|world| write(world, &path)).unwrap();
        let name = path.to_str().expect("UTF-8");
        if let Some(printed) = external_tools::run_with("h5py", "hdf5_compressed.py", &["read", name]) {
            assert_eq!(printed, "read\n");
        }
        Launch::threads(3).run(|world| check(world, &path)).unwrap();
    }
}

/// Parts of chunks are written over what the file has, also after it was opened again; h5py extends the file.
#[test]
fn chunks_are_written_again() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("again.h5");
    Launch::threads(2).run(|world| write(world, &path)).unwrap();
    let change = |world: &Comm| {
        let mut file = Hdf5OpenOptions::new().writable().open(world, &path)?;
        let (fixed, steps) = (file.dataset("deep/fixed")?, file.dataset("steps")?);
        let rank = world.rank() as u64;
        file.at(fixed, [3..4, 20 * rank..20 * rank + 10]).all().write(&[-1.0 - rank as f64; 10])?;
        let back: Vec<f64> = file.at(fixed, [3..4, 0..30]).all().read_vec()?;
        assert!(back[..10] == [-1.0; 10] && back[20..] == [-2.0; 10], "{back:?}");
        assert_eq!(back[10..20], rows_of(3..4, &(10..20)));
        file.define(|file| file.extend(steps, STEPS + 2))?;
        let mine = columns(world);
        file.at(steps, [STEPS + 1..STEPS + 2, mine.clone()])
            .all()
            .write(&rows_of(STEPS + 1..STEPS + 2, &mine))?;
        file.close()
    };
    Launch::threads(2).run(change).unwrap();
    let name = path.to_str().expect("UTF-8");
    if let Some(printed) = external_tools::run_with("h5py", "hdf5_compressed.py", &["again", name]) {
        assert_eq!(printed, "again\n");
    }
}

/// Only rank 0 holds the places of chunks that others have written: the others read them together, or after a commit alone.
#[test]
fn chunks_of_other_ranks_are_read() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("others.h5");
    let run = |world: &Comm| {
        let mut file = Hdf5CreateOptions::new().replace().without_sync().create(world, &path)?;
        let packed = Hdf5DatasetOptions::new().chunk(&[2, 16]).compress(Hdf5Compression::Deflate(1));
        let [one, other] = file.define(|file| {
            Ok([
                file.dataset_with::<f64>("one", &[ROWS, COLUMNS], &packed)?,
                file.dataset_with::<f64>("other", &[ROWS, COLUMNS], &packed)?,
            ])
        })?;
        let mine = columns(world);
        let part = rows_of(0..ROWS, &mine);
        let mut back = vec![0.0; 2 * COLUMNS as usize];
        // What is written in a queue is read in the same queue.
        let mut queue = file.queue();
        queue.put(one, [0..ROWS, mine.clone()], &part);
        queue.get(one, [3..5, 0..COLUMNS], &mut back);
        queue.run_all()?;
        assert_eq!(back, rows_of(3..5, &(0..COLUMNS)));
        let alone = || file.at(one, [0..ROWS, 0..COLUMNS]).read_vec::<f64>();
        match alone() {
            Ok(values) => assert!(world.rank() == 0 && values == rows_of(0..ROWS, &(0..COLUMNS))),
            Err(error) => {
                assert!(world.rank() > 0 && error.kind() == Kind::BadArgument, "{error}");
                assert!(error.to_string().contains("commit them first"), "{error}");
            }
        }
        // Nothing of the other dataset has moved.
        assert_eq!(file.at(other, [0..1, 0..4]).read_vec::<f64>()?, [0.0; 4]);
        file.commit()?;
        for number in 1..4 {
            assert!(
                file.at(one, [0..ROWS, 0..COLUMNS]).read_vec::<f64>()? == rows_of(0..ROWS, &(0..COLUMNS))
            );
            // Each rank changes one row, in chunks of two ranks.
            let row = number * 4 + world.rank() as u64;
            let changed = vec![number as f64; COLUMNS as usize];
            file.at(one, [row..row + 1, 0..COLUMNS]).all().write(&changed)?;
            let rows: Vec<f64> = file.at(one, [row - 1..row + 2, 5..6]).all().read_vec()?;
            let before = if world.rank() == 0 { value(row - 1, 5) } else { number as f64 };
            let after = if world.rank() + 1 == world.size() { value(row + 1, 5) } else { number as f64 };
            assert_eq!(rows, [before, number as f64, after], "{number}");
            file.at(one, [row..row + 1, 0..COLUMNS]).all().write(&rows_of(row..row + 1, &(0..COLUMNS)))?;
            file.commit()?;
        }
        file.close()
    };
    Launch::threads(3).run(run).unwrap();
}

#[test]
fn filters_need_chunks() {
    let run = |world: &Comm| {
        let mut file = Hdf5CreateOptions::new().replace().create(world, "memfs:filters.h5")?;
        let options = Hdf5DatasetOptions::new().compress(Hdf5Compression::default());
        let error = file.define(|file| file.dataset_with::<f64>("x", &[4], &options)).unwrap_err();
        assert!(error.kind() == Kind::BadArgument && error.to_string().contains("`chunk`"), "{error}");
        file.close()
    };
    Launch::threads(2).run(run).unwrap();
}
