//! Writing a generation, all or nothing.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use aqueduct_comm::{Comm, Op};
use aqueduct_file::{File, Mode, Open};

use super::held::HeldGenerations;
use super::manifest::{Entry, Manifest, digits};
use super::outline::CheckpointOutline;
use super::part::{Checkpoint, Part, is_name};
use super::{Keep, array, folder, list, listed, numbers, part_path};
use crate::cells;
use crate::cells::rows::Rows;
use crate::error::{Error, Kind, Result, agree, from_first};
use crate::opening::ExistingFile;

/// A folder, and the device that its files are accessed through.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) folder: PathBuf,
    pub(super) through: String,
    pub(super) held: HeldGenerations,
}

/// What came of a checkpoint.
#[derive(Debug)]
pub(super) struct CommitOutcome {
    pub(super) generation: u64,
    /// What went wrong beside it, and does not make it less of a checkpoint; at rank 0.
    pub(super) warnings: Vec<String>,
}

impl Place {
    /// The name that the engine gets for a path. A path that could be taken for a prefix is told apart by its device.
    pub(super) fn name(&self, path: &Path) -> String {
        let prefix = if self.through.is_empty() { "ufs:" } else { &self.through };
        format!("{prefix}{}", path.to_string_lossy())
    }
}

/// A block of a part, which has a checksum.
const BLOCK: u64 = 1 << 20;

/// Writes a generation.
pub(super) fn commit(
    comm: &Comm,
    place: &Place,
    keep: Keep,
    checkpoint: &Checkpoint<'_>,
) -> Result<CommitOutcome> {
    let shown = place.folder.to_string_lossy().into_owned();
    same(comm, &shown, checkpoint)?;
    let mut warnings = Vec::new();
    let begun = from_first(comm, "begin", &shown, || {
        let (number, found) = folder::begin(&place.folder)?;
        warnings = found;
        Ok(number.to_le_bytes().to_vec())
    })?;
    let generation = u64::from_le_bytes(begun.first_chunk().copied().unwrap_or_default());
    let writing = folder::writing(&place.folder, generation);
    let outcome = fill(comm, place, &writing, generation, checkpoint).and_then(|()| {
        from_first(comm, "commit", &shown, || folder::commit(&place.folder, generation).map(|()| Vec::new()))
    });
    match outcome {
        Ok(_) => {
            // The generation is there, whatever becomes of older ones.
            if comm.rank() == 0 {
                warnings.extend(prune_here(place, keep).err().map(|error| error.to_string()));
            }
            Ok(CommitOutcome { generation, warnings })
        }
        Err(error) => {
            // What is left would only take room; the next one removes it, if this does not.
            if comm.rank() == 0 {
                let _ = std::fs::remove_dir_all(&writing);
            }
            Err(error)
        }
    }
}

