//! One I/O thread of a rank: parcels in order, buffers that rotate, asleep when there is nothing to do.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aqueduct_comm::{Comm, Op};

use crate::error::{Error, Kind, Result};
use crate::pack::packer::Packer;
use crate::target::{ChunkSource, OutputTarget, StepBatch};
use crate::write::activity::{Activity, PATIENCE, await_end, stuck};
use crate::write::buffer_limits::BufferLimits;
use crate::write::progress::ProgressCell;
use crate::write::thread_affinity;

/// What the thread does for a rank.
enum IoThreadJob {
    /// A parcel, whose chunks follow; or the error that this rank takes part with.
    Batch(StepBatch, Result<u64, Error>),
    Chunk(Vec<u8>, usize),
    Sync,
    Finish(u64),
}

/// The rank's end.
pub(crate) struct StreamIoThread {
    shared: Arc<IoThreadShared>,
    thread: Option<JoinHandle<()>>,
    limits: BufferLimits,
}

struct IoThreadShared {
    /// The threads of all ranks.
    comm: Comm,
    state: Mutex<IoThreadState>,
    change: Condvar,
    progress: Arc<ProgressCell>,
    limits: BufferLimits,
}

#[derive(Default)]
struct IoThreadState {
    jobs: VecDeque<IoThreadJob>,
    free: Vec<Vec<u8>>,
    /// How many buffers there are, here or in jobs.
    made: usize,
    /// The memory of all of them, as large as they have become.
    memory: u64,
    /// No more jobs come.
    stopped: bool,
    /// The thread is gone.
    ended: bool,
    activity: Activity,
    /// How long it has written.
    busy: Duration,
}

impl StreamIoThread {
    /// Starts the thread, on these processors if some are given.
    pub(crate) fn start(
        comm: &Comm,
        target: Box<dyn OutputTarget>,
        board: &Arc<ProgressCell>,
        limits: BufferLimits,
        pinned: &[usize],
    ) -> std::io::Result<Self> {
        // Made now, pages and all: the first steps shall cost no more than the others.
        let bytes = limits.expected.min(limits.capacity) as usize;
        let free: Vec<Vec<u8>> = (0..limits.buffers).map(|_| prefaulted_buffer(bytes)).collect();
        let memory = free.iter().map(|buffer| buffer.capacity() as u64).sum();
        let state = IoThreadState { made: free.len(), memory, free, ..IoThreadState::default() };
        let shared = Arc::new(IoThreadShared {
            comm: comm.clone(),
            state: Mutex::new(state),
            change: Condvar::new(),
            progress: Arc::clone(board),
            limits,
        });
        let theirs = Arc::clone(&shared);
        let work = move || {
            theirs.work(target);
            theirs.lock().ended = true;
            theirs.change.notify_all();
        };
        let thread = thread_affinity::start("aqueduct stage", pinned, work)?;
        Ok(Self { shared, thread: Some(thread), limits })
    }

    /// Hands a parcel over, chunk by chunk: returns when the last one is in a buffer. An error of this rank goes the same way.
    pub(crate) fn write(&self, parcel: StepBatch, packing: Result<&mut Packer<'_>, Error>) -> Result<()> {
        let packing = match packing {
            Ok(packing) => packing,
            Err(error) => {
                self.shared.push([IoThreadJob::Batch(parcel, Err(error))], 0);
                return Ok(());
            }
        };
        let (chunks, step) = (packing.chunks(), parcel.step);
        // Together with its first chunk: a thread that wakes up earlier only takes the processor from who packs.
        let mut head = Some(IoThreadJob::Batch(parcel, Ok(chunks)));
        let mut outcome = Ok(());
        for _ in 0..chunks {
            let mut buffer = self.take_buffer();
            let before = buffer.capacity() as u64;
            let filled = packing.fill(&mut buffer);
            let grown = buffer.capacity() as u64 - before;
            // What cannot be copied leaves an empty chunk, which the thread takes for an error of this rank.
            let length = *filled.as_ref().unwrap_or(&0);
            self.shared.push(head.take().into_iter().chain([IoThreadJob::Chunk(buffer, length)]), grown);
            outcome = outcome.and(filled.map(drop));
        }
        if head.is_some() {
            self.shared.push(head, 0);
        }
        outcome.map_err(|error| {
            Error::new(Kind::BadArgument, "commit", "the output", error.to_string()).in_step(step)
        })
    }

