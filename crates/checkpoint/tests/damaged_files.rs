//! Mutated cell files and manifests: opening and reading them returns an error that names the file, or valid data. It never panics or
//! hangs, and never allocates more memory than the file justifies.

mod fixture;

use std::path::Path;

use aqueduct_checkpoint::particle_cells::{self, CellFile};
use aqueduct_checkpoint::{ArrayBlock, Checkpoint, Error, Kind, Molecule, Result, SpatialRegion, Store};
use aqueduct_comm::{Comm, Launch};
use aqueduct_testkit::rng::SeededRng;
use fixture::mutation::{is_accepted, limit_memory, mutate};
use fixture::{Decomposition, LENGTH, bytes_of, molecules, put_bytes};

/// Corrects the checksums of a mutated cell file, so that readers decode what they cover.
fn correct_checksums(bytes: &mut [u8]) {
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()))
    };
    let cells = [24, 32, 40].iter().map(|at| word(bytes, *at)).fold(1_u64, u64::saturating_mul);
    let end = cells.saturating_mul(24).saturating_add(512);
    if end > bytes.len() as u64 {
        return;
    }
    let table = crc32c::crc32c(&bytes[512..end as usize]).to_le_bytes();
    bytes[96..100].copy_from_slice(&table);
    let header = crc32c::crc32c(&bytes[..508]).to_le_bytes();
    bytes[508..512].copy_from_slice(&header);
}

#[test]
fn mutated_cell_files_are_read_or_rejected() {
    limit_memory();
    let run = |world: &Comm| {
        let name = "memfs:mutated.cells";
        particle_cells::write(world, name, &Decomposition::KdTree.grid(1, LENGTH), &molecules(20, 32))?;
        let original = bytes_of(world, name)?;
        let (mut read, mut refused) = (0, 0);
        for seed in 0..20_000 {
            let seeded = &mut SeededRng::new(seed);
            let mut bytes = original.clone();
            mutate(&mut bytes, seeded);
            if seeded.below(4) > 0 && bytes.len() >= 512 {
                correct_checksums(&mut bytes);
            }
            put_bytes(world, name, &bytes)?;
            let outcome = CellFile::open(world, name).and_then(|file| file.read(&SpatialRegion::EVERYWHERE));
            if is_accepted(outcome, bytes.len(), seed) { read += 1 } else { refused += 1 }
        }
        assert!(read > 500 && refused > 4000, "{read} read, {refused} refused");
        Ok::<_, Error>(())
    };
    Launch::threads(1).run(run).unwrap();
}

/// Reads all parts of generation 1 and returns the number of elements.
fn restore(world: &Comm, folder: &Path) -> Result<usize> {
    let store = Store::open_or_create(world, folder)?;
    let generation = store.generation(1)?;
    let molecules = generation.cells::<Molecule>("molecules", &SpatialRegion::EVERYWHERE)?;
    let field = generation.array::<f64>("field", &ArrayBlock::new([10], [0], [10]))?;
    let (texts, numbers) = (generation.objects::<String>("texts")?, generation.objects::<u64>("numbers")?);
    generation.value::<f64>("time")?;
    generation.verify()?;
    Ok(molecules.len() + field.len() + texts.len() + numbers.len())
}

#[test]
fn mutated_manifests_are_read_or_rejected() {
    limit_memory();
    let folder = tempfile::Builder::new().prefix("mutated").tempdir().unwrap();
    let run = |world: &Comm| {
        let all = molecules(20, 33);
        let mut checkpoint = Checkpoint::new(1);
        let field = [1.5_f64; 10];
        checkpoint.value("time", &2.5_f64).cells("molecules", &Decomposition::KdTree.grid(1, LENGTH), &all);
        checkpoint.array("field", &ArrayBlock::new([10], [0], [10]), &field);
        checkpoint.objects("texts", &["a".to_owned(), "bc".to_owned()]).objects("numbers", &[1_u64, 2, 3]);
        Store::open_or_create(world, folder.path())?.write(&checkpoint)?;
        let path = folder.path().join("generation-0000000001/manifest.json");
        let original = std::fs::read_to_string(&path).expect("a manifest");
        let json = original.lines().next().expect("two lines");
        assert_eq!(restore(world, folder.path())?, 35);
        let (mut read, mut refused) = (0, 0);
        for seed in 0..2_000 {
            let seeded = &mut SeededRng::new(seed);
            let mut bytes = json.as_bytes().to_vec();
            for _ in 0..=seeded.below(2) {
                let at = seeded.below(bytes.len());
                match seeded.below(3) {
                    // Digits are inserted into a number.
                    0 | 1 if bytes[at].is_ascii_digit() => _ = bytes.splice(at..at, *b"99999999999"),
                    _ => bytes[at] = b"0123456789,:[]{}\"x"[seeded.below(18)],
                }
            }
            let checksum = crc32c::crc32c(&bytes);
            std::fs::write(&path, [&bytes[..], format!("\ncrc32c {checksum:08x}\n").as_bytes()].concat())
                .expect("room");
            match restore(world, folder.path()) {
                Ok(count) => {
                    assert!(count <= 35, "seed {seed}: {count}");
                    read += 1;
                }
                Err(error) => {
                    let kinds = [
                        Kind::Damaged,
                        Kind::UnknownVersion,
                        Kind::WrongType,
                        Kind::NoSuchName,
                        Kind::BadArgument,
                        Kind::NoSuchFile,
                        Kind::BadName,
                    ];
                    assert!(kinds.contains(&error.kind()), "seed {seed}: {error}");
                    assert!(error.to_string().contains("mutated"), "seed {seed}: {error}");
                    refused += 1;
                }
            }
        }
        assert!(read > 10 && refused > 1000, "{read} read, {refused} refused");
        Ok::<_, Error>(())
    };
    Launch::threads(1).run(run).unwrap();
}
