//! What checkpoints cost, as ratios measured in one run: `cargo bench --bench checkpoint`. `-- 330000` for another number of molecules than 3.3 million,
//! `-- cells`, `linear`, `ascii`, `waiting` for these parts only. Files go to `target/checkpoint-bench`; `linear` goes up to ten times the number, 4 GB, and
//! wants 15 GB of memory.
//!
//! What is compared takes turns, and before each turn memory and file system are brought into one state (`level`): otherwise the same write takes 0.2 or
//! 0.8 s, by what was free for how long.

#[path = "common/table.rs"]
mod table;

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use aqueduct::checkpoint::mardyn::{Component, PhaseSpace, PhaseSpaceFiles, PhaseSpaceFormat};
use aqueduct::checkpoint::{CellGrid, Checkpoint, Error, Molecule, SpatialRegion, Store, particle_cells};
use aqueduct::comm::{Comm, Launch};
use aqueduct::file::{File, OpenOptions};
use table::Table;

const ROUNDS: usize = 5;
/// Where a round moves gigabytes.
const LONG_ROUNDS: usize = 3;
const RANKS: usize = 2;
const LENGTH: [f64; 3] = [100.0; 3];

fn main() {
    let number = |argument: String| argument.parse().ok();
    let count = std::env::args().skip(1).find_map(number).unwrap_or(3_300_000);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/checkpoint-bench");
    std::fs::create_dir_all(&folder).expect("a folder for the files");
    let mut table = Table::default();
    let chosen: Vec<String> =
        std::env::args().skip(1).filter(|word| word.starts_with(char::is_alphabetic)).collect();
    let wanted = |part: &str| chosen.is_empty() || chosen.iter().any(|word| word == part);
    if wanted("cells") {
        cell_files(&mut table, &folder, count);
        places(&mut table, &folder, count);
    }
    if wanted("linear") {
        linear(&mut table, &folder, count);
    }
    if wanted("ascii") {
        ascii(&mut table, &folder, count / 8);
    }
    if wanted("waiting") {
        waiting(&folder, count / 10);
    }
    println!("{table}");
    let _ = std::fs::remove_dir_all(&folder);
}

/// The molecules of a rank: a slab along x, in no order inside.
fn molecules(count: u64, rank: usize, ranks: usize) -> Vec<Molecule> {
    let mut state = 0x9e37_79b9_u64 + rank as u64;
    let mut unit = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let share = count / ranks as u64;
    let width = LENGTH[0] / ranks as f64;
    let one = |index: u64| {
        let x = (rank as f64 + unit() * 0.999_999) * width;
        let position = [x, unit() * LENGTH[1], unit() * LENGTH[2]];
        let mut any = || unit() - 0.5;
        Molecule {
            orientation: [any(), any(), any(), any()],
            angular_momentum: [any(), any(), any()],
            ..Molecule::new(rank as u64 * share + index, position, [any(), any(), any()])
        }
    };
    (0..share).map(one).collect()
}

/// Seconds that all threads of this process have computed.
fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// What something took: on the clock, and of all processors.
#[derive(Clone, Copy)]
struct Cost {
    clock: f64,
    processors: f64,
}

impl Cost {
    fn of(work: impl FnOnce()) -> Self {
        let (start, before) = (Instant::now(), processor_seconds());
        work();
        Self { clock: start.elapsed().as_secs_f64(), processors: processor_seconds() - before }
    }
}

/// Brings memory and file system into one state: writes, syncs and removes a file of somewhat more bytes than the turn needs, and syncs all.
///
/// Memory that was free for two seconds may be gone: a machine that is a guest gives it back to its host, and gets it again page by page when it is
/// touched, which costs several times what is written into it. What was freed just now is still there. And what others removed before is off the medium.
fn level(folder: &Path, bytes: u64) {
    let path = folder.join("level");
    let piece = vec![1_u8; 1 << 20];
    let mut file = std::fs::File::create(&path).expect("a file");
    (0..(bytes + bytes / 4).div_ceil(1 << 20)).for_each(|_| file.write_all(&piece).expect("room"));
    file.sync_all().expect("room");
    drop(file);
    std::fs::remove_file(&path).expect("the file that was just written");
    rustix::fs::sync();
}

/// A folder for files, and how many bytes a turn writes or reads.
#[derive(Clone, Copy)]
struct Turn<'a> {
    folder: &'a Path,
    bytes: u64,
}

impl<'a> Turn<'a> {
    fn of(folder: &'a Path, molecules: u64) -> Self {
        Self { folder, bytes: molecules * size_of::<Molecule>() as u64 }
    }
}

