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
        if std::fs::read(&path).unwrap().starts_with(b"\x89HDF") {
            for tool in ["h5dump", "h5stat"] {
                let Some(tool) = external_tools::command(tool) else { continue };
                external_tools::output_of(std::process::Command::new(tool).arg(&path));
            }
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

#[cfg(feature = "hdf5")]
#[test]
fn netcdf_and_xarray_read_netcdf4() {
    use aqueduct_formats::hdf5::{Hdf5Compression, Hdf5DatasetOptions};
    use aqueduct_formats::netcdf4::Netcdf4File;

    check_with("xarray, netCDF4, h5py", "netcdf4", |world, path| {
        let mut file = Netcdf4File::create(world, path)?;
        let plain = Hdf5DatasetOptions::new();
        file.define(|file| {
            file.attribute("/", "title", "records")?;
            let (time, x) = (file.record_dimension("time")?, file.dimension("x", 6)?);
            let (y, member) = (file.dimension("y", 4)?, file.dimension("forecast/member", 2)?);
            file.variable::<f64>("time", &[time], &plain)?;
            file.variable::<f32>("x", &[x], &plain)?;
            let packed = plain.clone().compress(Hdf5Compression::default()).fill_value(&-999.0f32);
            file.variable::<f32>("temperature", &[time, x], &packed)?;
            file.variable::<i32>("mask", &[y, x], &plain.clone().fill_value(&7i32))?;
            file.variable::<i16>("count", &[], &plain)?;
            file.variable::<f64>("forecast/pressure", &[time, member], &plain)?;
            file.attribute("time", "units", "seconds since 2000-01-01")?;
            file.attribute("temperature", "units", "K")?;
            file.attribute("temperature", "valid_range", [200.0f32, 330.0])?;
            file.attribute("forecast", "sources", ["one", "two"])
        })?;
        let mine = share(world, 6);
        let places: Vec<f32> = mine.clone().map(|at| 0.5 * at as f32).collect();
        file.hdf5().at(file.variable("x")?, mine.clone()).all().write(&places)?;
        // Two of four rows; the others have the fill value.
        let rows = vec![1i32; 2 * places.len()];
        file.hdf5().at(file.variable("mask")?, [1..3, mine.clone()]).all().write(&rows)?;
        for record in 0..4u64 {
            if record == 2 {
                file.close()?;
                file = Netcdf4File::open(world, path)?;
                assert_eq!(file.records(), 2);
            }
            file.extend(record + 1)?;
            let (time, temperature) = (file.variable("time")?, file.variable("temperature")?);
            let pressure = file.variable("forecast/pressure")?;
            let (warm, seconds) = (vec![273.0 + record as f32; places.len()], [60.0 * record as f64]);
            let pressures = [record as f64, 0.5];
            let mut queue = file.hdf5().queue();
            // The last record has no temperature.
            if record < 3 {
                queue.put(temperature, [record..record + 1, mine.clone()], &warm);
            }
            if world.rank() == 0 {
                queue.put(time, record..record + 1, &seconds).put(
                    pressure,
                    [record..record + 1, 0..2],
                    &pressures,
                );
            }
            queue.run_all()?;
            file.commit()?;
        }
        let refused = file.define(|file| file.attribute("x", "CLASS", "none")).unwrap_err();
        assert!(refused.to_string().contains("CLASS"), "{refused}");
        file.define(|file| {
            let z = file.dimension("z", 3)?;
            file.variable::<u8>("late", &[z], &plain).map(drop)
        })?;
        file.close()
    });
}

#[cfg(feature = "hdf5")]
#[test]
fn openpmd_readers_read_openpmd() {
    use aqueduct_formats::h5md::Creator;
    use aqueduct_formats::openpmd::{IterationTime, MeshGeometry, OpenPmdRecord, OpenPmdSeries, RecordUnit};

    check_with("openpmd_viewer, openpmd_validator", "openpmd", |world, path| {
        let creator = Creator { author: "A. Author <author@example.org>", program: "test", version: "1.0" };
        let mut series = OpenPmdSeries::create(world, path, &creator)?;
        let geometry = MeshGeometry {
            shape: &[4, 6],
            axis_labels: &["y", "x"],
            spacing: &[0.5, 0.25],
            offset: &[1.0, 2.0],
            unit_si: 1.0,
        };
        for step in [0, 100] {
            let time = IterationTime { time: 0.5 * step as f64, dt: 0.5, unit_si: 1.0 };
            series.begin_iteration(step, &time)?;
            let rows = share(world, 4);
            let points = rows.start * 6..rows.end * 6;
            let density: Vec<f32> = points.clone().map(|at| (at + step) as f32).collect();
            let field: Vec<[f64; 3]> = points.map(|at| [at as f64, 0.5, step as f64]).collect();
            let part = [rows, 0..6];
            series.write_mesh(&geometry, &OpenPmdRecord::new("rho", RecordUnit::DENSITY, &density), &part)?;
            let unit = RecordUnit::ELECTRIC_FIELD.scaled(2.0);
            series.write_mesh(&geometry, &OpenPmdRecord::new("E", unit, &field), &part)?;
            let mine = share(world, 10);
            let positions: Vec<[f64; 3]> = mine.clone().map(|at| [at as f64, 0.0, step as f64]).collect();
            let (ids, ones): (Vec<u64>, Vec<f64>) = (mine.clone().collect(), vec![1.0; positions.len()]);
            let records = [
                OpenPmdRecord::new("position", RecordUnit::LENGTH, &positions),
                OpenPmdRecord::new("momentum", RecordUnit::NONE, &positions),
                OpenPmdRecord::new("id", RecordUnit::NONE, &ids),
                OpenPmdRecord::new("weighting", RecordUnit::NONE, &ones),
            ];
            series.write_particles("electrons", &records)?;
            series.end_iteration()?;
        }
        let refused = series.write_particles("electrons", &[]).unwrap_err();
        assert!(refused.to_string().contains("position"), "{refused}");
        series.close()
    });
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
