//! The dispatcher of a server: it receives the requests of the clients until all have left; threads write.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex};

use aqueduct_comm::{Comm, MessageSource};
use aqueduct_file::write_behind::{BackgroundQueue, StallTimer, wait_while};

use super::buffered_files::{ServedFile, rows};
use super::channel::map_shared_slots;
use super::job_queue::ClientItem;
use super::output_writer::{
    HeldChunk, OutputWriter, PooledBytes, ServedOutput, ServedOutputState, ServerMemoryGauge,
};
use super::protocol::{
    ANSWER, BufferGrant, ChannelGrant, ClientRequest, DataHeader, OpenRequest, OutputRequest, REQUEST,
    data_tag, send_message,
};
use super::shared_slots::SharedSlots;
use super::split::Server;
use crate::aggregate::{AggregationGroup, MemberShare};
use crate::declare::declaration::Declaration;
use crate::error::{Error, Kind, Result, agree};
use crate::target::{FileTarget, OutputTarget};
use crate::wire::{WireEncoding, decode_message};
use crate::write::double_buffer::DoubleBuffer;
use crate::write::stall_limit::STALL_LIMIT;
use crate::write::thread_affinity;

/// Bytes of the smallest slot.
pub(super) const LEAST: u64 = 64;

/// What a server has done.
#[derive(Clone, Debug, Default)]
pub struct ServerReport {
    /// The number of outputs that it has written.
    pub outputs: u64,
    /// The number of buffered files.
    pub files: u64,
    /// The number of batches of outputs.
    pub batches: u64,
    /// Bytes that this server has written.
    pub bytes: u64,
    /// The peak of the memory that it held for its clients, in bytes.
    pub memory_peak: u64,
    /// The limit of that memory.
    pub memory_cap: u64,
    /// Failures of outputs and files, which their clients got too.
    pub failures: Vec<Error>,
}

/// Creates the target of an output. Collective over all servers.
type MakeTarget<'a> = &'a dyn Fn(&Comm, &str, &Arc<Declaration>) -> Result<Box<dyn OutputTarget>>;

impl Server {
    /// Writes stream files for the clients until all of them have left. Everything that they passed is written first.
    pub fn serve(self) -> Result<ServerReport> {
        self.serve_into(|comm, name, declared| Ok(Box::new(FileTarget::create(comm, name, declared)?)))
    }

    /// As [`serve`](Self::serve), into targets that `make` creates; it is called with a communicator of the servers, on each of
    /// them, for every output.
    pub fn serve_into(
        self,
        make: impl Fn(&Comm, &str, &Arc<Declaration>) -> Result<Box<dyn OutputTarget>>,
    ) -> Result<ServerReport> {
        let memory = self.memory.unwrap_or_else(|| half_of_available(&self.link));
        let mut dispatcher = ServerDispatcher {
            openings: vec![None; self.clients()],
            rows: rows(&self.link),
            server: self,
            make: &make,
            memory,
            left: memory,
            pool: Arc::default(),
            channels: HashMap::new(),
            opened: 0,
        };
        match dispatcher.receive_requests() {
            Ok(()) => Ok(dispatcher.close(None)),
            Err(error) => {
                dispatcher.close(Some(&error));
                Err(error)
            }
        }
    }
}

pub(super) struct ServerDispatcher<'a> {
    pub(super) server: Server,
    make: MakeTarget<'a>,
    /// The rows of the clients in shared slots.
    rows: Vec<Option<usize>>,
    /// The memory of all channels in bytes, and the part of it that is not reserved for one.
    memory: u64,
    pub(super) left: u64,
    pub(super) pool: Arc<ServerMemoryGauge>,
    /// The channel that clients open, until all of them have requested it.
    openings: Vec<Option<OpenRequest>>,
    channels: HashMap<u32, ServedChannel>,
    pub(super) opened: u32,
}

/// An open channel of all clients.
enum ServedChannel {
    Output(OutputThread),
    File(ServedFile),
}

/// An output and the thread that writes it.
struct OutputThread {
    output: Arc<ServedOutput>,
    thread: BackgroundQueue,
    /// The memory of the server that is reserved for it.
    budget: u64,
    is_persistent: bool,
}

impl ServedChannel {
    fn is_persistent(&self) -> bool {
        matches!(self, Self::Output(output) if output.is_persistent)
    }

    /// Releases the memory of a channel that has ended; how much that is.
    fn reclaim(&mut self) -> u64 {
        match self {
            Self::Output(output) if output.output.lock().ended => std::mem::take(&mut output.budget),
            Self::Output(_) => 0,
            Self::File(file) => file.reclaim(),
        }
    }
}

fn lost(error: &aqueduct_comm::Error) -> Error {
    Error::from_comm("serve", "the clients", error)
}

