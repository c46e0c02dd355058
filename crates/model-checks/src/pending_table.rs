//! The table of pending writes: an access waits for writes of other ranks that were accepted before it.

use std::sync::Arc as StdArc;

use loom::thread;

use crate::buffer::batch::Hull;
use crate::buffer::notice::{Held, Notice};
use crate::buffer::reach::Reach;
use crate::buffer::slots::Slots;
use crate::sync::{Arc, AtomicU64, Ordering, yield_now};
use crate::{Comm, check};

/// Words of the table of two ranks.
const WORDS: usize = 2 * 1024;
const HERE: Hull = Hull { start: 100, end: 200 };
const ELSEWHERE: Hull = Hull { start: 1000, end: 1100 };

/// The tables of rank 0 and rank 1.
fn tables() -> [Notice; 2] {
    let words = StdArc::new((0..WORDS).map(|_| AtomicU64::new(0)).collect());
    [0, 1].map(|rank| Notice::new(&Comm { rank, words: StdArc::clone(&words) }).expect("there is memory"))
}

/// What a rank has accepted and written, with the table in which it says so.
struct Writer {
    table: Notice,
    held: Held,
    slots: Slots,
}

impl Writer {
    fn new(table: Notice) -> Self {
        let held = Held { turn: 0, accepted: 0, written: 0, older: Hull::NOTHING, fresh: Hull::NOTHING };
        Self { table, held, slots: Slots::default() }
    }

    fn accept(&mut self, hull: Hull) {
        self.held.older = self.held.older.with(hull);
        self.enter(hull, None);
    }

    /// A collective access begins: what was accepted in the one before is older now.
    fn begin(&mut self, turn: u64) {
        self.held.older = self.held.older.with(self.held.fresh);
        (self.held.fresh, self.held.turn) = (Hull::NOTHING, turn);
        self.table.tell(&self.held, &self.slots);
    }

    /// Accepts a part of the collective access that has begun.
    fn accept_collective(&mut self, hull: Hull) {
        self.held.fresh = self.held.fresh.with(hull);
        self.enter(hull, Some(self.held.turn));
    }

    fn enter(&mut self, hull: Hull, turn: Option<u64>) {
        self.held.accepted += 1;
        if let Some((place, slot)) = self.slots.enter(Reach::whole(hull), turn, self.held.accepted) {
            self.table.tell_slot(place, &slot);
        }
        self.table.tell(&self.held, &self.slots);
    }

    /// Everything up to a part is in the file; what is left lies here.
    fn advance(&mut self, written: u64, left: Hull) {
        self.held.written = written;
        self.held.older = left;
        self.slots.retire(written, written == self.held.accepted);
        self.table.tell(&self.held, &self.slots);
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
            other.wait_for_others(&Reach::whole(HERE), None);
            assert_eq!(seen.load(Ordering::Relaxed), 1, "the access came before the write");
        });
        file.store(1, Ordering::Relaxed);
        writer.advance(1, Hull::NOTHING);
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
            other.wait_for_others(&Reach::whole(HERE), None);
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
            other.wait_for_others(&Reach::whole(HERE), Some(2));
            assert_eq!(seen.load(Ordering::Relaxed), 1, "the access came before the write");
        });
        writer.begin(2);
        file.store(1, Ordering::Relaxed);
        writer.advance(1, Hull::NOTHING);
        reader.join().unwrap();
    });
}

/// The writer takes its time until somebody waits: the wait is noticed, and ends.
pub fn a_wait_hurries_the_writer() {
    check(2, || {
        let [table, other] = tables();
        let mut writer = Writer::new(table);
        writer.accept(HERE);
        let reader = thread::spawn(move || other.wait_for_others(&Reach::whole(HERE), None));
        while !writer.table.is_hurried(writer.held.written) {
            yield_now();
        }
        writer.advance(1, Hull::NOTHING);
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
        let reader = thread::spawn(move || other.wait_for_others(&Reach::whole(HERE), None));
        writer.advance(2, Hull::NOTHING);
        reader.join().unwrap();
    });
}
