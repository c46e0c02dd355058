//! The thread that carries what was accepted to the file, in order; asleep when there is nothing.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Buffer;
use super::batch::{Batch, Entry, Hull, Store};
use super::state::State;
use crate::core::Core;
use crate::error::{Error, Kind};
use crate::flow::Outflow;
use crate::transfer::Company;

/// How long a thread that takes its time sleeps before it looks whether others wait.
const NAP: Duration = Duration::from_millis(2);

/// The thread of a buffered file. Dropping it writes everything first.
pub(crate) struct Drainer {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Drainer {
    /// Starts the thread; fails where there are no threads to be had.
    pub(crate) fn start(core: &Arc<Core>) -> std::io::Result<Self> {
        let of_thread = Arc::clone(core);
        let builder = std::thread::Builder::new().name("aqueduct buffer".to_owned());
        let thread = builder.spawn(move || {
            aqueduct_comm::leave_mpi_alone();
            if let Some(buffer) = of_thread.buffer.get() {
                work(buffer, &of_thread);
            }
        })?;
        Ok(Self { core: Arc::clone(core), thread: Some(thread) })
    }
}

impl Drop for Drainer {
    fn drop(&mut self) {
        if let Some(buffer) = self.core.buffer.get() {
            buffer.lock().stopped = true;
            buffer.change.notify_all();
        }
        if let Some(thread) = self.thread.take() {
            // It never panics: what it writes is caught, and becomes the file's failure.
            let _ = thread.join();
        }
    }
}

fn work(buffer: &Buffer, core: &Core) {
    let mut scratch = Vec::new();
    while let Some(batch) = buffer.next() {
        let start = Instant::now();
        let calls = aqueduct_device::syscalls();
        let outcome = buffer.carry(core, &batch, &mut scratch);
        core.tally.system_calls.add(aqueduct_device::syscalls() - calls);
        let bytes = batch.filled;
        buffer.done(batch, outcome);
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

impl Buffer {
    /// The oldest batch; none when the file is closed and everything is written.
    fn next(&self) -> Option<Arc<Batch>> {
        let idle = |state: &mut State| state.queue.is_empty() && !state.stopped;
        let state = self.lock();
        let mut state = self.change.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        let batch = Arc::new(state.queue.pop_front()?);
        state.busy = Some(Arc::clone(&batch));
        Some(batch)
    }

    /// Writes a batch.
    fn carry(&self, core: &Core, batch: &Batch, scratch: &mut Vec<u8>) -> Result<(), Lost> {
        let first = batch.entries.first().expect("a batch has entries");
        let write = || match &batch.store {
            Store::Memory(bytes) => batch.entries.iter().try_for_each(|entry| {
                let written = put(core, entry, 0, &bytes[entry.bytes()]);
                written.map_err(|error| Lost::new(entry, entry.at as u64 + error.transferred(), error))
            }),
            Store::Spilled(range) => self.carry_spilled(core, first, range, scratch),
        };
        catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|_| {
            let detail = "the operation panicked; this is a defect, please report it";
            Err(Lost::new(first, 0, core.error(Kind::Io, "write", detail)))
        })
    }

    /// Writes what lies in the spill file, a block at a time.
    fn carry_spilled(
        &self,
        core: &Core,
        entry: &Entry,
        range: &Range<u64>,
        block: &mut Vec<u8>,
    ) -> Result<(), Lost> {
        block.resize(self.block, 0);
        let spill = self.spill.as_ref().expect("what is spilled has a spill file");
        for at in range.clone().step_by(self.block) {
            let before = at - range.start;
            let bytes = &mut block[..(range.end - at).min(self.block as u64) as usize];
            let read = spill.read(at, bytes).map_err(|error| {
                let detail = format!("the spill file gives it back no more: {error}");
                core.error(Kind::Io, "write", detail)
            });
            let written = read.and_then(|()| put(core, entry, before, bytes));
            written.map_err(|error| Lost::new(entry, before + error.transferred(), error))?;
        }
        Ok(())
    }

    fn done(&self, batch: Arc<Batch>, outcome: Result<(), Lost>) {
        let mut state = self.lock();
        match outcome {
            Ok(()) => {
                state.busy = None;
                let batch = Arc::into_inner(batch).expect("nobody else keeps a batch");
                state.written(batch, self.block as u64);
            }
            Err(Lost { access, hull, before, error }) => {
                let lost = self.lost(access, hull, state.pending() - before, &error);
                state.busy = None;
                state.visible += before;
                state.fail(lost);
            }
        }
        self.notice.tell(&state.held, &state.slots);
        self.change.notify_all();
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
