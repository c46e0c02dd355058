//! HDF5 and netCDF files of a known number of steps: names, shapes, attributes and values; marks after a kill.

use std::process::Command;
use std::sync::Arc;

use aqueduct_comm::{Comm, Launch};
use aqueduct_device::layers::TraceDevice;
use aqueduct_device::{MemFs, Operation, register_device};
use aqueduct_formats::Selection;
use aqueduct_formats::hdf5::{DatasetId, Hdf5Attribute, Hdf5File, Hdf5OpenOptions};
use aqueduct_formats::netcdf::NetcdfOpenOptions;
use aqueduct_stream::target::Hdf5Target;
use aqueduct_stream::{Error, Hyperslab, Options, OutputMode, Role, Stream, Streams, split_io_servers};
use aqueduct_testkit::external_tools;

use crate::program::{
    self, Decomposition, FROM, FileKind, MASK, Run, SHAPE, STEPS, box_points, peak, rms, sampled, value,
};

pub(crate) fn whole_run(
    name: &str,
    kind: FileKind,
    mode: OutputMode,
    decomposition: Decomposition,
) -> Run<'_> {
    let options = Options::new().mode(mode).memory(4000).group(2);
    Run { name, kind, options, decomposition, states: None, served: false, checkpoint: None, stop: None }
}

pub(crate) const MODES: [OutputMode; 3] = [OutputMode::Blocking, OutputMode::Thread, OutputMode::Leaders];

fn dataset(file: &Hdf5File, path: &str, shape: &[u64], complete: u64) -> DatasetId {
    let id = file.dataset(path).unwrap();
    assert_eq!(
        (&file.describe(id).unwrap().shape[..], file.complete(id).unwrap()),
        (shape, Some(complete)),
        "{path}"
    );
    id
}

/// Compares a finished file with the model.
pub(crate) fn check_hdf5(name: &str) {
    let check = |world: &Comm| {
        let file = Hdf5OpenOptions::new().open(world, name)?;
        let rows = STEPS - FROM;
        for (number, path) in ["/p/1", "/p/2"].into_iter().enumerate() {
            let inner = &program::boxes()[number].count;
            let id = dataset(&file, path, &[&[rows], &inner[..]].concat(), rows);
            let expected = sampled()
                .flat_map(|step| box_points(number).into_iter().map(move |point| value(point, step) as f32));
            assert_eq!(
                file.at(id, Selection::whole()).read_vec::<f32>()?,
                expected.collect::<Vec<_>>(),
                "{path}"
            );
            let attributes = &file.object(path)?.attributes;
            assert_eq!(attributes["data_type"], Hdf5Attribute::fixed("float"));
            assert_eq!(attributes["from"].numbers(), Some(vec![FROM as f64]));
        }
        let points = MASK.len() as u64;
        let mask = dataset(&file, "/q", &[1, rows, points], rows);
        let expected = sampled().flat_map(|step| MASK.map(|point| value(point, step) as f32));
        assert_eq!(file.at(mask, Selection::whole()).read_vec::<f32>()?, expected.collect::<Vec<_>>());
        let id = dataset(&file, "/q_rms", &[1, 1, points], 1);
        assert_eq!(file.at(id, Selection::whole()).read_vec::<f32>()?, MASK.map(rms));
        let all = || 0..SHAPE.iter().product::<u64>();
        let id = dataset(&file, "/peak", &SHAPE, SHAPE[0]);
        assert_eq!(file.at(id, Selection::whole()).read_vec::<f64>()?, all().map(peak).collect::<Vec<_>>());
        assert_eq!(file.object("/peak")?.attributes["factor"].numbers(), Some(vec![0.5]));
        let id = dataset(&file, "/final/p", &SHAPE, SHAPE[0]);
        let last = all().map(|point| value(point, STEPS - 1) as f32);
        assert_eq!(file.at(id, Selection::whole()).read_vec::<f32>()?, last.collect::<Vec<_>>());
        // Means of four, four and two steps.
        let id = dataset(&file, "/mean", &[3, SHAPE[0], SHAPE[1], SHAPE[2]], 3);
        let mean = |steps: std::ops::Range<u64>, point: u64| {
            steps.clone().map(|step| value(point, step)).sum::<f64>() / steps.count() as f64
        };
        let means = [2..6, 6..10, 10..12]
            .into_iter()
            .flat_map(|steps| all().map(move |point| mean(steps.clone(), point)));
        assert_eq!(file.at(id, Selection::whole()).read_vec::<f64>()?, means.collect::<Vec<_>>());
        assert!(file.dataset("/q.points").is_err(), "the program has named the array");
        assert_eq!(file.is_complete(), Some(true));
        file.close()?;
        Ok::<_, aqueduct_formats::Error>(())
    };
    Launch::threads(1).run(check).unwrap();
}

