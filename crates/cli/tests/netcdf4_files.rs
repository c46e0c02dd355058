//! netCDF-4 files, which are HDF5 files with dimension scales: the command shows what `ncdump` and xarray show.
#![cfg(feature = "hdf5")]

mod test_folder;

use std::process::Command;

use aqueduct_testkit::external_tools;
use test_folder::TestFolder;

/// A netCDF-4 file shows its dimensions, groups and attributes as `ncdump` does.
#[test]
fn netcdf4_files_show_what_ncdump_shows() {
    const MAKE: &str = "
import sys, netCDF4
with netCDF4.Dataset(sys.argv[1], 'w') as file:
    file.title = 'a title'
    file.createDimension('time', None)
    file.createDimension('x', 3)
    field = file.createVariable('field', 'f4', ('time', 'x'), zlib=True, fill_value=-9.0)
    field.units = 'K'
    field[0:2] = [[1, 2, 3], [4, 5, 6]]
    inner = file.createGroup('inner')
    inner.createVariable('names', str, ('x',))[0] = 'first'
";
    let Some(python) = aqueduct_testkit::external_tools::python("netCDF4") else { return };
    let folder = TestFolder::new();
    let made = std::process::Command::new(&python).args(["-c", MAKE]).arg(folder.path("a.nc")).status();
    assert!(made.unwrap().success());
    let shown = folder.succeed(&["inspect", "a.nc"]);
    for wanted in [
        "/field f32 2 (time) × 3 (x), grows",
        "/inner/names text of any length 3 (x)",
        "@title = a title",
        "/field@units = K",
        "/field@_FillValue = -9",
    ] {
        assert!(shown.contains(wanted), "{wanted:?} in {shown}");
    }
    assert!(!shown.contains("_Netcdf4") && !shown.contains("DIMENSION_LIST"), "{shown}");
    let dumped = folder.succeed(&["dump", "a.nc", "--array", "/field"]);
    assert!(dumped.contains("1 2 3") && dumped.contains("4 5 6"), "{dumped}");
    assert!(folder.succeed(&["verify", "a.nc"]).contains("whole"));
}

/// Makes a netCDF-4 file and a file with scales of h5py.
const MAKE_FILES: &str = "
import sys, netCDF4, h5py, numpy as np
with netCDF4.Dataset(sys.argv[1], 'w') as file:
    file.createDimension('time', None)
    file.createDimension('x', 3)
    file.createDimension('level', None)
    file.createVariable('time', 'f8', ('time',))[:] = [0, 1]
    file.createVariable('short', 'f4', ('time', 'x'), fill_value=-9.0, zlib=True)[0] = [1, 2, 3]
    file.createVariable('wide', 'i2', ('x', 'level'))[:] = np.arange(12).reshape(3, 4)
    file.createVariable('narrow', 'i2', ('x', 'level'), fill_value=-1)[:, 0:2] = np.arange(6).reshape(3, 2)
    file.createVariable('never', 'f8', ('time',))
    group = file.createGroup('group')
    group.createDimension('x', 2)
    group.createVariable('field', 'i4', ('time', 'x'), endian='big')[:] = [[1, 2], [3, 4]]
    group.createGroup('inner').createVariable('field', 'f4', ('x',))[:] = [5, 6]
with h5py.File(sys.argv[2], 'w') as file:
    file['field'] = np.zeros((3, 4))
    file['x'], file['y'] = np.arange(3.0), np.arange(4.0)
    file['x'].make_scale(); file['y'].make_scale()
    file['field'].dims[0].attach_scale(file['x']); file['field'].dims[1].attach_scale(file['y'])
";

/// Prints all values of a netCDF-4 file.
const READ_VALUES: &str = "
import sys, netCDF4
def walk(group, prefix):
    for name, variable in group.variables.items():
        variable.set_auto_mask(False)
        # The library misplaces values of a second growing dimension if it reads several rows at once.
        rows = [variable[row] for row in range(len(variable))]
        values = [f'{value:.7g}' for row in rows for value in row.ravel()]
        print('#', prefix + name, 'x'.join(map(str, variable.shape)), *values)
    for name, inner in group.groups.items():
        walk(inner, prefix + name + '/')
with netCDF4.Dataset(sys.argv[1]) as file:
    walk(file, '/')
";

