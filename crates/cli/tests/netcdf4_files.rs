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
    let mut compared = 0;
    for line in read.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let shown = folder.succeed(&["dump", "a.nc", "--array", words[1]]);
        let (head, values) = shown.split_once('\n').unwrap();
        assert!(head.starts_with(&format!("# {} ", words[1])), "{shown}");
        assert_eq!(numbers(values), numbers(words[3]), "{}", words[1]);
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
