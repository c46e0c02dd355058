//! Chunks that find no buffer wait on a local disk: the program does not wait for a slow medium, and the file has the
//! same bytes.

use aqueduct_comm::{Comm, Launch};
use aqueduct_stream::{Error, Kind, Options, OutputMode, OutputReport, Reader, Stream, StreamKey, Streams};

const STEPS: u64 = 24;
const VALUES: u64 = 3000;

fn value(at: u64, step: u64) -> f64 {
    (at * 31 + step * 7) as f64
}

fn declare(world: &Comm) -> (Streams, StreamKey<f64>) {
    let each = VALUES / world.size() as u64;
    let mut streams = Streams::new();
    let stream = Stream::array("level", [VALUES]).block([each * world.rank() as u64], [each]);
    let key = streams.add(stream);
    (streams, key)
}

fn write(world: &Comm, name: &str, options: &Options) -> Result<OutputReport, Error> {
    let (streams, key) = declare(world);
    let mut output = options.create(world, name, &streams)?;
    let each = VALUES / world.size() as u64;
    let first = each * world.rank() as u64;
    for step in 0..STEPS {
        let values: Vec<f64> = (first..first + each).map(|at| value(at, step)).collect();
        output.step()?.put(key, &values).commit()?;
    }
    output.finish()
}

#[test]
fn what_finds_no_buffer_is_spilled_and_stored() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (number, (mode, bytes)) in
        [(OutputMode::Thread, 1 << 20), (OutputMode::Thread, 20_000), (OutputMode::Leaders, 1 << 20)]
            .into_iter()
            .enumerate()
    {
        let (name, inner) =
            (format!("throttle=4MB/s:memfs:spilled-{number}"), format!("memfs:spilled-{number}"));
        let options = Options::new().mode(mode).group(2).memory(24_000).spill(folder.path(), bytes);
        let reports = Launch::threads(2).run(|world| write(world, &name, &options)).unwrap();
        for report in &reports {
            assert!(report.memory_peak <= report.memory_cap, "{report:?}");
        }
        assert!(reports.iter().map(|report| report.spilled).sum::<u64>() > 0, "{mode:?}: {reports:?}");
        let check = |world: &Comm| {
            let reader = Reader::open(world, &inner)?;
            assert_eq!(reader.stored_steps().len() as u64, STEPS);
            for stored in reader.stored_steps() {
                let expected: Vec<f64> = (0..VALUES).map(|at| value(at, stored.step)).collect();
                assert!(reader.read::<f64>("level", stored)? == expected, "{mode:?}, step {}", stored.step);
            }
            Ok::<_, Error>(())
        };
        Launch::threads(1).run(check).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the spill files have no names");
    }
}

#[test]
fn a_folder_that_does_not_exist_is_refused() {
    let program = |world: &Comm| {
        let options = Options::new().mode(OutputMode::Thread).spill("/nonexistent/folder", 1 << 20);
        let error = write(world, "memfs:spill-nowhere", &options).map(drop).unwrap_err();
        assert!(
            error.kind() == Kind::Unsupported && error.detail().contains("folder to spill to"),
            "{error}"
        );
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(program).unwrap();
}
