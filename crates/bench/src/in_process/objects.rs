//! Object files against raw files of the engine.

use std::borrow::Cow;
use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Mutex;

use aqueduct::comm::{Comm, Launch};
use aqueduct::file::Mode;
use aqueduct::object::{Error, Result};
use aqueduct::prelude::*;

use super::is_wanted;
use crate::table::FigureTable;
use crate::timing::{alternate, ratios, slowest_rank};
use crate::tools::scratch_folder;

const RANKS: usize = 2;
/// Bytes per rank, as powers of two.
const SIZES: [u32; 8] = [0, 4, 8, 12, 16, 20, 24, 27];
/// The same for `--quick`.
const FEW_SIZES: [u32; 4] = [2, 12, 16, 20];

#[derive(Object, Clone, wincode::SchemaWrite)]
struct VectorParticle {
    trace: Vec<f64>,
    neighbours: Vec<u32>,
}

#[derive(Object, Clone)]
struct WideObject {
    before: [f64; 7],
    mass: f64,
    after: [f64; 8],
}

/// Seconds per call of raw files and of object files, for each round.
type RoundTimes = Vec<(f64, f64)>;

pub(crate) fn run(words: &[&str]) -> anyhow::Result<()> {
    let folder = scratch_folder()?;
    let path_of = |name: &str| folder.path().join(name).display().to_string();
    let sizes = if words.contains(&"--quick") { &FEW_SIZES[..] } else { &SIZES };
    let mut table = FigureTable::default();
    let microseconds_more =
        |rounds: &RoundTimes| -> Vec<f64> { rounds.iter().map(|(raw, ours)| (ours - raw) * 1e6).collect() };
    for &power in sizes.iter().filter(|_| is_wanted(words, "sizes")) {
        for (test, rounds) in on_ranks(|world| accesses(world, &path_of, 1 << power)) {
            let label = format!("{test}, 2^{power} bytes per rank");
            if power < 16 {
                table.at_most(&format!("{label}: µs more than raw"), &microseconds_more(&rounds), 20.0);
            } else {
                table.at_least(&format!("{label} / raw"), &ratios(&rounds), 0.97);
            }
        }
    }
    if is_wanted(words, "opening") {
        let rounds = on_ranks(|world| opening(world, &path_of));
        table.at_most("opening and closing: µs more than raw", &microseconds_more(&rounds), 20.0);
    }
    if is_wanted(words, "particles") {
        for (label, least, rounds) in on_ranks(|world| particles(world, &path_of)) {
            table.at_least(label, &ratios(&rounds), least);
        }
    }
    if is_wanted(words, "projection") {
        let rounds = on_ranks(|world| projection(world, &path_of));
        let label = "reading one f64 of 10^6 objects of 128 bytes / reading the objects";
        table.at_least(label, &ratios(&rounds), 4.0);
    }
    table.finish();
    Ok(())
}

/// Runs on all ranks and returns the result of rank 0.
fn on_ranks<R: Send>(work: impl Fn(&Comm) -> Result<R> + Sync) -> R {
    let measured = Mutex::new(None);
    let job = |world: &Comm| {
        let figures = work(world)?;
        if world.rank() == 0 {
            *measured.lock().expect("no rank panics here") = Some(figures);
        }
        Ok::<(), Error>(())
    };
    Launch::threads(RANKS).run(job).expect("a job without faults");
    measured.into_inner().expect("no rank panics here").expect("rank 0 measured")
}

/// Measures raw files and object files in turn, after one round that does not count: seconds per call of the slowest rank.
fn take_turns(
    world: &Comm,
    bytes: usize,
    mut raw: impl FnMut() -> Result<()>,
    mut ours: impl FnMut() -> Result<()>,
) -> Result<RoundTimes> {
    let (calls, rounds) = if bytes < 1 << 16 { (200, 15) } else { (((1 << 24) / bytes).clamp(1, 20), 25) };
    let time = |work: &mut dyn FnMut() -> Result<()>| -> Result<f64> {
        Ok(slowest_rank(world, || (0..calls).try_for_each(|_| work()))? / calls as f64)
    };
    time(&mut raw)?;
    time(&mut ours)?;
    alternate(rounds, || time(&mut raw), || time(&mut ours))
}

