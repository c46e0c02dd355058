//! Options of `inspect`, `dump`, `verify`, `compare` and `convert`, and their JSON.

mod sample_files;
mod test_folder;

use std::fs;
use std::os::unix::fs::FileExt;

use aqueduct::object::ObjectFile;
use serde_json::{Value, json};

use sample_files::{
    on_one_rank, write_each_kind, write_grid, write_objects, write_store, write_stream, write_texts,
};
use test_folder::TestFolder;

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn inspect_prints_sizes_statistics_trees_and_json_of_several_files() {
    let folder = TestFolder::new();
    write_grid(&folder, "a.nc");
    write_objects(&folder, "dust");
    let said = folder.succeed(&["inspect", "a.nc", "dust", "--stats"]);
    for part in [
        "field f64 3 (time) × 2 (y) × 4 (x), grows, 3 complete, 192 bytes\n    min 1, max 10, mean 5.565217391304348, 1 of 24 are the fill value\n",
        "packed i16 5 (n), 10 bytes\n    min -2, max 2, mean 0\n",
        "dust: object file",
        "    id: min 0, max 999, mean 499.5\n",
        "    position[1]: min -0.5, max -0.5, mean -0.5\n",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let all = json_of(&folder.succeed(&["inspect", "a.nc", "dust", "--stats", "--json"]));
    let field = &all["files"][0]["arrays"][0];
    assert_eq!(field["shape"], json!([3, 2, 4]));
    assert_eq!(field["dimensions"], json!(["time", "y", "x"]));
    assert_eq!(field["attributes"], json!({"units": "K", "_FillValue": -1.0}));
    assert_eq!(field["statistics"][""]["max"], json!(10.0));
    assert_eq!(
        all["files"][1]["arrays"][0]["statistics"]["charge"],
        json!({"values": 1000, "nan": 0, "fill": 0, "min": -992, "max": 7, "mean": -492.5})
    );
    let tree = folder.succeed(&["inspect", "a.nc", "--tree"]);
    assert!(
        tree.contains("  dimension time = 3, grows\n")
            && tree.contains("  field f64")
            && tree.contains("    @units = K\n"),
        "{tree}"
    );
    // Who wrote a file of this project.
    write_stream(&folder, "run");
    let said = folder.succeed(&["inspect", "run"]);
    assert!(
        said.contains("  written by file_options") && said.contains("(aqueduct 0.1.0) on 1 rank, 20"),
        "{said}"
    );
    let all = json_of(&folder.succeed(&["inspect", "run", "--json"]));
    let writer = &all["files"][0]["written_by"];
    assert!(writer["ranks"] == json!(1) && writer["time"].as_str().unwrap().ends_with('Z'), "{writer}");
    let only = folder.succeed(&["inspect", "a.nc", "--array", "packed"]);
    assert!(only.contains("packed") && !only.contains("field"), "{only}");
    assert!(folder.exit_2(&["inspect"]).contains("FILES"));
}

#[cfg(feature = "hdf5")]
#[test]
fn inspect_prints_groups_chunks_and_filters_of_hdf5_files() {
    const MAKE: &str = "
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], 'w') as file:
    g = file.create_group('outer/inner')
    g.attrs['kind'] = 'test'
    g.create_dataset('packed', data=np.zeros((100, 64), '<f8'), chunks=(10, 64), compression='gzip', compression_opts=6, shuffle=True, fletcher32=True)
    file['outer'].create_dataset('other', data=np.arange(3, dtype='<u2'))
