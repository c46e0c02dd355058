//! Unusual input, closed pipes, existing files, limited memory.

mod test_folder;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

use aqueduct::comm::{Comm, Launch};
use aqueduct::object::ObjectFile;

use test_folder::TestFolder;

fn write(folder: &TestFolder, name: &str, numbers: &[u64]) {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    fs::write(folder.path(name), bytes).unwrap();
}

#[test]
fn convert_does_not_overwrite_existing_files() {
    let folder = TestFolder::new();
    write(&folder, "numbers.raw", &[1, 2, 3]);
    for name in ["kept.obj", "kept.nc", "kept.raw"] {
        fs::write(folder.path(name), "existing").unwrap();
        let message = folder.exit_2(&["convert", "numbers.raw", name, "--raw", "u64"]);
        assert!(message.contains("exist"), "{message}");
        assert_eq!(fs::read(folder.path(name)).unwrap(), b"existing", "{name}");
    }
    // Also if the format cannot store the array.
    folder.exit_2(&["convert", "numbers.raw", "kept.obj", "--raw", "u8", "--shape", "4,6"]);
    assert_eq!(fs::read(folder.path("kept.obj")).unwrap(), b"existing");
    folder.exit_2(&["convert", "numbers.raw", "new.obj", "--raw", "u8", "--shape", "4,6"]);
    assert!(!folder.path("new.obj").exists() && !folder.path("new.obj.meta").exists());
}

#[test]
fn an_unknown_device_is_named() {
    let folder = TestFolder::new();
    write(&folder, "numbers.raw", &[1, 2, 3]);
    // Without the feature hdf5 the error is about the format.
    let hdf5 = cfg!(feature = "hdf5").then_some("s3:new.h5");
    for name in ["s3:new.nc", "s3:new.obj", "s3:new.raw", "s3:new.cells"].into_iter().chain(hdf5) {
        let message = folder.exit_2(&["convert", "numbers.raw", name, "--raw", "u64"]);
        assert!(
            message.contains("s3") && message.contains("ufs") && !message.contains("delete"),
            "{message}"
        );
    }
    let message = folder.exit_2(&["inspect", "s3:numbers.raw"]);
    assert!(message.contains("s3") && message.contains("ufs"), "{message}");
}

#[test]
fn a_closed_pipe_ends_the_command_silently_and_a_full_device_is_an_error() {
    let folder = TestFolder::new();
    write(&folder, "numbers.raw", &vec![7; 20_000]);
    for words in [
        &["dump", "numbers.raw"][..],
        &["inspect", "numbers.raw"],
        &["verify", "numbers.raw", "--shape", "160000"],
        &["compare", "numbers.raw", "numbers.raw"],
        &["demo", "-n", "1", "--size", "64KiB", "--block", "64KiB"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let started = folder.command(words).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = started.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(141), "{words:?}");
        assert!(output.stderr.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = folder.command(words).stdout(full).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && message.contains("standard output"),
            "{words:?}: {message}"
        );
    }
    assert!(!folder.path("aqueduct-demo.bin").exists());
}

#[test]
fn a_closed_pipe_ends_a_benchmark_without_a_panic() {
    let folder = TestFolder::new();
    let times = r#"{"ranks":1,"compute":1,"io":1,"talk":0,"total":2,"bytes":8}"#;
    fs::write(folder.path("program.sh"), format!("echo '{times}' > \"$4\"\n")).unwrap();
    let words = ["bench", "scaling", "--ranks", "1", "--", "/bin/sh", "program.sh"];
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let started = folder.command(&words).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let output = started.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(141) && !message.contains("panicked"), "{message}");
    assert!(folder.succeed(&words).contains("speed-up"));
}

#[test]
fn integers_are_compared_exactly() {
    let folder = TestFolder::new();
    let large = 1u64 << 60;
    write(&folder, "a.raw", &[large, 5]);
    write(&folder, "b.raw", &[large + 1, 5]);
    let message = folder.exit_1(&["compare", "a.raw", "b.raw", "--raw", "u64"]);
    assert!(message.contains("1 arrays differ"), "{message}");
    assert!(folder.succeed(&["compare", "a.raw", "a.raw", "--raw", "u64"]).contains("no differences"));
    let message = folder.exit_2(&["compare", "a.raw", "b.raw", "--threshold", "nan"]);
    assert!(message.contains("must be a number"), "{message}");
}

