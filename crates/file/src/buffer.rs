//! Active buffering: a write is copied and returns, a thread of the rank carries the copy to the file. `docs/buffering.md` has the promises.
//!
//! What is accepted waits in [`Batch`]es, in order. The [`Client`] decides where the next bytes go, the [`Tuner`] how fast they are written,
//! the [`Notice`] tells the other ranks of the machine what is held, and [`Drainer`] is the thread.

mod batch;
mod budget;
mod buffered_file;
mod client;
mod drain;
mod notice;
mod purse;
mod reach;
mod reservoir;
mod settings;
mod slots;
mod spill;
mod state;
mod tuner;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use aqueduct_comm::Comm;
use aqueduct_device::Handle;

use crate::counters::Tally;
use crate::error::{Error, Result};
use crate::flow::Outflow;
use crate::verbose;
use crate::view::View;
use batch::{Batch, Entry, Part, Store};
use batch::{Hull, Turn};
use budget::{Budget, Share};
pub use client::Level;
use client::{Client, Costs, Verdict};
pub(crate) use drain::Drainer;
use notice::Notice;
use purse::Claim;
pub(crate) use reach::Reach;
pub use reservoir::Reservoir;
pub use settings::{Buffered, Capacity};
use spill::{Ring, Spill};
use state::State;
use tuner::Tuner;

/// How far a rank's writes have come, and what holding them takes; see [`File::buffering`](crate::File::buffering).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffering {
    /// Bytes that the program has handed over.
    pub accepted: u64,
    /// Of these, bytes that are in the file.
    pub visible: u64,
    /// Of these, bytes that a sync has made durable.
    pub durable: u64,
    /// Memory: blocks and lists.
    pub memory: Level,
    /// The same of all buffered files of this rank together, with the blocks that are kept for the next writes.
    pub together: Level,
    /// The spill file.
    pub spill: Level,
    /// Bytes that have left this rank's memory for that of servers, and are not in the file yet.
    pub away: u64,
    /// How often a write had to wait for room.
    pub waits: u64,
}

impl fmt::Display for Buffering {
    /// A line for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, memory, together, spill, waits, .. } = self;
        write!(
            f,
            "the first rank's buffer took {accepted} bytes, at most {} of {} bytes",
            memory.peak, memory.cap
        )?;
        if spill.cap > 0 {
            write!(f, " and {} of {} spilled", spill.peak, spill.cap)?;
        }
        write!(
            f,
            "; {waits} times there was no room; all its files took at most {} of {} bytes together",
            together.peak, together.cap
        )
    }
}

/// What a rank has accepted of a file and not yet written.
pub(crate) struct Buffer {
    name: Arc<str>,
    /// Whether this rank is the one that tells people.
    first: bool,
    begun: Instant,
    /// Data bytes of a block, and entries of its list.
    block: usize,
    list: usize,
    notice: Notice,
    /// What the file has of the rank's memory.
    share: Arc<Share>,
    spill: Option<Spill>,
    /// What takes blocks on their way to the file, if there is such a thing.
    reservoir: Option<Arc<dyn Reservoir>>,
    /// One access is accepted at a time, so that its parts stay together.
    accepting: Mutex<()>,
    /// Collective writes so far.
    turns: AtomicU64,
    state: Mutex<State>,
    change: Condvar,
}

/// Blocks that a memory of this size is cut into: few enough to be written in large pieces, many enough to be refilled while others are written.
const BLOCKS: u64 = 64;

/// So many bytes are copied at a time while the thread has to wait; it shall not wait for more.
const AT_ONCE: u64 = 16 << 10;

/// The bytes of a block while a rank copies into it, which go back whatever happens.
struct Filling<'a> {
    buffer: &'a Buffer,
    bytes: Vec<u8>,
}

impl<'a> Filling<'a> {
    fn done(mut self) -> MutexGuard<'a, State> {
        let buffer = self.buffer;
        let mut state = buffer.lock();
        state.end_filling(std::mem::take(&mut self.bytes));
        state
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        // Only where copying has panicked they are still here.
        if !self.bytes.is_empty() {
            self.buffer.lock().end_filling(std::mem::take(&mut self.bytes));
            self.buffer.change.notify_all();
        }
    }
}

