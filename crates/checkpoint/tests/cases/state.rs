//! A program's state, of all kinds of parts, which is known from its step alone.

use aqueduct_checkpoint::{ArrayBlock, Checkpoint, Molecule, Result, Store};
use aqueduct_comm::Comm;
use aqueduct_object::Object;

use crate::cases::{Decomposition, by_id, molecules, same, space};

#[derive(Object, Clone, Debug, PartialEq)]
pub(crate) struct Walker {
    name: String,
    visited: Vec<u32>,
}

#[derive(Object, Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pair {
    a: u32,
    b: f64,
}

fn walker(number: u64) -> Walker {
    Walker { name: format!("walker {number}"), visited: (0..number as u32 % 7).collect() }
}

pub(crate) const ROWS: u64 = 12;
pub(crate) const COLUMNS: u64 = 10;

/// The rows of an array of 12 × 10 that a rank has.
pub(crate) fn rows(world: &Comm) -> ArrayBlock {
    let border = |rank: usize| ROWS * rank as u64 / world.size() as u64;
    let (from, to) = (border(world.rank()), border(world.rank() + 1));
    ArrayBlock::new([ROWS, COLUMNS], [from, 0], [to - from, COLUMNS])
}

fn element(row: u64, column: u64, step: u64) -> i32 {
    (row * 100 + column + step * 10_000) as i32
}

fn elements(block: &ArrayBlock, step: u64) -> Vec<i32> {
    let mut ranges = block.slab.ranges();
    let (rows, columns) = (ranges.next().unwrap(), ranges.next().unwrap());
    rows.flat_map(|row| columns.clone().map(move |column| element(row, column, step))).collect()
}

/// Puts a state of everything into a store: what it is depends on the step alone.
pub(crate) fn save(
    world: &Comm,
    store: &mut Store,
    step: u64,
    how: Decomposition,
    later: bool,
) -> Result<()> {
    let space = space();
    let all = molecules(100 + step, step, &space);
    let mine = how.mine(world.size(), world.rank(), &all, space.length);
    let block = rows(world);
    let values = elements(&block, step);
    let walkers: Vec<Walker> =
        (0..20 + step).filter(|n| n % world.size() as u64 == world.rank() as u64).map(walker).collect();
    let pairs = vec![Pair { a: 1, b: 2.0 }; 3];
    let mut checkpoint = Checkpoint::new(step);
    checkpoint.value("time", &(step as f64 * 0.5)).cells(
        "molecules",
        &how.grid(world.size(), space.length),
        &mine,
    );
    checkpoint.array("field", &block, &values).objects("walkers", &walkers).objects("pairs", &pairs);
    if later { store.start(checkpoint) } else { store.write(&checkpoint).map(|_| ()) }
}

/// Whether the latest generation is the state of its step; that step.
pub(crate) fn check(world: &Comm, store: &Store, how: Decomposition) -> Result<Option<u64>> {
    let Some(latest) = store.latest()? else { return Ok(None) };
    let step = latest.step();
    let space = space();
    assert_eq!(latest.value::<f64>("time")?.to_bits(), (step as f64 * 0.5).to_bits());
    let mine =
        latest.cells::<Molecule>("molecules", &how.region(world.size(), world.rank(), space.length))?;
    let all = by_id(world.allgather_varied(&mine)?.concat());
    assert!(same(&all, &molecules(100 + step, step, &space)));
    // A box across the ranks that wrote it, another one for each rank.
    let block = ArrayBlock::new([ROWS, COLUMNS], [world.rank() as u64 % 5, 3], [7, 4]);
    assert_eq!(latest.array::<i32>("field", &block)?, elements(&block, step));
    let walkers = latest.objects::<Walker>("walkers")?;
    let names: Vec<u8> =
        walkers.iter().flat_map(|walker| format!("{}\n", walker.name).into_bytes()).collect();
    let names = String::from_utf8(world.allgather_varied(&names)?.concat()).expect("names are text");
    let mut numbers: Vec<u64> = names.lines().map(|name| name[7..].parse().expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..20 + step).collect::<Vec<_>>());
    for found in &walkers {
        assert_eq!(*found, walker(found.name[7..].parse().expect("a number")));
    }
    let pairs = latest.objects::<Pair>("pairs")?;
    assert!(pairs.iter().all(|pair| *pair == Pair { a: 1, b: 2.0 }));
    Ok(Some(step))
}
