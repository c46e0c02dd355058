//! Files of `memfs` that all processes of a node share: files in a folder of the user on tmpfs.
//!
//! The rules are those of files in one process. A file is open while a handle holds a shared `flock(2)` on it; deleting takes an
//! exclusive one, so that a process that was killed keeps nothing open. A file exists until it is deleted, also after the end of all
//! processes: `aqueduct memfs ls` and `aqueduct memfs rm` show and remove what a job has left.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::folder_quota::FolderQuota;
use super::node_handle::NodeHandle;
use crate::ufs::UfsHandle;
use crate::{Device, DeviceOpenOptions, Error, Handle, Kind, Operation, Result, name};

/// Where tmpfs is mounted on every Linux system (POSIX shared memory, `shm_overview(7)`).
const SHARED_MEMORY: &str = "/dev/shm";

/// The longest file name of Linux.
const LONGEST_NAME: usize = 255;

/// Files in the memory of a node, shared by the processes of one user.
///
/// ```
/// use aqueduct_device::{Device, DeviceOpenOptions, HandleExt, Kind, NodeMemFs};
///
/// let folder = tempfile::tempdir().unwrap();
/// let memory = NodeMemFs::in_folder(folder.path().join("memfs"), Some(1 << 20));
/// let file = memory.open("run/7".as_ref(), &DeviceOpenOptions::read_write().create(true))?;
/// file.write_at(0, b"bytes")?;
/// assert_eq!(memory.delete("run/7".as_ref()).unwrap_err().kind(), Kind::Busy);
/// file.close()?;
/// assert_eq!(memory.files()?[0].name, "run/7");
/// memory.delete("run/7".as_ref())?;
/// # Ok::<_, aqueduct_device::Error>(())
/// ```
#[derive(Debug)]
pub struct NodeMemFs {
    folder: PathBuf,
    quota: Arc<FolderQuota>,
}

/// A file in the memory of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMemFile {
    /// Its name.
    pub name: OsString,
    /// Its length in bytes.
    pub len: u64,
    /// The memory that it takes.
    pub memory: u64,
    /// Whether a process has it open.
    pub open: bool,
}

impl NodeMemFs {
    /// The files of this user, `/dev/shm/aqueduct-UID`.
    ///
    /// `capacity` limits the memory of all of them together. Without it the environment variable `AQUEDUCT_MEMFS` does, or else half of the
    /// available memory of the machine and the control group.
    pub fn new(capacity: Option<u64>) -> Self {
        let user = rustix::process::geteuid().as_raw();
        Self::in_folder(Path::new(SHARED_MEMORY).join(format!("aqueduct-{user}")), capacity)
    }

    /// Files in another folder, which is created with the first file. It must be on tmpfs for its files to be in memory.
    pub fn in_folder(folder: impl Into<PathBuf>, capacity: Option<u64>) -> Self {
        let folder = folder.into();
        Self { quota: Arc::new(FolderQuota::new(folder.clone(), capacity)), folder }
    }

    /// All files, sorted by name.
    pub fn files(&self) -> Result<Vec<NodeMemFile>> {
        let failed = |error: io::Error| Error::from_io(error, Operation::Open, &self.folder);
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            // A file that is deleted meanwhile is left out.
            let (Some(name), Ok(stat)) = (path.file_name().and_then(unescape), fs::metadata(&path)) else {
                continue;
            };
            let open = fs::File::open(&path).is_ok_and(|file| !is_free(file.as_fd()));
            files.push(NodeMemFile { name, len: stat.len(), memory: stat.blocks() * 512, open });
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(files)
    }

    /// True if there is a file of this name.
    pub(super) fn contains(&self, name: &OsStr) -> bool {
        self.path(name, Operation::Open).is_ok_and(|path| path.exists())
    }

