//! What is done to folders: the few operations that the engine has no word for.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};

const COMMITTED: &str = "generation-";
const WRITING: &str = ".writing-";
const PRUNED: &str = ".pruned-";

/// Makes the folder, and those it lies in, where they are not there yet.
pub(super) fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| {
        // The system says only that something is there.
        let in_the_way = folder.ancestors().find(|path| path.exists() && !path.is_dir());
        match in_the_way {
            Some(path) => {
                let detail = format!(
                    "{} is a file, and checkpoints need a folder; name another one, or move the file away",
                    path.display()
                );
                Error::named("open", folder, &error, detail)
            }
            None => Error::system("open", folder, &error),
        }
    })
}

/// Where a committed generation is.
pub(super) fn committed(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{COMMITTED}{number:010}"))
}

/// Where a generation is written.
pub(super) fn writing(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{WRITING}{number:010}"))
}

/// The committed generations, ascending.
pub(super) fn generations(folder: &Path) -> Result<Vec<u64>> {
    let number = |name: String| name.strip_prefix(COMMITTED).and_then(|number| number.parse().ok());
    let mut numbers: Vec<u64> = names(folder)?.into_iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let failed = |error| Error::system("list", folder, &error);
    let entries = fs::read_dir(folder).map_err(failed)?;
    let name = |entry: std::io::Result<fs::DirEntry>| {
        Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned())
    };
    entries.map(name).collect()
}

/// Keeps other programs from writing here, until it is dropped or the program dies.
pub(super) fn lock(folder: &Path) -> Result<File> {
    let path = folder.join(".lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|error| Error::system("lock", &path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let detail = "another program is writing checkpoints here; end it, or use another folder";
            Err(Error::new(Kind::InUse, "lock", &path.to_string_lossy(), detail))
        }
        Err(TryLockError::Error(error)) => Err(Error::system("lock", &path, &error)),
    }
}

/// Removes what others have left unfinished, and makes room for the next generation: its number.
pub(super) fn begin(folder: &Path) -> Result<u64> {
    for name in names(folder)?.iter().filter(|name| name.starts_with(WRITING) || name.starts_with(PRUNED)) {
        let path = folder.join(name);
        fs::remove_dir_all(&path).map_err(|error| Error::system("clean", &path, &error))?;
    }
    let number = generations(folder)?.last().map_or(1, |last| last + 1);
    let path = writing(folder, number);
    fs::create_dir(&path).map_err(|error| Error::system("begin", &path, &error))?;
    Ok(number)
}

/// Makes what was written a generation.
pub(super) fn commit(folder: &Path, number: u64) -> Result<()> {
    let (writing, path) = (writing(folder, number), committed(folder, number));
    sync(&writing)?;
    fs::rename(&writing, &path).map_err(|error| Error::system("commit", &path, &error))?;
    sync(folder)
}

/// Removes a generation: first its name, then its files.
pub(super) fn remove(folder: &Path, number: u64) -> Result<()> {
    let (path, gone) = (committed(folder, number), folder.join(format!("{PRUNED}{number:010}")));
    fs::rename(&path, &gone).map_err(|error| Error::system("prune", &path, &error))?;
    sync(folder)?;
    fs::remove_dir_all(&gone).map_err(|error| Error::system("prune", &gone, &error))
}

fn sync(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Error::system("sync", folder, &error))
}
