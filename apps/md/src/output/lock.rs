//! Locks of the outputs: one run at a time writes the files of a prefix.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use aqueduct::comm::Comm;

use crate::input::config::OutputLine;

/// The locks of all prefixes of a run, held by rank 0: `flock` on `<prefix>.lock`. The kernel releases them at the end of the process; the
/// files are removed at the end of the run.
#[derive(Debug, Default)]
pub struct OutputLocks {
    held: Vec<(PathBuf, File)>,
}

impl OutputLocks {
    /// Takes the locks of all prefixes before any output is changed. On a file system without locks, or in a folder that cannot be written,
    /// there is no lock: the writers report problems of the folder. Collective.
    pub fn acquire(world: &Comm, lines: &[OutputLine]) -> Result<Self> {
        let mut locks = Self::default();
        let mut refused = String::new();
        if world.rank() == 0 {
            let prefixes: BTreeSet<&str> = lines.iter().map(|line| line.prefix.as_str()).collect();
            for prefix in prefixes {
                match lock(&PathBuf::from(format!("{prefix}.lock"))) {
                    Some(Ok(lock)) => locks.held.push(lock),
                    Some(Err(path)) => {
                        refused = format!(
                            "output {prefix}: another program writes files with this prefix (it holds the lock {}); end it, or use another prefix",
                            path.display()
                        );
                        break;
                    }
                    None => {}
                }
            }
        }
        let refused = world.broadcast_vec(0, refused.into_bytes())?;
        if !refused.is_empty() {
            bail!("{}", String::from_utf8_lossy(&refused));
        }
        Ok(locks)
    }
}

impl Drop for OutputLocks {
    fn drop(&mut self) {
        // Removed while they are locked, so no other program holds them.
        self.held.iter().for_each(|(path, _)| drop(fs::remove_file(path)));
    }
}

/// The lock of a file; its path as the error if another program holds it. `None` if locks are not possible.
fn lock(path: &Path) -> Option<Result<(PathBuf, File), PathBuf>> {
    loop {
        let file = File::options().create(true).truncate(false).write(true).open(path).ok()?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Some(Err(path.to_owned())),
            Err(TryLockError::Error(_)) => {
                let _ = fs::remove_file(path);
                return None;
            }
        }
        // The previous holder may have removed the file between the two calls: then this lock is not on the current file.
        let same = |mine: fs::Metadata| {
            fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (mine.dev(), mine.ino()))
        };
        if file.metadata().is_ok_and(same) {
            return Some(Ok((path.to_owned(), file)));
        }
    }
}

#[cfg(test)]
mod tests {
    use aqueduct::comm::Launch;

    use super::*;
    use crate::input::config::OutputKind;

    #[test]
    fn a_prefix_has_one_writer_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let line = |writer, name: &str| {
            let prefix = folder.path().join(name).display().to_string();
            OutputLine { kind: writer, every: 1, prefix }
        };
        let lines = [line(OutputKind::Vis, "a"), line(OutputKind::Xyz, "a"), line(OutputKind::Pov, "b")];
        let acquire = |world: &Comm, lines: &[OutputLine]| {
            OutputLocks::acquire(world, lines).map_err(|e| e.to_string())
        };
        Launch::threads(2)
            .run(|world| {
                let held = acquire(world, &lines)?;
                let refused =
                    acquire(world, &[line(OutputKind::Result, "c"), line(OutputKind::Xyz, "b")]).unwrap_err();
                assert!(
                    refused.contains("another program writes") && refused.contains("b.lock"),
                    "{refused}"
                );
                world.barrier().map_err(|error| error.to_string())?;
                drop(held);
                world.barrier().map_err(|error| error.to_string())?;
                drop(acquire(world, &lines)?);
                // Without a folder there is no lock.
                drop(acquire(world, &[line(OutputKind::Vis, "not/there")])?);
                Ok::<_, String>(())
            })
            .unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "no lock is left");
    }
}
