//! Every file kind: detected by its first bytes and companion files, and never reported as whole or raw when it is truncated or changed.

mod sample_files;
mod test_folder;

use std::fs;

use aqueduct::checkpoint::{CellGrid, particle_cells};
use aqueduct::mardyn::{PhaseSpace, PhaseSpaceFormat};
use aqueduct::netcdf::{NcType, NetcdfCreateOptions};
use aqueduct::object::ObjectFile;
use aqueduct::stream::{Output, Stream, Streams};

use sample_files::{molecules, on_one_rank, write_store, write_stream};
use test_folder::TestFolder;

fn grid() -> CellGrid {
    CellGrid::new([4.0, 1.0, 1.0], [4, 1, 1]).unwrap()
}

fn write_mardyn(folder: &TestFolder, format: PhaseSpaceFormat, prefix: &str) {
    let files = format.files(folder.path(prefix).to_str().unwrap());
    let space = PhaseSpace::new([4.0, 1.0, 1.0], Vec::new());
    on_one_rank(|world| format.write(world, &files, &space, &grid(), &molecules()));
}

fn write_netcdf(folder: &TestFolder, name: &str) {
    on_one_rank(|world| {
        let mut file = NetcdfCreateOptions::new().create(world, folder.path(name))?;
        let field = file.define(|file| {
            let x = file.dimension("x", 500)?;
            file.variable("field", NcType::Double, &[x])
        })?;
        file.at(field, 0..500).all().write(&vec![0.5; 500])?;
        file.close()
    });
}

/// Writes a file of each kind; returns its name, its format in the output of `inspect`, its files, and a name for a conversion.
fn write_all(folder: &TestFolder) -> Vec<(&'static str, &'static str, Vec<&'static str>, &'static str)> {
    write_stream(folder, "run");
    on_one_rank(|world| {
        let file = ObjectFile::<u32>::create(world, folder.path("numbers"))?;
        file.at_pointer().all().write(&(0..1000).collect::<Vec<_>>())?;
        file.close()
    });
    on_one_rank(|world| {
        particle_cells::write(world, folder.path("gas.cells").to_str().unwrap(), &grid(), &molecules())
    });
    write_mardyn(folder, PhaseSpaceFormat::OldStyle, "text");
    write_mardyn(folder, PhaseSpaceFormat::Binary, "binary");
    write_mardyn(folder, PhaseSpaceFormat::MpiIo, "cells");
    write_mardyn(folder, PhaseSpaceFormat::PnetCdf, "net");
    write_netcdf(folder, "field.nc");
    let mut all = vec![
        ("run", "stream file, 6 steps complete, finished", vec!["run", "run.steps"], "run.nc"),
        ("numbers", "object file", vec!["numbers", "numbers.meta"], "numbers.nc"),
        ("gas.cells", "cell file, 4 × 1 × 1 cells, 200 particles", vec!["gas.cells"], "gas.restart.mpi"),
        ("text.restart.inp", "MarDyn, OldStyle", vec!["text.restart.inp"], "text.cells"),
        (
            "binary.restart.header.xml",
            "MarDyn, Binary",
            vec!["binary.restart.header.xml", "binary.restart.dat"],
            "converted.restart.inp",
        ),
        (
            "cells.restart",
            "MarDyn, MPI-IO",
            vec!["cells.restart", "cells.restart.mpi"],
            "converted.restart.header.xml",
        ),
        ("net.restart", "MarDyn, PnetCDF", vec!["net.restart", "net.restart.nc"], "net.cells"),
        ("field.nc", "netCDF", vec!["field.nc"], "field.raw"),
    ];
    if cfg!(feature = "hdf5") {
        folder.succeed(&["convert", "field.nc", "field.h5"]);
        all.push(("field.h5", "HDF5, complete", vec!["field.h5"], "again.nc"));
    }
    all
}

