//! The lock of a store: one program writes at a time.
//!
//! `flock` on `.lock`, which ends with its holder. File systems that have no `flock` (Lustre without `-o flock`, some network file systems) get a file
//! `.lock-owner` that names its holder instead: one whose holder is a dead process of this machine is taken over, any other has to be removed by hand.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::error::{Error, Kind, Result, system};

const FILE: &str = ".lock";
const OWNER: &str = ".lock-owner";

/// Keeps other programs from writing to a store, until it is dropped.
#[derive(Debug)]
pub(super) struct StoreLock {
    _file: File,
    /// The file that names this program, where there is no `flock`.
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
                // Another machine may have mounted the same folder without `flock`.
                clear_stale(&owner)?;
                Ok(Self { _file: file, owner: None })
            }
            Err(TryLockError::WouldBlock) => {
                let detail = "another program is writing checkpoints here; end it, or use another folder";
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

/// Whether the file system has no `flock`, rather than refusing this one.
fn lacks_flock(error: &io::Error) -> bool {
    const CODES: [i32; 4] = [22, 37, 38, 95]; // EINVAL, ENOLCK, ENOSYS, EOPNOTSUPP
    error.raw_os_error().is_some_and(|code| CODES.contains(&code))
}

/// Makes the file that names this program; another program may have been faster.
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

/// Takes the file of a dead process of this machine away; that of any other is an error.
fn clear_stale(owner: &Path) -> Result<()> {
    let text = match fs::read_to_string(owner) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system("lock", owner, error)),
    };
    if !LockOwner::decode(&text).is_some_and(|process| process.is_dead()) {
        return Err(in_use(owner, &text));
    }
    // Two programs may find it at once: what is taken away must still be what was read.
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
        "{holder} is writing checkpoints here; end it, or remove this file if it has ended, or use another folder"
    );
    Error::new(Kind::InUse, "lock", owner.to_string_lossy(), detail)
}

/// A process, told apart from all others that ever had its number.
#[derive(Debug, PartialEq, Eq)]
struct LockOwner {
    host: String,
    /// Of the machine since it was started, and of the space that process numbers are counted in.
    space: String,
    id: u32,
    /// When the kernel started it, in its own unit.
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

    /// Whether it is known to have ended: of processes on other machines, nothing is.
    fn is_dead(&self) -> bool {
        let is_here = !self.space.is_empty() && self.space == space();
        is_here && has_ended(exists(self.id), start(self.id).as_deref(), &self.start)
    }
}

/// Whether a process that was started at `then` has ended: its number is nobody's, or that of one started at another time. Where `/proc` hides
/// the processes of other users (`hidepid`), the time cannot be read: that says nothing.
fn has_ended(exists: bool, now: Option<&str>, then: &str) -> bool {
    !exists || now.is_some_and(|now| !then.is_empty() && now != then)
}

/// Whether a process has this number, of whatever user.
fn exists(id: u32) -> bool {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    id.is_some_and(|id| test_kill_process(id) != Err(Errno::SRCH))
}

fn space() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let numbers = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), numbers.display())
}

/// Field 22 of `/proc/<id>/stat`; the name before it may hold anything.
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
    fn without_flock_a_file_names_the_holder_and_keeps_others_out() {
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
    fn a_process_that_cannot_be_looked_at_is_alive() {
        assert!(!has_ended(true, None, "77"), "hidden by hidepid");
        assert!(!has_ended(true, Some("77"), "77"));
        assert!(!has_ended(true, Some("77"), ""), "its start was not known");
        assert!(has_ended(true, Some("78"), "77"), "its number is another one's");
        assert!(has_ended(false, None, "77"));
        assert!(exists(std::process::id()) && exists(1), "init is another user's, or this one");
    }

    #[test]
    fn the_file_of_a_dead_process_is_taken_over_and_that_of_another_machine_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let id = child.id();
        let process = LockOwner { id, start: start(id).unwrap(), ..LockOwner::current() };
        fs::write(folder.path().join(OWNER), process.encode()).unwrap();
        assert!(StoreLock::acquire_with(folder.path(), without_flock).is_err(), "it is alive");
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
