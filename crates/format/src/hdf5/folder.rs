//! A folder in memory for one shadow: the library opens files by name only.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

const PREFIX: &str = "aqueduct-hdf5-";
/// A folder is locked that soon after it was made.
const YOUNG: Duration = Duration::from_secs(60);

/// A folder that is gone when this is; one of a program that was killed, when the next one is made.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Locked as long as the program lives.
    _lock: File,
}

impl Folder {
    pub(super) fn new() -> std::io::Result<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        sweep(&base);
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {
                    let lock = File::open(&path)?;
                    flock(&lock, FlockOperation::LockExclusive)?;
                    return Ok(Self { path, _lock: lock });
                }
                // Another one of this number, perhaps of another container, or left by one that was killed.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The file in it.
    pub(super) fn file(&self) -> PathBuf {
        self.path.join("description.h5")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next one.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes folders of programs that live no longer.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    let ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
    for entry in entries.flatten().filter(ours) {
        let age = entry.metadata().and_then(|data| data.modified()).ok().and_then(|at| at.elapsed().ok());
        let Ok(lock) = File::open(entry.path()) else { continue };
        let old = age.is_some_and(|age| age > YOUNG);
        if old && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_gone_with_its_owner_and_kept_meanwhile() {
        let folder = Folder::new().unwrap();
        let path = folder.path.clone();
        fs::write(folder.file(), b"here").unwrap();
        sweep(path.parent().unwrap());
        assert!(folder.file().exists(), "it is locked");
        drop(folder);
        assert!(!path.exists());
    }
}
