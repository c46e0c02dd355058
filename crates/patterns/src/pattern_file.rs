//! What patterns need of a file, and the engine as such a file.

use std::path::Path;

use anyhow::{Result, ensure};
use aqueduct::comm::Comm;
use aqueduct::file::{Counters, File, OpenOptions, Whence};

use crate::bench_case::Coordination;
use crate::view_tree::ViewTree;

/// Where an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePosition {
    /// At so many etypes of the view.
    Offset(u64),
    /// At the shared file pointer; a collective access in rank order.
    Shared,
}

/// An open file. An access that transfers fewer bytes than it should is an error.
pub trait PatternFile {
    /// Sets the view of this rank. Collective.
    fn set_view(&mut self, view: &ViewTree) -> Result<()>;
    /// Switches to atomic mode. Collective.
    fn set_atomic(&mut self) -> Result<()>;
    /// Writes all of `bytes`.
    fn write(&mut self, position: FilePosition, coordination: Coordination, bytes: &[u8]) -> Result<()>;
    /// Fills `bytes`.
    fn read(&mut self, position: FilePosition, coordination: Coordination, bytes: &mut [u8]) -> Result<()>;
    /// Moves the shared file pointer to the start of the view. Collective.
    fn rewind_shared(&mut self) -> Result<()>;
    /// Makes what was written durable. Collective.
    fn sync(&mut self) -> Result<()>;
    /// Cuts or extends the file. Collective.
    fn set_size(&mut self, bytes: u64) -> Result<()>;
    /// What this rank has done to the file, if that is counted.
    fn counters(&self) -> Option<Counters> {
        None
    }
    /// Closes the file. Collective.
    fn close(self: Box<Self>) -> Result<()>;
}

/// How a file is opened.
#[derive(Clone, Debug, Default)]
pub struct PatternOpenOptions {
    /// Create it if it does not exist.
    pub create: bool,
    /// It is only read.
    pub read_only: bool,
    /// Pass by the page cache, which only the engine can.
    pub direct: bool,
    /// Hints.
    pub hints: Vec<(String, String)>,
}

/// A file of the engine.
#[derive(Debug)]
pub struct EngineFile {
    file: File,
}

impl EngineFile {
    /// Opens it. Collective.
    pub fn open(comm: &Comm, path: &Path, options: &PatternOpenOptions) -> Result<Self> {
        let open = OpenOptions::new().read(true).write(!options.read_only).create(options.create);
        let open = if options.direct { open.hint("aqueduct_direct", "true") } else { open };
        let open =
            options.hints.iter().fold(open, |open, (key, value)| open.hint(key.clone(), value.clone()));
        Ok(Self { file: open.open(comm, path)? })
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl PatternFile for EngineFile {
    fn set_view(&mut self, view: &ViewTree) -> Result<()> {
        Ok(self.file.set_view(&view.view()?)?)
    }

    fn set_atomic(&mut self) -> Result<()> {
        Ok(self.file.set_atomic(true)?)
    }

    fn write(&mut self, position: FilePosition, coordination: Coordination, bytes: &[u8]) -> Result<()> {
        let access = match position {
            FilePosition::Offset(offset) => self.file.at(offset),
            FilePosition::Shared => self.file.shared(),
        };
        let count = match coordination {
            Coordination::Independent => access.write(bytes)?,
            Coordination::Collective => access.all().write(bytes)?,
        };
        check_count(count.bytes(), bytes.len())
    }

    fn read(&mut self, position: FilePosition, coordination: Coordination, bytes: &mut [u8]) -> Result<()> {
        let access = match position {
            FilePosition::Offset(offset) => self.file.at(offset),
            FilePosition::Shared => self.file.shared(),
        };
        let wanted = bytes.len();
        let count = match coordination {
            Coordination::Independent => access.read(bytes)?,
            Coordination::Collective => access.all().read(bytes)?,
        };
        check_count(count.bytes(), wanted)
    }

    fn rewind_shared(&mut self) -> Result<()> {
        self.file.seek_shared(0, Whence::Start)?;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(self.file.sync()?)
    }

    fn set_size(&mut self, bytes: u64) -> Result<()> {
        Ok(self.file.set_size(bytes)?)
    }

    fn counters(&self) -> Option<Counters> {
        Some(self.file.counters())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.file.close()?)
    }
}

/// Fails unless all bytes were transferred.
pub(crate) fn check_count(done: u64, wanted: usize) -> Result<()> {
    ensure!(done == wanted as u64, "{done} of {wanted} bytes were transferred");
    Ok(())
}
