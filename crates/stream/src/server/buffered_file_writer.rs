//! A buffered file of one client, at its server: pieces that wait in memory, and the thread that writes them, in order.
//!
//! What a server does next is decided by the same [`Ledger`] as for streams, with one client: buffered files are written by each rank for itself. Pieces are
//! fetched out of the client's slots as soon as there is room for them, so that the slots are a way and the server's memory is the level.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use aqueduct_comm::Comm;
use aqueduct_file::File;
use aqueduct_file::layout::{Basic, Layout, LayoutError};
use aqueduct_file::write_behind::catch_panic;

use super::job_queue::{ClientItem, NextChunk, ServerJob, ServerJobQueue, ServerPhase};
use super::output_writer::{HeldChunk, PooledBytes, ServerMemoryGauge, await_job};
use super::protocol::{ServerUpdate, StridedRun, send_json, update_tag};
use super::shared_slots::SharedSlots;
use crate::error::{EncodedError, Error, Kind, Result};
use crate::target::StepBatch;

/// One client's way into a file.
pub(super) struct BufferedFileWriter {
    pub(super) name: Arc<str>,
    pub(super) number: u32,
    pub(super) client: usize,
    pub(super) link: Comm,
    /// The slots, if the client has a row of them.
    pub(super) shared_slots: Option<SharedSlots>,
    /// What of the server's memory pieces of this client may take.
    pub(super) allowance: u64,
    pub(super) pool: Arc<ServerMemoryGauge>,
    pub(super) state: Mutex<BufferedFileState>,
    pub(super) change: Condvar,
}

/// Bytes and where in the file they belong.
struct BufferedWrite {
    runs: Vec<StridedRun>,
    held: HeldChunk,
    /// The client has not been told that its slot or message is let go.
    unacknowledged: bool,
}

pub(super) struct BufferedFileState {
    jobs: ServerJobQueue<()>,
    /// The pieces that the ledger knows of, in the same order.
    pieces: VecDeque<BufferedWrite>,
    /// Whether the piece that is being written is owed to the client: none behind it may be let go before it.
    busy: bool,
    /// Bytes that were fetched, and are not written.
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

    /// The client hands a piece over.
    pub(super) fn arrive_piece(&self, runs: Vec<StridedRun>, held: HeldChunk) {
        let mut state = self.lock();
        if state.jobs.phase() == ServerPhase::Ended {
            return;
        }
        let parcel = StepBatch { step: state.arrived, closing: false, entries: Vec::new() };
        state.arrived += 1;
        state.jobs.arrive(0, ClientItem::Batch(parcel, Ok(0)));
        state.jobs.arrive(0, ClientItem::Chunk(()));
        state.pieces.push_back(BufferedWrite { runs, held, unacknowledged: true });
        self.fetch_and_tell(state, false);
        self.change.notify_all();
    }

    /// The client wants something else: a sync, the end.
    pub(super) fn arrive(&self, item: ClientItem<()>) {
        self.lock().jobs.arrive(0, item);
        self.change.notify_all();
    }

    /// Nothing more comes: what is here is written, then it ends.
    pub(super) fn terminate(&self) {
        self.lock().jobs.terminate();
        self.change.notify_all();
    }

    /// Fetches out of slots what there is memory for, oldest first, and tells the client if anything has changed.
    fn fetch_and_tell(&self, mut state: MutexGuard<'_, BufferedFileState>, mut changed: bool) {
        while let Some(private) = self.fetch(&mut state) {
            let oldest = state.pieces.iter_mut().find(|piece| piece.unacknowledged);
            if let Some(piece) = oldest {
                (piece.held, piece.unacknowledged) = (HeldChunk::Private(private), false);
            }
            state.update.released += 1;
            changed = true;
        }
        let news = state.update.clone();
        drop(state);
        if changed {
            // A client that is gone needs no news.
            let _ = send_json(&self.link, self.client + 1, update_tag(self.number), &news);
        }
    }

    /// The bytes of the oldest piece that lies in a slot, if there is room for them.
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

    /// Writes until the client has ended, or something fails.
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
        // Whoever is told of the end may delete the file.
        let closed = file.close();
        let failure = outcome.err().or(closed.err());
        let mut state = self.lock();
        state.jobs.end();
        state.pieces.clear();
        state.update.failure = failure.as_ref().map(EncodedError::new);
        state.update.finished = true;
        state.failure = failure;
        state.ended = true;
        self.fetch_and_tell(state, true);
    }

    /// Does a job; whether it was the last one.
    fn perform(&self, file: &File, job: &ServerJob) -> Result<bool> {
        match job {
            ServerJob::Batch(_) => self.write_next(file)?,
            ServerJob::Sync => {
                file.sync()?;
                let mut state = self.lock();
                state.update.durable = state.update.visible;
                state.jobs.set_phase(ServerPhase::Listening);
                self.fetch_and_tell(state, true);
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
        let nothing = || refuse("a rank told of bytes where none can be");
        let BufferedWrite { runs, held, unacknowledged: owed } = piece.ok_or_else(nothing)?;
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
        let pooled = matches!(held, HeldChunk::Private(_)) && !owed;
        drop(held);
        let mut state = self.lock();
        state.busy = false;
        state.pooled -= if pooled { bytes as u64 } else { 0 };
        state.bytes += bytes as u64;
        state.update.visible += 1;
        state.update.released += u64::from(owed);
        state.jobs.set_phase(ServerPhase::Listening);
        self.fetch_and_tell(state, true);
        Ok(())
    }
}

/// Writes bytes into their runs, in order.
fn write(file: &File, runs: &[StridedRun], bytes: &[u8]) -> Result<()> {
    let refuse = |detail: String| Error::new(Kind::Communication, "write", file.name(), detail);
    let unlaid = |error: LayoutError| refuse(error.to_string());
    let mut rest = bytes;
    for &(offset, len, stride, count) in runs {
        let size = len.checked_mul(count).and_then(|size| usize::try_from(size).ok());
        let (part, behind) = size
            .and_then(|size| rest.split_at_checked(size))
            .ok_or_else(|| refuse(format!("a rank told of {count} runs of {len} bytes and gave fewer")))?;
        rest = behind;
        let place = |run: u64| offset.wrapping_add((run as i64).wrapping_mul(stride)) as u64;
        let apart = u64::try_from(stride).is_ok_and(|stride| stride > len);
        if count > 1 && apart {
            let filetype = Layout::bytes(len).and_then(|run| run.resized(0, stride)).map_err(unlaid)?;
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
    fn runs_of_all_kinds_come_to_their_places_in_order() {
        Launch::threads(1)
            .run(|world| {
                let mode = Mode::read_write().create().delete_on_close();
                let file = OpenOptions::from(mode).open(world, "memfs:line-runs")?;
                // One, apart, side by side, backwards, and one over the others.
                let runs = [(20, 3, 0, 1), (0, 1, 4, 3), (12, 2, 2, 2), (32, 2, -4, 2), (21, 1, 0, 1)];
                write(&file, &runs, b"abcXYZ1234PPQQ*")?;
                let mut back = [b'.'; 34];
                file.at(0).read(&mut back)?;
                let back = String::from_utf8_lossy(&back).replace('\0', ".");
                assert_eq!(back, "X...Y...Z...1234....a*c.....QQ..PP");
                assert!(write(&file, &[(0, 5, 8, 2)], b"too few").is_err());
                assert!(write(&file, &[(-5, 1, 0, 1)], b"x").is_err(), "before the file");
                file.close()?;
                Ok::<_, Error>(())
            })
            .unwrap();
    }
}
