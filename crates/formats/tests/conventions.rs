//! The conventions: common readers accept the files, written by one rank and by three.

use std::path::Path;

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::netcdf::{NcType, NetcdfCreateOptions, Selection};
use aqueduct_formats::{Result, cf, xyz};
use aqueduct_testkit::external_tools;

/// Writes a file on 1 and on 3 ranks and checks both with a reader; they are equal byte for byte.
fn check_with(module: &str, what: &str, write: impl Fn(&Comm, &Path) -> Result<()> + Sync) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let paths = [1, 3].map(|ranks| {
        let path = folder.path().join(format!("of-{ranks}-ranks.{what}"));
        Launch::threads(ranks).run(|world| write(world, &path)).unwrap();
        if let Some(printed) =
            external_tools::run_with(module, "conventions.py", &[what, path.to_str().unwrap()])
        {
            assert_eq!(printed, format!("{what}\n"));
        }
        path
    });
    let [one, three] = paths.map(|path| std::fs::read(path).unwrap());
    assert!(one == three, "the file depends on the number of ranks");
}

/// The indices of a rank.
fn share(world: &Comm, count: u64) -> std::ops::Range<u64> {
    let (rank, ranks) = (world.rank() as u64, world.size() as u64);
    count * rank / ranks..count * (rank + 1) / ranks
}

