//! How files are distributed over ranks: by bytes, by whole sequences, or by whole files.

use std::ops::Range;

use crate::input::PieceRequest;
use crate::input::fasta::LineState;

/// A way to distribute files over ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileDistribution {
    /// Each file is cut into one part per rank, of equal length or as the shares say.
    Bytes,
    /// Whole sequences, round-robin.
    Sequences,
    /// Whole files, round-robin.
    Files,
}

/// The bytes of a file of this length that belong to a rank. `shares` has one weight per rank; without, all are equal.
pub(crate) fn part_of(length: u64, rank: usize, ranks: usize, shares: &[u64]) -> Range<u64> {
    let weight = |rank: usize| u128::from(shares.get(rank).copied().unwrap_or(1));
    let total: u128 = (0..ranks).map(weight).sum::<u128>().max(1);
    let before: u128 = (0..rank).map(weight).sum();
    let cut = |weight: u128| (u128::from(length) * weight / total) as u64;
    cut(before)..cut(before + weight(rank))
}

/// Finds what the byte after a part is inside of, by reading the part backwards until a line starts.
#[derive(Debug)]
pub(crate) struct LineProbe {
    file: usize,
    part: Range<u64>,
    cursor: u64,
    length: usize,
    /// The most bytes to read at once.
    most: usize,
    state: Option<LineState>,
    first: Option<LineState>,
}

impl LineProbe {
    pub(crate) fn new(file: usize, part: Range<u64>, most: usize) -> Self {
        Self { file, cursor: part.end, part, length: 1 << 10, most, state: None, first: None }
    }

    pub(crate) fn next_request(&self) -> Option<PieceRequest> {
        let left = self.cursor - self.part.start;
        let length = left.min(self.length as u64);
        let wanted = self.state.is_none() && length > 0;
        wanted.then(|| PieceRequest {
            file: self.file,
            offset: self.cursor - length,
            length: length as usize,
        })
    }

    pub(crate) fn feed(&mut self, piece: &[u8]) {
        self.cursor -= piece.len() as u64;
        self.state = LineState::after(piece, self.cursor == 0);
        // Valid if the part begins at the start of a line.
        self.first = LineState::after(piece, true);
        self.length = (self.length * 4).min(self.most);
    }

    /// 0 for an empty part. 1 to 4: the state after it. 5 to 8: it has no end of a line; the state after it if it begins at the start of a line.
    pub(crate) fn code(&self) -> u64 {
        let conditional = self.first.map_or(0, |first| first.code() + 4);
        self.state.map_or(conditional, LineState::code)
    }
}

/// What the first byte of a rank's part is inside of, from the codes of the ranks before.
pub(crate) fn state_before(codes: &[u64]) -> LineState {
    codes.iter().fold(LineState::Start, |state, code| match code {
        0 => state,
        1..=4 => LineState::from_code(*code).unwrap_or(state),
        _ if state == LineState::Start => LineState::from_code(code - 4).unwrap_or(state),
        _ => state,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_adjacent_and_follow_the_shares() {
        for (length, ranks) in [(0, 3), (1, 7), (100, 3), (u64::MAX, 5)] {
            let mut end = 0;
            for rank in 0..ranks {
                let part = part_of(length, rank, ranks, &[]);
                assert_eq!(part.start, end);
                end = part.end;
            }
            assert_eq!(end, length);
        }
        assert_eq!(part_of(100, 0, 3, &[2, 1, 1]), 0..50);
        assert_eq!(part_of(100, 2, 3, &[2, 1, 1]), 75..100);
    }
}
