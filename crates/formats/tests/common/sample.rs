//! A file with variables of all types; `programs/peer.py` and `programs/peer.c` write and read the same.
#![allow(dead_code, reason = "not every test uses all of it")]

use aqueduct_comm::Comm;
use aqueduct_formats::Result;
use aqueduct_formats::netcdf::{
    CdfVersion, NcType, NetcdfCreateOptions, NetcdfFile, NetcdfOpenOptions, NetcdfValue, Selection, Values,
    VariableId,
};

const RECORDS: u64 = 3;
const Y: u64 = 4;
const X: u64 = 7;

pub(crate) fn code(version: CdfVersion) -> &'static str {
    match version {
        CdfVersion::Cdf1 => "1",
        CdfVersion::Cdf2 => "2",
        CdfVersion::Cdf5 => "5",
    }
}

fn kinds(version: CdfVersion) -> impl Iterator<Item = (usize, NcType)> {
    NcType::ALL.into_iter().enumerate().filter(move |(_, kind)| version.has(*kind))
}

/// Values that depend on the position: letters for text, small numbers for others.
fn expected(number: usize, count: u64) -> impl Iterator<Item = u8> {
    let value = move |at| ((at * 3 + number as u64 * 5) % 97) as u8;
    (0..count).map(move |at| if number == 1 { 65 + value(at) % 26 } else { value(at) })
}

/// Calls a function with the type of the values.
macro_rules! typed {
    ($kind:expr, $call:ident($($argument:expr),*)) => {
        match $kind {
            NcType::Byte => $call::<i8>($($argument),*, |value| value as i8),
            NcType::Char | NcType::UByte => $call::<u8>($($argument),*, |value| value),
            NcType::Short => $call::<i16>($($argument),*, i16::from),
            NcType::Int => $call::<i32>($($argument),*, i32::from),
            NcType::Float => $call::<f32>($($argument),*, f32::from),
            NcType::Double => $call::<f64>($($argument),*, f64::from),
            NcType::UShort => $call::<u16>($($argument),*, u16::from),
            NcType::UInt => $call::<u32>($($argument),*, u32::from),
            NcType::Int64 => $call::<i64>($($argument),*, i64::from),
            NcType::UInt64 => $call::<u64>($($argument),*, u64::from),
        }
    };
}

/// Writes the expected values: the fixed variable by columns, the records round-robin over the ranks, the single value by all ranks.
fn write_values<T: NetcdfValue>(
    world: &Comm,
    dataset: &NetcdfFile,
    ids: [VariableId; 3],
    number: usize,
    of: fn(u8) -> T,
) -> Result<()> {
    let (rank, ranks) = (world.rank() as u64, world.size() as u64);
    let all: Vec<T> = expected(number, Y * X).map(of).collect();
    let columns: Vec<u64> = (0..X).filter(|x| x % ranks == rank).collect();
    let mine: Vec<T> =
        (0..Y).flat_map(|y| columns.iter().map(move |x| y * X + x)).map(|at| all[at as usize]).collect();
    let slab = Selection::block([0, rank], [Y, columns.len() as u64]).stride([1, ranks]);
    dataset.at(ids[0], slab).all().write(&mine)?;
    let all: Vec<T> = expected(number, RECORDS * X).map(of).collect();
    for record in 0..RECORDS {
        let whole = &all[(record * X) as usize..((record + 1) * X) as usize];
        if record % ranks == rank {
            dataset.at(ids[1], Selection::record(record)).write(whole)?;
        }
    }
    let one: Vec<T> = expected(number, 1).map(of).collect();
    dataset.at(ids[2], Selection::whole()).all().write(&one)
}

pub(crate) fn write_sample(world: &Comm, path: &str, version: CdfVersion) -> Result<()> {
    let mut dataset = NetcdfCreateOptions::new().version(version).replace().create(world, path)?;
    dataset.define(|file| {
        file.attribute("title", "größe")?;
        file.attribute("numbers", [1.5f64, -2.5])
    })?;
    let ids = dataset.define(|file| {
        let (time, y, x) = (file.unlimited("time")?, file.dimension("y", Y)?, file.dimension("x", X)?);
        let define = |(number, kind): (usize, NcType)| {
            let fixed = file.variable(&format!("fixed{number}"), kind, &[y, x])?;
            file.attribute_of(fixed, "number", number as i32)?;
            let moving = file.variable(&format!("moving{number}"), kind, &[time, x])?;
            Ok([fixed, moving, file.variable(&format!("one{number}"), kind, &[])?])
        };
        kinds(version).map(define).collect::<Result<Vec<_>>>()
    })?;
    for ((number, kind), ids) in kinds(version).zip(ids) {
        typed!(kind, write_values(world, &dataset, ids, number))?;
    }
    dataset.close()
}

fn read_values<T: NetcdfValue>(
    world: &Comm,
    dataset: &NetcdfFile,
    number: usize,
    of: fn(u8) -> T,
) -> Result<()> {
    let rank = world.rank() as u64;
    let fixed = dataset.variable(&format!("fixed{number}"))?;
    let all: Vec<T> = expected(number, Y * X).map(of).collect();
    let row = rank % Y;
    let read: Vec<T> = dataset.at(fixed, [row..row + 1, 0..X]).all().read_vec()?;
    assert_eq!(read, all[(row * X) as usize..((row + 1) * X) as usize]);
    let attribute = dataset.describe(fixed)?.attribute("number").cloned();
    assert_eq!(attribute, Some(Values::Int(vec![number as i32])));
    let moving = dataset.variable(&format!("moving{number}"))?;
    let all: Vec<T> = expected(number, RECORDS * X).map(of).collect();
    assert_eq!(dataset.at(moving, Selection::whole()).all().read_vec::<T>()?, all);
    let every: Vec<T> = dataset.at(moving, Selection::block([1, 1], [2, 3]).stride([1, 2])).read_vec()?;
    let picked: Vec<T> =
        [1, 2].iter().flat_map(|y| [1, 3, 5].map(|x| y * X + x)).map(|at| all[at as usize]).collect();
    assert_eq!(every, picked);
    let one = dataset.variable(&format!("one{number}"))?;
    let expected: Vec<T> = expected(number, 1).map(of).collect();
    assert_eq!(dataset.at(one, Selection::value([])).all().read_vec::<T>()?, expected);
    Ok(())
}

pub(crate) fn read_sample(world: &Comm, path: &str, version: CdfVersion) -> Result<()> {
    let dataset = NetcdfOpenOptions::new().open(world, path)?;
    assert_eq!((dataset.header().version, dataset.records()), (version, RECORDS));
    assert_eq!(dataset.header().attribute("title").and_then(Values::text), Some("größe"));
    assert_eq!(dataset.header().attribute("numbers").and_then(Values::numbers), Some(vec![1.5, -2.5]));
    for (number, kind) in kinds(version) {
        typed!(kind, read_values(world, &dataset, number))?;
    }
    dataset.close()
}
