//! The counters of the window that a rank holds.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most counters of a world: the usual limit of open files of a process.
pub(crate) const COUNTER_SLOTS: usize = 1024;
const WORDS: usize = COUNTER_SLOTS / u64::BITS as usize;

/// The slots that a rank holds, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterBitmap(pub(crate) [u64; WORDS]);

impl CounterBitmap {
    pub(crate) const EMPTY: Self = Self([0; WORDS]);
    pub(crate) const FULL: Self = Self([u64::MAX; WORDS]);

    pub(crate) fn first_free(&self) -> Option<usize> {
        let word = self.0.iter().position(|word| *word != u64::MAX)?;
        Some(word * u64::BITS as usize + self.0[word].trailing_ones() as usize)
    }

    pub(crate) fn set(&mut self, slot: usize, held: bool) {
        let bit = 1 << (slot % u64::BITS as usize);
        let word = &mut self.0[slot / u64::BITS as usize];
        *word = if held { *word | bit } else { *word & !bit };
    }
}

/// The slots that a rank holds, behind a lock.
#[derive(Debug)]
pub(crate) struct CounterSlots(Mutex<CounterBitmap>);

impl CounterSlots {
    pub(crate) fn lock(&self) -> MutexGuard<'_, CounterBitmap> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for CounterSlots {
    fn default() -> Self {
        Self(Mutex::new(CounterBitmap::EMPTY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_taken_in_order_and_freed() {
        let mut held = CounterBitmap::EMPTY;
        for slot in 0..COUNTER_SLOTS {
            assert_eq!(held.first_free(), Some(slot));
            held.set(slot, true);
        }
        assert_eq!((held, held.first_free()), (CounterBitmap::FULL, None));
        for slot in [1023, 700, 64, 63, 0] {
            held.set(slot, false);
            assert_eq!(held.first_free(), Some(slot));
        }
    }
}
