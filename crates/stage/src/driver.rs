//! Who writes: the program itself, its I/O thread, or a server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aqueduct_comm::Comm;

use crate::activity::{PATIENCE, stuck};
use crate::error::{Error, Kind, Result};
use crate::packing::Packing;
use crate::progress::Board;
use crate::server::Client;
use crate::target::{Parcel, Supply, Target};
use crate::worker::{Limits, Worker};

/// The way of parcels to their target. It can change between steps.
pub(crate) struct Driver {
    name: Arc<str>,
    comm: Comm,
    finished: bool,
    board: Arc<Board>,
    limits: Limits,
    pinned: Vec<usize>,
    /// None between changes, and after a failure.
    hand: Option<Hand>,
    /// What hands before this one have taken.
    memory_peak: u64,
    writing: Duration,
}

enum Hand {
    Own(Own),
    Thread(Worker),
    Served(Served),
}

/// A server writes.
struct Served {
    client: Arc<Client>,
    board: Arc<Board>,
    /// Nothing more is heard of the output.
    settled: bool,
}

/// The program itself writes.
struct Own {
    target: Box<dyn Target>,
    buffer: Vec<u8>,
    parcels: u64,
    writing: Duration,
    written: Written,
}

/// What was written since somebody began to measure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) parcels: u64,
    pub(crate) busy: Duration,
}

impl Written {
    pub(crate) fn add(&mut self, busy: Duration) {
        self.parcels += 1;
        self.busy += busy;
    }
}

impl Driver {
    pub(crate) fn blocking(
        (name, comm): (&Arc<str>, &Comm),
        target: Box<dyn Target>,
        board: &Arc<Board>,
        limits: Limits,
        pinned: &[usize],
    ) -> Self {
        let hand = Some(Hand::Own(Own::new(target, 0)));
        let (board, pinned, name, comm) =
            (Arc::clone(board), pinned.to_vec(), Arc::clone(name), comm.clone());
        Self {
            name,
            comm,
            board,
            limits,
            pinned,
            hand,
            finished: false,
            memory_peak: 0,
            writing: Duration::ZERO,
        }
    }

    /// Hands parcels to a server.
    pub(crate) fn served(
        (name, comm): (&Arc<str>, &Comm),
        client: Arc<Client>,
        board: &Arc<Board>,
        limits: Limits,
    ) -> Self {
        let hand = Some(Hand::Served(Served { client, board: Arc::clone(board), settled: false }));
        let (board, pinned, name, comm) = (Arc::clone(board), Vec::new(), Arc::clone(name), comm.clone());
        Self {
            name,
            comm,
            board,
            limits,
            pinned,
            hand,
            finished: false,
            memory_peak: 0,
            writing: Duration::ZERO,
        }
    }

    /// Goes over to a thread, or to none, when everything so far is written.
    pub(crate) fn change(&mut self, thread: bool) -> std::io::Result<()> {
        let hand = self.hand.take();
        let stays = matches!((&hand, thread), (Some(Hand::Own(_)), false) | (Some(Hand::Thread(_)), true));
        if stays {
            self.hand = hand;
            return Ok(());
        }
        self.count(hand.as_ref());
        self.hand = match hand {
            Some(Hand::Own(Own { target, parcels, .. })) => {
                let worker =
                    Worker::start(&self.comm, (target, parcels), &self.board, self.limits, &self.pinned)?;
                Some(Hand::Thread(worker))
            }
            Some(Hand::Thread(worker)) => {
                worker.into_target().map(|(target, parcels)| Hand::Own(Own::new(target, parcels)))
            }
            // A server stays one.
            other => other,
        };
        Ok(())
    }

    /// Shows what was written: now, or behind what was handed over so far. Never, after a failure.
    pub(crate) fn measure(&mut self, look: impl FnOnce(&mut Written) + Send + 'static) {
        match &mut self.hand {
            Some(Hand::Own(own)) => look(&mut own.written),
            Some(Hand::Thread(worker)) => worker.measure(Box::new(look)),
            Some(Hand::Served(_)) | None => {}
        }
    }