#[test]
fn errors_name_missing_unusual_and_invalid_files() {
    let folder = TestFolder::new();
    fs::write(folder.path("empty"), "").unwrap();
    fs::create_dir(folder.path("folder")).unwrap();
    let foreign = OsStr::from_bytes(b"\xff\xfe.raw");
    write(&folder, "numbers.raw", &[1, 2, 3]);
    fs::copy(folder.path("numbers.raw"), folder.path(foreign)).unwrap();
    for command in ["inspect", "dump", "verify"] {
        for missing in ["nowhere", "nowhere/at/all", ""] {
            let message = folder.exit_2(&[command, missing]);
            assert!(message.contains(&format!("open {missing:?}")), "{message}");
        }
        let message = folder.exit_2(&[command, "folder"]);
        assert!(message.contains("folder: the folder is not a checkpoint store"), "{message}");
        match command {
            "verify" => assert!(folder.exit_2(&[command, "empty"]).contains("empty: cannot tell")),
            _ => assert!(!folder.succeed(&[command, "empty"]).is_empty(), "an empty file is valid"),
        }
        assert!(!folder.command(&[OsStr::new(command), foreign]).output().unwrap().stdout.is_empty());
        // Shapes that overflow or do not match the file.
        for shape in ["18446744073709551615,18446744073709551615", "1,18446744073709551615", "4"] {
            let message = folder.exit_2(&[command, "numbers.raw", "--raw", "u64", "--shape", shape]);
            assert!(message.contains("numbers.raw: ") && message.contains("24 bytes"), "{message}");
        }
        // The extension names a format, but the file is empty.
        for lost in ["lost.nc", "lost.h5", "lost.obj"] {
            fs::write(folder.path(lost), "").unwrap();
            let message = match command {
                "verify" => folder.exit_1(&[command, lost]),
                _ => folder.exit_2(&[command, lost]),
            };
            assert!(message.contains(&format!("{lost}: ")) && message.contains("--raw"), "{message}");
            assert!(!folder.succeed(&[command, lost, "--raw", "u8", "--shape", "0"]).is_empty());
        }
        let nothing = "1000000000000000000,0,18446744073709551615";
        assert!(!folder.succeed(&[command, "empty", "--raw", "u64", "--shape", nothing]).is_empty());
    }
}

#[test]
fn elements_that_are_not_numbers_are_compared_byte_by_byte() {
    let folder = TestFolder::new();
    for (name, last) in [("a", 3), ("b", 3), ("c", 4)] {
        let write = |world: &Comm| {
            let file = ObjectFile::<u128>::create(world, folder.path(name))?;
            file.at_pointer().all().write(&[1, 2, last])?;
            file.close()
        };
        Launch::threads(1).run(write).unwrap();
    }
    assert!(folder.succeed(&["compare", "a", "b"]).contains("equal byte by byte"));
    let message = folder.exit_1(&["compare", "a", "c"]);
    assert!(message.contains("differ, first at [2]") && message.contains("1 arrays differ"), "{message}");
}

#[test]
fn variable_size_objects_are_verified() {
    let folder = TestFolder::new();
    let write = |world: &Comm| {
        let file = ObjectFile::<String>::create(world, folder.path("words"))?;
        file.at_pointer().all().write(&["one", "two", "three"].map(str::to_owned))?;
        file.close()
    };
    Launch::threads(1).run(write).unwrap();
    assert_eq!(folder.succeed(&["verify", "words"]), "words: whole\n");
    let message = folder.exit_2(&["convert", "words", "words.raw"]);
    // The lengths of the objects and their text.
    assert!(message.contains("--array") && !folder.path("words.raw").exists(), "{message}");
    let mut bytes = fs::read(folder.path("words")).unwrap();
    bytes[9] ^= 1;
    fs::write(folder.path("words"), bytes).unwrap();
    assert!(folder.exit_1(&["verify", "words"]).contains("checksum"));
}

/// The comparison needs memory for a part of the arrays, not for all of them.
#[test]
fn a_long_array_is_compared_in_parts() {
    let folder = TestFolder::new();
    let length = 12 << 20;
    for name in ["one.raw", "other.raw"] {
        fs::File::create(folder.path(name)).unwrap().set_len(length).unwrap();
    }
    let limited = |words: &str| {
        let script = format!("ulimit -v {}; exec '{}' {words}", 480 << 10, env!("CARGO_BIN_EXE_aqueduct"));
        let mut command = std::process::Command::new("bash");
        let output = command.args(["-c", &script]).current_dir(folder.path("")).output().unwrap();
        let message = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.code(), message.into_owned())
    };
    let (code, message) = limited("compare one.raw other.raw");
    assert!(code == Some(0) && message.contains("data: 12582912 values, all equal"), "{message}");
    fs::OpenOptions::new()
        .write(true)
        .open(folder.path("other.raw"))
        .unwrap()
        .write_at(&[3], length - 1)
        .unwrap();
    let (code, message) = limited("compare one.raw other.raw");
    assert!(
        code == Some(1)
            && message.contains("1 above the tolerance; largest difference 3e0 at [12582911]: 0.0 and 3.0")
            && message.contains("inf (step 0)"),
        "{message}"
    );
}
