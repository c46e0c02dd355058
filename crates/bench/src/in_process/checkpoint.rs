//! Cell files, phase spaces and checkpoints of 3.3 million molecules, or of as many as an argument says. `linear` writes up to ten times as
//! many, 4 GB, and needs 15 GB of memory.
//!
//! The candidates take turns. Before each turn memory and file system are brought into one state (`equalize`): otherwise the same write takes
//! 0.2 or 0.8 s, depending on which pages were free for how long.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use aqueduct::checkpoint::{CellGrid, Checkpoint, Error, Molecule, SpatialRegion, Store, particle_cells};
use aqueduct::comm::{Comm, Launch};
use aqueduct::file::{File, OpenOptions};
use aqueduct::mardyn::{MoleculeComponent, PhaseSpace, PhaseSpaceFiles, PhaseSpaceFormat};
use rustix::time::ClockId;

use super::is_wanted;
use crate::table::{FigureTable, FigureTarget};
use crate::timing::{best_and_median, cpu_seconds};
use crate::tools;

const ROUNDS: usize = 5;
/// Rounds that transfer gigabytes.
const LONG_ROUNDS: usize = 3;
const RANKS: usize = 2;
const LENGTH: [f64; 3] = [100.0; 3];

pub(crate) fn run(words: &[&str]) -> anyhow::Result<()> {
    let count = words.iter().find_map(|word| word.parse().ok()).unwrap_or(3_300_000);
    let folder = tools::folder("checkpoint-bench")?;
    let mut table = FigureTable::default();
    if is_wanted(words, "cells") {
        cell_files(&mut table, &folder, count);
        cell_offsets(&mut table, &folder, count);
    }
    if is_wanted(words, "linear") {
        linear(&mut table, &folder, count);
    }
    if is_wanted(words, "ascii") {
        ascii(&mut table, &folder, count / 8);
    }
    if is_wanted(words, "waiting") {
        waiting(&folder, count / 10);
    }
    table.finish();
    let _ = std::fs::remove_dir_all(&folder);
    Ok(())
}

/// The molecules of a rank: a slab along x, unordered inside.
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

/// Elapsed seconds and CPU seconds of all threads.
#[derive(Clone, Copy)]
struct CpuCost {
    elapsed: f64,
    cpu: f64,
}

impl CpuCost {
    fn of(work: impl FnOnce()) -> Self {
        let (start, before) = (Instant::now(), cpu_seconds(ClockId::ProcessCPUTime));
        work();
        Self { elapsed: start.elapsed().as_secs_f64(), cpu: cpu_seconds(ClockId::ProcessCPUTime) - before }
    }
}

/// The folder of the files, and the number of bytes that a turn writes or reads.
#[derive(Clone, Copy)]
struct BenchTurn<'a> {
    folder: &'a Path,
    bytes: u64,
}

impl<'a> BenchTurn<'a> {
    fn of(folder: &'a Path, molecules: u64) -> Self {
        Self { folder, bytes: molecules * size_of::<Molecule>() as u64 }
    }
}

/// The cost of `work` on so many ranks, from the first to the last of them. Every turn starts from the same state.
fn cost(
    turn: BenchTurn<'_>,
    ranks: usize,
    prepare: impl Fn(&Comm) -> Vec<Molecule> + Sync,
    work: impl Fn(&Comm, &[Molecule]) -> Result<(), Error> + Sync,
) -> CpuCost {
    let run = |world: &Comm| {
        let mine = prepare(world);
        world.barrier()?;
        if world.rank() == 0 {
            tools::equalize(turn.folder, turn.bytes);
        }
        world.barrier()?;
        let mut outcome = Ok(());
        let cost = CpuCost::of(|| outcome = work(world, &mine).and_then(|()| Ok(world.barrier()?)));
        outcome.map(|()| cost)
    };
    Launch::threads(ranks).run(run).expect("the benchmark runs")[0]
}

/// Elapsed seconds of [`cost`].
fn timed(
    turn: BenchTurn<'_>,
    ranks: usize,
    prepare: impl Fn(&Comm) -> Vec<Molecule> + Sync,
    work: impl Fn(&Comm, &[Molecule]) -> Result<(), Error> + Sync,
) -> f64 {
    cost(turn, ranks, prepare, work).elapsed
}

/// Removes all files of the folder; the name of the new one.
fn fresh(path: &Path) -> String {
    let folder = path.parent().expect("a folder");
    let left = std::fs::read_dir(folder).expect("a folder").filter_map(Result::ok);
    left.for_each(|entry| drop(std::fs::remove_file(entry.path())));
    path.to_string_lossy().into_owned()
}

