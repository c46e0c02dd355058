//! What an output file says about itself: marks of complete rows, names, shapes; in every format.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use aqueduct::comm::{Comm, Launch};
use aqueduct::formats::Selection;
use aqueduct::hdf5::Hdf5OpenOptions;
use aqueduct::netcdf::NetcdfOpenOptions;
use aqueduct::stream::{OutputMode, Reader};
use aqueduct_wave::output::quantities::QuantityFlags;
use aqueduct_wave::run::{RunInput, WaveSettings, run};
use aqueduct_wave::scenario::built_in::{Scenario, ScenarioKind, ScenarioOptions};
use aqueduct_wave::scenario::listed_points::SensorChoice;

const STEPS: u64 = 6;

fn settings(name: &str, sensor: SensorChoice) -> WaveSettings {
    let options = ScenarioOptions {
        kind: ScenarioKind::Ball,
        points: [16, 12, 10],
        steps: STEPS,
        sensor,
        ..ScenarioOptions::default()
    };
    let mut settings = WaveSettings::new(RunInput::Scenario(Box::new(Scenario::new(options).unwrap())));
    settings.output = Some(name.to_owned());
    settings.first_sample = 3;
    settings.quantities =
        QuantityFlags { p_raw: true, p_max: true, p_rms: true, p_final: true, ..QuantityFlags::default() };
    settings
}

fn run_on(ranks: usize, settings: &WaveSettings) {
    Launch::threads(ranks).run(|world| run::<f32>(world, settings)).unwrap();
}

/// Each dataset with its shape and its number of complete rows.
fn datasets(name: &str, wanted: &[(&str, &[u64], u64)]) {
    let check = |world: &Comm| {
        let file = Hdf5OpenOptions::new().open(world, name)?;
        assert_eq!(file.is_complete(), Some(true), "{name}");
        for (path, shape, rows) in wanted {
            let id = file.dataset(path)?;
            assert_eq!(
                (&file.describe(id)?.shape[..], file.complete(id)?),
                (*shape, Some(*rows)),
                "{name}: {path}"
            );
        }
        let steps = file.dataset("/t_index")?;
        assert_eq!(file.at(steps, Selection::whole()).all().read_vec::<u64>()?, [STEPS]);
        file.close()
    };
    Launch::threads(1).run(check).unwrap();
}

#[test]
fn complete_rows_are_those_of_the_samples() {
    let samples = STEPS - 2;
    for compression in [0, 3] {
        for mode in [OutputMode::Blocking, OutputMode::Thread] {
            let name = "memfs:wave-marks.h5";
            let mut points = settings(name, SensorChoice::Points(7));
            (points.compression, points.copy_mask) = (compression, true);
            points.recording.stream = points.recording.stream.mode(mode);
            run_on(3, &points);
            datasets(
                name,
                &[
                    ("/p", &[1, samples, 7], samples),
                    ("/p_max", &[1, 1, 7], 1),
                    ("/p_final", &[10, 12, 16], 10),
                    ("/sensor_mask_index", &[1, 1, 7], 1),
                    ("/Nx", &[1, 1, 1], 1),
                ],
            );
            let mut boxes = settings(name, SensorChoice::Boxes(2, 5));
            boxes.compression = compression;
            boxes.recording.stream = boxes.recording.stream.mode(mode);
            run_on(2, &boxes);
            datasets(
                name,
                &[
                    ("/p/1", &[samples, 5, 5, 5], samples),
                    ("/p/2", &[samples, 5, 5, 5], samples),
                    ("/p_rms/2", &[5, 5, 5], 5),
                ],
            );
        }
    }
}

#[test]
fn netcdf_and_stream_files_have_the_same_quantities() {
    run_on(2, &settings("memfs:wave-formats.h5", SensorChoice::Points(7)));
    run_on(2, &settings("memfs:wave-formats.nc", SensorChoice::Points(7)));
    run_on(2, &settings("memfs:wave-formats", SensorChoice::Points(7)));
    let check = |world: &Comm| {
        let hdf5 = Hdf5OpenOptions::new().open(world, "memfs:wave-formats.h5")?;
        let netcdf = NetcdfOpenOptions::new().open(world, "memfs:wave-formats.nc")?;
        let streams = Reader::open(world, "memfs:wave-formats")?;
        assert_eq!(netcdf.records(), STEPS - 2);
        for name in ["p", "p_max", "p_rms", "p_final"] {
            let expected: Vec<f32> =
                hdf5.at(hdf5.dataset(&format!("/{name}"))?, Selection::whole()).all().read_vec()?;
            let found: Vec<f32> = netcdf.at(netcdf.variable(name)?, Selection::whole()).all().read_vec()?;
            assert_eq!(found, expected, "{name} in netCDF");
            let steps: Vec<f32> = if name == "p" {
                let of_step = |step: u64| streams.read::<f32>(name, streams.step(step).expect("complete"));
                (2..STEPS).map(of_step).collect::<Result<Vec<_>, _>>()?.concat()
            } else {
                streams.read(name, streams.closing().expect("reductions are stored at the end"))?
            };
            assert_eq!(steps, expected, "{name} in a stream file");
        }
        let time: Vec<u64> = netcdf.at(netcdf.variable("t_index")?, Selection::whole()).all().read_vec()?;
        assert_eq!(time, [STEPS]);
        netcdf.close()?;
        hdf5.close()?;
        Ok::<_, aqueduct::Error>(())
    };
    Launch::threads(1).run(check).unwrap();
    let mut mask = settings("memfs:wave-mask.nc", SensorChoice::Points(7));
    mask.copy_mask = true;
    let refused = Launch::threads(1).run(|world| run::<f32>(world, &mask)).unwrap_err().to_string();
    assert!(refused.contains("only HDF5"), "{refused}");
}

/// A run is killed: rows that are marked as complete have the values of an undisturbed run.
#[test]
fn marks_are_true_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let command = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wave"));
        command.args(["--scenario", "ball", "--grid", "24", "--steps", "3000", "--sensor", "points:90"]);
        command.args(["-n", "2", "-o", &file(name), "--durable-every", "20", "--verbose", "0"]);
        command.env("AQUEDUCT_MPI", "none").stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let rows = |name: &str| {
        let name = file(name);
        let read = |world: &Comm| {
            let file = Hdf5OpenOptions::new().open(world, &name)?;
            let id = file.dataset("/p")?;
            let rows = file.complete(id)?.expect("our files have marks");
            let part = Selection::block([0, 0, 0], [1, rows, 90]);
            let values: Vec<f32> = file.at(id, part).all().read_vec()?;
            assert_eq!(file.is_complete(), Some(rows == 3000));
            file.close()?;
            Ok::<_, aqueduct::Error>((rows, values))
        };
        Launch::threads(1).run(read).unwrap().remove(0)
    };
    assert!(command("whole.h5").status().unwrap().success());
    let (all, expected) = rows("whole.h5");
    assert_eq!(all, 3000);
    let mut partial = 0;
    for delay in [150, 300, 600, 1200, 2400] {
        let mut child = command("killed.h5").spawn().unwrap();
        thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        if !folder.path().join("killed.h5").exists() {
            continue;
        }
        let opened = std::panic::catch_unwind(|| rows("killed.h5"));
        // Killed before its datasets were defined.
        let Ok((complete, values)) = opened else { continue };
        assert_eq!(values, expected[..values.len()], "after {delay} ms");
        assert!(complete == 3000 || complete % 20 == 0, "{complete}");
        partial += u64::from(complete > 0 && complete < 3000);
    }
    println!("{partial} runs were killed between the first mark and the last one");
}