/// Values of variables whose record dimension others have extended, in groups, of dimensions that are not the first: as netCDF4 reads them.
#[test]
fn netcdf4_values_are_those_of_the_netcdf_library() {
    let Some(python) = external_tools::python("netCDF4, h5py") else { return };
    let folder = TestFolder::new();
    let made = Command::new(&python)
        .args(["-c", MAKE_FILES])
        .arg(folder.path("a.nc"))
        .arg(folder.path("b.h5"))
        .status();
    assert!(made.unwrap().success());
    let read = external_tools::output_of(
        Command::new(&python).args(["-W", "ignore", "-c", READ_VALUES]).arg(folder.path("a.nc")),
    );
    let numbers =
        |text: &str| -> Vec<f32> { text.split_whitespace().map(|word| word.parse().unwrap()).collect() };
    // The fill value of an array is printed as `_`.
    let fill = |array: &str| {
        let said = folder.succeed(&["inspect", "a.nc", "--array", array]);
        let line = said
            .lines()
            .find_map(|line| line.split_once("@_FillValue = ").map(|(_, value)| value.to_owned()));
        line.unwrap_or_else(|| "_".to_owned())
    };
    let mut compared = 0;
    for line in read.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let shown = folder.succeed(&["dump", "a.nc", "--array", words[1]]);
        let (head, values) = shown.split_once('\n').unwrap();
        assert!(head.starts_with(&format!("# {} ", words[1])), "{shown}");
        assert_eq!(numbers(&values.replace('_', &fill(words[1]))), numbers(words[3]), "{}", words[1]);
        compared += 1;
    }
    assert_eq!(compared, 7, "{read}");
    let shown = folder.succeed(&["inspect", "a.nc"]);
    for wanted in [
        "/short f32 2 (time) × 3 (x), grows",
        "/narrow i16 3 (x) × 4 (level)",
        "/never f64 2 (time), grows",
        "/group/field i32 2 (time) × 2 (group.x), grows",
        "/group/inner/field f32 2 (group.x)",
    ] {
        assert!(shown.contains(wanted), "{wanted:?} in {shown}");
    }
    let shown = folder.succeed(&["inspect", "b.h5"]);
    assert!(shown.contains("/field f64 3 (x) × 4 (y)"), "{shown}");
    folder.succeed(&["convert", "a.nc", "a.h5"]);
    let message = folder.succeed(&["compare", "a.nc", "a.h5"]);
    assert!(message.contains(" arrays: 0 of ") && message.ends_with("no differences\n"), "{message}");
}

/// Makes a compressed netCDF-4 file with coordinate variables, groups, a record dimension, a checksum and characters.
const MAKE_PACKED: &str = "
import sys, netCDF4, numpy as np
with netCDF4.Dataset(sys.argv[1], 'w') as file:
    file.title = 'packed'
    file.createDimension('time', None)
    file.createDimension('lat', 90)
    file.createDimension('lon', 180)
    file.createDimension('unused', 7)
    file.createDimension('length', 4)
    time = file.createVariable('time', 'f8', ('time',))
    time.units = 'days since 2000-01-01'
    file.createVariable('lat', 'f4', ('lat',))[:] = np.linspace(-89, 89, 90)
    field = file.createVariable('field', 'f4', ('time', 'lat', 'lon'), zlib=True, complevel=5, shuffle=True,
                                chunksizes=(2, 45, 60), fill_value=-9.0)
    field.units = 'K'
    field[0:5] = np.arange(5 * 90 * 180).reshape(5, 90, 180) // 9
    time[:] = range(5)
    summed = file.createVariable('summed', 'i2', ('lat', 'lon'), fletcher32=True, chunksizes=(30, 180))
    summed[:] = np.arange(90 * 180).reshape(90, 180) % 1000
    text = file.createVariable('text', 'S1', ('lat', 'length'))
    text[:] = netCDF4.stringtochar(np.array(['abcd'] * 90, 'S4'))
    inner = file.createGroup('inner')
    inner.createDimension('x', 3)
    inner.note = 'a group'
    inner.createVariable('x', 'f8', ('x',))[:] = [1, 2, 3]
    inner.createVariable('values', 'u4', ('time', 'x'), zlib=True)[:] = np.arange(15).reshape(5, 3)
";

/// Compares two netCDF-4 files with the netCDF library and with xarray; prints the filters of the second.
const COMPARE_PACKED: &str = "
import sys, netCDF4, numpy as np, xarray
def same(one, other):
    assert list(one.dimensions) == list(other.dimensions), (one.dimensions, other.dimensions)
    for name, dimension in one.dimensions.items():
        assert len(dimension) == len(other.dimensions[name]) and dimension.isunlimited() == other.dimensions[name].isunlimited(), name
    assert set(one.variables) == set(other.variables) and set(one.groups) == set(other.groups)
    assert {a: one.getncattr(a) for a in one.ncattrs()} == {a: other.getncattr(a) for a in other.ncattrs() if not a.startswith('aqueduct')}
    for name, variable in one.variables.items():
        found = other.variables[name]
        assert variable.dimensions == found.dimensions and variable.dtype == found.dtype, name
        own = [a for a in found.ncattrs() if not a.startswith('aqueduct')]
        assert set(variable.ncattrs()) == set(own), (name, variable.ncattrs(), own)
        for key in own:
            assert np.array_equal(variable.getncattr(key), found.getncattr(key)), (name, key)
        variable.set_auto_mask(False); found.set_auto_mask(False)
        assert np.array_equal(variable[:], found[:]), name
    for name, group in one.groups.items():
        same(group, other.groups[name])
with netCDF4.Dataset(sys.argv[1]) as one, netCDF4.Dataset(sys.argv[2]) as other:
    same(one, other)
    for name in ['field', 'summed', 'inner/values']:
        filters, chunks = other[name].filters(), other[name].chunking()
        print(name, filters['zlib'], filters['complevel'], filters['shuffle'], filters['fletcher32'], chunks)
