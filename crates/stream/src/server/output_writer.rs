//! One output at a server: the dispatcher adds the requests of clients, a thread writes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use aqueduct_comm::Comm;
use aqueduct_comm::agreement::first_differing_ranks;
use aqueduct_file::write_behind::{JobActivity, catch_panic};

use super::gather::ClientGather;
use super::job_queue::{ClientItem, NextChunk, ServerJob, ServerJobQueue, ServerPhase};
use super::protocol::{ServerUpdate, send_message, update_tag};
use super::shared_slots::SharedSlots;
use crate::aggregate::{AggregationGroup, GatherPlan};
use crate::error::{Error, Kind, Result};
use crate::target::{BatchEntry, FailedSource, OutputTarget, StepBatch};
use crate::write::double_buffer::DoubleBuffer;

/// Where the data of a client is.
#[derive(Debug)]
pub(super) enum HeldChunk {
    /// In shared memory: the client's row, the slot, the number of bytes.
    Slot(usize, u32, usize),
    /// In the pool of the server.
    Private(PooledBytes),
    /// The client could not provide it.
    Nothing,
}

/// Bytes of the pool, which are counted until they are dropped.
#[derive(Debug)]
pub(super) struct PooledBytes {
    bytes: Vec<u8>,
    pool: Arc<ServerMemoryGauge>,
}

