//! A file of a sweep: bytes through an interface, or objects.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use aqueduct::comm::Comm;
use aqueduct::file::Mode;
use aqueduct::object::{ObjectFile, ObjectOpenOptions, ObjectView};
use aqueduct_patterns::{
    Coordination, FileInterface, FilePosition, PatternFile, PatternOpenOptions, ViewTree, fill,
};

use super::SweepTest;

/// What is compared.
pub(super) enum SweepContender {
    Interface(FileInterface),
    /// Object files of the engine.
    Objects,
}

impl SweepContender {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Interface(FileInterface::Engine) => "bytes",
            Self::Interface(other) => other.name(),
            Self::Objects => "objects",
        }
    }
}

enum OpenSweepFile {
    Bytes(Box<dyn PatternFile>),
    Characters(ObjectFile<u8>),
    Integers(ObjectFile<i32>),
}

/// The file of one test, size and contender, with the data of a rank.
pub(super) struct SweepFile<'a> {
    comm: Comm,
    contender: &'a SweepContender,
    test: SweepTest,
    path: PathBuf,
    hints: &'a [(String, String)],
    /// True if this rank takes part: in single tests only the first one.
    is_active: bool,
    bytes: Vec<u8>,
    integers: Vec<i32>,
    open: Option<OpenSweepFile>,
    is_read: bool,
}

impl<'a> SweepFile<'a> {
    pub(super) fn new(
        world: &Comm,
        contender: &'a SweepContender,
        test: SweepTest,
        path: PathBuf,
        bytes: u64,
        hints: &'a [(String, String)],
    ) -> Self {
        let is_active = test.is_collective() || world.rank() == 0;
        let bytes = bytes / test.element() * test.element();
        // Whole words are filled.
        let mut data = vec![0u8; bytes.next_multiple_of(8) as usize];
        fill(world.rank() as u64, &mut data);
        data.truncate(bytes as usize);
        let integers =
            data.chunks_exact(4).map(|word| i32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        let integers = if test.is_collective() { integers.collect() } else { Vec::new() };
        let comm = if test.is_collective() { world.clone() } else { world.comm_self() };
        let is_read = test.is_read();
        Self { comm, contender, test, path, hints, is_active, bytes: data, integers, open: None, is_read }
    }

    /// Writes the data into a new file, reads it and compares it; the file stays.
    pub(super) fn verify(&mut self) -> Result<()> {
        let (bytes, integers) = (self.bytes.clone(), self.integers.clone());
        self.is_read = false;
        self.open(true)?;
        self.access()?;
        self.close()?;
        self.is_read = true;
        self.bytes.fill(0);
        self.integers.fill(0);
        self.open(false)?;
        self.access()?;
        self.close()?;
        let is_same = match self.contender {
            SweepContender::Objects if self.test.is_collective() => self.integers == integers,
            _ => self.bytes == bytes,
        };
        ensure!(is_same || !self.is_active, "what was read is not what was written");
        (self.bytes, self.integers, self.is_read) = (bytes, integers, self.test.is_read());
        Ok(())
    }

    /// Opens the file and sets the view.
    pub(super) fn open(&mut self, create: bool) -> Result<()> {
        if !self.is_active {
            return Ok(());
        }
        let (rank, ranks) = (self.comm.rank() as u64, self.comm.size() as u64);
        self.open = Some(match self.contender {
            SweepContender::Interface(interface) => {
                let read_only = self.is_read && !create;
                let options =
                    PatternOpenOptions { create, read_only, direct: false, hints: self.hints.to_vec() };
                let mut file = interface.open(&self.comm, &self.path, &options)?;
                if self.test.is_collective() {
                    file.set_view(&ViewTree::round_robin(4, rank, ranks))?;
                }
                OpenSweepFile::Bytes(file)
            }
            SweepContender::Objects => {
                let mode = if self.is_read { Mode::read_only() } else { Mode::read_write() };
                if self.test.is_collective() {
                    let file = if create {
                        ObjectFile::<i32>::replace(&self.comm, &self.path)?
                    } else {
                        ObjectOpenOptions::new(mode).open::<i32>(&self.comm, &self.path)?
                    };
                    file.set_view(&ObjectView::round_robin(&self.comm))?;
                    OpenSweepFile::Integers(file)
                } else {
                    OpenSweepFile::Characters(if create {
                        ObjectFile::<u8>::replace(&self.comm, &self.path)?
                    } else {
                        ObjectOpenOptions::new(mode).open::<u8>(&self.comm, &self.path)?
                    })
                }
            }
        });
        Ok(())
    }

    /// Writes or reads all data.
    pub(super) fn access(&mut self) -> Result<()> {
        let (wanted, done) = match &mut self.open {
            None if !self.is_active => return Ok(()),
            None => bail!("the file is not open"),
            Some(OpenSweepFile::Bytes(file)) => {
                let coordination = if self.test.is_collective() {
                    Coordination::Collective
                } else {
                    Coordination::Independent
                };
                let position = FilePosition::Offset(0);
                return if self.is_read {
                    file.read(position, coordination, &mut self.bytes)
                } else {
                    file.write(position, coordination, &self.bytes)
                };
            }
            Some(OpenSweepFile::Characters(file)) if self.is_read => {
                (self.bytes.len(), file.at(0).read(&mut self.bytes)?)
            }
            Some(OpenSweepFile::Characters(file)) => (self.bytes.len(), file.at(0).write(&self.bytes)?),
            Some(OpenSweepFile::Integers(file)) if self.is_read => {
                (self.integers.len(), file.at(0).all().read(&mut self.integers)?)
            }
            Some(OpenSweepFile::Integers(file)) => {
                (self.integers.len(), file.at(0).all().write(&self.integers)?)
            }
        };
        ensure!(done == wanted as u64, "{done} of {wanted} objects were transferred");
        Ok(())
    }

    pub(super) fn close(&mut self) -> Result<()> {
        match self.open.take() {
            None => Ok(()),
            Some(OpenSweepFile::Bytes(file)) => file.close(),
            Some(OpenSweepFile::Characters(file)) => Ok(file.close()?),
            Some(OpenSweepFile::Integers(file)) => Ok(file.close()?),
        }
    }
}
