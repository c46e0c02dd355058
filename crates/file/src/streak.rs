//! Small accesses that follow one another through a file: what comes next is known, so that its pages can be made present for many of them
//! at once.

use std::ops::Range;

use crate::plan::Direction;

/// How far pages are made present ahead, to be read and to be written: these will have to be written back, even if nobody stores there.
const AHEAD: [u64; 2] = [1 << 20, 128 << 10];
/// The next access begins at most so far behind the last one: what lies between is other ranks', who share the pointer.
const GAP: u64 = 32 << 10;
/// Accesses in a row before it is believed that more will come.
const CONVINCING: u32 = 8;

/// The last of the accesses in one direction.
#[derive(Debug, Default)]
pub(crate) struct Streak {
    end: u64,
    length: u32,
}

impl Streak {
    /// Adds an access; whether it is one of a long row.
    pub(crate) fn note(&mut self, run: &Range<u64>) -> bool {
        let follows = (self.end..=self.end.saturating_add(GAP)).contains(&run.start);
        self.length = if follows { self.length.saturating_add(1) } else { 0 };
        self.end = run.end;
        self.length >= CONVINCING
    }

    /// Begins anew: nothing was gained.
    pub(crate) fn end(&mut self) {
        self.length = 0;
    }
}

/// What is made present for an access and those that follow, in a file that is so long; none if the access reaches behind its end.
pub(crate) fn ahead(direction: Direction, run: &Range<u64>, len: u64) -> Option<Range<u64>> {
    let end = run.end.checked_next_multiple_of(AHEAD[usize::from(direction == Direction::Write)])?.min(len);
    (run.end <= end).then_some(run.start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_behind_one_another_are_a_streak_with_gaps_or_without() {
        for gap in [0, 100, GAP] {
            let mut streak = Streak::default();
            let mut at = 1 << 30;
            for step in 0..50 {
                assert_eq!(streak.note(&(at..at + 64)), step >= CONVINCING, "step {step}, gap {gap}");
                at += 64 + gap;
            }
            streak.end();
            assert!(!streak.note(&(at..at + 64)));
        }
    }

    #[test]
    fn accesses_here_and_there_are_none() {
        let mut streak = Streak::default();
        for step in 0..1000u64 {
            let (back, far, again) = ((1000 - step) * 64, step * (GAP + 65), 4096);
            for at in [back, far, again] {
                assert!(!streak.note(&(at..at + 64)));
            }
        }
        assert!(
            (0..100).all(|step| !streak.note(&(step * (GAP + 65)..step * (GAP + 65) + 64))),
            "too sparse"
        );
    }

    #[test]
    fn pages_are_made_present_as_far_as_the_file_goes() {
        for (direction, far) in [(Direction::Read, AHEAD[0]), (Direction::Write, AHEAD[1])] {
            let ahead = |run, len| ahead(direction, &run, len);
            assert_eq!(ahead(5000..9000, 1 << 30), Some(5000..far));
            assert_eq!(ahead(5000..9000, 10_000), Some(5000..10_000));
            assert_eq!(ahead(5000..9000, 8999), None);
            assert_eq!(ahead(far - 10..far + 10, 1 << 30), Some(far - 10..2 * far));
            assert_eq!(ahead(u64::MAX - 1..u64::MAX, u64::MAX), None);
        }
    }
}