/// A plain write of as many bytes, one run per rank; durable when it returns, as a cell file is.
fn plain_write(world: &Comm, name: &str, mine: &[Molecule]) -> Result<(), Error> {
    write_through(&OpenOptions::new().write(true).create(true), world, name, mine)
}

/// The same with the hint of cell files: the difference to them is the cost of cells.
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

fn cell_files(table: &mut FigureTable, folder: &Path, count: u64) {
    let turn = BenchTurn::of(folder, count);
    let prepare = |world: &Comm| molecules(count, world.rank(), world.size());
    let (plain, native) = (folder.join("plain"), folder.join("native.cells"));
    // Cells of a load-balanced decomposition, a tree of cuts.
    let small_cells = CellGrid::new(LENGTH, [16; 3]).expect("a box has a volume");
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
        let now = [bare(plain_write), bare(hinted_write), cells(&slabs(RANKS as u64)), cells(&small_cells)];
        seconds.iter_mut().zip(now).for_each(|(all, now)| all.push(now));
    }
    let [bare, hinted, regular, tree] = seconds;
    print_seconds("plain write", &bare);
    print_seconds("plain write with write-behind", &hinted);
    print_seconds("cells, one per rank", &regular);
    print_seconds("cells, 16³", &tree);
    for (which, cells) in [("one per rank", &regular), ("16³", &tree)] {
        for (kind, bare) in [("plain", &bare), ("plain with write-behind", &hinted)] {
            let label = format!("cells, {which}: speed / collective write, {kind}");
            table.at_least(&label, &quotients(bare, cells), 0.8);
        }
    }
    cell_reads(table, folder, count, &small_cells);
}

/// Reads on another number of ranks than wrote, both files from the page cache.
fn cell_reads(table: &mut FigureTable, folder: &Path, count: u64, grid: &CellGrid) {
    let turn = BenchTurn::of(folder, count);
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
    print_seconds("plain read", &bare);
    print_seconds("cells read", &cells);
    table.at_least("cells written by 2 ranks, read by 4: speed / plain read", &quotients(&bare, &cells), 0.7);
}

fn print_seconds(label: &str, seconds: &[f64]) {
    let [best, median] = best_and_median(seconds);
    println!("    {label}: best {best:.3} s, median {median:.3} s");
}

/// The quotient of each round.
fn quotients(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| one / other).collect()
}

/// The computation of offsets and the check that cells have one owner, as a fraction of the write: the cost of a write with one row per cell, in
/// memory.
fn cell_offsets(table: &mut FigureTable, folder: &Path, count: u64) {
    let turn = BenchTurn::of(folder, count);
    let small_cells = CellGrid::new(LENGTH, [16; 3]).expect("a box has a volume");
    let few = |world: &Comm| {
        let mut mine = molecules(count, world.rank(), world.size());
        mine.sort_by_key(|molecule| small_cells.cell_of(molecule.position));
        mine.dedup_by_key(|molecule| small_cells.cell_of(molecule.position));
        mine
    };
    let all = |world: &Comm| molecules(count, world.rank(), world.size());
    let parts = (0..ROUNDS).map(|_| {
        let one_each = timed(turn, RANKS, few, |world, mine| {
            particle_cells::replace(world, "memfs:offsets", &small_cells, mine)
        });
        one_each
            / timed(turn, RANKS, all, |world, mine| {
                particle_cells::replace(world, "memfs:offsets", &small_cells, mine)
            })
    });
    let parts: Vec<f64> = parts.collect();
    table.at_most("offsets and check of 16³ cells / write in memory", &parts, 0.05);
}