/// Runs on so many ranks, from the same state as every other turn; the cost, from the first to the last of them.
fn cost(
    turn: Turn<'_>,
    ranks: usize,
    prepare: impl Fn(&Comm) -> Vec<Molecule> + Sync,
    work: impl Fn(&Comm, &[Molecule]) -> Result<(), Error> + Sync,
) -> Cost {
    let run = |world: &Comm| {
        let mine = prepare(world);
        world.barrier()?;
        if world.rank() == 0 {
            level(turn.folder, turn.bytes);
        }
        world.barrier()?;
        let mut outcome = Ok(());
        let cost = Cost::of(|| outcome = work(world, &mine).and_then(|()| Ok(world.barrier()?)));
        outcome.map(|()| cost)
    };
    Launch::threads(ranks).run(run).expect("the benchmark runs")[0]
}

/// The same, on the clock alone.
fn timed(
    turn: Turn<'_>,
    ranks: usize,
    prepare: impl Fn(&Comm) -> Vec<Molecule> + Sync,
    work: impl Fn(&Comm, &[Molecule]) -> Result<(), Error> + Sync,
) -> f64 {
    cost(turn, ranks, prepare, work).clock
}

/// The name of a file that is not there: nor is any other that a turn may have left.
fn fresh(path: &Path) -> String {
    let folder = path.parent().expect("a folder");
    let left = std::fs::read_dir(folder).expect("a folder").filter_map(Result::ok);
    left.for_each(|entry| drop(std::fs::remove_file(entry.path())));
    path.to_string_lossy().into_owned()
}

/// As many bytes, one run per rank: what any program would do. Durable when it returns, as a cell file is.
fn plain_write(world: &Comm, name: &str, mine: &[Molecule]) -> Result<(), Error> {
    write_through(&OpenOptions::new().write(true).create(true), world, name, mine)
}

/// The same by a program that knows the hint with which cell files are opened: what is left between the two is what cells cost.
fn hinted_write(world: &Comm, name: &str, mine: &[Molecule]) -> Result<(), Error> {
    let open = OpenOptions::new().write(true).create(true).hint("aqueduct_write_behind", "true");
    write_through(&open, world, name, mine)
}

fn write_through(open: &OpenOptions, world: &Comm, name: &str, mine: &[Molecule]) -> Result<(), Error> {
    let file = open.open(world, name)?;
    let bytes = size_of_val(mine) as u64;
    file.at(bytes * world.rank() as u64).all().write(mine)?;
    file.sync()?;
    file.close()
}

fn plain_read(world: &Comm, name: &str) -> Result<(), Error> {
    let file = File::open(world, name)?;
    let share = file.size()? / world.size() as u64 / 120;
    let mut mine = vec![0u8; 120 * share as usize];
    file.at(share * 120 * world.rank() as u64).all().read(&mut mine)?;
    std::hint::black_box(&mine);
    file.close()
}

fn slabs(ranks: u64) -> CellGrid {
    CellGrid::new(LENGTH, [ranks, 1, 1]).expect("a box has a volume")
}

fn cell_files(table: &mut Table, folder: &Path, count: u64) {
    let turn = Turn::of(folder, count);
    let prepare = |world: &Comm| molecules(count, world.rank(), world.size());
    let (plain, native) = (folder.join("plain"), folder.join("native.cells"));
    // Bricks of a tree of cuts: what a load-balanced decomposition has.
    let bricks = CellGrid::new(LENGTH, [16; 3]).expect("a box has a volume");
    let bare = |write: fn(&Comm, &str, &[Molecule]) -> Result<(), Error>| {
        let name = fresh(&plain);
        timed(turn, RANKS, prepare, |world, mine| write(world, &name, mine))
    };
    let cells = |grid: &CellGrid| {
        let name = fresh(&native);
        timed(turn, RANKS, prepare, |world, mine| particle_cells::write(world, &name, grid, mine))
    };
    let mut seconds = [(); 4].map(|()| Vec::new());
    for _ in 0..ROUNDS {
        let now = [bare(plain_write), bare(hinted_write), cells(&slabs(RANKS as u64)), cells(&bricks)];
        seconds.iter_mut().zip(now).for_each(|(all, now)| all.push(now));
    }
    let [bare, hinted, regular, tree] = seconds;
    told("plain write", &bare);
    told("plain write, on its way before the sync", &hinted);
    told("cells, one per rank", &regular);
    told("cells, 16³", &tree);
    for (which, cells) in [("one per rank", &regular), ("16³ of a tree", &tree)] {
        for (how, bare) in [("synced", &bare), ("on its way before the sync too", &hinted)] {
            let label = format!("cells, {which}: speed of a plain collective write, {how}");
            table.ratios(&label, quotients(bare, cells), 0.8);
        }
    }
    cell_reads(table, folder, count, &bricks);
}

