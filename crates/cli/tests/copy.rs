//! `aqueduct copy`, completions, man pages, and the run without a command.

mod sample_files;
mod test_folder;

use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};

use sample_files::{write_objects, write_stream};
use test_folder::TestFolder;

const NO_WORDS: [&str; 0] = [];

#[test]
fn files_are_copied_between_devices_and_compared() {
    let folder = TestFolder::new();
    // Two whole blocks and a part.
    let bytes: Vec<u8> = (0..20_000_000u32).map(|at| (at ^ (at >> 11)) as u8).collect();
    fs::write(folder.path("a"), &bytes).unwrap();
    for (ranks, from, to) in [("1", "a", "b"), ("3", "a", "uring:c"), ("2", "throttle=2GB/s:ufs:a", "d")] {
        let said = folder.succeed(&["copy", "-n", ranks, from, to]);
        assert!(said.contains("20000000 bytes") && said.contains("no differences"), "{said}");
        assert!(fs::read(folder.path(to.rsplit(':').next().unwrap())).unwrap() == bytes);
    }
    fs::write(folder.path("empty"), "").unwrap();
    assert!(folder.succeed(&["copy", "empty", "e"]).contains("0 bytes"));
    // Into a folder, under the same name; a hole stays a hole.
    fs::create_dir(folder.path("folder")).unwrap();
    fs::File::create(folder.path("hole")).unwrap().set_len(100 << 20).unwrap();
    folder.succeed(&["copy", "hole", "folder"]);
    let copied = fs::metadata(folder.path("folder/hole")).unwrap();
    assert!(copied.len() == 100 << 20 && copied.blocks() < 1000, "{} blocks", copied.blocks());
    // A longer file is replaced whole.
    folder.succeed(&["copy", "--overwrite", "empty", "b"]);
    assert_eq!(fs::read(folder.path("b")).unwrap(), b"");
}

#[test]
fn failed_copies_are_errors() {
    let folder = TestFolder::new();
    fs::write(folder.path("a"), vec![7; 100_000]).unwrap();
    fs::write(folder.path("b"), "kept").unwrap();
    assert!(folder.exit_2(&["copy", "a", "b"]).contains("--overwrite"));
    assert_eq!(fs::read(folder.path("b")).unwrap(), b"kept");
    assert!(folder.exit_2(&["copy", "a", "a"]).contains("itself"));
    assert!(folder.exit_2(&["copy", "missing", "c"]).contains("missing"));
    let said = folder.exit_2(&["copy", "-n", "3", "a", "fault=write=nospace@#1:d"]);
    assert!(said.contains("space"), "{said}");
    assert!(!folder.path("d").exists());
    // A device that changes what is written is noticed.
    let said = folder.exit_2(&["copy", "a", "fault=bogus:e"]);
    assert!(said.contains("fault"), "{said}");
}

/// Another process changes the copy before it is compared.
#[test]
fn a_copy_that_differs_is_exit_status_1() {
    let folder = TestFolder::new();
    fs::write(folder.path("a"), vec![7; 20_000_000]).unwrap();
    let mut copy = folder.command(&["copy", "-n", "2", "a", "throttle=40MB/s:ufs:b"]);
    let mut child = copy.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let status = loop {
        if let Ok(file) = fs::OpenOptions::new().write(true).open(folder.path("b")) {
            let is_full = file.metadata().unwrap().len() == 20_000_000;
            if is_full {
                file.write_at(&[8], 12_000_000).unwrap();
            }
        }
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert_eq!(status.code(), Some(1));
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("the copy differs, first in the 8388608 bytes from 8388608"), "{said}");
}

/// The metadata of stream files and object files are copied with the data; those of a file that is replaced are removed.
#[test]
fn metadata_files_are_copied_with_their_data() {
    let folder = TestFolder::new();
    write_stream(&folder, "run");
    write_objects(&folder, "dust");
    for name in ["run", "dust"] {
        let copy = format!("{name}-copy");
        assert_eq!(folder.succeed(&["copy", name, &copy]).lines().count(), 2);
        assert!(folder.succeed(&["compare", name, &copy]).ends_with("no differences\n"));
        assert!(folder.succeed(&["verify", &copy]).contains("whole"));
    }
    let said = folder.succeed(&["copy", "run", "memory-of-run", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["files"][1]["to"], "memory-of-run.steps");
    // Bytes of another kind in the place of a stream file.
    fs::write(folder.path("plain"), "plain").unwrap();
    folder.succeed(&["copy", "plain", "run-copy", "--overwrite"]);
    assert!(!folder.path("run-copy.steps").exists());
    fs::write(folder.path("other.meta"), "kept").unwrap();
    folder.succeed(&["copy", "plain", "other", "--overwrite"]);
    assert_eq!(fs::read(folder.path("other.meta")).unwrap(), b"kept");
}

#[test]
fn shells_and_man_get_all_commands() {
    let folder = TestFolder::new();
    for shell in ["bash", "zsh", "fish"] {
        let text = folder.succeed(&["completions", shell]);
        assert!(["report", "copy", "verify"].iter().all(|command| text.contains(command)), "{shell}");
    }
    folder.succeed(&["man", "pages"]);
    for page in ["aqueduct.1", "aqueduct-report.1", "aqueduct-bench-overlap.1"] {
        assert!(fs::read_to_string(folder.path("pages").join(page)).unwrap().contains(".SH"), "{page}");
    }
    assert!(!folder.path("pages/aqueduct-particle-run.1").exists());
    assert!(folder.succeed(&["compare", "--help"]).contains("Examples:"));
}

#[test]
fn without_a_command_a_simulation_is_killed_restarted_and_verified() {
    let folder = TestFolder::new();
    let said = folder.succeed(&NO_WORDS);
    assert_eq!(said.lines().count(), 10, "{said}");
    assert!(
        said.contains("killed by SIGKILL") && said.contains("have the bits of an undisturbed run"),
        "{said}"
    );
    let page = said.lines().last().unwrap().split_once(": ").unwrap().1;
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("data-run=\"1\"") && page.contains("from-0.stream"));
    // Again, in the same folder.
    assert!(folder.succeed(&NO_WORDS).contains("verified"));
    let output = folder.command(&NO_WORDS).env("PMI_SIZE", "2").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
