//! Accepted data and its positions in the file: blocks of bytes with the list of their accesses, in order.

use std::ops::Range;
use std::sync::Arc;

use super::footprint::ByteSpan;
use super::pending_slots::CollectiveSeq;
use crate::view::View;

/// One access, a part of one, or several that follow one another.
#[derive(Debug)]
pub(crate) struct BlockEntry {
    pub(crate) view: Arc<View>,
    /// Which data bytes of the view.
    pub(crate) window: Range<u64>,
    /// Where the bytes lie in the block.
    pub(crate) at: usize,
    pub(crate) span: ByteSpan,
    /// The number of the first access in it.
    pub(crate) access: u64,
}

impl BlockEntry {
    pub(crate) fn bytes(&self) -> Range<usize> {
        self.at..self.at + self.len()
    }

    fn len(&self) -> usize {
        (self.window.end - self.window.start) as usize
    }
}

/// Where the bytes of a block are.
#[derive(Debug)]
pub(crate) enum BlockStorage {
    Memory(Vec<u8>),
    /// In a part of the spill file.
    Spilled(Range<u64>),
    /// In the drain target.
    Remote,
}

/// A part of a write: the number of the access, its view, its data bytes.
pub(crate) struct WritePart<'a> {
    pub(crate) view: &'a Arc<View>,
    pub(crate) window: Range<u64>,
    pub(crate) access: u64,
    pub(crate) collective_seq: CollectiveSeq,
}

/// A block of bytes and its accesses.
#[derive(Debug)]
pub(crate) struct BufferedBlock {
    pub(crate) store: BlockStorage,
    pub(crate) filled: usize,
    /// The rank is copying into it: the drain thread may not write it yet.
    pub(crate) filling: bool,
    pub(crate) entries: Vec<BlockEntry>,
    /// The span of the accesses of the latest collective call.
    fresh: (u64, ByteSpan),
    /// The span of all others.
    rest: ByteSpan,
    /// The number of the last part in it.
    pub(crate) last: u64,
}

impl BufferedBlock {
    pub(crate) fn new(store: BlockStorage, entries: usize) -> Self {
        let entries = Vec::with_capacity(entries);
        Self {
            store,
            filled: 0,
            filling: false,
            entries,
            fresh: (0, ByteSpan::EMPTY),
            rest: ByteSpan::EMPTY,
            last: 0,
        }
    }

    /// True if a part can be added at the end: it continues the last one, or the list has room.
    pub(crate) fn takes(&self, view: &Arc<View>, from: u64) -> bool {
        self.continues(view, from) || self.entries.len() < self.entries.capacity()
    }

    fn continues(&self, view: &Arc<View>, from: u64) -> bool {
        let last = self.entries.last();
        last.is_some_and(|last| Arc::ptr_eq(&last.view, view) && last.window.end == from)
    }

    /// Adds a part whose bytes were copied to the end of the block.
    pub(crate) fn add(&mut self, part: WritePart<'_>, number: u64) {
        let span = ByteSpan::of(part.view, &part.window);
        let len = (part.window.end - part.window.start) as usize;
        match part.collective_seq {
            Some(collective_seq) if collective_seq == self.fresh.0 => self.fresh.1 = self.fresh.1.with(span),
            Some(collective_seq) => {
                self.rest = self.rest.with(self.fresh.1);
                self.fresh = (collective_seq, span);
            }
            None => self.rest = self.rest.with(span),
        }
        if self.continues(part.view, part.window.start) {
            let last = self.entries.last_mut().expect("it continues one");
            last.window.end = part.window.end;
            last.span = last.span.with(span);
        } else {
            let (view, window, access) = (Arc::clone(part.view), part.window, part.access);
            self.entries.push(BlockEntry { view, window, at: self.filled, span, access });
        }
        self.filled += len;
        self.last = number;
    }

    /// Gives its bytes away and keeps one entry for all of its accesses.
    pub(crate) fn hand_over(&mut self) -> BlockStorage {
        let whole = self.span();
        if let Some(first) = std::mem::take(&mut self.entries).into_iter().next() {
            self.entries = vec![BlockEntry { span: whole, ..first }];
        }
        std::mem::replace(&mut self.store, BlockStorage::Remote)
    }

    /// The spans of accesses before a collective call, and of those in it.
    pub(crate) fn spans(&self, collective_seq: u64) -> (ByteSpan, ByteSpan) {
        let (fresh, span) = self.fresh;
        if fresh == collective_seq { (self.rest, span) } else { (self.rest.with(span), ByteSpan::EMPTY) }
    }

    /// From the first to the last byte of its accesses.
    pub(crate) fn span(&self) -> ByteSpan {
        self.rest.with(self.fresh.1)
    }

    /// True if any of its accesses may overlap this part of the file.
    pub(crate) fn overlaps(&self, span: ByteSpan) -> bool {
        self.span().overlaps(span) && self.entries.iter().any(|entry| entry.span.overlaps(span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(view: &Arc<View>, window: Range<u64>, collective_seq: CollectiveSeq) -> WritePart<'_> {
        WritePart { view, window, access: 7, collective_seq }
    }

    #[test]
    fn accesses_that_follow_one_another_are_one() {
        let view = Arc::new(View::default());
        let other = Arc::new(View::default());
        let mut block = BufferedBlock::new(BlockStorage::Memory(vec![0; 100]), 2);
        block.add(part(&view, 10..20, None), 1);
        block.add(part(&view, 20..25, None), 2);
        block.add(part(&other, 25..30, None), 3);
        let found: Vec<_> = block.entries.iter().map(|entry| (entry.window.clone(), entry.bytes())).collect();
        assert_eq!(found, [(10..25, 0..15), (25..30, 15..20)]);
        assert!(block.takes(&other, 30) && !block.takes(&view, 30), "the list is full");
        assert!(
            block.overlaps(ByteSpan { start: 29, end: 50 })
                && !block.overlaps(ByteSpan { start: 30, end: 50 })
        );
    }

    #[test]
    fn accesses_of_the_latest_collective_call_are_separate() {
        let view = Arc::new(View::default());
        let mut block = BufferedBlock::new(BlockStorage::Memory(vec![0; 100]), 8);
        block.add(part(&view, 0..10, Some(1)), 1);
        block.add(part(&view, 50..60, Some(2)), 2);
        block.add(part(&view, 70..80, None), 3);
        let older = ByteSpan { start: 0, end: 80 };
        assert_eq!(block.spans(2), (older, ByteSpan { start: 50, end: 60 }));
        assert_eq!(block.spans(3), (older, ByteSpan::EMPTY));
    }
}
