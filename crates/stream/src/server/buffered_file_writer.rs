//! A buffered file of one client, at its server: pieces that wait in memory, and the thread that writes them in order.
//!
//! The jobs are those of a [`ServerJobQueue`] with one client, because each rank writes a buffered file independently. Pieces are
//! copied from the client's slots into the pool as soon as it has room: the slots are a channel, the pool is the buffer.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use aqueduct_comm::Comm;
use aqueduct_file::File;
use aqueduct_file::layout::{Basic, Layout, LayoutError, Strip};
use aqueduct_file::write_behind::catch_panic;

use super::job_queue::{ClientItem, NextChunk, ServerJob, ServerJobQueue, ServerPhase};
use super::output_writer::{HeldChunk, PooledBytes, ServerMemoryGauge, await_job};
use super::protocol::{ServerUpdate, send_message, update_tag};
use super::shared_slots::SharedSlots;
use crate::error::{Error, Kind, Result};
use crate::target::StepBatch;

/// A buffered file of one client.
pub(super) struct BufferedFileWriter {
    pub(super) name: Arc<str>,
    pub(super) number: u32,
    pub(super) client: usize,
    pub(super) link: Comm,
    /// The slots, if the client has a row of them.
    pub(super) shared_slots: Option<SharedSlots>,
    /// The memory of the pool that pieces of this client may take, in bytes.
    pub(super) allowance: u64,
    pub(super) pool: Arc<ServerMemoryGauge>,
    pub(super) state: Mutex<BufferedFileState>,
    pub(super) change: Condvar,
}

/// A piece: bytes and their places in the file.
struct BufferedWrite {
    runs: Vec<Strip>,
    held: HeldChunk,
    /// The client does not know yet that its slot or message is free.
    unacknowledged: bool,
}

pub(super) struct BufferedFileState {
    jobs: ServerJobQueue<()>,
    /// The pieces of the batches in the job queue, in the same order.
    pieces: VecDeque<BufferedWrite>,
    /// The piece that is being written is unacknowledged: no later one is acknowledged before it.
    busy: bool,
    /// Bytes that were copied from slots and are not written.
    pooled: u64,
    arrived: u64,
    update: ServerUpdate,
    pub(super) failure: Option<Error>,
    pub(super) bytes: u64,
    pub(super) ended: bool,
}

impl BufferedFileState {
    pub(super) fn new() -> Self {
        Self {
            jobs: ServerJobQueue::new(1),
            pieces: VecDeque::new(),
            busy: false,
            pooled: 0,
            arrived: 0,
            update: ServerUpdate::default(),
            failure: None,
            bytes: 0,
            ended: false,
        }
    }
}

impl BufferedFileWriter {
    pub(super) fn lock(&self) -> MutexGuard<'_, BufferedFileState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a piece of the client.
    pub(super) fn arrive_piece(&self, runs: Vec<Strip>, held: HeldChunk) {
        let mut state = self.lock();
        if state.jobs.phase() == ServerPhase::Ended {
            return;
        }
        let batch = StepBatch { step: state.arrived, closing: false, entries: Vec::new() };
        state.arrived += 1;
        state.jobs.arrive(0, ClientItem::Batch(batch, Ok(0)));
        state.jobs.arrive(0, ClientItem::Chunk(()));
        state.pieces.push_back(BufferedWrite { runs, held, unacknowledged: true });
        self.fetch_and_notify(state, false);
        self.change.notify_all();
    }

    /// Adds another request of the client: a sync, the end.
    pub(super) fn arrive(&self, item: ClientItem<()>) {
        self.lock().jobs.arrive(0, item);
        self.change.notify_all();
    }

    /// Writes the pieces that have arrived, then ends.
    pub(super) fn terminate(&self) {
        self.lock().jobs.terminate();
        self.change.notify_all();
    }

    /// Copies pieces from slots as far as the pool has room, oldest first, and sends an update if anything has changed.
    fn fetch_and_notify(&self, mut state: MutexGuard<'_, BufferedFileState>, mut changed: bool) {
        while let Some(private) = self.fetch(&mut state) {
            let oldest = state.pieces.iter_mut().find(|piece| piece.unacknowledged);
            if let Some(piece) = oldest {
                (piece.held, piece.unacknowledged) = (HeldChunk::Private(private), false);
            }
            state.update.released += 1;
            changed = true;
        }
        let update = state.update.clone();
        drop(state);
        if changed {
            // It fails only if the client is gone.
            let _ = send_message(&self.link, self.client + 1, update_tag(self.number), &update);
        }
    }

    /// The bytes of the oldest piece that is in a slot, if the pool has room for them.
    fn fetch(&self, state: &mut BufferedFileState) -> Option<PooledBytes> {
        let oldest = state.pieces.iter().find(|piece| piece.unacknowledged).filter(|_| !state.busy)?;
        let HeldChunk::Slot(row, slot, bytes) = oldest.held else { return None };
        if state.pooled + bytes as u64 > self.allowance {
            return None;
        }
        let copy = self.shared_slots.as_ref()?.show(row, slot, bytes, <[u8]>::to_vec)?;
        state.pooled += bytes as u64;
        Some(PooledBytes::new(copy, &self.pool))
    }

    fn next(&self) -> Option<ServerJob> {
        await_job(&self.change, self.lock(), |state| &mut state.jobs)
    }

