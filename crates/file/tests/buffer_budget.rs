//! One memory limit for all buffered files of a rank: it holds for any number of files, is shared on demand, and causes no deadlock.

mod timeout;

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{BufferOptions, BufferStatus, Capacity, File, OpenOptions, Result};
use aqueduct_testkit::blocking_device::BlockingDevice;
use aqueduct_testkit::contents::contents;
use aqueduct_testkit::rng::SeededRng;
use timeout::with_timeout;

const KIB: u64 = 1 << 10;

fn open(world: &Comm, name: &str, buffered: &BufferOptions) -> Result<File> {
    OpenOptions::new().read(true).write(true).create(true).buffered(buffered).open(world, name)
}

fn memory(bytes: u64) -> BufferOptions {
    BufferOptions::new(Capacity::Bytes(bytes))
}

fn status(file: &File) -> BufferStatus {
    file.buffering().expect("the file is buffered")
}

/// Bytes that depend on their offset and file.
fn pattern(file: usize, from: u64, len: usize) -> Vec<u8> {
    (from..).take(len).map(|at| ((at + 7 * file as u64) % 251) as u8).collect()
}

/// Several threads of each rank write to several files at once, each more than the cap, on a device that is too slow for them.
#[test]
fn several_files_at_once_stay_under_one_cap() {
    const BYTES: usize = 1 << 20;
    with_timeout("several files", || {
        let program = |world: &Comm| {
            let name = |number: usize| format!("throttle=400MB/s:memfs:together-{number}");
            let files: Vec<File> =
                (0..4).map(|number| open(world, &name(number), &memory(256 * KIB))).collect::<Result<_>>()?;
            let place = (BYTES * world.rank()) as u64;
            std::thread::scope(|scope| {
                for (number, file) in files.iter().enumerate() {
                    scope.spawn(move || {
                        for start in (0..BYTES).step_by(30_000) {
                            let data = pattern(number, start as u64, 30_000.min(BYTES - start));
                            file.at(place + start as u64).write(&data).expect("a write");
                        }
                    });
                }
            });
            let all: Vec<BufferStatus> = files.iter().map(status).collect();
            let together = all[0].together;
            assert_eq!(together.cap, 256 * KIB, "one cap for all");
            assert!(together.peak <= 256 * KIB && together.peak > 200 * KIB, "{together:?}");
            assert!(all.iter().any(|one| one.waits > 0), "it overflowed: {all:?}");
            assert!(all.iter().all(|one| one.accepted == BYTES as u64 && one.memory.peak > 0), "{all:?}");
            files.into_iter().try_for_each(File::close)
        };
        Launch::threads(2).run(program).unwrap();
    });
    for number in 0..4 {
        let mine = pattern(number, 0, BYTES);
        assert!(contents(&format!("memfs:together-{number}")) == [&mine[..], &mine].concat(), "{number}");
    }
}

/// What one file does not need, another one has; a file that waits gets it back.
#[test]
fn memory_moves_to_the_file_that_needs_it() {
    let gate = BlockingDevice::register("shares");
    let program = move |world: &Comm| {
        let (first, second) =
            (open(world, "shares:a", &memory(256 * KIB))?, open(world, "shares:b", &memory(256 * KIB))?);
        // Nothing is written yet: the first file takes nearly everything.
        first.at(0).write(&pattern(0, 0, 200 << 10))?;
        assert!(status(&first).memory.held >= 200 * KIB && status(&first).waits == 0);
        second.at(0).write(&pattern(1, 0, 20 << 10))?;
        assert_eq!(status(&second).waits, 0, "the rest is enough");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| second.at(20 << 10).write(&pattern(1, 20 << 10, 200 << 10)));
            while status(&second).waits == 0 {
                std::thread::yield_now();
            }
            assert_eq!(status(&first).visible, 0, "it waits for the other file");
            gate.open();
            waiter.join().expect("no panic").map(drop)
        })?;
        // Blocks that the first file keeps for its next writes are used by the file that needs them.
        first.sync()?;
        second.sync()?;
        gate.shut();
        second.at(0).write(&pattern(1, 0, 220 << 10))?;
        assert_eq!(status(&second).visible, 220 * KIB, "nothing had to be written");
        let together = status(&second).together;
        assert!(together.held <= together.cap && together.peak <= 256 * KIB, "{together:?}");
        gate.open();
        first.close()?;
        second.close()
    };
    with_timeout("shares", move || drop(Launch::threads(1).run(program).unwrap()));
    assert!(
        contents("shares:a") == pattern(0, 0, 200 << 10) && contents("shares:b") == pattern(1, 0, 220 << 10)
    );
}

