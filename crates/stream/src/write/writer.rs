//! The writer of an output: the program itself, its I/O thread, or a server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aqueduct_comm::Comm;
use aqueduct_file::write_behind::BudgetUser;
use aqueduct_report::{Report, ReportSource};

use crate::error::{Error, Kind, Result};
use crate::pack::packer::Packer;
use crate::target::{ChunkSource, OutputTarget, StepBatch};
use crate::write::buffer_limits::OutputMemory;
use crate::write::chunk_spill::SpillOptions;
use crate::write::io_thread::StreamIoThread;
use crate::write::progress::ProgressCell;
use crate::write::stall_limit::{STALL_LIMIT, stalled};

/// Passes batches to their target.
pub(crate) struct StreamWriter {
    name: Arc<str>,
    comm: Comm,
    finished: bool,
    progress: Arc<ProgressCell>,
    /// `None` after a failure.
    backend: Option<WriterBackend>,
}

enum WriterBackend {
    Inline(InlineWriter),
    Thread(StreamIoThread),
    Server(ServerWriter),
}

/// A server writes.
struct ServerWriter {
    client: Arc<dyn RemoteWriter>,
    progress: Arc<ProgressCell>,
    /// The server has ended the output, or is not waited for any more.
    settled: bool,
}

/// Writes the batches of an output on another rank: the client of a server.
pub(crate) trait RemoteWriter: Send + Sync {
    /// Sends a batch, or the error of this rank. Returns when the program's arrays are free.
    fn write(&self, batch: StepBatch, packing: Result<&mut Packer<'_>, Error>) -> Result<()>;

    /// Asks for a sync after all batches so far.
    fn sync(&self) -> Result<()>;

    /// Ends the output after this number of steps, and waits until the writer has.
    fn finish(&self, steps: u64) -> Result<()>;

    /// Drops the output and waits until all steps that every client sent are written: the number of
    /// visible steps, and the failure. `None` if other ranks block the writer for longer than
    /// `limit`; the call can be repeated.
    fn abandon(&self, limit: Option<Duration>) -> Option<(u64, Option<Error>)>;

    /// The peak of the memory used here in bytes, and the time the writer has spent writing.
    fn usage(&self) -> (u64, Duration);
}

/// The program itself writes.
struct InlineWriter {
    target: Box<dyn OutputTarget>,
    memory: Arc<BudgetUser>,
    durable_every: Option<u64>,
    buffer: Vec<u8>,
    batches: u64,
    writing: Duration,
}

impl StreamWriter {
    /// The program writes; or, with `thread`, an I/O thread on these processors (any, if empty), which may spill.
    pub(crate) fn local(
        (name, comm): (&Arc<str>, &Comm),
        target: Box<dyn OutputTarget>,
        progress: &Arc<ProgressCell>,
        memory: &OutputMemory,
        thread: Option<(&[usize], Option<&SpillOptions>)>,
    ) -> std::io::Result<Self> {
        let backend = match thread {
            None => WriterBackend::Inline(InlineWriter::new(target, memory)),
            Some(thread) => {
                WriterBackend::Thread(StreamIoThread::start(comm, target, progress, memory, thread)?)
            }
        };
        Ok(Self::new((name, comm), backend, progress))
    }

    /// A remote writer gets the batches.
    pub(crate) fn remote(
        (name, comm): (&Arc<str>, &Comm),
        client: Arc<dyn RemoteWriter>,
        progress: &Arc<ProgressCell>,
    ) -> Self {
        let backend = ServerWriter { client, progress: Arc::clone(progress), settled: false };
        Self::new((name, comm), WriterBackend::Server(backend), progress)
    }

    fn new((name, comm): (&Arc<str>, &Comm), backend: WriterBackend, progress: &Arc<ProgressCell>) -> Self {
        let (name, comm, progress) = (Arc::clone(name), comm.clone(), Arc::clone(progress));
        Self { name, comm, progress, backend: Some(backend), finished: false }
    }