";
    let Some(python) = aqueduct_testkit::external_tools::python("h5py") else { return };
    let folder = TestFolder::new();
    let made = std::process::Command::new(python).args(["-c", MAKE]).arg(folder.path("a.h5")).status();
    assert!(made.unwrap().success());
    let said = folder.succeed(&["inspect", "a.h5"]);
    assert!(said.contains("100 × 64, 51.2 kB, chunks 10 × 64, shuffle + deflate 6 + fletcher32, "), "{said}");
    let tree = folder.succeed(&["inspect", "a.h5", "--tree"]);
    let lines: Vec<&str> =
        tree.lines().map(|line| line.split(' ').find(|word| !word.is_empty()).unwrap()).collect();
    assert_eq!(lines[1..], ["outer/", "inner/", "@kind", "packed", "other"], "{tree}");
    assert!(tree.contains("\n  outer/\n    inner/\n      @kind = test\n      packed f64"), "{tree}");
    let storage = &json_of(&folder.succeed(&["inspect", "a.h5", "--json"]))["files"][0]["arrays"];
    let packed =
        storage.as_array().unwrap().iter().find(|array| array["name"] == "/outer/inner/packed").unwrap();
    assert_eq!(packed["storage"]["chunk"], json!([10, 64]));
    assert_eq!(packed["storage"]["filters"], json!(["shuffle", "deflate 6", "fletcher32"]));
    assert!(packed["storage"]["bytes"].as_u64().unwrap() < 2000);
}

#[test]
fn dump_prints_any_range_and_fill_values() {
    let folder = TestFolder::new();
    write_grid(&folder, "a.nc");
    let dump = |words: &[&str]| folder.succeed(&[&["dump", "a.nc", "--array"], words].concat());
    assert_eq!(dump(&["field", "--at", "1"]), "# field f64\n2 3 _ 5\n6 7 8 9\n");
    assert_eq!(dump(&["field", "--at", "0:2,1,2:"]), "# field f64\n7 8\n8 9\n");
    assert_eq!(dump(&["field", "--at", ":,0,0"]), "# field f64\n1\n2\n3\n");
    assert_eq!(dump(&["field", "--at", "2,1,3"]), "# field f64\n10\n");
    assert_eq!(dump(&["field", "--at", "0:0"]), "# field f64\n");
    assert_eq!(dump(&["packed", "--unpack"]), "# packed i16\n99\n99.5\n100\n100.5\n101\n");
    assert_eq!(dump(&["word"]), "# word char\n\"one\"\n\"two\"\n");
    for wrong in ["3", "0,0,0,0", "2:1", "x"] {
        assert!(folder.exit_2(&["dump", "a.nc", "--array", "field", "--at", wrong]).len() > 10);
    }
    // Ranges of formats that read only adjacent elements.
    folder.succeed(&["convert", "a.nc", "field.raw", "--array", "field"]);
    let raw = ["dump", "field.raw", "--raw", "f64", "--shape", "3,2,4", "--at", ":,1,1:3"];
    assert_eq!(folder.succeed(&raw), "# data f64\n6 7\n7 8\n8 9\n");
    write_stream(&folder, "run");
    let level = folder.succeed(&["dump", "run", "--array", "level", "--at", "2:4,3,4"]);
    assert_eq!(level, "# level f64\n19.25\n19.375\n");
}

