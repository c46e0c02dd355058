//! Objects in other formats: ragged arrays of variable-size objects, and particles of VTKHDF, as h5py, netCDF4 and VTK read them.
#![cfg(feature = "hdf5")]

mod sample_files;
mod test_folder;

use std::process::Command;

use aqueduct::object::{Object, ObjectFile};
use aqueduct::stream::{Output, Stream, Streams};
use aqueduct_testkit::external_tools::{output_of, python};
use sample_files::{on_one_rank, write_each_kind, write_objects, write_store, write_texts};
use serde_json::Value;
use test_folder::TestFolder;

#[derive(Object, Clone)]
struct Track {
    id: u16,
    position: [f64; 3],
    points: Vec<[f32; 2]>,
    name: String,
    charge: Option<i32>,
    hits: Vec<Hit>,
    nested: Vec<Vec<u8>>,
}

#[derive(Object, Clone)]
struct Hit {
    time: f64,
    layer: u8,
}

/// Track k has k mod 5 points, a name of k mod 3 letters, and a charge if k is odd.
fn track(k: u16) -> Track {
    Track {
        id: k,
        position: [f64::from(k), 0.5, -1.0],
        points: (0..k % 5).map(|at| [f32::from(k) + f32::from(at), -f32::from(at)]).collect(),
        name: "é".repeat(usize::from(k) % 3),
        charge: (k % 2 == 1).then_some(i32::from(k) * 10),
        hits: vec![Hit { time: f64::from(k), layer: k as u8 }; usize::from(k) % 2],
        nested: vec![vec![1]],
    }
}

fn write_tracks(folder: &TestFolder) {
    on_one_rank(|world| {
        let file = ObjectFile::<Track>::create(world, folder.path("tracks"))?;
        file.at_pointer().all().write(&(0..700).map(track).collect::<Vec<_>>())?;
        file.close()
    });
}

const CHECK_RAGGED: &str = "
import sys, numpy as np
name = sys.argv[1]
if name.endswith('.h5'):
    import h5py
    file = h5py.File(name)
    read, attribute = lambda a: file[a][...], lambda a, b: file[a].attrs[b]
    assert file['objects.hits'].dtype.names == ('time', 'layer')
    hits = read('objects.hits')['time']
else:
    import netCDF4
    file = netCDF4.Dataset(name)
    file.set_auto_mask(False)
    read, attribute = lambda a: file[a][:], lambda a, b: file[a].getncattr(b)
    assert file['objects.points.count'].dimensions == ('object',)
    assert file['objects.points'].dimensions[0] == 'objects.points.sample'
    # Variables of records are a variable for each field, which netCDF-4 files of convert do not have.
    hits = read('objects.hits.time') if name.endswith('.nc') else None
def lists(array):
    samples = attribute(array + '.count', 'sample_dimension')
    assert (samples.decode() if isinstance(samples, bytes) else samples) == array + '.sample', samples
    ends = np.cumsum(read(array + '.count'))
    assert len(read(array)) == ends[-1]
    return np.split(read(array), ends[:-1])
assert (read('objects.id') == np.arange(700)).all()
assert (read('objects.position') == [[k, 0.5, -1] for k in range(700)]).all()
for k, points in enumerate(lists('objects.points')):
    assert points.tolist() == [[k + at, -at] for at in range(k % 5)], (k, points)
for k, text in enumerate(lists('objects.name')):
    assert text.tobytes().decode() == chr(233) * (k % 3), (k, text)
for k, charge in enumerate(lists('objects.charge')):
    assert charge.tolist() == ([k * 10] if k % 2 else []), (k, charge)
assert hits is None or (hits == np.arange(1, 700, 2)).all()
";