#[test]
fn ase_reads_xyz() {
    check_with("ase", "xyz", |world, path| {
        let mut writer = xyz::XyzWriter::create(world, path)?;
        for step in 0..2 {
            let place = |at: u64| f64::from(at as u32) / 3.0 + f64::from(step);
            let atom = |at: u64| xyz::Atom {
                species: if at.is_multiple_of(2) { "Ar" } else { "He" },
                position: [place(3 * at), place(3 * at + 1), place(3 * at + 2)],
                // Only in the second frame.
                velocity: (step == 1).then(|| [place(at), -place(at), 0.0]),
            };
            let atoms: Vec<_> = share(world, 10).map(atom).collect();
            let frame = xyz::XyzFrame { time: 0.5 * f64::from(step), edges: [10.0, 11.0, 12.0] };
            writer.write(&frame, &atoms)?;
        }
        let still = xyz::Atom { species: "Ar", position: [0.0; 3], velocity: None };
        let moving = xyz::Atom { velocity: Some([1.0; 3]), ..still };
        for (bad, expected) in
            [(vec![xyz::Atom { species: "A r", ..still }], "A r"), (vec![still, moving], "1 of 2")]
        {
            let atoms = if world.rank() == 0 { bad } else { Vec::new() };
            let error = writer.write(&xyz::XyzFrame { time: 0.0, edges: [1.0; 3] }, &atoms).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        writer.close()
    });
}

#[test]
fn xarray_reads_cf() {
    check_with("xarray, netCDF4", "cf", |world, path| {
        let mut dataset = NetcdfCreateOptions::new().create(world, path)?;
        let (time, x, field) = dataset.define(|file| {
            cf::conventions(file, "two warm minutes")?;
            let time = cf::time(file, "time", "seconds since 2000-01-01 00:00:00")?;
            let x = cf::axis(file, "x", 6, "m")?;
            let dimensions = [time.dimension, x.dimension];
            Ok((time, x, cf::field(file, "t", NcType::Float, &dimensions, "K", "air_temperature")?))
        })?;
        let mine = share(world, 6);
        let places: Vec<f64> = mine.clone().map(|at| 0.5 * at as f64).collect();
        dataset.at(x.variable, mine.clone()).all().write(&places)?;
        for record in 0..2 {
            let warm = vec![273.0 + record as f32; places.len()];
            let times = [60.0 * record as f64];
            let mut queue = dataset.queue();
            queue.put(field, [record..record + 1, mine.clone()], &warm);
            if world.rank() == 0 {
                queue.put(time.variable, Selection::record(record), &times);
            }
            queue.run_all()?;
            dataset.commit()?;
        }
        let refused = dataset.define(|file| cf::time(file, "then", "seconds")).unwrap_err();
        assert!(refused.to_string().contains("since"), "{refused}");
        dataset.close()
    });
}

#[cfg(feature = "hdf5")]
#[test]
fn mdanalysis_reads_h5md() {
    use aqueduct_formats::h5md::{Creator, Trajectory, TrajectoryFrame, TrajectoryUnits};

    check_with("MDAnalysis", "h5md", |world, path| {
        let creator = Creator { author: "A. Author", program: "test", version: "1.0" };
        let mut trajectory = Trajectory::create(world, path, &creator, Some(TrajectoryUnits::MOLECULAR), 10)?;
        let mine = share(world, 10);
        for at in 0..3 {
            let place = |number: u64| number as f64 * 0.25 + f64::from(at);
            let positions: Vec<[f64; 3]> =
                mine.clone().map(|one| [place(3 * one), place(3 * one + 1), place(3 * one + 2)]).collect();
            let frame = TrajectoryFrame {
                step: 10 * i64::from(at),
                time: 0.5 * f64::from(at),
                edges: [10.0, 11.0, 12.0],
            };
            trajectory.write(&frame, mine.start, &positions)?;
        }
        assert_eq!((trajectory.frames(), trajectory.particles()), (3, 10));
        trajectory.close()
    });
}

#[cfg(feature = "hdf5")]
#[test]
fn vtk_reads_vtkhdf() {
    use aqueduct_formats::vtkhdf::{ImageData, ImageGrid};

    check_with("vtkmodules.vtkIOHDF", "vtkhdf", |world, path| {
        let grid = ImageGrid { points: [5, 4, 3], origin: [1.0, 2.0, 3.0], spacing: [0.5, 0.25, 2.0] };
        let mut image = ImageData::create(world, path, &grid)?;
        let planes = share(world, 3);
        let values: Vec<f64> = (planes.start * 20..planes.end * 20).map(|at| 0.5 * at as f64).collect();
        image.write("pressure", [planes, 0..4, 0..5], &values)?;
        image.close()
    });
}

#[cfg(feature = "hdf5")]
#[test]
fn vtk_reads_images_over_time() {
    use aqueduct_formats::hdf5::Hdf5Compression;
    use aqueduct_formats::vtkhdf::{ImageGrid, ImageSeries, PointField};

    for compressed in [false, true] {
        check_with("vtkmodules.vtkIOHDF", "vtkhdf_series", |world, path| {
            let grid = ImageGrid { points: [5, 4, 3], origin: [1.0, 2.0, 3.0], spacing: [0.5, 0.25, 2.0] };
            let mut series = ImageSeries::create(world, path, &grid)?;
            if compressed {
                series = series.compressed(Hdf5Compression::default());
            }
            let planes = share(world, 3);
            let points = planes.start * 20..planes.end * 20;
            for step in 0..3u32 {
                if step == 2 {
                    series.close()?;
                    series = ImageSeries::open(world, path)?;
                    assert_eq!(series.steps(), 2);
                }
                let time = f64::from(step);
                let pressure: Vec<f64> = points.clone().map(|at| 0.5 * at as f64 + time).collect();
                let velocity = points.clone().map(|at| [at as f32, at as f32 + 1.0, at as f32 + step as f32]);
                let velocity: Vec<[f32; 3]> = velocity.collect();
                let fields = [PointField::new("velocity", &velocity), PointField::new("pressure", &pressure)];
                series.write(0.5 * time, &[planes.clone(), 0..4, 0..5], &fields)?;
            }
            let missing = series.write(2.0, &[planes, 0..4, 0..5], &[]).unwrap_err();
            assert!(missing.to_string().contains("earlier steps have 2"), "{missing}");
            series.close()
        });
    }
}

#[cfg(feature = "hdf5")]
#[test]
fn vtk_reads_particles_over_time() {
    use aqueduct_formats::hdf5::Hdf5Compression;
    use aqueduct_formats::vtkhdf::{ParticleSeries, PointField};

    for compressed in [false, true] {
        check_with("vtkmodules.vtkIOHDF", "vtkhdf_particles", |world, path| {
            let mut series = ParticleSeries::create(world, path)?;
            if compressed {
                series = series.compressed(Hdf5Compression::default());
            }
            for (step, count) in [7, 3, 0, 12].into_iter().enumerate() {
                if step == 3 {
                    series.close()?;
                    series = ParticleSeries::open(world, path)?;
                    assert_eq!(series.steps(), 3);
                }
                let mine = share(world, count);
                let positions: Vec<[f64; 3]> =
                    mine.clone().map(|id| [id as f64, id as f64 + 0.5, (id + step as u64) as f64]).collect();
                let velocity =
                    mine.clone().map(|id| [1, 2, 3].map(|factor| (factor * id + step as u64) as f32));
                let (velocity, ids): (Vec<[f32; 3]>, Vec<u64>) = (velocity.collect(), mine.collect());
                let fields = [PointField::new("id", &ids), PointField::new("velocity", &velocity)];
                series.write(0.25 * step as f64, &positions, &fields)?;
            }
            let short = if world.rank() == 0 { &[0u64][..] } else { &[] };
            let positions = vec![[0.0f64; 3]; 2];
            let fields = [PointField::new("id", short), PointField::new("velocity", &positions)];
            let refused = series.write(9.0, &positions, &fields).unwrap_err();
            assert!(refused.to_string().contains("field \"id\" has"), "{refused}");
            assert_eq!(series.steps(), 4);
            series.close()
        });
    }
}

/// Creates a file, refuses to create it again, replaces it.
fn refuses_existing(
    create: impl Fn(&Comm, &Path) -> Result<()> + Sync,
    replace: impl Fn(&Comm, &Path) -> Result<()> + Sync,
) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("file");
    Launch::threads(2).run(|world| create(world, &path)).unwrap();
    std::fs::write(&path, "years of work").unwrap();
    let refuse = |world: &Comm| {
        let refused = create(world, &path).unwrap_err();
        assert_eq!(refused.kind(), aqueduct_file::Kind::FileExists, "{refused}");
        assert!(refused.to_string().contains("replace"), "{refused}");
        Ok::<_, aqueduct_formats::Error>(())
    };
    Launch::threads(2).run(refuse).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"years of work");
    Launch::threads(2).run(|world| replace(world, &path)).unwrap();
    assert_ne!(std::fs::read(&path).unwrap(), b"years of work");
}

#[test]
fn xyz_refuses_existing_files_unless_they_are_replaced() {
    refuses_existing(
        |world, path| xyz::XyzWriter::create(world, path)?.close(),
        |world, path| xyz::XyzWriter::replace(world, path)?.close(),
    );
}

#[cfg(feature = "hdf5")]
#[test]
fn h5md_refuses_existing_files_unless_they_are_replaced() {
    use aqueduct_formats::h5md::{Creator, Trajectory};

    let creator = Creator { author: "A. Author", program: "test", version: "1.0" };
    refuses_existing(
        |world, path| Trajectory::create(world, path, &creator, None, 2)?.close(),
        |world, path| Trajectory::replace(world, path, &creator, None, 2)?.close(),
    );
}

#[cfg(feature = "hdf5")]
#[test]
fn vtkhdf_refuses_existing_files_unless_they_are_replaced() {
    use aqueduct_formats::vtkhdf::{ImageData, ImageGrid};

    let grid = ImageGrid { points: [2, 2, 2], origin: [0.0; 3], spacing: [1.0; 3] };
    refuses_existing(
        |world, path| ImageData::create(world, path, &grid)?.close(),
        |world, path| ImageData::replace(world, path, &grid)?.close(),
    );
}
