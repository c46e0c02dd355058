//! Changed files, opened and read as a whole: an error that names the file, or molecules; never a panic, a hang or memory that the file does not have.

mod cases;

use std::path::Path;

use aqueduct_checkpoint::mardyn::{PhaseSpaceFiles, PhaseSpaceFormat};
use aqueduct_checkpoint::particle_cells::{self, CellFile};
use aqueduct_checkpoint::{ArrayBlock, Checkpoint, Error, Kind, Molecule, Result, SpatialRegion, Store};
use aqueduct_comm::{Comm, Launch};
use aqueduct_testkit::rng::SeededRng;
use cases::{Decomposition, bytes_of, molecules, put_bytes, space};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// No more memory than this: a huge allocation would end the test.
fn limit_memory() {
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(Resource::As, Rlimit { current: Some(8 << 30), maximum }).unwrap();
}

/// Changes numbers, words and lengths, mostly near the start.
fn mutate(bytes: &mut Vec<u8>, seeded: &mut SeededRng) {
    const WORDS: [&str; 12] = [
        "N 9999999999999",
        "C 99999999",
        "nan",
        "1e999",
        "-1",
        "0",
        "# ",
        "\n",
        "M IRV",
        "L 0 0 0",
        "18446744073709551615",
        "\0",
    ];
    for _ in 0..=seeded.below(3) {
        let near = if seeded.below(2) == 0 { 700 } else { usize::MAX };
        let at = seeded.below(bytes.len().clamp(1, near));
        match seeded.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << seeded.below(8),
            1 if seeded.below(3) == 0 => bytes.truncate(at),
            2 if at + 8 <= bytes.len() => {
                let at = at / 8 * 8;
                let number = [0, 1, 1 << 33, 1 << 62, u64::MAX, 1e300_f64.to_bits(), f64::NAN.to_bits()]
                    [seeded.below(7)];
                bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(number));
            }
            3 if at + 4 <= bytes.len() => {
                let number = [0, 1, 4, 100, i32::MAX as u32, u32::MAX][seeded.below(6)];
                let at = at / 4 * 4;
                bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(number));
            }
            4 => {
                let word = WORDS[seeded.below(WORDS.len())];
                bytes.splice(at..at, word.bytes());
            }
            _ if at < bytes.len() => bytes[at] = b"0123456789 .-e\n<>/"[seeded.below(18)],
            _ => {}
        }
    }
}

/// Makes the sums of a cell file right again, so that what they cover is looked at.
fn seal(bytes: &mut [u8]) {
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

/// Refused for a good reason, or no more than there is.
fn judge(outcome: Result<Vec<Molecule>>, most: usize, seed: u64) -> bool {
    match outcome {
        Ok(molecules) => {
            assert!(molecules.len() <= most, "seed {seed}: {} molecules", molecules.len());
            true
        }
        Err(error) => {
            let kinds = [Kind::Damaged, Kind::Incomplete, Kind::WrongType, Kind::UnknownVersion];
            assert!(kinds.contains(&error.kind()), "seed {seed}: {error}");
            assert!(error.to_string().contains("hostile"), "seed {seed}: {error}");
            false
        }
    }
}

#[test]
fn changed_phase_spaces_are_refused_or_read() {
    limit_memory();
    let story = |world: &Comm| {
        let space = space();
        let all = molecules(20, 31, &space);
        for format in PhaseSpaceFormat::ALL {
            let files = format.files(&format!("memfs:hostile-{}", format.name()).to_lowercase());
            format.write(world, &files, &space, &Decomposition::Tree.grid(1, space.length), &all)?;
            let header = bytes_of(world, &files.header)?;
            let data = if files.data.is_empty() { Vec::new() } else { bytes_of(world, &files.data)? };
            let (mut read, mut refused) = (0, 0);
            for seed in 0..20_000 {
                let seeded = &mut SeededRng::new(seed);
                let (mut head, mut body) = (header.clone(), data.clone());
                mutate(if body.is_empty() || seeded.below(3) == 0 { &mut head } else { &mut body }, seeded);
                put_bytes(world, &files.header, &head)?;
                if !files.data.is_empty() {
                    put_bytes(world, &files.data, &body)?;
                }
                let outcome = open_and_read(world, format, &files);
                if judge(outcome, head.len() + body.len(), seed) { read += 1 } else { refused += 1 }
            }
            assert!(read > 500 && refused > 4000, "{format:?}: {read} read, {refused} refused");
        }
        Ok::<_, Error>(())
    };
    Launch::threads(1).run(story).unwrap();
}

fn open_and_read(world: &Comm, format: PhaseSpaceFormat, files: &PhaseSpaceFiles) -> Result<Vec<Molecule>> {
    format.open(world, files)?.read(&SpatialRegion::EVERYWHERE)
}

#[test]
fn changed_cell_files_are_refused_or_read() {
    limit_memory();
    let story = |world: &Comm| {
        let (name, space) = ("memfs:hostile.cells", space());
        particle_cells::write(
            world,
            name,
            &Decomposition::Tree.grid(1, space.length),
            &molecules(20, 32, &space),
        )?;
        let original = bytes_of(world, name)?;
        let (mut read, mut refused) = (0, 0);
        for seed in 0..20_000 {
            let seeded = &mut SeededRng::new(seed);
            let mut bytes = original.clone();
            mutate(&mut bytes, seeded);
            if seeded.below(4) > 0 && bytes.len() >= 512 {
                seal(&mut bytes);
            }
            put_bytes(world, name, &bytes)?;
            let outcome = CellFile::open(world, name).and_then(|file| file.read(&SpatialRegion::EVERYWHERE));
            if judge(outcome, bytes.len(), seed) { read += 1 } else { refused += 1 }
        }
        assert!(read > 500 && refused > 4000, "{read} read, {refused} refused");
        Ok::<_, Error>(())
    };
    Launch::threads(1).run(story).unwrap();
}

/// Reads everything that a generation has.
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
fn changed_manifests_are_refused_or_read() {
    limit_memory();
    let folder = tempfile::Builder::new().prefix("hostile").tempdir().unwrap();
    let story = |world: &Comm| {
        let space = space();
        let all = molecules(20, 33, &space);
        let mut checkpoint = Checkpoint::new(1);
        let field = [1.5_f64; 10];
        checkpoint.value("time", &2.5_f64).cells(
            "molecules",
            &Decomposition::Tree.grid(1, space.length),
            &all,
        );
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
                    // A number becomes another one, mostly a larger one.
                    0 | 1 if bytes[at].is_ascii_digit() => _ = bytes.splice(at..at, *b"99999999999"),
                    _ => bytes[at] = b"0123456789,:[]{}\"x"[seeded.below(18)],
                }
            }
            let seal = crc32c::crc32c(&bytes);
            std::fs::write(&path, [&bytes[..], format!("\ncrc32c {seal:08x}\n").as_bytes()].concat())
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
                    assert!(error.to_string().contains("hostile"), "seed {seed}: {error}");
                    refused += 1;
                }
            }
        }
        assert!(read > 10 && refused > 1000, "{read} read, {refused} refused");
        Ok::<_, Error>(())
    };
    Launch::threads(1).run(story).unwrap();
}
