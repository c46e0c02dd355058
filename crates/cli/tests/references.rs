//! `aqueduct refs`: files that zarr reads in place, by the references and without a copy.

mod sample_files;
mod test_folder;

use aqueduct_testkit::external_tools::{output_of, python};

use sample_files::{write_each_kind, write_grid};
use test_folder::TestFolder;

#[test]
fn references_have_the_layout_of_kerchunk() {
    let folder = TestFolder::new();
    write_grid(&folder, "a.nc");
    let said = folder.succeed(&["refs", "a.nc", "--url", "s3://bucket/a.nc"]);
    let all: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(all["version"], 1);
    let refs = &all["refs"];
    let array: serde_json::Value = serde_json::from_str(refs["field/.zarray"].as_str().unwrap()).unwrap();
    assert_eq!(array["chunks"], serde_json::json!([1, 2, 4]));
    assert_eq!(
        (&array["dtype"], &array["fill_value"]),
        (&serde_json::json!(">f8"), &serde_json::json!(-1.0))
    );
    assert_eq!((&refs["field/2.0.0"][0], &refs["field/2.0.0"][2]), (&"s3://bucket/a.nc".into(), &64.into()));
    folder.succeed(&["refs", "a.nc", "-o", "a.json"]);
    assert!(folder.exit_2(&["refs", "a.nc", "-o", "a.json"]).contains("a.json"));
}

/// Every array that zarr reads by the references has the values that this program reads.
#[test]
fn zarr_reads_files_of_all_kinds_by_references() {
    const CHECK: &str = "
import json, sys, numpy as np, zarr
expected = np.load(sys.argv[3])
group = zarr.open_group('reference://', storage_options={'fo': sys.argv[1]}, mode='r', zarr_format=2)
found = group[sys.argv[2].strip('/')][...]
assert found.shape == expected.shape, (found.shape, expected.shape)
if found.dtype.names:
    for name in expected.dtype.names:
        if name: assert (found[name] == expected[name]).all(), name
else:
    assert np.array_equal(found, expected, equal_nan=expected.dtype.kind == 'f'), (found, expected)
print('same')
";
    let folder = TestFolder::new();
    let mut names: Vec<(String, Vec<&str>)> = write_each_kind(&folder)
        .into_iter()
        .filter_map(|name| {
            let arrays = match &*name {
                "run" => vec!["level"],
                "dust" => vec!["objects"],
                "store" => vec!["field", "time", "molecules"],
                "gas.cells" => vec!["particles"],
                "grid.nc" => vec!["field", "packed", "word"],
                "grid.h5" => vec!["/field", "/packed"],
                _ => return None,
            };
            Some((name, arrays))
        })
        .collect();
    let Some(python) = python("zarr") else { return };
    if cfg!(feature = "hdf5") && write_filtered(&folder, "filtered.h5") {
        names.push(("filtered.h5".to_owned(), vec!["/g/gzip", "/g/plain", "/big", "/part", "/sums"]));
    }
    for (name, arrays) in names {
        folder.succeed(&["refs", &name, "-o", &format!("{name}.json")]);
        for (at, array) in arrays.into_iter().enumerate() {
            let expected = format!("{name}.{at}.npy");
            folder.succeed(&["dump", &name, "--array", array, "--npy", "-o", &expected]);
            let mut check = std::process::Command::new(&python);
            check.args(["-W", "ignore", "-c", CHECK]).arg(folder.path(format!("{name}.json"))).arg(array);
            assert_eq!(output_of(check.arg(folder.path(&expected))), "same\n", "{name} {array}");
        }
    }
}

/// Datasets with filters, of big-endian numbers, and partly written ones; false without h5py.
fn write_filtered(folder: &TestFolder, name: &str) -> bool {
    const MAKE: &str = "
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], 'w') as file:
    values = np.arange(700, dtype='<f8').reshape(70, 10)
    file.create_dataset('g/gzip', data=values, chunks=(16, 4), compression='gzip', shuffle=True)
    file.create_dataset('g/plain', data=values)
    file.create_dataset('big', data=values.astype('>i4'), chunks=(70, 3))
    file.create_dataset('part', (5, 5), '<f4', chunks=(2, 2), fillvalue=-1.5)[3, 3] = 0.5
    file.create_dataset('sums', data=values, chunks=(16, 10), compression='gzip', fletcher32=True)
";
    let Some(python) = python("h5py") else { return false };
    let made = std::process::Command::new(python).args(["-c", MAKE]).arg(folder.path(name)).status();
    made.is_ok_and(|status| status.success())
}
