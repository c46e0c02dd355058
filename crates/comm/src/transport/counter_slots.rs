//! Which counters of the window a rank holds.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many counters a world can have at once: as many as a process has files open, by default of most systems.
pub(crate) const COUNTER_SLOTS: usize = 1024;
const WORDS: usize = COUNTER_SLOTS / u64::BITS as usize;

/// The places that a rank holds, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterBitmap(pub(crate) [u64; WORDS]);

impl CounterBitmap {
    pub(crate) const NOTHING: Self = Self([0; WORDS]);
    pub(crate) const EVERYTHING: Self = Self([u64::MAX; WORDS]);

    pub(crate) fn first_free(&self) -> Option<usize> {
        let word = self.0.iter().position(|word| *word != u64::MAX)?;
        Some(word * u64::BITS as usize + self.0[word].trailing_ones() as usize)
    }

    pub(crate) fn set(&mut self, place: usize, held: bool) {
        let bit = 1 << (place % u64::BITS as usize);
        let word = &mut self.0[place / u64::BITS as usize];
        *word = if held { *word | bit } else { *word & !bit };
    }
}

/// The same, as several threads see it.
#[derive(Debug)]
pub(crate) struct CounterSlots(Mutex<CounterBitmap>);

impl CounterSlots {
    pub(crate) fn lock(&self) -> MutexGuard<'_, CounterBitmap> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for CounterSlots {
    fn default() -> Self {
        Self(Mutex::new(CounterBitmap::NOTHING))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_held_and_given_back() {
        let mut held = CounterBitmap::NOTHING;
        for place in 0..COUNTER_SLOTS {
            assert_eq!(held.first_free(), Some(place));
            held.set(place, true);
        }
        assert_eq!((held, held.first_free()), (CounterBitmap::EVERYTHING, None));
        for place in [1023, 700, 64, 63, 0] {
            held.set(place, false);
            assert_eq!(held.first_free(), Some(place));
        }
    }
}
