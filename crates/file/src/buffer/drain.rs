//! The thread that carries what was accepted to the file, in order; asleep when there is nothing.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::batch::{Batch, Entry, Hull, Store};
use super::state::State;
use super::{Buffer, Reservoir};
use crate::core::Core;
use crate::error::{Error, Kind};
use crate::flow::Outflow;
use crate::layout::Strip;
use crate::transfer::Company;

/// How long a thread that takes its time sleeps before it looks whether others wait.
const NAP: Duration = Duration::from_millis(2);

/// Runs that are described at a time: enough for whole pieces of regular accesses, few enough for a message.
const STRIPS: usize = 1024;

/// The threads of a buffered file: one carries, and, where servers write, one waits for them. Dropping it writes everything first.
pub(crate) struct Drainer {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
}

impl Drainer {
    /// Starts the thread; fails where there are no threads to be had.
    pub(crate) fn start(core: &Arc<Core>) -> std::io::Result<Self> {
        let mut drainer = Self { core: Arc::clone(core), threads: Vec::new() };
        drainer.spawn("aqueduct buffer", work)?;
        if core.buffer.get().is_some_and(|buffer| buffer.reservoir.is_some()) {
            drainer.spawn("aqueduct reservoir", |buffer, _| buffer.listen())?;
        }
        Ok(drainer)
    }

    fn spawn(&mut self, name: &str, work: fn(&Buffer, &Core)) -> std::io::Result<()> {
        let core = Arc::clone(&self.core);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            aqueduct_comm::leave_mpi_alone();
            if let Some(buffer) = core.buffer.get() {
                work(buffer, &core);
            }
        })?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Drainer {
    fn drop(&mut self) {
        let Some(buffer) = self.core.buffer.get() else { return };
        buffer.lock().stopped = true;
        buffer.change.notify_all();
        // They never panic: what they write is caught, and becomes the file's failure.
        self.threads.drain(..).for_each(|thread| _ = thread.join());
        buffer.reservoir.iter().for_each(|reservoir| reservoir.end());
        let state = buffer.lock();
        if let Some(error) = state.failure.as_ref().filter(|_| !state.is_failure_told) {
            eprintln!("aqueduct: {error}");
        }
    }
}

fn work(buffer: &Buffer, core: &Core) {
    let mut pieces = 0;
    while let Some(batch) = buffer.next() {
        let start = Instant::now();
        let calls = aqueduct_device::syscalls();
        let outcome = buffer.carry(core, &batch, &mut pieces);
        if buffer.reservoir.is_none() && buffer.lock().expects_sync() {
            let Hull { start, end } = batch.hull();
            core.handle.hasten(start..end);
        }
        core.tally.system_calls.add(aqueduct_device::syscalls() - calls);
        let bytes = batch.filled;
        buffer.done(batch, outcome, pieces);
        buffer.pace(start, bytes);
    }
}

/// An access that could not be written.
struct Lost {
    access: u64,
    hull: Hull,
    /// Bytes of the batch that were written before.
    before: u64,
    error: Error,
}

impl Lost {
    fn new(entry: &Entry, before: u64, error: Error) -> Self {
        Self { access: entry.access, hull: entry.hull, before, error }
    }
}

/// Writes bytes of an access, from one of them on.
fn put(core: &Core, entry: &Entry, from: u64, bytes: &[u8]) -> Result<(), Error> {
    let (pattern, first) = (entry.view.pattern(), entry.window.start + from);
    core.write_window(Company::Alone, pattern, first, &Outflow::Straight(bytes.into())).map(|_| ())
}

/// Hands bytes that belong into windows of accesses to a server, in pieces as large as may be.
fn hand_over<'a>(
    reservoir: &dyn Reservoir,
    windows: impl IntoIterator<Item = (&'a Entry, Range<u64>)>,
    bytes: &[u8],
    pieces: &mut u64,
) -> Result<(), Lost> {
    let mut places: Vec<Strip> = Vec::new();
    let (mut start, mut end) = (0, 0);
    let mut take = |entry: &Entry, places: &[Strip], bytes: &[u8]| {
        *pieces += 1;
        reservoir.take(places, bytes).map_err(|error| Lost::new(entry, 0, error))
    };
    let mut last = None;
    for (entry, mut window) in windows {
        last = Some(entry);
        while !window.is_empty() {
            let until = window.end.min(window.start + (reservoir.capacity() - (end - start)) as u64);
            let strips = entry.view.pattern().strips(window.start..until).take(STRIPS - places.len());
            for strip in strips {
                window.start += strip.size();
                end += strip.size() as usize;
                places.push(strip);
            }
            if places.len() == STRIPS || end - start == reservoir.capacity() {
                take(entry, &places, &bytes[start..end])?;
                places.clear();
                start = end;
            }
        }
    }
    match last {
        Some(entry) if !places.is_empty() => take(entry, &places, &bytes[start..end]),
        _ => Ok(()),
    }
}

impl Buffer {
    /// The oldest batch; none when the file is closed and everything is written.
    fn next(&self) -> Option<Arc<Batch>> {
        let idle = |state: &mut State| !(state.is_ready() || state.stopped && state.queue.is_empty());
        let state = self.lock();
        let mut state = self.change.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        let batch = Arc::new(state.queue.pop_front()?);
        state.busy = Some(Arc::clone(&batch));
        Some(batch)
    }

