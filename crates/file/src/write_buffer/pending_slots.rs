//! The pending accesses of a rank, one by one, as long as they are few: other ranks read them after the spans. Pure.

use std::collections::VecDeque;

use super::footprint::Footprint;

/// The number of a collective access among those of the file; none for an independent access.
pub(crate) type CollectiveSeq = Option<u64>;

/// Accesses that are published one by one.
pub(crate) const SLOTS: usize = 64;

/// A pending access: its footprint, the number of its collective call (0: none), and the number of its last part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingSlot {
    pub(crate) footprint: Footprint,
    pub(crate) collective_seq: u64,
    pub(crate) last: u64,
}

/// All of them, in order, as a ring.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingSlots {
    held: VecDeque<PendingSlot>,
    /// The number of slots so far, and of those that are written.
    pub(crate) head: u64,
    pub(crate) tail: u64,
    /// There were too many: they are not published until all are written.
    pub(crate) crowded: bool,
}

impl PendingSlots {
    /// Adds a part; the slot that changed, with its place in the ring.
    pub(crate) fn enter(
        &mut self,
        footprint: Footprint,
        collective_seq: CollectiveSeq,
        last: u64,
    ) -> Option<(usize, PendingSlot)> {
        let collective_seq = collective_seq.unwrap_or(0);
        if self.crowded {
            return None;
        }
        let full = self.held.len() == SLOTS;
        match self.held.back_mut().filter(|slot| follows(slot, &footprint, collective_seq)) {
            Some(slot) => {
                slot.footprint.span = slot.footprint.span.with(footprint.span);
                slot.last = last;
            }
            None if full => {
                self.crowded = true;
                return None;
            }
            None => {
                self.held.push_back(PendingSlot { footprint, collective_seq, last });
                self.head += 1;
            }
        }
        let slot = self.held.back()?;
        Some(((self.head - 1) as usize % SLOTS, *slot))
    }

    /// Everything up to a part is written; `all` if nothing is pending.
    pub(crate) fn retire(&mut self, written: u64, all: bool) {
        while self.held.front().is_some_and(|slot| slot.last <= written) {
            self.held.pop_front();
            self.tail += 1;
        }
        if all {
            self.tail = self.head;
            self.held.clear();
            self.crowded = false;
        }
    }
}

/// True if a part continues the last one, in the same collective call and phase.
fn follows(slot: &PendingSlot, footprint: &Footprint, collective_seq: u64) -> bool {
    let (before, after) = (slot.footprint, footprint);
    slot.collective_seq == collective_seq
        && before.phase == after.phase
        && after.span.start == before.span.end
}

#[cfg(test)]
mod tests {
    use super::super::footprint::ByteSpan;
    use super::*;

    fn footprint(start: u64, end: u64) -> Footprint {
        Footprint::whole(ByteSpan { start, end })
    }

    #[test]
    fn parts_that_follow_one_another_share_a_slot_and_retire_together() {
        let mut slots = PendingSlots::default();
        assert_eq!(slots.enter(footprint(0, 10), None, 1).unwrap().0, 0);
        assert_eq!(
            slots.enter(footprint(10, 30), None, 2),
            Some((0, PendingSlot { footprint: footprint(0, 30), collective_seq: 0, last: 2 }))
        );
        assert_eq!(slots.enter(footprint(30, 40), Some(1), 3).unwrap().0, 1, "another collective_seq");
        slots.retire(1, false);
        assert_eq!((slots.head, slots.tail), (2, 0));
        slots.retire(2, false);
        assert_eq!((slots.head, slots.tail), (2, 1));
    }

    #[test]
    fn too_many_are_not_published_until_all_are_written() {
        let mut slots = PendingSlots::default();
        for number in 0..SLOTS as u64 {
            assert_eq!(
                slots.enter(footprint(100 * number, 100 * number + 1), None, number + 1).unwrap().0,
                number as usize
            );
        }
        assert_eq!((slots.enter(footprint(7, 8), None, 100), slots.crowded), (None, true));
        slots.retire(99, false);
        assert_eq!((slots.enter(footprint(9, 10), None, 101), slots.crowded), (None, true));
        slots.retire(101, true);
        assert_eq!(slots.enter(footprint(9, 10), None, 102).map(|(place, _)| place), Some(0));
        assert_eq!((slots.head - slots.tail, slots.crowded), (1, false));
    }
}