/// Reading on other ranks than those that wrote, both files from the page cache.
fn cell_reads(table: &mut Table, folder: &Path, count: u64, grid: &CellGrid) {
    let turn = Turn::of(folder, count);
    let prepare = |world: &Comm| molecules(count, world.rank(), world.size());
    let (name, plain) = (fresh(&folder.join("native.cells")), folder.join("plain"));
    let plain = plain.to_string_lossy();
    timed(turn, RANKS, prepare, |world, mine| particle_cells::write(world, &name, grid, mine));
    timed(turn, RANKS, prepare, |world, mine| plain_write(world, &plain, mine));
    let nothing = |_: &Comm| Vec::new();
    let [mut bare, mut cells] = [(); 2].map(|()| Vec::new());
    for _ in 0..ROUNDS {
        bare.push(timed(turn, 4, nothing, |world, _| plain_read(world, &plain)));
        cells.push(timed(turn, 4, nothing, |world, _| {
            let (rank, width) = (world.rank() as f64, LENGTH[0] / world.size() as f64);
            let region =
                SpatialRegion::new([rank * width, 0.0, 0.0], [(rank + 1.0) * width, LENGTH[1], LENGTH[2]]);
            std::hint::black_box(particle_cells::CellFile::<Molecule>::open(world, &name)?.read(&region)?);
            Ok(())
        }));
    }
    told("plain read", &bare);
    told("cells read", &cells);
    table.ratios("cells, written by 2, on 4 ranks: speed of a plain read", quotients(&bare, &cells), 0.7);
}

/// Shows best and median of all rounds.
fn told(what: &str, seconds: &[f64]) {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    println!("{what}: best {:.3} s, median {:.3} s", sorted[0], sorted[sorted.len() / 2]);
}

/// Round by round: the one by the other.
fn quotients(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| one / other).collect()
}

/// Finding places, and that nobody else has a cell, as a part of the write: what a write costs that has hardly any rows, on a medium that costs nothing.
fn places(table: &mut Table, folder: &Path, count: u64) {
    let turn = Turn::of(folder, count);
    let bricks = CellGrid::new(LENGTH, [16; 3]).expect("a box has a volume");
    let few = |world: &Comm| {
        let mut mine = molecules(count, world.rank(), world.size());
        mine.sort_by_key(|molecule| bricks.cell_of(molecule.position));
        mine.dedup_by_key(|molecule| bricks.cell_of(molecule.position));
        mine
    };
    let all = |world: &Comm| molecules(count, world.rank(), world.size());
    let parts = (0..ROUNDS).map(|_| {
        let one_each = timed(turn, RANKS, few, |world, mine| {
            particle_cells::replace(world, "memfs:places", &bricks, mine)
        });
        one_each
            / timed(turn, RANKS, all, |world, mine| {
                particle_cells::replace(world, "memfs:places", &bricks, mine)
            })
    });
    table.at_most("places and the check of 16³ cells: part of the write (memory)", parts.collect(), 0.05);
}

/// What a molecule costs among a tenth, as many and ten times as many, beside what its bytes cost in a plain write at the same size: where both grow it is the
/// file system, where only ours does it is ours. The largest file has about 4 GB, and is in memory twice: as molecules, and in the page cache.
fn linear(table: &mut Table, folder: &Path, count: u64) {
    let (ours, plain) = (folder.join("linear.cells"), folder.join("linear.plain"));
    let sizes = [count / 10, count, 10 * count];
    let mut costs: [Vec<[f64; 2]>; 3] = Default::default();
    for _ in 0..LONG_ROUNDS {
        for (count, costs) in sizes.into_iter().zip(&mut costs) {
            let prepare = |world: &Comm| molecules(count, world.rank(), world.size());
            let grid = slabs(RANKS as u64);
            let name = fresh(&ours);
            let cells = timed(Turn::of(folder, count), RANKS, prepare, |world, mine| {
                particle_cells::write(world, &name, &grid, mine)
            });
            let name = fresh(&plain);
            let bare =
                timed(Turn::of(folder, count), RANKS, prepare, |world, mine| plain_write(world, &name, mine));
            let each = [cells, bare].map(|seconds| seconds / count as f64);
            println!("write of {count}: {:.1} ns each, plain {:.1} ns each", each[0] * 1e9, each[1] * 1e9);
            costs.push(each);
        }
    }
    for (count, costs) in sizes.into_iter().zip(&costs) {
        let ratios = costs.iter().map(|[cells, bare]| bare / cells).collect();
        table.ratios(
            &format!("cells of {count} molecules: speed of a plain write of as many bytes"),
            ratios,
            0.8,
        );
    }
    let [small, _, large] = &costs;
    for (which, whose) in [(0, "cells"), (1, "a plain write, which is the file system's affair")] {
        let growth = small.iter().zip(large).map(|(small, large)| large[which] / small[which]).collect();
        let label = format!("cost of a molecule among a hundred times as many: {whose}");
        table.at_most(&label, growth, if which == 0 { 1.5 } else { f64::INFINITY });
    }
}