    /// Writes a parcel, or hands it over; or takes part with this rank's error.
    pub(crate) fn write(&mut self, parcel: Parcel, packing: Result<&mut Packing<'_>, Error>) -> Result<()> {
        match &mut self.hand {
            Some(Hand::Thread(worker)) => worker.write(parcel, packing),
            Some(Hand::Served(served)) => {
                let (step, outcome) = (parcel.step, served.client.write(parcel, packing));
                self.settle(outcome.map_err(|error| error.in_step(step)))
            }
            Some(Hand::Own(own)) => {
                let outcome = own.write(&parcel, packing, &self.board, self.limits);
                self.settle(outcome.map_err(|error| error.in_step(parcel.step)))
            }
            None => self.board.check(),
        }
    }

    /// Makes everything so far durable: now, or when its turn comes.
    pub(crate) fn sync(&mut self) {
        match &mut self.hand {
            Some(Hand::Thread(worker)) => worker.sync(),
            Some(Hand::Served(served)) => {
                let outcome = served.client.sync();
                // Told by the board.
                let _ = self.settle(outcome);
            }
            Some(Hand::Own(own)) => {
                let outcome = own.sync(&self.board);
                // Told by the board.
                let _ = self.settle(outcome);
            }
            None => {}
        }
    }

    /// Ends the file; what buffers have taken at most, and how long was written. Failures are on the board.
    pub(crate) fn finish(mut self, steps: u64) -> (u64, Duration) {
        // What fails is returned by `Output::finish`.
        self.finished = true;
        let hand = self.hand.take();
        if matches!(hand, Some(Hand::Own(_))) {
            self.count(hand.as_ref());
        }
        match hand {
            Some(Hand::Served(served)) => {
                match served.client.finish(steps) {
                    Ok(()) => {
                        self.board.note(|progress| (progress.visible, progress.durable) = (steps, steps));
                    }
                    Err(error) => self.board.fail(error),
                }
                self.count(Some(&Hand::Served(served)));
            }
            Some(Hand::Thread(worker)) => {
                let (memory, writing) = worker.finish(steps);
                self.memory_peak = self.memory_peak.max(memory);
                self.writing += writing;
            }
            Some(Hand::Own(own)) => match own.target.finish(steps) {
                Ok(()) => self.board.note(|progress| (progress.visible, progress.durable) = (steps, steps)),
                Err(error) => self.board.fail(error),
            },
            None => {}
        }
        (self.memory_peak, self.writing)
    }

    /// After a failure nothing more is asked of the target.
    fn settle(&mut self, outcome: Result<()>) -> Result<()> {
        outcome.inspect_err(|error| {
            self.board.fail(error.clone());
            self.hand = None;
        })
    }

    fn count(&mut self, hand: Option<&Hand>) {
        let (memory, writing) = match hand {
            Some(Hand::Own(own)) => (own.buffer.capacity() as u64, own.writing),
            Some(Hand::Thread(worker)) => worker.usage(),
            Some(Hand::Served(served)) => served.client.usage(),
            None => return,
        };
        self.memory_peak = self.memory_peak.max(memory);
        self.writing += writing;
    }
}

impl Hand {
    /// Waits until everything that was accepted is written; not so if other ranks keep the writer waiting for longer than `limit`.
    fn await_end(&mut self, limit: Option<Duration>) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Thread(worker) => worker.await_end(limit),
            Self::Served(served) => served.await_end(limit),
        }
    }

    /// What is not written now is lost.
    fn give_up(&mut self) {
        match self {
            Self::Own(_) => {}
            Self::Thread(worker) => worker.give_up(),
            Self::Served(served) => served.give_up(),
        }
    }
}

