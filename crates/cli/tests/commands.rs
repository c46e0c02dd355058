//! `aqueduct inspect`, `dump`, `verify`, `compare` and `convert` on all formats.

mod test_folder;

use std::path::Path;

use aqueduct::comm::{Comm, Launch};
use aqueduct::netcdf::{NcType, NetcdfCreateOptions};
use aqueduct::object::{Object, ObjectFile};
use aqueduct::stream::target::ObjectTarget;
use aqueduct::stream::{Hyperslab, Options, Output, Reduction, Stream, Streams};

use test_folder::TestFolder;

/// Writes three steps of a field of 2 × 4 values, and an array of five integers.
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
    let folder = TestFolder::new();
    sample(&folder.path("a.nc"), 0.0);
    let message = folder.succeed(&["inspect", "a.nc"]);
    for part in [
        "CDF-5",
        "field f64 3 (time) × 2 (y) × 4 (x), grows, 3 complete",
        "places i32 5 (n)",
        "field@units = K",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let dumped = folder.succeed(&["dump", "a.nc", "--array", "field", "--from", "1", "--rows", "1"]);
    assert_eq!(dumped, "# field f64\n2 3 4 5 6 7 8 9\n");
    assert_eq!(folder.succeed(&["verify", "a.nc"]), "a.nc: whole\n");
    let bytes = std::fs::read(folder.path("a.nc")).unwrap();
    std::fs::write(folder.path("cut.nc"), &bytes[..bytes.len() - 8]).unwrap();
    let message = folder.exit_1(&["verify", "a.nc", "cut.nc"]);
    assert!(
        message.contains("a.nc: whole")
            && message.contains("cut.nc: damaged: field")
            && message.contains("cut off"),
        "{message}"
    );
    let message = folder.exit_2(&["dump", "a.nc", "--array", "nothing"]);
    assert!(message.contains("\"nothing\""), "{message}");
}

#[test]
fn differences_are_measured_step_by_step() {
    let folder = TestFolder::new();
    sample(&folder.path("a.nc"), 0.0);
    sample(&folder.path("b.nc"), 0.001);
    assert!(folder.succeed(&["compare", "a.nc", "a.nc"]).contains("no differences"));
    let message = folder.exit_1(&["compare", "a.nc", "b.nc", "--steps"]);
    assert!(
        message.contains("field 0: 0e0 0e0")
            && message
                .contains("field: 1 of 24 values differ, 1 above the tolerance; largest difference 1.0")
            && message.contains(" at [1, 1, 1]: 7.0 and 7.001; in 3 steps Frobenius")
            && message.contains("1 arrays differ, 0 differences of metadata"),
        "{message}"
    );
    // The Frobenius norm of 2 … 9 is √284, the greatest sum of a row 30.
    let line = message.lines().find(|line| line.starts_with("field 1: ")).unwrap();
    let errors: Vec<f64> = line["field 1: ".len()..].split(' ').map(|error| error.parse().unwrap()).collect();
    assert!((errors[0] / (0.001 / 284f64.sqrt()) - 1.0).abs() < 1e-3, "{line}");
    assert!((errors[1] / (0.001 / 30.0) - 1.0).abs() < 1e-3, "{line}");
    assert!(
        folder.succeed(&["compare", "a.nc", "b.nc", "--threshold", "1e-3"]).contains("0 above the tolerance")
    );
    assert!(folder.succeed(&["compare", "a.nc", "b.nc", "--array", "places"]).contains("no differences"));
    // Another dimension as that of the steps: the difference at [1, 1, 1] is in step 1 of its two or four.
    let message =
        folder.exit_1(&["compare", "a.nc", "b.nc", "--array", "field", "--time", "1", "--first", "3"]);
    assert!(
        message.contains("in 2 steps Frobenius") && message.contains("above the threshold in 1 of 2 steps"),
        "{message}"
    );
    assert!(message.contains("field [1, 1, 1]: 7.0 and 7.001"), "{message}");
    let message = folder.exit_1(&["compare", "a.nc", "b.nc", "--threshold", "1e-9"]);
    assert!(
        message.contains("total of ")
            && message.contains("1 above the tolerance; above the threshold in 1 of"),
        "{message}"
    );
    assert!(
        folder.exit_2(&["compare", "a.nc", "b.nc", "--array", "field", "--time", "7"]).contains("--time 7")
    );
}

