//! `aqueduct inspect`, `dump`, `verify`, `compare`, `convert` on all formats.

mod folder;

use std::path::Path;

use aqueduct::comm::{Comm, Launch};
use aqueduct::netcdf::{NcType, NetcdfCreateOptions};
use aqueduct::object::{Object, ObjectFile};
use aqueduct::stream::target::ObjectTarget;
use aqueduct::stream::{Options, Stream, Streams};

use folder::Folder;

/// Three steps of a field of 2 × 4, and five places.
fn sample(path: &Path, spoil: f64) {
    let write = |world: &Comm| {
        let mut file = NetcdfCreateOptions::new().create(world, path)?;
        let (field, places) = file.define(|file| {
            let (time, y, x) = (file.unlimited("time")?, file.dimension("y", 2)?, file.dimension("x", 4)?);
            let n = file.dimension("n", 5)?;
            let field = file.variable("field", NcType::Double, &[time, y, x])?;
            file.attribute_of(field, "units", "K")?;
            Ok((field, file.variable("places", NcType::Int, &[n])?))
        })?;
        for step in 0..3 {
            let mut values: Vec<f64> = (0..8).map(|at| f64::from(at + 1) + step as f64).collect();
            if step == 1 {
                values[5] += spoil;
            }
            file.at(field, [step..step + 1, 0..2, 0..4]).all().write(&values)?;
        }
        file.at(places, 0..5).all().write(&[5, 4, 3, 2, 1])?;
        file.close()
    };
    Launch::threads(1).run(write).unwrap();
}

