//! Accepted data and where in the file it belongs: blocks of bytes with the list of their accesses, in order.

use std::ops::Range;
use std::sync::Arc;

use crate::transfer::span;
use crate::view::View;

/// From the first to the last byte of accesses; empty where there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hull {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Hull {
    pub(crate) const NOTHING: Self = Self { start: u64::MAX, end: 0 };
    pub(crate) const EVERYTHING: Self = Self { start: 0, end: u64::MAX };

    pub(crate) fn of(view: &View, window: &Range<u64>) -> Self {
        let Range { start, end } = span(view.pattern(), window);
        Self { start, end }
    }

    #[must_use]
    pub(crate) fn with(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    pub(crate) fn meets(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// One access, a part of one, or several that follow one another.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) view: Arc<View>,
    /// Which data bytes of the view.
    pub(crate) window: Range<u64>,
    /// Where the bytes lie in the block.
    pub(crate) at: usize,
    pub(crate) hull: Hull,
    /// The number of the first access in it.
    pub(crate) access: u64,
}

impl Entry {
    pub(crate) fn bytes(&self) -> Range<usize> {
        self.at..self.at + self.len()
    }

    fn len(&self) -> usize {
        (self.window.end - self.window.start) as usize
    }
}

/// Where the bytes of a block are.
#[derive(Debug)]
pub(crate) enum Store {
    Memory(Vec<u8>),
    /// In a part of the spill file.
    Spilled(Range<u64>),
    /// In the memory of a server.
    Away,
}

/// A collective access, by its number among those of the file; none for one that a rank makes alone.
pub(crate) type Turn = Option<u64>;

/// What is accepted: which access, through which view, which of its data bytes.
pub(crate) struct Part<'a> {
    pub(crate) view: &'a Arc<View>,
    pub(crate) window: Range<u64>,
    pub(crate) access: u64,
    pub(crate) turn: Turn,
}

/// A block of bytes and its accesses.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) store: Store,
    pub(crate) filled: usize,
    /// Its bytes are with the rank, which puts more behind them: nobody may write it yet.
    pub(crate) filling: bool,
    pub(crate) entries: Vec<Entry>,
    /// Of the accesses of the latest collective turn.
    fresh: (u64, Hull),
    /// Of all others.
    rest: Hull,
    /// The number of the last part in it.
    pub(crate) last: u64,
}

impl Batch {
    pub(crate) fn new(store: Store, entries: usize) -> Self {
        let entries = Vec::with_capacity(entries);
        Self {
            store,
            filled: 0,
            filling: false,
            entries,
            fresh: (0, Hull::NOTHING),
            rest: Hull::NOTHING,
            last: 0,
        }
    }

    /// Whether a part that lies behind all others in the block can be added: it continues the last one, or the list has room.
    pub(crate) fn takes(&self, view: &Arc<View>, from: u64) -> bool {
        self.continues(view, from) || self.entries.len() < self.entries.capacity()
    }

    fn continues(&self, view: &Arc<View>, from: u64) -> bool {
        let last = self.entries.last();
        last.is_some_and(|last| Arc::ptr_eq(&last.view, view) && last.window.end == from)
    }

    /// Adds a part whose bytes have been put behind all others.
    pub(crate) fn add(&mut self, part: Part<'_>, number: u64) {
        let hull = Hull::of(part.view, &part.window);
        let len = (part.window.end - part.window.start) as usize;
        match part.turn {
            Some(turn) if turn == self.fresh.0 => self.fresh.1 = self.fresh.1.with(hull),
            Some(turn) => {
                self.rest = self.rest.with(self.fresh.1);
                self.fresh = (turn, hull);
            }
            None => self.rest = self.rest.with(hull),
        }
        if self.continues(part.view, part.window.start) {
            let last = self.entries.last_mut().expect("it continues one");
            last.window.end = part.window.end;
            last.hull = last.hull.with(hull);
        } else {
            let (view, window, access) = (Arc::clone(part.view), part.window, part.access);
            self.entries.push(Entry { view, window, at: self.filled, hull, access });
        }
        self.filled += len;
        self.last = number;
    }

    /// What is left to know of it when its bytes are elsewhere: one entry for all.
    pub(crate) fn hand_over(&mut self) -> Store {
        let whole = self.hull();
        if let Some(first) = std::mem::take(&mut self.entries).into_iter().next() {
            self.entries = vec![Entry { hull: whole, ..first }];
        }
        std::mem::replace(&mut self.store, Store::Away)
    }

    /// The hulls of accesses before a collective turn, and of those in it.
    pub(crate) fn hulls(&self, turn: u64) -> (Hull, Hull) {
        let (fresh, hull) = self.fresh;
        if fresh == turn { (self.rest, hull) } else { (self.rest.with(hull), Hull::NOTHING) }
    }

    /// From the first to the last byte of its accesses.
    pub(crate) fn hull(&self) -> Hull {
        self.rest.with(self.fresh.1)
    }

    /// Whether any of its accesses may touch this part of the file.
    pub(crate) fn meets(&self, hull: Hull) -> bool {
        self.hull().meets(hull) && self.entries.iter().any(|entry| entry.hull.meets(hull))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(view: &Arc<View>, window: Range<u64>, turn: Turn) -> Part<'_> {
        Part { view, window, access: 7, turn }
    }

    #[test]
    fn accesses_that_follow_one_another_are_one() {
        let view = Arc::new(View::default());
        let other = Arc::new(View::default());
        let mut batch = Batch::new(Store::Memory(vec![0; 100]), 2);
        batch.add(part(&view, 10..20, None), 1);
        batch.add(part(&view, 20..25, None), 2);
        batch.add(part(&other, 25..30, None), 3);
        let found: Vec<_> = batch.entries.iter().map(|entry| (entry.window.clone(), entry.bytes())).collect();
        assert_eq!(found, [(10..25, 0..15), (25..30, 15..20)]);
        assert!(batch.takes(&other, 30) && !batch.takes(&view, 30), "the list is full");
        assert!(batch.meets(Hull { start: 29, end: 50 }) && !batch.meets(Hull { start: 30, end: 50 }));
    }

    #[test]
    fn what_belongs_to_the_collective_turn_is_told_apart() {
        let view = Arc::new(View::default());
        let mut batch = Batch::new(Store::Memory(vec![0; 100]), 8);
        batch.add(part(&view, 0..10, Some(1)), 1);
        batch.add(part(&view, 50..60, Some(2)), 2);
        batch.add(part(&view, 70..80, None), 3);
        let older = Hull { start: 0, end: 80 };
        assert_eq!(batch.hulls(2), (older, Hull { start: 50, end: 60 }));
        assert_eq!(batch.hulls(3), (older, Hull::NOTHING));
    }
}
