//! The I/O thread of an output on one rank: it executes batches in order; their chunks are passed in buffers
//! that are reused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aqueduct_comm::{Comm, Op};
use aqueduct_file::write_behind::{BackgroundQueue, BudgetUser, JobContext, catch_panic};

use crate::error::{Error, Kind, Result};
use crate::pack::packer::{PackError, Packer};
use crate::target::{ChunkSource, OutputTarget, StepBatch};
use crate::write::buffer_limits::{BufferLimits, OutputMemory};
use crate::write::chunk_spill::{ChunkSpill, SpillOptions, SpilledChunk};
use crate::write::progress::ProgressCell;
use crate::write::stall_limit::{STALL_LIMIT, stalled};
use crate::write::thread_affinity;

/// The rank's handle of the thread.
pub(crate) struct StreamIoThread {
    shared: Arc<IoThreadShared>,
    queue: BackgroundQueue,
    /// The last job was submitted.
    ended: bool,
}

struct IoThreadShared {
    /// The I/O threads of all ranks.
    comm: Comm,
    progress: Arc<ProgressCell>,
    limits: BufferLimits,
    target: Mutex<TargetState>,
    memory: Arc<BudgetUser>,
    /// Buffers that hold chunks which are not written.
    in_use: AtomicUsize,
    /// The file of chunks that find no buffer.
    spill: Option<ChunkSpill>,
}

/// A chunk on its way to the thread.
enum SubmittedChunk {
    /// A buffer, and the bytes of it that are used.
    Buffered(Vec<u8>, usize),
    Spilled(SpilledChunk),
    /// Memory that belongs to no buffer.
    Copied(Vec<u8>, usize),
}

/// What only the thread uses.
struct TargetState {
    /// None after the end, or after a failure.
    target: Option<Box<dyn OutputTarget>>,
    /// Batches that were written.
    batches: u64,
    /// The time that jobs took.
    busy: Duration,
}

impl StreamIoThread {
    /// Starts the thread, on these processors if some are given.
    pub(crate) fn start(
        comm: &Comm,
        target: Box<dyn OutputTarget>,
        progress: &Arc<ProgressCell>,
        memory: &OutputMemory,
        (pinned, spill): (&[usize], Option<&SpillOptions>),
    ) -> std::io::Result<Self> {
        prefault_buffers(memory);
        let spill = spill.map(|spill| ChunkSpill::new(&spill.folder, spill.bytes)).transpose()?;
        let limits = memory.limits;
        let shared = Arc::new(IoThreadShared {
            comm: comm.clone(),
            progress: Arc::clone(progress),
            limits,
            target: Mutex::new(TargetState { target: Some(target), batches: 0, busy: Duration::ZERO }),
            memory: Arc::clone(&memory.budget),
            in_use: AtomicUsize::new(0),
            spill,
        });
        let queue = thread_affinity::pinned_queue("aqueduct stream", pinned)?;
        Ok(Self { shared, queue, ended: false })
    }

