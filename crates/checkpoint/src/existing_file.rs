//! Files that are written as a whole, and existing files of the same name.

use aqueduct_comm::Comm;
use aqueduct_file::{File, Kind, Mode, OpenOptions};

use crate::error::{Error, Result, on_root};

/// What a writer of a whole file does with an existing file of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingFile {
    /// It returns an error.
    Refuse,
    /// It replaces the file.
    Replace,
}

impl ExistingFile {
    /// The mode that creates a file.
    pub fn create_mode(self, mode: Mode) -> Mode {
        match self {
            Self::Refuse => mode.exclusive(),
            Self::Replace => mode.create(),
        }
    }

    /// Options that create a file that is synced as soon as all of it is written. Its bytes may go to the medium before the sync.
    pub fn create_options(self, mode: Mode) -> OpenOptions {
        OpenOptions::from(self.create_mode(mode)).hint("aqueduct_write_behind", "true")
    }

    /// Makes sure that no header of this name describes data that is about to be written: returns an error if the file exists, or
    /// deletes it. Collective.
    pub fn clear(self, comm: &Comm, name: &str) -> Result<()> {
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
