//! Streams in an HDF5 file, in every mode, and on a device that fails: its datasets hold the values of the model, and
//! h5py reads them.
#![cfg(feature = "hdf5")]

#[path = "cases/fields.rs"]
mod fields;
#[path = "cases/model.rs"]
mod model;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::Selection;
use aqueduct_formats::hdf5::{Hdf5Compression, Hdf5OpenOptions, numbers};
use aqueduct_stream::target::{Hdf5Target, OutputTarget};
use aqueduct_stream::{Declaration, Error, Kind, Options, OutputMode, Stream, Streams};
use aqueduct_testkit::external_tools;
use aqueduct_testkit::mpi_job::MpiJob;

const JOB: MpiJob = MpiJob::new(env!("CARGO_TARGET_TMPDIR"));

fn target(comm: &Comm, name: &str, declared: &Arc<Declaration>) -> Result<Box<dyn OutputTarget>, Error> {
    Ok(Box::new(Hdf5Target::create(comm, name, declared)?))
}

/// All values of a dataset, or of one of its rows; none for a row that it does not have.
fn read(name: &str, dataset: &str, row: Option<u64>) -> Vec<f64> {
    let read = |world: &Comm| {
        let file = Hdf5OpenOptions::new().open(world, name)?;
        let id = file.dataset(&format!("/{dataset}"))?;
        let about = file.describe(id)?.clone();
        let there = row.is_none_or(|row| row < about.shape[0]);
        let slab = row.map_or(Selection::whole(), Selection::record);
        let bytes = if there { file.at(id, slab).read_bytes()? } else { Vec::new() };
        file.close()?;
        Ok::<_, aqueduct_formats::Error>(numbers(&about.datatype, &bytes).unwrap())
    };
    Launch::threads(1).run(read).unwrap().remove(0)
}

fn check(name: &str) {
    fields::check(name, |dataset, row| read(name, dataset, row));
    let complete = |world: &Comm| {
        let file = Hdf5OpenOptions::new().open(world, name)?;
        let rows = file.complete(file.dataset("/whole")?)?;
        let outcome = (file.is_complete(), rows);
        file.close()?;
        Ok::<_, aqueduct_formats::Error>(outcome)
    };
    let complete = Launch::threads(1).run(complete).unwrap().remove(0);
    assert_eq!(complete, (Some(true), Some(fields::STEPS)), "{name}");
}

#[test]
fn every_mode_compresses_the_same_datasets() {
    let compressed = |comm: &Comm, name: &str, declared: &Arc<Declaration>| {
        let target = Hdf5Target::compress(comm, name, declared, Hdf5Compression::default())?;
        Ok::<Box<dyn OutputTarget>, Error>(Box::new(target))
    };
    fields::in_every_mode([1, 3], compressed, check);
}

#[test]
fn every_mode_fills_the_same_datasets() {
    fields::in_every_mode([1, 3, 4], target, check);
}

#[test]
fn a_list_is_refused() {
    let add = |streams: &mut Streams| _ = streams.add_objects::<String>(Stream::objects("names"));
    fields::refused(add, (Kind::Unsupported, "names"), target);
}

/// The attribute of a dataset has the number of complete rows.
#[test]
fn a_device_that_fails_keeps_the_steps_before() {
    fields::over_a_failing_device(target, |name| {
        let count = |world: &Comm| {
            let file = Hdf5OpenOptions::new().open(world, name)?;
            let rows = file.complete(file.dataset("/whole")?)?;
            assert_eq!(file.is_complete(), Some(false), "{name}");
            file.close()?;
            Ok::<_, aqueduct_formats::Error>(rows)
        };
        let rows = Launch::threads(1).run(count).unwrap().remove(0).unwrap();
        for row in 0..rows {
            assert_eq!(read(name, "whole", Some(row)), fields::model_streams()[0].values(&[row]), "{name}");
        }
        rows
    });
}

/// The checks of h5py.
const SCRIPT: &str = r#"
import sys, h5py, numpy
file = h5py.File(sys.argv[1])
whole = file["whole"]
z, y, x = numpy.meshgrid(*map(numpy.arange, whole.shape[1:]), indexing="ij")
for step in range(len(whole)):
    assert (whole[step] == x + 8 * y + 64 * z + 512 * step).all(), step
assert (file["peak"][...] == whole[-1]).all() and file["peak"].attrs["reduction"] == "max"
box, start = file["boxes.2"], file["boxes.2"].attrs["start"]
part = tuple(slice(int(a), int(a) + n) for a, n in zip(start, box.shape[1:]))
assert (box[3] == whole[3][part]).all() and box.maxshape[0] is None
assert (file["points"][2] == whole[2].ravel()[file["points.points"][...]]).all()
assert file["points"].attrs["every"] == 2
print(len(whole), int(whole.attrs["aqueduct_complete"]), int(file.attrs["aqueduct_complete"]))
"#;

fn check_file(path: &Path) {
    let Some(python) = external_tools::python("h5py") else { return };
    let said = external_tools::output_of(Command::new(python).args(["-W", "ignore", "-c", SCRIPT]).arg(path));
    assert_eq!(said.trim(), "5 5 1");
}

fn job(world: &Comm, folder: &str) -> Result<(), Error> {
    fields::write(
        world,
        &format!("ufs:{folder}/thread.h5"),
        &Options::new().replace().mode(OutputMode::Thread),
        target,
    )?;
    if world.size() > 2 {
        fields::serve(world, &format!("ufs:{folder}/served.h5"), 1, 6000, target)?;
    }
    Ok(())
}

#[test]
fn a_job() {
    if let Some(folder) = JOB.run(job) {
        check_file(&folder.path().join("thread.h5"));
    }
}

fn judge_all(folder: &Path) {
    for file in ["thread.h5", "served.h5"] {
        check(&format!("ufs:{}/{file}", folder.display()));
        check_file(&folder.join(file));
    }
}

#[test]
fn openmpi() {
    JOB.check_under("openmpi", 3, judge_all);
}

#[test]
fn mpich() {
    JOB.check_under("mpich", 3, judge_all);
}
