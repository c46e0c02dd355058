//! Files of all kinds for the tests.
#![allow(dead_code, reason = "each test uses some of it")]

use aqueduct::checkpoint::{ArrayBlock, CellGrid, Checkpoint, Molecule, Store, particle_cells};
use aqueduct::comm::{Comm, Launch};
use aqueduct::mardyn::{PhaseSpace, PhaseSpaceFormat};
use aqueduct::netcdf::{NcType, NetcdfCreateOptions};
use aqueduct::object::{Object, ObjectFile};
use aqueduct::stream::{Output, Stream, Streams};

use super::test_folder::TestFolder;

pub(crate) fn on_one_rank<E: std::error::Error + Send + Sync + 'static>(
    work: impl Fn(&Comm) -> Result<(), E> + Sync,
) {
    let work = |world: &Comm| {
        work(world).unwrap();
        Ok::<_, aqueduct::comm::Error>(())
    };
    Launch::threads(1).run(work).unwrap();
}

#[derive(Object, Clone)]
pub(crate) struct Dust {
    id: u16,
    position: [f64; 2],
    charge: i32,
}

pub(crate) fn dust(count: u16) -> Vec<Dust> {
    (0..count).map(|id| Dust { id, position: [f64::from(id), -0.5], charge: 7 - i32::from(id) }).collect()
}

/// Object files of constant and of variable size.
pub(crate) fn write_objects(folder: &TestFolder, name: &str) {
    on_one_rank(|world| {
        let file = ObjectFile::<Dust>::create(world, folder.path(name))?;
        file.at_pointer().all().write(&dust(1000))?;
        file.close()
    });
}

pub(crate) fn write_texts(folder: &TestFolder, name: &str) {
    on_one_rank(|world| {
        let file = ObjectFile::<String>::create(world, folder.path(name))?;
        let texts: Vec<String> = (0..3000).map(|number| format!("text, \"{number}\"")).collect();
        file.at_pointer().all().write(&texts)?;
        file.close()
    });
}

/// Six steps of an array and of a list.
pub(crate) fn write_stream(folder: &TestFolder, name: &str) {
    let name = folder.path(name).to_str().unwrap().to_owned();
    on_one_rank(|world| {
        let mut streams = Streams::new();
        let level = streams.add::<f64>(Stream::array("level", [4, 5]).block([0, 0], [4, 5]));
        let sparks = streams.add::<f32>(Stream::list("sparks", 3));
        let mut output = Output::create(world, &name, &streams)?;
        for step in 0..6_u8 {
            let values: Vec<f64> = (0..20).map(|at| f64::from(at) + f64::from(step) / 8.0).collect();
            let list = vec![f32::from(step); 3 * usize::from(step)];
            output.step()?.put(level, &values).put(sparks, &list).commit()?;
        }
        output.finish().map(drop)
    });
}

pub(crate) fn molecules() -> Vec<Molecule> {
    (0..200).map(|id| Molecule::new(id, [f64::from(id as u32) * 0.02, 0.5, 0.5], [0.5, -1.5, 1e-3])).collect()
}

/// Two generations.
pub(crate) fn write_store(folder: &TestFolder, name: &str) {
    on_one_rank(|world| {
        let mut store = Store::open_or_create(world, folder.path(name))?;
        for step in [10, 20] {
            let mut checkpoint = Checkpoint::new(step);
            checkpoint.value("time", &(step as f64));
            let (molecules, field) = (molecules(), vec![0.25; 600]);
            let grid = CellGrid::new([4.0, 1.0, 1.0], [4, 1, 1]).unwrap();
            checkpoint.cells("molecules", &grid, &molecules);
            checkpoint.array("field", &ArrayBlock::new([20, 30], [0, 0], [20, 30]), &field);
            checkpoint.objects("names", &["one".to_owned(), "another".to_owned()]);
            store.write(&checkpoint)?;
        }
        Ok::<_, aqueduct::checkpoint::Error>(())
    });
}

