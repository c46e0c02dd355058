//! One output at a server: the clients' side hands in, a thread takes out and writes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use aqueduct_comm::Comm;
use aqueduct_comm::agreement::first_differing_ranks;
use aqueduct_file::write_behind::{JobActivity, catch_panic};

use super::gather::ClientGather;
use super::job_queue::{ClientItem, NextChunk, ServerJob, ServerJobQueue, ServerPhase};
use super::protocol::{ServerUpdate, send_json, update_tag};
use super::shared_slots::SharedSlots;
use crate::aggregate::{AggregationGroup, GatherPlan};
use crate::error::{EncodedError, Error, Kind, Result};
use crate::target::{BatchEntry, FailedSource, OutputTarget, StepBatch};
use crate::write::double_buffer::DoubleBuffer;

/// A chunk that a server knows of.
#[derive(Debug)]
pub(super) enum HeldChunk {
    /// In the symmetric buffer: the client's row, the slot, the bytes.
    Slot(usize, u32, usize),
    /// In the private pool.
    Private(PooledBytes),
    /// It could not be packed.
    Nothing,
}

/// Bytes of the private pool, which are counted as long as they are there.
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

/// Memory that a server holds for its clients, counted.
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

/// One output.
pub(super) struct ServedOutput {
    pub(super) name: Arc<str>,
    pub(super) number: u32,
    pub(super) link: Comm,
    pub(super) shared_slots: Option<SharedSlots>,
    pub(super) group: AggregationGroup,
    /// Bytes that are put together at a time.
    pub(super) window: u64,
    pub(super) durable_every: Option<u64>,
    pub(super) pool: Arc<ServerMemoryGauge>,
    /// What of it windows take.
    pub(super) windows: AtomicU64,
    pub(super) state: Mutex<ServedOutputState>,
    pub(super) change: Condvar,
}

pub(super) struct ServedOutputState {
    jobs: ServerJobQueue<HeldChunk>,
    /// What each client has been told.
    updates: Vec<ServerUpdate>,
    failure: Option<Error>,
    /// Parcels and bytes that were written.
    pub(super) batches: u64,
    pub(super) bytes: u64,
    pub(super) ended: bool,
    pub(super) activity: JobActivity,
    /// Which clients have dropped the output: they wait for its end.
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

