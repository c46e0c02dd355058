//! Files that are only read, with the hint `aqueduct_prefetch`: reads of a sequence are made ahead, and return what they return without it.

use std::time::{Duration, Instant};

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::layout::{Basic, Layout, Vector};
use aqueduct_file::{File, OpenOptions, Result, View};

const BLOCK: u64 = 1000;
const BLOCKS: u64 = 40;

fn byte(at: u64) -> u8 {
    (at ^ (at >> 8)).wrapping_mul(31) as u8
}

fn create(world: &Comm, name: &str) -> Result<()> {
    let file = File::create(world, name)?;
    let bytes: Vec<u8> = (0..BLOCK * BLOCKS).map(byte).collect();
    file.at(0).all().write(if world.rank() == 0 { &bytes[..] } else { &bytes[..0] })?;
    file.close()
}

/// Opens a file whose reads take 300 µs.
fn open(world: &Comm, name: &str, cap: &str) -> Result<File> {
    let options = OpenOptions::new().read(true).hint("aqueduct_prefetch", cap);
    options.open(world, format!("throttle=300us:{name}"))
}

fn check(file: &File, block: u64) -> Result<()> {
    let mut bytes = [0u8; BLOCK as usize];
    assert_eq!(file.at(block * BLOCK).read(&mut bytes)?.bytes(), BLOCK);
    assert!(bytes.iter().zip(block * BLOCK..).all(|(found, at)| *found == byte(at)), "block {block}");
    Ok(())
}

/// Waits until the file has had this number of reads.
fn await_reads(file: &File, reads: u64) {
    let begin = Instant::now();
    while file.counters().reads < reads {
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", file.counters());
        std::thread::yield_now();
    }
}

fn on(ranks: usize, program: impl Fn(&Comm) -> Result<()> + Sync) {
    Launch::threads(ranks).run(program).unwrap();
}

#[test]
fn blocks_of_a_sequence_are_read_before_they_are_asked_for() {
    on(2, |world| {
        let name = "memfs:prefetched";
        create(world, name)?;
        let file = open(world, name, "1MiB")?;
        check(&file, 0)?;
        check(&file, 1)?;
        // Eight more than were asked for.
        await_reads(&file, 10);
        (2..10).try_for_each(|block| check(&file, block))?;
        let stats = file.prefetch_stats();
        assert_eq!((stats.hits, stats.misses, stats.peak), (8, 2, 8 * BLOCK), "{stats:?}");
        (10..BLOCKS).try_for_each(|block| check(&file, block))?;
        // Nothing beyond the end is read, and each block once.
        assert_eq!((file.prefetch_stats().hits, file.counters().reads), (BLOCKS - 2, BLOCKS));
        // Backwards, and every third block.
        (0..BLOCKS).rev().try_for_each(|block| check(&file, block))?;
        (0..BLOCKS).step_by(3).try_for_each(|block| check(&file, block))?;
        assert!(file.prefetch_stats().hits > 2 * BLOCKS, "{:?}", file.prefetch_stats());
        file.close()
    });
}

#[test]
fn pointers_and_views_have_sequences_too() {
    on(1, |world| {
        let name = "memfs:prefetched-views";
        create(world, name)?;
        let file = open(world, name, "1MiB")?;
        let mut bytes = [0u8; 300];
        for at in (0..BLOCK * BLOCKS - 300).step_by(300).take(30) {
            file.at_pointer().read(&mut bytes)?;
            assert!(bytes.iter().zip(at..).all(|(found, at)| *found == byte(at)), "at {at}");
        }
        assert_eq!(file.prefetch_stats().hits, 28);
        // Every second value of a block, at places with a constant distance; another view between them.
        let values = Layout::from(Basic::U32).vector(Vector { count: 50, block: 1, stride: 2 }).unwrap();
        for block in 0..20 {
            let view = View::new(16 + block * 700, &Layout::from(Basic::U32), &values)?;
            let mut found = [0u32; 50];
            file.with_view(&view).read(&mut found)?;
            let expected = (0..50).map(|value| {
                let at = 16 + block * 700 + 8 * value;
                u32::from_ne_bytes(std::array::from_fn(|part| byte(at + part as u64)))
            });
            assert!(found.into_iter().eq(expected), "block {block}");
            check(&file, (block * 17 + block * block) % BLOCKS)?;
        }
        assert!(file.prefetch_stats().hits >= 28 + 17, "{:?}", file.prefetch_stats());
        // Another view of the file, in which the same offsets are other bytes.
        file.set_view(&View::of(100, &Layout::from(Basic::Byte))?)?;
        for at in 0..10 {
            let mut bytes = [0u8; 10];
            file.at(at * 10).read(&mut bytes)?;
            assert!(bytes.iter().zip(100 + at * 10..).all(|(found, at)| *found == byte(at)));
        }
        file.close()
    });
}

/// Random accesses, with runs of sequences among them, have the bytes and counts of a file without the hint.
#[test]
fn random_accesses_have_the_same_bytes() {
    on(2, |world| {
        let name = "memfs:prefetched-random";
        create(world, name)?;
        let (ahead, plain) = (open(world, name, "20kB")?, File::open(world, name)?);
        let mut state = 7 + world.rank() as u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..60 {
            let (length, mut at) = (random(3000) as usize, random(BLOCK * BLOCKS + 500));
            let stride = random(4) * random(2000);
            for _ in 0..random(7) {
                let (mut one, mut other) = (vec![0u8; length], vec![0u8; length]);
                let counts = [ahead.at(at).read(&mut one)?, plain.at(at).read(&mut other)?];
                assert!(counts[0] == counts[1] && one == other, "{length} bytes at {at}: {counts:?}");
                at += stride;
            }
        }
        let stats = ahead.prefetch_stats();
        assert!(stats.hits > 10 && stats.peak <= stats.cap && stats.cap == 20_000, "{stats:?}");
        ahead.close()?;
        plain.close()
    });
}

#[test]
fn writers_and_files_without_the_hint_read_nothing_ahead_and_a_sync_drops_what_was_read() {
    on(1, |world| {
        let name = "memfs:prefetched-not";
        create(world, name)?;
        let writer = OpenOptions::new().read(true).write(true).hint("aqueduct_prefetch", "1MiB");
        let writer = writer.open(world, format!("throttle=300us:{name}"))?;
        for file in [&writer, &open(world, name, "0")?] {
            (0..10).try_for_each(|block| check(file, block))?;
            assert_eq!((file.prefetch_stats().hits, file.counters().reads), (0, 10));
        }
        // What another handle has written is seen after a sync of both.
        let reader = open(world, name, "1MiB")?;
        check(&reader, 0)?;
        check(&reader, 1)?;
        await_reads(&reader, 10);
        writer.at(2 * BLOCK).write(&[1u8; BLOCK as usize])?;
        writer.sync()?;
        reader.sync()?;
        let mut bytes = [0u8; BLOCK as usize];
        reader.at(2 * BLOCK).read(&mut bytes)?;
        assert!(bytes == [1; BLOCK as usize], "what was read ahead is dropped");
        writer.close()?;
        reader.close()
    });
}
