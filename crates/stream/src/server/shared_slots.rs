//! Symmetric buffers: memory of equal size for each client, into which it packs and from which the server fetches.
//!
//! `unsafe` here: both sides reach the shared memory as slices, so that nothing is copied twice. A slot belongs to its client until the client has told the
//! server of it, then to the server until that has let it go; both are messages, so that the sides are ordered and never reach it at the same time.
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
    /// Bytes of all slots of so many clients; slots begin at whole words.
    pub(crate) fn bytes(clients: usize, room: BufferGrant) -> usize {
        clients * room.slots as usize * Self::stride(room)
    }

    pub(crate) fn new(region: SharedRegion, room: BufferGrant) -> Self {
        Self { region, grant: room }
    }

    /// Hands a slot of a client to `fill`. Only for the client itself, and only while it has not told the server of what is there.
    pub(crate) fn fill<R>(
        &self,
        client: usize,
        slot: u32,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Option<R> {
        let start = self.start(client, slot, bytes)?;
        // SAFETY: the range lies in the region (`start`); the slot is this client's until it tells, and `Slots` gives it out once.
        Some(fill(unsafe { self.region.slice_mut(start, bytes) }))
    }

    /// Shows what is in a slot of a client. Only for the server, from when it was told of it until it lets it go.
    pub(crate) fn show<R>(
        &self,
        client: usize,
        slot: u32,
        bytes: usize,
        show: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let start = self.start(client, slot, bytes)?;
        // SAFETY: the range lies in the region (`start`); its client writes nothing there before it is told that the slot was let go.
        Some(show(unsafe { self.region.slice(start, bytes) }))
    }

    fn start(&self, client: usize, slot: u32, bytes: usize) -> Option<usize> {
        let start = (client * self.grant.slots as usize + slot as usize) * Self::stride(self.grant);
        let inside =
            slot < self.grant.slots && bytes as u64 <= self.grant.slot && start + bytes <= self.region.len();
        inside.then_some(start)
    }

    fn stride(room: BufferGrant) -> usize {
        (room.slot as usize).next_multiple_of(64)
    }
}
