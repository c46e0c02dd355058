//! Checkpoint stores: atomic generations, restart on any number of ranks, retention, damage.

mod fixture;
#[path = "fixture/state.rs"]
mod state;

use std::path::Path;
use std::time::Duration;

use aqueduct_checkpoint::{ArrayBlock, Checkpoint, Error, Kind, Result, Retention, Store};
use aqueduct_comm::{Comm, Launch};
use fixture::{DECOMPOSITIONS, Decomposition};

use state::{COLUMNS, Pair, ROWS, Walker, check, rows, save};

#[test]
fn generations_are_restored_on_any_number_of_ranks() {
    for writers in 1..=7 {
        let folder = tempfile::tempdir().unwrap();
        let how = DECOMPOSITIONS[writers % 2];
        let write = |world: &Comm| {
            let mut store = Store::open_or_create(world, folder.path())?;
            save(world, &mut store, 5, how, false)?;
            save(world, &mut store, 6, how, true)?;
            assert_eq!(store.wait()?, Some(2));
            assert_eq!(store.wait()?, None);
            Ok::<_, Error>(())
        };
        Launch::threads(writers).run(write).unwrap();
        for readers in 1..=7 {
            let how = DECOMPOSITIONS[(readers / 2) % 2];
            let read = |world: &Comm| check(world, &Store::open_or_create(world, folder.path())?, how);
            assert_eq!(
                Launch::threads(readers).run(read).unwrap(),
                vec![Some(6); readers],
                "{writers} to {readers}"
            );
        }
    }
}

#[test]
fn generations_are_kept_by_the_retention_rule() {
    let folder = tempfile::tempdir().unwrap();
    let run = |world: &Comm| {
        let save = |keep: Retention, step| -> Result<Vec<u64>> {
            let mut store = Store::open_or_create(world, folder.path())?.retention(keep);
            save(world, &mut store, step, Decomposition::Regular, step % 2 == 0)?;
            store.wait()?;
            store.generations()
        };
        assert_eq!(save(Retention::All, 1)?, [1]);
        assert_eq!(save(Retention::All, 2)?, [1, 2]);
        assert_eq!(save(Retention::All, 3)?, [1, 2, 3]);
        assert_eq!(save(Retention::Last(2), 4)?, [3, 4]);
        assert_eq!(save(Retention::NewerThan(Duration::from_secs(3600)), 5)?, [3, 4, 5]);
        assert_eq!(save(Retention::NewerThan(Duration::ZERO), 6)?, [6]);
        assert_eq!(save(Retention::Last(0), 7)?, [7]);
        let mut store = Store::open_or_create(world, folder.path())?;
        assert!(store.prune()?.is_empty());
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(run).unwrap();
    assert_eq!(entries(folder.path()), [".lock", "generation-0000000007"]);
}

fn entries(folder: &Path) -> Vec<String> {
    let entry =
        |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> = std::fs::read_dir(folder).unwrap().map(entry).collect();
    names.sort();
    names
}

#[test]
fn a_file_in_place_of_the_folder_is_an_error_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("checkpoints");
    std::fs::write(&file, "not a folder").unwrap();
    for path in [file.clone(), file.join("below")] {
        let outcomes =
            Launch::threads(2).run(|world| Ok::<_, Error>(Store::open_or_create(world, &path).unwrap_err()));
        for error in outcomes.unwrap() {
            let text = error.to_string();
            assert!(text.starts_with("open") && text.contains(&path.display().to_string()), "{text}");
            assert!(text.contains(&format!("{} is a file", file.display())), "{text}");
            assert!(text.contains("choose another folder, or move the file away"), "{text}");
        }
    }
}

#[test]
fn a_full_disk_keeps_the_previous_generation_and_returns_no_space() {
    for later in [false, true] {
        // The medium becomes full at any point of a commit, or any sync or write fails.
        let sizes = (0..40).map(|turn| format!("nospace={}", turn * 700));
        let syncs = (1..14).map(|turn| format!("sync=nospace@#{turn}"));
        let writes = (1..14).map(|turn| format!("write=nospace@#{turn},rank=0"));
        let mut failures = 0;
        for (turn, fault) in sizes.chain(syncs).chain(writes).enumerate() {
            let folder = tempfile::tempdir().unwrap();
            let prefix = format!("fault=seed={},{fault}:ufs:", turn + 1000 * usize::from(later));
            let outcomes = Launch::threads(2).run(|world| {
                let mut store = Store::open_or_create(world, folder.path())?;
                save(world, &mut store, 1, Decomposition::KdTree, false)?;
                drop(store);
                let mut store = Store::open_or_create(world, folder.path())?.with_device(&prefix);
                let outcome = save(world, &mut store, 2, Decomposition::KdTree, later)
                    .and_then(|()| store.wait().map(|_| ()));
                Ok::<_, Error>(outcome.err())
            });
            let outcomes = outcomes.unwrap();
            let expected = if outcomes[0].is_some() { 1 } else { 2 };
            failures += usize::from(expected == 1);
            for error in &outcomes {
                assert_eq!(error.is_some(), expected == 1, "{fault}: the ranks agree");
                if let Some(error) = error {
                    assert_eq!(error.kind(), aqueduct_file::Kind::NoSpace, "{fault}: {error}");
                }
            }
            let step = |world: &Comm| {
                check(world, &Store::open_or_create(world, folder.path())?, Decomposition::Regular)
            };
            assert_eq!(Launch::threads(3).run(step).unwrap(), [Some(expected); 3], "{fault}");
            let whole: Vec<String> =
                (1..=expected).map(|number| format!("generation-{number:010}")).collect();
            assert_eq!(entries(folder.path())[1..], whole, "{fault}: no other entries");
        }
        assert!(failures > 30, "only {failures} of them failed");
    }
}

