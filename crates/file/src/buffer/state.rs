//! What a buffer holds at a moment; whoever changes it has the lock.

use std::collections::VecDeque;
use std::sync::Arc;

use super::batch::{Batch, Hull, Part, Store};
use super::budget::{Block, Share};
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
    /// What the file has of the rank's memory.
    share: Arc<Share>,
    pub(super) ring: Ring,
    pub(super) queue: VecDeque<Batch>,
    /// What servers have, and how many pieces had been handed to them with it.
    pub(super) away: VecDeque<(u64, Batch)>,
    /// What the thread is writing.
    pub(super) busy: Option<Arc<Batch>>,
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
    /// Whether a call has returned it.
    pub(super) is_failure_told: bool,
    /// How many wait for something to be written.
    pub(super) hurry: usize,
    /// Snapshots that have begun since a sync did; none before the first.
    pub(super) unsynced: Option<u32>,
    pub(super) stopped: bool,
}

impl State {
    pub(super) fn new(client: Client, share: Arc<Share>, ring: Ring, tuner: Tuner) -> Self {
        let held = Held { turn: 0, accepted: 0, written: 0, older: Hull::NOTHING, fresh: Hull::NOTHING };
        Self {
            client,
            share,
            ring,
            queue: VecDeque::new(),
            away: VecDeque::new(),
            busy: None,
            tuner,
            tuning: None,
            held,
            slots: Slots::default(),
            accesses: 0,
            accepted: 0,
            visible: 0,
            durable: 0,
            failure: None,
            is_failure_told: false,
            hurry: 0,
            unsynced: None,
            stopped: false,
        }
    }

    pub(super) fn sound(&mut self) -> Result<()> {
        self.is_failure_told |= self.failure.is_some();
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

    /// The bytes of the last block, for more to be put behind them; until [`end_filling`](Self::end_filling) nobody writes it.
    pub(super) fn begin_filling(&mut self) -> Option<Vec<u8>> {
        let batch = self.queue.back_mut()?;
        let Store::Memory(bytes) = &mut batch.store else { return None };
        batch.filling = true;
        Some(std::mem::take(bytes))
    }

    /// They are back; after a failure there is nothing left that they belong to.
    pub(super) fn end_filling(&mut self, bytes: Vec<u8>) {
        if let Some(batch) = self.queue.back_mut().filter(|batch| batch.filling) {
            (batch.store, batch.filling) = (Store::Memory(bytes), false);
        }
    }

    /// Whether there is a batch that can be written.
    pub(super) fn is_ready(&self) -> bool {
        self.queue.front().is_some_and(|batch| !batch.filling)
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
        self.away.iter().map(|(_, batch)| batch).chain(self.busy.as_deref()).chain(&self.queue)
    }

    /// The number of the last part that may touch these bytes; 0 if none does.
    pub(super) fn last_that_meets(&self, hull: Hull) -> u64 {
        self.batches().filter(|batch| batch.meets(hull)).map(|batch| batch.last).last().unwrap_or(0)
    }

    /// Bytes that are not in the file yet.
    pub(super) fn pending(&self) -> u64 {
        self.batches().map(|batch| batch.filled as u64).sum()
    }

    /// Bytes that servers have.
    pub(super) fn away_bytes(&self) -> u64 {
        self.away.iter().map(|(_, batch)| batch.filled as u64).sum()
    }

    /// The batch that was busy is in the file.
    pub(super) fn written(&mut self, batch: Batch) {
        match batch.store {
            Store::Memory(bytes) => {
                let cost = self.client.written();
                self.put_back(Block { bytes, cost }, None);
            }
            Store::Spilled(range) => {
                let len = range.end - range.start;
                self.ring.give(len);
                self.share.give(self.client.unspilled(len));
            }
            Store::Away => self.share.give(self.client.landed()),
        }
        self.advance(batch.last, batch.filled as u64);
    }

    /// The batch that was busy is with a server: the bytes are, what is known of them stays.
    pub(super) fn hand_over(&mut self, mut batch: Batch, pieces: u64) {
        match batch.hand_over() {
            Store::Spilled(range) => {
                let len = range.end - range.start;
                self.ring.give(len);
                self.share.give(self.client.spill_handed_over(len));
            }
            Store::Memory(bytes) => {
                let (cost, list) = self.client.handed_over();
                self.put_back(Block { bytes, cost }, Some(list));
            }
            Store::Away => {}
        }
        self.away.push_back((pieces, batch));
    }

    fn put_back(&self, block: Block, list: Option<u64>) {
        let keep = self.tuning.map_or(u64::MAX, |tuning| tuning.keep);
        self.share.put_back(block, list, self.client.memory().held, keep);
    }

    /// So many pieces of what servers have are in the file.
    pub(super) fn land(&mut self, pieces: u64) {
        while self.away.front().is_some_and(|(last, _)| *last <= pieces) {
            if let Some((_, batch)) = self.away.pop_front() {
                self.written(batch);
            }
        }
    }

    /// Everything up to a part is in the file, so many bytes more than before.
    fn advance(&mut self, last: u64, bytes: u64) {
        self.held.written = self.held.written.max(last);
        self.slots.retire(last, last == self.held.accepted);
        self.visible += bytes;
        if self.queue.len() + self.away.len() <= FEW {
            let turn = self.held.turn;
            let hulls = |(older, fresh): (Hull, Hull), batch: &Batch| {
                let (before, now) = batch.hulls(turn);
                (older.with(before), fresh.with(now))
            };
            (self.held.older, self.held.fresh) = self.batches().fold((Hull::NOTHING, Hull::NOTHING), hulls);
        }
    }

    /// Whether nothing more will be handed to servers, and they have nothing.
    pub(super) fn is_done(&self) -> bool {
        self.stopped && self.queue.is_empty() && self.busy.is_none() && self.away.is_empty()
    }

    /// A write has failed: nothing that was accepted after it is written.
    pub(super) fn fail(&mut self, error: Error) {
        self.failure = Some(error);
        self.client.fail().into_iter().for_each(|claim| self.share.give(claim));
        self.queue.clear();
        self.away.clear();
        self.held.written = self.held.accepted;
        self.slots.retire(self.held.accepted, true);
        (self.held.older, self.held.fresh) = (Hull::NOTHING, Hull::NOTHING);
    }

    /// Whether what is written will be made durable soon, as far as one can tell: a program that has synced its last snapshot syncs this one.
    pub(super) fn expects_sync(&self) -> bool {
        self.unsynced.is_some_and(|snapshots| snapshots <= 1)
    }

    /// Whether there is a reason not to take one's time.
    pub(super) fn is_pressed(&self) -> bool {
        let full = matches!(self.client.phase(), Phase::Full | Phase::Overflowing | Phase::Failed);
        self.hurry > 0 || self.stopped || full || self.share.is_short()
    }
}
