//! What objects cost, as ratios to the raw engine measured in the same run, the two taking turns. `cargo xtask bench objects`.

#[path = "common/table.rs"]
mod table;

use std::borrow::Cow;
use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Mutex;
use std::time::Instant;

use aqueduct::comm::{Comm, Launch, Op};
use aqueduct::file::Mode;
use aqueduct::object::{Error, Result};
use aqueduct::prelude::*;
use table::Table;

const RANKS: usize = 2;
/// Bytes per rank, as powers of two.
const SIZES: [u32; 8] = [0, 4, 8, 12, 16, 20, 24, 27];
/// The same for `--quick`.
const FEW_SIZES: [u32; 4] = [2, 12, 16, 20];

#[derive(Object, Clone, wincode::SchemaWrite)]
struct Particle {
    trace: Vec<f64>,
    neighbours: Vec<u32>,
}

#[derive(Object, Clone)]
struct Wide {
    before: [f64; 7],
    mass: f64,
    behind: [f64; 8],
}

/// Seconds per call of the two, round by round.
type Rounds = Vec<(f64, f64)>;

fn main() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder for the files");
    let place = |name: &str| folder.path().join(name).to_str().expect("a path in UTF-8").to_owned();
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let wants =
        |part: &str| words.iter().all(|word| word.starts_with("--")) || words.iter().any(|word| word == part);
    let quick = words.iter().any(|word| word == "--quick");
    let mut table = Table::default();
    let sizes = if quick { &FEW_SIZES[..] } else { &SIZES };
    for &power in sizes.iter().filter(|_| wants("sizes")) {
        for (test, figures) in together(|world| accesses(world, &place, 1 << power)) {
            let title = format!("{test}, 2^{power} bytes per rank");
            if power < 16 {
                let more = figures.iter().map(|(raw, ours)| (ours - raw) * 1e6).collect();
                table.at_most(&format!("{title}: µs more than raw"), more, 20.0);
            } else {
                let ratios = figures.iter().map(|(raw, ours)| raw / ours).collect();
                table.ratios(&format!("{title} / raw"), ratios, 0.97);
            }
        }
    }
    if wants("opening") {
        let figures = together(|world| opening(world, &place));
        let more = figures.iter().map(|(raw, ours)| (ours - raw) * 1e6).collect();
        table.at_most("opening and closing: µs more than raw", more, 20.0);
    }
    if wants("particles") {
        for (test, least, figures) in together(|world| variable(world, &place)) {
            table.ratios(test, figures.iter().map(|(raw, ours)| raw / ours).collect(), least);
        }
    }
    if wants("projection") {
        for (test, figures) in together(|world| projection(world, &place)) {
            table.ratios(test, figures.iter().map(|(whole, field)| whole / field).collect(), 4.0);
        }
    }
    println!("{table}");
}

