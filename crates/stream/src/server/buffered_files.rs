//! Buffered files at a server: opening and closing them for all clients.

use std::sync::{Arc, Condvar, Mutex};

use aqueduct_comm::Comm;
use aqueduct_file::OpenOptions;
use aqueduct_file::layout::Strip;
use aqueduct_file::write_behind::BackgroundQueue;

use super::buffered_file_writer::{BufferedFileState, BufferedFileWriter};
use super::dispatcher::{LEAST, ServerDispatcher, ServerReport, start_writer};
use super::job_queue::ClientItem;
use super::output_writer::{HeldChunk, ServerMemoryGauge};
use super::protocol::{BufferGrant, OpenRequest, SERVER};
use super::shared_slots::SharedSlots;
use crate::error::{Error, Kind, Result};

/// A buffered file: a writer for each client.
pub(super) struct ServedFile {
    clients: Vec<Arc<BufferedFileWriter>>,
    /// A thread for each client.
    threads: Vec<BackgroundQueue>,
    /// The memory of the server that is reserved for it, and the part of it that slots take.
    budget: u64,
    slots: u64,
    pool: Arc<ServerMemoryGauge>,
}

impl ServedFile {
    /// A request of a client other than a write.
    pub(super) fn arrive(&self, client: usize, item: ClientItem<()>) {
        self.clients[client].arrive(item);
    }

    /// A piece of a client.
    pub(super) fn arrive_piece(&self, client: usize, runs: Vec<Strip>, held: HeldChunk) {
        self.clients[client].arrive_piece(runs, held);
    }

    /// Releases its memory if all clients have ended; how much that is.
    pub(super) fn reclaim(&mut self) -> u64 {
        if self.clients.iter().any(|writer| !writer.lock().ended) {
            return 0;
        }
        self.pool.give_back(std::mem::take(&mut self.slots));
        std::mem::take(&mut self.budget)
    }

    /// Writes everything, and ends. No writer waits for another rank.
    pub(super) fn close(self, report: &mut ServerReport) {
        self.clients.iter().for_each(|writer| writer.terminate());
        drop(self.threads);
        self.pool.give_back(self.slots);
        report.files += 1;
        for writer in &self.clients {
            let state = writer.lock();
            report.bytes += state.bytes;
            report.failures.extend(state.failure.clone());
        }
    }
}

/// The rows of the clients in the shared slots: those on the server's node have one.
pub(super) fn rows(link: &Comm) -> Vec<Option<usize>> {
    let near: Vec<bool> = (1..link.size()).map(|rank| link.node_of(rank) == link.node_of(SERVER)).collect();
    let row = |at: usize| near[at].then(|| near[..at].iter().filter(|near| **near).count());
    (0..near.len()).map(row).collect()
}

/// Divides memory among clients that want the same: slots take at most half of it, pieces in the pool the rest.
fn divide(memory: u64, clients: u64, wanted: BufferGrant) -> Option<BufferGrant> {
    let slots = u64::from(wanted.slots.max(1));
    let slot = wanted.slot.min(memory / (2 * slots * clients));
    let allowance = memory / clients - slots * slot;
    (slot >= LEAST).then_some(BufferGrant { slots: slots as u32, slot, allowance })
}

impl ServerDispatcher<'_> {
    /// The grant of each client of a buffered file, and the memory of the server that is reserved for the file.
    pub(super) fn file_grant(&self, opens: &[OpenRequest]) -> Result<(BufferGrant, u64)> {
        let (name, clients) = (&opens[0].name, opens.len() as u64);
        let budget = self.left / 4 * 3;
        let wanted = opens.iter().map(|open| open.grant).min_by_key(|grant| grant.slot);
        wanted.and_then(|wanted| divide(budget, clients, wanted)).map(|grant| (grant, budget)).ok_or_else(|| {
            let detail = format!(
                "a server has {budget} bytes left for the file, too few for {clients} clients; give it more memory"
            );
            Error::new(Kind::BadArgument, "open", name, detail)
        })
    }

    /// Opens the file for each client, and starts the threads.
    pub(super) fn open_buffered_file(
        &self,
        name: &str,
        (grant, budget): (BufferGrant, u64),
        shared_slots: Option<&SharedSlots>,
    ) -> Result<ServedFile> {
        let link = &self.server.link;
        let near = rows(link).iter().flatten().count() as u64;
        let slots = near * u64::from(grant.slots) * grant.slot;
        let pool = Arc::clone(&self.pool);
        pool.take(slots);
        let mut served = ServedFile { clients: Vec::new(), threads: Vec::new(), budget, slots, pool };
        for client in 0..link.size() - 1 {
            let writer = BufferedFileWriter {
                name: name.into(),
                number: self.opened,
                client,
                link: link.clone(),
                shared_slots: shared_slots.cloned(),
                allowance: grant.allowance,
                pool: Arc::clone(&self.pool),
                state: Mutex::new(BufferedFileState::new()),
                change: Condvar::new(),
            };
            if let Err(error) = self.start_file_writer(&mut served, writer) {
                served.close(&mut ServerReport::default());
                return Err(error);
            }
        }
        Ok(served)
    }

    fn start_file_writer(&self, served: &mut ServedFile, writer: BufferedFileWriter) -> Result<()> {
        let file =
            OpenOptions::new().read(true).write(true).open(&self.server.link.comm_self(), &*writer.name)?;
        let writer = Arc::new(writer);
        let of_thread = Arc::clone(&writer);
        let thread = start_writer("open", &writer.name, &self.server.pinned, move || of_thread.run(file))?;
        served.clients.push(writer);
        served.threads.push(thread);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: BufferGrant = BufferGrant { slots: 2, slot: 1 << 20, allowance: 0 };

    #[test]
    fn slots_and_pieces_of_all_clients_fit_in_the_memory() {
        for (memory, clients) in [(1 << 20, 1), (1 << 20, 3), (100_000, 7), (3_000, 2)] {
            let grant = divide(memory, clients, WANTED).unwrap();
            assert!((u64::from(grant.slots) * grant.slot + grant.allowance) * clients <= memory);
            assert!(grant.allowance >= grant.slot, "a piece fits: {grant:?}");
        }
        assert_eq!(divide(1000, 4, WANTED), None, "slots of 62 bytes are too small");
    }
}
