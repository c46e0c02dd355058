//! Slots in shared memory, of equal size for each client: the client writes its data there and the server reads it.
//!
//! `unsafe` here: both sides access the shared memory as slices, so that data is copied once. A slot belongs to its client until
//! the client has sent the header of its data, then to the server until the server has sent its release. The messages order the
//! accesses of the two sides.
#![allow(unsafe_code)]

use aqueduct_comm::SharedRegion;

use super::protocol::BufferGrant;

/// The slots of all clients that share memory with their server.
#[derive(Clone, Debug)]
pub(crate) struct SharedSlots {
    region: SharedRegion,
    grant: BufferGrant,
}

impl SharedSlots {
    /// Bytes of all slots of this number of clients; slots begin at cache lines.
    pub(crate) fn bytes(clients: usize, grant: BufferGrant) -> usize {
        clients * grant.slots as usize * Self::stride(grant)
    }

    pub(crate) fn new(region: SharedRegion, grant: BufferGrant) -> Self {
        Self { region, grant }
    }

    /// Calls `fill` with a slot of a client; none if there is no such slot. Only for the client itself, before it sends the header
    /// of the data.
    pub(crate) fn fill<R>(
        &self,
        client: usize,
        slot: u32,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Option<R> {
        let start = self.start(client, slot, bytes)?;
        // SAFETY: the range is inside the region (`start`); the slot belongs to this client until it sends the header, and
        // `SlotAllocator` returns a slot once.
        Some(fill(unsafe { self.region.slice_mut(start, bytes) }))
    }

    /// Calls `show` with the data in a slot of a client; none if there is no such slot. Only for the server, between the header of
    /// the data and its release.
    pub(crate) fn show<R>(
        &self,
        client: usize,
        slot: u32,
        bytes: usize,
        show: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let start = self.start(client, slot, bytes)?;
        // SAFETY: the range is inside the region (`start`); its client does not write there before the server releases the slot.
        Some(show(unsafe { self.region.slice(start, bytes) }))
    }

    fn start(&self, client: usize, slot: u32, bytes: usize) -> Option<usize> {
        let start = (client * self.grant.slots as usize + slot as usize) * Self::stride(self.grant);
        let inside =
            slot < self.grant.slots && bytes as u64 <= self.grant.slot && start + bytes <= self.region.len();
        inside.then_some(start)
    }

    fn stride(grant: BufferGrant) -> usize {
        (grant.slot as usize).next_multiple_of(64)
    }
}
