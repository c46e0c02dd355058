//! Bringing what was written to the medium while the program goes on: for files that are going to be synced.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use super::writeback;
use crate::Segment;

/// So many bytes go on their way together: few enough that the sync finds little left.
const STEP: u64 = 4 << 20;

/// What was written and is not on its way yet.
#[derive(Debug, Default)]
pub(super) struct WriteBehind {
    unsubmitted: Mutex<UnsubmittedRange>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct UnsubmittedRange {
    bytes: u64,
    span: Range<u64>,
}

impl WriteBehind {
    /// Hears of pieces that were written, and sends them on their way once they are enough. Nothing waits for them, and what goes wrong with them is for
    /// the sync to tell.
    pub(super) fn note_written(&self, file: BorrowedFd<'_>, pieces: &[Segment<'_>]) {
        let due = self.unsubmitted.lock().unwrap_or_else(PoisonError::into_inner).add(pieces);
        if let Some(span) = due {
            writeback::start(file, &span);
        }
    }
}

impl UnsubmittedRange {
    /// What is to go on its way now. Others may have written between: their bytes go too.
    fn add(&mut self, pieces: &[Segment<'_>]) -> Option<Range<u64>> {
        for piece in pieces.iter().filter(|piece| !piece.bytes.is_empty()) {
            let (start, length) = (piece.offset, piece.bytes.len() as u64);
            let end = start + length;
            self.span = match self.bytes {
                0 => start..end,
                _ => self.span.start.min(start)..self.span.end.max(end),
            };
            self.bytes += length;
        }
        (self.bytes >= STEP).then(|| std::mem::take(self).span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_go_together_once_they_are_enough() {
        let bytes = vec![0; STEP as usize / 2];
        let mut waiting = UnsubmittedRange::default();
        assert_eq!(waiting.add(&[Segment::new(9 * STEP, &bytes), Segment::new(0, &[])]), None);
        assert_eq!(waiting.add(&[Segment::new(3 * STEP, &bytes[1..])]), None);
        assert_eq!(waiting.add(&[Segment::new(5 * STEP, &[7])]), Some(3 * STEP..9 * STEP + STEP / 2));
        assert_eq!(waiting, UnsubmittedRange::default());
    }
}