#[test]
fn variable_size_objects_become_ragged_arrays() {
    let folder = TestFolder::new();
    write_tracks(&folder);
    write_texts(&folder, "texts");
    for ranks in ["1", "3"] {
        for end in ["nc", "nc4", "h5"] {
            let name = format!("tracks{ranks}.{end}");
            let output = folder.command(&["convert", "tracks", &name, "-n", ranks]).output().unwrap();
            let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{warnings}");
            assert!(
                warnings.contains("the field \"nested\" is omitted: it has lists in lists"),
                "{warnings}"
            );
            assert_eq!(warnings.contains("objects.hits"), end == "nc4", "{warnings}");
            let Some(python) = python("netCDF4, h5py") else { continue };
            output_of(Command::new(python).args(["-c", CHECK_RAGGED]).arg(folder.path(&name)));
        }
    }
    // An object that is a list has one array of values.
    folder.succeed(&["convert", "texts", "texts.nc"]);
    let shown = folder.succeed(&["inspect", "texts.nc"]);
    assert!(shown.contains("objects.count i32 3000 (object)") && shown.contains("objects char "), "{shown}");
    folder.succeed(&["convert", "texts", "counts.npy", "--array", "objects.count"]);
}

/// A line of JSON for each step of a file with particles.
const READ_PARTICLES: &str = "
import json, sys
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkCommonExecutionModel import vtkStreamingDemandDrivenPipeline
from vtkmodules.vtkIOHDF import vtkHDFReader
reader = vtkHDFReader()
reader.SetFileName(sys.argv[1])
reader.UpdateInformation()
# A file of one time has no steps.
for time in reader.GetOutputInformation(0).Get(vtkStreamingDemandDrivenPipeline.TIME_STEPS()) or [None]:
    reader.Update() if time is None else reader.UpdateTimeStep(time)
    data = reader.GetOutputDataObject(0)
    data = data.GetPartition(0) if data.IsA('vtkPartitionedDataSet') else data
    points, values = vtk_to_numpy(data.GetPoints().GetData()), data.GetPointData()
    arrays = {values.GetArrayName(at): vtk_to_numpy(values.GetArray(at)) for at in range(values.GetNumberOfArrays())}
    assert data.GetVerts().GetNumberOfCells() == len(points)
    assert all(len(array) == len(points) for array in arrays.values())
    print(json.dumps({'time': time, 'points': points.tolist(), **{name: array.tolist() for name, array in arrays.items()}}))
";

