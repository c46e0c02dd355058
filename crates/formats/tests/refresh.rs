//! Readers that follow a running writer: they see what was committed, complete, and nothing else.
#![cfg(feature = "hdf5")]

use std::sync::Barrier;

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::hdf5::{
    Hdf5Compression, Hdf5CreateOptions, Hdf5DatasetOptions, Hdf5File, Hdf5OpenOptions,
};
use aqueduct_formats::netcdf::{NcType, NetcdfCreateOptions, NetcdfFile, NetcdfOpenOptions};
use aqueduct_formats::{Error, Kind, Result, Selection};

const COLUMNS: u64 = 40;
const ROWS: u64 = 50;

fn value(row: u64, column: u64) -> f64 {
    (1000 * row + column + 1) as f64
}

fn row(row: u64, columns: std::ops::Range<u64>) -> Vec<f64> {
    columns.map(|column| value(row, column)).collect()
}

/// A program that adds a row to each of two datasets, one of them compressed, in each step; a third is defined half-way.
fn write_rows(world: &Comm, name: &str) -> Result<()> {
    let mut file = Hdf5CreateOptions::new().replace().without_sync().create(world, name)?;
    let packed =
        Hdf5DatasetOptions::new().chunk(&[1, COLUMNS]).extendible().compress(Hdf5Compression::Deflate(1));
    let (plain, packed) = file.define(|file| {
        let plain = file.extendible::<f64>("plain", &[0, COLUMNS], &[4, COLUMNS])?;
        Ok((plain, file.dataset_with::<f64>("packed", &[0, COLUMNS], &packed)?))
    })?;
    let (rank, ranks) = (world.rank() as u64, world.size() as u64);
    let mine = COLUMNS * rank / ranks..COLUMNS * (rank + 1) / ranks;
    for step in 0..ROWS {
        let late = file.define(|file| {
            file.extend(plain, step + 1)?;
            file.extend(packed, step + 1)?;
            (step == ROWS / 2).then(|| file.dataset::<f64>("late/row", &[COLUMNS])).transpose()
        })?;
        let values = row(step, mine.clone());
        let mut queue = file.queue();
        queue.put(plain, [step..step + 1, mine.clone()], &values);
        queue.put(packed, [step..step + 1, mine.clone()], &values);
        if let Some(late) = late {
            queue.put(late, mine.clone(), &values);
        }
        queue.run_all()?;
        file.commit()?;
    }
    file.close()
}

/// Checks all complete rows of a dataset from `seen` on; how many are complete.
fn check_rows(file: &Hdf5File, path: &str, seen: u64) -> Result<u64> {
    let dataset = file.dataset(path)?;
    let complete = file.complete(dataset)?.expect("the writer marks its datasets");
    assert!(complete >= seen && complete <= file.describe(dataset)?.rows(), "{path}: {complete}");
    for at in seen..complete {
        let found = file.at(dataset, [at..at + 1, 0..COLUMNS]).read_vec::<f64>()?;
        assert!(found == row(at, 0..COLUMNS), "{path}: row {at} of {complete}");
    }
    Ok(complete)
}

/// Reads all rows as they appear.
fn follow_rows(world: &Comm, name: &str) -> Result<()> {
    let mut file = loop {
        match Hdf5OpenOptions::new().open(world, name) {
            Ok(file) if file.dataset("plain").is_ok() => break file,
            Err(error) if !matches!(error.kind(), Kind::NoSuchFile | Kind::Damaged) => return Err(error),
            _ => std::thread::yield_now(),
        }
    };
    let mut seen = [0; 2];
    loop {
        let is_complete = file.is_complete() == Some(true);
        for (path, seen) in ["plain", "packed"].into_iter().zip(&mut seen) {
            *seen = check_rows(&file, path, *seen)?;
        }
        if is_complete {
            break;
        }
        file.refresh()?;
    }
    assert_eq!((seen, file.refresh()?), ([ROWS; 2], 0));
    let late = file.dataset("late/row")?;
    assert_eq!(file.at(late, Selection::whole()).all().read_vec::<f64>()?, row(ROWS / 2, 0..COLUMNS));
    file.close()
}

#[test]
fn every_row_of_a_running_writer_is_seen_complete() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("run.h5").display().to_string();
    for name in ["memfs:followed-rows.h5", &disk] {
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| Launch::threads(3).run(|world| write_rows(world, name)).unwrap());
            Launch::threads(2).run(|world| follow_rows(world, name)).unwrap();
            writer.join().unwrap();
        });
    }
}

