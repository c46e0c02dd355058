//! Changes of the description on their way into the real file.

use super::container::Container;
use super::patch::Patch;
use super::shadow::Piece;
use crate::error::{Error, Result};

impl Container {
    /// Rank 0 writes changes of the description, so that a program that ends at any moment leaves the old one, the new one, or a journal that
    /// leads to the new one. Collective; `length` is where the file ends according to its description.
    pub(super) fn apply(&self, operation: &'static str, changes: Vec<Piece>, length: u64) -> Result<()> {
        let before = self.agree(operation, self.file.size().map_err(Error::from))?;
        let patch = Patch::new(changes, before);
        let end = length.max(before);
        if end > before {
            if self.reserve { self.file.preallocate(end)? } else { self.file.set_size(end)? }
        }
        self.write_pieces(operation, &patch.fresh)?;
        let ((), [journal]) = self.meet(operation, Ok(()), [(!patch.is_atomic()).into()])?;
        if journal > 0 {
            let bytes = if self.comm.rank() == 0 { vec![(end, patch.journal(end))] } else { Vec::new() };
            self.write_pieces(operation, &bytes)?;
        }
        self.write_pieces(operation, &patch.placed)?;
        if journal > 0 {
            self.file.set_size(end)?;
        }
        Ok(())
    }

    /// Rank 0 writes pieces; they are durable afterwards. Collective.
    pub(super) fn write_pieces(&self, operation: &'static str, pieces: &[Piece]) -> Result<()> {
        let write = || {
            for (offset, bytes) in pieces {
                self.file.at(*offset).write(bytes)?;
            }
            Ok(())
        };
        let written = if self.comm.rank() == 0 { write() } else { Ok(()) };
        self.agree(operation, written)?;
        self.sync()
    }
}
