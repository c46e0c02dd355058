//! Files of packets: both methods, counts of accesses, restart, kills, the command.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use aqueduct::comm::Launch;
use aqueduct::object::{Category, Object, ObjectFile};
use aqueduct_fmm::packet::MassPacket;
use aqueduct_fmm::packet_file::{IoMethod, PacketFile, read_last};
use aqueduct_fmm::scene::ball;

/// Runs the command and returns its output.
fn fmm(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_fmm")).args(arguments).env("AQUEDUCT_MPI", "none").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn configuration(folder: &Path) -> String {
    let path = folder.join("few.cfg");
    fs::write(&path, "packets 60\nfriction 0.2\nrelay 5\n").unwrap();
    path.display().to_string()
}

#[test]
fn a_packet_is_stored_as_it_is_in_memory() {
    assert_eq!((MassPacket::<2>::CATEGORY, MassPacket::<2>::SIZE), (Category::Trivial, Some(120)));
    assert_eq!((MassPacket::<3>::CATEGORY, MassPacket::<3>::SIZE), (Category::Trivial, Some(216)));
}

#[test]
fn both_methods_leave_the_same_files_on_any_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let config = configuration(folder.path());
    let mut files = Vec::new();
    for (method, ranks) in
        [("master", "1"), ("together", "1"), ("master", "4"), ("together", "4"), ("together", "3")]
    {
        let name = folder.path().join(format!("{method}-{ranks}")).display().to_string();
        fmm(&[
            &config, "--steps", "20", "--every", "10", "-n", ranks, "--io", method, "-o", &name, "--rows",
            "0",
        ]);
        files.push((fs::read(&name).unwrap(), fs::read(name + ".meta").unwrap()));
    }
    assert_eq!(files[0].0.len(), 3 * 60 * 120, "three steps, each packet once");
    assert!(files.iter().all(|file| *file == files[0]));
}

#[test]
fn all_ranks_read_the_packets_with_the_accesses_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("read").display().to_string();
    let packets = ball::<2>(400, 2.0).unwrap();
    Launch::threads(4)
        .run(|world| {
            let mut file = PacketFile::open(world, IoMethod::Together, &name, 400, None).unwrap();
            file.write(&packets).unwrap();
            file.close().unwrap();
            for method in [IoMethod::Master, IoMethod::Together] {
                let (read, steps) = read_last::<2>(world, method, &name, 400).unwrap();
                assert!(read == packets && steps == 1, "{method:?}");
                assert!(read_last::<2>(world, method, &name, 401).is_err(), "no step of 401 packets");
            }
            Ok::<_, aqueduct::comm::Error>(())
        })
        .unwrap();
}

#[test]
fn a_restart_continues_with_the_same_bits_on_another_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let config = configuration(folder.path());
    let name = |name: &str| folder.path().join(name).display().to_string();
    let (whole, parts) = (name("whole"), name("parts"));
    let run = |name: &str, steps: &str, ranks: &str, more: &[&str]| {
        let common = [&config, "--steps", steps, "--every", "5", "-n", ranks, "-o", name, "--rows", "0"];
        fmm(&[&common[..], more].concat());
    };
    run(&whole, "40", "2", &[]);
    run(&parts, "15", "3", &[]);
    run(&parts, "25", "1", &["--restart", "--io", "master"]);
    run(&parts, "40", "4", &["--restart"]);
    assert_eq!(fs::read(&whole).unwrap(), fs::read(&parts).unwrap());
    // A run that begins with the last packets of another one.
    let times = name("times.json");
    run(&name("next"), "0", "2", &["--input", &whole, "--times", &times]);
    assert_eq!(fs::read(name("next")).unwrap()[..], fs::read(&whole).unwrap()[8 * 7200..]);
    let times: serde_json::Value = serde_json::from_str(&fs::read_to_string(times).unwrap()).unwrap();
    assert_eq!(
        (times["program"].as_str(), times["ranks"].as_u64(), times["bytes"].as_u64()),
        (Some("fmm"), Some(2), Some(7200))
    );
    assert!(["compute", "io", "talk", "total"].iter().all(|key| times[key].as_f64().unwrap() >= 0.0));
}