impl PooledBytes {
    pub(super) fn new(bytes: Vec<u8>, pool: &Arc<ServerMemoryGauge>) -> Self {
        pool.take(bytes.len() as u64);
        Self { bytes, pool: Arc::clone(pool) }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for PooledBytes {
    fn drop(&mut self) {
        self.pool.give_back(self.bytes.len() as u64);
    }
}

/// Counts the memory that a server holds for its clients.
#[derive(Debug, Default)]
pub(super) struct ServerMemoryGauge {
    now: AtomicU64,
    peak: AtomicU64,
}

impl ServerMemoryGauge {
    pub(super) fn take(&self, bytes: u64) {
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.now.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}

/// An output of all clients.
pub(super) struct ServedOutput {
    pub(super) name: Arc<str>,
    pub(super) number: u32,
    pub(super) link: Comm,
    pub(super) shared_slots: Option<SharedSlots>,
    pub(super) group: AggregationGroup,
    /// Bytes of the largest window.
    pub(super) window: u64,
    pub(super) durable_every: Option<u64>,
    pub(super) pool: Arc<ServerMemoryGauge>,
    /// The part of the pool that windows take, in bytes.
    pub(super) windows: AtomicU64,
    pub(super) state: Mutex<ServedOutputState>,
    pub(super) change: Condvar,
}

pub(super) struct ServedOutputState {
    jobs: ServerJobQueue<HeldChunk>,
    /// The last update of each client.
    updates: Vec<ServerUpdate>,
    failure: Option<Error>,
    /// Batches and bytes that were written.
    pub(super) batches: u64,
    pub(super) bytes: u64,
    pub(super) ended: bool,
    pub(super) activity: JobActivity,
    /// The clients that have dropped the output and wait for its end.
    dropped: Vec<bool>,
}

impl ServedOutputState {
    pub(super) fn new(clients: usize) -> Self {
        Self {
            jobs: ServerJobQueue::new(clients),
            updates: vec![ServerUpdate::default(); clients],
            failure: None,
            batches: 0,
            bytes: 0,
            ended: false,
            activity: JobActivity::default(),
            dropped: vec![false; clients],
        }
    }

    fn update_for(&self, client: usize) -> ServerUpdate {
        let JobActivity { turns, waits } = self.activity;
        ServerUpdate { turns, waits, ..self.updates[client].clone() }
    }
}

impl ServedOutput {
    pub(super) fn lock(&self) -> MutexGuard<'_, ServedOutputState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn clients(&self) -> usize {
        self.link.size() - 1
    }

    /// Adds a request of a client.
    pub(super) fn arrive(&self, client: usize, item: ClientItem<HeldChunk>) {
        self.lock().jobs.arrive(client, item);
        self.change.notify_all();
    }

    /// A client has dropped the output. From now on it gets an update whenever the thread that writes begins or ends a wait for
    /// other ranks.
    pub(super) fn abandon(&self, client: usize) {
        let update = {
            let mut state = self.lock();
            state.dropped[client] = true;
            state.jobs.arrive(client, ClientItem::Gone);
            state.update_for(client)
        };
        self.change.notify_all();
        self.send(client, &update);
    }

    /// Records that the thread that writes begins to wait for other ranks or their chunks, or that such a wait is over.
    fn set_waits(&self, waits: bool) {
        let updates: Vec<(usize, ServerUpdate)> = {
            let mut state = self.lock();
            state.activity.set_waits(waits);
            let clients = (0..state.updates.len()).filter(|client| state.dropped[*client]);
            clients.map(|client| (client, state.update_for(client))).collect()
        };
        self.change.notify_all();
        updates.iter().for_each(|(client, update)| self.send(*client, update));
    }

    fn send(&self, client: usize, update: &ServerUpdate) {
        // It fails only if the client is gone.
        let _ = send_message(&self.link, client + 1, update_tag(self.number), update);
    }

    /// Writes the steps that all clients have passed, then ends.
    pub(super) fn terminate(&self) {
        self.lock().jobs.terminate();
        self.change.notify_all();
    }

    /// Ends at once with this error; the first one is final.
    pub(super) fn fail(&self, error: &Error) {
        let mut state = self.lock();
        if state.failure.is_none() {
            state.failure = Some(error.clone());
            state.jobs.end();
            drop(state);
            self.change.notify_all();
            self.update_clients(|update| update.failure = Some(error.clone()));
        }
    }

    pub(super) fn failure(&self) -> Option<Error> {
        self.lock().failure.clone()
    }

    /// The next chunk of a client; waits for it. An error if the client does not pass it.
    pub(super) fn chunk(&self, client: usize) -> Result<HeldChunk> {
        let next = self.lock().jobs.chunk(client);
        let next = match next {
            NextChunk::NotYet => {
                self.set_waits(true);
                let next = self.await_chunk(client);
                self.set_waits(false);
                next
            }
            next => next,
        };
        match next {
            NextChunk::Chunk(HeldChunk::Nothing) | NextChunk::Never | NextChunk::NotYet => {
                let gone = || {
                    let detail = "a client left in the middle of a step, or could not provide its data";
                    Error::new(Kind::Incomplete, "fetch", &self.name, detail)
                };
                Err(self.failure().unwrap_or_else(gone))
            }
            NextChunk::Chunk(held) => Ok(held),
        }
    }

    /// Waits for the next chunk of a client, or until it is known that there is none.
    fn await_chunk(&self, client: usize) -> NextChunk<HeldChunk> {
        let mut state = self.lock();
        loop {
            match state.jobs.chunk(client) {
                NextChunk::NotYet => state = self.change.wait(state).unwrap_or_else(PoisonError::into_inner),
                next => return next,
            }
        }
    }

    /// Counts the growth of a window.
    pub(super) fn grow(&self, bytes: u64) {
        self.pool.take(bytes);
        self.windows.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn set_phase(&self, phase: ServerPhase) {
        self.lock().jobs.set_phase(phase);
    }

    /// Releases a chunk of a client.
    pub(super) fn release(&self, client: usize, held: HeldChunk) {
        drop(held);
        let update = {
            let mut state = self.lock();
            state.updates[client].released += 1;
            state.activity.advance();
            state.update_for(client)
        };
        self.change.notify_all();
        self.send(client, &update);
    }

    /// Changes the updates of all clients and sends them.
    fn update_clients(&self, change: impl Fn(&mut ServerUpdate)) {
        let all: Vec<ServerUpdate> = {
            let mut state = self.lock();
            state.updates.iter_mut().for_each(&change);
            state.activity.advance();
            (0..state.updates.len()).map(|client| state.update_for(client)).collect()
        };
        self.change.notify_all();
        all.iter().enumerate().for_each(|(client, update)| self.send(client, update));
    }

    /// The next job; waits until there is one. None after the end.
    fn next(&self) -> Option<ServerJob> {
        self.set_waits(true);
        let job = await_job(&self.change, self.lock(), |state| &mut state.jobs);
        self.set_waits(false);
        job
    }
}

/// The next job of a queue that is a part of `state`; waits until there is one. None after the end.
pub(super) fn await_job<S, C>(
    change: &Condvar,
    mut state: MutexGuard<'_, S>,
    jobs: impl Fn(&mut S) -> &mut ServerJobQueue<C>,
) -> Option<ServerJob> {
    loop {
        let jobs = jobs(&mut state);
        if let Some(job) = jobs.next() {
            return Some(job);
        }
        if jobs.phase() == ServerPhase::Ended {
            return None;
        }
        state = change.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// The thread that writes an output, together with those of the other servers.
pub(super) struct OutputWriter {
    pub(super) output: Arc<ServedOutput>,
    pub(super) target: Option<Box<dyn OutputTarget>>,
    /// The threads of all servers.
    pub(super) comm: Comm,
    pub(super) last_plan: Option<(Vec<usize>, GatherPlan)>,
    pub(super) windows: DoubleBuffer,
}

impl OutputWriter {
    /// Executes jobs until the output has ended.
    pub(super) fn run(mut self) {
        loop {
            // After a failure too: the other servers wait for this one.
            let job = self.output.next().unwrap_or(ServerJob::Gone);
            let (begin, step) = (Instant::now(), step_of(&job));
            let outcome = catch_panic(|| self.perform(job));
            let panicked = |detail| Err(Error::new(Kind::Unsupported, "write", &self.output.name, detail));
            let outcome = outcome.unwrap_or_else(panicked);
            let spent = begin.elapsed().as_nanos() as u64;
            match outcome {
                Ok(outcome) => {
                    self.output.set_phase(ServerPhase::Listening);
                    self.output.update_clients(|update| {
                        update.visible = outcome.visible.unwrap_or(update.visible);
                        update.durable = if outcome.durable { update.visible } else { update.durable };
                        update.finished |= outcome.finished;
                        update.nanoseconds += spent;
                    });
                    if outcome.finished {
                        break;
                    }
                }
                Err(error) => {
                    let error = step.map_or(error.clone(), |step| error.in_step(step));
                    self.output.fail(&error);
                    break;
                }
            }
        }
        self.target = None;
        self.output.pool.give_back(self.output.windows.load(Ordering::Relaxed));
        self.output.lock().ended = true;
        self.output.change.notify_all();
    }

    fn perform(&mut self, job: ServerJob) -> Result<JobOutcome> {
        self.agree_on_job(&job)?;
        match job {
            ServerJob::Batch(heads) => self.write(&heads),
            ServerJob::Sync => {
                self.target()?.sync().map(|()| JobOutcome { durable: true, ..JobOutcome::default() })
            }
            ServerJob::Finish(steps) => {
                let target = self.target.take();
                target.map_or(Ok(()), |target| target.finish(steps))?;
                Ok(JobOutcome { visible: Some(steps), durable: true, finished: true })
            }
            ServerJob::Gone => Err(self.gone()),
        }
    }

    /// Fails on all servers unless all have come to the same job. Collective.
    fn agree_on_job(&self, job: &ServerJob) -> Result<()> {
        let code = match job {
            ServerJob::Sync => 1,
            ServerJob::Finish(steps) => 2 + 3 * steps,
            ServerJob::Batch(heads) => 3 + 3 * heads.first().map_or(0, |(batch, _)| batch.step),
            ServerJob::Gone => u64::MAX,
        };
        let lost = |error: aqueduct_comm::Error| Error::from_comm("write", &self.output.name, &error);
        self.output.set_waits(true);
        let differing = first_differing_ranks(&self.comm, [Some(code)]);
        self.output.set_waits(false);
        let [differing] = differing.map_err(lost)?;
        if differing.is_some() || matches!(job, ServerJob::Gone) { Err(self.gone()) } else { Ok(()) }
    }

    fn gone(&self) -> Error {
        self.comm.mark_induced_failure(None);
        let detail =
            "a rank dropped the output without `finish`, or failed; the complete steps are in the file";
        self.output
            .failure()
            .unwrap_or_else(|| Error::new(Kind::Incomplete, "write", &self.output.name, detail))
    }

    fn target(&mut self) -> Result<&mut Box<dyn OutputTarget>> {
        let detail = "the output has ended";
        self.target.as_mut().ok_or_else(|| Error::new(Kind::Incomplete, "write", &self.output.name, detail))
    }

    fn write(&mut self, heads: &[(StepBatch, Result<u64, Error>)]) -> Result<JobOutcome> {
        let Some((first, _)) = heads.first() else { return Ok(JobOutcome::default()) };
        let visible = Some(first.step + 1);
        if first.entries.is_empty() {
            return Ok(JobOutcome { visible, ..JobOutcome::default() });
        }
        let refusal = heads.iter().find_map(|(_, bytes)| bytes.as_ref().err().cloned());
        let plan = match refusal.map_or(Ok(()), Err).and_then(|()| self.plan(heads)) {
            Ok(plan) => plan,
            Err(error) => {
                self.target()?.write(first, &mut FailedSource(error.clone()))?;
                return Err(error);
            }
        };
        let entries = first.entries.iter().zip(plan.items());
        let entries = entries.map(|(entry, items)| BatchEntry { items: *items, ..*entry }).collect();
        let batch = StepBatch { entries, ..first.clone() };
        let output = Arc::clone(&self.output);
        let mut gather = ClientGather::new(&output, &plan);
        let windows = plan.windows(output.window);
        self.windows.run(&mut self.target, &batch, (windows, true), |window| gather.fill(window))?;
        let batches = {
            let mut state = output.lock();
            state.batches += 1;
            state.bytes += plan.bytes();
            state.batches
        };
        let durable = output.durable_every.is_some_and(|every| batches.is_multiple_of(every));
        if durable {
            self.target()?.sync()?;
        }
        Ok(JobOutcome { visible, durable, finished: false })
    }

    /// How the data of the clients is gathered; the last plan, if the batches have the same layout.
    fn plan(&mut self, heads: &[(StepBatch, Result<u64, Error>)]) -> Result<GatherPlan> {
        let streams: Vec<usize> = heads[0].0.entries.iter().map(|entry| entry.stream).collect();
        let declared = &self.output.group.declaration.streams;
        let refuse = |detail: String| Error::new(Kind::NotSame, "write", &self.output.name, detail);
        let same = |(batch, _): &(StepBatch, _)| {
            batch.entries.iter().map(|entry| entry.stream).eq(streams.iter().copied())
        };
        if !heads.iter().all(same) || streams.iter().any(|stream| *stream >= declared.len()) {
            return Err(refuse("the ranks commit different streams in one step".to_owned()));
        }
        let lists = streams.iter().any(|stream| declared[*stream].region == crate::StreamRegion::List);
        if let Some((_, plan)) = self.last_plan.as_ref().filter(|(last, _)| !lists && *last == streams) {
            return Ok(plan.clone());
        }
        let items = |batch: &StepBatch| batch.entries.iter().map(|entry| entry.items).collect();
        let items: Vec<Vec<u64>> = heads.iter().map(|(batch, _)| items(batch)).collect();
        let plan = self.output.group.gather_plan(&streams, &items);
        let plan = plan.map_err(|error| refuse(error.to_string()))?;
        self.last_plan = Some((streams, plan.clone()));
        Ok(plan)
    }
}

/// The outcome of a job.
#[derive(Default)]
struct JobOutcome {
    visible: Option<u64>,
    durable: bool,
    finished: bool,
}

fn step_of(job: &ServerJob) -> Option<u64> {
    match job {
        ServerJob::Batch(heads) => heads.first().map(|(batch, _)| batch.step),
        _ => None,
    }
}