#[test]
fn every_command_supports_every_file_kind() {
    let folder = TestFolder::new();
    for (name, kind, files, target) in write_all(&folder) {
        let message = folder.succeed(&["inspect", name]);
        assert!(message.starts_with(&format!("{name}: ")) && message.contains(kind), "{message}");
        assert!(folder.succeed(&["dump", name, "--rows", "2"]).lines().count() >= 3, "{name}");
        assert_eq!(folder.succeed(&["verify", name]), format!("{name}: whole\n"));
        assert!(folder.succeed(&["compare", name, name]).ends_with("no differences\n"), "{name}");
        folder.succeed(&["convert", name, target]);
        assert_eq!(folder.succeed(&["verify", target, "--shape", "4000"]), format!("{target}: whole\n"));
        // The name of any of its files can be given.
        for file in files {
            // The data of PnetCDF is a netCDF file of its own.
            let kind = if file == "net.restart.nc" { "netCDF, CDF-" } else { kind };
            assert!(folder.succeed(&["inspect", file]).contains(kind), "{file}");
        }
    }
    // The molecules are equal in all formats.
    for other in [
        "gas.restart.mpi",
        "text.cells",
        "net.cells",
        "net.restart",
        "converted.restart.inp",
        "converted.restart.header.xml",
    ] {
        let message = folder.succeed(&["compare", "gas.cells", other]);
        assert!(message.contains("3000 values, all equal"), "{message}");
    }
}

/// A truncated or changed file is damaged (exit status 1), and never raw.
#[test]
fn truncated_and_changed_files_of_every_kind_are_damaged() {
    let folder = TestFolder::new();
    for (name, _, files, _) in write_all(&folder) {
        for file in files {
            let bytes = fs::read(folder.path(file)).unwrap();
            let end = file.rsplit('.').next().unwrap_or_default();
            let is_text = ["inp", "xml", "restart"].contains(&end);
            let last = bytes.len() - if is_text { 4 } else { 1 };
            for length in [0, 1, 7, 200.min(last), bytes.len() / 2, last] {
                fs::write(folder.path(file), &bytes[..length]).unwrap();
                let message = folder.exit_1(&["verify", name]);
                assert!(
                    message.contains("damaged: ") && !message.contains("raw,"),
                    "{file} truncated to {length}: {message}"
                );
            }
            let mut changed = bytes.clone();
            // The first bytes, which identify the kind.
            changed[..8].fill(b'?');
            if files_have_checksums(name) || is_text || file == name {
                fs::write(folder.path(file), &changed).unwrap();
                let message = folder.exit_1(&["verify", name]);
                assert!(message.contains("damaged: "), "{file} with other first bytes: {message}");
            }
            if files_have_checksums(name) {
                let mut changed = bytes.clone();
                changed[bytes.len() * 2 / 3 / 8 * 8] ^= 1;
                fs::write(folder.path(file), &changed).unwrap();
                // Bytes between the parts of a metadata file are not used.
                if end != "meta" {
                    assert!(
                        folder.exit_1(&["verify", name]).contains("damaged: "),
                        "{file} with a changed bit"
                    );
                }
            }
            fs::write(folder.path(file), &bytes).unwrap();
            assert_eq!(folder.succeed(&["verify", name]), format!("{name}: whole\n"));
        }
    }
}

fn files_have_checksums(name: &str) -> bool {
    ["run", "numbers", "gas.cells"].contains(&name)
}

