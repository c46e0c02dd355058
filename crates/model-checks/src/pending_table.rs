//! The table of pending writes: an access waits for writes of other ranks that were accepted before it.

use std::sync::Arc as StdArc;

use loom::thread;

use crate::sync::{Arc, AtomicU64, Ordering, yield_now};
use crate::write_buffer::footprint::{ByteSpan, Footprint};
use crate::write_buffer::pending_slots::PendingSlots;
use crate::write_buffer::pending_table::{PendingTable, PendingWrites};
use crate::{Comm, check};

/// Words of the table of two ranks.
const WORDS: usize = 2 * 1024;
const HERE: ByteSpan = ByteSpan { start: 100, end: 200 };
const ELSEWHERE: ByteSpan = ByteSpan { start: 1000, end: 1100 };

/// The tables of rank 0 and rank 1.
fn tables() -> [PendingTable; 2] {
    let words = StdArc::new((0..WORDS).map(|_| AtomicU64::new(0)).collect());
    [0, 1]
        .map(|rank| PendingTable::new(&Comm { rank, words: StdArc::clone(&words) }).expect("there is memory"))
}

/// The writes that a rank has accepted and done, with its table.
struct Writer {
    table: PendingTable,
    pending: PendingWrites,
    slots: PendingSlots,
}

impl Writer {
    fn new(table: PendingTable) -> Self {
        let pending = PendingWrites {
            collective_seq: 0,
            accepted: 0,
            written: 0,
            older: ByteSpan::EMPTY,
            fresh: ByteSpan::EMPTY,
        };
        Self { table, pending, slots: PendingSlots::default() }
    }

    fn accept(&mut self, span: ByteSpan) {
        self.pending.older = self.pending.older.with(span);
        self.enter(span, None);
    }

    /// A collective access begins: what was accepted in the one before is older now.
    fn begin(&mut self, collective_seq: u64) {
        self.pending.older = self.pending.older.with(self.pending.fresh);
        (self.pending.fresh, self.pending.collective_seq) = (ByteSpan::EMPTY, collective_seq);
        self.table.publish(&self.pending, &self.slots);
    }

    /// Accepts a part of the collective access that has begun.
    fn accept_collective(&mut self, span: ByteSpan) {
        self.pending.fresh = self.pending.fresh.with(span);
        self.enter(span, Some(self.pending.collective_seq));
    }

    fn enter(&mut self, span: ByteSpan, collective_seq: Option<u64>) {
        self.pending.accepted += 1;
        if let Some((place, slot)) =
            self.slots.enter(Footprint::whole(span), collective_seq, self.pending.accepted)
        {
            self.table.publish_slot(place, &slot);
        }
        self.table.publish(&self.pending, &self.slots);
    }

    /// Everything up to a part is in the file; what is left lies here.
    fn advance(&mut self, written: u64, left: ByteSpan) {
        self.pending.written = written;
        self.pending.older = left;
        self.slots.retire(written, written == self.pending.accepted);
        self.table.publish(&self.pending, &self.slots);
    }
}

/// A write was accepted before the access begins: the access sees its bytes.
pub fn an_access_waits_for_writes_accepted_before() {
    check(2, || {
        let [table, other] = tables();
        let file = Arc::new(AtomicU64::new(0));
        let mut writer = Writer::new(table);
        writer.accept(HERE);
        let seen = Arc::clone(&file);
        let reader = thread::spawn(move || {
            other.wait_for_others(&Footprint::whole(HERE), None);
            assert_eq!(seen.load(Ordering::Relaxed), 1, "the access came before the write");
        });
        file.store(1, Ordering::Relaxed);
        writer.advance(1, ByteSpan::EMPTY);
        reader.join().unwrap();
    });
}

/// While the writer accepts and writes more, the access still waits for the first write, and for no later one.
pub fn an_access_is_not_confused_by_later_writes() {
    check(2, || {
        let [table, other] = tables();
        let file = Arc::new(AtomicU64::new(0));
        let mut writer = Writer::new(table);
        writer.accept(ELSEWHERE);
        writer.accept(HERE);
        let seen = Arc::clone(&file);
        let reader = thread::spawn(move || {
            other.wait_for_others(&Footprint::whole(HERE), None);
            assert!(seen.load(Ordering::Relaxed) >= 2, "the access came before the write");
        });
        file.store(1, Ordering::Relaxed);
        writer.advance(1, HERE);
        writer.accept(ELSEWHERE);
        file.store(2, Ordering::Relaxed);
        writer.advance(2, ELSEWHERE);
        reader.join().unwrap();
    });
}

/// The writer begins the next collective access, in which the other rank is already: that one still waits for the write of the access before.
pub fn an_access_of_the_next_collective_call_waits() {
    check(2, || {
        let [table, other] = tables();
        let file = Arc::new(AtomicU64::new(0));
        let mut writer = Writer::new(table);
        writer.begin(1);
        writer.accept_collective(HERE);
        let seen = Arc::clone(&file);
        let reader = thread::spawn(move || {
            other.wait_for_others(&Footprint::whole(HERE), Some(2));
            assert_eq!(seen.load(Ordering::Relaxed), 1, "the access came before the write");
        });
        writer.begin(2);
        file.store(1, Ordering::Relaxed);
        writer.advance(1, ByteSpan::EMPTY);
        reader.join().unwrap();
    });
}

/// The writer delays until a rank waits: the wait requests a flush, and ends.
pub fn a_wait_requests_a_flush() {
    check(2, || {
        let [table, other] = tables();
        let mut writer = Writer::new(table);
        writer.accept(HERE);
        let reader = thread::spawn(move || other.wait_for_others(&Footprint::whole(HERE), None));
        while !writer.table.is_flush_requested(writer.pending.written) {
            yield_now();
        }
        writer.advance(1, ByteSpan::EMPTY);
        reader.join().unwrap();
    });
}

/// A write fails while another rank waits for it: nothing is pending any more, and the wait ends.
pub fn a_wait_ends_when_the_write_fails() {
    check(2, || {
        let [table, other] = tables();
        let mut writer = Writer::new(table);
        writer.accept(ELSEWHERE);
        writer.accept(HERE);
        let reader = thread::spawn(move || other.wait_for_others(&Footprint::whole(HERE), None));
        writer.advance(2, ByteSpan::EMPTY);
        reader.join().unwrap();
    });
}