#[test]
fn arrays_are_converted_between_formats() {
    let folder = TestFolder::new();
    sample(&folder.path("a.nc"), 0.0);
    let message = folder.exit_2(&["convert", "a.nc", "a.raw"]);
    assert!(message.contains("--array") && !folder.path("a.raw").exists(), "{message}");
    folder.succeed(&["convert", "a.nc", "field.raw", "--array", "field"]);
    let raw = ["--raw", "f64", "--shape", "3,2,4"];
    assert_eq!(std::fs::metadata(folder.path("field.raw")).unwrap().len(), 3 * 8 * 8);
    let words = [&["compare", "a.nc", "field.raw", "--array", "field"], &raw[..]].concat();
    assert!(folder.succeed(&words).contains("field: 24 values, all equal"));
    folder.succeed(&["convert", "a.nc", "places.obj", "--array", "places"]);
    assert_eq!(folder.succeed(&["dump", "places.obj"]), "# objects i32\n5\n4\n3\n2\n1\n");
    assert!(folder.succeed(&["verify", "places.obj"]).contains("whole"));
    folder.succeed(&["convert", "places.obj", "places.nc"]);
    assert_eq!(folder.succeed(&["dump", "places.nc"]), "# objects i32\n5\n4\n3\n2\n1\n");
    // An existing file is not overwritten.
    let message = folder.exit_2(&["convert", "places.obj", "places.nc"]);
    assert!(message.contains("exists"), "{message}");
}

#[derive(Object, Clone)]
struct Particle {
    id: u16,
    position: [f64; 2],
}

#[test]
fn object_files_are_inspected_and_dumped_and_damage_is_detected() {
    let folder = TestFolder::new();
    let path = folder.path("particles");
    let write = |world: &Comm| {
        let file = ObjectFile::<Particle>::create(world, &path)?;
        let some: Vec<Particle> = (0..3).map(|id| Particle { id, position: [f64::from(id), 0.5] }).collect();
        file.at_pointer().all().write(&some)?;
        file.close()
    };
    Launch::threads(1).run(write).unwrap();
    assert!(folder.succeed(&["inspect", "particles"]).contains("objects Particle 3, grows, 3 complete"));
    let dumped = folder.succeed(&["dump", "particles", "--from", "1"]);
    let expected = "# objects Particle\nParticle { id: 1, position: [1.0, 0.5] }\nParticle { id: 2, position: [2.0, 0.5] }\n";
    assert_eq!(dumped, expected);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(folder.exit_1(&["verify", "particles"]).contains("checksum"));
}

#[derive(Object, Clone)]
struct Spark {
    at: [f32; 2],
    colour: Option<String>,
}

#[test]
fn streams_of_objects_are_dumped_as_objects() {
    let folder = TestFolder::new();
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
    let dumped = folder.succeed(&["dump", "fire.sparks"]);
    let expected = "# objects Spark\nSpark { at: [1.0, 0.5], colour: None }\n";
    let last = "Spark { at: [2.0, 0.5], colour: Some(\"red \\\"hot\\\"\") }\n";
    assert_eq!(dumped, [expected, last, last].concat());
    assert_eq!(folder.succeed(&["dump", "fire.sparks", "--from", "1", "--rows", "1"]).lines().count(), 2);
    let message = folder.succeed(&["dump", "fire"]);
    let deposit = "Deposit { of: Step, step: 2, stream: 0, first: 1, count: 2, samples: 1 }";
    assert!(message.starts_with("# objects Deposit\n") && message.contains(deposit), "{message}");
    assert!(folder.succeed(&["inspect", "fire.sparks"]).contains("Spark{at:[f32;2],colour:text?}"));
}

