//! Runs: segments of a list that follow one another in the file, to be transferred by one vectored call.

use std::ops::Range;

use crate::SegmentRange;

/// The most segments that one vectored system call takes (Linux: `IOV_MAX`).
pub(crate) const MAX_SEGMENTS: usize = 1024;

/// Consecutive segments of a list that are adjacent in the file; empty segments may lie among them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SegmentRun {
    /// Which segments of the list.
    pub(crate) segments: Range<usize>,
    /// Where in the file.
    pub(crate) offset: u64,
    /// How many bytes, at least one.
    pub(crate) size: u64,
}

/// The first run of the list from segment `from` on; `None` if only empty segments are left.
pub(crate) fn next_run<E: SegmentRange>(list: &[E], from: usize) -> Option<SegmentRun> {
    let start = from + list.get(from..)?.iter().position(|segment| segment.size() > 0)?;
    let offset = list[start].start();
    let (mut size, mut end) = (list[start].size(), start + 1);
    while let Some(segment) = list.get(end)
        && end - start < MAX_SEGMENTS
        && (segment.size() == 0 || segment.start() == offset + size)
    {
        size += segment.size();
        end += 1;
    }
    Some(SegmentRun { segments: start..end, offset, size })
}

/// Whether the list has more than one run.
pub(crate) fn is_scattered<E: SegmentRange>(list: &[E]) -> bool {
    next_run(list, 0).is_some_and(|first| next_run(list, first.segments.end).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Segment;

    fn runs(list: &[Segment<'_>]) -> Vec<(Range<usize>, u64, u64)> {
        let mut from = 0;
        let step = || {
            let run = next_run(list, from)?;
            from = run.segments.end;
            Some((run.segments, run.offset, run.size))
        };
        std::iter::from_fn(step).collect()
    }

    #[test]
    fn adjacent_pieces_form_one_run() {
        let list = [
            Segment::new(7, b""),
            Segment::new(0, b"ab"),
            Segment::new(2, b"c"),
            Segment::new(99, b""),
            Segment::new(3, b"d"),
            Segment::new(5, b"e"),
            Segment::new(4, b"f"),
        ];
        assert_eq!(runs(&list), [(1..5, 0, 4), (5..6, 5, 1), (6..7, 4, 1)]);
        assert_eq!(runs(&[Segment::new(0, b"")]), []);
        assert_eq!(runs(&[]), []);
        assert!(is_scattered(&list) && !is_scattered(&list[..5]) && !is_scattered::<Segment<'_>>(&[]));
    }

    #[test]
    fn a_run_has_no_more_pieces_than_a_call_takes() {
        let list: Vec<_> = (0..2500).map(|offset| Segment::new(offset, b"x")).collect();
        assert_eq!(runs(&list), [(0..1024, 0, 1024), (1024..2048, 1024, 1024), (2048..2500, 2048, 452)]);
    }
}
