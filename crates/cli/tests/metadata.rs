//! Conversion keeps what the target can hold and names what it cannot; comparison looks at it.

mod folder;

use std::fs;
use std::path::Path;
use std::process::Command;

use aqueduct::comm::{Comm, Launch};
use aqueduct::netcdf::{Create, Type, Values};
use aqueduct_testkit::readers::python;

use folder::Folder;

/// A field with a name for each dimension, a fill value, text, attributes of some types.
fn write(path: &Path, units: &str, fill: f32) {
    let write = |world: &Comm| {
        let mut file = Create::new().create(world, path)?;
        let (field, name) = file.define(|file| {
            let (time, x) = (file.unlimited("time")?, file.dimension("x", 4)?);
            let letters = file.dimension("letters", 5)?;
            file.attribute("title", "a title")?;
            file.attribute("numbers", vec![1i16, 2])?;
            let field = file.variable("field", Type::Float, &[time, x])?;
            file.attribute_of(field, "units", units)?;
            file.attribute_of(field, "_FillValue", fill)?;
            let name = file.variable("name", Type::Char, &[letters])?;
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
            assert!(folder.said(&["compare", &one, &back]).ends_with("no differences\n"));
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
        let mut file = Create::new().create(world, folder.path("d.nc"))?;
        let (field, name) = file.define(|file| {
            let (time, x) = (file.dimension("time", 2)?, file.dimension("y", 4)?);
            let letters = file.dimension("letters", 5)?;
            let field = file.variable("field", Type::Double, &[time, x])?;
            Ok((field, file.variable("name", Type::Char, &[letters])?))
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
    }
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
