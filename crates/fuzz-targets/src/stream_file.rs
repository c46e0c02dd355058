//! Stream files: `.steps` and data, opened, read and verified.

use aqueduct_object::Object;
use aqueduct_stream::{
    Error, Hyperslab, Output, Reader, Reduction, Result, StoredStep, Stream, StreamInfo, Streams,
};

use crate::FuzzTarget;
use crate::input::{CORRECT_SUMS, check_named, join, load, long, remove_all, run_rank, seal, split, store};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    name: "stream_file",
    run,
    seeds,
    words: &[
        "AQUESTEP",
        "AQUERECD",
        "\"list\"",
        "{\"points\":99999999999}",
        "{\"cuboids\":[{\"start\":[18446744073709551615],\"shape\":[1]}]}",
        "[]",
        "null",
        "\"whole\"",
        "\"mean\"",
        "18446744073709551615",
    ],
};

const NAME: &str = "memfs:fuzzed-stream";
const STEPS: &str = "memfs:fuzzed-stream.steps";
const UNIT: usize = 512;

#[derive(Object, Clone, Debug)]
struct LabelledEvent {
    id: u32,
    label: String,
}

fn run(input: &[u8]) -> bool {
    let (flags, steps, data) = split(input);
    let mut steps = steps.to_vec();
    if flags & CORRECT_SUMS != 0 {
        correct_sums(&mut steps);
    }
    run_rank(|world| {
        store(world, STEPS, &steps)?;
        store(world, NAME, data)?;
        let read = Reader::open(world, NAME).map(|reader| {
            // Prefetching only helps programs that compute between reads.
            reader.prefetch(0);
            read_all(&reader, steps.len() + data.len());
            check_named(reader.verify(), NAME);
        });
        Ok::<_, Error>(check_named(read, NAME))
    })
}

fn read_all(reader: &Reader, length: usize) {
    for about in reader.streams() {
        for step in reader.stored_steps() {
            let values = read_stream(reader, about, step);
            if let Ok(values) = &values {
                assert!(*values <= length, "{values} values of stream {:?} in {length} bytes", about.name);
            }
            check_named(values, NAME);
            if about.object.is_some() {
                let objects = reader.objects::<LabelledEvent>(&about.name, step);
                check_named(objects.and_then(|objects| objects.read(0..objects.count().min(1000))), NAME);
            }
            if let Some(first) = about.boxes().first() {
                let corner = Hyperslab::new(first.start.clone(), vec![1; first.start.len()]);
                check_named(reader.read_part::<f64>(&about.name, step, 0, &corner), NAME);
            }
        }
        check_named(reader.points(&about.name), NAME);
    }
}

fn read_stream(reader: &Reader, about: &StreamInfo, step: &StoredStep) -> Result<usize> {
    let name = &about.name;
    let bytes = reader.read_bytes(name, step)?;
    Ok(bytes.len() / about.stored().width() as usize)
}

/// Corrects the checksums of header, metadata and records: `docs/format-stream.md`.
fn correct_sums(steps: &mut [u8]) {
    let (Some(described), Some(records)) = (long(steps, 24), long(steps, 56)) else { return };
    let size =
        steps.get(12..16).map_or(0, |size| u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize);
    if let Some(description) = steps.get(UNIT..).and_then(|rest| rest.get(..described as usize)) {
        let sum = crc32c::crc32c(description);
        steps[32..36].copy_from_slice(&sum.to_le_bytes());
    }
    if let Some(header) = steps.get_mut(..UNIT) {
        seal(header);
    }
    if let Some(records) = steps.get_mut(records as usize..).filter(|_| size > 0) {
        records.chunks_exact_mut(size).for_each(seal);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let [steps, data] = run_rank(|world| -> Result<_> {
        remove_all(&[NAME, STEPS]);
        let mut streams = Streams::new();
        let array = |name| Stream::array(name, [4, 5]).block([0, 0], [4, 5]);
        let whole = streams.add::<f64>(array("whole"));
        let corner =
            array("corner").cuboids([Hyperslab::new([1, 1], [2, 3])]).reduce(Reduction::Max).every(2);
        let corner = streams.add::<f32>(corner);
        let list = streams.add::<i16>(Stream::list("list", 2));
        let events = streams.add_objects::<LabelledEvent>(Stream::objects("events"));
        let mut output = Output::create(world, NAME, &streams)?;
        for step in 0..3u32 {
            let field = [f64::from(step); 20];
            let event = [LabelledEvent { id: step, label: "one event".into() }];
            let narrow = [0.5f32; 20];
            output
                .step()?
                .put(whole, &field)
                .put(corner, &narrow)
                .put(list, &[step as i16; 4])
                .put_objects(events, &event)
                .commit()?;
        }
        output.finish()?;
        Ok([load(world, STEPS)?, load(world, NAME)?])
    });
    vec![join(CORRECT_SUMS, &steps, &data), join(0, &steps, &data)]
}
