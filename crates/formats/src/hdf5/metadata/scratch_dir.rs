//! A folder in memory for one shadow: the library opens files by name only.

use std::fs::{self, DirBuilder, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};

const PREFIX: &str = "aqueduct-hdf5-";
/// A folder is locked that soon after it was made.
const YOUNG: Duration = Duration::from_secs(60);

/// A folder that is gone when this is; one of a program that was killed, when the next one is made.
#[derive(Debug)]
pub(crate) struct ScratchDir {
    path: PathBuf,
    /// Locked as long as the program lives.
    _lock: OwnedFd,
}

impl ScratchDir {
    pub(crate) fn new() -> std::io::Result<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        remove_stale_dirs(&base);
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("{PREFIX}{}-{number}", std::process::id()));
            // Private: other users must not read the metadata of a file.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let lock = open_directory(&path)?;
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
    pub(crate) fn file(&self) -> PathBuf {
        self.path.join("description.h5")
    }

    /// Creates that file.
    pub(crate) fn create_file(&self) -> std::io::Result<File> {
        File::options().read(true).write(true).create_new(true).mode(0o600).open(self.file())
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next one.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Opens a directory and nothing else: the names here are known to everybody, and opening a FIFO would wait for its writer.
fn open_directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
}

/// Removes folders of this user's programs that live no longer.
fn remove_stale_dirs(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    let ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
    for entry in entries.flatten().filter(ours) {
        let age = entry.metadata().and_then(|data| data.modified()).ok().and_then(|at| at.elapsed().ok());
        let Ok(lock) = open_directory(&entry.path()) else { continue };
        let old = age.is_some_and(|age| age > YOUNG);
        let own = fstat(&lock).is_ok_and(|status| status.st_uid == rustix::process::geteuid().as_raw());
        if old && own && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    #[test]
    fn the_folder_and_its_file_are_private() {
        let folder = ScratchDir::new().unwrap();
        let file = folder.create_file().unwrap();
        assert_eq!(fs::metadata(&folder.path).unwrap().mode() & 0o777, 0o700);
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        assert!(folder.create_file().is_err(), "a file that is there is not taken for a new one");
    }

    #[test]
    fn a_fifo_and_a_link_of_another_program_do_not_block_the_sweep() {
        let base = tempfile::tempdir().unwrap();
        let (fifo, link) = (base.path().join("aqueduct-hdf5-1-0"), base.path().join("aqueduct-hdf5-1-1"));
        let target = base.path().join("target");
        fs::create_dir(&target).unwrap();
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let (done, wait) = std::sync::mpsc::channel();
        let folder = base.path().to_owned();
        std::thread::spawn(move || {
            remove_stale_dirs(&folder);
            let _ = done.send(());
        });
        assert!(
            wait.recv_timeout(Duration::from_secs(20)).is_ok(),
            "the sweep waits for a writer of the FIFO"
        );
        assert!(fifo.exists() && link.exists() && target.exists());
    }

    #[test]
    fn a_folder_is_gone_with_its_owner_and_kept_meanwhile() {
        let folder = ScratchDir::new().unwrap();
        let path = folder.path.clone();
        fs::write(folder.file(), b"here").unwrap();
        remove_stale_dirs(path.parent().unwrap());
        assert!(folder.file().exists(), "it is locked");
        drop(folder);
        assert!(!path.exists());
    }
}
