//! The client's side of a channel to its server: opening it, passing data, receiving updates. Outputs and buffered files use it.

use std::sync::Arc;

use aqueduct_comm::Comm;
use aqueduct_file::layout::Strip;

use super::protocol::{
    ANSWER, BufferGrant, ChannelGrant, ClientRequest, DataHeader, OpenRequest, OutputRequest, REQUEST,
    SERVER, ServerUpdate, data_tag, send_message, update_tag,
};
use super::shared_slots::SharedSlots;
use super::slot_allocator::ChunkPlacement;
use super::split::{ComputeGroup, ServerLink};
use crate::error::{Error, Kind, Result};
use crate::wire::{WireEncoding, decode_message};

/// A channel of a client to its server.
#[derive(Debug)]
pub(super) struct ServerChannel {
    name: Arc<str>,
    link: Arc<ServerLink>,
    number: u32,
    /// The slots, and the row of this client; none if it shares no memory with its server.
    shared_slots: Option<(SharedSlots, usize)>,
    grant: BufferGrant,
    /// True if synced data survives a restart of the machine.
    is_persistent: bool,
}

impl ServerChannel {
    /// Opens a channel for an output, or for a buffered file. Collective over the clients of the server, for an output over the
    /// clients of all servers; an error is that of all clients of a server.
    pub(super) fn open(
        compute: &ComputeGroup,
        name: &str,
        output: Option<OutputRequest>,
        grant: BufferGrant,
    ) -> Result<Self> {
        let link = Arc::clone(&compute.link);
        let operation = if output.is_some() { "create" } else { "open" };
        let lost = |error: aqueduct_comm::Error| Error::from_comm(operation, name, &error);
        let open = OpenRequest { name: name.to_owned(), grant, output };
        send_message(&link.comm, SERVER, REQUEST, &ClientRequest::Open(open)).map_err(lost)?;
        let ChannelGrant { channel, grant } = receive_answer(&link.comm, operation, name)?;
        let shared_slots = map_shared_slots(&link.comm, grant).map_err(lost);
        let is_persistent = receive_answer(&link.comm, operation, name)?;
        let (name, shared_slots) = (name.into(), shared_slots?);
        Ok(Self { name, link, number: channel, shared_slots, grant, is_persistent })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn is_persistent(&self) -> bool {
        self.is_persistent
    }

    pub(super) fn grant(&self) -> BufferGrant {
        self.grant
    }

    pub(super) fn shares_memory(&self) -> bool {
        self.shared_slots.is_some()
    }

    /// Touches the pages of the slots, so that the first steps are as fast as the others.
    pub(super) fn prefault_slots(&self) {
        if let Some((slots, row)) = &self.shared_slots {
            let bytes = self.grant.slot as usize;
            (0..self.grant.slots).for_each(|slot| _ = slots.fill(*row, slot, bytes, |slot| slot.fill(0)));
        }
    }

    pub(super) fn send(&self, request: &ClientRequest) -> Result<()> {
        send_message(&self.link.comm, SERVER, REQUEST, request).map_err(|error| self.lost(&error))
    }

    /// Passes `length` bytes that `fill` provides, in a slot or in a message. The server gets 0 bytes if `fill` fails.
    pub(super) fn pass(
        &self,
        placement: ChunkPlacement,
        runs: Vec<Strip>,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let mut message = Vec::new();
        let (slot, filled) = match (placement, &self.shared_slots) {
            (ChunkPlacement::Slot(slot), Some((slots, row))) => {
                let outside =
                    || Err(Error::new(Kind::Unsupported, "write", &self.name, "there is no such slot"));
                (Some(slot), slots.fill(*row, slot, length, fill).unwrap_or_else(outside))
            }
            _ => {
                message.resize(length, 0);
                (None, fill(&mut message))
            }
        };
        let bytes = if filled.is_ok() { length as u64 } else { 0 };
        self.send(&ClientRequest::Data(self.number, DataHeader { runs, bytes, slot }))?;
        filled?;
        if slot.is_some() {
            return Ok(());
        }
        // The memory counts as the client's until the message was sent.
        let sending = self.link.comm.start_send(SERVER, data_tag(self.number), message);
        sending.and_then(aqueduct_comm::SendRequest::wait).map_err(|error| self.lost(&error))
    }

    /// The next update; none if there is none yet and the call does not wait.
    pub(super) fn receive_update(&self, wait: bool) -> Result<Option<ServerUpdate>> {
        let (comm, tag) = (&self.link.comm, update_tag(self.number));
        if !wait && comm.try_probe(SERVER, tag).map_err(|error| self.lost(&error))?.is_none() {
            return Ok(None);
        }
        let (bytes, _) = comm.receive(SERVER, tag).map_err(|error| self.lost(&error))?;
        decode_message(&bytes).map(Some)
    }

    /// Records that this rank fails because another one has.
    pub(super) fn mark_induced_failure(&self) {
        self.link.comm.mark_induced_failure(None);
    }

    fn lost(&self, error: &aqueduct_comm::Error) -> Error {
        Error::from_comm("ask the server for", &self.name, error)
    }
}

/// An answer of the server to a request to open a channel.
fn receive_answer<T: WireEncoding>(link: &Comm, operation: &'static str, name: &str) -> Result<T> {
    let answer = link.receive(SERVER, ANSWER).map_err(|error| Error::from_comm(operation, name, &error));
    decode_message::<Result<T>>(&answer?.0)?
}

/// The slots of the clients that share memory with the server, and the row of this client; none for the others. Collective over
/// the link.
pub(super) fn map_shared_slots(
    link: &Comm,
    grant: BufferGrant,
) -> aqueduct_comm::Result<Option<(SharedSlots, usize)>> {
    // Without slots everything is a message into the memory of the server.
    if grant.slots == 0 {
        return Ok(None);
    }
    let is_near = link.node_of(link.rank()) == link.node_of(SERVER);
    let Some(near) = link.split(is_near.then_some(0), 0)? else { return Ok(None) };
    if near.size() < 2 {
        return Ok(None);
    }
    let region = near.shared_region(SharedSlots::bytes(near.size() - 1, grant))?;
    Ok(Some((SharedSlots::new(region, grant), near.rank().saturating_sub(1))))
}