    /// Submits a batch and passes its chunks; returns when the last one is in a buffer. An error of this rank
    /// is submitted in place of the chunks.
    pub(crate) fn write(&self, batch: StepBatch, packing: Result<&mut Packer<'_>, Error>) -> Result<()> {
        let step = batch.step;
        let (sender, chunks) = channel();
        let count = packing.as_ref().map(|packing| packing.chunks()).map_err(Clone::clone);
        let job = {
            let count = count.clone();
            move |shared: &IoThreadShared, context: &JobContext<'_>| {
                shared.write_batch(context, &batch, count, &chunks);
            }
        };
        let (mut job, mut outcome) = (Some(job), Ok(()));
        if let Ok(packing) = packing {
            let mut scratch = Vec::new();
            for _ in 0..count.unwrap_or(0) {
                let (chunk, filled) = self.pack_chunk(packing, &mut scratch);
                let _ = sender.send(chunk);
                // With its first chunk: a thread that is woken earlier only competes for the core.
                job.take().into_iter().for_each(|job| self.submit(job));
                outcome = outcome.and(filled.map(drop));
            }
        }
        job.into_iter().for_each(|job| self.submit(job));
        outcome.map_err(|error| {
            Error::new(Kind::BadArgument, "commit", "the output", error.to_string()).in_step(step)
        })
    }

    pub(crate) fn sync(&self) {
        self.submit(|shared, context| {
            shared.attempt(None, |mut target| {
                shared.agree_on_job(context)?;
                shared.sync(&mut *target)?;
                Ok(Some(target))
            });
        });
    }

    /// Bytes of chunks that were spilled.
    pub(crate) fn spilled(&self) -> u64 {
        self.shared.spill.as_ref().map_or(0, ChunkSpill::bytes)
    }

    /// Ends the output and the thread; the time spent writing.
    pub(crate) fn finish(mut self, steps: u64) -> Duration {
        self.ended = true;
        self.submit(move |shared, context| {
            shared.attempt(None, |target| {
                shared.agree_on_job(context)?;
                target.finish(steps)?;
                shared.progress.update(|progress| (progress.visible, progress.durable) = (steps, steps));
                Ok(None)
            });
            shared.progress.close();
        });
        self.queue.drain();
        self.shared.target().busy
    }

    /// Waits until the thread has written everything that was accepted, and ends it. False if it has waited for
    /// other ranks for longer than `limit`; the call can be repeated.
    pub(crate) fn await_end(&mut self, limit: Option<Duration>) -> bool {
        if !std::mem::replace(&mut self.ended, true) {
            self.submit(IoThreadShared::abandon);
        }
        self.queue.drain_unless_stalled(limit)
    }

    /// Leaves the thread to itself.
    pub(crate) fn give_up(&mut self) {
        self.queue.detach();
        self.shared.progress.fail(stalled("the I/O thread"));
    }

    fn submit(&self, job: impl FnOnce(&IoThreadShared, &JobContext<'_>) + Send + 'static) {
        let shared = Arc::clone(&self.shared);
        let job = move |context: &JobContext<'_>| {
            let begin = Instant::now();
            job(&shared, context);
            shared.target().busy += begin.elapsed();
        };
        // It fails only if the thread does not run, and `start` has started it.
        let _ = self.queue.submit(job);
    }

    /// Packs the next chunk into a buffer, or, if none is free, into the spill file. Waits if there is neither a buffer nor
    /// room in the file.
    fn pack_chunk(
        &self,
        packing: &mut Packer<'_>,
        scratch: &mut Vec<u8>,
    ) -> (SubmittedChunk, Result<usize, PackError>) {
        let (shared, length) = (&self.shared, packing.next_length());
        let most = shared.limits.chunks(packing.size());
        loop {
            let returns = shared.memory.returns();
            let is_free = shared.in_use.load(Ordering::Relaxed) < most;
            if let Some(mut buffer) = is_free.then(|| shared.memory.take_buffer(length)).flatten() {
                shared.in_use.fetch_add(1, Ordering::Relaxed);
                let filled = packing.fill(&mut buffer);
                // Values that cannot be copied become an empty chunk, which is an error of this rank.
                let used = *filled.as_ref().unwrap_or(&0);
                return (SubmittedChunk::Buffered(buffer, used), filled);
            }
            if let Some(spill) = &shared.spill
                && let Some(room) = spill.take(length)
            {
                let filled = packing.fill(scratch);
                let Ok(used) = filled else {
                    spill.cancel(&room);
                    return (SubmittedChunk::Copied(Vec::new(), 0), filled);
                };
                // Without space on the disk the chunk stays in memory, and no other one is spilled.
                let chunk = match spill.store(&room, &scratch[..used]) {
                    Ok(()) => SubmittedChunk::Spilled(room),
                    Err(_) => SubmittedChunk::Copied(std::mem::take(scratch), used),
                };
                return (chunk, Ok(used));
            }
            shared.memory.wait(returns);
        }
    }
}

impl Drop for StreamIoThread {
    /// Without `finish` the wait is limited: the thread may wait for a rank that waits for this one.
    fn drop(&mut self) {
        if !self.await_end(Some(STALL_LIMIT)) {
            self.give_up();
        }
    }
}

impl IoThreadShared {
    fn target(&self) -> MutexGuard<'_, TargetState> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees the memory of a chunk that is not written.
    fn discard(&self, chunk: SubmittedChunk) {
        match (chunk, &self.spill) {
            (SubmittedChunk::Buffered(buffer, _), _) => self.release(buffer),
            (SubmittedChunk::Spilled(room), Some(spill)) => spill.discard(&room),
            (SubmittedChunk::Spilled(_) | SubmittedChunk::Copied(..), _) => {}
        }
    }

    fn release(&self, buffer: Vec<u8>) {
        self.in_use.fetch_sub(1, Ordering::Relaxed);
        self.memory.put_buffer(buffer);
    }

    /// Returns when all ranks have come to the same job; fails if one has dropped the output. Collective.
    fn agree_on_job(&self, context: &JobContext<'_>) -> Result<()> {
        context.set_waits(true);
        let dropped = self.comm.allreduce_one(Op::Max, 0u64);
        context.set_waits(false);
        if dropped.map_err(|error| Error::from_comm("write", "the output", &error))? == 0 {
            return Ok(());
        }
        self.comm.mark_induced_failure(None);
        let detail = "another rank has dropped the output without `finish`; the steps before are in the file";
        Err(Error::new(Kind::Incomplete, "write", "the output", detail))
    }

    /// Ends an output that was not finished. The program of this rank does not wait for the agreement by which
    /// the other ranks learn of it at their next job.
    fn abandon(&self, context: &JobContext<'_>) {
        self.progress.close();
        let others_wait = self.target().target.take().is_some();
        context.detach();
        if others_wait {
            // It fails if no other rank takes part any more.
            let _ = self.comm.allreduce_one(Op::Max, 1u64);
        }
    }