    /// Writes a batch, or passes it to the writer; or takes part with this rank's error.
    pub(crate) fn write(&mut self, batch: StepBatch, packing: Result<&mut Packer<'_>, Error>) -> Result<()> {
        match &mut self.backend {
            Some(WriterBackend::Thread(worker)) => worker.write(batch, packing),
            Some(WriterBackend::Server(served)) => {
                let (step, outcome) = (batch.step, served.client.write(batch, packing));
                self.settle(outcome.map_err(|error| error.in_step(step)))
            }
            Some(WriterBackend::Inline(own)) => {
                let outcome = own.write(&batch, packing, &self.progress);
                self.settle(outcome.map_err(|error| error.in_step(batch.step)))
            }
            None => self.progress.check(),
        }
    }

    /// Syncs all batches so far, now or after them.
    pub(crate) fn sync(&mut self) {
        match &mut self.backend {
            Some(WriterBackend::Thread(worker)) => worker.sync(),
            Some(WriterBackend::Server(served)) => {
                let outcome = served.client.sync();
                // The error is on the progress cell.
                let _ = self.settle(outcome);
            }
            Some(WriterBackend::Inline(own)) => {
                let outcome = own.sync(&self.progress);
                // The error is on the progress cell.
                let _ = self.settle(outcome);
            }
            None => {}
        }
    }

    /// Bytes of chunks that were spilled.
    pub(crate) fn spilled(&self) -> u64 {
        match &self.backend {
            Some(WriterBackend::Thread(thread)) => thread.spilled(),
            _ => 0,
        }
    }

    /// Ends the file: the peak of the memory of a remote writer's client in bytes, and the time spent writing.
    /// Failures are on the progress cell; `Output::finish` returns them.
    pub(crate) fn finish(mut self, steps: u64) -> (Option<u64>, Duration) {
        self.finished = true;
        let (outcome, usage) = match self.backend.take() {
            Some(WriterBackend::Server(served)) => {
                let outcome = served.client.finish(steps);
                let (memory, writing) = served.client.usage();
                (outcome, (Some(memory), writing))
            }
            Some(WriterBackend::Inline(own)) => (own.target.finish(steps), (None, own.writing)),
            // The thread updates the progress itself.
            Some(WriterBackend::Thread(thread)) => return (None, thread.finish(steps)),
            None => return (None, Duration::ZERO),
        };
        match outcome {
            Ok(()) => self.progress.update(|progress| (progress.visible, progress.durable) = (steps, steps)),
            Err(error) => self.progress.fail(error),
        }
        usage
    }

    /// After a failure the target is not used.
    fn settle(&mut self, outcome: Result<()>) -> Result<()> {
        outcome.inspect_err(|error| {
            self.progress.fail(error.clone());
            self.backend = None;
        })
    }
}

impl WriterBackend {
    /// Waits until everything that was accepted is written. False if the writer has waited for other ranks for longer
    /// than `limit`.
    fn await_end(&mut self, limit: Option<Duration>) -> bool {
        match self {
            Self::Inline(_) => true,
            Self::Thread(worker) => worker.await_end(limit),
            Self::Server(served) => served.await_end(limit),
        }
    }

    /// Stops waiting: batches that are not written are lost for this rank.
    fn give_up(&mut self) {
        match self {
            Self::Inline(_) => {}
            Self::Thread(worker) => worker.give_up(),
            Self::Server(served) => served.give_up(),
        }
    }
}

impl ServerWriter {
    /// Waits until the server has written every step that all its clients have passed.
    fn await_end(&mut self, limit: Option<Duration>) -> bool {
        if self.settled {
            return true;
        }
        let Some((visible, failure)) = self.client.abandon(limit) else { return false };
        self.progress.update(|progress| progress.visible = progress.visible.max(visible));
        failure.into_iter().for_each(|error| self.progress.fail(error));
        self.settle();
        true
    }

    fn give_up(&mut self) {
        self.progress.fail(stalled("the server"));
        self.settle();
    }