/// Only the beginning of a large stream file is left.
#[test]
fn a_stream_file_truncated_to_a_kilobyte_is_damaged() {
    let folder = TestFolder::new();
    let name = folder.path("large").to_str().unwrap().to_owned();
    on_one_rank(|world| {
        let mut streams = Streams::new();
        let field = streams.add::<f64>(Stream::array("field", [16_384]).block([0], [16_384]));
        let mut output = Output::create(world, &name, &streams)?;
        for step in 0..10_u8 {
            output.step()?.put(field, &vec![f64::from(step); 16_384]).commit()?;
        }
        output.finish().map(drop)
    });
    assert!(fs::metadata(&name).unwrap().len() > 1_300_000);
    assert_eq!(folder.succeed(&["verify", "large"]), "large: whole\n");
    fs::OpenOptions::new().write(true).open(&name).unwrap().set_len(1000).unwrap();
    let message = folder.exit_1(&["verify", "large"]);
    assert!(message.contains("large: damaged: step 9: "), "{message}");
    assert!(folder.succeed(&["inspect", "large"]).contains("stream file, 10 steps complete, finished"));
    let message = folder.exit_2(&["dump", "large", "--from", "9"]);
    assert!(message.contains("large") && message.contains("step 9"), "{message}");
    // The metadata without the data.
    fs::remove_file(&name).unwrap();
    assert!(folder.exit_1(&["verify", "large.steps"]).contains("its data file large is missing"));
}