#[cfg(feature = "hdf5")]
#[test]
fn hdf5_files_are_inspected_dumped_verified_compared_and_converted() {
    let folder = TestFolder::new();
    sample(&folder.path("a.nc"), 0.0);
    sample(&folder.path("b.nc"), 0.001);
    folder.succeed(&["convert", "a.nc", "a.h5"]);
    let message = folder.succeed(&["inspect", "a.h5"]);
    for part in
        ["HDF5, complete", "/field f64 3 (time) × 2 (y) × 4 (x), grows, 3 complete", "/field@units = K"]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(folder.succeed(&["compare", "a.nc", "a.h5"]).contains("no differences"));
    assert!(folder.exit_1(&["compare", "b.nc", "a.h5"]).contains("1 arrays differ"));
    assert_eq!(folder.succeed(&["verify", "a.h5"]), "a.h5: whole\n");
    folder.succeed(&["convert", "a.h5", "again.nc"]);
    assert!(folder.succeed(&["compare", "again.nc", "a.nc"]).contains("no differences"));
    // Arrays in nested groups.
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
        folder.succeed(&["dump", "deep.h5", "--array", "g"]),
        "# /g/inner/p {id: u16, position: [f64; 2]}\n7 1 2\n7 1 2\n# /g/x f32\n1\n2\n3\n"
    );
    assert!(folder.succeed(&["compare", "deep.h5", "deep.h5", "--array", "/g"]).contains("no differences"));
    // The file was not closed, and one dataset was never written.
    let message = folder.exit_1(&["verify", "deep.h5"]);
    assert!(
        message.contains("incomplete: the file is being written") && message.contains("/h: 0 of 1 rows"),
        "{message}"
    );
}

/// Files of h5py with unwritten data and variable-length strings.
#[cfg(feature = "hdf5")]
#[test]
fn hdf5_files_with_unwritten_data_are_verified() {
    const MAKE: &str = "
import sys, h5py
with h5py.File(sys.argv[1], 'w') as file:
    file.create_dataset('none', (2, 3), '<i4', fillvalue=7)
    file.create_dataset('huge', (10**15,), '<f8')
    file.create_dataset('part', (5,), '<f8', chunks=(2,), fillvalue=-1.5)[3] = 0.5
    file.create_dataset('text', data=['a b', '', sys.argv[2]], dtype=h5py.string_dtype())
";
    let Some(python) = aqueduct_testkit::external_tools::python("h5py") else { return };
    let folder = TestFolder::new();
    for (name, last) in [("a.h5", "c"), ("b.h5", "d")] {
        let mut make = std::process::Command::new(&python);
        let made = make.args(["-c", MAKE]).arg(folder.path(name)).arg(last).status();
        assert!(made.unwrap().success());
    }
    assert_eq!(folder.succeed(&["verify", "a.h5"]), "a.h5: whole\n");
    assert_eq!(folder.succeed(&["dump", "a.h5", "--array", "none"]), "# /none i32\n7 7 7\n7 7 7\n");
    assert_eq!(
        folder.succeed(&["dump", "a.h5", "--array", "part"]),
        "# /part f64\n-1.5\n-1.5\n-1.5\n0.5\n-1.5\n"
    );
    let text = folder.succeed(&["dump", "a.h5", "--array", "text"]);
    assert_eq!(text, "# /text text of any length\n\"a b\"\n\"\"\n\"c\"\n");
    assert!(folder.succeed(&["compare", "a.h5", "a.h5", "--array", "text"]).contains("no differences"));
    assert!(folder.exit_1(&["compare", "a.h5", "b.h5", "--array", "text"]).contains("1 arrays differ"));
}