    /// Writes until the client has ended the file, or a write fails.
    pub(super) fn run(&self, file: File) {
        let work = || {
            while let Some(job) = self.next() {
                if self.perform(&file, &job)? {
                    break;
                }
            }
            Ok(())
        };
        let panicked = |detail| Err(Error::new(Kind::Unsupported, "write", &self.name, detail));
        let outcome = catch_panic(work).unwrap_or_else(panicked);
        // The client may delete the file when it learns of the end.
        let closed = file.close();
        let failure = outcome.err().or(closed.err());
        let mut state = self.lock();
        state.jobs.end();
        state.pieces.clear();
        state.update.failure.clone_from(&failure);
        state.update.finished = true;
        state.failure = failure;
        state.ended = true;
        self.fetch_and_notify(state, true);
    }

    /// Executes a job; true if it was the last one.
    fn perform(&self, file: &File, job: &ServerJob) -> Result<bool> {
        match job {
            ServerJob::Batch(_) => self.write_next(file)?,
            ServerJob::Sync => {
                file.sync()?;
                let mut state = self.lock();
                state.update.durable = state.update.visible;
                state.jobs.set_phase(ServerPhase::Listening);
                self.fetch_and_notify(state, true);
            }
            ServerJob::Finish(_) | ServerJob::Gone => return Ok(true),
        }
        Ok(false)
    }

    fn write_next(&self, file: &File) -> Result<()> {
        let piece = {
            let mut state = self.lock();
            let announced = matches!(state.jobs.chunk(0), NextChunk::Chunk(()));
            let piece = state.pieces.pop_front().filter(|_| announced);
            state.jobs.set_phase(ServerPhase::Writing);
            state.busy = piece.as_ref().is_some_and(|piece| piece.unacknowledged);
            piece
        };
        let refuse = |detail: &str| Error::new(Kind::Communication, "write", &self.name, detail);
        let nothing = || refuse("a client announced bytes that are in no slot and no message");
        let BufferedWrite { runs, held, unacknowledged } = piece.ok_or_else(nothing)?;
        let bytes = match &held {
            HeldChunk::Private(private) => {
                write(file, &runs, private.bytes())?;
                private.bytes().len()
            }
            HeldChunk::Slot(row, slot, bytes) => {
                let symmetric = self.shared_slots.as_ref().ok_or_else(nothing)?;
                symmetric
                    .show(*row, *slot, *bytes, |shown| write(file, &runs, shown))
                    .ok_or_else(nothing)??;
                *bytes
            }
            HeldChunk::Nothing => return Err(nothing()),
        };
        let pooled = matches!(held, HeldChunk::Private(_)) && !unacknowledged;
        drop(held);
        let mut state = self.lock();
        state.busy = false;
        state.pooled -= if pooled { bytes as u64 } else { 0 };
        state.bytes += bytes as u64;
        state.update.visible += 1;
        state.update.released += u64::from(unacknowledged);
        state.jobs.set_phase(ServerPhase::Listening);
        self.fetch_and_notify(state, true);
        Ok(())
    }
}

/// Writes bytes into their runs, in order.
fn write(file: &File, runs: &[Strip], bytes: &[u8]) -> Result<()> {
    let refuse = |detail: String| Error::new(Kind::Communication, "write", file.name(), detail);
    let refused = |error: LayoutError| refuse(error.to_string());
    let mut rest = bytes;
    for &Strip { offset, len, stride, count } in runs {
        let size = len.checked_mul(count).and_then(|size| usize::try_from(size).ok());
        let (part, behind) = size
            .and_then(|size| rest.split_at_checked(size))
            .ok_or_else(|| refuse(format!("a client sent fewer bytes than {count} runs of {len} bytes")))?;
        rest = behind;
        let place = |run: u64| offset.wrapping_add((run as i64).wrapping_mul(stride)) as u64;
        let apart = u64::try_from(stride).is_ok_and(|stride| stride > len);
        if count > 1 && apart {
            let filetype = Layout::bytes(len).and_then(|run| run.resized(0, stride)).map_err(refused)?;
            let view = aqueduct_file::View::new(place(0), &Layout::from(Basic::Byte), &filetype)?;
            file.with_view(&view).write(part)?;
        } else {
            // One run, or runs that touch, overlap or go backwards: one after the other.
            for (run, bytes) in part.chunks(len.max(1) as usize).enumerate() {
                file.at(place(run as u64)).write(bytes)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqueduct_comm::Launch;
    use aqueduct_file::{Mode, OpenOptions};

    #[test]
    fn runs_are_written_to_their_places_in_order() {
        Launch::threads(1)
            .run(|world| {
                let mode = Mode::read_write().create().delete_on_close();
                let file = OpenOptions::from(mode).open(world, "memfs:strided-runs")?;
                // One, apart, side by side, backwards, and one over the others.
                let run = |(offset, len, stride, count)| Strip { offset, len, stride, count };
                let runs = [(20, 3, 0, 1), (0, 1, 4, 3), (12, 2, 2, 2), (32, 2, -4, 2), (21, 1, 0, 1)];
                let runs = runs.map(run);
                write(&file, &runs, b"abcXYZ1234PPQQ*")?;
                let mut back = [b'.'; 34];
                file.at(0).read(&mut back)?;
                let back = String::from_utf8_lossy(&back).replace('\0', ".");
                assert_eq!(back, "X...Y...Z...1234....a*c.....QQ..PP");
                assert!(write(&file, &[run((0, 5, 8, 2))], b"too few").is_err());
                assert!(write(&file, &[run((-5, 1, 0, 1))], b"x").is_err(), "before the file");
                file.close()?;
                Ok::<_, Error>(())
            })
            .unwrap();
    }
}
