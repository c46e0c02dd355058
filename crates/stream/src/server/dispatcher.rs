//! A server listens to its clients until they are gone; threads write.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex};

use aqueduct_comm::{Comm, MessageSource};
use aqueduct_file::write_behind::{BackgroundQueue, StallTimer, wait_while};

use super::buffered_files::{ServedFile, rows};
use super::client::map_shared_slots;
use super::job_queue::ClientItem;
use super::output_writer::{
    HeldChunk, OutputWriter, PooledBytes, ServedOutput, ServedOutputState, ServerMemoryGauge,
};
use super::protocol::{
    ANSWER, BufferGrant, DATA, OpenRequest, REQUEST, ServerRequest, decode_json, send_json,
};
use super::split::Server;
use crate::aggregate::{AggregationGroup, MemberShare};
use crate::declare::declaration::Declaration;
use crate::error::{EncodedError, Error, Kind, Result, agree};
use crate::target::{FileTarget, OutputTarget};
use crate::write::double_buffer::DoubleBuffer;
use crate::write::stall_limit::STALL_LIMIT;
use crate::write::thread_affinity;

/// The smallest chunk that is worth a message.
pub(super) const LEAST: u64 = 64;

/// What a server has done.
#[derive(Clone, Debug, Default)]
pub struct ServerReport {
    /// How many outputs it has written.
    pub outputs: u64,
    /// How many buffered files.
    pub files: u64,
    /// How many parcels of outputs, and how many bytes.
    pub batches: u64,
    /// Bytes that this server has written.
    pub bytes: u64,
    /// The most memory that it has held for its clients at a time.
    pub memory_peak: u64,
    /// What it might have held.
    pub memory_cap: u64,
    /// What has failed; the clients know.
    pub failures: Vec<Error>,
}

/// How outputs become targets, on all servers together.
type MakeTarget<'a> = &'a dyn Fn(&Comm, &str, &Arc<Declaration>) -> Result<Box<dyn OutputTarget>>;

impl Server {
    /// Writes stream files for the clients until all of them are gone. Everything they handed over is written first.
    pub fn serve(self) -> Result<ServerReport> {
        self.serve_into(|comm, name, declared| Ok(Box::new(FileTarget::create(comm, name, declared)?)))
    }

    /// As [`serve`](Self::serve), into targets of one's own; called with a communicator of the servers, on each of them, for every output.
    pub fn serve_into(
        self,
        make: impl Fn(&Comm, &str, &Arc<Declaration>) -> Result<Box<dyn OutputTarget>>,
    ) -> Result<ServerReport> {
        let memory = self.memory.unwrap_or_else(|| half_of_available(&self.link));
        let clients = self.clients();
        let (pool, left) = (Arc::new(ServerMemoryGauge::default()), memory);
        let mut listener = ServerDispatcher {
            server: self,
            make: &make,
            memory,
            left,
            pool,
            openings: vec![None; clients],
            outputs: HashMap::new(),
            buffers: vec![None; clients],
            files: HashMap::new(),
            opened: 0,
        };
        match listener.listen() {
            Ok(()) => Ok(listener.close(None)),
            Err(error) => {
                listener.close(Some(&error));
                Err(error)
            }
        }
    }
}

pub(super) struct ServerDispatcher<'a> {
    pub(super) server: Server,
    make: MakeTarget<'a>,
    /// What may be held for all outputs, and what of it is promised to none yet.
    memory: u64,
    pub(super) left: u64,
    pub(super) pool: Arc<ServerMemoryGauge>,
    /// What clients want to open, until all of them do.
    openings: Vec<Option<OpenRequest>>,
    outputs: HashMap<u32, OutputThread>,
    /// Which files clients want to buffer, until all of them do, and those that are.
    pub(super) buffers: Vec<Option<(String, u64)>>,
    pub(super) files: HashMap<u32, ServedFile>,
    pub(super) opened: u32,
}

/// An output and the thread that writes it.
struct OutputThread {
    output: Arc<ServedOutput>,
    thread: BackgroundQueue,
    /// Which clients have a row of the symmetric buffers.
    rows: Vec<Option<usize>>,
    /// What of the server's memory is set aside for it.
    budget: u64,
}

