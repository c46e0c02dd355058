//! Operations on folders, which the file layer does not have.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result, system};

const COMMITTED: &str = "generation-";
const WRITING: &str = ".writing-";
const PRUNED: &str = ".pruned-";

/// The greatest number of a generation: names have ten digits.
const MOST: u64 = 9_999_999_999;

/// Refuses names with the prefix of a device: generations are committed by renaming folders, which devices do not have.
fn refuse_prefix(folder: &Path) -> Result<()> {
    let name = folder.to_string_lossy();
    let Some((head, _)) = name.split_once(':') else { return Ok(()) };
    let prefix = head.split('=').next().unwrap_or(head);
    if aqueduct_file::prefix_kind(prefix).is_none() {
        return Ok(());
    }
    let detail = format!(
        "a store is a folder, and {prefix}: is the prefix of a device; name a folder (./{name} if it is one), and a layer or uring by \
         `Store::with_device`"
    );
    Err(Error::from_io("open", folder, io::Error::from(ErrorKind::Unsupported), detail))
}

/// Creates the folder and its parents if they do not exist, and syncs new entries.
pub(super) fn make(folder: &Path) -> Result<()> {
    refuse_prefix(folder)?;
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(folder).map_err(|error| refused(folder, error))?;
    // The directory entry of a new folder is in its parent.
    for new in missing.iter().rev() {
        let parent = new.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync(parent.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

/// Checks that the folder exists.
pub(super) fn find(folder: &Path) -> Result<()> {
    refuse_prefix(folder)?;
    match fs::metadata(folder) {
        Ok(data) if data.is_dir() => Ok(()),
        Ok(_) => Err(refused(folder, io::Error::from(ErrorKind::NotADirectory))),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let detail =
                "the folder does not exist; check the path, or create it with `Store::open_or_create`";
            Err(Error::from_io("open", folder, error, detail))
        }
        Err(error) => Err(refused(folder, error)),
    }
}

fn refused(folder: &Path, error: io::Error) -> Error {
    // The error of the system does not name the file that is in the way.
    match folder.ancestors().find(|path| path.exists() && !path.is_dir()) {
        Some(path) => {
            let detail = format!(
                "{} is a file, but checkpoints need a folder; choose another folder, or move the file away",
                path.display()
            );
            Error::from_io("open", folder, error, detail)
        }
        None => system("open", folder, error),
    }
}

/// The folder of a committed generation.
pub(super) fn committed(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{COMMITTED}{number:010}"))
}

/// The folder in which a generation is written before its commit.
pub(super) fn writing(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{WRITING}{number:010}"))
}

/// The entries of the folder of a store.
#[derive(Debug, Default)]
pub(super) struct StoreListing {
    /// The committed generations, ascending.
    pub(super) generations: Vec<u64>,
    /// Folders with names of generations but without a manifest, ascending: damaged, or created by another program.
    pub(super) without_manifest: Vec<u64>,
    /// Other entries whose names begin like those of generations.
    foreign: Vec<PathBuf>,
    /// Leftovers of programs that ended while they wrote or removed a generation.
    leftovers: Vec<PathBuf>,
}

pub(super) fn list(folder: &Path) -> Result<StoreListing> {
    let failed = |error| system("list", folder, error);
    let mut listing = StoreListing::default();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).map_err(failed)?;
        let name = name.to_string_lossy();
        if name.starts_with(WRITING) || name.starts_with(PRUNED) {
            listing.leftovers.push(path);
        } else if let Some(digits) = name.strip_prefix(COMMITTED) {
            let number = digits.parse().ok().filter(|number| committed(folder, *number) == path);
            match number.filter(|number| *number <= MOST && path.is_dir()) {
                Some(number) if path.join("manifest.json").exists() => listing.generations.push(number),
                Some(number) => listing.without_manifest.push(number),
                None => listing.foreign.push(path),
            }
        }
    }
    listing.generations.sort_unstable();
    listing.without_manifest.sort_unstable();
    listing.foreign.sort_unstable();
    Ok(listing)
}

/// Removes leftovers; returns the number of the next generation, and warnings.
pub(super) fn begin(folder: &Path) -> Result<(u64, Vec<String>)> {
    let listing = list(folder)?;
    let mut warnings = Vec::new();
    for path in &listing.leftovers {
        if let Err(error) = remove_all(path) {
            let what = "leftovers of an unfinished or removed checkpoint could not be removed";
            warnings.push(format!("{}: {what}: {error}; remove it by hand", path.display()));
        }
    }
    let bare = listing.without_manifest.iter().map(|number| committed(folder, *number));
    for path in bare.chain(listing.foreign) {
        warnings
            .push(format!("{}: not a checkpoint, left unchanged; move it to another folder", path.display()));
    }
    let mut number = listing.generations.last().map_or(1, |last| last + 1);
    while number <= MOST {
        let path = writing(folder, number);
        if fs::symlink_metadata(committed(folder, number)).is_err() {
            match fs::create_dir(&path) {
                Ok(()) => return Ok((number, warnings)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(system("begin", &path, error)),
            }
        }
        number += 1;
    }
    let detail = format!("generation {MOST} has the greatest possible number; move it to another folder");
    Err(Error::new(Kind::BadArgument, "begin", folder.to_string_lossy(), detail))
}

/// Commits a generation by renaming its folder.
pub(super) fn commit(folder: &Path, number: u64) -> Result<()> {
    let (writing, path) = (writing(folder, number), committed(folder, number));
    sync(&writing)?;
    fs::rename(&writing, &path).map_err(|error| system("commit", &path, error))?;
    sync(folder)
}

/// Renames a generation before its removal; returns the new path.
pub(super) fn retire(folder: &Path, number: u64) -> Result<PathBuf> {
    let (path, gone) = (committed(folder, number), folder.join(format!("{PRUNED}{number:010}")));
    fs::rename(&path, &gone).map_err(|error| system("prune", &path, error))?;
    Ok(gone)
}

/// Removes renamed generations.
pub(super) fn remove(folder: &Path, retired: &[PathBuf]) -> Result<()> {
    if retired.is_empty() {
        return Ok(());
    }
    sync(folder)?;
    let removed = retired.iter().map(|path| remove_all(path).map_err(|error| system("prune", path, error)));
    // Go on with the others if one cannot be removed.
    removed.fold(Ok(()), Result::and)
}

/// Removes a folder with its contents, or a file.
fn remove_all(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

fn sync(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| system("sync", folder, error))
}