#[test]
fn dump_writes_csv_json_and_npy() {
    const CHECK: &str = "
import csv, sys, numpy as np
dust = np.load(sys.argv[1])
assert dust.shape == (1000,) and dust['charge'].sum() == 7000 - 499500 and dust['position[1]'].max() == -0.5
assert np.load(sys.argv[2]).shape == (3, 2, 4)
rows = list(csv.DictReader(open(sys.argv[3])))
assert len(rows) == 24 and rows[-1] == {'time': '2', 'y': '1', 'x': '3', 'value': '10'}, rows[-1]
";
    let folder = TestFolder::new();
    write_grid(&folder, "a.nc");
    write_objects(&folder, "dust");
    write_texts(&folder, "texts");
    let csv = folder.succeed(&["dump", "a.nc", "--array", "field", "--at", "1,0", "--csv"]);
    assert_eq!(csv, "x,value\n0,2\n1,3\n2,\n3,5\n");
    let csv = folder.succeed(&["dump", "dust", "--csv", "--rows", "2"]);
    assert_eq!(csv, "i0,id,position[0],position[1],charge\n0,0,0,-0.5,7\n1,1,1,-0.5,6\n");
    let all = json_of(&folder.succeed(&["dump", "a.nc", "--json"]));
    assert_eq!(all[0]["data"][1], json!([[2.0, 3.0, null, 5.0], [6.0, 7.0, 8.0, 9.0]]));
    assert_eq!((&all[1]["name"], &all[1]["data"]), (&json!("packed"), &json!([-2, -1, 0, 1, 2])));
    let all = json_of(&folder.succeed(&["dump", "dust", "--json", "--at", "3"]));
    assert_eq!(all[0]["data"], json!({"id": 3, "position[0]": 3.0, "position[1]": -0.5, "charge": 4}));
    let all = json_of(&folder.succeed(&["dump", "texts", "--json", "--from", "2998"]));
    assert_eq!(all[0]["data"].as_array().unwrap().len(), 2);
    let csv = folder.succeed(&["dump", "texts", "--csv", "--rows", "1"]);
    assert!(csv.ends_with("0,\"\"\"text, \\\"\"0\\\"\"\"\"\"\n"), "{csv}");
    folder.succeed(&["dump", "dust", "--npy", "-o", "dust.npy"]);
    assert!(folder.exit_2(&["dump", "dust", "--npy", "-o", "dust.npy"]).contains("dust.npy"));
    assert!(folder.exit_2(&["dump", "a.nc", "--npy"]).contains("--array"));
    assert!(folder.exit_2(&["dump", "texts", "--npy"]).contains("npy"));
    folder.succeed(&["convert", "a.nc", "field.npy", "--array", "field"]);
    folder.succeed(&["convert", "a.nc", "field.csv", "--array", "field"]);
    let Some(python) = aqueduct_testkit::external_tools::python("numpy") else { return };
    let mut check = std::process::Command::new(python);
    check.args(["-c", CHECK]).args(["dust.npy", "field.npy", "field.csv"].map(|name| folder.path(name)));
    assert!(check.status().unwrap().success());
}

#[test]
fn verify_is_quick_lists_generations_and_repairs_object_files() {
    let folder = TestFolder::new();
    for name in write_each_kind(&folder) {
        assert!(folder.succeed(&["verify", "--quick", &name]).contains(&format!("{name}: whole\n")));
    }
    // A changed byte is found by reading it.
    let path = folder.path("grid.nc");
    let length = fs::metadata(&path).unwrap().len();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 4).unwrap();
    assert!(folder.exit_1(&["verify", "--quick", "grid.nc"]).contains("cut off"));
    fs::remove_dir_all(folder.path("store")).unwrap();
    write_store(&folder, "store");
    let said = folder.succeed(&["verify", "store"]);
    assert!(said.contains("store: whole\n  generation 1: whole, step 10, written by file_options"), "{said}");
    assert!(
        said.trim_end().ends_with("used by a restart") && said.contains("generation 2: whole, step 20"),
        "{said}"
    );
    let field =
        fs::OpenOptions::new().write(true).open(folder.path("store/generation-0000000002/field.array"));
    field.unwrap().write_at(&[1], 77).unwrap();
    let said = folder.exit_1(&["verify", "store"]);
    assert!(said.contains("generation 2: damaged, step 20"), "{said}");
    let all = json_of(folder.exit_1(&["verify", "store", "--json"]).split_once(": ").unwrap().1);
    assert_eq!(all["files"][0]["status"], json!("damaged"));
    let newest = |at: usize| all["files"][0]["generations"][at]["newest_whole"].clone();
    assert_eq!((newest(0), newest(1)), (json!(true), json!(false)));
    // A file that was never committed is repaired; a whole one is not touched.
    let path = folder.path("open");
    on_one_rank(|world| {
        let file = ObjectFile::<u32>::create(world, &path)?;
        file.at(0).all().write(&[1u32, 2, 3])?;
        drop(file);
        Ok::<_, aqueduct::object::Error>(())
    });
    assert!(folder.exit_1(&["verify", "open"]).contains("damaged"));
    let said = folder.succeed(&["verify", "--repair", "open", "dust"]);
    assert!(
        said.contains("open: repaired: 3 objects") && said.ends_with("open: whole\ndust: whole\n"),
        "{said}"
    );
    assert!(folder.exit_2(&["verify", "--repair", "run"]).contains("only object files"));
}

