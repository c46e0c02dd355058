//! Guarantees of buffered files: memory limits hold, progress counters are correct, no write is lost or repeated, every failure is reported.

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{
    BufferOptions, BufferStatus, Capacity, File, Info, Kind, OpenOptions, Result, View, Whence,
};
use aqueduct_testkit::blocking_device::BlockingDevice;
use aqueduct_testkit::contents::contents;
use aqueduct_testkit::rng::SeededRng;

const KIB: u64 = 1 << 10;

fn on(ranks: usize, program: impl Fn(&Comm) -> Result<()> + Send + Sync) {
    Launch::threads(ranks).run(program).unwrap();
}

fn open(world: &Comm, name: &str, buffered: &BufferOptions) -> Result<File> {
    OpenOptions::new().read(true).write(true).create(true).buffered(buffered).open(world, name)
}

fn memory(bytes: u64) -> BufferOptions {
    BufferOptions::new(Capacity::Bytes(bytes))
}

fn status(file: &File) -> BufferStatus {
    file.buffering().expect("the file is buffered")
}

/// Bytes that depend on their offset.
fn pattern(from: u64, len: usize) -> Vec<u8> {
    (from..).take(len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn writes_are_accepted_then_visible_then_durable() {
    let gate = BlockingDevice::register("words");
    on(2, |world| {
        let file = open(world, "words:file", &memory(1 << 20))?;
        let mut data = pattern(0, 5000);
        // The device takes nothing, and the write returns.
        file.at(5000 * world.rank() as u64).write(&data)?;
        data.fill(0);
        let now = status(&file);
        assert_eq!((now.accepted, now.visible, now.durable), (5000, 0, 0));
        world.barrier().expect("a barrier");
        gate.open();
        let mut back = vec![0; 5000];
        file.at(5000 * world.rank() as u64).read(&mut back)?;
        assert_eq!(back, pattern(0, 5000), "own writes are read");
        let now = status(&file);
        assert_eq!((now.visible, now.durable), (5000, 0));
        file.sync()?;
        assert_eq!(status(&file).durable, 5000);
        file.close()
    });
}

/// A program that syncs is expected to do so again: the medium begins before it is asked. One that never does is left alone.
#[test]
fn writeback_starts_before_a_repeated_sync() {
    let gate = BlockingDevice::register("hastened");
    gate.open();
    on(1, |world| {
        let file = open(world, "throttle=1GB/s:fault=seed=1:hastened:file", &memory(1 << 20))?;
        file.at(0).write(&pattern(0, 100_000))?;
        // All of it is in the file then.
        assert_eq!((file.size()?, gate.take_writeback_ranges()), (100_000, vec![]), "no sync was requested");
        file.sync()?;
        let everything = 0..i64::MAX as u64;
        assert_eq!(gate.take_writeback_ranges(), vec![everything], "before the first one");
        file.at(200_000).write(&pattern(0, 50_000))?;
        assert_eq!(file.size()?, 250_000);
        let ranges = gate.take_writeback_ranges();
        let ends = (ranges.first().map(|range| range.start), ranges.last().map(|range| range.end));
        assert_eq!(ends, (Some(200_000), Some(250_000)), "{ranges:?}");
        assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start), "{ranges:?}");
        file.sync()?;
        assert_eq!(gate.take_writeback_ranges(), [], "there is nothing left to begin with");
        file.close()
    });
}

#[test]
fn writes_beyond_the_limit_wait_and_never_exceed_it() {
    const BYTES: usize = 3 << 20;
    on(2, |world| {
        let file = open(world, "throttle=200MB/s:memfs:overflow", &memory(256 * KIB))?;
        let place = (BYTES * world.rank()) as u64;
        // One access larger than the cap, and many small ones.
        file.at(place).write(&pattern(0, BYTES / 2))?;
        for start in (BYTES / 2..BYTES).step_by(1000) {
            file.at(place + start as u64).write(&pattern(start as u64, 1000.min(BYTES - start)))?;
        }
        let now = status(&file);
        assert_eq!(now.accepted, BYTES as u64);
        assert!(now.waits > 0, "it overflowed: {now:?}");
        assert!(now.memory.peak <= 256 * KIB && now.memory.peak > 200 * KIB, "{now:?}");
        file.close()
    });
    let bytes = contents("memfs:overflow");
    assert!(bytes == [pattern(0, BYTES), pattern(0, BYTES)].concat());
}

