//! Writing and committing a generation.

use std::path::{Path, PathBuf};

use aqueduct_comm::Comm;
use aqueduct_comm::agreement::first_differing_ranks;
use aqueduct_file::{File, OpenOptions};
use aqueduct_object::FileProvenance;

use super::held_generations::HeldGenerations;
use super::manifest::{Manifest, ManifestEntry, to_hex};
use super::outline::CheckpointOutline;
use super::part::{Checkpoint, CheckpointPart, is_name};
use super::{Retention, array, decode_numbers, encode_numbers, folder, object_list, part_path};
use crate::error::{Error, Kind, Result, agree, on_root};
use crate::existing_file::ExistingFile;
use crate::particle_cells;
use crate::particle_cells::row_checksums::ParticleRows;

/// The folder of a store, and the device for its files.
#[derive(Clone, Debug)]
pub(super) struct StoreLocation {
    pub(super) folder: PathBuf,
    pub(super) device_prefix: String,
    pub(super) held: HeldGenerations,
}

/// The result of a checkpoint.
#[derive(Debug)]
pub(super) struct CommitOutcome {
    pub(super) generation: u64,
    /// Problems that did not make the checkpoint fail; at rank 0.
    pub(super) warnings: Vec<String>,
}

impl StoreLocation {
    /// The name of a path for the file layer. The device prefix avoids that a part of the path is taken for one.
    pub(super) fn name(&self, path: &Path) -> String {
        let prefix = if self.device_prefix.is_empty() { "ufs:" } else { &self.device_prefix };
        format!("{prefix}{}", path.to_string_lossy())
    }
}

/// The size in bytes of a block of a part; each block has a checksum.
const BLOCK: u64 = 1 << 20;

/// Writes a generation.
pub(super) fn commit(
    comm: &Comm,
    place: &StoreLocation,
    keep: Retention,
    checkpoint: &Checkpoint<'_>,
) -> Result<CommitOutcome> {
    let shown = place.folder.to_string_lossy().into_owned();
    check_same_on_all(comm, &shown, checkpoint)?;
    let mut warnings = Vec::new();
    let begun = on_root(comm, "begin", &shown, || {
        let (number, found) = folder::begin(&place.folder)?;
        warnings = found;
        Ok(number.to_le_bytes().to_vec())
    })?;
    let generation = u64::from_le_bytes(begun.first_chunk().copied().unwrap_or_default());
    let writing = folder::writing(&place.folder, generation);
    let outcome = fill(comm, place, &writing, generation, checkpoint).and_then(|()| {
        on_root(comm, "commit", &shown, || folder::commit(&place.folder, generation).map(|()| Vec::new()))
    });
    match outcome {
        Ok(_) => {
            // The generation is committed, even if older ones cannot be removed.
            if comm.rank() == 0 {
                warnings.extend(prune_here(place, keep).err().map(|error| error.to_string()));
            }
            Ok(CommitOutcome { generation, warnings })
        }
        Err(error) => {
            // The unfinished folder only takes space. If this removal fails, the next checkpoint repeats it.
            if comm.rank() == 0 {
                let _ = std::fs::remove_dir_all(&writing);
            }
            Err(error)
        }
    }
}

