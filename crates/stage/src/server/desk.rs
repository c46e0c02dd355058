//! One output at a server: the clients' side hands in, a thread takes out and writes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use aqueduct_comm::{Comm, Op};

use super::fetched::Fetched;
use super::ledger::{Item, Job, Ledger, Next, Phase};
use super::protocol::{News, news_of, tell};
use super::symmetric::Symmetric;
use crate::activity::Activity;
use crate::error::{Error, Kind, Result};
use crate::group::{Assembly, Group};
use crate::relay::Relay;
use crate::target::{Entry, Parcel, Refused, Target};

/// A chunk that a server knows of.
#[derive(Debug)]
pub(super) enum Held {
    /// In the symmetric buffer: the client's row, the slot, the bytes.
    Slot(usize, u32, usize),
    /// In the private pool.
    Private(Private),
    /// It could not be packed.
    Nothing,
}

/// Bytes of the private pool, which are counted as long as they are there.
#[derive(Debug)]
pub(super) struct Private {
    bytes: Vec<u8>,
    pool: Arc<Pool>,
}

impl Private {
    pub(super) fn new(bytes: Vec<u8>, pool: &Arc<Pool>) -> Self {
        pool.take(bytes.len() as u64);
        Self { bytes, pool: Arc::clone(pool) }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.pool.give_back(self.bytes.len() as u64);
    }
}

/// Memory that a server holds for its clients, counted.
#[derive(Debug, Default)]
pub(super) struct Pool {
    now: AtomicU64,
    peak: AtomicU64,
}

impl Pool {
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
pub(super) struct Desk {
    pub(super) name: Arc<str>,
    pub(super) number: u32,
    pub(super) link: Comm,
    pub(super) symmetric: Option<Symmetric>,
    pub(super) group: Group,
    /// Bytes that are put together at a time.
    pub(super) window: u64,
    pub(super) durable_every: Option<u64>,
    pub(super) pool: Arc<Pool>,
    /// What of it windows take.
    pub(super) windows: AtomicU64,
    pub(super) state: Mutex<State>,
    pub(super) change: Condvar,
}

pub(super) struct State {
    ledger: Ledger<Held>,
    /// What each client has been told.
    news: Vec<News>,
    failure: Option<Error>,
    /// Parcels and bytes that were written.
    pub(super) parcels: u64,
    pub(super) bytes: u64,
    pub(super) ended: bool,
    pub(super) activity: Activity,
    /// Which clients have dropped the output: they wait for its end.
    dropped: Vec<bool>,
}

impl State {
    pub(super) fn new(clients: usize) -> Self {
        Self {
            ledger: Ledger::new(clients),
            news: vec![News::default(); clients],
            failure: None,
            parcels: 0,
            bytes: 0,
            ended: false,
            activity: Activity::default(),
            dropped: vec![false; clients],
        }
    }

    fn news_for(&self, client: usize) -> News {
        News { activity: self.activity, ..self.news[client].clone() }
    }
}

impl Desk {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn clients(&self) -> usize {
        self.link.size() - 1
    }

    /// A client hands something over.
    pub(super) fn arrive(&self, client: usize, item: Item<Held>) {
        self.lock().ledger.arrive(client, item);
        self.change.notify_all();
    }

    /// A client drops the output. From now on it is told whenever the thread that writes begins to wait for other ranks, or goes on.
    pub(super) fn let_go(&self, client: usize) {
        let news = {
            let mut state = self.lock();
            state.dropped[client] = true;
            state.ledger.arrive(client, Item::Gone);
            state.news_for(client)
        };
        self.change.notify_all();
        self.send(client, &news);
    }

    /// The thread that writes begins to wait for other ranks or their chunks, or goes on after that.
    fn set_waits(&self, waits: bool) {
        let news: Vec<(usize, News)> = {
            let mut state = self.lock();
            state.activity.set_waits(waits);
            let clients = (0..state.news.len()).filter(|client| state.dropped[*client]);
            clients.map(|client| (client, state.news_for(client))).collect()
        };
        self.change.notify_all();
        news.iter().for_each(|(client, news)| self.send(*client, news));
    }

    fn send(&self, client: usize, news: &News) {
        // A client that is gone needs no news.
        let _ = tell(&self.link, client + 1, news_of(self.number), news);
    }

    /// Nothing more comes: what is here is written, then it ends.
    pub(super) fn terminate(&self) {
        self.lock().ledger.terminate();
        self.change.notify_all();
    }

    /// Ends at once, with this error; the first one counts.
    pub(super) fn fail(&self, error: &Error) {
        let mut state = self.lock();
        if state.failure.is_none() {
            state.failure = Some(error.clone());
            state.ledger.end();
            drop(state);
            self.change.notify_all();
            self.spread(|news| news.failure = Some(error.told()));
        }
    }

    pub(super) fn failure(&self) -> Option<Error> {
        self.lock().failure.clone()
    }