#[test]
fn after_a_kill_the_last_step_is_whole_and_a_restart_gives_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let config = configuration(folder.path());
    let (whole, killed) = (folder.path().join("whole"), folder.path().join("killed"));
    let (whole, killed) = (whole.display().to_string(), killed.display().to_string());
    let common = [&config, "--every", "5", "--rows", "0"];
    fmm(&[&common[..], &["--steps", "60", "-o", &whole, "-n", "2"]].concat());
    let expected = fs::read(&whole).unwrap();
    let kills = std::env::var("AQUEDUCT_KILLS").map_or(6, |kills| kills.parse().unwrap());
    let mut state = 7u64;
    for round in 0..kills {
        for path in [killed.clone(), format!("{killed}.meta")] {
            let _ = fs::remove_file(path);
        }
        let ranks = ["1", "2", "3"][round % 3];
        let method = ["together", "master"][round % 2];
        let start =
            [&common[..], &["--steps", "100000", "-o", &killed, "-n", ranks, "--io", method]].concat();
        let mut child = Command::new(env!("CARGO_BIN_EXE_fmm"))
            .args(&start)
            .env("AQUEDUCT_MPI", "none")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // After the first commit: some steps more, at any moment of one.
        while fs::metadata(&killed).map_or(0, |file| file.len()) < 2 * 7200 {
            assert!(child.try_wait().unwrap().is_none(), "the run ended by itself");
            thread::sleep(Duration::from_millis(1));
        }
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        thread::sleep(Duration::from_micros((state >> 40) % 60_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let stored = Launch::threads(1)
            .run(|world| {
                let file = ObjectFile::<MassPacket<2>>::open(world, &killed)?;
                file.verify()?;
                let count = file.count()?;
                file.close()?;
                Ok::<_, aqueduct::Error>(count)
            })
            .unwrap()[0];
        assert!(stored > 0 && stored.is_multiple_of(60), "whole steps: {stored} packets");
        let steps = (stored / 60 + 2) * 5;
        let more = ["--steps", &steps.to_string(), "-o", &killed, "-n", "2", "--restart"].map(str::to_owned);
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        fmm(&[&common[..], &more].concat());
        let found = fs::read(&killed).unwrap();
        assert_eq!(found.len() as u64, (steps / 5 + 1) * 7200);
        let shared = found.len().min(expected.len());
        assert!(found[..shared] == expected[..shared], "round {round}: other bits after a restart");
    }
}

#[test]
fn packets_are_drawn_as_ellipses() {
    let folder = tempfile::tempdir().unwrap();
    let (config, picture) = (configuration(folder.path()), folder.path().join("last.svg"));
    let shown = fmm(&[&config, "--steps", "10", "--rows", "2", "--picture", picture.to_str().unwrap()]);
    assert_eq!(shown.lines().count(), 1 + 3 + 1, "a head, three rows, the times: {shown}");
    let text = fs::read_to_string(&picture).unwrap();
    assert_eq!(text.matches("<ellipse ").count(), 60);
    assert!(text.contains("60 packets, time 0.050"));
    assert!(!text.contains("NaN"));
}

/// The lines of code between two marks, without comments, braces and empty lines.
fn code_lines(text: &str, begin: &str, end: &str) -> usize {
    let part = text.split(begin).nth(1).unwrap().split(end).next().unwrap();
    let is_code = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with("//") && line.chars().any(char::is_alphanumeric)
    };
    part.lines().filter(is_code).count()
}

#[test]
fn reading_and_writing_together_takes_fewer_lines_than_plain_mpi_io() {
    let ours = code_lines(
        include_str!("../../src/packet_file.rs"),
        "// lines of I/O: begin",
        "// lines of I/O: end",
    );
    let plain = code_lines(
        include_str!("../programs/packets.c"),
        "/* lines of I/O: begin */",
        "/* lines of I/O: end */",
    );
    println!("lines of I/O code: {ours}, in plain MPI-IO {plain}");
    assert!(ours < plain, "{ours} lines, in plain MPI-IO {plain}");
}