    pub(crate) fn sync(&self) {
        self.shared.push([IoThreadJob::Sync], 0);
    }

    /// Ends the output and the thread; what it has used.
    pub(crate) fn finish(mut self, steps: u64) -> (u64, Duration) {
        self.shared.push([IoThreadJob::Finish(steps)], 0);
        self.shared.stop();
        // A panic of the target is a failure on the progress cell.
        self.thread.take().map(JoinHandle::join);
        let state = self.shared.lock();
        (state.memory, state.busy)
    }

    /// Waits until the thread has written everything that was accepted; not so if other ranks keep it waiting for longer than `limit`.
    pub(crate) fn await_end(&self, limit: Option<Duration>) -> bool {
        self.shared.stop();
        let look = |state: &IoThreadState| (state.ended, state.activity);
        self.thread.is_none() || await_end(&self.shared.change, self.shared.lock(), limit, look)
    }

    /// Nobody waits for the thread any more.
    pub(crate) fn give_up(&mut self) {
        self.thread = None;
        self.shared.progress.fail(stuck("the I/O thread"));
    }

    /// A buffer that nothing is written from any more; waits, asleep, until there is one.
    fn take_buffer(&self) -> Vec<u8> {
        let mut state = self.shared.lock();
        loop {
            if let Some(buffer) = state.free.pop() {
                return buffer;
            }
            if state.made < self.limits.buffers || state.ended {
                state.made += 1;
                return Vec::new();
            }
            state = self.shared.change.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for StreamIoThread {
    /// Without `finish`. Not for ever: the thread may wait for a rank that waits for this one.
    fn drop(&mut self) {
        if !self.await_end(Some(PATIENCE)) {
            self.give_up();
        }
    }
}

impl IoThreadShared {
    fn lock(&self) -> MutexGuard<'_, IoThreadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues jobs, for which buffers have grown by so much.
    fn push(&self, jobs: impl IntoIterator<Item = IoThreadJob>, grown: u64) {
        let mut state = self.lock();
        state.memory += grown;
        state.jobs.extend(jobs);
        drop(state);
        self.change.notify_all();
    }

    fn set_waits(&self, waits: bool) {
        self.lock().activity.set_waits(waits);
        self.change.notify_all();
    }

    fn stop(&self) {
        self.lock().stopped = true;
        self.change.notify_all();
    }

    /// The next job; none when no more come.
    fn next(&self) -> Option<IoThreadJob> {
        let waiting = |state: &mut IoThreadState| state.jobs.is_empty() && !state.stopped;
        let state = self.change.wait_while(self.lock(), waiting);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.activity.advance();
        state.jobs.pop_front()
    }

    fn release(&self, buffer: Vec<u8>) {
        let mut state = self.lock();
        state.activity.advance();
        state.free.push(buffer);
        drop(state);
        self.change.notify_all();
    }

    /// The thread: does jobs until there are no more. After a failure the rest is let go, so that nobody waits for a buffer.
    fn work(&self, target: Box<dyn OutputTarget>) {
        aqueduct_comm::forbid_mpi_on_thread();
        let (mut target, mut parcels) = (Some(target), 0);
        while let Some(job) = self.next() {
            let begin = Instant::now();
            match job {
                IoThreadJob::Chunk(buffer, _) => self.release(buffer),
                IoThreadJob::Batch(parcel, chunks) => {
                    let (step, stores) = (parcel.step, !parcel.entries.is_empty());
                    self.attempt(&mut target, Some(step), |mut target| {
                        if stores {
                            self.agree_on_job()?;
                        }
                        self.write(&mut *target, &parcel, chunks)?;
                        if stores {
                            parcels += 1;
                            self.sync_in_turn(&mut *target, parcels)?;
                        }
                        Ok(Some(target))
                    });
                }
                IoThreadJob::Sync => self.attempt(&mut target, None, |mut target| {
                    self.agree_on_job()?;
                    self.sync(&mut *target)?;
                    Ok(Some(target))
                }),
                IoThreadJob::Finish(steps) => self.attempt(&mut target, None, |target| {
                    self.agree_on_job()?;
                    target.finish(steps)?;
                    self.progress.update(|progress| (progress.visible, progress.durable) = (steps, steps));
                    Ok(None)
                }),
            }
            self.lock().busy += begin.elapsed();
        }
        self.progress.close();
        self.abandon(target);
    }

    /// All ranks have come to the same job, or one has dropped the output instead. Collective.
    fn agree_on_job(&self) -> Result<()> {
        self.set_waits(true);
        let dropped = self.comm.allreduce_one(Op::Max, 0u64);
        self.set_waits(false);
        if dropped.map_err(|error| Error::from_comm("write", "the output", &error))? == 0 {
            return Ok(());
        }
        self.comm.mark_induced_failure(None);
        let detail = "another rank has dropped the output without `finish`; the steps before are in the file";
        Err(Error::new(Kind::Incomplete, "write", "the output", detail))
    }

    /// Lets go of an output that was not finished. Nobody waits for this rank's program any more; the other ranks learn of it at their next job.
    fn abandon(&self, target: Option<Box<dyn OutputTarget>>) {
        let others_wait = target.is_some();
        drop(target);
        self.lock().ended = true;
        self.change.notify_all();
        if others_wait {
            // If they have left, too, there is nobody to be told.
            let _ = self.comm.allreduce_one(Op::Max, 1u64);
        }
    }

    /// Does something with the target; one that fails is gone.
    fn attempt(
        &self,
        slot: &mut Option<Box<dyn OutputTarget>>,
        step: Option<u64>,
        work: impl FnOnce(Box<dyn OutputTarget>) -> Result<Option<Box<dyn OutputTarget>>>,
    ) {
        let Some(target) = slot.take() else { return };
        let work = || work(target);
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(kept)) => *slot = kept,
            Ok(Err(error)) => self.progress.fail(step.map_or(error.clone(), |step| error.in_step(step))),
            Err(_) => {
                let detail = "the I/O thread panicked; this is a defect, please report it";
                let error = Error::new(Kind::Unsupported, "write", "the output", detail);
                self.progress.fail(step.map_or(error.clone(), |step| error.in_step(step)));
            }
        }
    }

    fn write(
        &self,
        target: &mut dyn OutputTarget,
        parcel: &StepBatch,
        chunks: Result<u64, Error>,
    ) -> Result<()> {
        if !parcel.entries.is_empty() {
            let mut supply = QueuedChunks { shared: self, chunks, given: 0, current: None };
            let outcome = target.write(parcel, &mut supply);
            if let Some((buffer, _)) = supply.current.take() {
                self.release(buffer);
            }
            outcome?;
        }
        self.progress.update(|progress| progress.visible = parcel.step + 1);
        Ok(())
    }

    fn sync_in_turn(&self, target: &mut dyn OutputTarget, parcels: u64) -> Result<()> {
        let due = self.limits.durable_every.is_some_and(|every| parcels.is_multiple_of(every));
        if due { self.sync(target) } else { Ok(()) }
    }

    fn sync(&self, target: &mut dyn OutputTarget) -> Result<()> {
        target.sync()?;
        self.progress.update(|progress| progress.durable = progress.visible);
        Ok(())
    }
}

/// Chunks as they come out of the queue.
struct QueuedChunks<'a> {
    shared: &'a IoThreadShared,
    chunks: Result<u64, Error>,
    given: u64,
    /// The one that is being written: its buffer is free when the next is asked for.
    current: Option<(Vec<u8>, usize)>,
}

impl ChunkSource for QueuedChunks<'_> {
    fn chunks(&self) -> u64 {
        self.chunks.as_ref().map_or(1, |chunks| *chunks)
    }

    fn refusal(&self) -> Option<Error> {
        self.chunks.as_ref().err().cloned()
    }

    fn next(&mut self) -> Result<&[u8]> {
        if let Some((buffer, _)) = self.current.take() {
            self.shared.release(buffer);
        }
        if self.given == *self.chunks.as_ref().map_err(Clone::clone)? {
            return Ok(&[]);
        }
        self.given += 1;
        let missing = || {
            Error::new(Kind::BadArgument, "write", "the output", "its rank went away in the middle of a step")
        };
        match self.shared.next() {
            Some(IoThreadJob::Chunk(buffer, length)) if length > 0 => {
                let (buffer, length) = self.current.insert((buffer, length));
                Ok(&buffer[..*length])
            }
            _ => Err(missing()),
        }
    }

    fn current(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |(buffer, length)| &buffer[..*length])
    }
}

/// A buffer whose pages are there.
fn prefaulted_buffer(bytes: usize) -> Vec<u8> {
    let mut buffer = Vec::new();
    buffer.reserve_exact(bytes);
    buffer.resize(bytes, 0);
    buffer
}
