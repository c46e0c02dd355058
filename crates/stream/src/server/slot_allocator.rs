//! The client's state machine: where the next chunk goes. Pure.
//!
//! It fits in a free slot of the local buffer: kept there until the server has fetched it. It does not: sent to the server at once, as far as
//! that has granted room. Neither: the client waits until something is let go.

use std::collections::VecDeque;

use super::protocol::BufferGrant;

/// Where a chunk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkPlacement {
    Slot(u32),
    /// To the server; so many bytes.
    Message(u64),
}

/// Where the chunks of a client are.
#[derive(Debug)]
pub(crate) struct SlotAllocator {
    grant: BufferGrant,
    free: Vec<u32>,
    /// Bytes under way in messages.
    sent: u64,
    /// Chunks that are not let go yet, in order.
    held: VecDeque<ChunkPlacement>,
    /// How many were.
    released: u64,
    /// The most that was held here at a time, in slots, and the largest message.
    used: u64,
    largest: u64,
}

impl SlotAllocator {
    /// Nothing is held. A client that shares no memory with its server has no slots.
    pub(crate) fn new(room: BufferGrant) -> Self {
        let free = (0..room.slots).rev().collect();
        Self { grant: room, free, sent: 0, held: VecDeque::new(), released: 0, used: 0, largest: 0 }
    }

    /// A place for a chunk of so many bytes; none if it must wait.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<ChunkPlacement> {
        let slot = (bytes <= self.grant.slot).then(|| self.free.pop()).flatten();
        let fits = self.sent == 0 || self.sent + bytes <= self.grant.allowance;
        let place = match slot {
            Some(slot) => ChunkPlacement::Slot(slot),
            None if fits && bytes <= self.grant.allowance => ChunkPlacement::Message(bytes),
            None => return None,
        };
        if let ChunkPlacement::Message(bytes) = place {
            self.sent += bytes;
            self.largest = self.largest.max(bytes);
        }
        self.held.push_back(place);
        self.used = self.used.max(u64::from(self.grant.slots) - self.free.len() as u64);
        Some(place)
    }

    /// The server has let go of so many chunks in all.
    pub(crate) fn release(&mut self, released: u64) {
        while self.released < released {
            match self.held.pop_front() {
                Some(ChunkPlacement::Slot(slot)) => self.free.push(slot),
                Some(ChunkPlacement::Message(bytes)) => self.sent -= bytes,
                // It counts more than there were: nothing to do.
                None => return,
            }
            self.released += 1;
        }
    }

    /// The most memory that was used here at a time.
    pub(crate) fn memory_peak(&self) -> u64 {
        self.used * self.grant.slot + self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqueduct_testkit::rng::SeededRng;

    #[test]
    fn what_fits_is_kept_and_the_overflow_is_sent_as_far_as_there_is_room() {
        let mut slots = SlotAllocator::new(BufferGrant { slots: 2, slot: 10, allowance: 15 });
        assert_eq!(slots.take(10), Some(ChunkPlacement::Slot(0)));
        assert_eq!(slots.take(3), Some(ChunkPlacement::Slot(1)));
        assert_eq!(slots.take(10), Some(ChunkPlacement::Message(10)));
        assert_eq!(slots.take(6), None, "no room for sixteen");
        assert_eq!(slots.take(5), Some(ChunkPlacement::Message(5)));
        slots.release(2);
        assert_eq!(slots.take(6), Some(ChunkPlacement::Slot(1)));
        slots.release(3);
        assert_eq!(slots.take(1), Some(ChunkPlacement::Slot(0)));
        assert_eq!(slots.take(10), Some(ChunkPlacement::Message(10)));
        assert_eq!(slots.memory_peak(), 30);
    }

    /// Whatever comes: no slot is used twice, no more is sent than was granted, and nobody waits for nothing.
    #[test]
    fn random_runs_keep_the_caps() {
        for number in 0..200 {
            let mut seed = SeededRng::new(number);
            let room =
                BufferGrant { slots: seed.below(4) as u32, slot: 8, allowance: 8 + seed.number() % 20 };
            let (mut slots, mut held, mut released) = (SlotAllocator::new(room), VecDeque::new(), 0);
            for _ in 0..200 {
                let bytes = 1 + seed.number() % 8;
                match slots.take(bytes).filter(|_| seed.below(2) == 0 || held.len() < 50) {
                    Some(place) => {
                        assert!(
                            !matches!(place, ChunkPlacement::Slot(_)) || !held.contains(&place),
                            "seed {number}"
                        );
                        held.push_back(place);
                    }
                    None => {
                        assert!(!held.is_empty(), "seed {number}: it waits, and nothing is under way");
                        released += 1;
                        held.pop_front();
                        slots.release(released);
                    }
                }
                let sent: u64 = held
                    .iter()
                    .map(|place| if let ChunkPlacement::Message(bytes) = place { *bytes } else { 0 })
                    .sum();
                assert!(sent <= room.allowance, "seed {number}");
            }
        }
    }
}