/// Checks that all ranks have the same parts, and that all parts can be stored.
fn check_same_on_all(comm: &Comm, shown: &str, checkpoint: &Checkpoint<'_>) -> Result<()> {
    let refuse = |kind, detail: String| Err(Error::new(kind, "write", shown, detail));
    let mut names: Vec<&str> = checkpoint.parts.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let mine = || {
        if let Some(name) = names.iter().find(|name| !is_name(name)) {
            return refuse(
                Kind::BadArgument,
                format!(
                    "invalid name of a part {name:?}: use letters, digits, _, - and ., and no . at the beginning"
                ),
            );
        }
        if let Some(&[name, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return refuse(
                Kind::BadArgument,
                format!("two parts are called {name:?}; give each part its own name"),
            );
        }
        checkpoint.parts.iter().try_for_each(|(name, part)| match part {
            CheckpointPart::Invalid(why) => refuse(Kind::BadArgument, format!("part {name:?}: {why}")),
            _ => Ok(()),
        })
    };
    agree(comm, "write", shown, mine())?;
    let comm_error = |error| Error::from_comm("write", shown, &error);
    let fingerprint = Some(checkpoint.fingerprint());
    let [Some(_)] = first_differing_ranks(comm, [fingerprint]).map_err(comm_error)? else { return Ok(()) };
    let mine = CheckpointOutline::of(checkpoint);
    let first = comm.broadcast_vec(0, mine.encode()).map_err(comm_error)?;
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
fn fill(
    comm: &Comm,
    place: &StoreLocation,
    writing: &Path,
    number: u64,
    checkpoint: &Checkpoint<'_>,
) -> Result<()> {
    let mut entries = Vec::new();
    for (name, part) in &checkpoint.parts {
        let path = part_path(writing, name, part.word());
        let entry = put(comm, &place.name(&path), part)?;
        entries.push(ManifestEntry { name: name.clone(), kind: part.word().into(), ..entry });
    }
    let name = place.name(&writing.join("manifest.json"));
    on_root(comm, "write", &name, || {
        let writer = FileProvenance { ranks: comm.size() as u64, ..FileProvenance::now(comm) };
        let manifest = Manifest::new(number, checkpoint.step, writer, entries);
        let text = manifest.encode().map_err(|why| Error::new(Kind::BadArgument, "write", &name, why))?;
        let file = OpenOptions::new().write(true).create(true).open(&comm.comm_self(), &name)?;
        file.at(0).write(text.as_bytes())?;
        file.sync()?;
        file.close()?;
        Ok(Vec::new())
    })?;
    Ok(())
}

/// Writes a part and syncs it; returns its entry for the manifest. The checksums are at rank 0.
fn put(comm: &Comm, name: &str, part: &CheckpointPart<'_>) -> Result<ManifestEntry> {
    match part {
        CheckpointPart::Cells { grid, rows, row, order } => {
            let rows = ParticleRows { bytes: rows, row: *row, order };
            particle_cells::write_rows(comm, name, grid, rows, ExistingFile::Replace)?;
            let file = File::open(comm, name)?;
            let entry = ManifestEntry {
                bytes: file.size()?,
                sums: vec![head_sum(&file)?],
                ..ManifestEntry::default()
            };
            file.close()?;
            Ok(entry)
        }
        CheckpointPart::Array { kind, element, block, bytes } => {
            array::write(comm, name, kind, *element, block, bytes)
        }
        CheckpointPart::Objects { kind, size, count, bytes, ends } => {
            object_list::write(comm, name, kind, *size, *count, bytes, ends)
        }
        CheckpointPart::Value { schema, bytes } => {
            let (value, signature) = (Some(to_hex(bytes)), schema.signature().to_owned());
            Ok(ManifestEntry { bytes: bytes.len() as u64, signature, value, ..ManifestEntry::default() })
        }
        CheckpointPart::Invalid(why) => Err(Error::new(Kind::BadArgument, "write", name, why)),
    }
}

/// The checksum of a cell file's header, which covers the other checksums.
pub(super) fn head_sum(file: &File) -> Result<u32> {
    let mut head = [0_u8; 512];
    file.at(0).all().read(&mut head)?;
    Ok(crc32c::crc32c(&head))
}

/// The checksums of all blocks of a file, at rank 0. Each rank reads a share of the blocks.
pub(super) fn sums(comm: &Comm, file: &File, length: u64) -> Result<Vec<u32>> {
    let name = file.name();
    let blocks = length.div_ceil(BLOCK);
    let part = |rank: usize| (u128::from(blocks) * rank as u128 / comm.size() as u128) as u64;
    let mut buffer = vec![0; BLOCK.min(length) as usize];
    let sum = |block: u64| {
        let wanted = (length - block * BLOCK).min(BLOCK) as usize;
        let read = file.at(block * BLOCK).read(&mut buffer[..wanted])?.bytes();
        if read < wanted as u64 {
            let detail = format!("byte {}: the file ends here, not at byte {length}", block * BLOCK + read);
            return Err(Error::new(Kind::Damaged, "read", name, detail));
        }
        Ok(crc32c::crc32c(&buffer[..wanted]))
    };
    let mine: Result<Vec<u32>> = (part(comm.rank())..part(comm.rank() + 1)).map(sum).collect();
    let mine = agree(comm, "read", name, mine)?;
    let all = comm.gather_varied(0, &mine).map_err(|error| Error::from_comm("read", name, &error))?;
    Ok(all.unwrap_or_default().concat())
}

/// A message about the first block with a wrong checksum; at rank 0.
pub(super) fn differing(found: &[u32], expected: &[u32]) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("the manifest has {} checksums for {} blocks", expected.len(), found.len()));
    }
    let block = found.iter().zip(expected).position(|(found, expected)| found != expected)?;
    Some(format!("byte {}: the checksum of this block is wrong", block as u64 * BLOCK))
}

/// Removes generations by the retention rule, and returns their numbers.
pub(super) fn prune(comm: &Comm, place: &StoreLocation, keep: Retention) -> Result<Vec<u64>> {
    let shown = place.folder.to_string_lossy();
    let removed = on_root(comm, "prune", &shown, || Ok(encode_numbers(&prune_here(place, keep)?)))?;
    Ok(decode_numbers(&removed))
}

/// Removes generations on rank 0. Generations that this process reads are kept; other entries of the folder are not touched.
fn prune_here(place: &StoreLocation, keep: Retention) -> Result<Vec<u64>> {
    let mut outcome = Ok(());
    let (mut gone, mut retired) = (Vec::new(), Vec::new());
    place.held.locked(|held| {
        let all = folder::list(&place.folder)?.generations;
        let older = &all[..all.len().saturating_sub(1)];
        let is_old = |number: &u64| match keep {
            Retention::All => false,
            Retention::Last(count) => !all[all.len().saturating_sub(count.max(1))..].contains(number),
            Retention::NewerThan(age) => is_older(&place.folder, *number, age),
        };
        for number in older.iter().filter(|number| is_old(number) && !held.contains(number)) {
            match folder::retire(&place.folder, *number) {
                Ok(path) => {
                    gone.push(*number);
                    retired.push(path);
                }
                // Go on with the others if one cannot be removed.
                Err(error) => outcome = std::mem::replace(&mut outcome, Ok(())).and(Err(error)),
            }
        }
        Ok::<_, Error>(())
    })?;
    outcome.and(folder::remove(&place.folder, &retired)).map(|()| gone)
}

/// Whether a generation was committed longer ago, by the time of its folder, since its manifest may be damaged.
fn is_older(folder: &Path, number: u64, age: std::time::Duration) -> bool {
    let made = std::fs::metadata(folder::committed(folder, number)).and_then(|data| data.modified());
    made.is_ok_and(|made| made.elapsed().is_ok_and(|elapsed| elapsed > age))
}
