//! The exchange of equal parts among the ranks of a communicator.

use anyhow::Result;
use aqueduct::comm::{Comm, Plain};

/// The ranks that exchange parts of a field.
pub(super) struct ExchangeGroup(Option<Comm>);

impl ExchangeGroup {
    /// The ranks of `world` with this colour, in the order of their ranks. Collective.
    pub(super) fn new(world: &Comm, colour: usize, ranks: usize) -> Result<Self> {
        let group = world.split(Some(colour as u32), world.rank() as i64)?;
        Ok(Self(if ranks > 1 { group } else { None }))
    }

    /// Sends part `r` of `from` to rank `r`, and leaves the parts received, in rank order, in `from`. Collective in the group.
    pub(super) fn exchange<T: Plain>(
        &self,
        parts: usize,
        size: usize,
        from: &mut Vec<T>,
        spare: &mut Vec<T>,
    ) -> Result<()> {
        let Some(comm) = &self.0 else { return Ok(()) };
        let bytes = parts * size;
        comm.all_to_all_into(&from[..bytes], &mut spare[..bytes])?;
        std::mem::swap(from, spare);
        Ok(())
    }
}
