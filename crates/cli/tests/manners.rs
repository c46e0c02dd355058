//! How the command behaves towards odd input, readers that leave, and files that were there before.

mod folder;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

use aqueduct::comm::{Comm, Launch};
use aqueduct::object::ObjectFile;

use folder::Folder;

fn write(folder: &Folder, name: &str, numbers: &[u64]) {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    fs::write(folder.path(name), bytes).unwrap();
}

#[test]
fn a_file_that_was_there_before_stays() {
    let folder = Folder::new();
    write(&folder, "numbers.raw", &[1, 2, 3]);
    for name in ["kept.obj", "kept.nc", "kept.raw"] {
        fs::write(folder.path(name), "somebody's").unwrap();
        let told = folder.refused(&["convert", "numbers.raw", name, "--raw", "u64"]);
        assert!(told.contains("exist"), "{told}");
        assert_eq!(fs::read(folder.path(name)).unwrap(), b"somebody's", "{name}");
    }
    // Also where the array does not fit into the format.
    folder.refused(&["convert", "numbers.raw", "kept.obj", "--raw", "u8", "--shape", "4,6"]);
    assert_eq!(fs::read(folder.path("kept.obj")).unwrap(), b"somebody's");
    folder.refused(&["convert", "numbers.raw", "new.obj", "--raw", "u8", "--shape", "4,6"]);
    assert!(!folder.path("new.obj").exists() && !folder.path("new.obj.meta").exists());
}

#[test]
fn an_unknown_device_is_named() {
    let folder = Folder::new();
    write(&folder, "numbers.raw", &[1, 2, 3]);
    // Without the feature hdf5 the error is about the format.
    let hdf5 = cfg!(feature = "hdf5").then_some("s3:new.h5");
    for name in ["s3:new.nc", "s3:new.obj", "s3:new.raw", "s3:new.cells"].into_iter().chain(hdf5) {
        let told = folder.refused(&["convert", "numbers.raw", name, "--raw", "u64"]);
        assert!(told.contains("s3") && told.contains("ufs") && !told.contains("delete"), "{told}");
    }
    let told = folder.refused(&["inspect", "s3:numbers.raw"]);
    assert!(told.contains("s3") && told.contains("ufs"), "{told}");
}

#[test]
fn whoever_has_read_enough_may_leave() {
    let folder = Folder::new();
    write(&folder, "numbers.raw", &vec![7; 20_000]);
    for words in [
        &["dump", "numbers.raw"][..],
        &["inspect", "numbers.raw"],
        &["verify", "numbers.raw", "--shape", "160000"],
        &["compare", "numbers.raw", "numbers.raw"],
        &["-n", "1", "--size", "64KiB", "--block", "64KiB"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let started = folder.command(words).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = started.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(141), "{words:?}");
        assert!(output.stderr.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = folder.command(words).stdout(full).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains("standard output"), "{words:?}: {told}");
    }
    assert!(!folder.path("aqueduct-demo.bin").exists());
}

#[test]
fn whole_numbers_are_compared_to_their_last_digit() {
    let folder = Folder::new();
    let large = 1u64 << 60;
    write(&folder, "a.raw", &[large, 5]);
    write(&folder, "b.raw", &[large + 1, 5]);
    let told = folder.denied(&["compare", "a.raw", "b.raw", "--raw", "u64"]);
    assert!(told.contains("1 arrays differ"), "{told}");
    assert!(folder.said(&["compare", "a.raw", "a.raw", "--raw", "u64"]).contains("no differences"));
    let told = folder.refused(&["compare", "a.raw", "b.raw", "--threshold", "nan"]);
    assert!(told.contains("must be a number"), "{told}");
}

