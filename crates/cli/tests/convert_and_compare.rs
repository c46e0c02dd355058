//! Metadata in `convert` and `compare`: what is kept, what is lost, what differs; and the memory that they need.

mod test_folder;

use std::fs;
use std::path::Path;
use std::process::Command;

use aqueduct::checkpoint::{Checkpoint, Store};
use aqueduct::comm::{Comm, Launch};
use aqueduct::netcdf::{NcType, NetcdfCreateOptions, Values};
use aqueduct_testkit::external_tools::python;

use test_folder::TestFolder;

/// Writes a field with named dimensions and a fill value, text, and attributes of several types.
fn write(path: &Path, units: &str, fill: f32) {
    let write = |world: &Comm| {
        let mut file = NetcdfCreateOptions::new().create(world, path)?;
        let (field, name) = file.define(|file| {
            let (time, x) = (file.unlimited("time")?, file.dimension("x", 4)?);
            let letters = file.dimension("letters", 5)?;
            file.attribute("title", "a title")?;
            file.attribute("numbers", vec![1i16, 2])?;
            let field = file.variable("field", NcType::Float, &[time, x])?;
            file.attribute_of(field, "units", units)?;
            file.attribute_of(field, "_FillValue", fill)?;
            let name = file.variable("name", NcType::Char, &[letters])?;
            file.attribute_of(name, "scale", 0.5f64)?;
            file.attribute_of(name, "odd", Values::Char(vec![0xff, 0xfe]))?;
            Ok((field, name))
        })?;
        file.at(field, [0..2, 0..4]).all().write(&[1.5f32; 8])?;
        file.at(name, 0..5).all().write(b"water")?;
        file.close()
    };
    Launch::threads(1).run(write).unwrap();
}

/// For all versions of classic netCDF, xarray finds the converted file identical to the original.
#[test]
fn xarray_finds_a_converted_file_identical() {
    let Some(python) = python("xarray, netCDF4") else { return };
    let folder = TestFolder::new();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    for version in ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"] {
        let (one, other) = (format!("{version}.nc"), format!("{version}-copy.nc"));
        let run = |script: &str, words: &[&str]| {
            let mut command = Command::new(&python);
            let output =
                command.arg(programs.join(script)).args(words).current_dir(folder.path("")).output().unwrap();
            assert!(output.status.success(), "{version}: {}", String::from_utf8_lossy(&output.stderr));
        };
        run("climate.py", &[&one, version]);
        let output = folder.command(&["convert", one.as_str(), &other]).output().unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        run("identical.py", &[&one, &other]);
        assert!(folder.succeed(&["compare", &one, &other]).ends_with("no differences\n"));
        assert!(
            folder.succeed(&["dump", &other, "--array", "place"]).contains("\"oslo\"\n\"rome\"\n\"lima\"\n")
        );
        if cfg!(feature = "hdf5") {
            // To HDF5 and back: names, dimensions, attributes and types are kept.
            let (through, back) = (format!("{version}.h5"), format!("{version}-back.nc"));
            let output = folder.command(&["convert", one.as_str(), &through]).output().unwrap();
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{message}");
            assert_eq!(message, "");
            assert!(folder.succeed(&["compare", &one, &through]).ends_with("no differences\n"));
            folder.succeed(&["convert", &through, &back]);
            assert!(folder.succeed(&["compare", &one, &back]).ends_with("no differences\n"));
        }
    }
}