    /// The next chunk of a client; waits, asleep, until it is there. An error if it never comes.
    pub(super) fn chunk(&self, client: usize) -> Result<Held> {
        let next = self.lock().ledger.chunk(client);
        let next = match next {
            Next::NotYet => {
                self.set_waits(true);
                let next = self.await_chunk(client);
                self.set_waits(false);
                next
            }
            next => next,
        };
        match next {
            Next::Chunk(Held::Nothing) | Next::Never | Next::NotYet => {
                let gone = || {
                    let detail =
                        "a rank went away in the middle of a step, or could not give what it declared";
                    Error::new(Kind::NotComplete, "fetch", &self.name, detail)
                };
                Err(self.failure().unwrap_or_else(gone))
            }
            Next::Chunk(held) => Ok(held),
        }
    }

    /// Waits, asleep, for the next chunk of a client or the news that it never comes.
    fn await_chunk(&self, client: usize) -> Next<Held> {
        let mut state = self.lock();
        loop {
            match state.ledger.chunk(client) {
                Next::NotYet => state = self.change.wait(state).unwrap_or_else(PoisonError::into_inner),
                next => return next,
            }
        }
    }

    /// A window has grown.
    pub(super) fn grow(&self, bytes: u64) {
        self.pool.take(bytes);
        self.windows.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn turn_to(&self, phase: Phase) {
        self.lock().ledger.turn_to(phase);
    }

    /// A chunk of a client is let go: its memory is free at once.
    pub(super) fn release(&self, client: usize, held: Held) {
        drop(held);
        let news = {
            let mut state = self.lock();
            state.news[client].released += 1;
            state.activity.advance();
            state.news_for(client)
        };
        self.change.notify_all();
        self.send(client, &news);
    }

    /// Tells all clients.
    fn spread(&self, change: impl Fn(&mut News)) {
        let all: Vec<News> = {
            let mut state = self.lock();
            state.news.iter_mut().for_each(&change);
            state.activity.advance();
            (0..state.news.len()).map(|client| state.news_for(client)).collect()
        };
        self.change.notify_all();
        all.iter().enumerate().for_each(|(client, news)| self.send(client, news));
    }

    /// The next job; waits, asleep, until there is one. None after the end.
    fn next(&self) -> Option<Job> {
        self.set_waits(true);
        let job = await_job(&self.change, self.lock(), |state| &mut state.ledger);
        self.set_waits(false);
        job
    }
}

/// The next job of a ledger that others hand to, under their lock; waits, asleep, until there is one. None after the end.
pub(super) fn await_job<S, C>(
    change: &Condvar,
    mut state: MutexGuard<'_, S>,
    ledger: impl Fn(&mut S) -> &mut Ledger<C>,
) -> Option<Job> {
    loop {
        let ledger = ledger(&mut state);
        if let Some(job) = ledger.next() {
            return Some(job);
        }
        if ledger.phase() == Phase::Ended {
            return None;
        }
        state = change.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// The thread that writes an output, with those of the other servers.
pub(super) struct Writer {
    pub(super) desk: Arc<Desk>,
    pub(super) target: Option<Box<dyn Target>>,
    /// The writers of all servers.
    pub(super) talk: Comm,
    pub(super) last: Option<(Vec<usize>, Assembly)>,
    pub(super) windows: [Vec<u8>; 2],
}

impl Writer {
    /// Works until the output has ended.
    pub(super) fn run(mut self) {
        aqueduct_comm::leave_mpi_alone();
        loop {
            // A failure is a job too: the other servers wait for this one.
            let job = self.desk.next().unwrap_or(Job::Gone);
            let (begin, step) = (Instant::now(), step_of(&job));
            let outcome = catch_unwind(AssertUnwindSafe(|| self.perform(job))).unwrap_or_else(|_| {
                let detail = "the thread that writes panicked; this is a defect, please report it";
                Err(Error::new(Kind::Unsupported, "write", &self.desk.name, detail))
            });
            let spent = begin.elapsed().as_nanos() as u64;
            match outcome {
                Ok(news) => {
                    self.desk.turn_to(Phase::Listening);
                    self.desk.spread(|told| {
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
                    self.desk.fail(&error);
                    break;
                }
            }
        }
        self.target = None;
        self.desk.pool.give_back(self.desk.windows.load(Ordering::Relaxed));
        self.desk.lock().ended = true;
        self.desk.change.notify_all();
    }

    fn perform(&mut self, job: Job) -> Result<Done> {
        self.meet(&job)?;
        match job {
            Job::Parcel(heads) => self.write(&heads),
            Job::Sync => self.target()?.sync().map(|()| Done { durable: true, ..Done::default() }),
            Job::Finish(steps) => {
                let target = self.target.take();
                target.map_or(Ok(()), |target| target.finish(steps))?;
                Ok(Done { visible: Some(steps), durable: true, finished: true })
            }
            Job::Gone => Err(self.gone()),
        }
    }

    /// All servers do the same, or none does anything. Collective.
    fn meet(&self, job: &Job) -> Result<()> {
        let code = match job {
            Job::Sync => 1,
            Job::Finish(steps) => 2 + 3 * steps,
            Job::Parcel(heads) => 3 + 3 * heads.first().map_or(0, |(parcel, _)| parcel.step),
            Job::Gone => u64::MAX,
        };
        let talk = |error: aqueduct_comm::Error| Error::talk("write", &self.desk.name, &error);
        self.desk.set_waits(true);
        let both = self.talk.allreduce(Op::Max, &[code, u64::MAX - code]);
        self.desk.set_waits(false);
        let both = both.map_err(talk)?;
        if both[0] == u64::MAX || both[0] != u64::MAX - both[1] {
            return Err(self.gone());
        }
        Ok(())
    }

    fn gone(&self) -> Error {
        self.talk.note_loss(None);
        let detail =
            "a rank let go of the output without finish, or failed; what was complete before is in the file";
        self.desk.failure().unwrap_or_else(|| Error::new(Kind::NotComplete, "write", &self.desk.name, detail))
    }

    fn target(&mut self) -> Result<&mut Box<dyn Target>> {
        let detail = "the output has ended";
        self.target.as_mut().ok_or_else(|| Error::new(Kind::NotComplete, "write", &self.desk.name, detail))
    }

    fn write(&mut self, heads: &[(Parcel, Result<u64, Error>)]) -> Result<Done> {
        let Some((first, _)) = heads.first() else { return Ok(Done::default()) };
        let visible = Some(first.step + 1);
        if first.entries.is_empty() {
            return Ok(Done { visible, ..Done::default() });
        }
        let refusal = heads.iter().find_map(|(_, bytes)| bytes.as_ref().err().cloned());
        let assembled = refusal.map_or(Ok(()), Err).and_then(|()| self.assemble(heads));
        let assembly = match assembled {
            Ok(assembly) => assembly,
            Err(error) => {
                self.target()?.write(first, &mut Refused(error.clone()))?;
                return Err(error);
            }
        };
        let entries = first.entries.iter().zip(assembly.items());
        let entries = entries.map(|(entry, items)| Entry { items: *items, ..*entry }).collect();
        let parcel = Parcel { entries, ..first.clone() };
        let desk = Arc::clone(&self.desk);
        let mut fetched = Fetched::new(&desk, &assembly);
        let windows = assembly.windows(desk.window);
        let Some(target) = &mut self.target else { return Err(self.gone()) };
        let relay = Relay { parcel: &parcel, windows, threads: true, buffers: &mut self.windows };
        let outcome = relay.run(&mut **target, |window| fetched.fill(window));
        outcome?;
        let parcels = {
            let mut state = desk.lock();
            state.parcels += 1;
            state.bytes += assembly.bytes();
            state.parcels
        };
        let durable = desk.durable_every.is_some_and(|every| parcels.is_multiple_of(every));
        if durable {
            self.target()?.sync()?;
        }
        Ok(Done { visible, durable, finished: false })
    }

    /// How the clients' parcels make one: as the last ones did, if they look alike.
    fn assemble(&mut self, heads: &[(Parcel, Result<u64, Error>)]) -> Result<Assembly> {
        let streams: Vec<usize> = heads[0].0.entries.iter().map(|entry| entry.stream).collect();
        let abouts = &self.desk.group.declared.abouts;
        let refuse = |detail: String| Error::new(Kind::NotSame, "write", &self.desk.name, detail);
        let same = |(parcel, _): &(Parcel, _)| {
            parcel.entries.iter().map(|entry| entry.stream).eq(streams.iter().copied())
        };
        if !heads.iter().all(same) || streams.iter().any(|stream| *stream >= abouts.len()) {
            return Err(refuse("the ranks hand over different streams".to_owned()));
        }
        let lists = streams.iter().any(|stream| abouts[*stream].region == crate::Region::List);
        if let Some((_, assembly)) = self.last.as_ref().filter(|(last, _)| !lists && *last == streams) {
            return Ok(assembly.clone());
        }
        let items: Vec<Vec<u64>> = heads
            .iter()
            .map(|(parcel, _)| parcel.entries.iter().map(|entry| entry.items).collect())
            .collect();
        let assembly =
            self.desk.group.assembly(&streams, &items).map_err(|error| refuse(error.to_string()))?;
        self.last = Some((streams, assembly.clone()));
        Ok(assembly)
    }
}

/// What a job has come to.
#[derive(Default)]
struct Done {
    visible: Option<u64>,
    durable: bool,
    finished: bool,
}

fn step_of(job: &Job) -> Option<u64> {
    match job {
        Job::Parcel(heads) => heads.first().map(|(parcel, _)| parcel.step),
        _ => None,
    }
}