#[test]
fn the_spill_file_takes_what_exceeds_memory_up_to_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let settings = memory(256 * KIB).spill(folder.path(), Some(1 << 20));
    let gate = BlockingDevice::register("spilled");
    on(1, |world| {
        let file = open(world, "spilled:file", &settings)?;
        file.at(0).write(&pattern(0, 1 << 20))?;
        let now = status(&file);
        assert!(now.waits == 0 && now.visible == 0, "everything had room: {now:?}");
        assert!(now.spill.peak > 500 * KIB && now.memory.peak <= 256 * KIB, "{now:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it has no name");
        gate.open();
        // More than both hold, and over what lies in the spill file.
        file.at(0).write(&pattern(7, 3 << 20))?;
        let now = status(&file);
        assert!(now.spill.peak <= 1 << 20 && now.memory.peak <= 256 * KIB && now.waits > 0, "{now:?}");
        file.close()
    });
    assert!(contents("spilled:file") == pattern(7, 3 << 20));
    let nowhere = memory(256 * KIB).spill(folder.path().join("missing"), None);
    on(1, |world| {
        let file = open(world, "memfs:unspilled", &nowhere)?;
        file.at(0).write(&pattern(0, 1 << 20))?;
        assert_eq!(status(&file).spill.cap, 0, "without a folder there is no spill file");
        file.close()
    });
    assert!(contents("memfs:unspilled") == pattern(0, 1 << 20));
}

#[test]
fn the_lists_of_scattered_writes_count_towards_the_limit() {
    on(1, |world| {
        let file = open(world, "throttle=1us:memfs:scattered", &memory(64 * KIB))?;
        for number in (0..20_000u64).rev() {
            file.at(number * 16).write(&number.to_ne_bytes())?;
        }
        let now = status(&file);
        assert!(now.memory.peak <= 64 * KIB && now.waits > 0, "{now:?}");
        file.close()
    });
    let bytes = contents("memfs:scattered");
    let wrong = (0..20_000).find(|number| bytes[number * 16..][..8] != (*number as u64).to_ne_bytes());
    assert_eq!(wrong, None);
}

#[test]
fn interleaved_collective_writes_of_ranks_do_not_wait_for_one_another() {
    let gate = BlockingDevice::register("interlocked");
    on(3, |world| {
        let file = open(world, "interlocked:file", &memory(1 << 20))?;
        file.set_view(&View::round_robin::<u64>(world)?)?;
        for step in 0..4u64 {
            file.at_pointer().all().write(&[step * 10 + world.rank() as u64; 100])?;
        }
        assert_eq!(status(&file).visible, 0, "nothing had to be written");
        world.barrier().expect("a barrier");
        gate.open();
        file.close()
    });
    let bytes = contents("interlocked:file");
    let numbers: Vec<u64> =
        bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
    let wrong = numbers.iter().enumerate().find(|(at, number)| **number != (at / 300 * 10 + at % 3) as u64);
    assert_eq!((wrong, numbers.len()), (None, 1200));
}

