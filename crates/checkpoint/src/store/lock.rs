//! The lock of a store: one program at a time writes.
//!
//! It is `flock` on `.lock`, which the kernel releases at the end of the process. On file systems without `flock` (Lustre without
//! `-o flock`, some network file systems) it is a file `.lock-owner` that names its holder. If the holder was a process of this machine
//! that has ended, the lock is taken over; otherwise the file has to be removed by hand.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::error::{Error, Kind, Result, system};

const FILE: &str = ".lock";
const OWNER: &str = ".lock-owner";

/// Excludes other programs from writing to a store until it is dropped.
#[derive(Debug)]
pub(super) struct StoreLock {
    _file: File,
    /// The file that names this process, on file systems without `flock`.
    owner: Option<PathBuf>,
}

impl StoreLock {
    pub(super) fn acquire(folder: &Path) -> Result<Self> {
        Self::acquire_with(folder, File::try_lock)
    }

    fn acquire_with(
        folder: &Path,
        flock: impl Fn(&File) -> std::result::Result<(), TryLockError>,
    ) -> Result<Self> {
        let (path, owner) = (folder.join(FILE), folder.join(OWNER));
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| system("lock", &path, error))?;
        match flock(&file) {
            Ok(()) => {
                // Another machine may have mounted the same folder without `flock`, and hold the lock by a file.
                clear_stale(&owner)?;
                Ok(Self { _file: file, owner: None })
            }
            Err(TryLockError::WouldBlock) => {
                let detail =
                    "another program writes checkpoints to this folder; end it, or use another folder";
                Err(Error::new(Kind::InUse, "lock", path.to_string_lossy(), detail))
            }
            Err(TryLockError::Error(error)) if lacks_flock(&error) => {
                clear_stale(&owner)?;
                claim(&owner)?;
                Ok(Self { _file: file, owner: Some(owner) })
            }
            Err(TryLockError::Error(error)) => Err(system("lock", &path, error)),
        }
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        if let Some(owner) = &self.owner {
            let _ = fs::remove_file(owner);
        }
    }
}

/// Whether the error means that the file system has no `flock`.
fn lacks_flock(error: &io::Error) -> bool {
    const CODES: [i32; 4] = [22, 37, 38, 95]; // EINVAL, ENOLCK, ENOSYS, EOPNOTSUPP
    error.raw_os_error().is_some_and(|code| CODES.contains(&code))
}

/// Creates the file that names this process. Another program may have created one before.
fn claim(owner: &Path) -> Result<()> {
    let failed = |error: io::Error| system("lock", owner, error);
    match File::options().create_new(true).write(true).open(owner) {
        Ok(mut file) => file.write_all(LockOwner::current().encode().as_bytes()).map_err(failed),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(in_use(owner, &fs::read_to_string(owner).unwrap_or_default()))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Removes the file of a process of this machine that has ended. The file of any other process is an error.
fn clear_stale(owner: &Path) -> Result<()> {
    let text = match fs::read_to_string(owner) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system("lock", owner, error)),
    };
    if !LockOwner::decode(&text).is_some_and(|process| process.is_dead()) {
        return Err(in_use(owner, &text));
    }
    // Two programs may find the file at the same time: remove only the file that was read.
    let away = owner.with_extension(format!("stale-{}", std::process::id()));
    match fs::rename(owner, &away) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        renamed => renamed.map_err(|error| system("lock", owner, error))?,
    }
    let found = fs::read_to_string(&away).unwrap_or_default();
    if found != text {
        let _ = fs::hard_link(&away, owner);
        let _ = fs::remove_file(&away);
        return Err(in_use(owner, &found));
    }
    fs::remove_file(&away).map_err(|error| system("lock", &away, error))
}

fn in_use(owner: &Path, text: &str) -> Error {
    let holder = LockOwner::decode(text).map_or("another program".to_owned(), |process| {
        format!("process {} on {}", process.id, process.host)
    });
    let detail = format!(
        "{holder} writes checkpoints to this folder; end it, remove this file if it has ended, or use another folder"
    );
    Error::new(Kind::InUse, "lock", owner.to_string_lossy(), detail)
}