impl ServerDispatcher<'_> {
    fn listen(&mut self) -> Result<()> {
        let mut here = self.server.clients();
        while here > 0 {
            let talk = |error: aqueduct_comm::Error| Error::from_comm("serve", "the clients", &error);
            let (bytes, status) =
                self.server.link.receive::<u8>(MessageSource::Any, REQUEST).map_err(talk)?;
            let client = status.source - 1;
            match decode_json(&bytes)? {
                ServerRequest::Bye => here -= 1,
                ServerRequest::Open(open) => {
                    self.openings[client] = Some(open);
                    if self.openings.iter().all(Option::is_some) {
                        self.open();
                    }
                }
                ServerRequest::Parcel(output, parcel, bytes) => {
                    self.enqueue(
                        output,
                        client,
                        ClientItem::Batch(parcel, bytes.map_err(EncodedError::into_error)),
                    );
                }
                ServerRequest::Chunk(output, bytes, slot) => self.take_chunk(output, client, bytes, slot)?,
                ServerRequest::Buffer(name, piece) => self.request_buffered_file(client, name, piece),
                ServerRequest::Piece(file, runs, bytes, slot) => {
                    self.take_piece(file, client, runs, bytes, slot)?;
                }
                ServerRequest::Sync(number) => match self.files.get(&number) {
                    Some(lines) => lines.arrive(client, ClientItem::Sync),
                    None => self.enqueue(number, client, ClientItem::Sync),
                },
                ServerRequest::Finish(number, steps) => match self.files.get(&number) {
                    Some(lines) => lines.arrive(client, ClientItem::Finish(steps)),
                    None => self.enqueue(number, client, ClientItem::Finish(steps)),
                },
                ServerRequest::Drop(output) => {
                    self.outputs.get(&output).into_iter().for_each(|counter| counter.output.let_go(client));
                }
            }
        }
        Ok(())
    }

    fn enqueue(&self, output: u32, client: usize, item: ClientItem<HeldChunk>) {
        if let Some(counter) = self.outputs.get(&output) {
            counter.output.arrive(client, item);
        }
    }

    fn take_chunk(&self, output: u32, client: usize, bytes: u64, slot: Option<u32>) -> Result<()> {
        let row = self.outputs.get(&output).and_then(|counter| counter.rows[client]);
        let held = match (bytes, slot, row) {
            (0, ..) | (_, Some(_), None) => HeldChunk::Nothing,
            (bytes, Some(slot), Some(row)) => HeldChunk::Slot(row, slot, bytes as usize),
            (_, None, _) => {
                let talk = |error: aqueduct_comm::Error| Error::from_comm("serve", "the clients", &error);
                let (bytes, _) = self.server.link.receive(client + 1, DATA).map_err(talk)?;
                HeldChunk::Private(PooledBytes::new(bytes, &self.pool))
            }
        };
        self.enqueue(output, client, ClientItem::Chunk(held));
        Ok(())
    }

    /// Opens an output that all clients want. Collective over all servers and clients.
    fn open(&mut self) {
        let opens: Vec<OpenRequest> = self.openings.iter_mut().filter_map(Option::take).collect();
        self.reclaim();
        let name = opens[0].name.clone();
        let room = agree(&self.server.servers, "create", &name, self.room(&opens));
        let number = self.opened;
        self.answer(&room.as_ref().map(|(room, _)| (number, *room)).map_err(EncodedError::new));
        let Ok((room, budget)) = room else { return };
        let symmetric = map_shared_slots(&self.server.link, room);
        let desk =
            symmetric.map_err(|error| Error::from_comm("create", &name, &error)).and_then(|symmetric| {
                self.served_output(&opens, budget, symmetric.map(|(symmetric, _)| symmetric))
            });
        let started =
            agree(&self.server.servers, "create", &name, desk).and_then(|desk| self.start(desk, budget));
        let (counter, mine) = started
            .map_or_else(|error| (None, Err(error)), |(counter, persistent)| (Some(counter), Ok(persistent)));
        let outcome = agree(&self.server.servers, "create", &name, mine);
        self.answer(&outcome.as_ref().map_err(EncodedError::new));
        // A number is used once, so that nobody hears of another output.
        self.opened += 1;
        match (outcome, counter) {
            (Ok(_), Some(counter)) => {
                self.outputs.insert(number, counter);
                self.left -= budget;
            }
            (Err(error), Some(counter)) => counter.output.fail(&error),
            (_, None) => {}
        }
    }

    /// What ended outputs and files had is free again.
    pub(super) fn reclaim(&mut self) {
        for counter in self.outputs.values_mut().filter(|counter| counter.output.lock().ended) {
            self.left += std::mem::take(&mut counter.budget);
        }
        self.left += self.files.values_mut().map(ServedFile::reclaim).sum::<u64>();
    }

    pub(super) fn answer<T: serde::Serialize>(&self, what: &T) {
        for client in 1..self.server.link.size() {
            // One that is gone is noticed by listening.
            let _ = send_json(&self.server.link, client, ANSWER, what);
        }
    }

    /// Room for each client of an output, and what of this server's memory is set aside for it: a quarter for two windows, the rest for
    /// chunks that did not fit in symmetric buffers.
    fn room(&self, opens: &[OpenRequest]) -> Result<(BufferGrant, u64)> {
        let budget = self.left / 4 * 3;
        let allowance = budget / 4 * 3 / opens.len() as u64;
        let least = |of: fn(&BufferGrant) -> u64| opens.iter().map(|open| of(&open.room)).min().unwrap_or(0);
        let slot = least(|room| room.slot).min(allowance);
        if slot < LEAST {
            let detail = format!(
                "a server has {budget} bytes left for the output, too few for {} clients; give it more memory",
                opens.len()
            );
            return Err(Error::new(Kind::BadArgument, "create", &opens[0].name, detail));
        }
        Ok((BufferGrant { slots: least(|room| u64::from(room.slots)) as u32, slot, allowance }, budget))
    }

    fn served_output(
        &self,
        opens: &[OpenRequest],
        budget: u64,
        symmetric: Option<super::shared_slots::SharedSlots>,
    ) -> Result<ServedOutput> {
        let name = &opens[0].name;
        let shares: Vec<Vec<MemberShare>> = opens.iter().map(|open| open.shares.clone()).collect();
        let group = AggregationGroup::new(&opens[0].streams, &shares);
        let mut group =
            group.map_err(|error| Error::new(Kind::BadArgument, "create", name, error.to_string()))?;
        group.declaration.replace = opens[0].replace;
        Ok(ServedOutput {
            name: name.as_str().into(),
            number: self.opened,
            link: self.server.link.clone(),
            shared_slots: symmetric,
            group,
            window: (budget / 8).max(LEAST),
            durable_every: opens[0].durable_every,
            pool: Arc::clone(&self.pool),
            windows: AtomicU64::new(0),
            state: Mutex::new(ServedOutputState::new(opens.len())),
            change: Condvar::new(),
        })
    }

    /// Makes the target and starts its thread; whether the target is persistent. Collective over all servers.
    fn start(&self, desk: ServedOutput, budget: u64) -> Result<(OutputThread, bool)> {
        let talk = |error: aqueduct_comm::Error| Error::from_comm("create", &desk.name, &error);
        let (file, meeting) =
            (self.server.servers.dup().map_err(talk)?, self.server.servers.dup().map_err(talk)?);
        let target = (self.make)(&file, &desk.name, &Arc::new(desk.group.declaration.clone()))?;
        let persistent = target.is_persistent();
        let rows = rows(&self.server.link);
        let desk = Arc::new(desk);
        let writer = OutputWriter {
            output: Arc::clone(&desk),
            target: Some(target),
            comm: meeting,
            last_plan: None,
            windows: DoubleBuffer::new(),
        };
        let thread = start_writer("create", &desk.name, &self.server.pinned, || writer.run())?;
        Ok((OutputThread { thread, output: desk, rows, budget }, persistent))
    }

    /// Ends all outputs: those that still hold steps of all clients write them first. Where a client was lost, waits for other ranks have a limit: these may
    /// be gone, too.
    fn close(self, lost: Option<&Error>) -> ServerReport {
        let mut service = ServerReport { memory_cap: self.memory, ..ServerReport::default() };
        for counter in self.outputs.into_values() {
            let desk = &counter.output;
            desk.terminate();
            match lost {
                Some(error) => {
                    let mut timer = StallTimer::new(Some(STALL_LIMIT));
                    let left = |state: &ServedOutputState| timer.left(state.activity);
                    let _ = wait_while(|| desk.lock(), &desk.change, left, |state| !state.ended);
                    desk.fail(error);
                    counter.thread.detach();
                }
                None => counter.thread.drain(),
            }
            let state = desk.lock();
            service.outputs += 1;
            service.batches += state.batches;
            service.bytes += state.bytes;
            drop(state);
            service.failures.extend(desk.failure());
        }
        self.files.into_values().for_each(|lines| lines.close(&mut service));
        service.memory_peak = self.pool.peak();
        service
    }
}

/// Starts a thread that writes an output or a file.
pub(super) fn start_writer(
    operation: &'static str,
    name: &str,
    cpus: &[usize],
    work: impl FnOnce() + Send + 'static,
) -> Result<BackgroundQueue> {
    let started = thread_affinity::pinned_queue("aqueduct server", cpus);
    let started = started.and_then(|queue| queue.submit(|_| work()).map(|()| queue));
    started.map_err(|error| {
        let detail = format!("no thread could be started: {error}");
        Error::new(Kind::Unsupported, operation, name, detail)
    })
}

/// Half of the available memory, divided by the ranks that share it.
fn half_of_available(link: &Comm) -> u64 {
    let ranks = link.ranks_of_node(link.node_of(link.rank())).len() as u64;
    (aqueduct_file::available_memory() / 2 / ranks).max(4 << 20)
}
