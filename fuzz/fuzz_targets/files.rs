//! Object files with bytes changed anywhere, and checksums made right again, so that what they protect is reached. Opened, read, compared
//! and repaired: an error that names the file, or objects.
#![no_main]

use std::sync::OnceLock;

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{Mode, Open};
use aqueduct_object::{Error, Object, ObjectFile, repair};
use libfuzzer_sys::fuzz_target;

const NAME: &str = "memfs:fuzzed";
const META: &str = "memfs:fuzzed.meta";
/// Where things are in a `.meta`, as `docs/format-object.md` has it.
const SLOTS: [usize; 2] = [0, 4096];
const DESCRIPTION: usize = 8192;
const UNIT: usize = 512;

#[derive(Object, Clone, Debug, PartialEq)]
struct Fixed {
    id: u32,
    flag: bool,
}

#[derive(Object, Clone, Debug, PartialEq)]
enum Loose {
    Empty,
    Text(String),
    Tree(Vec<Loose>),
}

/// A byte somewhere in the `.meta` or, behind it, in the data.
type Change = (u16, u8);

fuzz_target!(|input: (bool, bool, Vec<Change>)| {
    static FIXED: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    static LOOSE: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let (fixed, sums, changes) = input;
    if fixed {
        let made = || made(&[Fixed { id: 7, flag: true }, Fixed { id: 8, flag: false }]);
        play::<Fixed>(FIXED.get_or_init(made), sums, &changes);
    } else {
        let made =
            || made(&[Loose::Text("leaf".into()), Loose::Tree(vec![Loose::Empty, Loose::Tree(vec![])])]);
        play::<Loose>(LOOSE.get_or_init(made), sums, &changes);
    }
});

/// A job of one rank, which does not fail.
fn alone<R: Send>(job: impl Fn(&Comm) -> Result<R, Error> + Sync) -> R {
    Launch::threads(1).run(job).expect("a rank without errors of its own").remove(0)
}

/// The `.meta` and the data of these objects.
fn made<T: Object + Sync>(objects: &[T]) -> [Vec<u8>; 2] {
    alone(|world| {
        let file = ObjectFile::create(world, NAME)?;
        file.at(0).all().write(objects)?;
        file.close()?;
        Ok([load(world, META)?, load(world, NAME)?])
    })
}

fn load(world: &Comm, name: &str) -> Result<Vec<u8>, Error> {
    let file = Open::new(Mode::read_only()).open(world, name)?;
    let mut bytes = vec![0; file.size()? as usize];
    file.at(0).read(&mut bytes)?;
    Ok(bytes)
}

fn store(world: &Comm, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let file = Open::new(Mode::read_write().create()).open(world, name)?;
    file.set_size(0)?;
    file.at(0).write(bytes)?;
    Ok(file.close()?)
}

fn play<T: Object + Send + std::fmt::Debug>(files: &[Vec<u8>; 2], sums: bool, changes: &[Change]) {
    let [mut meta, mut data] = files.clone();
    for (at, byte) in changes {
        let at = usize::from(*at) % (meta.len() + data.len());
        match at.checked_sub(meta.len()) {
            Some(at) => data[at] ^= byte,
            None => meta[at] ^= byte,
        }
    }
    if sums {
        resum(&mut meta, &data);
    }
    alone(|world| {
        store(world, META, &meta)?;
        store(world, NAME, &data)?;
        let read = ObjectFile::<T>::open(world, NAME)
            .and_then(|file| file.at(0).read_vec(file.count()?.min(1 << 20)));
        named(read);
        named(repair::<T>(world, NAME));
        named(ObjectFile::<T>::open(world, NAME).map(drop));
        Ok(())
    });
}

fn named<R>(outcome: Result<R, Error>) {
    if let Err(error) = outcome {
        assert!(error.to_string().contains(NAME), "{error}");
    }
}

/// Makes the sums of slots, description, index and data right.
fn resum(meta: &mut [u8], data: &[u8]) {
    let number =
        |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes")) as usize;
    for unit in meta[DESCRIPTION..].chunks_exact_mut(UNIT).skip(1) {
        seal(unit);
    }
    for slot in SLOTS {
        let (described, length) = (number(meta, slot + 40), number(meta, slot + 32));
        if let Some(description) = meta[DESCRIPTION..].get(..described) {
            let sum = crc32c::crc32c(description);
            meta[slot + 48..slot + 52].copy_from_slice(&sum.to_le_bytes());
        }
        if let Some(data) = data.get(..length) {
            meta[slot + 52..slot + 56].copy_from_slice(&crc32c::crc32c(data).to_le_bytes());
        }
        seal(&mut meta[slot..slot + UNIT]);
    }
}

fn seal(unit: &mut [u8]) {
    let sum = crc32c::crc32c(&unit[..UNIT - 4]);
    unit[UNIT - 4..].copy_from_slice(&sum.to_le_bytes());
}
