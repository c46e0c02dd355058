//! Conversion keeps what the target can hold and names what it cannot; comparison looks at it.

mod folder;

use std::fs;
use std::path::Path;
use std::process::Command;

use aqueduct::checkpoint::{Checkpoint, Store};
use aqueduct::comm::{Comm, Launch};
use aqueduct::netcdf::{NcType, NetcdfCreateOptions, Values};
use aqueduct_testkit::external_tools::python;

use folder::Folder;

/// A field with a name for each dimension, a fill value, text, attributes of some types.
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

/// xarray opens the copy of a file and finds it identical to the original, for all versions of classic netCDF.
#[test]
fn xarray_finds_a_converted_file_identical() {
    let Some(python) = python("xarray, netCDF4") else { return };
    let folder = Folder::new();
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
        assert!(folder.said(&["compare", &one, &other]).ends_with("no differences\n"));
        assert!(
            folder.said(&["dump", &other, "--array", "place"]).contains("\"oslo\"\n\"rome\"\n\"lima\"\n")
        );
        if cfg!(feature = "hdf5") {
            // To HDF5 and back: names, attributes and types are the same, but for what is named.
            let (through, back) = (format!("{version}.h5"), format!("{version}-back.nc"));
            let output = folder.command(&["convert", one.as_str(), &through]).output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{told}");
            assert_eq!(
                told,
                "aqueduct: warning: dimension unused belongs to no array: HDF5 has none without\n"
            );
            assert!(folder.said(&["compare", &one, &through]).ends_with("no differences\n"));
            folder.said(&["convert", &through, &back]);
            // The dimension that was lost on the way is missed.
            let told = folder.denied(&["compare", &one, &back]);
            let lost = "dimension unused: in one of them only: ";
            assert!(
                told.contains(lost) && told.ends_with("0 arrays differ, 1 differences of metadata\n"),
                "{told}"
            );
            assert!(folder.said(&["compare", &one, &back, "--data-only"]).ends_with("no differences\n"));
        }
    }
}