#[test]
fn a_damaged_generation_is_skipped_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let run = |world: &Comm| {
        let mut store = Store::open_or_create(world, folder.path())?.retention(Retention::All);
        (1..=3).try_for_each(|step| save(world, &mut store, step, Decomposition::Regular, false))
    };
    Launch::threads(2).run(run).unwrap();
    let newest = folder.path().join("generation-0000000003");
    let files: Vec<_> = std::fs::read_dir(&newest).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 5, "{files:?}");
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let ways: [fn(&mut Vec<u8>); 4] = [
            |bytes| bytes[10] ^= 4,
            |bytes| *bytes.last_mut().unwrap() ^= 4,
            |bytes| bytes.truncate(bytes.len() - 1),
            |bytes| bytes.push(0),
        ];
        for way in ways {
            let mut broken = bytes.clone();
            way(&mut broken);
            std::fs::write(&file, &broken).unwrap();
            let look = |world: &Comm| {
                let store = Store::open_or_create(world, folder.path())?;
                let latest = store.latest()?.expect("an older one");
                let skipped = latest.skipped();
                assert!(skipped.len() == 1 && skipped[0].generation == 3);
                assert!(skipped[0].error.kind() == Kind::Damaged, "{}", skipped[0].error);
                Ok::<_, Error>((latest.number(), check(world, &store, Decomposition::KdTree)?))
            };
            assert_eq!(Launch::threads(3).run(look).unwrap(), [(2, Some(2)); 3], "{}", file.display());
        }
        std::fs::write(&file, &bytes).unwrap();
    }
    let sound =
        |world: &Comm| check(world, &Store::open_or_create(world, folder.path())?, Decomposition::KdTree);
    assert_eq!(Launch::threads(1).run(sound).unwrap(), [Some(3)]);
}

