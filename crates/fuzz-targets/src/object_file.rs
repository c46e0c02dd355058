//! Object files: `.meta` and data, read with the type, without it, and repaired.

use aqueduct_comm::Comm;
use aqueduct_object::{Error, Object, ObjectFile, ObjectOpenOptions, Result, repair};

use crate::FuzzTarget;
use crate::input::{CORRECT_SUMS, check_named, join, load, long, remove_all, run_rank, seal, split, store};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    name: "object_file",
    run,
    seeds,
    words: &[
        "AQUEMETA",
        "\"u64\"",
        "\"list\"",
        "\"struct\"",
        "{\"fields\":[",
        "99999999999999999999",
        "\"up\"",
    ],
};

const NAME: &str = "memfs:fuzzed-objects";
const META: &str = "memfs:fuzzed-objects.meta";
/// Inputs with this flag are read as objects of constant size.
const CONSTANT_SIZE: u8 = 2;
/// Offsets in a `.meta`: `docs/format-object.md`.
const SLOTS: [usize; 2] = [0, 4096];
const DESCRIPTION: usize = 8192;
const UNIT: usize = 512;
/// The largest number of objects that are read: empty ones occupy no byte of the file.
const MOST_OBJECTS: u64 = 1000;

#[derive(Object, Clone, Debug, PartialEq)]
struct FixedRecord {
    id: u32,
    flag: bool,
}

#[derive(Object, Clone, Debug, PartialEq)]
enum VariableRecord {
    Empty,
    Text(String),
    Tree(Vec<VariableRecord>),
}

fn run(input: &[u8]) -> bool {
    let (flags, meta, data) = split(input);
    let mut meta = meta.to_vec();
    if flags & CORRECT_SUMS != 0 {
        correct_sums(&mut meta, data);
    }
    run_rank(|world| {
        store(world, META, &meta)?;
        store(world, NAME, data)?;
        let constant = flags & CONSTANT_SIZE != 0;
        let accepted = if constant { read::<FixedRecord>(world) } else { read::<VariableRecord>(world) };
        let untyped = ObjectOpenOptions::open_dyn(world, NAME).and_then(|file| {
            let count = file.count()?.min(MOST_OBJECTS);
            file.verify()?;
            file.show(0..count)
        });
        check_named(untyped, NAME);
        Ok::<_, Error>(accepted)
    })
}

fn read<T: Object + Send>(world: &Comm) -> bool {
    let read = |file: ObjectFile<T>| file.at(0).read_vec(file.count()?.min(MOST_OBJECTS));
    let accepted = check_named(ObjectFile::<T>::open(world, NAME).and_then(read), NAME);
    check_named(repair::<T>(world, NAME), NAME);
    check_named(ObjectFile::<T>::open(world, NAME).map(drop), NAME);
    accepted
}

/// Corrects the checksums of slots, metadata, index and data.
fn correct_sums(meta: &mut [u8], data: &[u8]) {
    if let Some(units) = meta.get_mut(DESCRIPTION..) {
        units.chunks_exact_mut(UNIT).skip(1).for_each(seal);
    }
    for slot in SLOTS {
        let (Some(described), Some(length)) = (long(meta, slot + 40), long(meta, slot + 32)) else {
            continue;
        };
        let description = meta.get(DESCRIPTION..).and_then(|rest| rest.get(..described as usize));
        let (description, data) =
            (description.map(crc32c::crc32c), data.get(..length as usize).map(crc32c::crc32c));
        let Some(bytes) = meta.get_mut(slot..slot + UNIT) else { continue };
        for (at, sum) in [(48, description), (52, data)] {
            if let Some(sum) = sum {
                bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
            }
        }
        seal(bytes);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    use VariableRecord::{Empty, Text, Tree};
    let constant = files(&[FixedRecord { id: 7, flag: true }, FixedRecord { id: 8, flag: false }]);
    let variable = files(&[Text("leaf".into()), Tree(vec![Empty, Tree(vec![])])]);
    let seed = |flags: u8, [meta, data]: &[Vec<u8>; 2]| join(flags, meta, data);
    vec![
        seed(CONSTANT_SIZE, &constant),
        seed(CONSTANT_SIZE | CORRECT_SUMS, &constant),
        seed(0, &variable),
        seed(CORRECT_SUMS, &variable),
    ]
}

/// The `.meta` and the data of these objects.
fn files<T: Object + Sync>(objects: &[T]) -> [Vec<u8>; 2] {
    run_rank(|world| -> Result<_> {
        remove_all(&[NAME, META]);
        let file = ObjectFile::create(world, NAME)?;
        file.at(0).all().write(objects)?;
        file.close()?;
        Ok([load(world, META)?, load(world, NAME)?])
    })
}