    /// The path of a file.
    fn path(&self, name: &OsStr, operation: Operation) -> Result<PathBuf> {
        name::check(name, operation)?;
        let escaped = escape(name);
        if escaped.len() > LONGEST_NAME {
            let error = Error::new(Kind::InvalidName, operation, name);
            return Err(error.advise(format!("choose a name of fewer than {LONGEST_NAME} bytes")));
        }
        Ok(self.folder.join(escaped))
    }

    /// Creates the folder, or checks that it belongs to this user alone: others can create folders beside it.
    fn prepare_folder(&self) -> Result<()> {
        let failed = |error: io::Error| Error::from_io(error, Operation::Open, &self.folder);
        match fs::DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
        let stat = fs::symlink_metadata(&self.folder).map_err(failed)?;
        let own = stat.uid() == rustix::process::geteuid().as_raw();
        if !stat.is_dir() || !own || stat.permissions().mode() & 0o077 != 0 {
            let error = Error::new(Kind::PermissionDenied, Operation::Open, &self.folder);
            return Err(error.advise(
                "it must be a folder of this user that no other user may access; remove or rename it",
            ));
        }
        Ok(())
    }
}

impl Device for NodeMemFs {
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        let path = self.path(name, Operation::Open)?;
        if options.is_create() {
            options.check(name)?;
            self.prepare_folder()?;
        }
        loop {
            let file = UfsHandle::open(path.as_os_str(), &options.clone().direct(false))?;
            let failed = |errno: Errno| Error::from_io(errno.into(), Operation::Open, name);
            match rustix::fs::flock(file.file(), FlockOperation::NonBlockingLockShared) {
                Ok(()) if rustix::fs::fstat(file.file()).map_err(failed)?.st_nlink > 0 => {
                    return Ok(Arc::new(NodeHandle::new(name, file, Arc::clone(&self.quota))));
                }
                // It was deleted after it was opened, or is being deleted: there is or will be no such file.
                Ok(()) | Err(Errno::AGAIN) => std::thread::yield_now(),
                Err(errno) => return Err(failed(errno)),
            }
        }
    }

    fn delete(&self, name: &OsStr) -> Result<()> {
        let path = self.path(name, Operation::Delete)?;
        let file = fs::File::open(&path).map_err(|error| Error::from_io(error, Operation::Delete, name))?;
        if !is_free(file.as_fd()) {
            let error = Error::new(Kind::Busy, Operation::Delete, name);
            return Err(error.advise("close all handles of the file in all processes first"));
        }
        fs::remove_file(&path).map_err(|error| Error::from_io(error, Operation::Delete, name))
    }
}