/// A file whose write fails gives back what it held: the others go on.
#[test]
fn a_file_that_fails_releases_its_memory() {
    with_timeout("a file that fails", || {
        let program = |world: &Comm| {
            let bad = open(world, "fault=seed=1,write=nospace@#3+:memfs:budget-bad", &memory(64 * KIB))?;
            let good = open(world, "throttle=400MB/s:memfs:budget-good", &memory(64 * KIB))?;
            let mut place = 0;
            while bad.at(place).write(&[1u8; 5000]).is_ok() {
                place += 5000;
            }
            good.at(0).write(&pattern(0, 0, 1 << 20))?;
            assert_eq!(status(&bad).memory.held, 0);
            assert!(bad.close().is_err());
            let together = status(&good).together;
            assert!(together.peak <= together.cap, "{together:?}");
            good.close()
        };
        Launch::threads(1).run(program).unwrap();
    });
    assert!(contents("memfs:budget-good") == pattern(0, 0, 1 << 20));
}

/// Files with different caps, with and without spill files, written together and alone in any order.
fn random_program(world: &Comm, seed: u64, folder: &std::path::Path) -> Result<()> {
    let mut dice = SeededRng::new(seed);
    let caps: Vec<u64> = (0..3).map(|_| [1, 9 * KIB, 40 * KIB, 100 * KIB][dice.below(4)]).collect();
    let mut files = Vec::new();
    for (number, cap) in caps.iter().enumerate() {
        let settings = match dice.below(2) {
            0 => memory(*cap),
            _ => memory(*cap).spill(folder, Some(30 * KIB)),
        };
        let name = format!("fault=seed={seed},delay=60us@0.{}:memfs:budget-{seed}-{number}", dice.below(9));
        files.push(open(world, &name, &settings)?);
    }
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    let mut ends = [0u64; 3];
    for _ in 0..20 {
        let (number, len) = (dice.below(3), 1 + dice.below(12_000));
        let place = ends[number] * size + rank * len as u64;
        let data = pattern(number, place, len);
        match dice.below(3) {
            0 => drop(files[number].at(place).write(&data)?),
            1 => drop(files[number].at(place).all().write(&data)?),
            _ => drop(files[number].at(place).all().start_write(data)?.wait()?),
        }
        ends[number] += len as u64;
    }
    let together = status(&files[0]).together;
    assert!(together.peak <= together.cap, "seed {seed}: {together:?}");
    assert!(caps.iter().all(|cap| together.cap >= *cap), "seed {seed}");
    // In any order, the same on all ranks.
    while !files.is_empty() {
        files.swap_remove(dice.below(files.len())).close()?;
    }
    if rank == 0 {
        for (number, end) in ends.iter().enumerate() {
            let name = format!("memfs:budget-{seed}-{number}");
            assert!(contents(&name) == pattern(number, 0, (end * size) as usize), "seed {seed}, {number}");
            aqueduct_file::delete(name)?;
        }
    }
    Ok(())
}

#[test]
fn random_programs_with_several_files_lose_nothing_and_end() {
    with_timeout("random programs", || {
        let folder = tempfile::tempdir().unwrap();
        for seed in 0..60 {
            Launch::threads(2).run(|world| random_program(world, seed, folder.path())).unwrap();
        }
    });
}
