//! The manifest of a checkpoint: a generation with all kinds of parts is restored with a mutated manifest.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use aqueduct_checkpoint::{
    ArrayBlock, CellGrid, Checkpoint, Error, Kind, Molecule, Result, SpatialRegion, Store,
};
use aqueduct_comm::Comm;

use crate::FuzzTarget;
use crate::input::{CORRECT_SUMS, check_kind, check_named, run_rank};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    name: "checkpoint_manifest",
    run,
    seeds,
    words: &[
        "\"kind\":\"cells\"",
        "\"kind\":\"array\"",
        "\"kind\":\"value\"",
        "\"kind\":\"list\"",
        "\"sums\":[]",
        "\"shape\":[18446744073709551615]",
        "\"count\":18446744073709551615",
        "../",
        "\0",
        "{\"name\":\"x\",",
    ],
};

/// Number of values of all parts.
const VALUES: usize = 35;
/// Kinds of errors of invalid manifests.
const REFUSALS: [Kind; 7] = [
    Kind::Damaged,
    Kind::UnknownVersion,
    Kind::WrongType,
    Kind::NoSuchName,
    Kind::BadArgument,
    Kind::NoSuchFile,
    Kind::BadName,
];

fn run(input: &[u8]) -> bool {
    let Some((flags, text)) = input.split_first() else { return false };
    let (folder, _) = store_folder();
    let mut text = text.to_vec();
    if flags & CORRECT_SUMS != 0 {
        correct_sum(&mut text);
    }
    std::fs::write(manifest_path(folder), &text).expect("the manifest is written");
    run_rank(|world| {
        let restored = restore(world, folder);
        if let Ok(values) = &restored {
            assert!(*values <= VALUES, "{values} values of {VALUES}");
        }
        let name = folder.to_str().expect("the temporary folder has a UTF-8 name");
        check_named(Store::open(world, folder).and_then(|store| store.latest().map(drop)), name);
        Ok::<_, Error>(check_kind(restored, name, &REFUSALS))
    })
}

fn manifest_path(folder: &Path) -> PathBuf {
    folder.join("generation-0000000001").join("manifest.json")
}

/// Replaces everything after the first line by the checksum of that line.
fn correct_sum(text: &mut Vec<u8>) {
    let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
    text.truncate(end);
    let sum = format!("\ncrc32c {:08x}\n", crc32c::crc32c(text));
    text.extend_from_slice(sum.as_bytes());
}

/// Reads all parts of the generation; the number of values.
fn restore(world: &Comm, folder: &Path) -> Result<usize> {
    let generation = Store::open(world, folder)?.generation(1)?;
    let names: Vec<String> = generation.parts().map(str::to_owned).collect();
    let mut values = 0;
    let mut outcome = Ok(());
    for name in &names {
        // Each part as each kind: a mutated manifest may contain any kind.
        let counts = [
            generation.cells::<Molecule>(name, &SpatialRegion::EVERYWHERE).map(|found| found.len()),
            generation.array::<f64>(name, &ArrayBlock::new([10], [0], [10])).map(|found| found.len()),
            generation.objects::<String>(name).map(|found| found.len()),
            generation.objects::<u64>(name).map(|found| found.len()),
            generation.value::<f64>(name).map(|_| 0),
        ];
        for error in counts.iter().filter_map(|count| count.as_ref().err()) {
            assert!(REFUSALS.contains(&error.kind()), "{:?}: {error}", error.kind());
        }
        values += counts.iter().flatten().max().copied().unwrap_or(0);
        outcome = outcome.and(counts.into_iter().find(Result::is_ok).unwrap_or(Ok(0)).map(drop));
    }
    outcome?;
    generation.verify()?;
    Ok(values)
}

/// The store of this process, and its manifest as it was written.
fn store_folder() -> (&'static Path, &'static [u8]) {
    static STORE: OnceLock<(tempfile::TempDir, Vec<u8>)> = OnceLock::new();
    let (folder, manifest) = STORE.get_or_init(|| {
        let folder = tempfile::Builder::new().prefix("fuzzed-store").tempdir().expect("a temporary folder");
        run_rank(|world| write(world, folder.path()));
        let manifest = std::fs::read(manifest_path(folder.path())).expect("the manifest was written");
        (folder, manifest)
    });
    (folder.path(), manifest)
}

fn write(world: &Comm, folder: &Path) -> Result<()> {
    let length = [10.0, 20.0, 5.0];
    let grid = CellGrid::new(length, [2, 2, 1]).expect("the box has a volume");
    let molecules: Vec<Molecule> =
        (0..20).map(|id| Molecule::new(id, [0.5 * id as f64, id as f64, 1.5], [0.1; 3])).collect();
    let mut checkpoint = Checkpoint::new(1);
    let field = [1.5f64; 10];
    checkpoint.value("time", &2.5f64).cells("molecules", &grid, &molecules);
    checkpoint.array("field", &ArrayBlock::new([10], [0], [10]), &field);
    checkpoint.objects("texts", &["a".to_owned(), "bc".to_owned()]).objects("numbers", &[1u64, 2, 3]);
    Store::open(world, folder)?.write(&checkpoint).map(drop)
}

fn seeds() -> Vec<Vec<u8>> {
    let (_, manifest) = store_folder();
    [CORRECT_SUMS, 0].map(|flags| [&[flags], manifest].concat()).into()
}