#[test]
fn parts_are_selected_by_name_and_type() {
    let folder = tempfile::tempdir().unwrap();
    let run = |world: &Comm| {
        let mut store = Store::open_or_create(world, folder.path())?;
        assert!(store.latest()?.is_none());
        assert_eq!(store.generation(1).unwrap_err().kind(), Kind::NoCheckpoint);
        save(world, &mut store, 1, Decomposition::Regular, false)?;
        let latest = store.generation(1)?;
        assert_eq!(latest.parts().collect::<Vec<_>>(), ["time", "molecules", "field", "walkers", "pairs"]);
        assert_eq!((latest.ranks(), latest.has("field"), latest.has("fields")), (2, true, false));
        let kinds = [
            latest.value::<f64>("times").map(|_| ()),
            latest.value::<f32>("time").map(|_| ()),
            latest.array::<f64>("field", &rows(world)).map(|_| ()),
            latest.array::<i32>("field", &ArrayBlock::new([12], [0], [12])).map(|_| ()),
            latest.array::<i32>("field", &ArrayBlock::new([ROWS, COLUMNS], [0, 8], [1, 3])).map(|_| ()),
            latest.objects::<Pair>("walkers").map(|_| ()),
            latest.objects::<Walker>("field").map(|_| ()),
        ];
        let kinds: Vec<Kind> = kinds.into_iter().map(|outcome| outcome.unwrap_err().kind()).collect();
        assert_eq!(
            kinds,
            [
                Kind::NoSuchName,
                Kind::WrongType,
                Kind::WrongType,
                Kind::BadArgument,
                Kind::BadArgument,
                Kind::WrongType,
                Kind::WrongType
            ]
        );
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(run).unwrap();
}

#[test]
fn an_invalid_checkpoint_is_an_error_on_all_ranks_and_leaves_no_files() {
    type Make = fn(&Comm, &mut Checkpoint<'_>);
    let cases: [(Make, Kind); 9] = [
        (|_, checkpoint| _ = checkpoint.value("a/b", &1_u8), Kind::BadArgument),
        (|_, checkpoint| _ = checkpoint.value(".a", &1_u8), Kind::BadArgument),
        (|_, checkpoint| _ = checkpoint.value("a", &1_u8).value("a", &1_u8), Kind::BadArgument),
        (|world, checkpoint| _ = checkpoint.value("a", &world.rank()), Kind::NotSame),
        (|world, checkpoint| _ = (world.rank() == 1).then(|| checkpoint.value("a", &1_u8)), Kind::NotSame),
        (
            |_, checkpoint| _ = checkpoint.array("a", &ArrayBlock::new([4], [0], [3]), &[0_u8; 4]),
            Kind::BadArgument,
        ),
        (
            |_, checkpoint| _ = checkpoint.array("a", &ArrayBlock::new([4], [2], [3]), &[0_u8; 3]),
            Kind::BadArgument,
        ),
        (
            |_, checkpoint| _ = checkpoint.array("a", &ArrayBlock::new([4], [0], [2]), &[0_u8; 2]),
            Kind::Overlap,
        ),
        (
            |world, checkpoint| {
                _ = checkpoint.array("a", &ArrayBlock::new([9], [3 * world.rank() as u64], [3]), &[0_u8; 3]);
            },
            Kind::BadArgument,
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (make, kind) in cases {
        let outcomes = Launch::threads(2).run(|world| {
            let mut checkpoint = Checkpoint::new(1);
            make(world, &mut checkpoint);
            let mut store = Store::open_or_create(world, folder.path())?;
            Ok::<_, Error>(store.write(&checkpoint).unwrap_err().kind())
        });
        assert_eq!(outcomes.unwrap(), [kind; 2]);
    }
    assert_eq!(entries(folder.path()), [".lock"]);
}

#[test]
fn a_block_outside_of_the_array_is_an_error_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let outcomes = Launch::threads(2).run(|world| {
        let mut store = Store::open_or_create(world, folder.path())?;
        let mut checkpoint = Checkpoint::new(1);
        checkpoint.array("a", &ArrayBlock::new([4], [2], [3]), &[0_u8; 3]);
        let outside = store.write(&checkpoint).unwrap_err().to_string();
        let mut checkpoint = Checkpoint::new(1);
        checkpoint.array("a", &ArrayBlock::new([4], [0], [3]), &[0_u8; 4]);
        let many = store.write(&checkpoint).unwrap_err().to_string();
        save(world, &mut store, 1, Decomposition::Regular, false)?;
        let block = ArrayBlock::new([ROWS, COLUMNS], [0, COLUMNS - 1], [1, 3]);
        let read = store.generation(1)?.array::<i32>("field", &block).unwrap_err().to_string();
        Ok::<_, Error>([outside, many, read])
    });
    for [outside, many, read] in outcomes.unwrap() {
        let flaw =
            "the block of [3] from [2] on is not inside the array of shape [4]; give a block inside it";
        assert!(outside.contains("\"a\"") && outside.contains(flaw), "{outside}");
        assert!(many.contains("4 values for a block of 3; give one for each element"), "{many}");
        assert!(read.contains("\"field\"") && read.contains("is not inside the array"), "{read}");
    }
}

#[test]
fn a_generation_that_another_store_of_the_process_reads_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let run = |world: &Comm| {
        let mut writer = Store::open_or_create(world, folder.path())?.retention(Retention::Last(1));
        save(world, &mut writer, 1, Decomposition::Regular, false)?;
        // The same folder under another path.
        let reader = Store::open(world, folder.path().join("."))?;
        let held = reader.generation(1)?;
        save(world, &mut writer, 2, Decomposition::Regular, false)?;
        save(world, &mut writer, 3, Decomposition::Regular, false)?;
        assert_eq!(reader.generations()?, [1, 3]);
        held.verify()?;
        world.barrier()?;
        drop(held);
        world.barrier()?;
        writer.prune()?;
        assert_eq!(reader.generations()?, [3]);
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(run).unwrap();
}

#[test]
fn a_store_has_one_writer_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let run = |world: &Comm| {
        let mut first = Store::open_or_create(world, folder.path())?;
        let mut second = Store::open_or_create(world, folder.path())?;
        save(world, &mut first, 1, Decomposition::Regular, false)?;
        assert_eq!(
            save(world, &mut second, 2, Decomposition::Regular, false).unwrap_err().kind(),
            Kind::InUse
        );
        drop(first);
        // All ranks have dropped the store.
        world.barrier()?;
        save(world, &mut second, 2, Decomposition::Regular, false)?;
        assert_eq!(second.generations()?, [1, 2]);
        Ok::<_, Error>(())
    };
    Launch::threads(3).run(run).unwrap();
}