/// Independent access to bytes and collective access to 32-bit integers, round-robin over the ranks; written and read.
fn accesses(
    world: &Comm,
    path_of: &dyn Fn(&str) -> String,
    bytes: usize,
) -> Result<Vec<(&'static str, RoundTimes)>> {
    let mut figures = Vec::new();
    let start = (bytes * world.rank()) as u64;
    let memory = vec![1u8; bytes];
    // New as the object files are: a file that was longer before has other costs.
    let mode = Mode::read_write().create().delete_on_close();
    let raw = OpenOptions::from(mode).open(world, path_of("raw-bytes"))?;
    let ours = ObjectFile::<u8>::create(world, path_of("bytes"))?;
    let write = take_turns(
        world,
        bytes,
        || raw.at(start).write(&memory).map(drop),
        || ours.at(start).write(&memory).map(drop),
    )?;
    figures.push(("single write", write));
    ours.close()?;
    let ours = ObjectFile::<u8>::open(world, path_of("bytes"))?;
    // Into the same memory: its address has more influence than the difference that is measured.
    let memory = RefCell::new(memory);
    let read = take_turns(
        world,
        bytes,
        || raw.at(start).read(black_box(&mut **memory.borrow_mut())).map(drop),
        || ours.at(start).read(black_box(&mut **memory.borrow_mut())).map(drop),
    )?;
    figures.push(("single read", read));
    ours.close()?;
    raw.close()?;
    if bytes < 4 {
        return Ok(figures);
    }
    let numbers = vec![1i32; bytes / 4];
    let raw = OpenOptions::from(mode).open(world, path_of("raw-numbers"))?;
    raw.set_view(&View::round_robin::<i32>(world)?)?;
    let ours = ObjectFile::<i32>::create(world, path_of("numbers"))?;
    ours.set_view(&ObjectView::round_robin(world))?;
    let write = take_turns(
        world,
        bytes,
        || raw.at(0).all().write(&numbers).map(drop),
        || ours.at(0).all().write(&numbers).map(drop),
    )?;
    figures.push(("collective write", write));
    ours.close()?;
    let ours = ObjectFile::<i32>::open(world, path_of("numbers"))?;
    ours.set_view(&ObjectView::round_robin(world))?;
    let numbers = RefCell::new(numbers);
    let read = take_turns(
        world,
        bytes,
        || raw.at(0).all().read(black_box(&mut **numbers.borrow_mut())).map(drop),
        || ours.at(0).all().read(black_box(&mut **numbers.borrow_mut())).map(drop),
    )?;
    figures.push(("collective read", read));
    ours.close()?;
    raw.close()?;
    Ok(figures)
}

/// Opening a file for reading and closing it.
fn opening(world: &Comm, path_of: &dyn Fn(&str) -> String) -> Result<RoundTimes> {
    let file = ObjectFile::<u64>::create(world, path_of("opened"))?;
    file.at(world.rank() as u64).all().write(&[1])?;
    file.close()?;
    take_turns(
        world,
        8,
        || File::open(world, path_of("opened"))?.close(),
        || ObjectFile::<u64>::open(world, path_of("opened"))?.close(),
    )
}

/// A million particles with two vectors each, encoded and written: against raw writes of the bytes, and against a general serializer and
/// raw writes.
fn particles(world: &Comm, path_of: &dyn Fn(&str) -> String) -> Result<Vec<(&'static str, f64, RoundTimes)>> {
    let count = 1_000_000 / RANKS;
    let particle = |id: usize| VectorParticle { trace: vec![id as f64; 3], neighbours: vec![id as u32; 4] };
    let mine: Vec<VectorParticle> = (0..count).map(particle).collect();
    let bytes = vec![1u8; mine.iter().map(Object::encoded_size).sum()];
    let title = "10^6 particles with two vectors: encode and write / raw write";
    let raw = compare_particles(world, path_of, &mine, &|| Cow::Borrowed(&bytes))?;
    // The limit of 4 MiB is for lengths from untrusted input.
    let config = wincode::config::Configuration::default().disable_preallocation_size_limit();
    let serialized =
        || Cow::Owned(wincode::config::serialize(&mine, config).expect("numbers can be serialized"));
    let general = compare_particles(world, path_of, &mine, &serialized)?;
    let title_general = "10^6 particles with two vectors: encode and write / wincode and raw write";
    Ok(vec![(title, 0.5, raw), (title_general, 1.0, general)])
}

/// Particles encoded and written, against bytes made and written by the raw engine. Objects of variable size are appended, and so are the
/// bytes.
fn compare_particles<'b>(
    world: &Comm,
    path_of: &dyn Fn(&str) -> String,
    mine: &Vec<VectorParticle>,
    bytes: &dyn Fn() -> Cow<'b, [u8]>,
) -> Result<RoundTimes> {
    let length = bytes().len();
    let raw = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .delete_on_close(true)
        .open(world, path_of("raw-particles"))?;
    let mut start = (length * world.rank()) as u64;
    let ours = ObjectFile::<VectorParticle>::replace(world, path_of("particles"))?;
    let figures = take_turns(
        world,
        length,
        || {
            raw.at(start).all().write(&*bytes())?;
            start += (length * world.size()) as u64;
            Ok(())
        },
        || ours.at((mine.len() * world.rank()) as u64).all().write(mine).map(drop),
    )?;
    drop(ours);
    raw.close()?;
    Ok(figures)
}

/// All of a million objects of 128 bytes, against one field of them.
fn projection(world: &Comm, path_of: &dyn Fn(&str) -> String) -> Result<RoundTimes> {
    let count = 1_000_000 / RANKS as u64;
    let start = count * world.rank() as u64;
    let wide = WideObject { before: [1.0; 7], mass: 2.0, after: [3.0; 8] };
    let file = ObjectFile::replace(world, path_of("wide"))?;
    file.at(start).all().write(&vec![wide; count as usize])?;
    file.close()?;
    let file = ObjectFile::<WideObject>::open(world, path_of("wide"))?;
    let masses = file.field::<f64>("mass")?;
    // Into existing memory: page faults of new memory would cost the larger read more.
    let mut all = file.at(start).read_vec(count)?;
    let figures = take_turns(
        world,
        128 * count as usize,
        || file.at(start).all().read(black_box(&mut all)).map(drop),
        || masses.all().read(start..start + count).map(drop),
    )?;
    drop(masses);
    file.close()?;
    Ok(figures)
}