/// The time per molecule for a tenth of the molecules, all, and ten times as many, against a plain write of the same size: if both grow, the file
/// system is the cause. The largest file has about 4 GB, and is in memory twice: as molecules, and in the page cache.
fn linear(table: &mut FigureTable, folder: &Path, count: u64) {
    let (ours, plain) = (folder.join("linear.cells"), folder.join("linear.plain"));
    let sizes = [count / 10, count, 10 * count];
    let mut costs: [Vec<[f64; 2]>; 3] = Default::default();
    for _ in 0..LONG_ROUNDS {
        for (count, costs) in sizes.into_iter().zip(&mut costs) {
            let prepare = |world: &Comm| molecules(count, world.rank(), world.size());
            let grid = slabs(RANKS as u64);
            let name = fresh(&ours);
            let cells = timed(BenchTurn::of(folder, count), RANKS, prepare, |world, mine| {
                particle_cells::write(world, &name, &grid, mine)
            });
            let name = fresh(&plain);
            let bare = timed(BenchTurn::of(folder, count), RANKS, prepare, |world, mine| {
                plain_write(world, &name, mine)
            });
            let each = [cells, bare].map(|seconds| seconds / count as f64);
            println!(
                "    write of {count}: {:.1} ns each, plain {:.1} ns each",
                each[0] * 1e9,
                each[1] * 1e9
            );
            costs.push(each);
        }
    }
    for (count, costs) in sizes.into_iter().zip(&costs) {
        let ratios: Vec<f64> = costs.iter().map(|[cells, bare]| bare / cells).collect();
        table.at_least(&format!("cells of {count} molecules: speed / plain write"), &ratios, 0.8);
    }
    let [small, _, large] = &costs;
    let targets = [("cells", FigureTarget::AtMost(1.5)), ("plain write", FigureTarget::None)];
    for (which, (kind, target)) in targets.into_iter().enumerate() {
        let growth: Vec<f64> =
            small.iter().zip(large).map(|(small, large)| large[which] / small[which]).collect();
        let label = format!("time per molecule for 100 times as many molecules / for few: {kind}");
        table.row(&label, best_and_median(&growth), target);
    }
}

fn ascii(table: &mut FigureTable, folder: &Path, count: u64) {
    let turn = BenchTurn::of(folder, 2 * count);
    let space = PhaseSpace::new(LENGTH, vec![MoleculeComponent::single(1.0, 1.0, 1.0)]);
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
        for (index, direction) in ["write", "read"].into_iter().enumerate() {
            let (bare, alone, together) = (bare[index], alone[index], together[index]);
            println!(
                "    ASCII {direction} {count}: a loop {:.3} s ({:.3} s CPU), 1 rank {:.3} s ({:.3} s), 2 ranks {:.3} s",
                bare.elapsed, bare.cpu, alone.elapsed, alone.cpu, together.elapsed
            );
            ratios[index].push(bare.elapsed / together.elapsed);
            ratios[2 + index].push(bare.cpu / alone.cpu);
        }
    }
    let [write, read, write_alone, read_alone] = ratios;
    table.at_least("ASCII written by 2 ranks: speed / write! loop", &write, 4.0);
    table.at_least("ASCII read by 2 ranks: speed / parse loop", &read, 4.0);
    table.at_least("ASCII written by 1 rank: CPU time of a write! loop / ours", &write_alone, 4.0);
    table.at_least("ASCII read by 1 rank: CPU time of a parse loop / ours", &read_alone, 4.0);
}

/// The cost of a plain loop that writes, and of one that reads.
fn loops(turn: BenchTurn<'_>, path: &Path, count: u64) -> [CpuCost; 2] {
    let all = molecules(count, 0, 1);
    tools::equalize(turn.folder, turn.bytes);
    let written = CpuCost::of(|| {
        let mut file = BufWriter::new(std::fs::File::create(path).expect("a file"));
        for molecule in &all {
            write!(file, "{} 1", molecule.id).expect("room");
            let rotation = molecule.orientation.iter().chain(&molecule.angular_momentum);
            for number in molecule.position.iter().chain(&molecule.velocity).chain(rotation) {
                write!(file, " {number}").expect("room");
            }
            writeln!(file).expect("room");
        }
        file.into_inner().expect("room").sync_all().expect("room");
    });
    let mut found: Vec<Molecule> = Vec::new();
    let read = CpuCost::of(|| {
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

/// The time that a program waits for a checkpoint: blocking and in the background.
fn waiting(folder: &Path, count: u64) {
    let turn = BenchTurn::of(folder, count);
    let path = folder.join("store");
    let all = |world: &Comm| molecules(count, world.rank(), world.size());
    let run = |background: bool| {
        timed(turn, RANKS, all, |world, mine| {
            let mut store = Store::open_or_create(world, &path)?;
            let start = Instant::now();
            let mut checkpoint = Checkpoint::new(1);
            checkpoint.cells("molecules", &slabs(RANKS as u64), mine);
            if background {
                store.start(checkpoint)?;
            } else {
                store.write(&checkpoint)?;
            }
            let waited = start.elapsed();
            if world.rank() == 0 {
                println!(
                    "    checkpoint of {count}: {:.1} ms {}",
                    waited.as_secs_f64() * 1e3,
                    if background { "to start" } else { "to write" }
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
