//! The pattern `objects`: numbers round-robin over the ranks through an object file with `.meta`, checksums and commit. The bytes are
//! those of `round-robin-4`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use aqueduct::comm::Comm;
use aqueduct::file::{Counters, Mode};
use aqueduct::object::{ObjectFile, ObjectOpenOptions, ObjectView, repair};

/// An open object file, and the numbers of a rank.
pub struct ObjectCase<'a> {
    world: &'a Comm,
    path: PathBuf,
    file: ObjectFile<i32>,
    numbers: Vec<i32>,
}

impl<'a> ObjectCase<'a> {
    /// Opens the file of all candidates as an object file: makes a `.meta` for its present contents. Collective.
    pub fn open(world: &'a Comm, path: &Path, read: bool, bytes: &[u8]) -> Result<Self> {
        delete_meta(world, path)?;
        repair::<i32>(world, path)?;
        let mode = if read { Mode::read_only() } else { Mode::read_write() };
        let file = ObjectOpenOptions::new(mode).open::<i32>(world, path)?;
        file.set_view(&ObjectView::round_robin(world))?;
        let numbers =
            bytes.chunks_exact(4).map(|word| i32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        Ok(Self { world, path: path.to_owned(), file, numbers: numbers.collect() })
    }

    /// Writes or reads all numbers, with all other ranks.
    pub fn operate(&mut self, read: bool) -> Result<()> {
        let place = self.file.at(0).all();
        let count = if read { place.read(&mut self.numbers)? } else { place.write(&self.numbers)? };
        ensure!(
            count == self.numbers.len() as u64,
            "{count} of {} numbers were transferred",
            self.numbers.len()
        );
        Ok(())
    }

    /// What this rank has done to the file.
    pub fn counters(&self) -> Counters {
        self.file.counters()
    }

    /// The numbers as bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        self.numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// Closes the file and deletes its `.meta`, which does not describe what other candidates write. Collective.
    pub fn close(self) -> Result<()> {
        self.file.close()?;
        delete_meta(self.world, &self.path)
    }
}

/// Deletes the `.meta`. Collective.
fn delete_meta(world: &Comm, path: &Path) -> Result<()> {
    let meta = PathBuf::from(format!("{}.meta", path.display()));
    if world.rank() == 0 {
        match aqueduct::file::delete(&meta) {
            Err(error) if error.kind() != aqueduct::Kind::NoSuchFile => {
                return Err(error).with_context(|| format!("deleting {}", meta.display()));
            }
            _ => {}
        }
    }
    Ok(world.barrier()?)
}