/// Whether all ranks bring the same parts, and all of them can be stored.
fn same(comm: &Comm, shown: &str, checkpoint: &Checkpoint<'_>) -> Result<()> {
    let refuse = |kind, detail: String| Err(Error::new(kind, "write", shown, detail));
    let mut names: Vec<&str> = checkpoint.parts.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let mine = || {
        if let Some(name) = names.iter().find(|name| !is_name(name)) {
            return refuse(
                Kind::BadArgument,
                format!("a part cannot be called {name:?}: letters, digits, _, - and . only"),
            );
        }
        if let Some(&[name, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return refuse(
                Kind::BadArgument,
                format!("two parts are called {name:?}; give each a name of its own"),
            );
        }
        checkpoint.parts.iter().try_for_each(|(name, part)| match part {
            Part::Refused(why) => refuse(Kind::BadArgument, format!("part {name:?}: {why}")),
            _ => Ok(()),
        })
    };
    agree(comm, "write", shown, mine())?;
    let talk = |error| Error::talk("write", shown, &error);
    let mine = checkpoint.fingerprint();
    let first = comm.broadcast_vec(0, vec![mine]).map_err(talk)?;
    let differ = comm.allreduce_one(Op::Max, u8::from(first != [mine])).map_err(talk)?;
    if differ == 0 {
        return Ok(());
    }
    let mine = CheckpointOutline::of(checkpoint);
    let first = comm.broadcast_vec(0, mine.encode()).map_err(talk)?;
    let outcome = match mine.difference(&first) {
        Some(what) => {
            refuse(Kind::NotSame, format!("{what}; give all ranks the same parts, in the same order"))
        }
        None => Ok(()),
    };
    agree(comm, "write", shown, outcome)?;
    refuse(Kind::NotSame, "the ranks' checkpoints differ; give all ranks the same parts".to_owned())
}

/// Writes all parts and the manifest.
fn fill(comm: &Comm, place: &Place, writing: &Path, number: u64, checkpoint: &Checkpoint<'_>) -> Result<()> {
    let mut entries = Vec::new();
    for (name, part) in &checkpoint.parts {
        let path = part_path(writing, name, part.word());
        let entry = put(comm, &place.name(&path), part)?;
        entries.push(Entry { name: name.clone(), kind: part.word().into(), ..entry });
    }
    let name = place.name(&writing.join("manifest.json"));
    from_first(comm, "write", &name, || {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let manifest = Manifest::new(number, checkpoint.step, time, comm.size() as u64, entries);
        let text = manifest.encode().map_err(|why| Error::new(Kind::BadArgument, "write", &name, why))?;
        let file = Open::new(Mode::write_only().create()).open(&comm.alone(), &name)?;
        file.at(0).write(text.as_bytes())?;
        file.sync()?;
        file.close()?;
        Ok(Vec::new())
    })?;
    Ok(())
}

/// Writes a part and syncs it; what the manifest says of it. The sums are at rank 0.
fn put(comm: &Comm, name: &str, part: &Part<'_>) -> Result<Entry> {
    match part {
        Part::Cells { grid, rows, row, order } => {
            let rows = Rows { bytes: rows, row: *row, order };
            cells::write_rows(comm, name, grid, rows, ExistingFile::Replace)?;
            let file = Open::new(Mode::read_only()).open(comm, name)?;
            let entry = Entry { bytes: file.size()?, sums: vec![head_sum(&file)?], ..Entry::default() };
            file.close()?;
            Ok(entry)
        }
        Part::Array { kind, element, block, bytes } => array::write(comm, name, kind, *element, block, bytes),
        Part::Objects { kind, size, count, bytes, ends } => {
            list::write(comm, name, kind, *size, *count, bytes, ends)
        }
        Part::Value { schema, bytes } => {
            let (value, signature) = (Some(digits(bytes)), schema.signature().to_owned());
            Ok(Entry { bytes: bytes.len() as u64, signature, value, ..Entry::default() })
        }
        Part::Refused(why) => Err(Error::new(Kind::BadArgument, "write", name, why)),
    }
}

/// The checksum of a cell file's header, which leads to all others.
pub(super) fn head_sum(file: &File) -> Result<u32> {
    let mut head = [0_u8; 512];
    file.at(0).all().read(&mut head)?;
    Ok(crc32c::crc32c(&head))
}

/// The checksums of all blocks of a file, at rank 0; each rank reads a share of them.
pub(super) fn sums(comm: &Comm, file: &File, length: u64) -> Result<Vec<u32>> {
    let name = file.name();
    let blocks = length.div_ceil(BLOCK);
    let part = |rank: usize| (u128::from(blocks) * rank as u128 / comm.size() as u128) as u64;
    let mut buffer = vec![0; BLOCK.min(length) as usize];
    let sum = |block: u64| {
        let wanted = (length - block * BLOCK).min(BLOCK) as usize;
        let read = file.at(block * BLOCK).read(&mut buffer[..wanted])?.bytes();
        if read < wanted as u64 {
            let detail = format!("byte {}: the file ends here, not at {length}", block * BLOCK + read);
            return Err(Error::new(Kind::Damaged, "read", name, detail));
        }
        Ok(crc32c::crc32c(&buffer[..wanted]))
    };
    let mine: Result<Vec<u32>> = (part(comm.rank())..part(comm.rank() + 1)).map(sum).collect();
    let mine = agree(comm, "read", name, mine)?;
    let all = comm.gather_varied(0, &mine).map_err(|error| Error::talk("read", name, &error))?;
    Ok(all.unwrap_or_default().concat())
}

/// The first block whose checksum is not what it should be, as a message; at rank 0.
pub(super) fn differing(found: &[u32], expected: &[u32]) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} checksums for {} blocks", expected.len(), found.len()));
    }
    let block = found.iter().zip(expected).position(|(found, expected)| found != expected)?;
    Some(format!("byte {}: the checksum of this block is wrong", block as u64 * BLOCK))
}

/// Removes what is not to be kept; which.
pub(super) fn prune(comm: &Comm, place: &Place, keep: Keep) -> Result<Vec<u64>> {
    let shown = place.folder.to_string_lossy();
    let removed = from_first(comm, "prune", &shown, || Ok(listed(&prune_here(place, keep)?)))?;
    Ok(numbers(&removed))
}

/// The same, on the one rank that does it. Generations that this program reads stay, and so does what is no generation.
fn prune_here(place: &Place, keep: Keep) -> Result<Vec<u64>> {
    let mut outcome = Ok(());
    let (mut gone, mut retired) = (Vec::new(), Vec::new());
    place.held.locked(|held| {
        let all = folder::list(&place.folder)?.generations;
        let older = &all[..all.len().saturating_sub(1)];
        let is_old = |number: &u64| match keep {
            Keep::All => false,
            Keep::Last(count) => !all[all.len().saturating_sub(count.max(1))..].contains(number),
            Keep::Younger(age) => is_older(&place.folder, *number, age),
        };
        for number in older.iter().filter(|number| is_old(number) && !held.contains(number)) {
            match folder::retire(&place.folder, *number) {
                Ok(path) => {
                    gone.push(*number);
                    retired.push(path);
                }
                // One that stays does not keep the others.
                Err(error) => outcome = std::mem::replace(&mut outcome, Ok(())).and(Err(error)),
            }
        }
        Ok::<_, Error>(())
    })?;
    outcome.and(folder::remove(&place.folder, &retired)).map(|()| gone)
}

/// Whether a generation was committed longer ago; by its folder, since its manifest may be damaged.
fn is_older(folder: &Path, number: u64, age: std::time::Duration) -> bool {
    let made = std::fs::metadata(folder::committed(folder, number)).and_then(|data| data.modified());
    made.is_ok_and(|made| made.elapsed().is_ok_and(|elapsed| elapsed > age))
}
