//! Buffered files at a server: opening them for all clients, and what becomes of them.

use std::sync::{Arc, Condvar, Mutex};

use aqueduct_comm::Comm;
use aqueduct_file::OpenOptions;
use aqueduct_file::write_behind::BackgroundQueue;

use super::buffered_file_writer::{BufferedFileState, BufferedFileWriter};
use super::client::map_shared_slots;
use super::dispatcher::{LEAST, ServerDispatcher, ServerReport, start_writer};
use super::job_queue::ClientItem;
use super::output_writer::{HeldChunk, PooledBytes, ServerMemoryGauge};
use super::protocol::{BufferGrant, SERVER, StridedRun, data_tag};
use crate::error::{EncodedError, Error, Kind, Result};

/// Slots of a client: one is filled while another is fetched.
const SLOTS: u32 = 2;

/// A buffered file: a line for each client.
pub(super) struct ServedFile {
    clients: Vec<Arc<BufferedFileWriter>>,
    /// A thread for each client.
    threads: Vec<BackgroundQueue>,
    /// What of the server's memory is set aside for it, and what of that slots take.
    budget: u64,
    slots: u64,
    pool: Arc<ServerMemoryGauge>,
}

impl ServedFile {
    /// What a client wants besides writing.
    pub(super) fn arrive(&self, client: usize, item: ClientItem<()>) {
        self.clients[client].arrive(item);
    }

    /// What is free again if all clients have ended; once.
    pub(super) fn reclaim(&mut self) -> u64 {
        if self.clients.iter().any(|line| !line.lock().ended) {
            return 0;
        }
        self.pool.give_back(std::mem::take(&mut self.slots));
        std::mem::take(&mut self.budget)
    }

    /// Writes what is held, and ends. No line waits for another rank.
    pub(super) fn close(self, service: &mut ServerReport) {
        self.clients.iter().for_each(|line| line.terminate());
        drop(self.threads);
        self.pool.give_back(self.slots);
        service.files += 1;
        for line in &self.clients {
            let state = line.lock();
            service.bytes += state.bytes;
            service.failures.extend(state.failure.clone());
        }
    }
}

/// Which clients have a row of the symmetric buffers: those on the server's node.
pub(super) fn rows(link: &Comm) -> Vec<Option<usize>> {
    let near: Vec<bool> = (1..link.size()).map(|rank| link.node_of(rank) == link.node_of(SERVER)).collect();
    let row = |at: usize| near[at].then(|| near[..at].iter().filter(|near| **near).count());
    (0..near.len()).map(row).collect()
}

/// Room for each of so many clients in so much memory: slots, and what of it pieces may take.
fn room(memory: u64, clients: u64, piece: u64) -> Option<BufferGrant> {
    let slot = piece.min(memory / (2 * u64::from(SLOTS) * clients));
    let allowance = memory / clients - u64::from(SLOTS) * slot;
    (slot >= LEAST).then_some(BufferGrant { slots: SLOTS, slot, allowance })
}

