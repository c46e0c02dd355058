//! Small sequential writes use pages that are populated ahead, correctly even if others change the file.

use std::os::unix::fs::FileExt;
use std::path::Path;

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{File, OpenOptions, Result, Whence};

const RECORD: usize = 1000;
const RECORDS: usize = 600;

fn record(number: usize, pass: usize) -> Vec<u8> {
    (0..RECORD).map(|at| (at * 3 + number * 7 + pass * 11) as u8).collect()
}

/// On the disk, and on tmpfs, where pages keep their room for certain.
fn with_files(program: impl Fn(&Path, bool)) {
    let folder = tempfile::tempdir().unwrap();
    program(&folder.path().join("a"), false);
    if Path::new("/dev/shm").is_dir() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        program(&folder.path().join("a"), true);
    }
}

#[test]
fn records_at_the_shared_pointer_are_written_once_each() {
    with_files(|path, keeps_room| {
        for ranks in [1, 2, 5] {
            std::fs::write(path, vec![0; RECORD * RECORDS / 2]).unwrap();
            let program = |world: &Comm| -> Result<()> {
                let file = OpenOptions::new().read(true).write(true).open(world, path)?;
                for pass in 0..3 {
                    file.seek_shared(0, Whence::Start)?;
                    for number in (world.rank()..RECORDS).step_by(world.size()) {
                        file.shared().write(&record(number, pass))?;
                    }
                    world.barrier().unwrap();
                    let mut written: Vec<_> =
                        std::fs::read(path).unwrap().chunks(RECORD).map(<[u8]>::to_vec).collect();
                    let mut expected: Vec<_> = (0..RECORDS).map(|number| record(number, pass)).collect();
                    written.sort();
                    expected.sort();
                    assert!(written == expected, "pass {pass} on {ranks} ranks");
                    world.barrier().unwrap();
                }
                assert!(file.counters().copied > 0 || !keeps_room);
                file.close()
            };
            Launch::threads(ranks).run(program).unwrap();
        }
    });
}

#[test]
fn sequential_reads_return_the_current_contents() {
    with_files(|path, _| {
        let other = std::fs::File::create(path).unwrap();
        let program = |world: &Comm| -> Result<()> {
            let file = File::open(world, path)?;
            for pass in 0..3 {
                for number in 0..RECORDS {
                    // Written before the reader, far ahead of it and at its place; the file's end comes and goes with it.
                    let len = (number + 1) * RECORD - number % 7 * 100;
                    other.set_len(len as u64 + [0, 50_000, 0][number % 3]).unwrap();
                    other.write_all_at(&record(number, pass), (number * RECORD) as u64).unwrap();
                    other.set_len(len as u64 + [0, 50_000, 0][number % 3]).unwrap();
                    let there = RECORD.min(len + [0, 50_000, 0][number % 3] - number * RECORD);
                    let mut back = vec![0u8; RECORD];
                    let count = file.at((number * RECORD) as u64).read(&mut back)?.bytes() as usize;
                    assert_eq!(count, there, "record {number}");
                    assert!(back[..there] == record(number, pass)[..there], "record {number}");
                    assert!(back[there..].iter().all(|byte| *byte == 0), "record {number}");
                }
            }
            assert_eq!(file.counters().copied, 0);
            file.close()
        };
        Launch::threads(1).run(program).unwrap();
    });
}

#[test]
fn hints_disable_mapped_access() {
    with_files(|path, _| {
        for hint in [("aqueduct_map", "false"), ("aqueduct_strategy", "list")] {
            std::fs::write(path, vec![0; RECORD * RECORDS]).unwrap();
            let program = |world: &Comm| -> Result<()> {
                let file =
                    OpenOptions::new().read(true).write(true).hint(hint.0, hint.1).open(world, path)?;
                for number in 0..RECORDS {
                    file.at((number * RECORD) as u64).write(&record(number, 0))?;
                    file.at((number * RECORD) as u64).read(&mut vec![0u8; RECORD])?;
                }
                assert_eq!((file.counters().copied, file.counters().system_calls), (0, 2 * RECORDS as u64));
                file.close()
            };
            Launch::threads(1).run(program).unwrap();
        }
    });
}