/// A file of each kind; their names.
pub(crate) fn write_each_kind(folder: &TestFolder) -> Vec<String> {
    write_stream(folder, "run");
    write_objects(folder, "dust");
    write_texts(folder, "texts");
    write_store(folder, "store");
    let grid = CellGrid::new([4.0, 1.0, 1.0], [4, 1, 1]).unwrap();
    let cells = folder.path("gas.cells");
    on_one_rank(|world| particle_cells::write(world, cells.to_str().unwrap(), &grid, &molecules()));
    let formats = [
        (PhaseSpaceFormat::OldStyle, "text", "text.restart.inp"),
        (PhaseSpaceFormat::Binary, "binary", "binary.restart.header.xml"),
        (PhaseSpaceFormat::MpiIo, "cells", "cells.restart"),
        (PhaseSpaceFormat::PnetCdf, "net", "net.restart"),
    ];
    let mut names: Vec<String> = ["run", "dust", "texts", "store", "gas.cells"].map(str::to_owned).to_vec();
    for (format, prefix, name) in formats {
        let files = format.files(folder.path(prefix).to_str().unwrap());
        let space = PhaseSpace::new([4.0, 1.0, 1.0], Vec::new());
        on_one_rank(|world| format.write(world, &files, &space, &grid, &molecules()));
        names.push(name.to_owned());
    }
    write_grid(folder, "grid.nc");
    names.push("grid.nc".to_owned());
    if cfg!(feature = "hdf5") {
        folder.succeed(&["convert", "grid.nc", "grid.h5"]);
        names.push("grid.h5".to_owned());
    }
    names
}

/// Three records of 2 × 4 values with a fill value, packed integers, and text.
pub(crate) fn write_grid(folder: &TestFolder, name: &str) {
    on_one_rank(|world| {
        let mut file = NetcdfCreateOptions::new().create(world, folder.path(name))?;
        let (field, packed, word) = file.define(|file| {
            let (time, y, x) = (file.unlimited("time")?, file.dimension("y", 2)?, file.dimension("x", 4)?);
            let (n, width) = (file.dimension("n", 5)?, file.dimension("width", 4)?);
            let field = file.variable("field", NcType::Double, &[time, y, x])?;
            file.attribute_of(field, "units", "K")?;
            file.attribute_of(field, "_FillValue", vec![-1.0f64])?;
            let packed = file.variable("packed", NcType::Short, &[n])?;
            file.attribute_of(packed, "scale_factor", vec![0.5f64])?;
            file.attribute_of(packed, "add_offset", vec![100.0f64])?;
            file.attribute("title", "a grid")?;
            Ok((field, packed, file.variable("word", NcType::Char, &[y, width])?))
        })?;
        for step in 0..3 {
            let mut values: Vec<f64> = (0..8).map(|at| f64::from(at + 1) + step as f64).collect();
            values[2] = if step == 1 { -1.0 } else { values[2] };
            file.at(field, [step..step + 1, 0..2, 0..4]).all().write(&values)?;
        }
        file.at(packed, 0..5).all().write(&[-2i16, -1, 0, 1, 2])?;
        file.at(word, [0..2, 0..4]).all().write(b"one\0two\0")?;
        file.close()
    });
}

/// Arrays of several parts: 9000 × 200 values, and the same as 2 × 900 000; every 300 000th value is spoiled, except the first.
pub(crate) fn write_large(folder: &TestFolder, name: &str, spoil: f64) {
    const COUNT: u32 = 1_800_000;
    let spoiled = |at: u32| if at.is_multiple_of(300_000) && at > 0 || at == COUNT - 1 { spoil } else { 0.0 };
    let values: Vec<f64> = (0..COUNT).map(|at| f64::from(at) + spoiled(at)).collect();
    on_one_rank(|world| {
        let mut file = NetcdfCreateOptions::new().create(world, folder.path(name))?;
        let [steps, wide] = file.define(|file| {
            let (time, x) = (file.unlimited("time")?, file.dimension("x", 200)?);
            let (two, many) = (file.dimension("two", 2)?, file.dimension("many", 900_000)?);
            let steps = file.variable("steps", NcType::Double, &[time, x])?;
            Ok([steps, file.variable("wide", NcType::Double, &[two, many])?])
        })?;
        file.at(steps, [0..9000, 0..200]).all().write(&values)?;
        file.at(wide, [0..2, 0..900_000]).all().write(&values)?;
        file.close()
    });
}