/// A process, identified uniquely although process numbers are reused.
#[derive(Debug, PartialEq, Eq)]
struct LockOwner {
    host: String,
    /// Boot id of the machine, and namespace of process numbers.
    space: String,
    id: u32,
    /// The start time of the process, in clock ticks.
    start: String,
}

impl LockOwner {
    fn current() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let id = std::process::id();
        let host = read("/proc/sys/kernel/hostname");
        Self { host, space: space(), id, start: start(id).unwrap_or_default() }
    }

    fn encode(&self) -> String {
        let Self { host, space, id, start } = self;
        format!("host {host}\nspace {space}\nprocess {id}\nstart {start}\n")
    }

    fn decode(text: &str) -> Option<Self> {
        let field = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
        let (host, space, id) = (field("host ")?, field("space ")?, field("process ")?.parse().ok()?);
        Some(Self { host, space, id, start: field("start ")? })
    }

    /// Whether the process has ended; false for processes of other machines, whose state is not known.
    fn is_dead(&self) -> bool {
        let is_here = !self.space.is_empty() && self.space == space();
        is_here && has_ended(exists(self.id), start(self.id).as_deref(), &self.start)
    }
}

/// Whether a process that was started at `then` has ended: no process has its number, or the one that has it was started at another
/// time. If `/proc` hides the processes of other users (`hidepid`), the start time is not known and the process counts as running.
fn has_ended(exists: bool, now: Option<&str>, then: &str) -> bool {
    !exists || now.is_some_and(|now| !then.is_empty() && now != then)
}

/// Whether a process of any user has this number.
fn exists(id: u32) -> bool {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    id.is_some_and(|id| test_kill_process(id) != Err(Errno::SRCH))
}

fn space() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let numbers = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), numbers.display())
}

/// Field 22 of `/proc/<id>/stat` (proc(5)). The name of the program before it may contain any characters.
fn start(id: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_flock(_: &File) -> std::result::Result<(), TryLockError> {
        Err(TryLockError::Error(io::Error::from_raw_os_error(38)))
    }

    #[test]
    fn without_flock_a_file_names_the_holder_and_excludes_others() {
        let folder = tempfile::tempdir().unwrap();
        let lock = StoreLock::acquire_with(folder.path(), without_flock).unwrap();
        for error in [
            StoreLock::acquire_with(folder.path(), without_flock).unwrap_err(),
            StoreLock::acquire(folder.path()).unwrap_err(),
        ] {
            let holder = format!("process {} on ", std::process::id());
            assert!(error.kind() == Kind::InUse && error.to_string().contains(&holder), "{error}");
        }
        drop(lock);
        assert!(!folder.path().join(OWNER).exists());
        drop(StoreLock::acquire_with(folder.path(), without_flock).unwrap());
        drop(StoreLock::acquire(folder.path()).unwrap());
    }

    #[test]
    fn a_process_with_unknown_start_time_counts_as_running() {
        assert!(!has_ended(true, None, "77"), "hidden by hidepid");
        assert!(!has_ended(true, Some("77"), "77"));
        assert!(!has_ended(true, Some("77"), ""), "its start was not known");
        assert!(has_ended(true, Some("78"), "77"), "its number belongs to another process");
        assert!(has_ended(false, None, "77"));
        assert!(exists(std::process::id()) && exists(1), "process 1 exists, whatever its user");
    }

    #[test]
    fn the_lock_of_a_dead_process_is_taken_over_and_that_of_another_machine_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let id = child.id();
        let process = LockOwner { id, start: start(id).unwrap(), ..LockOwner::current() };
        fs::write(folder.path().join(OWNER), process.encode()).unwrap();
        assert!(StoreLock::acquire_with(folder.path(), without_flock).is_err(), "the process is running");
        child.kill().unwrap();
        child.wait().unwrap();
        drop(StoreLock::acquire_with(folder.path(), without_flock).unwrap());
        let elsewhere = LockOwner { space: "another machine".into(), host: "node7".into(), ..process };
        for text in [elsewhere.encode(), String::new()] {
            fs::write(folder.path().join(OWNER), text).unwrap();
            let error = StoreLock::acquire_with(folder.path(), without_flock).unwrap_err();
            assert!(error.to_string().contains("remove this file if it has ended"), "{error}");
        }
    }
}