#[test]
fn odd_input_is_told_with_its_name() {
    let folder = Folder::new();
    fs::write(folder.path("empty"), "").unwrap();
    fs::create_dir(folder.path("folder")).unwrap();
    let foreign = OsStr::from_bytes(b"\xff\xfe.raw");
    write(&folder, "numbers.raw", &[1, 2, 3]);
    fs::copy(folder.path("numbers.raw"), folder.path(foreign)).unwrap();
    for command in ["inspect", "dump", "verify"] {
        for missing in ["nowhere", "nowhere/at/all", ""] {
            let told = folder.refused(&[command, missing]);
            assert!(told.contains(&format!("open {missing:?}")), "{told}");
        }
        let told = folder.refused(&[command, "folder"]);
        assert!(told.contains("folder: it is a folder, and no checkpoint store"), "{told}");
        match command {
            "verify" => assert!(folder.refused(&[command, "empty"]).contains("empty: cannot tell")),
            _ => assert!(!folder.said(&[command, "empty"]).is_empty(), "nothing is wrong with nothing"),
        }
        assert!(!folder.command(&[OsStr::new(command), foreign]).output().unwrap().stdout.is_empty());
        // Shapes that nobody can have, and one that is nothing.
        for shape in ["18446744073709551615,18446744073709551615", "1,18446744073709551615", "4"] {
            let told = folder.refused(&[command, "numbers.raw", "--raw", "u64", "--shape", shape]);
            assert!(told.contains("numbers.raw: ") && told.contains("24 bytes"), "{told}");
        }
        // What its name promises and its bytes do not hold is not whole.
        for lost in ["lost.nc", "lost.h5", "lost.obj"] {
            fs::write(folder.path(lost), "").unwrap();
            let told = match command {
                "verify" => folder.denied(&[command, lost]),
                _ => folder.refused(&[command, lost]),
            };
            assert!(told.contains(&format!("{lost}: it")) && told.contains("--raw"), "{told}");
            assert!(!folder.said(&[command, lost, "--raw", "u8", "--shape", "0"]).is_empty());
        }
        let nothing = "1000000000000000000,0,18446744073709551615";
        assert!(!folder.said(&[command, "empty", "--raw", "u64", "--shape", nothing]).is_empty());
    }
}

#[test]
fn what_is_no_number_is_compared_byte_by_byte() {
    let folder = Folder::new();
    for (name, last) in [("a", 3), ("b", 3), ("c", 4)] {
        let write = |world: &Comm| {
            let file = ObjectFile::<u128>::create(world, folder.path(name))?;
            file.at_pointer().all().write(&[1, 2, last])?;
            file.close()
        };
        Launch::threads(1).run(write).unwrap();
    }
    assert!(folder.said(&["compare", "a", "b"]).contains("the same byte by byte"));
    let told = folder.denied(&["compare", "a", "c"]);
    assert!(told.contains("differ, the first at [2]") && told.contains("1 arrays differ"), "{told}");
}

#[test]
fn objects_of_several_sizes_are_verified() {
    let folder = Folder::new();
    let write = |world: &Comm| {
        let file = ObjectFile::<String>::create(world, folder.path("words"))?;
        file.at_pointer().all().write(&["one", "two", "three"].map(str::to_owned))?;
        file.close()
    };
    Launch::threads(1).run(write).unwrap();
    assert_eq!(folder.said(&["verify", "words"]), "words: whole\n");
    let told = folder.refused(&["convert", "words", "words.raw"]);
    assert!(told.contains("several sizes") && !folder.path("words.raw").exists(), "{told}");
    let mut bytes = fs::read(folder.path("words")).unwrap();
    bytes[9] ^= 1;
    fs::write(folder.path("words"), bytes).unwrap();
    assert!(folder.denied(&["verify", "words"]).contains("checksum"));
}

/// What is compared value by value needs memory for a part of it, not for all.
#[test]
fn a_long_array_is_compared_piece_by_piece() {
    let folder = Folder::new();
    let length = 12 << 20;
    for name in ["one.raw", "other.raw"] {
        fs::File::create(folder.path(name)).unwrap().set_len(length).unwrap();
    }
    let limited = |words: &str| {
        let script = format!("ulimit -v {}; exec '{}' {words}", 480 << 10, env!("CARGO_BIN_EXE_aqueduct"));
        let mut command = std::process::Command::new("bash");
        let output = command.args(["-c", &script]).current_dir(folder.path("")).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.code(), told.into_owned())
    };
    let (code, told) = limited("compare one.raw other.raw");
    assert!(code == Some(0) && told.contains("data: 12582912 values, all the same"), "{told}");
    fs::OpenOptions::new()
        .write(true)
        .open(folder.path("other.raw"))
        .unwrap()
        .write_at(&[3], length - 1)
        .unwrap();
    let (code, told) = limited("compare one.raw other.raw");
    assert!(
        code == Some(1)
            && told.contains("1 above the tolerance; largest difference 3e0 at [12582911]: 0.0 and 3.0")
            && told.contains("inf (step 0)"),
        "{told}"
    );
}
