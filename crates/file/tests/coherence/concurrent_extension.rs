//! A rank that stores through mapped pages below an end that another rank has just made loses nothing: a file system may show a new length before
//! it has cleared what lies below it.

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{File, OpenOptions, Result, View};

const ROUNDS: u64 = 50_000;
/// Values of a round: one rank writes the last, which extends the file; the other the first two of every second, as soon as it can.
const ROUND: u64 = 8;

#[test]
fn a_store_below_the_end_of_another_rank_keeps_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("ufs:{}", folder.path().join("a").display());
    let open = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .delete_on_close(true)
        .hint("aqueduct_strategy", "map");
    let program = |world: &Comm| {
        let file = open.open(world, &name)?;
        let value = Layout::from(Basic::I64);
        let every = if world.rank() == 0 { value.clone() } else { value.resized(0, 16).unwrap() };
        file.set_view(&View::new(0, &value, &every)?)?;
        if world.rank() == 0 { extend(world, &file) } else { follow(world, &file) }
    };
    Launch::threads(2).run(program).unwrap();
}

fn extend(world: &Comm, file: &File) -> Result<()> {
    for round in 0..ROUNDS {
        world.barrier().unwrap();
        file.at(round * ROUND + ROUND - 1).write(&[-1i64])?;
    }
    world.barrier().unwrap();
    Ok(())
}

fn follow(world: &Comm, file: &File) -> Result<()> {
    let mine = |round: u64| [round as i64 + 1; 2];
    for round in 0..ROUNDS {
        world.barrier().unwrap();
        await_len(file, (round + 1) * ROUND * 8)?;
        file.at(round * ROUND / 2).write(&mine(round))?;
    }
    world.barrier().unwrap();
    for round in 0..ROUNDS {
        let mut back = [0; 2];
        file.at(round * ROUND / 2).read(&mut back)?;
        assert_eq!(back, mine(round), "lost what was written in round {round}");
    }
    Ok(())
}

/// Looks hard, to come as early as can be, but lets the other rank have the core if it waits for it.
fn await_len(file: &File, len: u64) -> Result<()> {
    loop {
        for _ in 0..50 {
            if file.size()? >= len {
                return Ok(());
            }
        }
        std::thread::yield_now();
    }
}
