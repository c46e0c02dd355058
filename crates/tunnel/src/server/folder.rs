//! Files of a server in a folder: ordinary files, which other programs can read.
//!
//! The page cache of the system is the memory: it takes writes at memory speed, writes them back, and evicts what it must. A name never
//! leaves the folder: `..`, absolute names and symbolic links are refused.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use aqueduct_device::{Device, DeviceOpenOptions, Error, Handle, Kind, Operation, Result, Ufs};

use crate::wire::answer::{ListedFile, MOST_LISTED};

/// Files in a folder.
#[derive(Debug)]
pub(super) struct StoreFolder {
    folder: PathBuf,
}

impl StoreFolder {
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let folder = folder.canonicalize();
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("the folder of the store: {error}"));
        let folder = folder.map_err(named)?;
        if folder.is_dir() { Ok(Self { folder }) } else { Err(named(io::ErrorKind::NotADirectory.into())) }
    }

    /// The path of a name, if it stays in the folder.
    fn path(&self, name: &OsStr, operation: Operation) -> Result<PathBuf> {
        let refuse = |why: &str| Err(Error::new(Kind::InvalidName, operation, name).advise(why));
        let path = Path::new(name);
        if name.as_bytes().contains(&0) || name.is_empty() {
            return refuse("a name is not empty and has no NUL byte");
        }
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return refuse("a name of a file in a folder has no `..` and does not begin with a slash");
        }
        let mut whole = self.folder.clone();
        for part in path.components() {
            whole.push(part);
            if fs::symlink_metadata(&whole).is_ok_and(|stat| stat.is_symlink()) {
                return refuse("a symbolic link may lead out of the folder of the server");
            }
        }
        Ok(whole)
    }

    /// Some files whose names begin with `prefix` and come after `after`, and whether there are more.
    pub(super) fn list(&self, prefix: &[u8], after: &[u8]) -> Result<(Vec<ListedFile>, bool)> {
        let mut files = Vec::new();
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            let entries =
                fs::read_dir(&folder).map_err(|error| Error::from_io(error, Operation::Open, &folder))?;
            for entry in entries.flatten() {
                let (Ok(kind), Ok(stat)) = (entry.file_type(), entry.metadata()) else { continue };
                let path = entry.path();
                let Ok(name) = path.strip_prefix(&self.folder) else { continue };
                let name: Vec<u8> = OsString::from(name).into_vec();
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file() && name.starts_with(prefix) && name.as_slice() > after {
                    files.push(ListedFile { name, end: stat.len() });
                }
            }
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        let more = files.len() > MOST_LISTED;
        files.truncate(MOST_LISTED);
        Ok((files, more))
    }
}

impl Device for StoreFolder {
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        let path = self.path(name, Operation::Open)?;
        if let (true, Some(parent)) = (options.is_create(), path.parent()) {
            fs::create_dir_all(parent).map_err(|error| Error::from_io(error, Operation::Open, name))?;
        }
        Ufs.open(path.as_os_str(), options)
    }

    fn delete(&self, name: &OsStr) -> Result<()> {
        Ufs.delete(self.path(name, Operation::Delete)?.as_os_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_folder() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("store");
        fs::create_dir(&folder).unwrap();
        fs::write(parent.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(parent.path(), folder.join("link")).unwrap();
        std::os::unix::fs::symlink(parent.path().join("secret"), folder.join("file-link")).unwrap();
        let store = StoreFolder::new(&folder).unwrap();
        let create = DeviceOpenOptions::read_write().create(true);
        for name in
            ["../secret", "a/../../secret", "/etc/passwd", "link/secret", "file-link", "a\0b", "", "..", "."]
        {
            let error = store.open(name.as_ref(), &create).err().unwrap();
            assert_eq!(error.kind(), Kind::InvalidName, "{name}");
            assert_eq!(store.delete(name.as_ref()).unwrap_err().kind(), Kind::InvalidName, "{name}");
        }
        drop(store.open("a/b".as_ref(), &create).unwrap());
        let (files, more) = store.list(b"a", b"").unwrap();
        assert_eq!((files[0].name.as_slice(), files.len(), more), (&b"a/b"[..], 1, false));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 2);
    }
}
