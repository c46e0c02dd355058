//! The bytes of a small stream file, fixed, and readers of changed bytes. A change of the first test is a new version
//! of the format.

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{File, OpenOptions};
use aqueduct_stream::{Error, Hyperslab, Options, OutputMode, Reader, Reduction, Stream, Streams};
use aqueduct_testkit::rng::SeededRng;

const DESCRIPTION: &str = concat!(
    r#"{"format":"aqueduct-stream","version":1,"streams":["#,
    r#"{"name":"a","kind":"u8","shape":[2,3],"region":{"cuboids":[{"start":[0,1],"shape":[2,2]}]},"reduction":"none","every":null},"#,
    r#"{"name":"b","kind":"i16","shape":[4],"region":{"points":3},"reduction":"max","every":2},"#,
    r#"{"name":"c","kind":"f32","shape":[2],"region":"list","reduction":"none","every":null}]}"#
);

/// Three steps by two ranks.
fn write(name: &str) {
    let run = |world: &Comm| {
        let rank = world.rank() as u64;
        let mut streams = Streams::new();
        let boxes =
            Stream::array("a", [2, 3]).block([rank, 0], [1, 3]).cuboids([Hyperslab::new([0, 1], [2, 2])]);
        let a = streams.add::<u8>(boxes);
        let points = Stream::array("b", [4]).block([2 * rank], [2]).reduce(Reduction::Max).every(2);
        let b = streams.add::<i16>(if rank == 0 { points.points([1, 0]) } else { points.points([3]) });
        let c = streams.add::<f32>(Stream::list("c", 2));
        let mut output = Options::new().replace().mode(OutputMode::Blocking).create(world, name, &streams)?;
        for step in 0..3u8 {
            let row = [10 * step + 3 * rank as u8; 3].map(|first| first + 1);
            let short = i16::from(step) * 100 + rank as i16;
            let item = [f32::from(step), 0.5];
            let items: &[f32] = if rank == 1 && step == 1 { &item } else { &[] };
            output.step()?.put(a, &row).put(b, &[short, -short]).put(c, items).commit()?;
            if step == 0 {
                output.flush()?;
            }
        }
        output.finish().map(drop)
    };
    Launch::threads(2).run(run).unwrap();
}

fn bytes(name: &str) -> Vec<u8> {
    let read = |world: &Comm| {
        let file = File::open(world, name)?;
        let mut bytes = vec![0u8; file.size()? as usize];
        file.at(0).read(&mut bytes)?;
        Ok::<_, aqueduct_file::Error>(bytes)
    };
    Launch::threads(1).run(read).unwrap().remove(0)
}