impl Served {
    /// Waits until the server has written every step that all its clients have handed over.
    fn await_end(&mut self, limit: Option<Duration>) -> bool {
        if self.settled {
            return true;
        }
        let Some((visible, failure)) = self.client.let_go(limit) else { return false };
        self.board.note(|progress| progress.visible = progress.visible.max(visible));
        failure.into_iter().for_each(|error| self.board.fail(error));
        self.settle();
        true
    }

    fn give_up(&mut self) {
        self.board.fail(stuck("the server"));
        self.settle();
    }

    fn settle(&mut self) {
        self.settled = true;
        self.board.close();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !self.await_end(Some(PATIENCE)) {
            self.give_up();
        }
    }
}

/// What is told of an output that was dropped without `finish`.
struct Ending {
    name: Arc<str>,
    comm: Comm,
    board: Arc<Board>,
}

impl Ending {
    /// Tells what failed where people and `run` see it.
    fn report(&self) {
        if let Some(reason) = self.board.take_unreported() {
            let message = format!("output {:?}, dropped without `finish`: {reason}", self.name);
            eprintln!("aqueduct: {message}");
            self.comm.report_failure(message);
        }
    }
}

impl Drop for Driver {
    /// Without `finish`: what was accepted is written first, and what failed is told. Where other ranks are slow, the rest of the wait is left to the end of
    /// `run`, which knows whether this rank has failed: then others may wait for it, and nothing more can be written.
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let (name, comm, board) = (Arc::clone(&self.name), self.comm.clone(), Arc::clone(&self.board));
        let ending = Ending { name, comm, board };
        let Some(mut hand) = self.hand.take() else { return ending.report() };
        if hand.await_end(Some(PATIENCE)) {
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

impl Own {
    fn new(target: Box<dyn Target>, parcels: u64) -> Self {
        let (writing, written) = (Duration::ZERO, Written::default());
        Self { target, buffer: Vec::new(), parcels, writing, written }
    }

    fn write(
        &mut self,
        parcel: &Parcel,
        packing: Result<&mut Packing<'_>, Error>,
        board: &Board,
        limits: Limits,
    ) -> Result<()> {
        let begin = Instant::now();
        if !parcel.entries.is_empty() {
            let mut supply = Packed { packing, buffer: &mut self.buffer, length: 0 };
            self.target.write(parcel, &mut supply)?;
            self.parcels += 1;
            self.written.add(begin.elapsed());
        }
        board.note(|progress| progress.visible = parcel.step + 1);
        if !parcel.entries.is_empty()
            && limits.durable_every.is_some_and(|every| self.parcels.is_multiple_of(every))
        {
            self.sync(board)?;
        }
        self.writing += begin.elapsed();
        Ok(())
    }

    fn sync(&mut self, board: &Board) -> Result<()> {
        self.target.sync()?;
        board.note(|progress| progress.durable = progress.visible);
        Ok(())
    }
}

/// Chunks packed as they are asked for.
struct Packed<'a, 'p, 'd> {
    packing: Result<&'p mut Packing<'d>, Error>,
    buffer: &'a mut Vec<u8>,
    /// Of the last chunk.
    length: usize,
}

impl Supply for Packed<'_, '_, '_> {
    fn chunks(&self) -> u64 {
        self.packing.as_ref().map_or(1, |packing| packing.chunks())
    }

    fn refusal(&self) -> Option<Error> {
        self.packing.as_ref().err().cloned()
    }

    fn next(&mut self) -> Result<&[u8]> {
        let packing = self.packing.as_mut().map_err(|error| error.clone())?;
        let unlaid = |error: crate::packing::Unpacked| {
            Error::new(Kind::BadArgument, "commit", "the output", error.to_string())
        };
        self.length = packing.fill(self.buffer).map_err(unlaid)?;
        Ok(self.current())
    }

    fn current(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

#[cfg(test)]
mod tests;