/// Whether no handle has the file open. If so, nobody can open it until this opening is closed.
fn is_free(file: BorrowedFd<'_>) -> bool {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// A file name for any name: bytes other than letters, digits, `_`, `-` and inner `.` as `%` and two digits.
fn escape(name: &OsStr) -> OsString {
    let mut escaped = Vec::with_capacity(name.len());
    for (at, &byte) in name.as_bytes().iter().enumerate() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => escaped.push(byte),
            b'.' if at > 0 => escaped.push(byte),
            _ => escaped.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    OsString::from_vec(escaped)
}

/// The name that was escaped; none if this is not the result of [`escape`].
fn unescape(escaped: &OsStr) -> Option<OsString> {
    let mut name = Vec::with_capacity(escaped.len());
    let mut rest = escaped.as_bytes();
    while let Some((&first, later)) = rest.split_first() {
        rest = later;
        if first == b'%' {
            let digits = std::str::from_utf8(later.get(..2)?).ok()?;
            name.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &later[2..];
        } else {
            name.push(first);
        }
    }
    let name = OsString::from_vec(name);
    (escape(&name) == escaped).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HandleExt;

    fn memory(capacity: u64) -> (tempfile::TempDir, NodeMemFs) {
        let parent = tempfile::tempdir_in(SHARED_MEMORY).or_else(|_| tempfile::tempdir()).unwrap();
        let memory = NodeMemFs::in_folder(parent.path().join("files"), Some(capacity));
        (parent, memory)
    }

    fn create(memory: &NodeMemFs, name: &str) -> Arc<dyn Handle> {
        memory.open(name.as_ref(), &DeviceOpenOptions::read_write().create(true)).unwrap()
    }

    #[test]
    fn any_name_becomes_a_file_name_and_back() {
        for name in ["a", "run/7.h5", "..", ".", "a:b %2F", "ä", "A_b-c.d"] {
            let escaped = escape(name.as_ref());
            assert!(
                !escaped.as_bytes().contains(&b'/') && !escaped.as_bytes().starts_with(b"."),
                "{escaped:?}"
            );
            assert_eq!(unescape(&escaped).unwrap(), name);
        }
        for foreign in ["%2f", "%", "%4", "a b", "%41", "%zz"] {
            assert_eq!(unescape(foreign.as_ref()), None, "{foreign}");
        }
    }

    #[test]
    fn an_open_file_is_busy_and_a_deleted_one_is_gone() {
        let (_parent, memory) = memory(1 << 20);
        let one = create(&memory, "a/b");
        let other = memory.open("a/b".as_ref(), &DeviceOpenOptions::read_only()).unwrap();
        one.write_at(0, b"abc").unwrap();
        drop(one);
        assert!(memory.files().unwrap()[0].open);
        assert_eq!(memory.delete("a/b".as_ref()).unwrap_err().kind(), Kind::Busy);
        drop(other);
        let listed = memory.files().unwrap().remove(0);
        assert_eq!((listed.name.to_str(), listed.len, listed.open), (Some("a/b"), 3, false));
        memory.delete("a/b".as_ref()).unwrap();
        assert_eq!(memory.delete("a/b".as_ref()).unwrap_err().kind(), Kind::NotFound);
        assert!(memory.files().unwrap().is_empty());
    }

    #[test]
    fn the_capacity_limits_all_files_together() {
        let (_parent, memory) = memory(256 << 10);
        let (one, other) = (create(&memory, "one"), create(&memory, "other"));
        one.write_at(0, &vec![1; 100 << 10]).unwrap();
        let error = other.write_at(1 << 30, &vec![2; 200 << 10]).unwrap_err();
        assert_eq!((error.kind(), error.transferred()), (Kind::NoSpace, 156 << 10), "{error}");
        assert_eq!(error.offset(), Some((1 << 30) + (156 << 10)));
        assert_eq!(other.len().unwrap(), (1 << 30) + (156 << 10));
        one.write_at(0, &vec![3; 100 << 10]).unwrap();
        assert_eq!(one.write_at(100 << 10, &[3]).unwrap_err().kind(), Kind::NoSpace);
        assert_eq!(one.preallocate(1 << 20).unwrap_err().kind(), Kind::NoSpace);
        other.set_len(0).unwrap();
        one.write_at(100 << 10, &vec![3; 100 << 10]).unwrap();
    }

    #[test]
    fn a_folder_of_others_is_refused() {
        let (parent, memory) = memory(1 << 20);
        let folder = parent.path().join("files");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let options = DeviceOpenOptions::read_write().create(true);
        assert_eq!(memory.open("a".as_ref(), &options).err().unwrap().kind(), Kind::PermissionDenied);
        fs::remove_dir(&folder).unwrap();
        std::os::unix::fs::symlink(parent.path(), &folder).unwrap();
        assert_eq!(memory.open("a".as_ref(), &options).err().unwrap().kind(), Kind::PermissionDenied);
    }

    #[test]
    fn long_names_are_refused() {
        let (_parent, memory) = memory(1 << 20);
        let options = DeviceOpenOptions::read_write().create(true);
        let error = memory.open("x".repeat(300).as_ref(), &options).err().unwrap();
        assert_eq!(error.kind(), Kind::InvalidName);
    }
}