#[test]
fn an_hdf5_file_has_the_datasets_that_the_program_names() {
    for mode in MODES {
        for decomposition in
            [Decomposition(1, 1), Decomposition(3, 1), Decomposition(2, 2), Decomposition(7, 1)]
        {
            let name = format!("memfs:fixed-{mode:?}-{decomposition:?}.h5");
            let run = whole_run(&name, FileKind::Hdf5, mode, decomposition);
            let ranks = decomposition.0 * decomposition.1;
            Launch::threads(ranks).run(|world| program::run(world, &run)).unwrap();
            check_hdf5(&name);
        }
    }
}

#[test]
fn a_netcdf_file_has_the_variables_that_the_program_names() {
    for mode in MODES {
        let name = format!("memfs:fixed-{mode:?}.nc");
        let run = whole_run(&name, FileKind::Netcdf, mode, Decomposition(2, 2));
        Launch::threads(4).run(|world| program::run(world, &run)).unwrap();
        check_netcdf(&name);
    }
}

pub(crate) fn check_netcdf(name: &str) {
    let check = |world: &Comm| {
        let file = NetcdfOpenOptions::new().open(world, name)?;
        let variable = file.variable("p.2")?;
        let expected =
            sampled().flat_map(|step| box_points(1).into_iter().map(move |point| value(point, step) as f32));
        assert_eq!(file.at(variable, Selection::whole()).read_vec::<f32>()?, expected.collect::<Vec<_>>());
        assert!(file.describe(variable)?.attributes.iter().any(|attribute| attribute.name == "data_type"));
        let variable = file.variable("q_rms")?;
        assert_eq!(file.shape(variable)?, [1, 1, MASK.len() as u64]);
        assert_eq!(file.at(variable, Selection::whole()).read_vec::<f32>()?, MASK.map(rms));
        assert_eq!(file.shape(file.variable("q")?)?, [STEPS - FROM, MASK.len() as u64]);
        file.close()?;
        Ok::<_, aqueduct_formats::Error>(())
    };
    Launch::threads(1).run(check).unwrap();
}

/// Many boxes and steps: in a step each rank writes at most once; syncs and marks only where they are asked for.
#[test]
fn a_step_has_neither_a_definition_nor_a_sync() {
    const BOXES: u64 = 64;
    const STEPS: u64 = 200;
    let device = Arc::new(TraceDevice::new(Arc::new(MemFs::new())));
    register_device("counted-steps", Arc::<TraceDevice>::clone(&device)).unwrap();
    let count = |durable_every: Option<u64>| {
        let name = format!("counted-steps:{durable_every:?}.h5");
        let program = |world: &Comm| {
            let mut streams = Streams::new();
            let half = BOXES / 2;
            let block = ([half * world.rank() as u64, 0], [half, 8]);
            let boxes = (0..BOXES).map(|row| Hyperslab::new([row, 2], [1, 4]));
            let stream = Stream::array("p", [BOXES, 8]).block(block.0, block.1).cuboids(boxes);
            let key = streams.add::<f32>(stream);
            let options = Options::new().mode(OutputMode::Blocking).steps(STEPS);
            let options = durable_every.map_or(options.clone(), |every| options.durable_every(every));
            let mut output = options.create_on(world, &name, &streams, |comm, declared| {
                Ok(Box::new(Hdf5Target::create(comm, &name, declared)?))
            })?;
            world.barrier()?;
            device.take_events();
            world.barrier()?;
            for step in 0..STEPS {
                output.step()?.put(key, &vec![step as f32; 8 * half as usize]).commit()?;
            }
            world.barrier()?;
            let events = if world.rank() == 0 { device.take_events() } else { Vec::new() };
            world.barrier()?;
            output.finish()?;
            Ok::<_, Error>(events)
        };
        let events = Launch::threads(2).run(program).unwrap().remove(0);
        let number =
            |wanted: Operation| events.iter().filter(|event| event.operation == wanted).count() as u64;
        (number(Operation::Write), number(Operation::Sync), number(Operation::SetLen))
    };
    let (writes, syncs, resized) = count(None);
    assert!(writes <= 2 * STEPS && (syncs, resized) == (0, 0), "{writes} writes, {syncs} syncs, {resized}");
    // Each sync is one of the data and one of the marks, by each of the two ranks at most.
    let (more, syncs, resized) = count(Some(50));
    let asked = STEPS / 50;
    assert!(more <= writes + asked && resized == 0, "{more} writes instead of {writes}");
    assert!((2 * asked..=4 * asked).contains(&syncs), "{syncs} syncs for {asked}");
}