impl Buffer {
    /// Collective.
    pub(crate) fn new(
        name: &Arc<str>,
        comm: &Comm,
        settings: &Buffered,
        reservoir: Option<Arc<dyn Reservoir>>,
    ) -> aqueduct_comm::Result<Self> {
        let notice = Notice::new(comm)?;
        let memory = settings.memory.bytes(notice.neighbours());
        let block = (memory / BLOCKS).next_power_of_two().clamp(4 << 10, 4 << 20) as usize;
        let list = (block / 1024).max(4);
        let costs = Costs {
            block: (block + list * size_of::<Entry>() + size_of::<Batch>()) as u64,
            list: (size_of::<Entry>() + size_of::<Batch>()) as u64,
        };
        // A spill file that cannot be made is one that is not there.
        let spill = settings.spill.as_deref().and_then(|folder| Spill::new(folder).ok());
        let spilled = if spill.is_some() { settings.spill_size.unwrap_or(4 * memory) } else { 0 };
        let client = Client::new(memory, spilled, costs);
        let share = Arc::new(Budget::of(comm.who()).join(client.memory().cap, client.apart()));
        let state = State::new(client, Arc::clone(&share), Ring::new(spilled), Tuner::new(memory));
        Ok(Self {
            name: Arc::clone(name),
            first: comm.rank() == 0,
            begun: Instant::now(),
            block,
            list,
            notice,
            share,
            spill,
            reservoir,
            accepting: Mutex::new(()),
            turns: AtomicU64::new(0),
            state: Mutex::new(state),
            change: Condvar::new(),
        })
    }

    /// The next collective write: all ranks count alike, also those that bring nothing.
    pub(crate) fn turn(&self) -> u64 {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
        let mut state = self.lock();
        state.begin(turn);
        self.notice.tell(&state.held, &state.slots);
        turn
    }

    /// Copies an access; the caller's memory is free afterwards. Waits where nothing has room.
    pub(crate) fn accept(
        &self,
        tally: &Tally,
        view: &Arc<View>,
        first: u64,
        data: &Outflow<'_>,
        turn: Turn,
    ) -> Result<()> {
        let _one = self.accepting.lock().unwrap_or_else(PoisonError::into_inner);
        let window = first..first + data.len();
        if window.is_empty() {
            return self.sound();
        }
        self.notice.wait_for_others(&Reach::of(view, &window), turn);
        let start = self.begun.elapsed();
        let access = self.lock().next_access();
        let mut done = 0;
        while done < data.len() {
            let part = Part { view, window: first + done..window.end, access, turn };
            let accepted = self.accept_part(tally, part, data, done);
            done += accepted.inspect_err(|_| self.share.step_back())?;
        }
        self.observe(start, data.len());
        Ok(())
    }

    /// Copies as much of a part as goes into one block; how much that was.
    fn accept_part(&self, tally: &Tally, mut part: Part<'_>, data: &Outflow<'_>, from: u64) -> Result<u64> {
        let rest = part.window.end - part.window.start;
        let mut state = self.lock();
        loop {
            state.sound()?;
            if let Some(batch) = state.open_block(self.block, part.view, part.window.start) {
                let at = batch.filled;
                let len = rest.min((self.block - at) as u64);
                let room = at..at + len as usize;
                if let (Store::Memory(bytes), true) = (&mut batch.store, len <= AT_ONCE) {
                    data.copy(tally, from, &mut bytes[room]);
                } else if let Some(bytes) = state.begin_filling() {
                    drop(state);
                    let mut filling = Filling { buffer: self, bytes };
                    data.copy(tally, from, &mut filling.bytes[room]);
                    state = filling.done();
                    state.sound()?;
                }
                part.window.end = part.window.start + len;
                self.push(&mut state, part, None);
                return Ok(len);
            }
            let returns = self.share.returns();
            match self.admit(&mut state, rest) {
                (Verdict::Keep, bytes) => {
                    state.queue.push_back(Batch::new(Store::Memory(bytes), self.list));
                }
                (Verdict::Spill(len), _) => {
                    match self.spill_part(tally, state, &mut part, data, from, len)? {
                        Some(len) => return Ok(len),
                        None => state = self.lock(),
                    }
                }
                // The failure that it refuses for is told above.
                (Verdict::Refuse, _) => {}
                (Verdict::Wait, _) => {
                    drop(state);
                    // A thread that takes its time does so no longer.
                    self.change.notify_all();
                    self.share.wait(returns);
                    state = self.lock();
                }
            }
        }
    }

    /// Where the next bytes go; the block, if it is one.
    fn admit(&self, state: &mut State, wanted: u64) -> (Verdict, Vec<u8>) {
        let share = &self.share;
        let mut block = Vec::new();
        let verdict = state.client.admit(wanted, |claim| match claim {
            Claim::Block(cost) => {
                let taken = share.take_block(self.block, cost);
                taken.map(|bytes| block = bytes).is_some()
            }
            Claim::List(bytes) => share.take_list(bytes),
        });
        (verdict, block)
    }