impl ServerDispatcher<'_> {
    /// A client wants to buffer a file; once all do, it is opened. Collective over the clients.
    pub(super) fn request_buffered_file(&mut self, client: usize, name: String, piece: u64) {
        self.buffers[client] = Some((name, piece));
        if self.buffers.iter().any(Option::is_none) {
            return;
        }
        let wanted: Vec<(String, u64)> = self.buffers.iter_mut().filter_map(Option::take).collect();
        self.reclaim();
        let (name, number) = (wanted[0].0.clone(), self.opened);
        let room = self.buffer_room(&wanted);
        self.answer(&room.as_ref().map(|(room, _)| (number, *room)).map_err(EncodedError::new));
        let Ok((room, budget)) = room else { return };
        let symmetric = map_shared_slots(&self.server.link, room)
            .map_err(|error| Error::from_comm("open", &name, &error));
        let lines = symmetric.and_then(|symmetric| {
            self.open_buffered_file(&name, room, budget, symmetric.map(|(symmetric, _)| symmetric).as_ref())
        });
        self.answer(&lines.as_ref().map(|_| ()).map_err(EncodedError::new));
        self.opened += 1;
        if let Ok(lines) = lines {
            self.left -= lines.budget;
            self.files.insert(number, lines);
        }
    }

    fn buffer_room(&self, wanted: &[(String, u64)]) -> Result<(BufferGrant, u64)> {
        let (name, clients) = (&wanted[0].0, wanted.len() as u64);
        if wanted.iter().any(|(other, _)| other != name) {
            let detail = "the ranks buffer different files; give the same on all ranks that compute";
            return Err(Error::new(Kind::NotSame, "open", name, detail));
        }
        let budget = self.left / 4 * 3;
        let piece = wanted.iter().map(|(_, piece)| *piece).min().unwrap_or(0);
        room(budget, clients, piece).map(|room| (room, budget)).ok_or_else(|| {
            let detail = format!(
                "a server has {budget} bytes left for the file, too few for {clients} clients; give it more memory"
            );
            Error::new(Kind::BadArgument, "open", name, detail)
        })
    }

    /// Opens the file for each client, and starts the threads.
    fn open_buffered_file(
        &self,
        name: &str,
        room: BufferGrant,
        budget: u64,
        symmetric: Option<&super::shared_slots::SharedSlots>,
    ) -> Result<ServedFile> {
        let link = &self.server.link;
        let near = rows(link).iter().flatten().count() as u64;
        let slots = near * u64::from(room.slots) * room.slot;
        let pool = Arc::clone(&self.pool);
        pool.take(slots);
        let mut lines = ServedFile { clients: Vec::new(), threads: Vec::new(), budget, slots, pool };
        for client in 0..link.size() - 1 {
            let line = BufferedFileWriter {
                name: name.into(),
                number: self.opened,
                client,
                link: link.clone(),
                shared_slots: symmetric.cloned(),
                allowance: room.allowance,
                pool: Arc::clone(&self.pool),
                state: Mutex::new(BufferedFileState::new()),
                change: Condvar::new(),
            };
            if let Err(error) = self.start_writer(&mut lines, line) {
                lines.close(&mut ServerReport::default());
                return Err(error);
            }
        }
        Ok(lines)
    }

    fn start_writer(&self, lines: &mut ServedFile, line: BufferedFileWriter) -> Result<()> {
        let file =
            OpenOptions::new().read(true).write(true).open(&self.server.link.comm_self(), &*line.name)?;
        let line = Arc::new(line);
        let of_thread = Arc::clone(&line);
        let thread = start_writer("open", &line.name, &self.server.pinned, move || of_thread.run(file))?;
        lines.clients.push(line);
        lines.threads.push(thread);
        Ok(())
    }

    pub(super) fn take_piece(
        &self,
        number: u32,
        client: usize,
        runs: Vec<StridedRun>,
        bytes: u64,
        slot: Option<u32>,
    ) -> Result<()> {
        let row = rows(&self.server.link)[client];
        let held = match (slot, row) {
            (Some(slot), Some(row)) => HeldChunk::Slot(row, slot, bytes as usize),
            (Some(_), None) => HeldChunk::Nothing,
            (None, _) => {
                let talk = |error: aqueduct_comm::Error| Error::from_comm("serve", "the clients", &error);
                let (bytes, _) = self.server.link.receive(client + 1, data_tag(number)).map_err(talk)?;
                HeldChunk::Private(PooledBytes::new(bytes, &self.pool))
            }
        };
        if let Some(lines) = self.files.get(&number) {
            lines.clients[client].arrive_piece(runs, held);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_pieces_of_all_clients_fit_in_the_memory() {
        for (memory, clients) in [(1 << 20, 1), (1 << 20, 3), (100_000, 7), (3_000, 2)] {
            let room = room(memory, clients, 1 << 20).unwrap();
            assert!((u64::from(room.slots) * room.slot + room.allowance) * clients <= memory);
            assert!(room.allowance >= room.slot, "a piece fits: {room:?}");
        }
        assert_eq!(room(1000, 4, 1 << 20), None, "slots of 62 bytes are worth nothing");
    }
}
