//! Files that are only read: rows and records that are read in sequence are read ahead, and have the values of other orders.
#![cfg(feature = "hdf5")]

use std::time::{Duration, Instant};

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::hdf5::{
    Hdf5Compression, Hdf5CreateOptions, Hdf5DatasetOptions, Hdf5File, Hdf5OpenOptions,
};
use aqueduct_formats::netcdf::{NcType, NetcdfCreateOptions, NetcdfOpenOptions};
use aqueduct_formats::{Error, Result, Selection};

const ROWS: u64 = 30;
const COLUMNS: u64 = 64;
const DATASETS: [&str; 4] = ["contiguous", "chunked", "packed", "rows of chunks"];

fn row(row: u64) -> Vec<f64> {
    (0..COLUMNS).map(|column| (row * row * 1000 + column * (row % 7)) as f64).collect()
}

fn create_hdf5(world: &Comm, name: &str) -> Result<()> {
    let mut file = Hdf5CreateOptions::new().replace().create(world, name)?;
    let packed =
        |chunk: [u64; 2]| Hdf5DatasetOptions::new().chunk(&chunk).compress(Hdf5Compression::Deflate(3));
    let datasets = file.define(|file| {
        let shape = [ROWS, COLUMNS];
        Ok([
            file.dataset::<f64>(DATASETS[0], &shape)?,
            file.extendible::<f64>(DATASETS[1], &shape, &[1, COLUMNS])?,
            file.dataset_with::<f64>(DATASETS[2], &shape, &packed([1, COLUMNS]))?,
            file.dataset_with::<f64>(DATASETS[3], &shape, &packed([2, 16]))?,
        ])
    })?;
    let values: Vec<f64> = (0..ROWS).flat_map(row).collect();
    for dataset in datasets {
        file.at(dataset, Selection::whole()).all().write(&values)?;
    }
    file.close()
}

fn open(world: &Comm, name: &str, cap: Option<&str>) -> Result<Hdf5File> {
    let options = Hdf5OpenOptions::new();
    let options = cap.map_or(options.clone(), |cap| options.hint("aqueduct_prefetch", cap));
    options.open(world, format!("throttle=300us:{name}"))
}

#[test]
fn rows_of_all_storages_are_read_ahead() {
    let run = |world: &Comm| {
        let name = "memfs:ahead.h5";
        create_hdf5(world, name)?;
        for path in DATASETS {
            let file = open(world, name, None)?;
            let dataset = file.dataset(path)?;
            let before = file.counters().reads;
            for at in 0..3 {
                assert_eq!(file.at(dataset, [at..at + 1, 0..COLUMNS]).read_vec::<f64>()?, row(at), "{path}");
            }
            // Three rows were asked for; others are read without being asked for.
            let begin = Instant::now();
            while file.prefetch_stats().held == 0 || file.counters().reads < before + 6 {
                assert!(begin.elapsed() < Duration::from_secs(20), "{path}: {:?}", file.prefetch_stats());
                std::thread::yield_now();
            }
            let hits = file.prefetch_stats().hits;
            for at in 3..ROWS {
                assert_eq!(file.at(dataset, [at..at + 1, 0..COLUMNS]).read_vec::<f64>()?, row(at), "{path}");
            }
            let stats = file.prefetch_stats();
            // Values that are stored as they are are read as blocks of the file, which has others after the last row: at most eight
            // of them were read ahead. Compressed chunks are read ahead as chunks of the dataset.
            let after = if DATASETS[..2].contains(&path) { 8 * COLUMNS * 8 } else { 0 };
            assert!(stats.hits >= hits + ROWS - 3 && stats.held <= after, "{path}: {stats:?}");
            file.close()?;
        }
        Ok::<_, Error>(())
    };
    Launch::threads(1).run(run).unwrap();
}

#[test]
fn random_accesses_have_the_values_of_a_reader_without_prefetching() {
    let run = |world: &Comm| {
        let name = "memfs:ahead-random.h5";
        create_hdf5(world, name)?;
        let files =
            [open(world, name, None)?, open(world, name, Some("0"))?, open(world, name, Some("3000"))?];
        let mut state = 11 + world.rank() as u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for path in DATASETS.into_iter().cycle().take(80) {
            let dataset = files[0].dataset(path)?;
            let (rows, columns) = (1 + random(3), 1 + random(COLUMNS));
            let (mut first, column) = (random(ROWS - rows), random(COLUMNS - columns + 1));
            let stride = random(4);
            while first + rows <= ROWS {
                let part = [first..first + rows, column..column + columns];
                let expected: Vec<f64> = (first..first + rows)
                    .flat_map(|at| row(at)[column as usize..][..columns as usize].to_vec())
                    .collect();
                for file in &files {
                    assert_eq!(
                        file.at(dataset, part.clone()).read_vec::<f64>()?,
                        expected,
                        "{path}: {part:?}"
                    );
                }
                if stride == 0 {
                    break;
                }
                first += stride;
            }
        }
        let [default, none, small] = files.each_ref().map(Hdf5File::prefetch_stats);
        assert!(default.hits > 0 && default.peak <= default.cap, "{default:?}");
        assert_eq!((none.hits, none.peak), (0, 0));
        assert!(small.peak <= 2 * 3000, "a limit for chunks, and one for the rest: {small:?}");
        files.into_iter().try_for_each(Hdf5File::close)
    };
    Launch::threads(2).run(run).unwrap();
}

/// All ranks together read their parts of compressed rows.
#[test]
fn chunks_of_collective_reads_are_read_ahead() {
    let run = |world: &Comm| {
        let name = "memfs:ahead-together.h5";
        create_hdf5(world, name)?;
        let file = open(world, name, None)?;
        let dataset = file.dataset(DATASETS[3])?;
        let half = COLUMNS / 2 * world.rank() as u64;
        for at in 0..ROWS {
            let found = file.at(dataset, [at..at + 1, half..half + COLUMNS / 2]).all().read_vec::<f64>()?;
            assert_eq!(found, row(at)[half as usize..][..COLUMNS as usize / 2]);
        }
        assert!(file.prefetch_stats().hits >= ROWS - 5, "{:?}", file.prefetch_stats());
        file.close()
    };
    Launch::threads(2).run(run).unwrap();
}

#[test]
fn records_of_netcdf_files_are_read_ahead() {
    let run = |world: &Comm| {
        let name = "memfs:ahead.nc";
        let mut file = NetcdfCreateOptions::new().replace().create(world, name)?;
        let (level, other) = file.define(|file| {
            let dimensions = [file.unlimited("time")?, file.dimension("x", COLUMNS)?];
            Ok((
                file.variable("level", NcType::Double, &dimensions)?,
                file.variable("other", NcType::Double, &dimensions)?,
            ))
        })?;
        for at in 0..ROWS {
            file.at(level, Selection::record(at)).all().write(&row(at))?;
            file.at(other, Selection::record(at)).all().write(&row(at + 100))?;
        }
        file.close()?;
        let mut file = NetcdfOpenOptions::new().open(world, format!("throttle=300us:{name}"))?;
        for at in 0..ROWS {
            assert_eq!(file.at(level, Selection::record(at)).read_vec::<f64>()?, row(at));
            assert_eq!(file.at(other, [at..at + 1, 3..9]).read_vec::<f64>()?, row(at + 100)[3..9]);
        }
        let stats = file.prefetch_stats();
        assert!(stats.hits >= 2 * (ROWS - 4) && stats.held == 0, "{stats:?}");
        assert_eq!(file.refresh()?, ROWS);
        file.close()
    };
    Launch::threads(1).run(run).unwrap();
}