    /// Uses the target; one that has failed is dropped.
    fn attempt(
        &self,
        step: Option<u64>,
        work: impl FnOnce(Box<dyn OutputTarget>) -> Result<Option<Box<dyn OutputTarget>>>,
    ) {
        let Some(target) = self.target().target.take() else { return };
        let panicked = |detail| Err(Error::new(Kind::Unsupported, "write", "the output", detail));
        match catch_panic(|| work(target)).unwrap_or_else(panicked) {
            Ok(target) => self.target().target = target,
            Err(error) => self.progress.fail(step.map_or(error.clone(), |step| error.in_step(step))),
        }
    }

    fn write_batch(
        &self,
        context: &JobContext<'_>,
        batch: &StepBatch,
        count: Result<u64, Error>,
        chunks: &Receiver<SubmittedChunk>,
    ) {
        self.attempt(Some(batch.step), |mut target| {
            if batch.entries.is_empty() {
                self.progress.update(|progress| progress.visible = batch.step + 1);
                return Ok(Some(target));
            }
            self.agree_on_job(context)?;
            let mut source =
                QueuedChunks { shared: self, count, chunks, given: 0, current: None, loaded: Vec::new() };
            target.write(batch, &mut source)?;
            drop(source);
            self.progress.update(|progress| progress.visible = batch.step + 1);
            let batches = {
                let mut state = self.target();
                state.batches += 1;
                state.batches
            };
            if self.limits.durable_every.is_some_and(|every| batches.is_multiple_of(every)) {
                self.sync(&mut *target)?;
            }
            Ok(Some(target))
        });
        // The chunks that a failure has left: the rank waits for their buffers.
        chunks.iter().for_each(|chunk| self.discard(chunk));
    }

    fn sync(&self, target: &mut dyn OutputTarget) -> Result<()> {
        target.sync()?;
        self.progress.update(|progress| progress.durable = progress.visible);
        Ok(())
    }
}

/// The chunks of a batch, received from the rank.
struct QueuedChunks<'a> {
    shared: &'a IoThreadShared,
    count: Result<u64, Error>,
    chunks: &'a Receiver<SubmittedChunk>,
    given: u64,
    /// The chunk that is being written, in memory: its buffer is free when the next one is requested.
    current: Option<SubmittedChunk>,
    /// The memory for chunks of the spill file.
    loaded: Vec<u8>,
}

impl ChunkSource for QueuedChunks<'_> {
    fn chunks(&self) -> u64 {
        self.count.as_ref().map_or(1, |chunks| *chunks)
    }

    fn refusal(&self) -> Option<Error> {
        self.count.as_ref().err().cloned()
    }

    fn next(&mut self) -> Result<&[u8]> {
        self.release();
        if self.given == *self.count.as_ref().map_err(Clone::clone)? {
            return Ok(&[]);
        }
        self.given += 1;
        self.current = self.receive()?;
        if self.current().is_empty() {
            let detail = "its rank could not pass all chunks of the step";
            return Err(Error::new(Kind::BadArgument, "write", "the output", detail));
        }
        Ok(self.current())
    }

    fn current(&self) -> &[u8] {
        match &self.current {
            Some(SubmittedChunk::Buffered(buffer, length) | SubmittedChunk::Copied(buffer, length)) => {
                &buffer[..*length]
            }
            Some(SubmittedChunk::Spilled(_)) | None => &[],
        }
    }
}

impl QueuedChunks<'_> {
    /// The next chunk, in memory.
    fn receive(&mut self) -> Result<Option<SubmittedChunk>> {
        let chunk = self.chunks.recv().ok();
        let (Some(SubmittedChunk::Spilled(room)), Some(spill)) = (&chunk, &self.shared.spill) else {
            return Ok(chunk);
        };
        let mut loaded = std::mem::take(&mut self.loaded);
        spill.load(room, &mut loaded).map_err(|error| {
            let detail = format!("a chunk of the step cannot be read from the spill file: {error}");
            Error::new(Kind::Io, "write", "the output", detail)
        })?;
        let length = loaded.len();
        Ok(Some(SubmittedChunk::Copied(loaded, length)))
    }

    fn release(&mut self) {
        match self.current.take() {
            Some(SubmittedChunk::Copied(memory, _)) => self.loaded = memory,
            Some(chunk) => self.shared.discard(chunk),
            None => {}
        }
    }
}

impl Drop for QueuedChunks<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// Allocates the buffers of the expected steps and touches their pages, so that the first steps are as fast as the others.
fn prefault_buffers(memory: &OutputMemory) {
    let BufferLimits { expected, capacity, .. } = memory.limits;
    let bytes = expected.min(capacity) as usize;
    let wanted = if bytes == 0 { 0 } else { memory.limits.chunks(expected) };
    let taken: Vec<Vec<u8>> = (0..wanted).map_while(|_| memory.budget.take_buffer(bytes)).collect();
    for mut buffer in taken {
        buffer.resize(bytes, 0);
        memory.budget.put_buffer(buffer);
    }
}
