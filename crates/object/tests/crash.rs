//! Simulated power cuts in every operation of a sequence of writes and commits. A reader then finds the last committed state, the one that was being
//! committed, or the error that the file is incomplete.

use std::sync::Arc;

use aqueduct_comm::{Comm, Launch};
use aqueduct_device::layers::CrashDevice;
use aqueduct_device::{MemFs, register_device};
use aqueduct_file::Mode;
use aqueduct_object::{Error, Kind, Object, ObjectFile, ObjectOpenOptions, repair};

#[derive(Object, Clone, Debug, PartialEq)]
struct Fixed {
    id: u64,
    values: [u64; 31],
}

#[derive(Object, Clone, Debug, PartialEq)]
struct Loose {
    id: u64,
    text: String,
}

trait Numbered: Object + Clone + std::fmt::Debug + PartialEq + Send {
    fn number(number: u64) -> Self;
}

impl Numbered for Fixed {
    fn number(number: u64) -> Self {
        Self { id: number, values: [number; 31] }
    }
}

impl Numbered for Loose {
    fn number(number: u64) -> Self {
        Self { id: number, text: "x".repeat(number as usize % 300) }
    }
}

/// The committed state, and the states that a reader may find as well.
#[derive(Default)]
struct Progress {
    committed: Option<Vec<u64>>,
    /// The state of the commit that was in progress.
    next: Option<Vec<u64>>,
    overwriting: bool,
}

fn objects<T: Numbered>(numbers: &[u64]) -> Vec<T> {
    numbers.iter().map(|number| T::number(*number)).collect()
}

/// Appends, commits, appends across several blocks, overwrites and appends, until the power cut.
fn write_until_cut<T: Numbered>(world: &Comm, name: &str, progress: &mut Progress) -> Result<(), Error> {
    let file = ObjectOpenOptions::new(Mode::read_write().create()).open::<T>(world, name)?;
    let mut numbers: Vec<u64> = Vec::new();
    let rounds: [(u64, &[u64]); 6] = [
        (0, &[1, 2, 3]),
        (3, &[4, 5, 6, 7, 8]),
        (1, &[100, 101]),
        (8, &[9; 300]),
        (10, &[77; 100]),
        (0, &[50]),
    ];
    for (start, new) in rounds {
        let end = start as usize + new.len();
        progress.overwriting = (start as usize) < numbers.len();
        numbers.resize(numbers.len().max(end), 0);
        numbers[start as usize..end].copy_from_slice(new);
        let mine = objects::<T>(new);
        let part = mine.len().div_ceil(world.size());
        let (from, to) = ((world.rank() * part).min(mine.len()), ((world.rank() + 1) * part).min(mine.len()));
        file.at(start + from as u64).all().write(&mine[from..to])?;
        progress.next = Some(numbers.clone());
        file.commit()?;
        *progress = Progress { committed: Some(numbers.clone()), next: None, overwriting: false };
    }
    file.close()
}

/// Checks what a reader finds; true if the file could be read.
fn found<T: Numbered>(name: &str) -> Result<Vec<T>, Error> {
    let read = |world: &Comm| {
        Ok::<_, Error>(ObjectFile::<T>::open(world, name).and_then(|file| file.at(0).read_vec(9999)))
    };
    Launch::threads(1).run(read).unwrap().remove(0)
}

fn check_reader<T: Numbered>(name: &str, progress: &Progress, context: &str) -> bool {
    let states = [progress.committed.as_ref(), progress.next.as_ref()];
    match found::<T>(name) {
        Ok(found) => {
            let known = states.iter().flatten().any(|state| objects::<T>(state) == found);
            assert!(known, "{context}: {} objects that never were together", found.len());
            true
        }
        Err(error) => {
            let nothing = progress.committed.is_none();
            let clear = match error.kind() {
                Kind::Incomplete => nothing || progress.overwriting,
                Kind::NoMetadata | Kind::NoSuchFile => nothing,
                _ => false,
            };
            assert!(clear, "{context}: {error}");
            false
        }
    }
}

