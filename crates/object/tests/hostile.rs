//! Damaged input: truncated, with flipped bits, swapped parts, another version, wrong sizes. The outcome is an error that names the file, or the committed
//! objects; never a panic.

use aqueduct_comm::{Comm, Launch};
use aqueduct_object::{Error, Kind, Object, ObjectFile};

#[derive(Object, Clone, Debug, PartialEq)]
struct Fixed {
    id: u32,
    flag: bool,
    value: f64,
}

#[derive(Object, Clone, Debug, PartialEq)]
enum Loose {
    Empty,
    Text(String),
    Tree { children: Vec<Loose>, map: std::collections::BTreeMap<u8, char> },
}

/// A small pseudo-random number generator.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % below.max(1) as u64) as usize
    }
}

fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.next(3) {
        let at = random.next(bytes.len());
        match random.next(6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.next(8),
            1 => bytes.truncate(at),
            2 => bytes.extend_from_within(at..),
            3 if at + 8 <= bytes.len() => {
                let number = [0, 1, u64::MAX, 1 << 40, 1 << 63][random.next(5)];
                bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
            4 => {
                let from = random.next(bytes.len());
                let len = random.next(64).min(bytes.len() - at.max(from));
                bytes.copy_within(from..from + len, at);
            }
            _ if random.next(20) == 0 => *bytes = other.to_vec(),
            _ => {}
        }
    }
}

fn files() -> (Vec<Fixed>, Vec<Loose>) {
    let fixed = (0..50).map(|id| Fixed { id, flag: id % 2 == 0, value: f64::from(id) }).collect();
    let leaf = Loose::Text("leaf".repeat(5));
    let tree = Loose::Tree { children: vec![leaf.clone(), Loose::Empty], map: [(1, 'x')].into() };
    let nested = Loose::Tree { children: vec![tree.clone(), tree], map: [(0, 'ä'), (9, 'z')].into() };
    (fixed, vec![Loose::Empty, leaf, nested])
}

fn write<T: Object + Sync>(path: &str, objects: &[T]) -> (Vec<u8>, Vec<u8>) {
    let job = |world: &Comm| {
        let file = ObjectFile::<T>::create(world, path)?;
        file.at(0).all().write(objects)?;
        file.close()
    };
    Launch::threads(1).run(job).unwrap();
    (std::fs::read(path).unwrap(), std::fs::read(format!("{path}.meta")).unwrap())
}

fn read<T: Object + Send>(path: &str) -> Result<Vec<T>, Error> {
    let job = |world: &Comm| {
        Ok::<_, Error>(ObjectFile::<T>::open(world, path).and_then(|file| file.at(0).read_vec(file.count()?)))
    };
    Launch::threads(1).run(job).unwrap().remove(0)
}

/// Changes the files in `cases` ways; returns how many changes were detected.
fn storm<T: Object + Send + Sync + PartialEq + std::fmt::Debug>(
    path: &str,
    objects: &[T],
    cases: usize,
) -> usize {
    let (data, meta) = write(path, objects);
    assert_eq!(read::<T>(path).unwrap(), objects);
    let mut noticed = 0;
    for case in 0..cases {
        let mut random = Random(case as u64);
        let (mut new_data, mut new_meta) = (data.clone(), meta.clone());
        if random.next(2) == 0 {
            mutate(&mut new_data, &meta, &mut random);
        } else {
            mutate(&mut new_meta, &data, &mut random);
        }
        std::fs::write(path, &new_data).unwrap();
        std::fs::write(format!("{path}.meta"), &new_meta).unwrap();
        match read::<T>(path) {
            Ok(found) => assert_eq!(found, objects, "case {case}"),
            Err(error) => {
                assert!(error.to_string().contains(path), "case {case}: {error}");
                noticed += 1;
            }
        }
    }
    noticed
}

#[test]
fn damaged_files_are_errors_or_the_committed_objects() {
    let folder = tempfile::tempdir().unwrap();
    let (fixed, loose) = files();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    assert!(storm(&path("fixed"), &fixed, 1500) > 700);
    assert!(storm(&path("loose"), &loose, 1500) > 700);
}

/// Encoded objects and schemas, without files: the decoders check every length and value.
#[test]
fn a_hundred_thousand_mutations_of_encoded_objects() {
    let (_, loose) = files();
    let bytes = aqueduct_object::encode(&loose);
    let mut refused = 0;
    for case in 0..100_000 {
        let mut random = Random(case);
        let mut changed = bytes.clone();
        mutate(&mut changed, &bytes, &mut random);
        match aqueduct_object::decode::<Vec<Loose>>(&changed) {
            Ok(found) => assert_eq!(
                aqueduct_object::decode::<Vec<Loose>>(&aqueduct_object::encode(&found)).unwrap(),
                found
            ),
            Err(error) => {
                assert!(error.at() <= changed.len());
                refused += 1;
            }
        }
    }
    assert!(refused > 30_000, "{refused}");
}

#[test]
fn each_kind_of_damage_has_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a").to_str().unwrap().to_owned();
    let meta_path = format!("{path}.meta");
    let (fixed, _) = files();
    let (data, meta) = write(&path, &fixed);
    let restore = || {
        std::fs::write(&path, &data).unwrap();
        std::fs::write(&meta_path, &meta).unwrap();
    };
    let refused = |kind: Kind, words: &str| {
        let error = read::<Fixed>(&path).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(words), "{error}");
        restore();
    };
    let mut flipped = data.clone();
    flipped[100] ^= 4;
    std::fs::write(&path, &flipped).unwrap();
    refused(Kind::Damaged, "checksum of bytes 0 to 650");
    std::fs::write(&path, &data[..640]).unwrap();
    refused(Kind::Damaged, "it has 640 bytes, 650 were committed");
    std::fs::remove_file(&meta_path).unwrap();
    refused(Kind::NoMetadata, "open it as raw, or repair it");
    std::fs::write(&meta_path, &meta[..8000]).unwrap();
    refused(Kind::Damaged, "truncated");
    std::fs::write(&meta_path, &data).unwrap();
    refused(Kind::Damaged, "neither slot");
    // A later version: a slot that is valid except for the version.
    let mut later = meta.clone();
    later[8] = 2;
    let sum = crc32c::crc32c(&later[..508]);
    later[508..512].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(&meta_path, &later).unwrap();
    refused(Kind::UnknownVersion, "version 2");
    std::fs::remove_file(&path).unwrap();
    let error = read::<Fixed>(&path).unwrap_err();
    assert_eq!(error.kind(), aqueduct_file::Kind::NoSuchFile);
}
