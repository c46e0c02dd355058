//! The state of a write buffer, which its lock protects.

use std::collections::VecDeque;
use std::sync::Arc;

use super::admission::{AdmissionControl, FillState};
use super::block_queue::{BlockStorage, BufferedBlock, WritePart};
use super::footprint::{ByteSpan, Footprint};
use super::pacing::{Pacing, SnapshotObserver};
use super::pending_slots::{PendingSlot, PendingSlots};
use super::pending_table::PendingWrites;
use crate::error::{Error, Result};
use crate::view::View;
use crate::write_behind::BudgetUser;
use crate::write_behind::SpillRing;

/// With more blocks than this, the published spans are not recomputed and may be too large.
const FEW: usize = 256;

pub(super) struct BufferState {
    pub(super) admission: AdmissionControl,
    /// The file's access to the memory budget.
    budget: Arc<BudgetUser>,
    pub(super) ring: SpillRing,
    pub(super) queue: VecDeque<BufferedBlock>,
    /// Blocks of the drain target, each with the number of pieces that were handed to it up to then.
    pub(super) remote: VecDeque<(u64, BufferedBlock)>,
    /// The block that the drain thread writes.
    pub(super) busy: Option<Arc<BufferedBlock>>,
    pub(super) observer: SnapshotObserver,
    pub(super) pacing: Option<Pacing>,
    /// What is published to the other ranks.
    pub(super) pending: PendingWrites,
    pub(super) slots: PendingSlots,
    /// Accesses so far.
    accesses: u64,
    /// Bytes accepted so far.
    pub(super) accepted: u64,
    pub(super) visible: u64,
    pub(super) durable: u64,
    /// The first failure, which is final.
    pub(super) failure: Option<Error>,
    /// True if a call has returned it.
    pub(super) is_failure_reported: bool,
    /// Threads that wait for data to be written.
    pub(super) flush_waiters: usize,
    /// Snapshots that have begun since a sync did; none before the first.
    pub(super) unsynced: Option<u32>,
    pub(super) stopped: bool,
}

impl BufferState {
    pub(super) fn new(
        admission: AdmissionControl,
        budget: Arc<BudgetUser>,
        ring: SpillRing,
        observer: SnapshotObserver,
    ) -> Self {
        let pending = PendingWrites {
            collective_seq: 0,
            accepted: 0,
            written: 0,
            older: ByteSpan::EMPTY,
            fresh: ByteSpan::EMPTY,
        };
        Self {
            admission,
            budget,
            ring,
            queue: VecDeque::new(),
            remote: VecDeque::new(),
            busy: None,
            observer,
            pacing: None,
            pending,
            slots: PendingSlots::default(),
            accesses: 0,
            accepted: 0,
            visible: 0,
            durable: 0,
            failure: None,
            is_failure_reported: false,
            flush_waiters: 0,
            unsynced: None,
            stopped: false,
        }
    }

