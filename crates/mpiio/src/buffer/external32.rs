//! Data in external32 with a view of bytes, which matches values of any type: the datatype of the access determines the
//! conversion. If the etype of the view has a type, the engine converts.

use aqueduct_file::layout::{Basic, Layout, LayoutError, Pattern};
use aqueduct_file::{Incoming, Outgoing, Representation, Sink, Source};

use crate::buffer::borrowed_buffer::BorrowedBuffer;
use crate::buffer::{BufferDirection, zeroed};
use crate::host::Mpi;
use crate::host::{MpiError, Outcome};

/// Data as it lies in the file.
pub(crate) struct External32Buffer {
    stored: Vec<u8>,
    /// The types of the values.
    kinds: Pattern,
    /// The destination of a read; none for a write.
    memory: Option<BorrowedBuffer>,
}

/// True if data of this layout is converted by its own types: the view has bytes only.
pub(crate) fn is_wanted(etype: &Layout, data: &Layout) -> bool {
    is_bytes(etype) && !is_bytes(data)
}

fn is_bytes(layout: &Layout) -> bool {
    layout.pattern().signature(..).all(|elements| elements.basic == Basic::Byte)
}

impl External32Buffer {
    /// `count` copies of `layout`, which `memory` holds or is to hold.
    pub(crate) fn new(
        mpi: &Mpi,
        memory: BorrowedBuffer,
        layout: &Layout,
        count: u64,
        direction: BufferDirection,
    ) -> Outcome<Self> {
        let refuse = |text: String| MpiError::new(mpi.constants.integers.conversion, text);
        let many = |error: LayoutError| MpiError::new(mpi.constants.integers.count, error.to_string());
        let kinds = layout.tiled(count).map_err(many)?;
        if direction == BufferDirection::Read {
            let stored = zeroed(mpi, Some(kinds.external32_size()))?;
            return Ok(Self { stored, kinds, memory: Some(memory) });
        }
        let mut packed = zeroed(mpi, Some(kinds.size()))?;
        memory.copy_out(&mut packed).map_err(|error| refuse(error.to_string()))?;
        let stored = Representation::External32.store(&kinds, 0, packed).map_err(refuse)?;
        Ok(Self { stored, kinds, memory: None })
    }

    /// Completes the transfer of `bytes` of the file: stores read data in memory; the number of bytes in memory.
    pub(crate) fn finish(&mut self, mpi: &Mpi, bytes: u64) -> Outcome<u64> {
        let refuse = |text: String| MpiError::new(mpi.constants.integers.conversion, text);
        if self.memory.is_none() && bytes == self.stored.len() as u64 {
            return Ok(self.kinds.size());
        }
        self.stored.truncate(bytes as usize);
        let stored = std::mem::take(&mut self.stored);
        let values = Representation::External32.load(&self.kinds, 0, stored).map_err(refuse)?;
        if let Some(memory) = self.memory.take() {
            memory.copy_in(&values).map_err(|error| refuse(error.to_string()))?;
        }
        Ok(values.len() as u64)
    }
}

impl Outgoing for External32Buffer {
    fn source(&self) -> Source<'_> {
        self.stored.as_slice().into()
    }
}

impl Incoming for External32Buffer {
    fn sink(&mut self) -> Sink<'_> {
        self.stored.as_mut_slice().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_match_any_type_and_are_not_converted() {
        let (byte, int): (Layout, Layout) = (Basic::Byte.into(), Basic::I32.into());
        assert!(is_wanted(&byte, &int));
        assert!(is_wanted(&byte.contiguous(4).unwrap(), &int));
        assert!(!is_wanted(&int, &int));
        assert!(!is_wanted(&byte, &byte));
    }
}