/// A file system may show the new superblock before the blocks that it refers to, or a file that is still short.
#[test]
fn metadata_of_which_not_all_has_arrived_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let run = |world: &Comm| {
        let name = path("writer.h5");
        let mut writer = Hdf5CreateOptions::new().create(world, &name)?;
        let grid = writer.define(|file| file.extendible::<f64>("grid", &[1, COLUMNS], &[1, COLUMNS]))?;
        writer.at(grid, Selection::record(0)).all().write(&row(0, 0..COLUMNS))?;
        writer.commit()?;
        let before = std::fs::read(&name).unwrap();
        writer.define(|file| file.extend(grid, 2))?;
        writer.at(grid, Selection::record(1)).all().write(&row(1, 0..COLUMNS))?;
        writer.commit()?;
        let after = std::fs::read(&name).unwrap();

        let seen = path("seen.h5");
        std::fs::write(&seen, &before).unwrap();
        let mut reader = Hdf5OpenOptions::new().open(world, &seen)?;
        let grid = reader.dataset("grid")?;
        let look = |reader: &mut Hdf5File, bytes: &[u8]| {
            std::fs::write(&seen, bytes).unwrap();
            let new = reader.refresh()?;
            assert_eq!(check_rows(reader, "grid", 0)?, reader.complete(grid)?.unwrap());
            Ok::<_, Error>((new, reader.describe(grid)?.rows(), reader.complete(grid)?))
        };
        // The superblock alone, in a short file and in one with zeros at the end.
        let mut early = before.clone();
        early[..96].copy_from_slice(&after[..96]);
        assert_eq!(look(&mut reader, &early)?, (0, 1, Some(1)));
        early.resize(after.len(), 0);
        assert_eq!(look(&mut reader, &early)?, (0, 1, Some(1)));
        // Without the superblock.
        let mut late = after.clone();
        late[..96].copy_from_slice(&before[..96]);
        assert_eq!(look(&mut reader, &late)?, (0, 1, Some(1)));
        assert_eq!(look(&mut reader, &after)?, (1, 2, Some(2)));
        assert_eq!(look(&mut reader, &after)?, (0, 2, Some(2)));
        let counters = reader.counters();
        assert!(counters.reads > 2, "those before the file was opened again count: {counters:?}");
        writer.close()?;
        reader.close()
    };
    Launch::threads(1).run(run).unwrap();
}

#[test]
fn a_file_that_was_replaced_or_deleted_is_an_error_on_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("replaced.h5");
    let start = Barrier::new(2);
    let create = |world: &Comm, dataset: &str| {
        let mut file = Hdf5CreateOptions::new().replace().create(world, &name)?;
        file.define(|file| file.dataset::<f64>(dataset, &[4]))?;
        file.close()
    };
    let run = |world: &Comm| {
        create(world, "one")?;
        let mut reader = Hdf5OpenOptions::new().open(world, &name)?;
        assert_eq!(reader.refresh()?, 0);
        create(world, "other")?;
        let error = reader.refresh().unwrap_err();
        assert!(error.kind() == Kind::Damaged && error.detail().contains("replaced"), "{error}");
        start.wait();
        if world.rank() == 0 {
            std::fs::remove_file(&name).unwrap();
        }
        start.wait();
        assert_eq!(reader.refresh().unwrap_err().kind(), Kind::NoSuchFile);
        reader.close()
    };
    Launch::threads(2).run(run).unwrap();
}

/// Records of a netCDF file, and a variable that is defined between them.
#[test]
fn records_of_a_running_writer_are_seen_complete() {
    let name = "memfs:followed.nc";
    let open = |world: &Comm| -> Result<NetcdfFile> {
        loop {
            match NetcdfOpenOptions::new().open(world, name) {
                Ok(file) if !file.header().variables.is_empty() => return Ok(file),
                Err(error) if !matches!(error.kind(), Kind::NoSuchFile | Kind::Damaged) => return Err(error),
                _ => std::thread::yield_now(),
            }
        }
    };
    let write = |world: &Comm| {
        let mut file = NetcdfCreateOptions::new().replace().without_sync().create(world, name)?;
        let level = file.define(|file| {
            let dimensions = [file.unlimited("time")?, file.dimension("x", COLUMNS)?];
            file.variable("level", NcType::Double, &dimensions)
        })?;
        file.commit()?;
        for step in 0..ROWS {
            file.at(level, Selection::record(step)).all().write(&row(step, 0..COLUMNS))?;
            file.commit()?;
        }
        file.define(|file| file.variable("last", NcType::Double, &[]))?;
        file.at(file.variable("last")?, Selection::whole()).all().write(&[0.5f64])?;
        file.close()
    };
    let follow = |world: &Comm| {
        let mut file = open(world)?;
        let (level, mut seen) = (file.variable("level")?, 0);
        loop {
            // The number of records and the variables are those of one look.
            let (records, is_last) = (file.records(), file.variable("last").is_ok());
            assert!(records >= seen);
            for at in seen..records {
                let found = file.at(level, Selection::record(at)).read_vec::<f64>()?;
                assert!(found == row(at, 0..COLUMNS), "record {at} of {records}");
            }
            seen = records;
            if is_last {
                break;
            }
            file.refresh()?;
        }
        assert_eq!((seen, file.refresh()?), (ROWS, ROWS));
        assert_eq!(file.at(file.variable("last")?, Selection::whole()).read_vec::<f64>()?, [0.5]);
        file.close()
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| Launch::threads(1).run(write).unwrap());
        Launch::threads(2).run(follow).unwrap();
        writer.join().unwrap();
    });
}