fn particles(folder: &TestFolder, name: &str) -> Option<Vec<Value>> {
    let python = python("vtkmodules.vtkIOHDF")?;
    let text = output_of(Command::new(python).args(["-c", READ_PARTICLES]).arg(folder.path(name)));
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn objects_and_checkpoints_with_positions_become_particles_of_vtkhdf() {
    let folder = TestFolder::new();
    write_objects(&folder, "dust");
    write_tracks(&folder);
    write_store(&folder, "store");
    for ranks in ["1", "3"] {
        let words = ["-n", ranks];
        folder.succeed(&[&["convert", "dust", &format!("dust{ranks}.vtkhdf")][..], &words[..]].concat());
        let Some(steps) = particles(&folder, &format!("dust{ranks}.vtkhdf")) else { return };
        assert_eq!(steps.len(), 1);
        let dust = &steps[0];
        assert_eq!(dust["points"].as_array().unwrap().len(), 1000);
        // The positions have two coordinates.
        assert_eq!(dust["points"][7], serde_json::json!([7.0, -0.5, 0.0]));
        assert_eq!((&dust["id"][999], &dust["charge"][7]), (&Value::from(999), &Value::from(0)));
        // Fields of objects of variable size that have one value.
        let said =
            folder.command(&["convert", "tracks", &format!("tracks{ranks}.vtkhdf"), "-n", ranks]).output();
        let said = String::from_utf8(said.unwrap().stderr).unwrap();
        assert!(said.contains("\"objects.points\" is omitted: it has no value for each particle"), "{said}");
        let tracks = particles(&folder, &format!("tracks{ranks}.vtkhdf")).unwrap().remove(0);
        assert_eq!(tracks["points"][699], serde_json::json!([699.0, 0.5, -1.0]));
        assert_eq!(tracks["objects.points.count"][4], 4);
        // Molecules of a checkpoint.
        let name = format!("store{ranks}.vtkhdf");
        folder.succeed(&["convert", "store", &name, "--array", "molecules", "-n", ranks]);
        let molecules = particles(&folder, &name).unwrap().remove(0);
        assert_eq!(molecules["velocity"][5], serde_json::json!([0.5, -1.5, 1e-3]));
        assert_eq!(
            (&molecules["points"][5][1], &molecules["id"][199]),
            (&Value::from(0.5), &Value::from(199))
        );
    }
    assert!(
        folder.exit_2(&["convert", "dust", "a.vtkhdf", "--positions", "charge"]).contains("no field of one")
    );
    assert!(folder.exit_2(&["convert", "dust", "a.h5", "--positions", "position"]).contains(".vtkhdf"));
    assert!(folder.exit_2(&["convert", "dust", "dust1.vtkhdf"]).contains("exists"));
}

#[derive(Object, Clone)]
struct Spark {
    x: f32,
    y: f32,
    z: f32,
    heat: f64,
}

/// Steps of lists of objects, of lists of numbers, and of arrays.
#[test]
fn streams_with_positions_become_particles_over_time() {
    let folder = TestFolder::new();
    let name = folder.path("run").to_str().unwrap().to_owned();
    on_one_rank(|world| {
        let mut streams = Streams::new();
        let sparks = streams.add_objects::<Spark>(Stream::objects("sparks").from(2));
        let list = streams.add::<f32>(Stream::list("list", 3));
        let fixed = streams.add::<f64>(Stream::array("fixed/position", [4, 3]).block([0, 0], [4, 3]));
        let mass = streams.add::<f64>(Stream::array("fixed/mass", [4]).block([0], [4]));
        let mut output = Output::create(world, &name, &streams)?;
        for step in 0..5_u8 {
            let value = f32::from(step);
            let own = vec![Spark { x: value, y: 1.0, z: 2.0, heat: 3.0 }; usize::from(step)];
            let numbers = vec![value; 3 * usize::from(step)];
            let places = vec![f64::from(step); 12];
            let mut next = output.step()?;
            if step >= 2 {
                next = next.put_objects(sparks, &own);
            }
            next.put(list, &numbers).put(fixed, &places).put(mass, &[0.5; 4]).commit()?;
        }
        output.finish().map(drop)
    });
    for ranks in ["1", "3"] {
        let convert = |array: &str, words: &[&str]| {
            let name = format!("{}{ranks}.vtkhdf", array.replace('/', "-"));
            folder.succeed(&[&["convert", "run", &name, "--array", array, "-n", ranks][..], words].concat());
            particles(&folder, &name)
        };
        let Some(sparks) = convert("sparks", &[]) else { return };
        let facts = |steps: &[Value]| -> Vec<(f64, usize)> {
            let count = |step: &Value| step["points"].as_array().unwrap().len();
            steps.iter().map(|step| (step["time"].as_f64().unwrap(), count(step))).collect()
        };
        assert_eq!(facts(&sparks), [(2.0, 2), (3.0, 3), (4.0, 4)]);
        assert_eq!(sparks[1]["points"][2], serde_json::json!([3.0, 1.0, 2.0]));
        assert_eq!(sparks[1]["heat"], serde_json::json!([3.0, 3.0, 3.0]));
        let list = convert("list", &["--positions", "list"]).unwrap();
        assert_eq!(facts(&list), [(0.0, 0), (1.0, 1), (2.0, 2), (3.0, 3), (4.0, 4)]);
        assert_eq!(list[4]["points"][3], serde_json::json!([4.0, 4.0, 4.0]));
        let fixed = convert("fixed", &[]).unwrap();
        assert_eq!(facts(&fixed), [(0.0, 4), (1.0, 4), (2.0, 4), (3.0, 4), (4.0, 4)]);
        assert_eq!(fixed[2]["points"][3], serde_json::json!([2.0, 2.0, 2.0]));
        assert_eq!(fixed[2]["fixed.mass"], serde_json::json!([0.5, 0.5, 0.5, 0.5]));
    }
}

/// Files of each kind that have molecules, and who created an object file.
#[test]
fn molecules_of_each_kind_become_particles() {
    let folder = TestFolder::new();
    write_each_kind(&folder);
    assert!(folder.succeed(&["inspect", "dust"]).contains("written by convert_objects"));
    for name in ["gas.cells", "text.restart.inp", "cells.restart"] {
        folder.succeed(&["convert", name, &format!("{name}.vtkhdf"), "-n", "2"]);
        let Some(steps) = particles(&folder, &format!("{name}.vtkhdf")) else { return };
        assert_eq!((steps.len(), steps[0]["id"].as_array().unwrap().len()), (1, 200), "{name}");
    }
}