fn ascii(table: &mut Table, folder: &Path, count: u64) {
    let turn = Turn::of(folder, 2 * count);
    let space = PhaseSpace::new(LENGTH, vec![Component::single(1.0, 1.0, 1.0)]);
    let (theirs, ours) = (folder.join("loop.inp"), folder.join("ours.inp"));
    let mut ratios = [(); 4].map(|()| Vec::new());
    for _ in 0..ROUNDS {
        let bare = loops(turn, &theirs, count);
        let [alone, together] = [1, RANKS].map(|ranks| {
            let files = PhaseSpaceFiles::one(fresh(&ours));
            let prepare = |world: &Comm| molecules(count, world.rank(), world.size());
            let grid = slabs(ranks as u64);
            let write = cost(turn, ranks, prepare, |world, mine| {
                PhaseSpaceFormat::OldStyle.replace(world, &files, &space, &grid, mine)
            });
            let nothing = |_: &Comm| Vec::new();
            let read = cost(turn, ranks, nothing, |world, _| {
                std::hint::black_box(PhaseSpaceFormat::OldStyle.open(world, &files)?.read_share()?);
                Ok(())
            });
            [write, read]
        });
        for (index, way) in ["write", "read"].into_iter().enumerate() {
            let (bare, alone, together) = (bare[index], alone[index], together[index]);
            println!(
                "ASCII {way} {count}: a loop {:.3} s ({:.3} s of a processor), 1 rank {:.3} s ({:.3} s), 2 ranks {:.3} s",
                bare.clock, bare.processors, alone.clock, alone.processors, together.clock
            );
            ratios[index].push(bare.clock / together.clock);
            ratios[2 + index].push(bare.processors / alone.processors);
        }
    }
    let [write, read, write_alone, read_alone] = ratios;
    table.ratios("ASCII written by 2 ranks: speed of a write! loop", write, 4.0);
    table.ratios("ASCII read by 2 ranks: speed of a parse loop", read, 4.0);
    table.ratios("ASCII written by 1 rank: a write! loop's processor time by ours", write_alone, 4.0);
    table.ratios("ASCII read by 1 rank: a parse loop's processor time by ours", read_alone, 4.0);
}

/// What a program does without us: writing, and reading.
fn loops(turn: Turn<'_>, path: &Path, count: u64) -> [Cost; 2] {
    let all = molecules(count, 0, 1);
    level(turn.folder, turn.bytes);
    let written = Cost::of(|| {
        let mut file = BufWriter::new(std::fs::File::create(path).expect("a file"));
        for molecule in &all {
            write!(file, "{} 1", molecule.id).expect("room");
            let turning = molecule.orientation.iter().chain(&molecule.angular_momentum);
            for number in molecule.position.iter().chain(&molecule.velocity).chain(turning) {
                write!(file, " {number}").expect("room");
            }
            writeln!(file).expect("room");
        }
        file.into_inner().expect("room").sync_all().expect("room");
    });
    let mut found: Vec<Molecule> = Vec::new();
    let read = Cost::of(|| {
        for line in BufReader::new(std::fs::File::open(path).expect("a file")).lines() {
            let line = line.expect("text");
            let mut words = line.split_whitespace();
            let id = words.next().and_then(|word| word.parse().ok()).expect("an id");
            words.next();
            let n: Vec<f64> = words.map(|word| word.parse().expect("a number")).collect();
            let mut molecule = Molecule::new(id, [n[0], n[1], n[2]], [n[3], n[4], n[5]]);
            molecule.orientation.copy_from_slice(&n[6..10]);
            molecule.angular_momentum.copy_from_slice(&n[10..]);
            found.push(molecule);
        }
    });
    assert_eq!(found, all);
    [written, read]
}

/// How long a program waits for a checkpoint, in both ways.
fn waiting(folder: &Path, count: u64) {
    let turn = Turn::of(folder, count);
    let path = folder.join("store");
    let all = |world: &Comm| molecules(count, world.rank(), world.size());
    let run = |later: bool| {
        timed(turn, RANKS, all, |world, mine| {
            let mut store = Store::open_or_create(world, &path)?;
            let start = Instant::now();
            let mut checkpoint = Checkpoint::new(1);
            checkpoint.cells("molecules", &slabs(RANKS as u64), mine);
            if later {
                store.start(checkpoint)?;
            } else {
                store.write(&checkpoint)?;
            }
            let waited = start.elapsed();
            if world.rank() == 0 {
                println!(
                    "checkpoint of {count}: {:.1} ms {}",
                    waited.as_secs_f64() * 1e3,
                    if later { "to start" } else { "to write" }
                );
            }
            store.wait().map(|_| ())
        })
    };
    for _ in 0..ROUNDS {
        run(false);
        run(true);
    }
}
