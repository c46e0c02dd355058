//! The way `buffered`: the collective write of `together` into a write buffer, which is drained while the next step is computed.

use anyhow::Result;
use aqueduct::comm::Comm;
use aqueduct::file::Mode;
use aqueduct::object::{ObjectFile, ObjectOpenOptions, ObjectView};

use crate::record::StoredParticle;

/// The memory of the buffer of a rank.
const BUFFER: &str = "1GiB";

/// The file of the last step, which is not yet committed.
pub(super) struct BufferedOutput<R> {
    pending: Option<ObjectFile<R>>,
}

impl<R> Default for BufferedOutput<R> {
    fn default() -> Self {
        Self { pending: None }
    }
}

impl<R: StoredParticle> BufferedOutput<R> {
    /// Commits the last step and writes the records of this one into the buffer. Collective.
    pub(super) fn write(&mut self, world: &Comm, name: &str, records: &Vec<R>) -> Result<()> {
        self.commit()?;
        let options =
            ObjectOpenOptions::new(Mode::read_write().exclusive()).replace().hint("aqueduct_buffer", BUFFER);
        let file = options.open(world, name)?;
        file.set_view(&ObjectView::contiguous(world, records.len() as u64)?)?;
        file.at_pointer().all().write(records)?;
        self.pending = Some(file);
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.pending.take().map_or(Ok(()), |file| Ok(file.close()?))
    }

    /// Commits the last step. Collective.
    pub(super) fn finish(mut self) -> Result<()> {
        self.commit()
    }
}
