//! Buffered files after failures: killed programs, lost power, failing devices. What was reported as durable is there, nothing hangs, every
//! failure is reported.

mod timeout;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use aqueduct_comm::{Comm, Launch};
use aqueduct_device::layers::CrashDevice;
use aqueduct_device::{MemFs, register_device};
use aqueduct_file::{BufferOptions, Capacity, Error, File, OpenOptions, Result, Whence, delete};
use aqueduct_testkit::launcher::TestLauncher;
use timeout::with_timeout;

const RECORD: usize = 4096;

fn open(world: &Comm, name: &str, memory: u64) -> Result<File> {
    let buffered = BufferOptions::new(Capacity::Bytes(memory));
    OpenOptions::new().read(true).write(true).create(true).buffered(&buffered).open(world, name)
}

/// Where a record of a rank lies, of two ranks.
fn place(number: u64, rank: usize) -> u64 {
    (number * 2 + rank as u64) * RECORD as u64
}

fn fill(number: u64) -> u8 {
    (number % 255) as u8 + 1
}

/// How many records of a rank are there, in order; panics if a later one is there without all before it.
fn records(bytes: &[u8], rank: usize) -> u64 {
    let begun = |number: u64| bytes.get(place(number, rank) as usize).is_some_and(|byte| *byte != 0);
    let whole = |number: u64| {
        let start = place(number, rank) as usize;
        bytes.get(start..start + RECORD).is_some_and(|record| record.iter().all(|byte| *byte == fill(number)))
    };
    let all = bytes.len() as u64 / RECORD as u64;
    let there = (0..all).take_while(|number| whole(*number)).count() as u64;
    let stray = (there + 1..all).find(|number| begun(*number));
    assert_eq!(stray, None, "rank {rank} has {there} records, and one after a missing one");
    there
}

/// Where the program that is killed has its file.
const KILLED: &str = "AQUEDUCT_TEST_KILLED";
/// The record before which its second rank kills itself; none where another does it.
const FATAL: &str = "AQUEDUCT_TEST_FATAL";

/// Writes records until it is killed, and prints which are durable.
fn write_until_killed(path: &str) {
    let fatal = std::env::var(FATAL).ok().and_then(|number| number.parse::<u64>().ok());
    let program = |world: &Comm| {
        let file = open(world, path, 256 << 10)?;
        for number in 0..200_000 {
            if world.rank() == 1 && fatal == Some(number) {
                let myself = std::process::id().to_string();
                Command::new("kill").args(["-9", &myself]).status().expect("a process may kill itself");
            }
            file.at(place(number, world.rank())).write(&[fill(number); RECORD])?;
            if number % 16 == 15 {
                file.sync()?;
                if world.rank() == 0 {
                    println!("\ndurable {}", number + 1);
                    std::io::stdout().flush().expect("a line");
                }
            }
        }
        file.close()
    };
    aqueduct_comm::run(program).expect("nothing fails");
}

/// What a killed program has left.
fn check_killed(path: &Path, durable: u64, least: u64) {
    let bytes = std::fs::read(path).unwrap();
    for rank in 0..2 {
        let there = records(&bytes, rank);
        assert!(there >= durable && durable >= least, "rank {rank}: {there}, {durable} durable, of {least}");
    }
}

fn durable(line: &str) -> Option<u64> {
    line.trim().strip_prefix("durable ").and_then(|number| number.parse().ok())
}

/// Started by the tests below: the program. Started by hand: a short one that is not killed.
#[test]
fn program() {
    if let Ok(path) = std::env::var(KILLED) {
        return write_until_killed(&path);
    }
    let reported =
        Launch::threads(2).run(|world| Ok::<_, Error>(until_the_power_fails(world, "crash:memfs:unkilled")));
    assert_eq!(reported.unwrap(), [(12, true); 2]);
}

const PROGRAM: [&str; 3] = ["--exact", "program", "--nocapture"];

#[test]
fn a_killed_program_leaves_what_it_knew_to_be_durable_and_a_prefix_of_the_rest() {
    for kills in 1..6 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("killed");
        let device = format!("throttle=100MB/s:ufs:{}", path.display());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(PROGRAM).env(KILLED, device).env("AQUEDUCT_RANKS", "2").stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines =
            BufReader::new(child.stdout.take().unwrap()).lines().map_while(std::result::Result::ok);
        let reported = lines.by_ref().filter_map(|line| durable(&line)).find(|number| *number >= 16 * kills);
        // Not always at the same moment after a sync.
        std::thread::sleep(std::time::Duration::from_micros(300 * kills));
        child.kill().unwrap();
        child.wait().unwrap();
        check_killed(&path, reported.expect("it goes on until it is killed"), 16 * kills);
    }
}

fn killed_under(name: &str) {
    let Some(launcher) = TestLauncher::find(name, &std::env::current_exe().unwrap()) else { return };
    for fatal in ["50", "77"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("killed");
        let device = format!("throttle=100MB/s:ufs:{}", path.display());
        let job = launcher.job(2, &PROGRAM, &[(KILLED, &device), (FATAL, fatal)]);
        assert!(!job.success, "{}", job.output);
        let reported = job.output.lines().filter_map(durable).max().unwrap_or(0);
        check_killed(&path, reported, 48);
    }
}

#[test]
fn a_rank_that_is_killed_under_open_mpi() {
    killed_under("openmpi");
}

