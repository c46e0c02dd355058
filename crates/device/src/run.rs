//! Runs: pieces of a list that follow one another in the file, to be transferred by one vectored call.

use std::ops::Range;

use crate::Extent;

/// The most pieces that one vectored system call takes (Linux: `IOV_MAX`).
pub(crate) const MAX_PIECES: usize = 1024;

/// Consecutive pieces of a list that are adjacent in the file; empty pieces may lie among them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Which pieces of the list.
    pub(crate) pieces: Range<usize>,
    /// Where in the file.
    pub(crate) offset: u64,
    /// How many bytes, at least one.
    pub(crate) size: u64,
}

/// The first run of the list from piece `from` on; `None` if only empty pieces are left.
pub(crate) fn next<E: Extent>(list: &[E], from: usize) -> Option<Run> {
    let start = from + list.get(from..)?.iter().position(|piece| piece.size() > 0)?;
    let offset = list[start].start();
    let (mut size, mut end) = (list[start].size(), start + 1);
    while let Some(piece) = list.get(end)
        && end - start < MAX_PIECES
        && (piece.size() == 0 || piece.start() == offset + size)
    {
        size += piece.size();
        end += 1;
    }
    Some(Run { pieces: start..end, offset, size })
}

/// Whether the list has more than one run.
pub(crate) fn is_scattered<E: Extent>(list: &[E]) -> bool {
    next(list, 0).is_some_and(|first| next(list, first.pieces.end).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Piece;

    fn runs(list: &[Piece<'_>]) -> Vec<(Range<usize>, u64, u64)> {
        let mut from = 0;
        let step = || {
            let run = next(list, from)?;
            from = run.pieces.end;
            Some((run.pieces, run.offset, run.size))
        };
        std::iter::from_fn(step).collect()
    }

    #[test]
    fn adjacent_pieces_form_one_run() {
        let list = [
            Piece::new(7, b""),
            Piece::new(0, b"ab"),
            Piece::new(2, b"c"),
            Piece::new(99, b""),
            Piece::new(3, b"d"),
            Piece::new(5, b"e"),
            Piece::new(4, b"f"),
        ];
        assert_eq!(runs(&list), [(1..5, 0, 4), (5..6, 5, 1), (6..7, 4, 1)]);
        assert_eq!(runs(&[Piece::new(0, b"")]), []);
        assert_eq!(runs(&[]), []);
        assert!(is_scattered(&list) && !is_scattered(&list[..5]) && !is_scattered::<Piece<'_>>(&[]));
    }

    #[test]
    fn a_run_has_no_more_pieces_than_a_call_takes() {
        let list: Vec<_> = (0..2500).map(|offset| Piece::new(offset, b"x")).collect();
        assert_eq!(runs(&list), [(0..1024, 0, 1024), (1024..2048, 1024, 1024), (2048..2500, 2048, 452)]);
    }
}