    fn settle(&mut self) {
        self.settled = true;
        self.progress.close();
    }
}

impl Drop for ServerWriter {
    fn drop(&mut self) {
        if !self.await_end(Some(STALL_LIMIT)) {
            self.give_up();
        }
    }
}

/// Reports the failure of an output that was dropped without `finish`.
struct Ending {
    name: Arc<str>,
    comm: Comm,
    progress: Arc<ProgressCell>,
}

impl Ending {
    /// Prints the failure and reports it to `run`.
    fn report(&self) {
        if let Some(reason) = self.progress.take_unreported() {
            let message = format!("output {:?}, dropped without `finish`: {reason}", self.name);
            Report::new(ReportSource::Stream).warn(&message);
            self.comm.report_failure(message);
        }
    }
}

impl Drop for StreamWriter {
    /// Without `finish`: accepted steps are written first, and failures are reported. If other ranks are slow, the
    /// rest of the wait is done at the end of `run`, which knows whether this rank has failed: then the others may
    /// wait for it, and nothing more can be written.
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let (name, comm, progress) = (Arc::clone(&self.name), self.comm.clone(), Arc::clone(&self.progress));
        let ending = Ending { name, comm, progress };
        let Some(mut hand) = self.backend.take() else { return ending.report() };
        if hand.await_end(Some(STALL_LIMIT)) {
            drop(hand);
            return ending.report();
        }
        let rest = move |succeeded: bool| {
            if !succeeded || !hand.await_end(None) {
                hand.give_up();
            }
            drop(hand);
            ending.report();
        };
        if std::thread::panicking() { rest(false) } else { self.comm.defer_to_end(rest) }
    }
}

impl InlineWriter {
    fn new(target: Box<dyn OutputTarget>, memory: &OutputMemory) -> Self {
        let (durable_every, memory) = (memory.limits.durable_every, Arc::clone(&memory.budget));
        Self { target, memory, durable_every, buffer: Vec::new(), batches: 0, writing: Duration::ZERO }
    }

    fn write(
        &mut self,
        batch: &StepBatch,
        packing: Result<&mut Packer<'_>, Error>,
        progress: &ProgressCell,
    ) -> Result<()> {
        let begin = Instant::now();
        if !batch.entries.is_empty() {
            let mut source =
                PackedChunks { packing, memory: &self.memory, buffer: &mut self.buffer, length: 0 };
            self.target.write(batch, &mut source)?;
            self.batches += 1;
        }
        progress.update(|progress| progress.visible = batch.step + 1);
        if !batch.entries.is_empty()
            && self.durable_every.is_some_and(|every| self.batches.is_multiple_of(every))
        {
            self.sync(progress)?;
        }
        self.writing += begin.elapsed();
        Ok(())
    }

    fn sync(&mut self, progress: &ProgressCell) -> Result<()> {
        self.target.sync()?;
        progress.update(|progress| progress.durable = progress.visible);
        Ok(())
    }
}

/// Chunks that are packed when they are requested.
struct PackedChunks<'a, 'p, 'd> {
    packing: Result<&'p mut Packer<'d>, Error>,
    memory: &'a BudgetUser,
    buffer: &'a mut Vec<u8>,
    /// Bytes of the last chunk.
    length: usize,
}

impl ChunkSource for PackedChunks<'_, '_, '_> {
    fn chunks(&self) -> u64 {
        self.packing.as_ref().map_or(1, |packing| packing.chunks())
    }

    fn refusal(&self) -> Option<Error> {
        self.packing.as_ref().err().cloned()
    }

    fn next(&mut self) -> Result<&[u8]> {
        let packing = self.packing.as_mut().map_err(|error| error.clone())?;
        let refused = |error: crate::pack::packer::PackError| {
            Error::new(Kind::BadArgument, "commit", "the output", error.to_string())
        };
        let needed = packing.next_length();
        if self.buffer.capacity() < needed {
            self.memory.put_buffer(std::mem::take(self.buffer));
            // A chunk is a part of the minimum, so that it is granted.
            *self.buffer = self.memory.take_buffer(needed).unwrap_or_default();
        }
        self.length = packing.fill(self.buffer).map_err(refused)?;
        Ok(self.current())
    }

    fn current(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

#[cfg(test)]
mod tests;
