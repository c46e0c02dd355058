//! Deletion of files that are replaced: the name is removed at once, the space is freed in the background.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags};

use crate::{Error, Operation, Result, name};

/// Smaller files are deleted faster than a thread starts.
const LARGE: i64 = 4 << 20;

/// True while a thread frees space; a second one would not help.
static BUSY: AtomicBool = AtomicBool::new(false);

pub(super) fn delete(name: &OsStr) -> Result<()> {
    name::check(name, Operation::Delete)?;
    rustix::fs::unlink(name).map_err(|errno| Error::from_io(errno.into(), Operation::Delete, name))
}

/// Deletes a file. The system frees its space when the last descriptor is closed; for
/// a large file a background thread does that.
pub(super) fn delete_in_background(name: &OsStr) -> Result<()> {
    // An invalid name is rejected by the deletion.
    let kept = rustix::fs::open(name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    delete(name)?;
    let large = |kept: &OwnedFd| rustix::fs::fstat(kept).is_ok_and(|stat| stat.st_size >= LARGE);
    if let Some(kept) = kept.ok().filter(large) {
        close_in_thread(kept);
    }
    Ok(())
}

fn close_in_thread(file: OwnedFd) {
    if BUSY.swap(true, Ordering::Acquire) {
        return;
    }
    let work = move || {
        drop(file);
        BUSY.store(false, Ordering::Release);
    };
    // Without a thread the file is closed here.
    if std::thread::Builder::new().name("aqueduct-discard".to_owned()).spawn(work).is_err() {
        BUSY.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, DeviceOpenOptions, HandleExt, Kind, Ufs};

    /// Small and large files, while threads delete earlier ones; an open file keeps its bytes.
    #[test]
    fn a_deleted_file_can_be_replaced_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("again");
        let name = path.as_os_str();
        assert_eq!(Ufs.delete_in_background(name).unwrap_err().kind(), Kind::NotFound);
        for round in 0..8u8 {
            let file = Ufs.open(name, &DeviceOpenOptions::read_write().create(true).exclusive(true)).unwrap();
            assert!(file.is_empty().unwrap(), "round {round}");
            file.write_at(if round % 2 == 0 { 0 } else { 8 << 20 }, &[round; 9]).unwrap();
            let open = (round >= 4).then_some(file);
            Ufs.delete_in_background(name).unwrap();
            assert!(!path.exists());
            if let Some(open) = open {
                let mut last = [0];
                open.read_at(open.len().unwrap() - 1, &mut last).unwrap();
                assert_eq!(last, [round]);
            }
        }
    }
}