#[test]
fn netcdf_is_inspected_dumped_and_verified() {
    let folder = Folder::new();
    sample(&folder.path("a.nc"), 0.0);
    let told = folder.said(&["inspect", "a.nc"]);
    for part in [
        "CDF-5",
        "field f64 3 (time) × 2 (y) × 4 (x), grows, 3 complete",
        "places i32 5 (n)",
        "field@units = K",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let dumped = folder.said(&["dump", "a.nc", "--array", "field", "--from", "1", "--rows", "1"]);
    assert_eq!(dumped, "# field f64\n2 3 4 5 6 7 8 9\n");
    assert_eq!(folder.said(&["verify", "a.nc"]), "a.nc: whole\n");
    let bytes = std::fs::read(folder.path("a.nc")).unwrap();
    std::fs::write(folder.path("cut.nc"), &bytes[..bytes.len() - 8]).unwrap();
    let told = folder.denied(&["verify", "a.nc", "cut.nc"]);
    assert!(
        told.contains("a.nc: whole") && told.contains("cut.nc: damaged: field") && told.contains("cut off"),
        "{told}"
    );
    let told = folder.refused(&["dump", "a.nc", "--array", "nothing"]);
    assert!(told.contains("\"nothing\""), "{told}");
}

#[test]
fn differences_are_measured_step_by_step() {
    let folder = Folder::new();
    sample(&folder.path("a.nc"), 0.0);
    sample(&folder.path("b.nc"), 0.001);
    assert!(folder.said(&["compare", "a.nc", "a.nc"]).contains("no differences"));
    let told = folder.denied(&["compare", "a.nc", "b.nc", "--steps"]);
    assert!(
        told.contains("field 0: 0e0 0e0")
            && told.contains("field: 1 of 24 values differ, 1 above the tolerance; largest difference 1.0")
            && told.contains(" at [1, 1, 1]: 7.0 and 7.001; in 3 steps Frobenius")
            && told.contains("1 arrays differ, 0 differences of metadata"),
        "{told}"
    );
    // The Frobenius norm of 2 … 9 is √284, the greatest sum of a row 30.
    let line = told.lines().find(|line| line.starts_with("field 1: ")).unwrap();
    let errors: Vec<f64> = line["field 1: ".len()..].split(' ').map(|error| error.parse().unwrap()).collect();
    assert!((errors[0] / (0.001 / 284f64.sqrt()) - 1.0).abs() < 1e-3, "{line}");
    assert!((errors[1] / (0.001 / 30.0) - 1.0).abs() < 1e-3, "{line}");
    assert!(
        folder.said(&["compare", "a.nc", "b.nc", "--threshold", "1e-3"]).contains("0 above the tolerance")
    );
    assert!(folder.said(&["compare", "a.nc", "b.nc", "--array", "places"]).contains("no differences"));
}

#[test]
fn arrays_go_from_format_to_format() {
    let folder = Folder::new();
    sample(&folder.path("a.nc"), 0.0);
    let told = folder.refused(&["convert", "a.nc", "a.raw"]);
    assert!(told.contains("--array") && !folder.path("a.raw").exists(), "{told}");
    folder.said(&["convert", "a.nc", "field.raw", "--array", "field"]);
    let raw = ["--raw", "f64", "--shape", "3,2,4"];
    assert_eq!(std::fs::metadata(folder.path("field.raw")).unwrap().len(), 3 * 8 * 8);
    let words = [&["compare", "a.nc", "field.raw", "--array", "field"], &raw[..]].concat();
    assert!(folder.said(&words).contains("field: 24 values, all the same"));
    folder.said(&["convert", "a.nc", "places.obj", "--array", "places"]);
    assert_eq!(folder.said(&["dump", "places.obj"]), "# objects i32\n5\n4\n3\n2\n1\n");
    assert!(folder.said(&["verify", "places.obj"]).contains("whole"));
    folder.said(&["convert", "places.obj", "places.nc"]);
    assert_eq!(folder.said(&["dump", "places.nc"]), "# objects i32\n5\n4\n3\n2\n1\n");
    // What is there is not overwritten.
    let told = folder.refused(&["convert", "places.obj", "places.nc"]);
    assert!(told.contains("exists"), "{told}");
}

#[derive(Object, Clone)]
struct Particle {
    id: u16,
    position: [f64; 2],
}

#[test]
fn object_files_say_what_they_hold_and_damage_is_found() {
    let folder = Folder::new();
    let path = folder.path("particles");
    let write = |world: &Comm| {
        let file = ObjectFile::<Particle>::create(world, &path)?;
        let some: Vec<Particle> = (0..3).map(|id| Particle { id, position: [f64::from(id), 0.5] }).collect();
        file.at_pointer().all().write(&some)?;
        file.close()
    };
    Launch::threads(1).run(write).unwrap();
    assert!(folder.said(&["inspect", "particles"]).contains("objects Particle 3, grows, 3 complete"));
    let dumped = folder.said(&["dump", "particles", "--from", "1"]);
    let expected = "# objects Particle\nParticle { id: 1, position: [1.0, 0.5] }\nParticle { id: 2, position: [2.0, 0.5] }\n";
    assert_eq!(dumped, expected);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(folder.denied(&["verify", "particles"]).contains("checksum"));
}

#[derive(Object, Clone)]
struct Spark {
    at: [f32; 2],
    colour: Option<String>,
}

#[test]
fn streams_of_objects_are_dumped_as_objects() {
    let folder = Folder::new();
    let name = folder.path("fire").to_string_lossy().into_owned();
    let write = |world: &Comm| {
        let mut streams = Streams::new();
        let sparks = streams.add_objects::<Spark>(Stream::objects("sparks"));
        let mut output = Options::new().create_on(world, &name, &streams, |comm, declared| {
            Ok(Box::new(ObjectTarget::create(comm, &name, declared)?))
        })?;
        for step in 0..3_u8 {
            let colour = (step == 2).then(|| "red \"hot\"".to_owned());
            let spark = Spark { at: [f32::from(step), 0.5], colour };
            output.step()?.put_objects(sparks, &vec![spark; usize::from(step)]).commit()?;
        }
        output.finish()
    };
    Launch::threads(1).run(write).unwrap();
    let dumped = folder.said(&["dump", "fire.sparks"]);
    let expected = "# objects Spark\nSpark { at: [1.0, 0.5], colour: None }\n";
    let last = "Spark { at: [2.0, 0.5], colour: Some(\"red \\\"hot\\\"\") }\n";
    assert_eq!(dumped, [expected, last, last].concat());
    assert_eq!(folder.said(&["dump", "fire.sparks", "--from", "1", "--rows", "1"]).lines().count(), 2);
    let told = folder.said(&["dump", "fire"]);
    let deposit = "Deposit { of: Step, step: 2, stream: 0, first: 1, count: 2, samples: 1 }";
    assert!(told.starts_with("# objects Deposit\n") && told.contains(deposit), "{told}");
    assert!(folder.said(&["inspect", "fire.sparks"]).contains("Spark{at:[f32;2],colour:text?}"));
}

#[cfg(feature = "hdf5")]
#[test]
fn hdf5_takes_part() {
    let folder = Folder::new();
    sample(&folder.path("a.nc"), 0.0);
    sample(&folder.path("b.nc"), 0.001);
    folder.said(&["convert", "a.nc", "a.h5"]);
    let told = folder.said(&["inspect", "a.h5"]);
    for part in
        ["HDF5, complete", "/field f64 3 (time) × 2 (y) × 4 (x), grows, 3 complete", "/field@units = K"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(folder.said(&["compare", "a.nc", "a.h5"]).contains("no differences"));
    assert!(folder.denied(&["compare", "b.nc", "a.h5"]).contains("1 arrays differ"));
    assert_eq!(folder.said(&["verify", "a.h5"]), "a.h5: whole\n");
    folder.said(&["convert", "a.h5", "again.nc"]);
    assert!(folder.said(&["compare", "again.nc", "a.nc"]).contains("no differences"));
    // Groups are walked.
    let write = |world: &Comm| {
        let mut file = aqueduct::hdf5::Hdf5CreateOptions::new().create(world, folder.path("deep.h5"))?;
        let ids = file.define(|file| {
            Ok([
                file.dataset::<Particle>("/g/inner/p", &[2])?,
                file.dataset::<f32>("/g/x", &[3])?,
                file.dataset::<u8>("/h", &[])?,
            ])
        })?;
        let some = vec![Particle { id: 7, position: [1.0, 2.0] }; 2];
        file.at(ids[0], 0..2).all().write(&some)?;
        file.at(ids[1], 0..3).all().write(&[1f32, 2.0, 3.0])?;
        file.commit()
    };
    Launch::threads(1).run(write).unwrap();
    assert_eq!(
        folder.said(&["dump", "deep.h5", "--array", "g"]),
        "# /g/inner/p {id: u16, position: [f64; 2]}\n7 1 2\n7 1 2\n# /g/x f32\n1\n2\n3\n"
    );
    assert!(folder.said(&["compare", "deep.h5", "deep.h5", "--array", "/g"]).contains("no differences"));
    // It was not closed, and one dataset was never written.
    let told = folder.denied(&["verify", "deep.h5"]);
    assert!(told.contains("not closed") && told.contains("/h: 0 of 1 rows"), "{told}");
}

/// Files of h5py in which not all was written, and text of any length.
#[cfg(feature = "hdf5")]
#[test]
fn hdf5_of_others_is_verified_though_little_was_written() {
    const MAKE: &str = "
import sys, h5py
with h5py.File(sys.argv[1], 'w') as file:
    file.create_dataset('none', (2, 3), '<i4', fillvalue=7)
    file.create_dataset('huge', (10**15,), '<f8')
    file.create_dataset('part', (5,), '<f8', chunks=(2,), fillvalue=-1.5)[3] = 0.5
    file.create_dataset('text', data=['a b', '', sys.argv[2]], dtype=h5py.string_dtype())
";
    let Some(python) = aqueduct_testkit::external_tools::python("h5py") else { return };
    let folder = Folder::new();
    for (name, last) in [("a.h5", "c"), ("b.h5", "d")] {
        let mut make = std::process::Command::new(&python);
        let made = make.args(["-c", MAKE]).arg(folder.path(name)).arg(last).status();
        assert!(made.unwrap().success());
    }
    assert_eq!(folder.said(&["verify", "a.h5"]), "a.h5: whole\n");
    assert_eq!(folder.said(&["dump", "a.h5", "--array", "none"]), "# /none i32\n7 7 7\n7 7 7\n");
    assert_eq!(
        folder.said(&["dump", "a.h5", "--array", "part"]),
        "# /part f64\n-1.5\n-1.5\n-1.5\n0.5\n-1.5\n"
    );
    let text = folder.said(&["dump", "a.h5", "--array", "text"]);
    assert_eq!(text, "# /text text of any length\n\"a b\"\n\"\"\n\"c\"\n");
    assert!(folder.said(&["compare", "a.h5", "a.h5", "--array", "text"]).contains("no differences"));
    assert!(folder.denied(&["compare", "a.h5", "b.h5", "--array", "text"]).contains("1 arrays differ"));
}
