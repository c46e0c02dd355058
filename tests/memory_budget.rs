//! One program with a buffered file, an output and checkpoints that are started, under a small `AQUEDUCT_MEMORY`: all data is
//! stored, no rank waits forever, and the memory of data that is written in the background stays below the limit.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use aqueduct::checkpoint::{ArrayBlock, Checkpoint, Store};
use aqueduct::comm::{Comm, Launch};
use aqueduct::file::{BufferOptions, Capacity, OpenOptions, memory_level};
use aqueduct::stream::{Options, OutputMode, Reader, Stream, Streams};

const CHILD: &str = "AQUEDUCT_TEST_MEMORY_BUDGET";
const LIMIT: u64 = 2 << 20;
const STEPS: u64 = 5;
/// Bytes that a rank writes to each of the three in a step: more than its part of the limit.
const BYTES: usize = 1 << 20;

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn values(rank: u64, step: u64) -> Vec<u64> {
    (0..BYTES as u64 / 8).map(|index| (rank << 48) + (step << 32) + index).collect()
}

/// Writes the same values to the file, the output and, every other step, a checkpoint; reads everything back.
fn write_everything(world: &Comm, mode: OutputMode, folder: &Path) -> Outcome {
    let (rank, size, items) = (world.rank() as u64, world.size() as u64, BYTES as u64 / 8);
    // The caps are larger than the limit of the process.
    let buffered = BufferOptions::new(Capacity::Bytes(4 * LIMIT));
    let name = folder.join("buffered").to_string_lossy().into_owned();
    let open = OpenOptions::new().read(true).write(true).create(true).buffered(&buffered);
    let file = open.open(world, &name)?;
    let mut streams = Streams::new();
    let key = streams.add::<u64>(Stream::array("level", [size, items]).block([rank, 0], [1, items]));
    let stream = folder.join("stream").to_string_lossy().into_owned();
    let options = Options::new().mode(mode).memory(4 * LIMIT);
    let mut output = options.create(world, &stream, &streams)?;
    let mut store = Store::open_or_create(world, folder.join("store"))?;
    for step in 0..STEPS {
        let values = values(rank, step);
        file.at((step * size + rank) * BYTES as u64).write(&values)?;
        if step % 2 == 0 {
            let mut checkpoint = Checkpoint::new(step);
            checkpoint.array("level", &ArrayBlock::new([size, items], [rank, 0], [1, items]), &values);
            // A small one fits beside the other data; the copy of all ranks does not.
            let copied = &values[..if step == 0 { 16 } else { values.len() }];
            let mut small = Checkpoint::new(step);
            small.array("level", &ArrayBlock::new([size * 16], [rank * 16], [16]), &copied[..16]);
            store.start(if step == 0 { small } else { checkpoint })?;
        }
        output.step()?.put(key, &values).commit()?;
    }
    output.finish()?;
    store.wait()?;
    file.sync()?;
    for step in 0..STEPS {
        let mut found = vec![0_u64; BYTES / 8];
        file.at((step * size + rank) * BYTES as u64).read(&mut found)?;
        assert!(found == values(rank, step), "step {step} of the file");
    }
    file.close()?;
    let reader = Reader::open(world, &stream)?;
    let last = reader.step(STEPS - 1).expect("all steps are complete");
    let found = reader.read::<u64>("level", last)?;
    let expected: Vec<u64> = (0..size).flat_map(|rank| values(rank, STEPS - 1)).collect();
    assert!(found == expected, "the last step of the stream");
    let latest = store.latest()?.expect("there is a checkpoint");
    let found = latest.array::<u64>("level", &ArrayBlock::new([size, items], [rank, 0], [1, items]))?;
    assert!(found == values(rank, STEPS - 1), "the last checkpoint");
    Ok(())
}

fn run_child() {
    for ranks in [1, 3, 4] {
        for mode in [OutputMode::Thread, OutputMode::Leaders, OutputMode::Blocking] {
            let folder = tempfile::tempdir().unwrap();
            let levels = Launch::threads(ranks).run(|world| {
                write_everything(world, mode, folder.path()).map_err(|error| error.to_string())?;
                world.barrier().map_err(|error| error.to_string())?;
                Ok::<_, String>(memory_level(world))
            });
            for level in levels.unwrap() {
                assert_eq!(level.cap, LIMIT);
                assert!(level.peak > LIMIT / 2 && level.peak <= LIMIT, "{ranks} ranks, {mode:?}: {level:?}");
            }
        }
    }
}

#[test]
fn a_program_with_all_kinds_of_background_data_stays_below_the_limit() {
    if std::env::var_os(CHILD).is_some() {
        return run_child();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "a_program_with_all_kinds_of_background_data_stays_below_the_limit",
        "--nocapture",
    ]);
    let mut child = command.env(CHILD, "1").env("AQUEDUCT_MEMORY", "2MiB").spawn().unwrap();
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > Duration::from_secs(240) {
            child.kill().unwrap();
            panic!("the ranks wait for each other");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success());
}