#[test]
fn compare_has_tolerances_for_arrays_and_lists_few_differences() {
    let folder = TestFolder::new();
    write_grid(&folder, "a.nc");
    fs::copy(folder.path("a.nc"), folder.path("b.nc")).unwrap();
    // The values of a part of the file are changed: all of `packed`, and some of `field`.
    let said = folder.succeed(&["dump", "a.nc", "--array", "packed"]);
    assert!(said.ends_with("\n2\n"));
    let bytes = fs::read(folder.path("a.nc")).unwrap();
    let packed =
        bytes.windows(10).position(|some| some == [0xff, 0xfe, 0xff, 0xff, 0, 0, 0, 1, 0, 2]).unwrap();
    let mut changed = bytes.clone();
    (0..5).for_each(|at| changed[packed + 2 * at] ^= 1);
    fs::write(folder.path("b.nc"), &changed).unwrap();
    let said = folder.exit_1(&["compare", "a.nc", "b.nc"]);
    assert!(said.contains("packed: 5 of 5 values differ"), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("packed [")).count(), 5, "{said}");
    let said = folder.exit_1(&["compare", "a.nc", "b.nc", "--first", "2"]);
    assert_eq!(said.lines().filter(|line| line.starts_with("packed [")).count(), 2, "{said}");
    assert!(folder.succeed(&["compare", "a.nc", "b.nc", "--exclude", "pack*"]).ends_with("no differences\n"));
    folder.succeed(&["compare", "a.nc", "b.nc", "--tolerance", "packed=0,256"]);
    folder.exit_1(&["compare", "a.nc", "b.nc", "--tolerance", "packed=0,255"]);
    folder.exit_1(&["compare", "a.nc", "b.nc", "--tolerance", "field=0,1000"]);
    assert!(folder.exit_2(&["compare", "a.nc", "b.nc", "--tolerance", "field"]).contains("NAME=RTOL"));
    let said = folder.command(&["compare", "a.nc", "b.nc", "--json"]).output().unwrap();
    let all = json_of(&String::from_utf8(said.stdout).unwrap());
    assert_eq!((&all["same"], &all["arrays_that_differ"]), (&json!(false), &json!(1)));
    let packed = all["arrays"].as_array().unwrap().iter().find(|array| array["name"] == "packed").unwrap();
    assert_eq!((&packed["differing"], &packed["first"][1]["index"]), (&json!(5), &json!([1])));
    assert_eq!(
        packed["first"][4],
        json!({"index": [4], "field": null, "one": 2.0, "other": 258.0, "difference": 256.0})
    );
}

