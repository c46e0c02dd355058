//! The thread that writes accepted data to the file, in order; it sleeps when there is none.

use std::ops::Range;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use aqueduct_report::{Report, ReportSource};

use super::block_queue::{BlockEntry, BlockStorage, BufferedBlock};
use super::buffer_state::BufferState;
use super::footprint::ByteSpan;
use super::{DrainTarget, WriteBuffer};
use crate::context::FileContext;
use crate::error::{Error, Kind};
use crate::independent::IndependentIo;
use crate::layout::Strip;
use crate::memory::chunks::WriteData;
use crate::write_behind::{BackgroundQueue, catch_panic};

/// A paced thread sleeps at most so long before it checks whether other ranks wait.
const NAP: Duration = Duration::from_millis(2);

/// Strips of one piece: enough for large pieces of regular accesses, few enough for a message.
const STRIPS: usize = 1024;

/// The threads of a buffered file: one writes, and one waits for the drain target, if there is one. Dropping it writes everything first.
pub(crate) struct DrainThread {
    shared: DrainContext,
    threads: Vec<BackgroundQueue>,
}

/// What the threads use of an open file.
#[derive(Clone)]
pub(crate) struct DrainContext {
    pub(crate) context: Arc<FileContext>,
    pub(crate) independent: Arc<IndependentIo>,
    pub(crate) buffer: Arc<WriteBuffer>,
}

impl DrainThread {
    /// Starts the thread; fails if no thread can be started.
    pub(crate) fn start(shared: DrainContext) -> std::io::Result<Self> {
        let mut drain = Self { shared, threads: Vec::new() };
        drain.spawn("aqueduct buffer", work)?;
        if drain.shared.buffer.target.is_some() {
            drain.spawn("aqueduct target", |shared| shared.buffer.await_target())?;
        }
        Ok(drain)
    }

