//! Background writeback of written data, for files that will be synced.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use super::writeback;
use crate::Segment;

/// The bytes per writeback call: small enough that a sync has little left to write.
const STEP: u64 = 4 << 20;

/// Written data whose writeback has not started.
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
    /// Records written segments, and starts writeback when there are enough bytes. It does not wait; errors are reported by
    /// the sync.
    pub(super) fn note_written(&self, file: BorrowedFd<'_>, segments: &[Segment<'_>]) {
        let due = self.unsubmitted.lock().unwrap_or_else(PoisonError::into_inner).add(segments);
        if let Some(span) = due {
            writeback::start(file, &span);
        }
    }
}

impl UnsubmittedRange {
    /// The range to write back now. It may include bytes of other writers.
    fn add(&mut self, segments: &[Segment<'_>]) -> Option<Range<u64>> {
        for segment in segments.iter().filter(|segment| !segment.bytes.is_empty()) {
            let (start, length) = (segment.offset, segment.bytes.len() as u64);
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
    fn writeback_starts_when_enough_bytes_are_written() {
        let bytes = vec![0; STEP as usize / 2];
        let mut waiting = UnsubmittedRange::default();
        assert_eq!(waiting.add(&[Segment::new(9 * STEP, &bytes), Segment::new(0, &[])]), None);
        assert_eq!(waiting.add(&[Segment::new(3 * STEP, &bytes[1..])]), None);
        assert_eq!(waiting.add(&[Segment::new(5 * STEP, &[7])]), Some(3 * STEP..9 * STEP + STEP / 2));
        assert_eq!(waiting, UnsubmittedRange::default());
    }
}
