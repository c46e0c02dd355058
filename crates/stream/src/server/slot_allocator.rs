//! Credit of a client: where its next chunk goes. Pure.
//!
//! A chunk goes to a free slot until the server has read it; otherwise to the server in a message, within the allowance that the
//! server has granted; otherwise the client waits until the server releases an earlier chunk.

use std::collections::VecDeque;

use super::protocol::BufferGrant;

/// Where a chunk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkPlacement {
    Slot(u32),
    /// In a message of this number of bytes.
    Message(u64),
}

/// The slots and the allowance of a client.
#[derive(Debug)]
pub(crate) struct SlotAllocator {
    grant: BufferGrant,
    free: Vec<u32>,
    /// Bytes of messages that are not released.
    sent: u64,
    /// Chunks that are not released, in order.
    held: VecDeque<ChunkPlacement>,
    /// The number of released chunks.
    released: u64,
    /// The most slots in use at a time, and the bytes of the largest message.
    used: u64,
    largest: u64,
}

impl SlotAllocator {
    /// All slots are free. A client that shares no memory with its server has none.
    pub(crate) fn new(grant: BufferGrant) -> Self {
        let free = (0..grant.slots).rev().collect();
        Self { grant, free, sent: 0, held: VecDeque::new(), released: 0, used: 0, largest: 0 }
    }

    /// A place for a chunk of this number of bytes; none if it must wait.
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

    /// The server has released this number of chunks in total.
    pub(crate) fn release(&mut self, released: u64) {
        while self.released < released {
            match self.held.pop_front() {
                Some(ChunkPlacement::Slot(slot)) => self.free.push(slot),
                Some(ChunkPlacement::Message(bytes)) => self.sent -= bytes,
                // The server counts chunks that were never passed.
                None => return,
            }
            self.released += 1;
        }
    }

    /// The peak of the memory of this client in bytes.
    pub(crate) fn memory_peak(&self) -> u64 {
        self.used * self.grant.slot + self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqueduct_testkit::rng::SeededRng;

    #[test]
    fn chunks_go_to_slots_then_to_messages_within_the_allowance() {
        let mut slots = SlotAllocator::new(BufferGrant { slots: 2, slot: 10, allowance: 15 });
        assert_eq!(slots.take(10), Some(ChunkPlacement::Slot(0)));
        assert_eq!(slots.take(3), Some(ChunkPlacement::Slot(1)));
        assert_eq!(slots.take(10), Some(ChunkPlacement::Message(10)));
        assert_eq!(slots.take(6), None, "the allowance is 15");
        assert_eq!(slots.take(5), Some(ChunkPlacement::Message(5)));
        slots.release(2);
        assert_eq!(slots.take(6), Some(ChunkPlacement::Slot(1)));
        slots.release(3);
        assert_eq!(slots.take(1), Some(ChunkPlacement::Slot(0)));
        assert_eq!(slots.take(10), Some(ChunkPlacement::Message(10)));
        assert_eq!(slots.memory_peak(), 30);
    }

    /// No slot is used twice, messages stay within the allowance, and a client waits only if a chunk is not released.
    #[test]
    fn random_chunks_stay_within_the_grant() {
        for number in 0..200 {
            let mut seed = SeededRng::new(number);
            let grant =
                BufferGrant { slots: seed.below(4) as u32, slot: 8, allowance: 8 + seed.number() % 20 };
            let (mut slots, mut held, mut released) = (SlotAllocator::new(grant), VecDeque::new(), 0);
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
                        assert!(!held.is_empty(), "seed {number}: it waits for nothing");
                        released += 1;
                        held.pop_front();
                        slots.release(released);
                    }
                }
                let sent: u64 = held
                    .iter()
                    .map(|place| if let ChunkPlacement::Message(bytes) = place { *bytes } else { 0 })
                    .sum();
                assert!(sent <= grant.allowance, "seed {number}");
            }
        }
    }
}
