//! Damaged input: truncated, with flipped bits, swapped parts, another version, wrong sizes. The outcome is an error that names the file, or the committed
//! objects; never a panic.

use aqueduct_comm::{Comm, Launch};
use aqueduct_object::{Error, Kind, Object, ObjectFile};
use aqueduct_testkit::mutator::Mutator;

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
        let mut mutator = Mutator::new(case as u64, &[]);
        let mutated = mutator.mutate(&[if case % 2 == 0 { &data } else { &meta }.clone()]);
        let (new_data, new_meta) = if case % 2 == 0 { (&mutated, &meta) } else { (&data, &mutated) };
        std::fs::write(path, new_data).unwrap();
        std::fs::write(format!("{path}.meta"), new_meta).unwrap();
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