/// Runs on all ranks; what rank 0 measured.
fn together<R: Send>(work: impl Fn(&Comm) -> Result<R> + Sync) -> R {
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

/// The two take turns, after one round that does not count; the slowest rank's seconds per call.
fn turns(
    world: &Comm,
    bytes: usize,
    mut raw: impl FnMut() -> Result<()>,
    mut ours: impl FnMut() -> Result<()>,
) -> Result<Rounds> {
    let (calls, rounds) = if bytes < 1 << 16 { (200, 15) } else { (((1 << 24) / bytes).clamp(1, 20), 25) };
    let time = |work: &mut dyn FnMut() -> Result<()>| -> Result<f64> {
        world.barrier()?;
        let start = Instant::now();
        (0..calls).try_for_each(|_| work())?;
        Ok(world.allreduce_one(Op::Max, start.elapsed().as_secs_f64())? / calls as f64)
    };
    time(&mut raw)?;
    time(&mut ours)?;
    let round = |number: usize| {
        // Who comes second finds warm caches: they take turns in that too.
        if number.is_multiple_of(2) {
            return Ok((time(&mut raw)?, time(&mut ours)?));
        }
        let ours = time(&mut ours)?;
        Ok((time(&mut raw)?, ours))
    };
    (0..rounds).map(round).collect()
}

/// The four tests: bytes alone, 32-bit integers dealt round-robin together; written and read.
fn accesses(
    world: &Comm,
    place: &dyn Fn(&str) -> String,
    bytes: usize,
) -> Result<Vec<(&'static str, Rounds)>> {
    let mut figures = Vec::new();
    let start = (bytes * world.rank()) as u64;
    let memory = vec![1u8; bytes];
    // As new as the object files: a file that has been longer is another file.
    let mode = Mode::read_write().create().delete_on_close();
    let raw = OpenOptions::from(mode).open(world, place("raw-bytes"))?;
    let ours = ObjectFile::<u8>::create(world, place("bytes"))?;
    let write = turns(
        world,
        bytes,
        || raw.at(start).write(&memory).map(drop),
        || ours.at(start).write(&memory).map(drop),
    )?;
    figures.push(("single write", write));
    ours.close()?;
    let ours = ObjectFile::<u8>::open(world, place("bytes"))?;
    // Into the same memory: where it lies makes more of a difference than what is compared.
    let memory = RefCell::new(memory);
    let read = turns(
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
    let raw = OpenOptions::from(mode).open(world, place("raw-numbers"))?;
    raw.set_view(&View::round_robin::<i32>(world)?)?;
    let ours = ObjectFile::<i32>::create(world, place("numbers"))?;
    ours.set_view(&ObjectView::round_robin(world))?;
    let write = turns(
        world,
        bytes,
        || raw.at(0).all().write(&numbers).map(drop),
        || ours.at(0).all().write(&numbers).map(drop),
    )?;
    figures.push(("collective write", write));
    ours.close()?;
    let ours = ObjectFile::<i32>::open(world, place("numbers"))?;
    ours.set_view(&ObjectView::round_robin(world))?;
    let numbers = RefCell::new(numbers);
    let read = turns(
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
fn opening(world: &Comm, place: &dyn Fn(&str) -> String) -> Result<Rounds> {
    let file = ObjectFile::<u64>::create(world, place("opened"))?;
    file.at(world.rank() as u64).all().write(&[1])?;
    file.close()?;
    turns(
        world,
        8,
        || File::open(world, place("opened"))?.close(),
        || ObjectFile::<u64>::open(world, place("opened"))?.close(),
    )
}

/// A million particles with two vectors each: encoded and written, against the raw engine writing the bytes, and against a general
/// serializer that makes them.
fn variable(world: &Comm, place: &dyn Fn(&str) -> String) -> Result<Vec<(&'static str, f64, Rounds)>> {
    let count = 1_000_000 / RANKS;
    let particle = |id: usize| Particle { trace: vec![id as f64; 3], neighbours: vec![id as u32; 4] };
    let mine: Vec<Particle> = (0..count).map(particle).collect();
    let bytes = vec![1u8; mine.iter().map(Object::encoded_size).sum()];
    let title = "10^6 particles with two vectors: encode and write / raw write";
    let raw = against(world, place, &mine, &|| Cow::Borrowed(&bytes))?;
    // Its limit of 4 MiB is for hostile lengths; these are ours.
    let config = wincode::config::Configuration::default().disable_preallocation_size_limit();
    let serialized =
        || Cow::Owned(wincode::config::serialize(&mine, config).expect("numbers can be serialized"));
    let general = against(world, place, &mine, &serialized)?;
    let title_general = "10^6 particles with two vectors: encode and write / wincode and raw write";
    Ok(vec![(title, 0.5, raw), (title_general, 1.0, general)])
}

/// Particles encoded and written, against bytes made and written by the raw engine. Objects of variable size go behind those there are:
/// so do the bytes.
fn against<'b>(
    world: &Comm,
    place: &dyn Fn(&str) -> String,
    mine: &Vec<Particle>,
    bytes: &dyn Fn() -> Cow<'b, [u8]>,
) -> Result<Rounds> {
    let length = bytes().len();
    let raw = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .delete_on_close(true)
        .open(world, place("raw-particles"))?;
    let mut start = (length * world.rank()) as u64;
    let ours = ObjectFile::<Particle>::replace(world, place("particles"))?;
    let figures = turns(
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

/// One field of a million objects of 128 bytes, against all of them.
fn projection(world: &Comm, place: &dyn Fn(&str) -> String) -> Result<Vec<(&'static str, Rounds)>> {
    let count = 1_000_000 / RANKS as u64;
    let start = count * world.rank() as u64;
    let wide = Wide { before: [1.0; 7], mass: 2.0, behind: [3.0; 8] };
    let file = ObjectFile::replace(world, place("wide"))?;
    file.at(start).all().write(&vec![wide; count as usize])?;
    file.close()?;
    let file = ObjectFile::<Wide>::open(world, place("wide"))?;
    let masses = file.field::<f64>("mass")?;
    // Into memory there is: new memory would cost the larger read more.
    let mut all = file.at(start).read_vec(count)?;
    let figures = turns(
        world,
        128 * count as usize,
        || file.at(start).all().read(black_box(&mut all)).map(drop),
        || masses.read_all(start..start + count).map(drop),
    )?;
    drop(masses);
    file.close()?;
    Ok(vec![("one f64 of 10^6 objects of 128 bytes: times faster than all", figures)])
}
