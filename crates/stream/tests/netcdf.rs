//! Streams in a netCDF file, in every mode, under real launchers, and on a device that fails: its variables hold the
//! values of the model, and other programs read them.

#[path = "cases/fields.rs"]
mod fields;
#[path = "cases/model.rs"]
mod model;

use std::path::Path;
use std::sync::Arc;

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::netcdf::{NcType, NetcdfOpenOptions, Selection};
use aqueduct_stream::target::{NetcdfTarget, OutputTarget};
use aqueduct_stream::{Declaration, Error, Kind, Options, OutputMode, Stream, Streams};
use aqueduct_testkit::external_tools;
use aqueduct_testkit::mpi_job::MpiJob;

const JOB: MpiJob = MpiJob::new(env!("CARGO_TARGET_TMPDIR"));

fn target(comm: &Comm, name: &str, declared: &Arc<Declaration>) -> Result<Box<dyn OutputTarget>, Error> {
    Ok(Box::new(NetcdfTarget::create(comm, name, declared)?))
}

/// All values of a variable, or of one of its records.
fn read(name: &str, variable: &str, record: Option<u64>) -> Vec<f64> {
    let read = |world: &Comm| {
        let file = NetcdfOpenOptions::new().open(world, name)?;
        let id = file.variable(variable)?;
        let place = file.at(id, record.map_or(Selection::whole(), Selection::record));
        let values: Vec<f64> = match file.header().variables[id.0].kind {
            NcType::Double => place.read_vec()?,
            NcType::Float => place.read_vec::<f32>()?.into_iter().map(f64::from).collect(),
            NcType::Int => place.read_vec::<i32>()?.into_iter().map(f64::from).collect(),
            NcType::UShort => place.read_vec::<u16>()?.into_iter().map(f64::from).collect(),
            _ => place.read_vec::<u64>()?.into_iter().map(|value| value as f64).collect(),
        };
        file.close()?;
        Ok::<_, aqueduct_formats::Error>(values)
    };
    Launch::threads(1).run(read).unwrap().remove(0)
}

fn check(name: &str) {
    fields::check(name, |variable, record| read(name, variable, record));
}

#[test]
fn every_mode_fills_the_same_variables() {
    fields::in_every_mode(1..=5, target, check);
}

#[test]
fn a_list_is_refused() {
    let add = |streams: &mut Streams| _ = streams.add::<f64>(Stream::list("particles", 3));
    fields::refused(add, (Kind::Unsupported, "particles"), target);
}

/// The number of records is the number of complete steps.
#[test]
fn a_device_that_fails_keeps_the_steps_before() {
    fields::over_a_failing_device(target, |name| {
        let count = |world: &Comm| {
            let file = NetcdfOpenOptions::new().open(world, name)?;
            let records = file.records();
            file.close()?;
            Ok::<_, aqueduct_formats::Error>(records)
        };
        let records = Launch::threads(1).run(count).unwrap().remove(0);
        for record in 0..records {
            assert_eq!(
                read(name, "whole", Some(record)),
                fields::model_streams()[0].values(&[record]),
                "{name}"
            );
        }
        records
    });
}

/// The values of one record, as `ncdump` prints them.
fn check_file(path: &Path) {
    external_tools::validate(path);
    let Some(text) = external_tools::dump(path) else { return };
    for line in [
        "step = UNLIMITED ; // (5 currently)",
        "double whole(step, whole.axis0",
        "ushort peak(",
        "float boxes.2(step,",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let peak = text.split(" peak =").nth(1).unwrap().split(';').next().unwrap();
    let found: Vec<f64> = peak.split(',').map(|value| value.trim().parse().unwrap()).collect();
    let steps: Vec<u64> = (0..fields::STEPS).collect();
    assert_eq!(found, fields::model_streams()[3].values(&steps));
}

fn job(world: &Comm, folder: &str) -> Result<(), Error> {
    for mode in [OutputMode::Blocking, OutputMode::Thread, OutputMode::Leaders] {
        let options = Options::new().replace().mode(mode).memory(2000).group(2);
        fields::write(world, &format!("ufs:{folder}/{mode:?}.nc"), &options, target)?;
    }
    if world.size() > 2 {
        fields::serve(world, &format!("ufs:{folder}/served.nc"), 1, 6000, target)?;
    }
    Ok(())
}

#[test]
fn a_job() {
    if let Some(folder) = JOB.run(job) {
        check(&format!("ufs:{}/Thread.nc", folder.path().display()));
        check_file(&folder.path().join("Thread.nc"));
    }
}

fn judge_all(folder: &Path) {
    for file in ["Blocking.nc", "Thread.nc", "Leaders.nc", "served.nc"] {
        check(&format!("ufs:{}/{file}", folder.display()));
        check_file(&folder.join(file));
    }
}

#[test]
fn openmpi() {
    JOB.check_under("openmpi", 4, judge_all);
}

#[test]
fn mpich() {
    JOB.check_under("mpich", 4, judge_all);
}