/// A netCDF-4 file (HDF5) keeps the names of its dimensions, and xarray finds the classic file identical.
#[cfg(feature = "hdf5")]
#[test]
fn netcdf4_files_are_converted_to_classic_netcdf() {
    const MAKE: &str = "
import sys, netCDF4, numpy
with netCDF4.Dataset(sys.argv[1], 'w') as file:
    file.createDimension('time', None)
    file.createDimension('x', 3)
    file.createDimension('y', 2)
    file.title = 'a title'
    field = file.createVariable('field', 'f4', ('time', 'y', 'x'), fill_value=-1)
    field[0:2] = numpy.arange(12).reshape(2, 2, 3)
    field.units = 'K'
    time = file.createVariable('time', 'f8', ('time',))
    time[:], time.units = [1, 2], 'days since 2000-01-01'
    file.createVariable('y', 'i4', ('y',))[:] = [5, 6]
";
    const SAME: &str = "
import sys, xarray
with xarray.open_dataset(sys.argv[1]) as one, xarray.open_dataset(sys.argv[2]) as other:
    assert one.identical(other), (one, other)
    assert one.encoding['unlimited_dims'] == other.encoding['unlimited_dims'] == {'time'}
";
    let Some(python) = python("xarray, netCDF4") else { return };
    let folder = TestFolder::new();
    let run = |script: &str, words: &[&str]| {
        let output = Command::new(&python)
            .args(["-c", script])
            .args(words)
            .current_dir(folder.path(""))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(MAKE, &["four.nc"]);
    assert!(folder.succeed(&["inspect", "four.nc"]).contains("/field f32 2 (time) × 2 (y) × 3 (x), grows"));
    let output = folder.command(&["convert", "four.nc", "classic.nc"]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && message.is_empty(), "{message}");
    run(SAME, &["four.nc", "classic.nc"]);
    assert!(folder.succeed(&["compare", "four.nc", "classic.nc"]).ends_with("no differences\n"));
    // In HDF5 the attributes that describe scales are those of the new scales, and are not shown.
    let output = folder.command(&["convert", "four.nc", "scales.h5"]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && message.is_empty(), "{message}");
    let message = folder.succeed(&["inspect", "scales.h5"]);
    for internal in ["CLASS", "NAME", "_Netcdf4", "_NCProperties", "DIMENSION_LIST", "REFERENCE_LIST"] {
        assert!(!message.contains(internal), "{internal}: {message}");
    }
    assert!(message.contains("/field f32 2 (time) × 2 (y) × 3 (x), grows"), "{message}");
    assert!(folder.succeed(&["compare", "four.nc", "scales.h5"]).ends_with("no differences\n"));
}

/// Attributes with names of scale attributes on other datasets are copied and compared.
#[cfg(feature = "hdf5")]
#[test]
fn attributes_named_like_those_of_scales_are_kept() {
    const MAKE: &str = "
import sys, h5py
with h5py.File(sys.argv[1], 'w') as file:
    file.create_dataset('picture', data=[1, 2]).attrs['CLASS'] = 'IMAGE'
    file.attrs['NAME'] = 'a name'
with h5py.File(sys.argv[2], 'w') as file:
    file.create_dataset('picture', data=[1, 2])
";
    let Some(python) = python("h5py") else { return };
    let folder = TestFolder::new();
    let paths = ["named.h5", "bare.h5"].map(|name| folder.path(name));
    assert!(Command::new(&python).args(["-c", MAKE]).args(paths).status().unwrap().success());
    folder.succeed(&["convert", "named.h5", "copy.h5"]);
    assert!(folder.succeed(&["compare", "named.h5", "copy.h5"]).ends_with("no differences\n"));
    let message = folder.exit_1(&["compare", "named.h5", "bare.h5"]);
    assert!(
        message.contains("@NAME: in one of the files only") && message.contains("picture@CLASS: in one"),
        "{message}"
    );
}

/// In classic netCDF only one dimension grows, the first of an array: others become fixed, and arrays of length 0 are omitted.
#[cfg(feature = "hdf5")]
#[test]
fn netcdf4_files_with_several_growing_dimensions_are_converted_to_classic_netcdf() {
    const MAKE: &str = "
import sys, netCDF4, numpy
with netCDF4.Dataset(sys.argv[1], 'w') as file:
    file.createDimension('time', None)
    file.createDimension('x', 3)
    file.createDimension('none', None)
    file.createDimension('more', None)
    file.createVariable('late', 'f4', ('x', 'time'))[:, 0:2] = numpy.arange(6).reshape(3, 2)
    file.createVariable('field', 'f4', ('time', 'x'))[0:2] = numpy.arange(6).reshape(2, 3)
    file.createVariable('square', 'i4', ('more', 'time'))[0:4, 0:2] = numpy.arange(8).reshape(4, 2)
    file.createVariable('empty', 'i4', ('none', 'x'))
    file.createVariable('void', 'i4', ('x', 'none'))
";
    let Some(python) = python("netCDF4") else { return };
    let folder = TestFolder::new();
    let made = Command::new(&python).args(["-c", MAKE]).arg(folder.path("four.nc")).status();
    assert!(made.unwrap().success());
    let output = folder.command(&["convert", "four.nc", "classic.nc"]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    for part in [
        "the dimension time of /late becomes fixed and is renamed to late.1",
        "the dimension time of /square becomes fixed and is renamed to square.1",
        "the dimension more becomes fixed",
        "the dimension none is omitted: it has the length 0",
        "the array \"/empty\" is omitted",
        "the array \"/void\" is omitted",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let message = folder.succeed(&["inspect", "classic.nc"]);
    for part in [
        "late f32 3 (x) × 2 (late.1)",
        "field f32 2 (time) × 3 (x), grows",
        "square i32 4 (more) × 2 (square.1)",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(folder.succeed(&["dump", "classic.nc", "--array", "late"]), "# late f32\n0 1\n2 3\n4 5\n");
    for array in ["late", "field", "square"] {
        let words = ["compare", "four.nc", "classic.nc", "--data-only", "--array", array];
        assert!(folder.succeed(&words).ends_with("no differences\n"), "{array}");
    }
}

/// Writes arrays of these names with equal values, and optionally a dimension without an array.
fn write_arrays(path: &Path, names: &[&str], unused: Option<u64>) {
    let write = |world: &Comm| {
        let mut file = NetcdfCreateOptions::new().create(world, path)?;
        let variables = file.define(|file| {
            let x = file.dimension("n", 4)?;
            if let Some(length) = unused {
                file.dimension("unused", length)?;
            }
            names.iter().map(|name| file.variable(name, NcType::Double, &[x])).collect::<Result<Vec<_>, _>>()
        })?;
        for variable in variables {
            file.at(variable, 0..4).all().write(&[1.0, 2.0, 3.0, 4.0])?;
        }
        file.close()
    };
    Launch::threads(1).run(write).unwrap();
}

#[test]
fn arrays_are_compared_by_name() {
    let folder = TestFolder::new();
    for (name, arrays) in [("x.nc", &["x"][..]), ("xy.nc", &["x", "y"]), ("z.nc", &["z"])] {
        write_arrays(&folder.path(name), arrays, None);
    }
    for (one, other) in [("x.nc", "xy.nc"), ("xy.nc", "x.nc")] {
        let message = folder.exit_1(&["compare", one, other]);
        assert!(message.contains("y: in one of the files only\n1 arrays differ"), "{message}");
    }
    let message = folder.exit_1(&["compare", "x.nc", "z.nc"]);
    assert!(
        message.contains("x: in one of the files only\nz: in one of the files only\n2 arrays differ"),
        "{message}"
    );
    // A selected array is compared with the only array of the other file; raw files have no names.
    assert!(folder.succeed(&["compare", "x.nc", "z.nc", "--array", "x"]).contains("x: 4 values, all equal"));
    assert!(folder.succeed(&["compare", "xy.nc", "z.nc", "--array", "y"]).contains("y: 4 values, all equal"));
    assert!(folder.exit_2(&["compare", "x.nc", "z.nc", "--array", "q"]).contains("no array or group \"q\""));
    folder.succeed(&["convert", "x.nc", "x.raw"]);
    folder.succeed(&["convert", "x.nc", "x.obj"]);
    for other in ["x.raw", "x.obj"] {
        for (one, other) in [("x.nc", other), (other, "x.nc")] {
            let message = folder.succeed(&["compare", one, other, "--raw", "f64"]);
            assert!(message.contains("x: 4 values, all equal"), "{message}");
        }
        let message = folder.exit_1(&["compare", "xy.nc", other, "--raw", "f64"]);
        assert!(message.contains("x: in one of the files only"), "{message}");
    }
}

#[test]
fn dimensions_without_an_array_are_compared() {
    let folder = TestFolder::new();
    for (name, unused) in [("none.nc", None), ("five.nc", Some(5)), ("six.nc", Some(6))] {
        write_arrays(&folder.path(name), &["x"], unused);
    }
    let message = folder.exit_1(&["compare", "none.nc", "five.nc"]);
    assert!(
        message.contains("dimension unused: in one of the files only: 5\n0 arrays differ, 1 diff"),
        "{message}"
    );
    assert!(folder.exit_1(&["compare", "six.nc", "five.nc"]).contains("dimension unused: 6 and 5\n"));
    assert!(folder.succeed(&["compare", "five.nc", "five.nc"]).ends_with("no differences\n"));
    assert!(folder.succeed(&["compare", "none.nc", "five.nc", "--data-only"]).ends_with("no differences\n"));
}

/// Elements of 0 bytes are equal if their number is.
#[test]
fn elements_without_bytes_are_equal() {
    let folder = TestFolder::new();
    for (name, count) in [("one", 3), ("same", 3), ("more", 4)] {
        let write = |world: &Comm| {
            let mut store = Store::open_or_create(world, folder.path(name))?;
            let mut checkpoint = Checkpoint::new(1);
            checkpoint.objects("nothing", &vec![(); count]);
            store.write(&checkpoint).map(drop)
        };
        Launch::threads(1).run(write).unwrap();
    }
    for other in ["one", "same"] {
        assert!(folder.succeed(&["compare", "one", other]).ends_with("nothing: (), equal\nno differences\n"));
    }
    assert!(folder.exit_1(&["compare", "one", "more"]).contains("nothing: shapes [3] and [4]"));
}

#[test]
fn metadata_is_compared_except_with_data_only() {
    let folder = TestFolder::new();
    write(&folder.path("a.nc"), "K", -1.0);
    write(&folder.path("b.nc"), "C", -1.0);
    write(&folder.path("c.nc"), "K", -2.0);
    assert!(folder.succeed(&["compare", "a.nc", "a.nc"]).ends_with("no differences\n"));
    let message = folder.exit_1(&["compare", "a.nc", "b.nc"]);
    assert!(
        message.contains("field@units: \"K\" and \"C\"\ntotal of 2 arrays: 0 of 13 values differ, ")
            && message.ends_with("\n0 arrays differ, 1 differences of metadata\n"),
        "{message}"
    );
    let message = folder.exit_1(&["compare", "a.nc", "c.nc", "--array", "field"]);
    assert!(message.contains("field@_FillValue: -1 (f32) and -2 (f32)"), "{message}");
    for other in ["b.nc", "c.nc"] {
        assert!(folder.succeed(&["compare", "a.nc", other, "--data-only"]).ends_with("no differences\n"));
    }
    // Different type, name of a dimension, growth, and a missing attribute.
    let write = |world: &Comm| {
        let mut file = NetcdfCreateOptions::new().create(world, folder.path("d.nc"))?;
        let (field, name) = file.define(|file| {
            let (time, x) = (file.dimension("time", 2)?, file.dimension("y", 4)?);
            let letters = file.dimension("letters", 5)?;
            let field = file.variable("field", NcType::Double, &[time, x])?;
            Ok((field, file.variable("name", NcType::Char, &[letters])?))
        })?;
        file.at(field, [0..2, 0..4]).all().write(&[1.5; 8])?;
        file.at(name, 0..5).all().write(b"water")?;
        file.close()
    };
    Launch::threads(1).run(write).unwrap();
    let message = folder.exit_1(&["compare", "a.nc", "d.nc"]);
    for part in [
        "field: types f32 and f64",
        "field: names of dimensions (time, x) and (time, y)",
        "field: the first dimension grows in one of the files only",
        "field@units: in one of the files only: \"K\"",
        "@title: in one of the files only: \"a title\"",
        "0 arrays differ, ",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(folder.succeed(&["compare", "a.nc", "d.nc", "--data-only"]).ends_with("no differences\n"));
}

#[test]
fn metadata_that_the_target_cannot_store_is_listed() {
    let folder = TestFolder::new();
    write(&folder.path("a.nc"), "K", -1.0);
    let output = folder.command(&["convert", "a.nc", "a.raw", "--array", "field"]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    for part in ["title, numbers of the file", "units, _FillValue of field", "time, x of field"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(fs::metadata(folder.path("a.raw")).unwrap().len(), 32);
}

/// Types that only HDF5 has are copied from HDF5 to HDF5, and listed in a conversion to netCDF.
#[cfg(feature = "hdf5")]
#[test]
fn hdf5_keeps_its_own_types() {
    const MAKE: &str = "
import sys, h5py, numpy
with h5py.File(sys.argv[1], 'w') as file:
    file.attrs['names'] = ['one', 'two']
    file.attrs['fixed'] = numpy.bytes_('fixed')
    file.attrs['matrix'] = numpy.arange(4, dtype='i2').reshape(2, 2)
    group = file.create_group('group')
    group.attrs['about'] = 'a group'
    data = group.create_dataset('field', data=numpy.arange(6, dtype='f4').reshape(2, 3))
    data.dims[0].label, data.dims[1].label = 'y', 'x'
    data.attrs['flag'] = True
    file.create_dataset('flags', data=numpy.array([True, False]))
    file.create_dataset('record', data=numpy.array([(1, 2.5)], dtype=[('id', 'u2'), ('at', 'f8')]))
    file.create_dataset('text', data=['any', 'length'], dtype=h5py.string_dtype())
";
    let Some(python) = python("h5py") else { return };
    let folder = TestFolder::new();
    let made = Command::new(&python).args(["-c", MAKE]).arg(folder.path("a.h5")).status();
    assert!(made.unwrap().success());
    let warnings = |from: &str, to: &str| {
        let output = folder.command(&["convert", from, to]).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{message}");
        message
    };
    let message = warnings("a.h5", "b.h5");
    assert!(
        message.lines().count() == 1 && message.contains("the array \"/text\" is omitted: its elements "),
        "{message}"
    );
    let message = folder.exit_1(&["compare", "a.h5", "b.h5"]);
    assert!(
        message.contains("text: in one of the files only\ntotal of 3 arrays: 0 of 10 values differ, ")
            && message.ends_with("\n1 arrays differ, 0 differences of metadata\n"),
        "{message}"
    );
    let message = warnings("a.h5", "a.nc");
    for part in [
        "the attribute names is omitted: netCDF has no lists of strings",
        "the attribute matrix is omitted: netCDF attributes have one dimension",
        "the attribute about of the group /group is omitted: netCDF has no groups",
        "the array \"/text\" is omitted",
        "/flags: bool becomes u8",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let message = folder.succeed(&["inspect", "a.nc"]);
    assert!(
        message.contains("group.field f32 2 (y) × 3 (x)") && message.contains("@fixed = fixed"),
        "{message}"
    );
}

/// Large arrays are processed in parts, also within one row.
#[test]
fn memory_is_bounded_for_any_shape() {
    let folder = TestFolder::new();
    let length = 128 << 20;
    for name in ["one.raw", "other.raw"] {
        fs::File::create(folder.path(name)).unwrap().set_len(length).unwrap();
    }
    for shape in ["16777216", "1,16777216", "2,2,4194304"] {
        let peak =
            peak_memory(&folder, &["compare", "one.raw", "other.raw", "--raw", "f64", "--shape", shape]);
        assert!(peak < 80 << 20, "{shape}: {peak} bytes");
        let words = ["dump", "one.raw", "--raw", "f64", "--shape", shape];
        let peak = peak_memory(&folder, &words);
        assert!(peak < 80 << 20, "dump {shape}: {peak} bytes");
    }
}

#[test]
fn a_row_that_is_read_in_parts_is_printed_in_one_line() {
    let folder = TestFolder::new();
    let numbers: Vec<u8> = (0..3 * 700_000_u64).flat_map(u64::to_le_bytes).collect();
    fs::write(folder.path("a.raw"), numbers).unwrap();
    let words = ["dump", "a.raw", "--raw", "u64", "--shape", "3,700000", "--from", "1", "--rows", "1"];
    let message = folder.succeed(&words);
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), 2);
    let expected: Vec<String> = (700_000..1_400_000).map(|number| number.to_string()).collect();
    assert!(lines[1] == expected.join(" "));
}

/// The peak resident memory of the command in bytes.
fn peak_memory(folder: &TestFolder, words: &[&str]) -> u64 {
    let script = "import resource, subprocess, sys\n\
        code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode\n\
        assert code == 0, code\n\
        print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    let mut command = Command::new("python3");
    let output = command
        .args(["-c", script, env!("CARGO_BIN_EXE_aqueduct")])
        .args(words)
        .current_dir(folder.path(""))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().parse::<u64>().unwrap() * 1024
}
