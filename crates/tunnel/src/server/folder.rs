//! Files of a server in a folder: ordinary files, which other programs can read.
//!
//! The page cache of the system is the memory: it takes writes at memory speed, writes them back, and evicts what it must. A name never
//! leaves the folder: `..`, absolute names and symbolic links are refused.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use aqueduct_device::{Device, DeviceOpenOptions, Error, Handle, Kind, Operation, Result, Ufs};

use crate::wire::answer::{ListedFile, ListingPage};

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
        if name.as_bytes().split(|byte| *byte == b'/').any(|part| part.is_empty() || part == b".") {
            return refuse("a file has one name: without `//`, `/./` and a slash at the end");
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

    /// Some files whose names begin with `prefix` and come after `after`, in the order of their names, and whether there are more.
    pub(super) fn list(&self, prefix: &[u8], after: &[u8]) -> Result<(Vec<ListedFile>, bool)> {
        let mut page = ListingPage::default();
        // Names that are still to be visited, the next one last; those of folders end with a slash.
        let mut names = self.sorted_names(b"", prefix, after)?;
        while let Some(name) = names.pop() {
            if name.ends_with(b"/") {
                names.extend(self.sorted_names(&name, prefix, after)?);
                continue;
            }
            let Ok(stat) = fs::symlink_metadata(self.folder.join(OsStr::from_bytes(&name))) else { continue };
            if page.is_full() {
                return Ok((page.files, true));
            }
            page.add(ListedFile { name, end: stat.len() });
        }
        Ok((page.files, false))
    }

    /// Files and folders of a folder that belong to a listing, in the opposite order of their names.
    fn sorted_names(&self, folder: &[u8], prefix: &[u8], after: &[u8]) -> Result<Vec<Vec<u8>>> {
        let path = self.folder.join(OsStr::from_bytes(folder));
        let entries = match fs::read_dir(&path) {
            // Removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.is_empty() => {
                return Ok(Vec::new());
            }
            outcome => outcome.map_err(|error| Error::from_io(error, Operation::Open, &path))?,
        };
        let named = |entry: io::Result<fs::DirEntry>| {
            let entry = entry.ok()?;
            let kind = entry.file_type().ok()?;
            let mut name = [folder, entry.file_name().as_bytes()].concat();
            if kind.is_dir() {
                name.push(b'/');
                // All names in it begin with this.
                let has_later = name.as_slice() > after || after.starts_with(&name);
                let has_wanted = name.starts_with(prefix) || prefix.starts_with(&name);
                return (has_later && has_wanted).then_some(name);
            }
            (kind.is_file() && name.starts_with(prefix) && name.as_slice() > after).then_some(name)
        };
        let mut names: Vec<Vec<u8>> = entries.filter_map(named).collect();
        names.sort_unstable_by(|one, other| other.cmp(one));
        Ok(names)
    }

    /// Makes all files of the folder durable, also those that are no longer open.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(fs::File::open(&self.folder)?)?)
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
        for name in [
            "../secret",
            "a/../../secret",
            "/etc/passwd",
            "link/secret",
            "file-link",
            "a\0b",
            "",
            "..",
            ".",
            // Other names of the same file, which would have other locks.
            "a//b",
            "a/./b",
            "./a",
            "a/",
        ] {
            let error = store.open(name.as_ref(), &create).err().unwrap();
            assert_eq!(error.kind(), Kind::InvalidName, "{name}");
            assert_eq!(store.delete(name.as_ref()).unwrap_err().kind(), Kind::InvalidName, "{name}");
        }
        drop(store.open("a/b".as_ref(), &create).unwrap());
        let (files, more) = store.list(b"a", b"").unwrap();
        assert_eq!((files[0].name.as_slice(), files.len(), more), (&b"a/b"[..], 1, false));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 2);
    }

    /// Pages follow one another without gaps, in the order of whole names, and folders that cannot have a name are not read.
    #[test]
    fn listings_are_sorted_and_paged() {
        let folder = tempfile::tempdir().unwrap();
        let store = StoreFolder::new(folder.path()).unwrap();
        for sub in ["a", "a/b", "c", "unwanted"] {
            fs::create_dir(folder.path().join(sub)).unwrap();
        }
        let mut expected: Vec<String> = (0..3000).map(|number| format!("a/b/{number}")).collect();
        expected.extend((0..2000).map(|number| format!("c/{number}")));
        expected.extend(["a.b", "a/x", "a0", "b"].map(String::from));
        expected.iter().for_each(|name| fs::write(folder.path().join(name), b"12").unwrap());
        expected.sort();
        let all = |prefix: &str| {
            let (mut names, mut after) = (Vec::new(), Vec::new());
            loop {
                let (files, more) = store.list(prefix.as_bytes(), &after).unwrap();
                assert!(files.iter().all(|file| file.end == 2));
                names.extend(files.iter().map(|file| String::from_utf8(file.name.clone()).unwrap()));
                after = files.last().map(|file| file.name.clone()).unwrap_or_default();
                if !more {
                    return names;
                }
            }
        };
        assert_eq!(all(""), expected);
        expected.retain(|name| name.starts_with("a/b/1"));
        assert_eq!(all("a/b/1"), expected);
        store.sync().unwrap();
    }
}