/// A netCDF-4 file is HDF5; its dimensions keep their names, and what xarray reads of the classic file is the same.
#[cfg(feature = "hdf5")]
#[test]
fn netcdf4_files_become_classic_ones() {
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
    let folder = Folder::new();
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
    assert!(folder.said(&["inspect", "four.nc"]).contains("/field f32 2 (time) × 2 (y) × 3 (x), grows"));
    let output = folder.command(&["convert", "four.nc", "classic.nc"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{told}");
    run(SAME, &["four.nc", "classic.nc"]);
    assert!(folder.said(&["compare", "four.nc", "classic.nc"]).ends_with("no differences\n"));
    // In HDF5 dimensions are labels: what describes scales is not copied, and not missed.
    let output = folder.command(&["convert", "four.nc", "labels.h5"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{told}");
    let told = folder.said(&["inspect", "labels.h5"]);
    for internal in ["CLASS", "NAME", "_Netcdf4", "_NCProperties", "DIMENSION_LIST", "REFERENCE_LIST"] {
        assert!(!told.contains(internal), "{internal}: {told}");
    }
    assert!(told.contains("/field f32 2 (time) × 2 (y) × 3 (x), grows"), "{told}");
    assert!(folder.said(&["compare", "four.nc", "labels.h5"]).ends_with("no differences\n"));
}

/// Attributes that are called like those of scales and describe none are copied and compared.
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
    let folder = Folder::new();
    let paths = ["named.h5", "bare.h5"].map(|name| folder.path(name));
    assert!(Command::new(&python).args(["-c", MAKE]).args(paths).status().unwrap().success());
    folder.said(&["convert", "named.h5", "copy.h5"]);
    assert!(folder.said(&["compare", "named.h5", "copy.h5"]).ends_with("no differences\n"));
    let told = folder.denied(&["compare", "named.h5", "bare.h5"]);
    assert!(told.contains("@NAME: in one of them only") && told.contains("picture@CLASS: in one"), "{told}");
}

/// In classic netCDF one dimension grows, the first of an array: others become fixed, and what has length 0 is left out.
#[cfg(feature = "hdf5")]
#[test]
fn netcdf4_files_with_several_growing_dimensions_become_classic_ones() {
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
    let folder = Folder::new();
    let made = Command::new(&python).args(["-c", MAKE]).arg(folder.path("four.nc")).status();
    assert!(made.unwrap().success());
    let output = folder.command(&["convert", "four.nc", "classic.nc"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    for part in [
        "dimension time of /late does not grow, and is called late.1",
        "dimension time of /square does not grow, and is called square.1",
        "dimension more does not grow",
        "dimension none is left out: it has length 0",
        "array \"/empty\" is left out",
        "array \"/void\" is left out",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let told = folder.said(&["inspect", "classic.nc"]);
    for part in [
        "late f32 3 (x) × 2 (late.1)",
        "field f32 2 (time) × 3 (x), grows",
        "square i32 4 (more) × 2 (square.1)",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(folder.said(&["dump", "classic.nc", "--array", "late"]), "# late f32\n0 1\n2 3\n4 5\n");
    for array in ["late", "field", "square"] {
        let words = ["compare", "four.nc", "classic.nc", "--data-only", "--array", array];
        assert!(folder.said(&words).ends_with("no differences\n"), "{array}");
    }
}

/// Arrays of these names, the same values in all of them; a dimension that none has.
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
fn an_array_is_compared_with_the_one_of_its_name() {
    let folder = Folder::new();
    for (name, arrays) in [("x.nc", &["x"][..]), ("xy.nc", &["x", "y"]), ("z.nc", &["z"])] {
        write_arrays(&folder.path(name), arrays, None);
    }
    for (one, other) in [("x.nc", "xy.nc"), ("xy.nc", "x.nc")] {
        let told = folder.denied(&["compare", one, other]);
        assert!(told.contains("y: in one of them only\n1 arrays differ"), "{told}");
    }
    let told = folder.denied(&["compare", "x.nc", "z.nc"]);
    assert!(told.contains("x: in one of them only\nz: in one of them only\n2 arrays differ"), "{told}");
    // One that was asked for may have another name where it is alone; and raw files have no names.
    assert!(folder.said(&["compare", "x.nc", "z.nc", "--array", "x"]).contains("x: 4 values, all the same"));
    assert!(folder.said(&["compare", "xy.nc", "z.nc", "--array", "y"]).contains("y: 4 values, all the same"));
    assert!(folder.refused(&["compare", "x.nc", "z.nc", "--array", "q"]).contains("no array or group \"q\""));
    folder.said(&["convert", "x.nc", "x.raw"]);
    folder.said(&["convert", "x.nc", "x.obj"]);
    for other in ["x.raw", "x.obj"] {
        for (one, other) in [("x.nc", other), (other, "x.nc")] {
            let told = folder.said(&["compare", one, other, "--raw", "f64"]);
            assert!(told.contains("x: 4 values, all the same"), "{told}");
        }
        let told = folder.denied(&["compare", "xy.nc", other, "--raw", "f64"]);
        assert!(told.contains("x: in one of them only"), "{told}");
    }
}

#[test]
fn a_dimension_that_no_array_has_is_compared() {
    let folder = Folder::new();
    for (name, unused) in [("none.nc", None), ("five.nc", Some(5)), ("six.nc", Some(6))] {
        write_arrays(&folder.path(name), &["x"], unused);
    }
    let told = folder.denied(&["compare", "none.nc", "five.nc"]);
    assert!(told.contains("dimension unused: in one of them only: 5\n0 arrays differ, 1 diff"), "{told}");
    assert!(folder.denied(&["compare", "six.nc", "five.nc"]).contains("dimension unused: 6 and 5\n"));
    assert!(folder.said(&["compare", "five.nc", "five.nc"]).ends_with("no differences\n"));
    assert!(folder.said(&["compare", "none.nc", "five.nc", "--data-only"]).ends_with("no differences\n"));
}

/// Elements of no byte are the same if there are as many of them.
#[test]
fn elements_without_bytes_are_the_same() {
    let folder = Folder::new();
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
        assert!(folder.said(&["compare", "one", other]).ends_with("nothing: (), the same\nno differences\n"));
    }
    assert!(folder.denied(&["compare", "one", "more"]).contains("nothing: shapes [3] and [4]"));
}

#[test]
fn metadata_is_compared_unless_told_not_to() {
    let folder = Folder::new();
    write(&folder.path("a.nc"), "K", -1.0);
    write(&folder.path("b.nc"), "C", -1.0);
    write(&folder.path("c.nc"), "K", -2.0);
    assert!(folder.said(&["compare", "a.nc", "a.nc"]).ends_with("no differences\n"));
    let told = folder.denied(&["compare", "a.nc", "b.nc"]);
    assert!(
        told.contains("field@units: \"K\" and \"C\"\n0 arrays differ, 1 differences of metadata"),
        "{told}"
    );
    let told = folder.denied(&["compare", "a.nc", "c.nc", "--array", "field"]);
    assert!(told.contains("field@_FillValue: -1 (f32) and -2 (f32)"), "{told}");
    for other in ["b.nc", "c.nc"] {
        assert!(folder.said(&["compare", "a.nc", other, "--data-only"]).ends_with("no differences\n"));
    }
    // The type, the name of a dimension, whether it grows, an attribute that is missing.
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
    let told = folder.denied(&["compare", "a.nc", "d.nc"]);
    for part in [
        "field: types f32 and f64",
        "field: names of dimensions (time, x) and (time, y)",
        "field: the first dimension grows in one of them only",
        "field@units: in one of them only: \"K\"",
        "@title: in one of them only: \"a title\"",
        "0 arrays differ, ",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(folder.said(&["compare", "a.nc", "d.nc", "--data-only"]).ends_with("no differences\n"));
}

#[test]
fn what_a_target_cannot_hold_is_named() {
    let folder = Folder::new();
    write(&folder.path("a.nc"), "K", -1.0);
    let output = folder.command(&["convert", "a.nc", "a.raw", "--array", "field"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    for part in ["title, numbers of the file", "units, _FillValue of field", "time, x of field"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(fs::metadata(folder.path("a.raw")).unwrap().len(), 32);
}

/// What only HDF5 holds: copied from HDF5 to HDF5, and named where netCDF cannot hold it.
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
    let folder = Folder::new();
    let made = Command::new(&python).args(["-c", MAKE]).arg(folder.path("a.h5")).status();
    assert!(made.unwrap().success());
    let warnings = |from: &str, to: &str| {
        let output = folder.command(&["convert", from, to]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        told
    };
    let told = warnings("a.h5", "b.h5");
    assert!(
        told.lines().count() == 1
            && told.contains("array \"/text\" is left out: it holds text of any length"),
        "{told}"
    );
    let told = folder.denied(&["compare", "a.h5", "b.h5"]);
    assert!(
        told.ends_with("text: in one of them only\n1 arrays differ, 0 differences of metadata\n"),
        "{told}"
    );
    let told = warnings("a.h5", "a.nc");
    for part in [
        "attribute names: netCDF has no lists of texts",
        "attribute matrix: netCDF has attributes of one dimension only",
        "attribute about of group /group: netCDF has no groups",
        "array \"/record\" is left out",
        "array \"/text\" is left out",
        "/flags: bool becomes u8",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let told = folder.said(&["inspect", "a.nc"]);
    assert!(told.contains("group.field f32 2 (y) × 3 (x)") && told.contains("@fixed = fixed"), "{told}");
}

/// Large arrays are compared in parts: a row that is larger than memory may be is no problem.
#[test]
fn memory_is_bounded_whatever_the_shape() {
    let folder = Folder::new();
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
fn rows_that_are_read_in_parts_are_printed_as_rows() {
    let folder = Folder::new();
    let numbers: Vec<u8> = (0..3 * 700_000_u64).flat_map(u64::to_le_bytes).collect();
    fs::write(folder.path("a.raw"), numbers).unwrap();
    let words = ["dump", "a.raw", "--raw", "u64", "--shape", "3,700000", "--from", "1", "--rows", "1"];
    let told = folder.said(&words);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2);
    let expected: Vec<String> = (700_000..1_400_000).map(|number| number.to_string()).collect();
    assert!(lines[1] == expected.join(" "));
}

/// The most memory that the command had at once.
fn peak_memory(folder: &Folder, words: &[&str]) -> u64 {
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
