//! Every command of the guide is run.

mod test_folder;

use std::process::Command;

use aqueduct::checkpoint::{Checkpoint, Store};
use aqueduct::comm::{Comm, Launch};
use aqueduct::netcdf::{NcType, NetcdfCreateOptions};
use aqueduct::object::{Object, ObjectFile};
use aqueduct::stream::{Output, Stream, Streams};

use test_folder::TestFolder;

const GUIDE: &str = include_str!("../../../docs/guide-inspect.md");
/// The comment of a command with another exit status than 0.
const STATUS_1: &str = "# exit status 1";

#[derive(Object, Clone)]
struct Particle {
    id: u64,
    position: [f64; 2],
}

fn write_netcdf(world: &Comm, folder: &TestFolder, name: &str, offset: f64) -> anyhow::Result<()> {
    let mut file = NetcdfCreateOptions::new().create(world, folder.path(name))?;
    let [t, x] = file.define(|file| {
        let (time, y, x) = (file.unlimited("time")?, file.dimension("y", 2)?, file.dimension("x", 4)?);
        Ok([file.variable("t", NcType::Double, &[time, y, x])?, file.variable("x", NcType::Double, &[x])?])
    })?;
    file.at(x, 0..4).all().write(&[0.0, 0.5, 1.0, 1.5])?;
    let values: Vec<f64> = (0..24).map(|at| f64::from(at) + offset).collect();
    file.at(t, [0..3, 0..2, 0..4]).all().write(&values)?;
    Ok(file.close()?)
}

/// The files that the guide names.
fn write_files(world: &Comm, folder: &TestFolder) -> anyhow::Result<()> {
    write_netcdf(world, folder, "run.nc", 0.0)?;
    write_netcdf(world, folder, "other.nc", 1e-4)?;
    let file = ObjectFile::<Particle>::create(world, folder.path("particles"))?;
    let some: Vec<Particle> = (0..9).map(|id| Particle { id, position: [0.5, 1.0] }).collect();
    file.at_pointer().all().write(&some)?;
    file.close()?;
    let mut streams = Streams::new();
    let pressure = streams.add::<f64>(Stream::array("pressure", [4]).block([0], [4]));
    let mut output = Output::create(world, &folder.path("run.stream").to_string_lossy(), &streams)?;
    for step in 0..5_u32 {
        output.step()?.put(pressure, &[f64::from(step); 4]).commit()?;
    }
    output.finish()?;
    let mut checkpoint = Checkpoint::new(7);
    checkpoint.value("time", &0.25);
    Store::open_or_create(world, folder.path("checkpoints"))?.write(&checkpoint)?;
    let bytes: Vec<u8> = (0..24).flat_map(|at| f64::from(at).to_le_bytes()).collect();
    Ok(std::fs::write(folder.path("numbers.bin"), bytes)?)
}

/// The commands in the blocks of the shell.
fn commands() -> Vec<&'static str> {
    let (mut is_shell, mut found) = (false, Vec::new());
    for line in GUIDE.lines() {
        match line {
            "```sh" => is_shell = true,
            "```" => is_shell = false,
            line if is_shell && !line.is_empty() => found.push(line),
            _ => {}
        }
    }
    found
}

#[cfg(feature = "hdf5")]
#[test]
fn every_command_of_the_guide_works() {
    let folder = TestFolder::new();
    let written =
        Launch::threads(1).run(|world| write_files(world, &folder).map_err(|error| format!("{error:#}")));
    written.unwrap();
    folder.succeed(&["convert", "run.nc", "run.h5"]);
    let commands = commands();
    assert!(commands.len() > 25, "{}", commands.len());
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_aqueduct")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    for line in commands {
        assert!(line.starts_with("aqueduct "), "{line}");
        let mut command = Command::new("bash");
        let output =
            command.args(["-c", line]).env("PATH", &path).current_dir(folder.path("")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let expected = i32::from(line.contains(STATUS_1));
        assert_eq!(output.status.code(), Some(expected), "{line}: {said}");
    }
    assert!(folder.path("t.npy").exists() && folder.path("run.json").exists());
}