#[test]
fn servers_write_the_same_file() {
    let serve = |world: &Comm| match split_io_servers(world, 2)? {
        Role::Server(server) => server.memory(1 << 20).serve_into(program::hdf5_target).map(drop),
        Role::Compute(compute) => {
            let mut run =
                whole_run("memfs:fixed-served.h5", FileKind::Hdf5, OutputMode::Auto, Decomposition(2, 2));
            (run.options, run.served) = (Options::new().served_by(&compute), true);
            program::run(compute.comm(), &run).map(drop)
        }
    };
    Launch::threads(6).run(serve).unwrap();
    check_hdf5("memfs:fixed-served.h5");
}

/// Set in the process that is killed: the folder of its file.
const CHILD: &str = "AQUEDUCT_TEST_KILLED_RUN";

/// The program that is killed in step 9; each fourth step is synced.
#[test]
fn killed_program() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let program = |world: &Comm| {
        let name = format!("ufs:{folder}/killed.h5");
        let mut run = whole_run(&name, FileKind::Hdf5, OutputMode::Blocking, Decomposition(2, 1));
        run.options = run.options.durable_every(4);
        run.stop = Some(9);
        let _output = program::run(world, &run)?;
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(program).unwrap();
    let myself = rustix::process::getpid();
    rustix::process::kill_process(myself, rustix::process::Signal::KILL).unwrap();
}

/// Checks marks and values with h5py.
const SCRIPT: &str = r#"
import sys, h5py, numpy
file = h5py.File(sys.argv[1])
mask = [208, 3, 77, 3, 150, 0, 112, 3, 36]
q, rows = file["q"], int(file["q"].attrs["aqueduct_complete"])
for row in range(rows):
    expected = [(point * 7 + (row + 2) * 13) % 101 - 40 for point in mask]
    assert (q[0, row] == numpy.array(expected, "f4")).all(), row
assert q.attrs["data_type"] == b"float" and q.shape == (1, 10, 9)
print(rows, int(file["p/1"].attrs["aqueduct_complete"]), int(file.attrs["aqueduct_complete"]))
"#;

#[test]
fn marks_are_true_after_a_kill() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let this = std::env::current_exe().unwrap();
    let killed = Command::new(this)
        .args(["--exact", "fixed_steps::killed_program", "--nocapture"])
        .env(CHILD, folder.path())
        .output()
        .unwrap();
    assert!(!killed.status.success(), "{killed:?}");
    let path = folder.path().join("killed.h5");
    // Steps 2 to 8 were stored, and synced after the fourth of them.
    let complete = |world: &Comm| {
        let file = Hdf5OpenOptions::new().open(world, format!("ufs:{}", path.display()))?;
        let rows = ["/p/1", "/p/2", "/q"].map(|path| file.complete(file.dataset(path).unwrap()).unwrap());
        assert_eq!((rows, file.is_complete()), ([Some(4); 3], Some(false)));
        file.close()
    };
    Launch::threads(1).run(complete).unwrap();
    if let Some(python) = external_tools::python("h5py") {
        let said =
            external_tools::output_of(Command::new(python).args(["-W", "ignore", "-c", SCRIPT]).arg(&path));
        assert_eq!(said.trim(), "4 4 0");
    }
}
