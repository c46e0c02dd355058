//! The bytes of a batch, gathered from the clients window by window.

use super::job_queue::ServerPhase;
use super::output_writer::{HeldChunk, ServedOutput};
use crate::aggregate::GatherPlan;
use crate::error::{Error, Kind, Result};

/// The state of gathering a batch.
pub(super) struct ClientGather<'a> {
    output: &'a ServedOutput,
    plan: &'a GatherPlan,
    /// The start of the next window.
    start: u64,
    clients: Vec<ChunkCursor>,
}

/// The position in the bytes of a client.
#[derive(Default)]
struct ChunkCursor {
    /// The current chunk, and how many bytes of it were copied.
    chunk: Option<(HeldChunk, usize)>,
    done: u64,
}

impl<'a> ClientGather<'a> {
    pub(super) fn new(output: &'a ServedOutput, plan: &'a GatherPlan) -> Self {
        let clients = (0..output.clients()).map(|_| ChunkCursor::default()).collect();
        Self { output, plan, start: 0, clients }
    }

    /// Assembles the next window.
    pub(super) fn fill(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        let window = self.plan.window(self.start, self.output.window);
        let length = (window.end - window.start) as usize;
        self.output.set_phase(ServerPhase::Fetching);
        if buffer.capacity() < length {
            let before = buffer.capacity();
            buffer.reserve_exact(length - buffer.len());
            self.output.grow((buffer.capacity() - before) as u64);
        }
        buffer.resize(length, 0);
        for client in 0..self.clients.len() {
            let bytes = self.plan.member_range(client, &window);
            self.fetch(client, bytes.end - bytes.start, buffer)?;
        }
        self.start = window.end;
        self.output.set_phase(ServerPhase::Writing);
        Ok(())
    }

    /// Copies the next bytes of a client into the window that begins at `start`.
    fn fetch(&mut self, client: usize, bytes: u64, window: &mut [u8]) -> Result<()> {
        let mut left = bytes;
        while left > 0 {
            let cursor = &mut self.clients[client];
            let (held, at) = match cursor.chunk.take() {
                Some(chunk) => chunk,
                None => (self.output.chunk(client)?, 0),
            };
            let length = length(&held);
            let now = (length - at).min(left as usize);
            let mut put = |chunk: &[u8]| {
                self.plan.scatter(client, cursor.done, &chunk[at..at + now], self.start, window)
            };
            let put = match &held {
                HeldChunk::Private(chunk) => Some(put(chunk.bytes())),
                HeldChunk::Slot(row, slot, bytes) => {
                    let slots = self.output.shared_slots.as_ref();
                    slots.and_then(|slots| slots.show(*row, *slot, *bytes, put))
                }
                HeldChunk::Nothing => None,
            };
            let refuse = |detail: &str| Error::new(Kind::Communication, "fetch", &self.output.name, detail);
            let put =
                put.ok_or_else(|| refuse("a client announced bytes that are in no slot and no message"))?;
            put.map_err(|error| refuse(&error.to_string()))?;
            cursor.done += now as u64;
            left -= now as u64;
            if at + now == length {
                self.output.release(client, held);
            } else {
                cursor.chunk = Some((held, at + now));
            }
        }
        Ok(())
    }
}

fn length(held: &HeldChunk) -> usize {
    match held {
        HeldChunk::Slot(_, _, bytes) => *bytes,
        HeldChunk::Private(private) => private.bytes().len(),
        HeldChunk::Nothing => 0,
    }
}