for group in [None, 'inner']:
    with xarray.open_dataset(sys.argv[1], group=group) as one, xarray.open_dataset(sys.argv[2], group=group) as other:
        clean = lambda data: data.drop_attrs().assign_attrs({a: v for a, v in data.attrs.items() if not a.startswith('aqueduct')})
        assert clean(one).equals(clean(other)) and set(one.coords) == set(other.coords)
";

/// netCDF-4 files keep compression, chunks, checksums, dimension scales, groups and attributes, in netCDF-4 and in HDF5.
#[test]
fn netcdf4_files_are_converted_with_compression_and_scales() {
    let Some(python) = external_tools::python("netCDF4, xarray") else { return };
    let folder = TestFolder::new();
    let made = Command::new(&python).args(["-c", MAKE_PACKED]).arg(folder.path("a.nc")).status();
    assert!(made.unwrap().success());
    for name in ["b.nc4", "c.h5"] {
        let output = folder.command(&["convert", "a.nc", name]).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert!(folder.succeed(&["compare", "a.nc", name]).ends_with("no differences\n"));
        let printed = external_tools::output_of(
            Command::new(&python)
                .args(["-W", "ignore", "-c", COMPARE_PACKED])
                .args([folder.path("a.nc"), folder.path(name)]),
        );
        let wanted = "field True 5 True False [2, 45, 60]\nsummed False 0 False True [30, 180]\n";
        assert!(
            printed.starts_with(wanted) && printed.contains("inner/values True 4 True False"),
            "{printed}"
        );
        let size = |name: &str| std::fs::metadata(folder.path(name)).unwrap().len();
        assert!(size(name) < size("a.nc") + 40_000, "{} and {}", size(name), size("a.nc"));
    }
    // Classic netCDF becomes netCDF-4 and back.
    folder.succeed(&["convert", "a.nc", "d.nc"]);
    folder.succeed(&["convert", "d.nc", "e.nc4"]);
    assert!(folder.succeed(&["compare", "d.nc", "e.nc4"]).ends_with("no differences\n"));
}

/// The variables, dimensions and attributes that `ncdump` prints are those that `inspect` and `dump` print.
#[test]
fn ncdump_prints_the_same_names_and_values() {
    let Some(python) = external_tools::python("netCDF4") else { return };
    let Some(ncdump) = external_tools::command("ncdump") else { return };
    let folder = TestFolder::new();
    let made = Command::new(&python).args(["-c", MAKE_PACKED]).arg(folder.path("a.nc")).status();
    assert!(made.unwrap().success());
    let header = external_tools::output_of(Command::new(&ncdump).arg("-h").arg(folder.path("a.nc")));
    let shown = folder.succeed(&["inspect", "a.nc"]);
    let (mut group, mut compared) = (String::new(), 0);
    for line in header.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("group: ") {
            group = format!("/{}", name.trim_end_matches(" {"));
        } else if let Some(((owner, name), value)) = line
            .split_once(" = ")
            .and_then(|(left, value)| Some((left.split_once(':')?, value.trim_end_matches(" ;"))))
        {
            // An attribute: `owner:name = value ;`
            let value = value.trim_matches('"').trim_end_matches('f').trim_end_matches('.');
            let owner = if owner.is_empty() { group.clone() } else { format!("{group}/{owner}") };
            assert!(shown.contains(&format!("{owner}@{name} = {value}")), "{line} in {shown}");
            compared += 1;
        } else if let Some((declared, _)) = line.split_once(") ;") {
            // A variable: `type name(dimensions) ;`
            let (name, dimensions) = declared.split_once(' ').unwrap().1.split_once('(').unwrap();
            let inspected = shown.lines().find(|shown| shown.trim().starts_with(&format!("{group}/{name} ")));
            let inspected = inspected.unwrap_or_else(|| panic!("{line} in {shown}"));
            for dimension in dimensions.split(", ") {
                let (plain, grouped) = (format!("({dimension})"), format!(".{dimension})"));
                assert!(inspected.contains(&plain) || inspected.contains(&grouped), "{line}: {inspected}");
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 12, "{header}");
    for (name, path) in [("summed", "/summed"), ("lat", "/lat"), ("values", "/inner/values")] {
        let mut dump = Command::new(&ncdump);
        dump.args(["-p", "9", "-v", path.trim_start_matches('/')]);
        let printed = external_tools::output_of(dump.arg(folder.path("a.nc")));
        // The values of a group are the last.
        let data = if path == "/inner/values" {
            printed.rsplit("data:").next()
        } else {
            printed.split("data:").nth(1)
        };
        let values = data.unwrap().split_once(&format!(" {name} =")).unwrap().1.split(';').next().unwrap();
        let numbers = |text: &str| -> Vec<f32> {
            text.split([',', ' ', '\n'])
                .filter(|word| !word.is_empty())
                .map(|word| word.parse().unwrap())
                .collect()
        };
        let dumped = folder.succeed(&["dump", "a.nc", "--array", path]);
        assert_eq!(numbers(dumped.split_once('\n').unwrap().1), numbers(values), "{path}");
    }
}