    pub(super) fn check_not_failed(&mut self) -> Result<()> {
        self.is_failure_reported |= self.failure.is_some();
        self.failure.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    pub(super) fn next_access(&mut self) -> u64 {
        self.accesses += 1;
        self.accesses
    }

    /// A collective call begins: earlier pending writes are older.
    pub(super) fn begin(&mut self, collective_seq: u64) {
        self.pending.older = self.pending.older.with(self.pending.fresh);
        (self.pending.fresh, self.pending.collective_seq) = (ByteSpan::EMPTY, collective_seq);
    }

    /// The last block, if it can take a part that begins here.
    pub(super) fn open_block(
        &mut self,
        size: usize,
        view: &Arc<View>,
        from: u64,
    ) -> Option<&mut BufferedBlock> {
        let room = |block: &&mut BufferedBlock| {
            matches!(block.store, BlockStorage::Memory(_)) && block.filled < size && block.takes(view, from)
        };
        self.queue.back_mut().filter(room)
    }

    /// The bytes of the last block, to copy more to its end; until [`end_filling`](Self::end_filling) it is not written.
    pub(super) fn begin_filling(&mut self) -> Option<Vec<u8>> {
        let block = self.queue.back_mut()?;
        let BlockStorage::Memory(bytes) = &mut block.store else { return None };
        block.filling = true;
        Some(std::mem::take(bytes))
    }

    /// Puts them back; after a failure their block is gone.
    pub(super) fn end_filling(&mut self, bytes: Vec<u8>) {
        if let Some(block) = self.queue.back_mut().filter(|block| block.filling) {
            (block.store, block.filling) = (BlockStorage::Memory(bytes), false);
        }
    }

    /// True if there is a block that can be written.
    pub(super) fn is_ready(&self) -> bool {
        self.queue.front().is_some_and(|block| !block.filling)
    }

    /// Adds a part whose bytes were copied to the end of the last block; the slot that it changes for the other ranks.
    pub(super) fn enter(&mut self, part: WritePart<'_>) -> Option<(usize, PendingSlot)> {
        let footprint = Footprint::of(part.view, &part.window);
        let span = footprint.span;
        self.accepted += part.window.end - part.window.start;
        self.pending.accepted += 1;
        match part.collective_seq {
            Some(collective_seq) if collective_seq == self.pending.collective_seq => {
                self.pending.fresh = self.pending.fresh.with(span);
            }
            _ => self.pending.older = self.pending.older.with(span),
        }
        let changed = self.slots.enter(footprint, part.collective_seq, self.pending.accepted);
        let block = self.queue.back_mut().expect("a block was made for it");
        block.add(part, self.pending.accepted);
        changed
    }

    fn blocks(&self) -> impl Iterator<Item = &BufferedBlock> {
        self.remote.iter().map(|(_, block)| block).chain(self.busy.as_deref()).chain(&self.queue)
    }

    /// The number of the last part that may overlap these bytes; 0 if none does.
    pub(super) fn last_overlapping(&self, span: ByteSpan) -> u64 {
        self.blocks().filter(|block| block.overlaps(span)).map(|block| block.last).last().unwrap_or(0)
    }

    /// Bytes that are not in the file yet.
    pub(super) fn pending_bytes(&self) -> u64 {
        self.blocks().map(|block| block.filled as u64).sum()
    }

    /// Bytes of the drain target.
    pub(super) fn remote_bytes(&self) -> u64 {
        self.remote.iter().map(|(_, block)| block.filled as u64).sum()
    }

    /// The busy block is in the file.
    pub(super) fn written(&mut self, block: BufferedBlock) {
        match block.store {
            BlockStorage::Memory(bytes) => {
                let cost = self.admission.written();
                self.put_back(bytes, cost, None);
            }
            BlockStorage::Spilled(range) => {
                let len = range.end - range.start;
                self.ring.give(len);
                self.budget.release(self.admission.unspilled(len));
            }
            BlockStorage::Remote => self.budget.release(self.admission.remote_written()),
        }
        self.advance(block.last, block.filled as u64);
    }

    /// The bytes of the busy block were handed to the drain target; its entries stay.
    pub(super) fn hand_over(&mut self, mut block: BufferedBlock, pieces: u64) {
        match block.hand_over() {
            BlockStorage::Spilled(range) => {
                let len = range.end - range.start;
                self.ring.give(len);
                self.budget.release(self.admission.spill_handed_over(len));
            }
            BlockStorage::Memory(bytes) => {
                let (cost, list) = self.admission.handed_over();
                self.put_back(bytes, cost, Some(list));
            }
            BlockStorage::Remote => {}
        }
        self.remote.push_back((pieces, block));
    }

    fn put_back(&self, bytes: Vec<u8>, cost: u64, list: Option<u64>) {
        let keep = self.pacing.map_or(u64::MAX, |pacing| pacing.keep);
        self.budget.put_block(bytes, cost, list, self.admission.memory().held, keep);
    }

    /// So many pieces of the drain target are in the file.
    pub(super) fn complete_remote(&mut self, pieces: u64) {
        while self.remote.front().is_some_and(|(last, _)| *last <= pieces) {
            if let Some((_, block)) = self.remote.pop_front() {
                self.written(block);
            }
        }
    }

    /// Everything up to a part is in the file, so many bytes more than before.
    fn advance(&mut self, last: u64, bytes: u64) {
        self.pending.written = self.pending.written.max(last);
        self.slots.retire(last, last == self.pending.accepted);
        self.visible += bytes;
        if self.queue.len() + self.remote.len() <= FEW {
            let collective_seq = self.pending.collective_seq;
            let spans = |(older, fresh): (ByteSpan, ByteSpan), block: &BufferedBlock| {
                let (before, now) = block.spans(collective_seq);
                (older.with(before), fresh.with(now))
            };
            (self.pending.older, self.pending.fresh) =
                self.blocks().fold((ByteSpan::EMPTY, ByteSpan::EMPTY), spans);
        }
    }

    /// True if the drain target has nothing and gets nothing more.
    pub(super) fn is_done(&self) -> bool {
        self.stopped && self.queue.is_empty() && self.busy.is_none() && self.remote.is_empty()
    }

    /// A write has failed: nothing that was accepted after it is written.
    pub(super) fn fail(&mut self, error: Error) {
        self.failure = Some(error);
        self.admission.fail().into_iter().for_each(|allocation| self.budget.release(allocation));
        self.queue.clear();
        self.remote.clear();
        self.pending.written = self.pending.accepted;
        self.slots.retire(self.pending.accepted, true);
        (self.pending.older, self.pending.fresh) = (ByteSpan::EMPTY, ByteSpan::EMPTY);
    }

    /// True if a sync is likely to follow: a program that has synced its last snapshot syncs this one.
    pub(super) fn expects_sync(&self) -> bool {
        self.unsynced.is_some_and(|snapshots| snapshots <= 1)
    }

    /// True if the drain thread must not be paced.
    pub(super) fn is_pressed(&self) -> bool {
        let full =
            matches!(self.admission.phase(), FillState::Full | FillState::Overflowing | FillState::Failed);
        self.flush_waiters > 0 || self.stopped || full || self.budget.is_short()
    }
}
