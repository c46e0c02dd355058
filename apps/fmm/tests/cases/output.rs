//! Files of packets: all methods, counts of accesses, restart, the command.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use aqueduct::comm::{Comm, Launch};
use aqueduct::device::layers::TraceDevice;
use aqueduct::device::{MemFs, Operation, register_device};
use aqueduct::object::{Category, Object};
use aqueduct_fmm::packet::MassPacket;
use aqueduct_fmm::packet_file::OutputStart;
use aqueduct_fmm::packet_output::{IoMethod, PacketOutput, read_last};
use aqueduct_fmm::scene::ball;

/// Runs the command and returns its output.
pub(crate) fn fmm(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_fmm")).args(arguments).env("AQUEDUCT_MPI", "none").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn configuration(folder: &Path) -> String {
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
fn master_and_together_leave_the_same_files_on_any_number_of_ranks() {
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
        let mut meta = fs::read(format!("{name}.meta")).unwrap();
        // Who created the file, and on how many ranks.
        meta[512..1024].fill(0);
        files.push((fs::read(&name).unwrap(), meta));
    }
    assert_eq!(files[0].0.len(), 3 * 60 * 120, "three steps, each packet once");
    assert!(files.iter().all(|file| *file == files[0]));
}

#[test]
fn a_stream_has_the_same_packets() {
    let folder = tempfile::tempdir().unwrap();
    let config = configuration(folder.path());
    let name = |method: &str| folder.path().join(method).display().to_string();
    for (method, ranks) in [("together", "2"), ("stream", "3")] {
        let output = name(method);
        fmm(&[
            &config, "--steps", "20", "--every", "5", "-n", ranks, "--io", method, "-o", &output, "--rows",
            "0",
        ]);
    }
    assert_eq!(fs::read(name("together")).unwrap(), fs::read(name("stream")).unwrap());
    let read = |world: &Comm| {
        let (packets, steps) = read_last::<2>(world, IoMethod::Together, &name("together"), 60).unwrap();
        assert_eq!(read_last::<2>(world, IoMethod::Stream, &name("stream"), 60).unwrap(), (packets, steps));
        assert_eq!(steps, 5);
        assert!(
            read_last::<2>(world, IoMethod::Stream, &name("stream"), 61).is_err(),
            "no step of 61 packets"
        );
        Ok::<_, aqueduct::comm::Error>(())
    };
    Launch::threads(3).run(read).unwrap();
}

/// The bytes of the data that an operation transfers in total, and the number of accesses that transfer some.
fn transferred(trace: &TraceDevice, operation: Operation) -> (u64, usize) {
    let events = trace.take_events();
    let data = events.iter().filter(|event| event.operation == operation && !event.name.ends_with(".meta"));
    let counts: Vec<u64> = data.filter_map(|event| event.outcome.ok()).filter(|count| *count > 0).collect();
    (counts.iter().sum(), counts.len())
}

#[test]
fn each_packet_is_read_and_written_once_by_all_ranks_as_by_one() {
    let trace = Arc::new(TraceDevice::new(Arc::new(MemFs::new())));
    register_device("packets", Arc::clone(&trace) as Arc<dyn aqueduct::device::Device>).unwrap();
    let packets = ball::<2>(400, 2.0).unwrap();
    let mut seen = Vec::new();
    for method in [IoMethod::Master, IoMethod::Together] {
        let name = format!("packets:{method:?}");
        let write = |world: &Comm| {
            let mut output = PacketOutput::open(world, method, &name, 400, OutputStart::New).unwrap();
            output.write(&packets).unwrap();
            output.write(&packets).unwrap();
            output.close().unwrap();
            Ok::<_, aqueduct::comm::Error>(())
        };
        Launch::threads(4).run(write).unwrap();
        let writes = transferred(&trace, Operation::Write);
        let read = |world: &Comm| {
            let (read, steps) = read_last::<2>(world, method, &name, 400).unwrap();
            assert!(read == packets && steps == 2, "{method:?}");
            Ok::<_, aqueduct::comm::Error>(())
        };
        Launch::threads(4).run(read).unwrap();
        seen.push((writes, transferred(&trace, Operation::Read)));
        let refused = |world: &Comm| {
            assert!(read_last::<2>(world, method, &name, 801).is_err(), "no step of 801 packets");
            Ok::<_, aqueduct::comm::Error>(())
        };
        Launch::threads(4).run(refused).unwrap();
    }
    println!("bytes and accesses of two writes and a read: master {:?}, together {:?}", seen[0], seen[1]);
    let [(writes, reads), (writes_together, reads_together)] = seen[..] else { panic!("two methods") };
    assert_eq!((writes.0, writes_together.0), (2 * 48_000, 2 * 48_000), "each packet is written once");
    assert_eq!(writes_together.1, 2 * 4, "one access per rank and step");
    // The last step, and both steps for their checksums.
    assert_eq!((reads.0, reads_together.0), (3 * 48_000, 3 * 48_000), "once for all ranks");
    assert!(reads_together.1 <= reads.1 + 1, "{seen:?}");
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
    let refused =
        Command::new(env!("CARGO_BIN_EXE_fmm")).args(["-o", &parts]).env("AQUEDUCT_MPI", "none").output();
    assert!(!refused.unwrap().status.success(), "an output that exists is refused");
    run(&parts, "5", "2", &["--start-over"]);
    assert_eq!(fs::read(&parts).unwrap()[..], fs::read(&whole).unwrap()[..2 * 7200]);
    // A run that begins with the last packets of another one.
    let times = name("times.json");
    run(&name("next"), "0", "2", &["--input", &whole, "--times", &times]);
    assert_eq!(fs::read(name("next")).unwrap()[..], fs::read(&whole).unwrap()[8 * 7200..]);
    let times: serde_json::Value = serde_json::from_str(&fs::read_to_string(times).unwrap()).unwrap();
    assert_eq!(
        (times["program"].as_str(), times["ranks"].as_u64(), times["bytes"].as_u64()),
        (Some("fmm"), Some(2), Some(7200))
    );
    assert!(["compute", "io", "talk", "sums", "total"].iter().all(|key| times[key].as_f64().unwrap() >= 0.0));
}

#[test]
fn a_stream_is_continued_on_another_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let config = configuration(folder.path());
    let name = |name: &str| folder.path().join(name).display().to_string();
    let (whole, parts, times) = (name("whole"), name("parts"), name("times.json"));
    let run = |name: &str, steps: &str, ranks: &str, more: &[&str]| {
        let common = [&config, "--steps", steps, "--every", "5", "-n", ranks, "-o", name, "--rows", "0"];
        fmm(&[&common[..], &["--io", "stream", "--times", &times], more].concat());
    };
    run(&whole, "30", "2", &[]);
    run(&parts, "15", "3", &[]);
    run(&parts, "30", "2", &["--restart"]);
    assert_eq!(fs::read(&whole).unwrap(), fs::read(&parts).unwrap());
    run(&parts, "5", "1", &["--start-over"]);
    assert_eq!(fs::read(&parts).unwrap()[..], fs::read(&whole).unwrap()[..2 * 7200]);
    let times = fs::read_to_string(times).unwrap();
    let times = times.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let found: Vec<_> =
        times.map(|line| (line["output"].clone(), line["ranks"].as_u64(), line["bytes"].as_u64())).collect();
    let expected = [(2, 7 * 7200), (3, 4 * 7200), (2, 3 * 7200), (1, 2 * 7200)];
    assert_eq!(
        found,
        expected.map(|(ranks, bytes)| ("stream".into(), Some(ranks), Some(bytes))),
        "one line per run"
    );
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