/// Cuts the power in every operation; returns how often the file could be read, and how often not.
fn cut_everywhere<T: Numbered>(prefix: &str, ranks: usize) -> (usize, usize) {
    let (mut read, mut refused) = (0, 0);
    for seed in 0..4u64 {
        for after in 0.. {
            let crash = CrashDevice::new(Arc::new(MemFs::new())).after(after, seed * 1000 + after);
            let prefix = format!("{prefix}-{seed}-{after}");
            register_device(&prefix, Arc::new(crash)).unwrap();
            let name = format!("{prefix}:a");
            let run = |world: &Comm| {
                let mut progress = Progress::default();
                let outcome = write_until_cut::<T>(world, &name, &mut progress);
                Ok::<_, Error>((progress, outcome.is_ok()))
            };
            let mut outcomes = Launch::threads(ranks).run(run).unwrap();
            let done = outcomes.iter().all(|(_, done)| *done);
            // Any rank may have returned from the commit, and none from one that did not happen.
            outcomes.sort_by_key(|(progress, _)| progress.committed.as_ref().map_or(0, Vec::len));
            let context = format!("{prefix}, power cut after {after} changes, seed {seed}");
            if check_reader::<T>(&name, &outcomes.pop().unwrap().0, &context) {
                read += 1;
            } else {
                refused += 1;
            }
            if done {
                break;
            }
            assert!(after < 1000, "the story has an end");
        }
    }
    (read, refused)
}

#[test]
fn power_cuts_with_objects_of_constant_size() {
    let (read, refused) = cut_everywhere::<Fixed>("cut-fixed", 1);
    assert!(read > 20 && refused > 20, "{read} read, {refused} refused");
}

#[test]
fn power_cuts_with_objects_of_variable_size() {
    let (read, refused) = cut_everywhere::<Loose>("cut-loose", 1);
    assert!(read > 20 && refused > 20, "{read} read, {refused} refused");
}

#[test]
fn power_cuts_with_two_ranks() {
    cut_everywhere::<Fixed>("cut-two", 2);
    cut_everywhere::<Loose>("cut-both", 2);
}

#[test]
fn incomplete_files_can_be_repaired() {
    Launch::threads(2)
        .run(|world| {
            let name = "memfs:crash-repair";
            let file = ObjectFile::create(world, name)?;
            file.at(0).all().write(&objects::<Fixed>(&[1, 2, 3, 4]))?;
            file.close()?;
            let file = ObjectOpenOptions::new(Mode::read_write()).open::<Fixed>(world, name)?;
            file.at(1).all().write(&objects::<Fixed>(&[9]))?;
            drop(file);
            world.barrier()?;
            assert_eq!(ObjectFile::<Fixed>::open(world, name).unwrap_err().kind(), Kind::Incomplete);
            let repaired = repair::<Fixed>(world, name)?;
            assert_eq!((repaired.objects, repaired.mixed, repaired.rebuilt), (4, true, false));
            let file = ObjectFile::<Fixed>::open(world, name)?;
            assert_eq!(file.at(0).all().read_vec(9)?, objects(&[1, 9, 3, 4]));
            file.close()?;
            // The .meta is missing.
            world.barrier()?;
            if world.rank() == 0 {
                aqueduct_file::delete("memfs:crash-repair.meta")?;
            }
            world.barrier()?;
            let repaired = repair::<Fixed>(world, name)?;
            assert_eq!((repaired.objects, repaired.rebuilt), (4, true));
            let name = "memfs:crash-loose";
            let file = ObjectFile::create(world, name)?;
            file.shared().all().write(&objects::<Loose>(&[100, 2]))?;
            file.close()?;
            if world.rank() == 0 {
                aqueduct_file::delete("memfs:crash-loose.meta")?;
            }
            world.barrier()?;
            assert_eq!(repair::<Loose>(world, name)?.objects, 4);
            let file = ObjectFile::<Loose>::open(world, name)?;
            assert_eq!(file.at(0).all().read_vec(9)?, objects(&[100, 2, 100, 2]));
            file.close()
        })
        .unwrap();
}