#[test]
fn independent_writes_to_disjoint_ranges_do_not_wait() {
    let gate = BlockingDevice::register("beside");
    on(3, |world| {
        let file = open(world, "beside:file", &memory(1 << 20))?;
        // In turn, by offsets, and through a view; and over it all once more.
        for _ in 0..2 {
            for number in 0..3 {
                let place = (number * 3 + world.rank() as u64) * 100;
                file.at(place).write(&[world.rank() as u8 + 1; 100])?;
            }
            let turns = View::round_robin::<u64>(world)?;
            let turns = View::new(900 + turns.displacement(), turns.etype(), turns.filetype())?;
            file.with_view(&turns).write(&[world.rank() as u64 + 1; 100])?;
        }
        assert_eq!(status(&file).visible, 0, "nothing had to be written");
        world.barrier().expect("a barrier");
        gate.open();
        file.close()
    });
    let bytes = contents("beside:file");
    let expected = (0..900).map(|at| (at / 100 % 3 + 1) as u8);
    let expected: Vec<u8> = expected.chain((0..300).flat_map(|at| (at % 3 + 1u64).to_ne_bytes())).collect();
    assert!(bytes == expected);
}

#[test]
fn pending_writes_that_extend_the_file_extend_reads() {
    on(2, |world| {
        let file = open(world, "throttle=20ms:memfs:longer", &memory(1 << 20))?;
        if world.rank() == 0 {
            file.at(1000).write(&[1u8])?;
            assert_eq!(file.at(10).read(&mut [9u8; 50])?.bytes(), 50, "a hole before what this rank wrote");
            file.at(2000).write(&[1u8])?;
        }
        world.barrier().expect("a barrier");
        assert_eq!(file.at(1500).read(&mut [9u8; 50])?.bytes(), 50, "a hole before what another rank wrote");
        file.close()
    });
}

#[test]
fn a_barrier_orders_writes_and_reads_of_ranks_of_a_node() {
    on(3, |world| {
        let file = open(world, "fault=seed=5,delay=300us@0.5:memfs:ordered", &memory(64 * KIB))?;
        for round in 0..30u64 {
            let writer = (round % 3) as usize;
            if world.rank() == writer {
                file.at(0).write(&[round as u8; 3000])?;
                file.at(10_000).write(&[1u8])?;
            }
            world.barrier().expect("a barrier");
            if world.rank() == (writer + 1) % 3 {
                let mut back = [255u8; 3000];
                file.at(0).read(&mut back)?;
                assert_eq!(back, [round as u8; 3000], "round {round}");
                assert_eq!((file.size()?, file.seek(0, Whence::End)?), (10_001, 10_001));
            }
            // The next writer does not look, it writes over.
            world.barrier().expect("a barrier");
        }
        file.close()
    });
    assert_eq!(contents("memfs:ordered")[..3000], [29; 3000]);
}

#[test]
fn a_failure_names_its_write_and_later_writes_are_not_done() {
    const RECORD: usize = 4096;
    on(3, |world| {
        let name = "fault=seed=1,rank=1,write=nospace@#4+,delay=5ms:memfs:failing";
        // One block for each record, so that each is a write of its own.
        let file = open(world, name, &memory(64 * KIB))?;
        let place = |number: u64| (number * 3 + world.rank() as u64) * 2 * RECORD as u64;
        for number in 0..10 {
            let outcome = file.at(place(number)).write(&[number as u8 + 1; RECORD]);
            assert!(outcome.is_ok() || (world.rank() == 1 && number > 3), "{outcome:?}");
        }
        for call in ["sync", "sync again", "a collective write", "a collective read"] {
            let error = match call {
                "a collective write" => file.at(0).all().write(&[0u8]).unwrap_err(),
                "a collective read" => file.at(0).all().read(&mut [0u8]).unwrap_err(),
                _ => file.sync().unwrap_err(),
            };
            if call == "sync" {
                assert_eq!(error.kind(), Kind::NoSpace, "{error}");
                let text = error.to_string();
                let start = (3 * 3 + 1) * 2 * RECORD;
                assert!(text.contains("write number 4"), "{text}");
                assert!(text.contains(&format!("bytes {start} to {}", start + RECORD)), "{text}");
                assert!(text.contains("are not in the file"), "{text}");
            }
        }
        let error = file.close().unwrap_err();
        assert!(world.rank() != 1 || error.to_string().contains("write number 4"), "{error}");
        Ok(())
    });
    let bytes = contents("memfs:failing");
    let there =
        |rank: usize, number: usize| bytes.get((number * 3 + rank) * 2 * RECORD) == Some(&(number as u8 + 1));
    let written: Vec<Vec<usize>> =
        (0..3).map(|rank| (0..10).filter(|number| there(rank, *number)).collect()).collect();
    assert_eq!(written, [(0..10).collect::<Vec<_>>(), vec![0, 1, 2], (0..10).collect()]);
}