#[test]
fn a_store_is_verified_generation_by_generation() {
    let folder = TestFolder::new();
    write_store(&folder, "checkpoints");
    let message = folder.succeed(&["inspect", "checkpoints"]);
    for part in [
        "checkpoint store, 2 generations, arrays of generation",
        "step 10, written by file_kinds",
        "molecules molecule 200",
        "field f64 20 × 30",
        "time f64 single",
        "names u8 ",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let said = folder.succeed(&["verify", "checkpoints"]);
    assert!(
        said.starts_with("checkpoints: whole\n  generation 1: whole, step 10, ") && said.lines().count() == 3,
        "{said}"
    );
    assert!(folder.succeed(&["compare", "checkpoints", "checkpoints"]).ends_with("no differences\n"));
    let generations: Vec<String> = fs::read_dir(folder.path("checkpoints"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned())
        .filter(|name| name.starts_with("generation-"))
        .collect();
    let (older, newer) = (generations.iter().min().unwrap(), generations.iter().max().unwrap());
    let (older, newer) = (format!("checkpoints/{older}"), format!("checkpoints/{newer}"));
    let message = folder.exit_1(&["compare", &older, &newer]);
    assert!(
        message.contains("time: 1 of 1 values differ") && message.contains("1 arrays differ"),
        "{message}"
    );
    assert_eq!(folder.succeed(&["dump", &newer, "--array", "time"]), "# time f64\n20\n");
    // A part is read by the name of its file.
    let message = folder.succeed(&["inspect", &format!("{newer}/field.array")]);
    assert!(message.contains("field f64 20 × 30") && !message.contains("raw"), "{message}");
    if cfg!(feature = "hdf5") {
        folder.succeed(&["convert", "checkpoints", "checkpoint.h5"]);
        assert!(folder.succeed(&["inspect", "checkpoint.h5"]).contains("/field f64 20 × 30"));
    }
    for part in ["field.array", "molecules.cells", "names.objects", "manifest.json"] {
        let path = folder.path(&newer).join(part);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(folder.exit_1(&["verify", "checkpoints"]).contains("damaged: "), "{part}");
        fs::remove_file(&path).unwrap();
        let message = folder.fail(&["verify", "checkpoints"]);
        assert!(!message.contains("checkpoints: whole"), "{part}: {message}");
        fs::write(&path, &bytes).unwrap();
    }
    let path = folder.path(&newer).join("field.array");
    let mut bytes = fs::read(&path).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let message = folder.exit_1(&["verify", "checkpoints"]);
    assert!(message.contains("damaged: generation"), "{message}");
    // Parts of a damaged generation are not printed; the older generation is readable.
    assert!(folder.exit_2(&["dump", "checkpoints", "--array", "field"]).contains("is damaged"));
    assert!(folder.succeed(&["dump", &older, "--array", "field"]).contains("0.25"));
}

/// Unsupported and unreadable files are not damaged.
#[test]
fn unsupported_and_unreadable_files_are_neither_whole_nor_damaged() {
    let folder = TestFolder::new();
    fs::write(folder.path("notes"), "some bytes").unwrap();
    assert!(
        folder
            .exit_2(&["verify", "notes"])
            .contains("notes: cannot tell: a raw file has no metadata to check")
    );
    assert_eq!(folder.succeed(&["verify", "notes", "--shape", "10"]), "notes: whole\n");
    assert!(folder.exit_1(&["verify", "notes", "--shape", "9"]).contains("1 bytes after"));
    // Later versions of formats.
    fs::write(folder.path("later.nc"), b"CDF\x09 and so on").unwrap();
    assert!(
        folder
            .exit_2(&["verify", "later.nc"])
            .contains("later.nc: cannot tell: later.nc: version 9 of netCDF")
    );
    fs::write(folder.path("later.h5"), b"\x89HDF\r\n\x1a\n\x09 and so on").unwrap();
    assert!(folder.exit_2(&["verify", "later.h5"]).contains("cannot tell"));
    // A later version of a cell file, and one with the other byte order.
    let cells = folder.path("gas.cells");
    on_one_rank(|world| particle_cells::write(world, cells.to_str().unwrap(), &grid(), &molecules()));
    let bytes = fs::read(&cells).unwrap();
    for (at, value) in [(8, 2_u32), (12, 0x0403_0201)] {
        let mut other = bytes.clone();
        other[at..at + 4].copy_from_slice(&value.to_le_bytes());
        fs::write(&cells, &other).unwrap();
        let message = folder.exit_2(&["verify", "gas.cells"]);
        assert!(
            message.contains("gas.cells: cannot tell: ") && message.contains(&format!("byte {at}")),
            "{message}"
        );
    }
    // A later version of a manifest.
    write_store(&folder, "checkpoints");
    let manifest = folder.path("checkpoints/generation-0000000002/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let json = text.lines().next().unwrap().replace("\"version\":1", "\"version\":2");
    fs::write(&manifest, format!("{json}\ncrc32c {:08x}\n", crc32c(json.as_bytes()))).unwrap();
    for name in ["checkpoints", "checkpoints/generation-0000000002"] {
        let message = folder.exit_2(&["verify", name]);
        assert!(message.contains("cannot tell: ") && message.contains("version 2"), "{message}");
    }
    assert!(folder.exit_2(&["verify", "missing"]).contains("missing: cannot tell: "));
    // One damaged file determines the exit status.
    fs::write(folder.path("cut.nc"), b"CD").unwrap();
    let message = folder.exit_1(&["verify", "missing", "cut.nc", "notes"]);
    assert!(message.contains("cut.nc: damaged") && message.contains("notes: cannot tell"), "{message}");
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

/// Folders and companion files of other programs with names that Aqueduct uses.
#[test]
fn unrelated_files_with_names_of_checkpoints_are_read() {
    let folder = TestFolder::new();
    for name in ["generation-7", "generation-0000000042", "generation-00000000042"] {
        fs::create_dir(folder.path(name)).unwrap();
        write_netcdf(&folder, &format!("{name}/field.nc"));
        fs::write(folder.path(name).join("data.array"), [7; 16]).unwrap();
        assert!(
            folder.succeed(&["inspect", &format!("{name}/field.nc")]).contains("field f64 500"),
            "{name}"
        );
        assert!(
            folder.succeed(&["dump", &format!("{name}/data.array"), "--raw", "u64"]).contains("data u64")
        );
        let copy = format!("{name}.nc");
        folder.succeed(&["convert", &format!("{name}/field.nc"), &copy]);
        assert!(
            folder.succeed(&["compare", &format!("{name}/field.nc"), &copy]).ends_with("no differences\n")
        );
    }
    // Also inside a checkpoint, a file that is not a part is detected by its contents.
    write_store(&folder, "checkpoints");
    let inside = "checkpoints/generation-0000000001/field.nc";
    write_netcdf(&folder, inside);
    assert!(folder.succeed(&["inspect", inside]).contains("field f64 500"));
    // An invalid companion file makes a file damaged, unless it is declared raw.
    for end in ["meta", "steps"] {
        let (data, beside) = (format!("{end}-data"), format!("{end}-data.{end}"));
        fs::write(folder.path(&data), [1; 16]).unwrap();
        fs::write(folder.path(&beside), "of another program").unwrap();
        assert_eq!(folder.succeed(&["verify", &data, "--shape", "16"]), format!("{data}: whole\n"));
        assert!(folder.exit_1(&["verify", &data]).contains("damaged"), "{end}");
    }
}

/// Extreme types in a manifest: no overflow, no long run time.
#[test]
fn extreme_types_in_a_manifest_are_treated_as_bytes() {
    let folder = TestFolder::new();
    write_store(&folder, "checkpoints");
    let manifest = folder.path("checkpoints/generation-0000000002/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let json = text.lines().next().unwrap();
    assert!(json.contains("\"type\":\"f64\""), "{json}");
    let nested = format!("{}u8{}", "[".repeat(60), ";1]".repeat(60));
    for extreme in [&"(".repeat(1_000_000), "[();9999999999]", &nested] {
        let json = json.replace("\"type\":\"f64\"", &format!("\"type\":\"{extreme}\""));
        fs::write(&manifest, format!("{json}\ncrc32c {:08x}\n", crc32c(json.as_bytes()))).unwrap();
        let message = folder.succeed(&["inspect", "checkpoints/generation-0000000002"]);
        assert!(message.contains("20 × 30"), "{}", message.len());
    }
}

/// A conversion from one format of `MarDyn` to another that fails leaves no file.
#[test]
fn a_failed_conversion_of_mardyn_leaves_no_file() {
    let folder = TestFolder::new();
    write_mardyn(&folder, PhaseSpaceFormat::OldStyle, "text");
    for (target, files) in [
        ("out.restart.mpi", ["out.restart", "out.restart.mpi"]),
        ("out.restart.header.xml", ["out.restart.header.xml", "out.restart.dat"]),
    ] {
        let message = folder.exit_2(&[
            "convert",
            "text.restart.inp",
            &format!("fault=seed=1,nospace=1000:ufs:{target}"),
        ]);
        assert!(message.contains("space"), "{message}");
        assert!(files.iter().all(|file| !folder.path(file).exists()), "{target}");
    }
}

#[test]
fn a_fifo_is_an_error_and_does_not_block() {
    let folder = TestFolder::new();
    assert!(std::process::Command::new("mkfifo").arg(folder.path("fifo")).status().unwrap().success());
    for words in
        [&["inspect", "fifo"][..], &["verify", "fifo"], &["dump", "fifo"], &["compare", "fifo", "fifo"]]
    {
        assert!(folder.exit_2(words).contains("fifo: not a regular file but a FIFO"), "{words:?}");
    }
}

/// Compressed datasets are read; those of filters that are not supported are not reported as damaged.
#[cfg(feature = "hdf5")]
#[test]
fn a_compressed_dataset_is_not_damaged() {
    const MAKE: &str = "
import sys, h5py, numpy
with h5py.File(sys.argv[1], 'w') as file:
    file.create_dataset('packed', data=numpy.arange(1000.0), compression='gzip')
with h5py.File(sys.argv[2], 'w') as file:
    file.create_dataset('packed', data=numpy.arange(1000), compression='szip')
";
    let Some(python) = aqueduct_testkit::external_tools::python("h5py") else { return };
    let folder = TestFolder::new();
    let paths = [folder.path("a.h5"), folder.path("b.h5")];
    let made = std::process::Command::new(&python).args(["-c", MAKE]).args(&paths).status();
    let has_szip = made.unwrap().success();
    assert!(folder.succeed(&["verify", "a.h5"]).contains("a.h5: whole"));
    let dumped = folder.succeed(&["dump", "a.h5", "--from", "998", "--rows", "2"]);
    assert!(dumped.contains("998") && dumped.contains("999"), "{dumped}");
    if has_szip {
        let message = folder.exit_2(&["verify", "b.h5"]);
        assert!(message.contains("b.h5: cannot tell: /packed") && message.contains("szip"), "{message}");
    }
}
