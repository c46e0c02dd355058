//! The accesses that a rank holds, one by one, as long as they are few: what the other ranks look at after the hulls. Pure.

use std::collections::VecDeque;

use super::batch::Turn;
use super::reach::Reach;

/// Accesses that are told one by one.
pub(crate) const SLOTS: usize = 64;

/// An access that is held: where, in which collective turn (0: in none), and the number of its last part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) reach: Reach,
    pub(crate) turn: u64,
    pub(crate) last: u64,
}

/// All of them, in order, as a ring.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    held: VecDeque<Slot>,
    /// How many there have been, and how many of them are written.
    pub(crate) head: u64,
    pub(crate) tail: u64,
    /// There were too many: they are not told until all are written.
    pub(crate) crowded: bool,
}

impl Slots {
    /// Enters a part; the slot that changed, with its place in the ring.
    pub(crate) fn enter(&mut self, reach: Reach, turn: Turn, last: u64) -> Option<(usize, Slot)> {
        let turn = turn.unwrap_or(0);
        if self.crowded {
            return None;
        }
        let full = self.held.len() == SLOTS;
        match self.held.back_mut().filter(|slot| follows(slot, &reach, turn)) {
            Some(slot) => {
                slot.reach.hull = slot.reach.hull.with(reach.hull);
                slot.last = last;
            }
            None if full => {
                self.crowded = true;
                return None;
            }
            None => {
                self.held.push_back(Slot { reach, turn, last });
                self.head += 1;
            }
        }
        let slot = self.held.back()?;
        Some(((self.head - 1) as usize % SLOTS, *slot))
    }

    /// Everything up to a part is written; whether that is all there is.
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

/// Whether a part goes on where the last one ended, in the same turn and lane.
fn follows(slot: &Slot, reach: &Reach, turn: u64) -> bool {
    let (before, after) = (slot.reach, reach);
    slot.turn == turn && before.lane == after.lane && after.hull.start == before.hull.end
}

#[cfg(test)]
mod tests {
    use super::super::batch::Hull;
    use super::*;

    fn reach(start: u64, end: u64) -> Reach {
        Reach::whole(Hull { start, end })
    }

    #[test]
    fn parts_that_follow_one_another_share_a_slot_and_retire_together() {
        let mut slots = Slots::default();
        assert_eq!(slots.enter(reach(0, 10), None, 1).unwrap().0, 0);
        assert_eq!(
            slots.enter(reach(10, 30), None, 2),
            Some((0, Slot { reach: reach(0, 30), turn: 0, last: 2 }))
        );
        assert_eq!(slots.enter(reach(30, 40), Some(1), 3).unwrap().0, 1, "another turn");
        slots.retire(1, false);
        assert_eq!((slots.head, slots.tail), (2, 0));
        slots.retire(2, false);
        assert_eq!((slots.head, slots.tail), (2, 1));
    }

    #[test]
    fn too_many_are_not_told_until_all_are_written() {
        let mut slots = Slots::default();
        for number in 0..SLOTS as u64 {
            assert_eq!(
                slots.enter(reach(100 * number, 100 * number + 1), None, number + 1).unwrap().0,
                number as usize
            );
        }
        assert_eq!((slots.enter(reach(7, 8), None, 100), slots.crowded), (None, true));
        slots.retire(99, false);
        assert_eq!((slots.enter(reach(9, 10), None, 101), slots.crowded), (None, true));
        slots.retire(101, true);
        assert_eq!(slots.enter(reach(9, 10), None, 102).map(|(place, _)| place), Some(0));
        assert_eq!((slots.head - slots.tail, slots.crowded), (1, false));
    }
}