#[test]
fn atomic_writes_are_not_buffered_and_hints_show_the_buffer() {
    on(2, |world| {
        let file = open(world, "memfs:atomic", &memory(64 * KIB))?;
        assert_eq!(file.info().get("aqueduct_buffer"), Some("64KiB"));
        file.set_info(&Info::from([("aqueduct_buffer", "1MiB")]))?;
        assert_eq!(file.info().get("aqueduct_buffer"), Some("64KiB"), "decided when it was opened");
        file.at(0).all().write(&[1u8; 10])?;
        file.set_atomic(true)?;
        let before = status(&file);
        assert_eq!((before.accepted, before.visible), (10, 10), "nothing is under way");
        file.at(0).write(&[2u8; 10])?;
        assert_eq!(status(&file), before);
        file.close()?;
        let file =
            OpenOptions::new().read(true).hint("aqueduct_buffer", "1MiB").open(world, "memfs:atomic")?;
        assert_eq!(file.buffering(), None, "nothing is written");
        file.close()
    });
}

/// One program: every step of every rank is a record of its own, written in one of all ways.
fn random_program(world: &Comm, seed: u64, steps: u64) -> Result<()> {
    let mut dice = SeededRng::new(seed);
    let caps = [1, 20 * KIB, 1 << 20];
    let settings = memory(caps[dice.below(caps.len())]);
    let delays = format!("fault=seed={seed},delay=60us@0.{}:memfs:seeded-{seed}", dice.below(9));
    let file = open(world, &delays, &settings)?;
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    let record = |step: u64, rank: u64| [seed, step, rank].map(u64::to_ne_bytes).concat();
    let len = record(0, 0).len() as u64;
    let mut requests = Vec::new();
    for step in 0..steps {
        let place = (step * size + rank) * len;
        let mine = record(step, rank);
        match dice.below(6) {
            0 => drop(file.at(place).write(&mine)?),
            1 => drop(file.at(place).all().write(&mine)?),
            2 => requests.push(file.at(place).start_write(mine)?),
            3 => requests.push(file.at(place).all().start_write(mine)?),
            4 => {
                let split = file.at(place).all().begin_write(mine)?;
                split.end()?;
            }
            // Garbage, and over it what is right: the later one counts.
            _ => {
                file.at(place).all().write(&vec![0xEEu8; mine.len()])?;
                file.at(place).write(&mine)?;
            }
        }
        if dice.below(8) == 0 {
            file.sync()?;
        }
    }
    for request in requests {
        request.wait()?;
    }
    let now = status(&file);
    assert!(now.memory.peak <= now.memory.cap, "seed {seed}: {now:?}");
    file.close()?;
    if rank == 0 {
        let bytes = contents(&format!("memfs:seeded-{seed}"));
        let expected: Vec<u8> =
            (0..steps).flat_map(|step| (0..size).flat_map(move |rank| record(step, rank))).collect();
        assert!(bytes == expected, "seed {seed}: a record is lost, doubled or torn");
        aqueduct_file::delete(format!("memfs:seeded-{seed}"))?;
    }
    Ok(())
}

#[test]
fn no_step_is_lost_or_doubled_in_a_thousand_runs_with_random_delays() {
    for seed in 0..1000 {
        // Some of them as if on two machines, where ranks do not see what the others hold.
        let launch = if seed % 8 == 7 { Launch::threads(3).node_ranks(2) } else { Launch::threads(2) };
        launch.run(|world| random_program(world, seed, 12)).unwrap();
    }
}
