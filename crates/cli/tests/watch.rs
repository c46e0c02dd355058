//! `aqueduct watch` follows files that are written meanwhile.

mod sample_files;
mod test_folder;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use aqueduct::comm::Launch;
use aqueduct::stream::{Options, OutputMode, Stream, Streams};

use sample_files::{write_grid, write_objects};
use test_folder::TestFolder;

/// A file that does not exist yet, whose steps appear one by one; the command ends with the writer.
#[test]
fn a_running_output_is_followed_to_its_end() {
    let folder = TestFolder::new();
    let mut watch = folder.command(&["watch", "run", "--every", "0.05", "--json"]);
    let mut child = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let name = folder.path("run").to_str().unwrap().to_owned();
    let mut seen = Vec::new();
    Launch::threads(1)
        .run(|world| {
            let mut streams = Streams::new();
            let level = streams.add::<f64>(Stream::array("level", [4]).block([0], [4]));
            let mut output = Options::new().mode(OutputMode::Blocking).create(world, &name, &streams)?;
            for step in 0..3_u32 {
                output.step()?.put(level, &[f64::from(step); 4]).commit()?;
                std::thread::sleep(Duration::from_millis(200));
            }
            output.finish()
        })
        .unwrap();
    let start = Instant::now();
    for line in lines.by_ref() {
        let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_eq!(line["array"], "level");
        seen.push((line["steps"].as_u64().unwrap(), line["max"].as_f64().unwrap()));
    }
    assert!(child.wait().unwrap().success() && start.elapsed() < Duration::from_secs(60));
    // Every step that was seen has its own value; the last one is always seen.
    assert!(seen.iter().all(|(steps, max)| (max - (*steps as f64 - 1.0)).abs() < 1e-9), "{seen:?}");
    assert_eq!(seen.last(), Some(&(3, 2.0)));
}

#[test]
fn finished_and_other_files_are_shown_once() {
    let folder = TestFolder::new();
    write_grid(&folder, "a.nc");
    write_objects(&folder, "dust");
    let said = folder.succeed(&["watch", "a.nc", "--for", "0.2", "--every", "0.05"]);
    assert!(said.contains("field  3 steps (+3)  min 3.000000  max 10.000000\n"), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(folder.succeed(&["watch", "dust", "--for", "0"]).contains("objects  1000 steps"));
    assert!(folder.exit_2(&["watch", "missing", "--for", "0.1"]).contains("missing"));
    assert!(folder.exit_2(&["watch", "a.nc", "--array", "packed"]).contains("no array grows"));
    assert!(folder.exit_2(&["watch", "a.nc", "--every", "-1"]).contains("--every"));
}