    fn news_for(&self, client: usize) -> ServerUpdate {
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

    /// A client hands something over.
    pub(super) fn arrive(&self, client: usize, item: ClientItem<HeldChunk>) {
        self.lock().jobs.arrive(client, item);
        self.change.notify_all();
    }

    /// A client drops the output. From now on it is told whenever the thread that writes begins to wait for other ranks, or goes on.
    pub(super) fn let_go(&self, client: usize) {
        let news = {
            let mut state = self.lock();
            state.dropped[client] = true;
            state.jobs.arrive(client, ClientItem::Gone);
            state.news_for(client)
        };
        self.change.notify_all();
        self.send(client, &news);
    }

    /// The thread that writes begins to wait for other ranks or their chunks, or goes on after that.
    fn set_waits(&self, waits: bool) {
        let news: Vec<(usize, ServerUpdate)> = {
            let mut state = self.lock();
            state.activity.set_waits(waits);
            let clients = (0..state.updates.len()).filter(|client| state.dropped[*client]);
            clients.map(|client| (client, state.news_for(client))).collect()
        };
        self.change.notify_all();
        news.iter().for_each(|(client, news)| self.send(*client, news));
    }

    fn send(&self, client: usize, news: &ServerUpdate) {
        // A client that is gone needs no news.
        let _ = send_json(&self.link, client + 1, update_tag(self.number), news);
    }

    /// Nothing more comes: what is here is written, then it ends.
    pub(super) fn terminate(&self) {
        self.lock().jobs.terminate();
        self.change.notify_all();
    }

    /// Ends at once, with this error; the first one counts.
    pub(super) fn fail(&self, error: &Error) {
        let mut state = self.lock();
        if state.failure.is_none() {
            state.failure = Some(error.clone());
            state.jobs.end();
            drop(state);
            self.change.notify_all();
            self.update_clients(|news| news.failure = Some(EncodedError::new(error)));
        }
    }

    pub(super) fn failure(&self) -> Option<Error> {
        self.lock().failure.clone()
    }

    /// The next chunk of a client; waits, asleep, until it is there. An error if it never comes.
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
                    let detail =
                        "a rank went away in the middle of a step, or could not give what it declared";
                    Error::new(Kind::Incomplete, "fetch", &self.name, detail)
                };
                Err(self.failure().unwrap_or_else(gone))
            }
            NextChunk::Chunk(held) => Ok(held),
        }
    }

    /// Waits, asleep, for the next chunk of a client or the news that it never comes.
    fn await_chunk(&self, client: usize) -> NextChunk<HeldChunk> {
        let mut state = self.lock();
        loop {
            match state.jobs.chunk(client) {
                NextChunk::NotYet => state = self.change.wait(state).unwrap_or_else(PoisonError::into_inner),
                next => return next,
            }
        }
    }

    /// A window has grown.
    pub(super) fn grow(&self, bytes: u64) {
        self.pool.take(bytes);
        self.windows.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn set_phase(&self, phase: ServerPhase) {
        self.lock().jobs.set_phase(phase);
    }

    /// A chunk of a client is let go: its memory is free at once.
    pub(super) fn release(&self, client: usize, held: HeldChunk) {
        drop(held);
        let news = {
            let mut state = self.lock();
            state.updates[client].released += 1;
            state.activity.advance();
            state.news_for(client)
        };
        self.change.notify_all();
        self.send(client, &news);
    }

    /// Tells all clients.
    fn update_clients(&self, change: impl Fn(&mut ServerUpdate)) {
        let all: Vec<ServerUpdate> = {
            let mut state = self.lock();
            state.updates.iter_mut().for_each(&change);
            state.activity.advance();
            (0..state.updates.len()).map(|client| state.news_for(client)).collect()
        };
        self.change.notify_all();
        all.iter().enumerate().for_each(|(client, news)| self.send(client, news));
    }

    /// The next job; waits, asleep, until there is one. None after the end.
    fn next(&self) -> Option<ServerJob> {
        self.set_waits(true);
        let job = await_job(&self.change, self.lock(), |state| &mut state.jobs);
        self.set_waits(false);
        job
    }
}

