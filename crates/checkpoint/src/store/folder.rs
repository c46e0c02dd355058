//! What is done to folders: the few operations that the engine has no word for.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result, system};

const COMMITTED: &str = "generation-";
const WRITING: &str = ".writing-";
const PRUNED: &str = ".pruned-";

/// The greatest number that a generation has: names have ten digits.
const MOST: u64 = 9_999_999_999;

/// Makes the folder, and those it lies in, where they are not there yet; those that are new are durable.
pub(super) fn make(folder: &Path) -> Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(folder).map_err(|error| refused(folder, error))?;
    // The entry of a new folder is in its parent.
    for new in missing.iter().rev() {
        let parent = new.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync(parent.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

/// Whether the folder is there.
pub(super) fn find(folder: &Path) -> Result<()> {
    match fs::metadata(folder) {
        Ok(data) if data.is_dir() => Ok(()),
        Ok(_) => Err(refused(folder, io::Error::from(ErrorKind::NotADirectory))),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let detail = "there is no such folder of checkpoints; check the path, or create it with `Store::open_or_create`";
            Err(Error::from_io("open", folder, error, detail))
        }
        Err(error) => Err(refused(folder, error)),
    }
}

fn refused(folder: &Path, error: io::Error) -> Error {
    // The system says only that something is there.
    match folder.ancestors().find(|path| path.exists() && !path.is_dir()) {
        Some(path) => {
            let detail = format!(
                "{} is a file, and checkpoints need a folder; name another one, or move the file away",
                path.display()
            );
            Error::from_io("open", folder, error, detail)
        }
        None => system("open", folder, error),
    }
}

/// Where a committed generation is.
pub(super) fn committed(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{COMMITTED}{number:010}"))
}

/// Where a generation is written.
pub(super) fn writing(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{WRITING}{number:010}"))
}

/// What there is in the folder of a store.
#[derive(Debug, Default)]
pub(super) struct StoreListing {
    /// The committed generations, ascending.
    pub(super) generations: Vec<u64>,
    /// Folders that are called like generations and have no manifest, ascending: damaged, or made by someone else.
    pub(super) without_manifest: Vec<u64>,
    /// What is called nearly like a generation, and is none.
    foreign: Vec<PathBuf>,
    /// What was being written or removed when its program ended.
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

/// Makes room for the next generation: its number, and what is to be told about what is in the way.
pub(super) fn begin(folder: &Path) -> Result<(u64, Vec<String>)> {
    let listing = list(folder)?;
    let mut warnings = Vec::new();
    for path in &listing.leftovers {
        if let Err(error) = remove_all(path) {
            let what = "what is left of an unfinished or removed checkpoint could not be removed";
            warnings.push(format!("{}: {what}: {error}; remove it by hand", path.display()));
        }
    }
    let bare = listing.without_manifest.iter().map(|number| committed(folder, *number));
    for path in bare.chain(listing.foreign) {
        warnings
            .push(format!("{}: this is no checkpoint, and is left as it is; move it away", path.display()));
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
    let detail = format!("generation {MOST} is the last that there can be; move it away");
    Err(Error::new(Kind::BadArgument, "begin", folder.to_string_lossy(), detail))
}

/// Makes what was written a generation.
pub(super) fn commit(folder: &Path, number: u64) -> Result<()> {
    let (writing, path) = (writing(folder, number), committed(folder, number));
    sync(&writing)?;
    fs::rename(&writing, &path).map_err(|error| system("commit", &path, error))?;
    sync(folder)
}

/// Takes the name of a generation away: what is left of it.
pub(super) fn retire(folder: &Path, number: u64) -> Result<PathBuf> {
    let (path, gone) = (committed(folder, number), folder.join(format!("{PRUNED}{number:010}")));
    fs::rename(&path, &gone).map_err(|error| system("prune", &path, error))?;
    Ok(gone)
}

/// Removes what is left of generations.
pub(super) fn remove(folder: &Path, retired: &[PathBuf]) -> Result<()> {
    if retired.is_empty() {
        return Ok(());
    }
    sync(folder)?;
    let removed = retired.iter().map(|path| remove_all(path).map_err(|error| system("prune", path, error)));
    // One that stays does not keep the others.
    removed.fold(Ok(()), Result::and)
}

/// A folder with all that is in it, or a file.
fn remove_all(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

fn sync(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| system("sync", folder, error))
}
