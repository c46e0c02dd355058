//! How files are opened that are written as a whole.

use aqueduct_comm::Comm;
use aqueduct_file::{File, Kind, Mode, OpenOptions};

use crate::error::{Error, Result, on_root};

/// What becomes of a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistingFile {
    Refuse,
    Replace,
}

impl ExistingFile {
    /// The mode that creates a file.
    pub(crate) fn creating(self, mode: Mode) -> Mode {
        match self {
            Self::Refuse => mode.exclusive(),
            Self::Replace => mode.create(),
        }
    }

    /// Makes sure that no file of this name speaks for data that is about to be written: refuses it, or deletes it. Collective.
    pub(crate) fn clear(self, comm: &Comm, name: &str) -> Result<()> {
        on_root(comm, "write", name, || {
            match self {
                Self::Refuse => {
                    if File::open(&comm.comm_self(), name).is_ok() {
                        let detail = "the file exists; choose another name, delete it, or call `replace`";
                        return Err(Error::new(Kind::FileExists, "write", name, detail));
                    }
                }
                Self::Replace => match aqueduct_file::delete(name) {
                    Err(error) if error.kind() != Kind::NoSuchFile => return Err(error),
                    _ => {}
                },
            }
            Ok(Vec::new())
        })?;
        Ok(())
    }
}

/// A file that is synced as soon as all of it is written: its bytes may be on their way to the medium meanwhile.
pub(crate) fn write_behind_open(mode: Mode, existing: ExistingFile) -> OpenOptions {
    OpenOptions::from(existing.creating(mode)).hint("aqueduct_write_behind", "true")
}