    /// Writes a batch, or hands it to a server; counts the pieces that were.
    fn carry(&self, core: &Core, batch: &Batch, pieces: &mut u64) -> Result<(), Lost> {
        // None has been entered where copying the first one has panicked.
        let Some(first) = batch.entries.first() else { return Ok(()) };
        let write = || match &batch.store {
            Store::Memory(bytes) => self.carry_block(core, &batch.entries, bytes, pieces),
            Store::Spilled(range) => self.carry_spilled(core, first, range, pieces),
            Store::Away => Ok(()),
        };
        catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|_| {
            let detail = "the operation panicked; this is a defect, please report it";
            Err(Lost::new(first, 0, core.error(Kind::Io, "write", detail)))
        })
    }

    fn carry_block(
        &self,
        core: &Core,
        entries: &[Entry],
        bytes: &[u8],
        pieces: &mut u64,
    ) -> Result<(), Lost> {
        if let Some(reservoir) = &self.reservoir {
            let windows = entries.iter().map(|entry| (entry, entry.window.clone()));
            return hand_over(&**reservoir, windows, bytes, pieces);
        }
        entries.iter().try_for_each(|entry| {
            let written = put(core, entry, 0, &bytes[entry.bytes()]);
            written.map_err(|error| Lost::new(entry, entry.at as u64 + error.transferred(), error))
        })
    }

    /// Writes what lies in the spill file, a block at a time.
    fn carry_spilled(
        &self,
        core: &Core,
        entry: &Entry,
        range: &Range<u64>,
        pieces: &mut u64,
    ) -> Result<(), Lost> {
        let mut block = vec![0; (range.end - range.start).min(self.block as u64) as usize];
        let spill = self.spill.as_ref().expect("what is spilled has a spill file");
        for at in range.clone().step_by(self.block) {
            let before = at - range.start;
            let bytes = &mut block[..(range.end - at).min(self.block as u64) as usize];
            let lost = |error: Error| Lost::new(entry, before + error.transferred(), error);
            spill.read(at, bytes).map_err(|error| {
                let detail = format!("the spill file gives it back no more: {error}");
                lost(core.error(Kind::Io, "write", detail))
            })?;
            let from = entry.window.start + before;
            match &self.reservoir {
                Some(reservoir) => {
                    let window = [(entry, from..from + bytes.len() as u64)];
                    hand_over(&**reservoir, window, bytes, pieces)?;
                }
                None => put(core, entry, before, bytes).map_err(lost)?,
            }
        }
        Ok(())
    }

    fn done(&self, batch: Arc<Batch>, outcome: Result<(), Lost>, pieces: u64) {
        let mut state = self.lock();
        state.busy = None;
        match outcome {
            // A server may have failed meanwhile: then nothing is held any more.
            Ok(()) if state.failure.is_some() => {}
            Ok(()) => {
                let batch = Arc::into_inner(batch).expect("nobody else keeps a batch");
                if self.reservoir.is_some() {
                    state.hand_over(batch, pieces);
                } else {
                    state.written(batch);
                }
            }
            Err(Lost { access, hull, before, error }) => {
                // Of what a server was given, nobody knows how much it has written.
                let before = if self.reservoir.is_some() { 0 } else { before };
                let pending = state.pending() + batch.filled as u64;
                self.fail(&mut state, access, hull, pending - before, &error);
                state.visible += before;
            }
        }
        self.notice.tell(&state.held, &state.slots);
        self.change.notify_all();
    }

    /// The first failure is final.
    fn fail(&self, state: &mut State, access: u64, hull: Hull, lost: u64, error: &Error) {
        if state.failure.is_none() {
            let lost = self.lost(access, hull, lost, error);
            self.notice.tell_loss(state.held.older.with(state.held.fresh).with(hull), error.kind());
            state.fail(lost);
        }
    }

    /// Waits for what servers write, until nothing more is handed to them.
    fn listen(&self) {
        let Some(reservoir) = &self.reservoir else { return };
        let mut pieces = 0;
        loop {
            let idle = |state: &mut State| state.away.is_empty() && !state.is_done();
            let state = self.change.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
            if state.is_done() {
                return;
            }
            drop(state);
            let written = reservoir.written(pieces);
            let mut state = self.lock();
            match written {
                Ok(written) => {
                    pieces = written;
                    state.land(pieces);
                }
                Err(error) => {
                    let first = state.away.front().and_then(|(_, batch)| batch.entries.first());
                    let (access, hull) = first.map_or((0, Hull::NOTHING), |entry| (entry.access, entry.hull));
                    let pending = state.pending();
                    self.fail(&mut state, access, hull, pending, &error);
                }
            }
            self.notice.tell(&state.held, &state.slots);
            drop(state);
            self.change.notify_all();
        }
    }

    /// Takes its time, where nobody waits and the observed snapshots allow it.
    fn pace(&self, start: Instant, bytes: usize) {
        let mut state = self.lock();
        while let Some(rate) = state.tuning.and_then(|tuning| tuning.rate) {
            let due = start + Duration::from_secs_f64(bytes as f64 / rate as f64);
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() || state.is_pressed() || self.notice.is_hurried(state.held.written) {
                return;
            }
            let waited = self.change.wait_timeout(state, left.min(NAP));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