/// Streams of cuboids, points, reductions, and objects of constant and variable size.
#[test]
fn streams_of_every_kind_are_read() {
    #[derive(Object, Clone)]
    struct Flash {
        id: u32,
        at: [f64; 2],
    }
    let folder = TestFolder::new();
    let name = folder.path("mixed").to_str().unwrap().to_owned();
    let write = |world: &Comm| {
        let mut streams = Streams::new();
        let array = |name: &str| Stream::array(name, [4, 5]).block([0, 0], [4, 5]);
        let one = streams.add::<f64>(array("one").cuboids([Hyperslab::new([1, 2], [2, 2])]));
        let two = streams.add::<i16>(
            array("two").cuboids([Hyperslab::new([0, 0], [1, 2]), Hyperslab::new([3, 3], [1, 1])]),
        );
        let most = streams.add::<f64>(array("most").reduce(Reduction::Max));
        let rare = streams.add::<u8>(array("rare").every(2));
        let sparks = streams.add_objects::<Flash>(Stream::objects("sparks"));
        let words = streams.add_objects::<String>(Stream::objects("words"));
        let mut output = Output::create(world, &name, &streams)?;
        for step in 0..4_u8 {
            let values: Vec<f64> = (0..20).map(|at| f64::from(at) + 100.0 * f64::from(step)).collect();
            let whole: Vec<i16> = (0..20).map(|at| at + 100 * i16::from(step)).collect();
            let bytes = vec![step; 20];
            let spark = vec![Flash { id: u32::from(step), at: [0.5; 2] }; usize::from(step)];
            let word = vec!["word".to_owned(); usize::from(step % 2)];
            let handed =
                output.step()?.put(one, &values).put(two, &whole).put(most, &values).put(rare, &bytes);
            handed.put_objects(sparks, &spark).put_objects(words, &word).commit()?;
        }
        output.finish()
    };
    Launch::threads(1).run(write).unwrap();
    let message = folder.succeed(&["inspect", "mixed"]);
    for part in [
        "one f64 4 × 2 × 2, grows",
        "two i16 4 × 3, grows",
        "most f64 1 × 4 × 5, grows",
        "rare u8 2 × 4 × 5, grows",
        "sparks Flash 6, grows",
        "words u8 ",
        "most@reduction = max",
        "rare@every = 2",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let dumped = |array: &str| folder.succeed(&["dump", "mixed", "--array", array]);
    assert_eq!(dumped("one"), "# one f64\n7 8 12 13\n107 108 112 113\n207 208 212 213\n307 308 312 313\n");
    assert_eq!(dumped("two"), "# two i16\n0 1 18\n100 101 118\n200 201 218\n300 301 318\n");
    assert_eq!(
        dumped("sparks"),
        "# sparks Flash\n1 0.5 0.5\n2 0.5 0.5\n2 0.5 0.5\n3 0.5 0.5\n3 0.5 0.5\n3 0.5 0.5\n"
    );
    assert!(dumped("most").contains("\n300 301 302 "), "{}", dumped("most"));
    assert_eq!(
        folder.succeed(&["dump", "mixed", "--array", "rare", "--rows", "1", "--from", "1"]),
        format!("# rare u8\n{}2\n", "2 ".repeat(19))
    );
    assert!(folder.succeed(&["compare", "mixed", "mixed"]).ends_with("no differences\n"));
    assert_eq!(folder.succeed(&["verify", "mixed"]), "mixed: whole\n");
    if cfg!(feature = "hdf5") {
        folder.succeed(&["convert", "mixed", "mixed.h5"]);
        assert!(folder.succeed(&["compare", "mixed", "mixed.h5"]).ends_with("no differences\n"));
    }
}

#[test]
fn files_in_the_memory_of_the_node_are_listed_and_removed() {
    use aqueduct::device::{Device, DeviceOpenOptions, HandleExt, NodeMemFs};
    let folder = TestFolder::new();
    let (name, other) =
        (format!("test-cli-{}", std::process::id()), format!("test-cli-{}-missing", std::process::id()));
    let file =
        NodeMemFs::new(None).open(name.as_ref(), &DeviceOpenOptions::read_write().create(true)).unwrap();
    file.write_at(0, &[1; 5000]).unwrap();
    let listed = folder.succeed(&["memfs", "ls"]);
    let line = listed.lines().find(|line| line.ends_with(&name)).expect("the file is listed");
    assert_eq!(line.split_whitespace().take(3).collect::<Vec<_>>(), ["5000", "8KiB", "open"]);
    assert!(folder.fail(&["memfs", "rm", &name]).contains("in use"));
    drop(file);
    assert!(folder.fail(&["memfs", "rm", &other]).contains("no such file"));
    folder.succeed(&["memfs", "rm", &name]);
    assert!(!folder.succeed(&["memfs", "ls"]).contains(&name));
}
