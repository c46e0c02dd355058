//! What a buffer holds at a moment; whoever changes it has the lock.

use std::collections::VecDeque;
use std::sync::Arc;

use super::batch::{Batch, Hull, Part, Store};
use super::client::{Client, Phase};
use super::notice::Held;
use super::reach::Reach;
use super::slots::{Slot, Slots};
use super::spill::Ring;
use super::tuner::{Tuner, Tuning};
use crate::error::{Error, Result};
use crate::view::View;

/// As long as there are no more batches than this, the others are told exactly what is held; else more than that.
const FEW: usize = 256;

pub(super) struct State {
    pub(super) client: Client,
    pub(super) ring: Ring,
    pub(super) queue: VecDeque<Batch>,
    /// What the thread is writing.
    pub(super) busy: Option<Arc<Batch>>,
    /// Blocks that are allocated and free.
    pub(super) spare: Vec<Vec<u8>>,
    pub(super) tuner: Tuner,
    pub(super) tuning: Option<Tuning>,
    /// What the other ranks are told.
    pub(super) held: Held,
    pub(super) slots: Slots,
    /// Accesses so far.
    accesses: u64,
    /// Bytes that have come so far.
    pub(super) accepted: u64,
    pub(super) visible: u64,
    pub(super) durable: u64,
    /// The first failure, which is final.
    pub(super) failure: Option<Error>,
    /// How many wait for something to be written, and how many for room.
    pub(super) hurry: usize,
    pub(super) waiting: usize,
    pub(super) stopped: bool,
}

impl State {
    pub(super) fn new(client: Client, ring: Ring, tuner: Tuner) -> Self {
        let held = Held { turn: 0, accepted: 0, written: 0, older: Hull::NOTHING, fresh: Hull::NOTHING };
        Self {
            client,
            ring,
            queue: VecDeque::new(),
            busy: None,
            spare: Vec::new(),
            tuner,
            tuning: None,
            held,
            slots: Slots::default(),
            accesses: 0,
            accepted: 0,
            visible: 0,
            durable: 0,
            failure: None,
            hurry: 0,
            waiting: 0,
            stopped: false,
        }
    }

    pub(super) fn sound(&self) -> Result<()> {
        self.failure.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    pub(super) fn next_access(&mut self) -> u64 {
        self.accesses += 1;
        self.accesses
    }

    /// A collective turn begins: what was held before it is older.
    pub(super) fn begin(&mut self, turn: u64) {
        self.held.older = self.held.older.with(self.held.fresh);
        (self.held.fresh, self.held.turn) = (Hull::NOTHING, turn);
    }

    /// The last block, if it can take a part that begins here.
    pub(super) fn open_block(&mut self, size: usize, view: &Arc<View>, from: u64) -> Option<&mut Batch> {
        let room = |batch: &&mut Batch| {
            matches!(batch.store, Store::Memory(_)) && batch.filled < size && batch.takes(view, from)
        };
        self.queue.back_mut().filter(room)
    }

    /// Enters a part whose bytes lie behind all others of the last batch; the slot that it changes for the other ranks.
    pub(super) fn enter(&mut self, part: Part<'_>) -> Option<(usize, Slot)> {
        let reach = Reach::of(part.view, &part.window);
        let hull = reach.hull;
        self.accepted += part.window.end - part.window.start;
        self.held.accepted += 1;
        match part.turn {
            Some(turn) if turn == self.held.turn => self.held.fresh = self.held.fresh.with(hull),
            _ => self.held.older = self.held.older.with(hull),
        }
        let changed = self.slots.enter(reach, part.turn, self.held.accepted);
        let batch = self.queue.back_mut().expect("a batch was made for it");
        batch.add(part, self.held.accepted);
        changed
    }

    fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.busy.as_deref().into_iter().chain(&self.queue)
    }

    /// The number of the last part that may touch these bytes; 0 if none does.
    pub(super) fn last_that_meets(&self, hull: Hull) -> u64 {
        self.batches().filter(|batch| batch.meets(hull)).map(|batch| batch.last).last().unwrap_or(0)
    }

    /// Bytes that are not in the file yet.
    pub(super) fn pending(&self) -> u64 {
        self.batches().map(|batch| batch.filled as u64).sum()
    }

    /// The batch that was busy is in the file.
    pub(super) fn written(&mut self, batch: Batch, block_cost: u64) {
        self.held.written = batch.last;
        self.slots.retire(batch.last, batch.last == self.held.accepted);
        self.visible += batch.filled as u64;
        match batch.store {
            Store::Memory(bytes) => {
                self.client.written();
                self.spare.push(bytes);
            }
            Store::Spilled(range) => {
                let len = range.end - range.start;
                self.ring.give(len);
                self.client.unspilled(len);
            }
        }
        let keep = self.tuning.map_or(u64::MAX, |tuning| tuning.keep);
        let kept = |state: &Self| state.client.memory().held + state.spare.len() as u64 * block_cost;
        while !self.spare.is_empty() && kept(self) > keep.max(block_cost) {
            self.spare.pop();
        }
        if self.queue.len() <= FEW {
            let turn = self.held.turn;
            let hulls = |(older, fresh): (Hull, Hull), batch: &Batch| {
                let (before, now) = batch.hulls(turn);
                (older.with(before), fresh.with(now))
            };
            (self.held.older, self.held.fresh) = self.batches().fold((Hull::NOTHING, Hull::NOTHING), hulls);
        }
    }

    /// A write has failed: nothing that was accepted after it is written.
    pub(super) fn fail(&mut self, error: Error) {
        self.failure = Some(error);
        self.client.fail();
        self.queue.clear();
        self.spare.clear();
        self.held.written = self.held.accepted;
        self.slots.retire(self.held.accepted, true);
        (self.held.older, self.held.fresh) = (Hull::NOTHING, Hull::NOTHING);
    }

    /// Whether there is a reason not to take one's time.
    pub(super) fn is_pressed(&self) -> bool {
        let full = matches!(self.client.phase(), Phase::Full | Phase::Overflowing | Phase::Failed);
        self.hurry > 0 || self.waiting > 0 || self.stopped || full
    }
}