/// The next job of a ledger that others hand to, under their lock; waits, asleep, until there is one. None after the end.
pub(super) fn await_job<S, C>(
    change: &Condvar,
    mut state: MutexGuard<'_, S>,
    ledger: impl Fn(&mut S) -> &mut ServerJobQueue<C>,
) -> Option<ServerJob> {
    loop {
        let ledger = ledger(&mut state);
        if let Some(job) = ledger.next() {
            return Some(job);
        }
        if ledger.phase() == ServerPhase::Ended {
            return None;
        }
        state = change.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// The thread that writes an output, with those of the other servers.
pub(super) struct OutputWriter {
    pub(super) output: Arc<ServedOutput>,
    pub(super) target: Option<Box<dyn OutputTarget>>,
    /// The writers of all servers.
    pub(super) comm: Comm,
    pub(super) last_plan: Option<(Vec<usize>, GatherPlan)>,
    pub(super) windows: DoubleBuffer,
}

impl OutputWriter {
    /// Works until the output has ended.
    pub(super) fn run(mut self) {
        loop {
            // A failure is a job too: the other servers wait for this one.
            let job = self.output.next().unwrap_or(ServerJob::Gone);
            let (begin, step) = (Instant::now(), step_of(&job));
            let outcome = catch_panic(|| self.perform(job));
            let panicked = |detail| Err(Error::new(Kind::Unsupported, "write", &self.output.name, detail));
            let outcome = outcome.unwrap_or_else(panicked);
            let spent = begin.elapsed().as_nanos() as u64;
            match outcome {
                Ok(news) => {
                    self.output.set_phase(ServerPhase::Listening);
                    self.output.update_clients(|told| {
                        told.visible = news.visible.unwrap_or(told.visible);
                        told.durable = if news.durable { told.visible } else { told.durable };
                        told.finished |= news.finished;
                        told.nanoseconds += spent;
                    });
                    if news.finished {
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

    /// All servers do the same, or none does anything. Collective.
    fn agree_on_job(&self, job: &ServerJob) -> Result<()> {
        let code = match job {
            ServerJob::Sync => 1,
            ServerJob::Finish(steps) => 2 + 3 * steps,
            ServerJob::Batch(heads) => 3 + 3 * heads.first().map_or(0, |(parcel, _)| parcel.step),
            ServerJob::Gone => u64::MAX,
        };
        let talk = |error: aqueduct_comm::Error| Error::from_comm("write", &self.output.name, &error);
        self.output.set_waits(true);
        let differing = first_differing_ranks(&self.comm, [Some(code)]);
        self.output.set_waits(false);
        let [differing] = differing.map_err(talk)?;
        if differing.is_some() || matches!(job, ServerJob::Gone) { Err(self.gone()) } else { Ok(()) }
    }

    fn gone(&self) -> Error {
        self.comm.mark_induced_failure(None);
        let detail =
            "a rank let go of the output without finish, or failed; what was complete before is in the file";
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
        let assembled = refusal.map_or(Ok(()), Err).and_then(|()| self.assemble(heads));
        let assembly = match assembled {
            Ok(assembly) => assembly,
            Err(error) => {
                self.target()?.write(first, &mut FailedSource(error.clone()))?;
                return Err(error);
            }
        };
        let entries = first.entries.iter().zip(assembly.items());
        let entries = entries.map(|(entry, items)| BatchEntry { items: *items, ..*entry }).collect();
        let parcel = StepBatch { entries, ..first.clone() };
        let desk = Arc::clone(&self.output);
        let mut fetched = ClientGather::new(&desk, &assembly);
        let windows = assembly.windows(desk.window);
        self.windows.run(&mut self.target, &parcel, (windows, true), |window| fetched.fill(window))?;
        let parcels = {
            let mut state = desk.lock();
            state.batches += 1;
            state.bytes += assembly.bytes();
            state.batches
        };
        let durable = desk.durable_every.is_some_and(|every| parcels.is_multiple_of(every));
        if durable {
            self.target()?.sync()?;
        }
        Ok(JobOutcome { visible, durable, finished: false })
    }

    /// How the clients' parcels make one: as the last ones did, if they look alike.
    fn assemble(&mut self, heads: &[(StepBatch, Result<u64, Error>)]) -> Result<GatherPlan> {
        let streams: Vec<usize> = heads[0].0.entries.iter().map(|entry| entry.stream).collect();
        let abouts = &self.output.group.declaration.streams;
        let refuse = |detail: String| Error::new(Kind::NotSame, "write", &self.output.name, detail);
        let same = |(parcel, _): &(StepBatch, _)| {
            parcel.entries.iter().map(|entry| entry.stream).eq(streams.iter().copied())
        };
        if !heads.iter().all(same) || streams.iter().any(|stream| *stream >= abouts.len()) {
            return Err(refuse("the ranks hand over different streams".to_owned()));
        }
        let lists = streams.iter().any(|stream| abouts[*stream].region == crate::StreamRegion::List);
        if let Some((_, assembly)) = self.last_plan.as_ref().filter(|(last, _)| !lists && *last == streams) {
            return Ok(assembly.clone());
        }
        let items: Vec<Vec<u64>> = heads
            .iter()
            .map(|(parcel, _)| parcel.entries.iter().map(|entry| entry.items).collect())
            .collect();
        let assembly =
            self.output.group.gather_plan(&streams, &items).map_err(|error| refuse(error.to_string()))?;
        self.last_plan = Some((streams, assembly.clone()));
        Ok(assembly)
    }
}

/// What a job has come to.
#[derive(Default)]
struct JobOutcome {
    visible: Option<u64>,
    durable: bool,
    finished: bool,
}

fn step_of(job: &ServerJob) -> Option<u64> {
    match job {
        ServerJob::Batch(heads) => heads.first().map(|(parcel, _)| parcel.step),
        _ => None,
    }
}
