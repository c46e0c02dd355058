//! Runs that are killed with SIGKILL at any time: the stored steps are whole, and a restart on another number of ranks gives the same bits as a run that
//! was not killed. `AQUEDUCT_KILLS=100` sets the number of kills.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use aqueduct::Kind;
use aqueduct::comm::Launch;
use aqueduct_fmm::packet_output::{IoMethod, read_last};
use aqueduct_testkit::launcher::kills::requested_kills;
use aqueduct_testkit::rng::SeededRng;

use crate::output::{configuration, fmm};

/// Bytes of a stored step of 60 packets.
const STEP: u64 = 7200;
/// Stored steps of the whole run, that at 0 included.
const STORED: u64 = 61;

/// The number of whole steps in the output of a run that was killed.
fn stored_steps(method: IoMethod, name: &str) -> u64 {
    let count = |world: &aqueduct::comm::Comm| match read_last::<2>(world, method, name, 60) {
        Ok((_, steps)) => Ok(steps),
        Err(error) => {
            let kind = error.downcast_ref::<aqueduct::Error>().map(aqueduct::Error::kind);
            // Killed before the first commit.
            let is_new = matches!(kind, None | Some(Kind::Incomplete | Kind::NoSuchFile));
            if is_new { Ok(0) } else { Err(format!("{error:#}")) }
        }
    };
    Launch::threads(1).run(count).unwrap()[0]
}

#[test]
fn killed_runs_leave_whole_steps_and_are_restarted_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let config = configuration(folder.path());
    let name = |name: &str| folder.path().join(name).display().to_string();
    let (whole, mut random) = (name("whole"), SeededRng::from_environment(20_061));
    let last = (5 * (STORED - 1)).to_string();
    let common = [&config, "--every", "5", "--rows", "0", "--steps", &last];
    fmm(&[&common[..], &["-o", &whole, "-n", "2"]].concat());
    let expected = fs::read(&whole).unwrap();
    assert_eq!(expected.len() as u64, STORED * STEP);
    let wanted = requested_kills(8);
    let (mut kills, mut restarts) = (0, 0);
    for round in 0.. {
        if kills >= wanted {
            break;
        }
        let killed = name(&format!("killed{round}"));
        let (method, io) =
            [(IoMethod::Together, "together"), (IoMethod::Master, "master"), (IoMethod::Stream, "stream")]
                [round % 3];
        let ranks = (1 + random.below(4)).to_string();
        let mut child = Command::new(env!("CARGO_BIN_EXE_fmm"))
            .args(common)
            .args(["-o", &killed, "-n", &ranks, "--io", io])
            .env("AQUEDUCT_MPI", "none")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // At any moment: of the start, of a step, of a write.
        let wait_for = random.below(STORED as usize / 2) as u64 * STEP;
        let mut is_over = false;
        while !is_over && fs::metadata(&killed).map_or(0, |file| file.len()) < wait_for {
            is_over = child.try_wait().unwrap().is_some();
            thread::sleep(Duration::from_micros(200));
        }
        thread::sleep(Duration::from_micros(random.below(20_000) as u64));
        child.kill().unwrap();
        let was_killed = !child.wait().unwrap().success();
        kills += usize::from(was_killed);
        let steps = stored_steps(method, &killed);
        println!("round {round}: {io} on {ranks} ranks, {steps} whole steps");
        let written = fs::read(&killed).unwrap_or_default();
        let bytes = (steps * STEP) as usize;
        assert!(written[..bytes] == expected[..bytes], "round {round}: the stored steps");
        // What was seen in the file at the kill is not lost, but for the step that was being written, and in a stream those on their way.
        let behind = if method == IoMethod::Stream { STORED } else { 1 };
        assert!(
            steps + behind >= wait_for / STEP,
            "round {round}: {steps} steps after {wait_for} bytes were seen"
        );
        if steps == 0 {
            continue;
        }
        let ranks = (1 + random.below(4)).to_string();
        // Files are continued by another method than before, streams by their own.
        let io = match method {
            IoMethod::Stream => "stream",
            IoMethod::Together => "master",
            IoMethod::Master => "together",
        };
        fmm(&[&common[..], &["-o", &killed, "-n", &ranks, "--io", io, "--restart"]].concat());
        assert!(fs::read(&killed).unwrap() == expected, "round {round}: other bits after a restart");
        restarts += usize::from(was_killed);
        for ending in ["", ".meta", ".steps"] {
            let _ = fs::remove_file(killed.clone() + ending);
        }
    }
    println!("{kills} kills, {restarts} restarts");
    assert!(restarts > 0, "{kills} kills, but no restart from a step");
}