impl ServerDispatcher<'_> {
    fn receive_requests(&mut self) -> Result<()> {
        let mut clients = self.server.clients();
        while clients > 0 {
            let request = self.server.link.receive::<u8>(MessageSource::Any, REQUEST);
            let (bytes, status) = request.map_err(|error| lost(&error))?;
            let client = status.source - 1;
            match decode_message(&bytes)? {
                ClientRequest::Leave => clients -= 1,
                ClientRequest::Open(open) => {
                    self.openings[client] = Some(open);
                    if self.openings.iter().all(Option::is_some) {
                        self.open();
                    }
                }
                ClientRequest::Batch(channel, batch, bytes) => {
                    if let Some(ServedChannel::Output(served)) = self.channels.get(&channel) {
                        served.output.arrive(client, ClientItem::Batch(batch, bytes));
                    }
                }
                ClientRequest::Data(channel, header) => self.take_data(channel, client, header)?,
                ClientRequest::Sync(channel) => self.enqueue(channel, client, &ClientItem::Sync),
                ClientRequest::Finish(channel, count) => {
                    self.enqueue(channel, client, &ClientItem::Finish(count));
                }
                ClientRequest::Drop(channel) => match self.channels.get(&channel) {
                    Some(ServedChannel::Output(served)) => served.output.abandon(client),
                    Some(ServedChannel::File(file)) => file.arrive(client, ClientItem::Gone),
                    None => {}
                },
            }
        }
        Ok(())
    }

    /// Passes a request without data to the writer of a channel.
    fn enqueue(&self, channel: u32, client: usize, item: &ClientItem<()>) {
        match self.channels.get(&channel) {
            Some(ServedChannel::Output(served)) => served.output.arrive(client, item.without_data()),
            Some(ServedChannel::File(file)) => file.arrive(client, item.without_data()),
            None => {}
        }
    }

    /// Passes data to the writer of a channel: it is in a slot, or in a message that follows.
    fn take_data(&self, channel: u32, client: usize, header: DataHeader) -> Result<()> {
        let DataHeader { runs, bytes, slot } = header;
        let held = match (bytes, slot, self.rows[client]) {
            (0, ..) | (_, Some(_), None) => HeldChunk::Nothing,
            (bytes, Some(slot), Some(row)) => HeldChunk::Slot(row, slot, bytes as usize),
            (_, None, _) => {
                let message = self.server.link.receive(client + 1, data_tag(channel));
                HeldChunk::Private(PooledBytes::new(message.map_err(|error| lost(&error))?.0, &self.pool))
            }
        };
        match self.channels.get(&channel) {
            Some(ServedChannel::Output(served)) => served.output.arrive(client, ClientItem::Chunk(held)),
            Some(ServedChannel::File(file)) => file.arrive_piece(client, runs, held),
            None => {}
        }
        Ok(())
    }

    /// Opens the channel that all clients have requested. Collective over the clients, for an output over all servers.
    fn open(&mut self) {
        let opens: Vec<OpenRequest> = self.openings.iter_mut().filter_map(Option::take).collect();
        self.left += self.channels.values_mut().map(ServedChannel::reclaim).sum::<u64>();
        let outputs: Vec<OutputRequest> = opens.iter().filter_map(|open| open.output.clone()).collect();
        let (name, is_output) = (opens[0].name.as_str(), !outputs.is_empty());
        let granted = check_same(&opens)
            .and_then(|()| if is_output { self.output_grant(&opens) } else { self.file_grant(&opens) });
        let granted = if is_output { self.agree(name, granted) } else { granted };
        let channel = self.opened;
        self.answer(&granted.clone().map(|(grant, _)| ChannelGrant { channel, grant }));
        let Ok((grant, budget)) = granted else { return };
        let slots = map_shared_slots(&self.server.link, grant);
        let slots = slots.map_err(|error| Error::from_comm("open", name, &error));
        let slots = slots.map(|slots| slots.map(|(slots, _)| slots));
        let opened = if is_output {
            self.open_output(name, &outputs, budget, slots).map(ServedChannel::Output)
        } else {
            let opened =
                slots.and_then(|slots| self.open_buffered_file(name, (grant, budget), slots.as_ref()));
            opened.map(ServedChannel::File)
        };
        self.answer(&opened.as_ref().map(ServedChannel::is_persistent).map_err(Clone::clone));
        // A number is used once, so that no message reaches another channel.
        self.opened += 1;
        if let Ok(served) = opened {
            self.channels.insert(channel, served);
            self.left -= budget;
        }
    }

    fn agree<T>(&self, name: &str, outcome: Result<T>) -> Result<T> {
        agree(&self.server.servers, "create", name, outcome)
    }

    /// Starts the thread of an output. Collective over all servers.
    fn open_output(
        &self,
        name: &str,
        requests: &[OutputRequest],
        budget: u64,
        slots: Result<Option<SharedSlots>>,
    ) -> Result<OutputThread> {
        let output = slots.and_then(|slots| self.served_output(name, requests, budget, slots));
        let started = self.agree(name, output).and_then(|output| self.start(output, budget));
        let output = started.as_ref().ok().map(|started| Arc::clone(&started.output));
        self.agree(name, started).inspect_err(|error| {
            // The thread of this server waits for those of the others.
            output.iter().for_each(|output| output.fail(error));
        })
    }

    fn answer(&self, answer: &impl WireEncoding) {
        for client in 1..self.server.link.size() {
            // It fails only if the client is gone, which the next receive reports.
            let _ = send_message(&self.server.link, client, ANSWER, answer);
        }
    }

    /// The grant of each client of an output, and the memory of the server that is reserved for it: a quarter for two windows, the
    /// rest for chunks that do not fit into slots.
    fn output_grant(&self, opens: &[OpenRequest]) -> Result<(BufferGrant, u64)> {
        let budget = self.left / 4 * 3;
        let allowance = budget / 4 * 3 / opens.len() as u64;
        let least = |of: fn(&BufferGrant) -> u64| opens.iter().map(|open| of(&open.grant)).min().unwrap_or(0);
        let slot = least(|grant| grant.slot).min(allowance);
        if slot < LEAST {
            let detail = format!(
                "a server has {budget} bytes left for the output, too few for {} clients; give it more memory",
                opens.len()
            );
            return Err(Error::new(Kind::BadArgument, "create", &opens[0].name, detail));
        }
        Ok((BufferGrant { slots: least(|grant| u64::from(grant.slots)) as u32, slot, allowance }, budget))
    }

    fn served_output(
        &self,
        name: &str,
        requests: &[OutputRequest],
        budget: u64,
        shared_slots: Option<SharedSlots>,
    ) -> Result<ServedOutput> {
        let shares: Vec<Vec<MemberShare>> = requests.iter().map(|request| request.shares.clone()).collect();
        let group = AggregationGroup::new(&requests[0].streams, &shares);
        let mut group =
            group.map_err(|error| Error::new(Kind::BadArgument, "create", name, error.to_string()))?;
        group.declaration.plan = requests[0].plan;
        Ok(ServedOutput {
            name: name.into(),
            number: self.opened,
            link: self.server.link.clone(),
            shared_slots,
            group,
            window: (budget / 8).max(LEAST),
            durable_every: requests[0].durable_every,
            pool: Arc::clone(&self.pool),
            windows: AtomicU64::new(0),
            state: Mutex::new(ServedOutputState::new(requests.len())),
            change: Condvar::new(),
        })
    }

    /// Creates the target and starts its thread. Collective over all servers.
    fn start(&self, output: ServedOutput, budget: u64) -> Result<OutputThread> {
        let lost = |error: aqueduct_comm::Error| Error::from_comm("create", &output.name, &error);
        let file = self.server.servers.dup().map_err(lost)?;
        let comm = self.server.servers.dup().map_err(lost)?;
        let target = (self.make)(&file, &output.name, &Arc::new(output.group.declaration.clone()))?;
        let is_persistent = target.is_persistent();
        let output = Arc::new(output);
        let (of_thread, target) = (Arc::clone(&output), Some(target));
        let windows = DoubleBuffer::new();
        let writer = OutputWriter { output: of_thread, target, comm, last_plan: None, windows };
        let thread = start_writer("create", &output.name, &self.server.pinned, || writer.run())?;
        Ok(OutputThread { output, thread, budget, is_persistent })
    }

    /// Ends all channels; steps that all clients have passed are written first. If a client was lost, waits for other ranks have a
    /// limit, because these may be gone too.
    fn close(self, lost: Option<&Error>) -> ServerReport {
        let mut report = ServerReport { memory_cap: self.memory, ..ServerReport::default() };
        for channel in self.channels.into_values() {
            match channel {
                ServedChannel::Output(served) => served.close(lost, &mut report),
                ServedChannel::File(file) => file.close(&mut report),
            }
        }
        report.memory_peak = self.pool.peak();
        report
    }
}

impl OutputThread {
    fn close(self, lost: Option<&Error>, report: &mut ServerReport) {
        let output = &self.output;
        output.terminate();
        match lost {
            Some(error) => {
                let mut timer = StallTimer::new(Some(STALL_LIMIT));
                let left = |state: &ServedOutputState| timer.left(state.activity);
                let _ = wait_while(|| output.lock(), &output.change, left, |state| !state.ended);
                output.fail(error);
                self.thread.detach();
            }
            None => self.thread.drain(),
        }
        report.failures.extend(output.failure());
        let state = output.lock();
        report.outputs += 1;
        report.batches += state.batches;
        report.bytes += state.bytes;
    }
}

/// Fails if clients open different channels.
fn check_same(opens: &[OpenRequest]) -> Result<()> {
    let first = &opens[0];
    let is_same = |open: &OpenRequest| {
        open.output.is_some() == first.output.is_some() && (first.output.is_some() || open.name == first.name)
    };
    if opens.iter().all(is_same) {
        return Ok(());
    }
    let detail = "the ranks open different files at their server; give the same on all compute ranks";
    Err(Error::new(Kind::NotSame, "open", &first.name, detail))
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