    /// Copies a part into the spill file; how much of it, or none if the spill file does not take it.
    fn spill_part(
        &self,
        tally: &Tally,
        mut state: MutexGuard<'_, State>,
        part: &mut Part<'_>,
        data: &Outflow<'_>,
        from: u64,
        granted: u64,
    ) -> Result<Option<u64>> {
        let range = state.ring.take(granted);
        let len = range.end - range.start;
        state.client.spilled_less(granted - len);
        drop(state);
        // The thread goes on meanwhile; nobody else accepts.
        let spill = self.spill.as_ref().expect("bytes of a spill file were granted");
        let mut outcome = Ok(());
        data.each(tally, from..from + len, |piece, bytes| {
            if outcome.is_ok() {
                outcome = spill.write(range.start + (piece.start - from), bytes);
            }
            Ok(())
        })?;
        let mut state = self.lock();
        state.sound()?;
        if outcome.is_err() {
            state.ring.take_back(len);
            self.share.give(state.client.unspilled(len));
            state.client.spill_is_broken();
            return Ok(None);
        }
        let (view, access, turn) = (part.view, part.access, part.turn);
        let window = part.window.start..part.window.start + len;
        self.push(&mut state, Part { view, window, access, turn }, Some(Store::Spilled(range)));
        Ok(Some(len))
    }

    /// Enters a part whose bytes are in place: in a block of its own, or in the last one.
    fn push(&self, state: &mut State, part: Part<'_>, store: Option<Store>) {
        if let Some(store) = store {
            state.queue.push_back(Batch::new(store, 1));
        }
        if let Some((place, slot)) = state.enter(part) {
            self.notice.tell_slot(place, &slot);
        }
        self.notice.tell(&state.held, &state.slots);
        self.change.notify_all();
    }

    /// Lets the tuner see an access, and people what it makes of it.
    fn observe(&self, start: std::time::Duration, bytes: u64) {
        let mut state = self.lock();
        let begun = state.tuner.accepted(start, self.begun.elapsed(), bytes);
        if !begun {
            return;
        }
        state.unsynced = state.unsynced.map(|snapshots| snapshots + 1);
        let (before, tuning) = (state.tuning, state.tuner.tuning());
        state.tuning = tuning;
        drop(state);
        let Some(tuning) = tuning.filter(|_| self.first && verbose::is_on()) else { return };
        if before.is_none_or(|before| before.rate.is_some() != tuning.rate.is_some()) {
            eprintln!("aqueduct: {}: {tuning}", self.name);
        }
    }

    /// Waits until what a read or a look at the length depends on is in the file.
    pub(crate) fn settle(&self, reach: &Reach) -> Result<()> {
        self.notice.wait_for_others(reach, None);
        if let Some((rank, lost, kind)) = self.notice.lost_by_another(reach.hull) {
            let detail = format!(
                "bytes {} to {} hold data that rank {rank} wrote, which was accepted and could not be written; \
                 close the file, open it anew and write again what matters",
                lost.start, lost.end
            );
            return Err(Error::new(kind, "read", &self.name, detail));
        }
        let last = self.lock().last_that_meets(reach.hull);
        self.wait_until(last)
    }

    /// The same for a sync that follows: the medium begins with what is in the file already, and has little left when the rest is.
    pub(crate) fn flush_to_sync(&self, handle: &dyn Handle) -> Result<()> {
        let expected = self.lock().expects_sync();
        self.lock().unsynced = Some(0);
        if self.reservoir.is_none() && !expected {
            handle.hasten(0..i64::MAX as u64);
        }
        self.flush()
    }

    /// Waits until everything that this rank has accepted is in the file.
    pub(crate) fn flush(&self) -> Result<()> {
        let last = self.lock().held.accepted;
        self.wait_until(last)
    }

    fn wait_until(&self, part: u64) -> Result<()> {
        let mut state = self.lock();
        state.hurry += 1;
        self.change.notify_all();
        let waits = |state: &mut State| state.held.written < part && state.failure.is_none();
        let mut state = self.change.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        state.hurry -= 1;
        state.sound()
    }

    /// Fails if a write has failed in the background.
    fn sound(&self) -> Result<()> {
        self.lock().sound()
    }

    /// Makes durable what servers have written.
    pub(crate) fn sync_reservoir(&self) -> Result<()> {
        self.reservoir.as_ref().map_or(Ok(()), |reservoir| reservoir.sync())
    }

    /// What is in the file is durable now, as far as it was when a sync began.
    pub(crate) fn synced(&self, visible: u64) {
        let mut state = self.lock();
        state.durable = state.durable.max(visible);
    }

    pub(crate) fn report(&self) -> Buffering {
        let state = self.lock();
        Buffering {
            accepted: state.accepted,
            visible: state.visible,
            durable: state.durable,
            memory: state.client.memory(),
            together: self.share.level(),
            spill: state.client.spill(),
            away: state.away_bytes(),
            waits: state.client.waits(),
        }
    }

    /// The error of an access that could not be written, for all later calls.
    fn lost(&self, access: u64, hull: Hull, lost: u64, error: &Error) -> Error {
        let Hull { start, end } = hull;
        let detail = format!(
            "write number {access} of this rank, bytes {start} to {end} of the file, was accepted and could not be written: {}; of what was \
             accepted, {lost} bytes are not in the file; close it, open it anew and write again what matters",
            error.detail()
        );
        Error::new(error.kind(), "write", &self.name, detail)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