#[test]
fn a_rank_that_is_killed_under_mpich() {
    killed_under("mpich");
}

/// Writes and syncs until the power fails; how many records of this rank it knows to be durable, and whether it came to its end.
fn until_the_power_fails(world: &Comm, name: &str) -> (u64, bool) {
    let mut durable = 0;
    let mut program = || {
        let file = open(world, name, 1 << 20)?;
        for number in 0..12 {
            if number % 2 == 0 {
                file.at(place(number, world.rank())).all().write(&[fill(number); RECORD])?;
            } else {
                file.at(place(number, world.rank())).write(&[fill(number); RECORD])?;
            }
            if number % 4 == 3 {
                file.sync()?;
                assert_eq!(
                    file.buffering().map(|reported| reported.durable),
                    Some((number + 1) * RECORD as u64)
                );
                durable = number + 1;
            }
        }
        file.close()?;
        durable = 12;
        Ok::<_, Error>(())
    };
    let done = program().is_ok();
    (durable, done)
}

#[test]
fn data_reported_as_durable_survives_every_power_cut() {
    with_timeout("power cuts", || {
        let mut whole = 0;
        for seed in 0..4 {
            for after in 0..200 {
                let prefix = format!("buffered-power-{seed}-{after}");
                let crash = CrashDevice::new(Arc::new(MemFs::new())).after(after, seed * 1000 + after);
                register_device(&prefix, Arc::new(crash)).unwrap();
                let name = format!("{prefix}:a");
                let reported =
                    Launch::threads(2).run(|world| Ok::<_, Error>(until_the_power_fails(world, &name)));
                let reported = reported.unwrap();
                // What is reported to one rank holds for all.
                let durable = reported.iter().map(|(durable, _)| *durable).max().unwrap_or(0);
                let read = |world: &Comm| {
                    let Ok(file) = File::open(world, &name) else { return Ok(vec![]) };
                    let mut bytes = vec![0; file.size()? as usize];
                    file.at(0).read(&mut bytes)?;
                    file.close()?;
                    Ok::<_, Error>(bytes)
                };
                let bytes = Launch::threads(1).run(read).unwrap().remove(0);
                for number in 0..durable {
                    for rank in 0..2 {
                        let start = place(number, rank) as usize;
                        let there = bytes.get(start..start + RECORD) == Some(&[fill(number); RECORD][..]);
                        assert!(
                            there,
                            "seed {seed}, after {after}: record {number} of rank {rank} was durable"
                        );
                    }
                }
                if reported.iter().all(|(_, done)| *done) {
                    whole += 1;
                    break;
                }
            }
        }
        assert_eq!(whole, 4, "every seed comes to an end");
    });
}

/// A program with all kinds of calls; the outcome of each.
fn all_calls(world: &Comm, name: &str) -> Vec<Result<()>> {
    let mut outcomes = Vec::new();
    let file = match open(world, name, 16 << 10) {
        Ok(file) => file,
        Err(error) => return vec![Err(error)],
    };
    for number in 0..6 {
        outcomes.push(file.at(place(number, world.rank())).write(&[fill(number); RECORD]).map(drop));
    }
    for number in 6..9 {
        outcomes.push(file.at(place(number, world.rank())).all().write(&[fill(number); RECORD]).map(drop));
    }
    outcomes.push(file.at(0).all().read(&mut [0u8; 100]).map(drop));
    outcomes.push(file.seek(0, Whence::End).map(drop));
    outcomes.push(file.sync());
    let request = file.at(place(9, world.rank())).start_write(vec![fill(9); RECORD]);
    outcomes.push(request.and_then(aqueduct_file::Request::wait).map(drop));
    outcomes.push(file.set_size(place(10, 0)));
    outcomes.push(file.close());
    outcomes
}

#[test]
fn every_device_failure_is_reported_and_no_rank_hangs() {
    with_timeout("the fault matrix", || {
        let mut silent = 0;
        for operation in ["write", "sync", "read", "len", "setlen", "any"] {
            for when in ["#1", "#2", "#3", "#5", "#8", "#2+", "0.3"] {
                for rank in 0..2 {
                    let inner = format!("memfs:matrix-{operation}-{rank}-{}", when.replace('#', "n"));
                    let name = format!("fault=seed=9,rank={rank},{operation}={when},delay=50us@0.5:{inner}");
                    let outcomes =
                        Launch::threads(2).run(|world| Ok::<_, Error>(all_calls(world, &name))).unwrap();
                    let reported = outcomes.iter().flatten().any(Result::is_err);
                    if !reported {
                        silent += 1;
                        let read = |world: &Comm| {
                            let file = File::open(world, &inner)?;
                            let mut bytes = vec![0; file.size()? as usize];
                            file.at(0).read(&mut bytes)?;
                            file.close()?;
                            Ok::<_, Error>(bytes)
                        };
                        let bytes = Launch::threads(1).run(read).unwrap().remove(0);
                        let found = [records(&bytes, 0), records(&bytes, 1)];
                        assert_eq!(found, [10, 10], "{name}: no error was reported");
                    }
                    let hit = operation == "write" && ["#1", "#2", "#3", "#5", "#8", "#2+"].contains(&when);
                    assert!(reported || !hit, "{name}: a write failed and no error was reported");
                    let _ = delete(&inner);
                }
            }
        }
        assert!(silent > 5 && silent < 60, "{silent} runs without an error");
    });
}