#[test]
fn records_become_a_variable_per_field_in_netcdf() {
    let folder = TestFolder::new();
    write_objects(&folder, "dust");
    write_store(&folder, "store");
    folder.succeed(&["convert", "dust", "dust.nc"]);
    let said = folder.succeed(&["inspect", "dust.nc", "--stats"]);
    for part in [
        "objects.id u16 1000",
        "objects.position f64 1000 (step) × 2",
        "objects.charge i32 1000",
        "min -992, max 7",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let dumped = folder.succeed(&["dump", "dust.nc", "--array", "objects.position", "--at", "7"]);
    assert_eq!(dumped, "# objects.position f64\n7\n-0.5\n");
    folder.succeed(&["convert", "store", "store.nc"]);
    let said = folder.succeed(&["inspect", "store.nc"]);
    assert!(
        said.contains("molecules.velocity f64 200 (molecules.0) × 3")
            && said.contains("field f64 20 (field.0) × 30 (field.1)"),
        "{said}"
    );
    let text = aqueduct_testkit::external_tools::dump(&folder.path("dust.nc"));
    assert!(text.is_none_or(|text| text.contains("ushort objects.id(step)")));
}

/// Images that VTK reads, of one state and over time.
#[cfg(feature = "hdf5")]
#[test]
fn arrays_become_images_of_vtkhdf() {
    const CHECK: &str = "
import sys
from vtkmodules.vtkIOHDF import vtkHDFReader
from vtkmodules.util.numpy_support import vtk_to_numpy
reader = vtkHDFReader()
reader.SetFileName(sys.argv[1])
reader.UpdateInformation()
assert reader.GetNumberOfSteps() == 3, reader.GetNumberOfSteps()
reader.SetStep(2)
reader.Update()
image = reader.GetOutput()
assert image.GetDimensions() == (4, 2, 1), image.GetDimensions()
assert list(vtk_to_numpy(image.GetPointData().GetArray('field'))) == [3, 4, 5, 6, 7, 8, 9, 10]
reader = vtkHDFReader()
reader.SetFileName(sys.argv[2])
reader.Update()
image = reader.GetOutput()
assert image.GetDimensions() == (30, 20, 1), image.GetDimensions()
assert set(vtk_to_numpy(image.GetPointData().GetArray('field'))) == {0.25}
";
    let folder = TestFolder::new();
    write_grid(&folder, "a.nc");
    write_store(&folder, "store");
    assert!(
        folder
            .exit_2(&["convert", "a.nc", "none.vtkhdf", "--array", "packed"])
            .contains("two or three dimensions")
    );
    for ranks in ["1", "3"] {
        let names = ["series", "state"].map(|name| format!("{name}{ranks}.vtkhdf"));
        folder.succeed(&["convert", "a.nc", &names[0], "--array", "field", "-n", ranks]);
        folder.succeed(&["convert", "store", &names[1], "--array", "field", "-n", ranks]);
        let said = folder.succeed(&["dump", &names[0], "--array", "/VTKHDF/PointData/field", "--at", "1"]);
        assert_eq!(said, "# /VTKHDF/PointData/field f64\n2 3 -1 5\n6 7 8 9\n");
        let Some(python) = aqueduct_testkit::external_tools::python("vtkmodules.vtkIOHDF") else { continue };
        let mut check = std::process::Command::new(python);
        let checked = check.args(["-c", CHECK]).args(names.map(|name| folder.path(name))).status();
        assert!(checked.unwrap().success());
    }
}

/// Colours are for terminals only.
#[test]
fn colours_are_printed_on_a_terminal_only() {
    let folder = TestFolder::new();
    write_grid(&folder, "a.nc");
    assert_eq!(folder.succeed(&["verify", "a.nc"]), "a.nc: whole\n");
    let Some(script) = aqueduct_testkit::external_tools::command("script") else { return };
    let on_terminal = |variables: &[(&str, &str)]| {
        let mut command = std::process::Command::new(&script);
        let line = format!("{} verify a.nc", env!("CARGO_BIN_EXE_aqueduct"));
        command.args(["-qec", &line, "/dev/null"]).current_dir(folder.path("")).env("TERM", "xterm");
        let output = command.env_remove("NO_COLOR").envs(variables.iter().copied()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(on_terminal(&[]).contains("a.nc: \u{1b}[32mwhole\u{1b}[0m"), "{:?}", on_terminal(&[]));
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let said = on_terminal(&[variable]);
        assert!(said.contains("a.nc: whole") && !said.contains("\u{1b}[32m"), "{variable:?}: {said:?}");
    }
}