    fn spawn(&mut self, name: &'static str, work: fn(&DrainContext)) -> std::io::Result<()> {
        let (thread, shared) = (BackgroundQueue::new(name), self.shared.clone());
        thread.submit(move |_| work(&shared))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for DrainThread {
    fn drop(&mut self) {
        let buffer = &self.shared.buffer;
        buffer.lock().stopped = true;
        buffer.change.notify_all();
        self.threads.clear();
        buffer.target.iter().for_each(|target| target.end());
        let state = buffer.lock();
        if let Some(error) = state.failure.as_ref().filter(|_| !state.is_failure_reported) {
            Report::new(ReportSource::File).warn(error);
        }
    }
}

fn work(shared: &DrainContext) {
    let DrainContext { context: cx, buffer, .. } = shared;
    let mut pieces = 0;
    while let Some(block) = buffer.next() {
        let start = Instant::now();
        let calls = aqueduct_device::syscalls();
        let outcome = shared.write_block(&block, &mut pieces);
        if buffer.target.is_none() && buffer.lock().expects_sync() {
            let ByteSpan { start, end } = block.span();
            cx.handle.start_writeback(start..end);
        }
        cx.counters.system_calls.add(aqueduct_device::syscalls() - calls);
        let bytes = block.filled;
        buffer.finish(block, outcome, pieces);
        buffer.pace(start, bytes);
    }
}

/// A write that has failed.
struct FailedWrite {
    access: u64,
    span: ByteSpan,
    /// Bytes of the block that were written before.
    before: u64,
    error: Error,
}

impl FailedWrite {
    fn new(entry: &BlockEntry, before: u64, error: Error) -> Self {
        Self { access: entry.access, span: entry.span, before, error }
    }
}

/// Hands the bytes of windows of accesses to the drain target, in pieces as large as possible.
fn hand_over<'a>(
    target: &dyn DrainTarget,
    windows: impl IntoIterator<Item = (&'a BlockEntry, Range<u64>)>,
    bytes: &[u8],
    pieces: &mut u64,
) -> Result<(), FailedWrite> {
    let mut places: Vec<Strip> = Vec::new();
    let (mut start, mut end) = (0, 0);
    let mut take = |entry: &BlockEntry, places: &[Strip], bytes: &[u8]| {
        *pieces += 1;
        target.take(places, bytes).map_err(|error| FailedWrite::new(entry, 0, error))
    };
    let mut last = None;
    for (entry, mut window) in windows {
        last = Some(entry);
        while !window.is_empty() {
            let until = window.end.min(window.start + (target.capacity() - (end - start)) as u64);
            let strips = entry.view.pattern().strips(window.start..until).take(STRIPS - places.len());
            for strip in strips {
                window.start += strip.size();
                end += strip.size() as usize;
                places.push(strip);
            }
            if places.len() == STRIPS || end - start == target.capacity() {
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

impl DrainContext {
    /// Writes a block, or hands it to the drain target; counts the pieces that were.
    fn write_block(&self, block: &BufferedBlock, pieces: &mut u64) -> Result<(), FailedWrite> {
        // There is none if copying the first one has panicked.
        let Some(first) = block.entries.first() else { return Ok(()) };
        let write = || match &block.store {
            BlockStorage::Memory(bytes) => self.write_memory(&block.entries, bytes, pieces),
            BlockStorage::Spilled(range) => self.write_spilled(first, range, pieces),
            BlockStorage::Remote => Ok(()),
        };
        catch_panic(write).unwrap_or_else(|detail| {
            Err(FailedWrite::new(first, 0, self.context.error(Kind::Io, "write", detail)))
        })
    }

    fn write_memory(
        &self,
        entries: &[BlockEntry],
        bytes: &[u8],
        pieces: &mut u64,
    ) -> Result<(), FailedWrite> {
        if let Some(target) = &self.buffer.target {
            let windows = entries.iter().map(|entry| (entry, entry.window.clone()));
            return hand_over(&**target, windows, bytes, pieces);
        }
        entries.iter().try_for_each(|entry| {
            let written = self.write_entry(entry, 0, &bytes[entry.bytes()]);
            written.map_err(|error| FailedWrite::new(entry, entry.at as u64 + error.transferred(), error))
        })
    }

    /// Writes data of the spill file, a block at a time.
    fn write_spilled(
        &self,
        entry: &BlockEntry,
        range: &Range<u64>,
        pieces: &mut u64,
    ) -> Result<(), FailedWrite> {
        let buffer = &self.buffer;
        let mut block = vec![0; (range.end - range.start).min(buffer.block as u64) as usize];
        let spill = buffer.spill.as_ref().expect("spilled data has a spill file");
        for at in range.clone().step_by(buffer.block) {
            let before = at - range.start;
            let bytes = &mut block[..(range.end - at).min(buffer.block as u64) as usize];
            let lost = |error: Error| FailedWrite::new(entry, before + error.transferred(), error);
            spill.read(at, bytes).map_err(|error| {
                let detail = format!("the spill file cannot be read: {error}");
                lost(self.context.error(Kind::Io, "write", detail))
            })?;
            let from = entry.window.start + before;
            match &buffer.target {
                Some(target) => {
                    let window = [(entry, from..from + bytes.len() as u64)];
                    hand_over(&**target, window, bytes, pieces)?;
                }
                None => self.write_entry(entry, before, bytes).map_err(lost)?,
            }
        }
        Ok(())
    }

    /// Writes bytes of an access, from one of them on.
    fn write_entry(&self, entry: &BlockEntry, from: u64, bytes: &[u8]) -> Result<(), Error> {
        let (pattern, first) = (entry.view.pattern(), entry.window.start + from);
        let data = WriteData::Contiguous(bytes.into());
        self.independent.write(&self.context, pattern, first, &data).map(|_| ())
    }
}

impl WriteBuffer {
    /// The oldest block; none when the file is closed and everything is written.
    fn next(&self) -> Option<Arc<BufferedBlock>> {
        let idle = |state: &mut BufferState| !(state.is_ready() || state.stopped && state.queue.is_empty());
        let state = self.lock();
        let mut state = self.change.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        let block = Arc::new(state.queue.pop_front()?);
        state.busy = Some(Arc::clone(&block));
        Some(block)
    }

    fn finish(&self, block: Arc<BufferedBlock>, outcome: Result<(), FailedWrite>, pieces: u64) {
        let mut state = self.lock();
        state.busy = None;
        match outcome {
            // The drain target may have failed meanwhile: then nothing is pending any more.
            Ok(()) if state.failure.is_some() => {}
            Ok(()) => {
                let block = Arc::into_inner(block).expect("no other thread keeps a block");
                if self.target.is_some() {
                    state.hand_over(block, pieces);
                } else {
                    state.written(block);
                }
            }
            Err(FailedWrite { access, span, before, error }) => {
                // It is not known how much the drain target has written.
                let before = if self.target.is_some() { 0 } else { before };
                let pending = state.pending_bytes() + block.filled as u64;
                self.fail(&mut state, access, span, pending - before, &error);
                state.visible += before;
            }
        }
        self.pending_table.publish(&state.pending, &state.slots);
        self.change.notify_all();
    }

    /// The first failure is final.
    fn fail(&self, state: &mut BufferState, access: u64, span: ByteSpan, lost: u64, error: &Error) {
        if state.failure.is_none() {
            let lost = self.lost_error(access, span, lost, error);
            self.pending_table
                .publish_loss(state.pending.older.with(state.pending.fresh).with(span), error.kind());
            state.fail(lost);
        }
    }

    /// Waits for writes of the drain target, until nothing more is handed to it.
    fn await_target(&self) {
        let Some(target) = &self.target else { return };
        let mut pieces = 0;
        loop {
            let idle = |state: &mut BufferState| state.remote.is_empty() && !state.is_done();
            let state = self.change.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
            if state.is_done() {
                return;
            }
            drop(state);
            let written = target.written(pieces);
            let mut state = self.lock();
            match written {
                Ok(written) => {
                    pieces = written;
                    state.complete_remote(pieces);
                }
                Err(error) => {
                    let first = state.remote.front().and_then(|(_, block)| block.entries.first());
                    let (access, span) =
                        first.map_or((0, ByteSpan::EMPTY), |entry| (entry.access, entry.span));
                    let pending = state.pending_bytes();
                    self.fail(&mut state, access, span, pending, &error);
                }
            }
            self.pending_table.publish(&state.pending, &state.slots);
            drop(state);
            self.change.notify_all();
        }
    }

    /// Sleeps to keep the pace, if nothing waits and the observed snapshots allow it.
    fn pace(&self, start: Instant, bytes: usize) {
        let mut state = self.lock();
        while let Some(rate) = state.pacing.and_then(|pacing| pacing.rate) {
            let due = start + Duration::from_secs_f64(bytes as f64 / rate as f64);
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero()
                || state.is_pressed()
                || self.pending_table.is_flush_requested(state.pending.written)
            {
                return;
            }
            let waited = self.change.wait_timeout(state, left.min(NAP));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