fn put(name: &str, bytes: &[u8]) {
    let write = |world: &Comm| {
        let file = OpenOptions::new().read(true).write(true).create(true).open(world, name)?;
        file.set_size(0)?;
        file.at(0).write(bytes)?;
        file.close()
    };
    Launch::threads(1).run(write).unwrap();
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn the_bytes_are_those_of_the_format() {
    write("memfs:golden");
    let data = bytes("memfs:golden");
    let expected: [&[u8]; 5] = [
        // Step 0: a, whose four bytes are padded to eight.
        &[1, 1, 4, 4, 0, 0, 0, 0],
        // Step 1: a; b, the maximum of two steps at points 1, 0 and 3; c, one item.
        &[11, 11, 14, 14, 0, 0, 0, 0],
        &[0, 0, 100, 0, 0xff, 0xff, 0, 0],
        &[0, 0, 128, 63, 0, 0, 0, 63],
        // Step 2: a. Closing: b of one step.
        &[21, 21, 24, 24, 0, 0, 0, 0, 0x38, 0xff, 200, 0, 0x37, 0xff],
    ];
    assert_eq!(data, expected.concat());
    let steps = bytes("memfs:golden.steps");
    assert_eq!(&steps[..16], [&b"AQUESTEP"[..], &[1, 0, 0, 0, 0, 2, 0, 0]].concat());
    let (description, tables, records) =
        (long(&steps, 24) as usize, long(&steps, 40) as usize, long(&steps, 56) as usize);
    let text = std::str::from_utf8(&steps[512..512 + description]).unwrap();
    let (streams, written_by) = text.split_once(r#","written_by":{"program":"golden"#).unwrap();
    assert_eq!(format!("{streams}}}"), DESCRIPTION);
    assert!(written_by.contains(r#","ranks":"#) && written_by.ends_with("}}"), "{written_by}");
    assert_eq!(tables, (512 + description).next_multiple_of(8));
    assert_eq!([0, 8, 16].map(|at| long(&steps, tables + at)), [1, 0, 3]);
    assert_eq!(records, (tables + 24).next_multiple_of(512));
    // Step, kind, start, length and durable of each record.
    let found: Vec<[u64; 5]> = steps[records..]
        .chunks(512)
        .map(|record| {
            [24, 32, 40, 48, 64].map(|at| if at == 32 { u64::from(record[at]) } else { long(record, at) })
        })
        .collect();
    let expected = [[0, 1, 0, 8, 0], [1, 1, 8, 24, 1], [2, 1, 32, 8, 1], [2, 2, 40, 8, 1], [3, 3, 48, 0, 4]];
    assert_eq!(found, expected);
    let second = &steps[records + 512..];
    let entries: Vec<u64> = (0..9).map(|at| long(second, 72 + 8 * at)).collect();
    assert_eq!(entries, [8, 4, 1, 16, 3, 2, 24, 1, 1]);
    let first = &steps[records..];
    assert_eq!([96, 120].map(|at| long(first, at)), [u64::MAX, 8], "no b in step 0; an empty c at its end");
    // A checksum, computed from the text of the format.
    let term = |value: u64, at: u64| {
        let mut z = value.wrapping_add(at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let sum = [
        (11, 0),
        (11, 1),
        (14, 2),
        (14, 3),
        (0, 8),
        (100, 10),
        (0xffff, 12),
        (0x3f80_0000, 16),
        (0x3f00_0000, 20),
    ];
    let sum = sum.into_iter().fold(0u64, |sum, (value, at)| sum.wrapping_add(term(value, at)));
    assert_eq!(long(second, 56), sum);
}

/// Every byte changed, and the file truncated everywhere: never a panic, and never values that were not written.
#[test]
fn changed_bytes_are_detected_or_do_not_matter() {
    write("memfs:hostile");
    let (data, steps) = (bytes("memfs:hostile"), bytes("memfs:hostile.steps"));
    let mut seed = SeededRng::new(7);
    let (mut refused, mut lost) = (0, 0);
    let mut look = |data: &[u8], steps: &[u8], context: &str| {
        put("memfs:hostile", data);
        put("memfs:hostile.steps", steps);
        let read = |world: &Comm| {
            let Ok(reader) = Reader::open(world, "memfs:hostile") else { return Ok((true, false)) };
            let damaged = reader.verify()?;
            let mut lost = !reader.incomplete_steps().is_empty() || !damaged.is_empty();
            for stored in reader.stored_steps() {
                if damaged.contains(stored) || stored.is_closing {
                    continue;
                }
                match reader.read::<u8>("a", stored) {
                    Ok(values) => {
                        let step = stored.step as u8;
                        assert_eq!(values, [1, 1, 4, 4].map(|value| value + 10 * step), "{context}");
                    }
                    Err(_) => lost = true,
                }
            }
            Ok::<_, Error>((false, lost))
        };
        let (none, less) = Launch::threads(1).run(read).unwrap().remove(0);
        refused += usize::from(none);
        lost += usize::from(less);
    };
    for at in 0..steps.len() {
        let mut changed = steps.clone();
        changed[at] ^= 1 << seed.below(8);
        look(&data, &changed, &format!("byte {at} of the .steps"));
    }
    for at in 0..data.len() {
        let mut changed = data.clone();
        changed[at] ^= 1 << seed.below(8);
        look(&changed, &steps, &format!("byte {at} of the data"));
        look(&data[..at], &steps, &format!("data cut at {at}"));
    }
    for at in (0..steps.len()).step_by(37) {
        look(&data, &steps[..at], &format!(".steps cut at {at}"));
    }
    assert!(refused > 500 && lost > 500, "{refused} refused, {lost} with something lost");
}
