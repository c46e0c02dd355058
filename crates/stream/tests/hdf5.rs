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
use std::time::Duration;

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::Selection;
use aqueduct_formats::hdf5::{Hdf5Compression, Hdf5OpenOptions, numbers};
use aqueduct_object::{decode_all, encode_all};
use aqueduct_stream::target::{Hdf5Target, OutputTarget};
use aqueduct_stream::{
    Declaration, Error, Kind, Options, Output, OutputMode, ResumeState, Stream, StreamKey, Streams,
};
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

/// Set in the process that is killed: the folder of its file, and after how many microseconds.
const KILLED: &str = "AQUEDUCT_TEST_KILLED_STREAM";
const KILLED_AFTER: &str = "AQUEDUCT_TEST_KILLED_AFTER";
/// The length of a row; steps before the state of the output is kept, and in all.
const ROW: u64 = 3000;
const KEPT: u64 = 5;
const ALL: u64 = 12;

fn packed_row(step: u64, columns: std::ops::Range<u64>) -> Vec<f64> {
    columns.map(|column| (step * 10_000 + column / 4) as f64).collect()
}

/// A compressed stream of which each rank has a part of the columns, begun or continued.
fn packed_output(
    world: &Comm,
    name: &str,
    states: &[ResumeState],
) -> Result<(Output, StreamKey<f64>, std::ops::Range<u64>), Error> {
    let (rank, ranks) = (world.rank() as u64, world.size() as u64);
    let mine = ROW * rank / ranks..ROW * (rank + 1) / ranks;
    let mut streams = Streams::new();
    let block = Stream::array("level", [ROW]).block([mine.start], [mine.end - mine.start]);
    let level = streams.add::<f64>(block);
    let make = |comm: &Comm, declared: &Arc<Declaration>| {
        let target = Hdf5Target::compress(comm, name, declared, Hdf5Compression::Deflate(4))?;
        Ok::<Box<dyn OutputTarget>, Error>(Box::new(target))
    };
    let options = Options::new().mode(OutputMode::Thread);
    let output = if states.is_empty() {
        options.create_on(world, name, &streams, make)?
    } else {
        options.resume_on(world, name, &streams, states, make)?
    };
    Ok((output, level, mine))
}

/// The program that is killed while it writes.
#[test]
fn killed_program() {
    let Ok(folder) = std::env::var(KILLED) else { return };
    let after: u64 = std::env::var(KILLED_AFTER).unwrap().parse().unwrap();
    let program = |world: &Comm| {
        let (mut output, level, mine) = packed_output(world, &format!("ufs:{folder}/killed.h5"), &[])?;
        for step in 0.. {
            if step == KEPT {
                output.flush()?;
                let state = encode_all(&[output.state()?]).into_owned();
                std::fs::write(format!("{folder}/state-{}", world.rank()), state).unwrap();
                world.barrier().unwrap();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_micros(after));
                    let myself = rustix::process::getpid();
                    rustix::process::kill_process(myself, rustix::process::Signal::KILL).unwrap();
                });
            }
            output.step()?.put(level, &packed_row(step, mine.clone())).commit()?;
        }
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(program).unwrap();
}

/// Checks rows and filters with h5py; prints the rows that are complete, and whether the file is.
const PACKED_SCRIPT: &str = r#"
import sys, h5py, numpy
with h5py.File(sys.argv[1]) as file:
    level, complete = file["level"], int(file["level"].attrs["aqueduct_complete"])
    assert (level.compression, level.compression_opts, level.shuffle) == ("gzip", 4, True)
    expected = numpy.arange(complete)[:, None] * 10000.0 + numpy.arange(level.shape[1]) // 4
    assert (level[:complete] == expected).all()
    print(complete, int(file.attrs["aqueduct_complete"]))
"#;

/// A compressed stream after `kill -9` at any time: h5py reads all complete rows, and the output is continued on another number of ranks.
#[test]
fn a_killed_compressed_stream_is_read_and_continued() {
    let python = external_tools::python("h5py");
    let read = |path: &Path| -> Option<Vec<u64>> {
        let python = python.as_ref()?;
        let mut command = Command::new(python);
        let said = external_tools::output_of(command.args(["-W", "ignore", "-c", PACKED_SCRIPT]).arg(path));
        Some(said.split_whitespace().map(|word| word.parse().unwrap()).collect())
    };
    for after in [0, 700, 2_000, 9_000, 31_000] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "killed_program", "--nocapture"]);
        command.env(KILLED, folder.path()).env(KILLED_AFTER, after.to_string());
        assert!(!command.output().unwrap().status.success());
        let path = folder.path().join("killed.h5");
        if let Some(found) = read(&path) {
            assert!(found[0] >= KEPT && found[1] == 0, "{found:?}");
        }
        let states = (0..2).map(|rank| {
            let bytes = std::fs::read(folder.path().join(format!("state-{rank}"))).unwrap();
            decode_all::<ResumeState>(&bytes, 1).unwrap().remove(0)
        });
        let states: Vec<ResumeState> = states.collect();
        let name = format!("ufs:{}", path.display());
        let rest = |world: &Comm| {
            let share = states.iter().enumerate().filter(|(at, _)| at % world.size() == world.rank());
            let mine: Vec<ResumeState> = share.map(|(_, state)| state.clone()).collect();
            let (mut output, level, columns) = packed_output(world, &name, &mine)?;
            assert_eq!(output.steps(), KEPT);
            for step in KEPT..ALL {
                output.step()?.put(level, &packed_row(step, columns.clone())).commit()?;
            }
            output.finish()
        };
        Launch::threads(if after > 1_000 { 1 } else { 2 }).run(rest).unwrap();
        if let Some(found) = read(&path) {
            // Rows that the killed program had added are there, and not complete.
            assert_eq!(found, [ALL, 1]);
        }
        for step in 0..ALL {
            assert_eq!(self::read(&name, "level", Some(step)), packed_row(step, 0..ROW), "{after}: {step}");
        }
    }
}
