//! Moving data upwards in the file, all ranks together, from its end on: nothing is overwritten that has not been read.

use super::file::NetcdfFile;
use super::layout_planner::DataShift;
use crate::error::Result;

/// Replaces the magic while data is moved, so that an interrupted move is detected.
pub(crate) const BEING_MOVED: [u8; 4] = *b"CDF!";
/// What a rank moves at once.
const PORTION: u64 = 4 << 20;
/// The most pieces that a rank moves at once.
const PIECES: usize = 4096;

/// Bytes from one place to another, further up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MoveExtent {
    from: u64,
    to: u64,
    size: u64,
}

/// All pieces, the last of the file first.
fn move_extents(shifts: &[DataShift]) -> impl Iterator<Item = MoveExtent> {
    let mut shifts: Vec<DataShift> = shifts.to_vec();
    shifts.sort_by_key(|shift| std::cmp::Reverse(shift.from));
    shifts.into_iter().flat_map(|shift| (0..shift.count).rev().map(move |number| (shift, number))).flat_map(
        |(shift, number)| {
            let (from, to) = (shift.from + number * shift.strides.0, shift.to + number * shift.strides.1);
            let parts = shift.size.div_ceil(PORTION);
            (0..parts).rev().map(move |part| {
                let at = part * PORTION;
                MoveExtent { from: from + at, to: to + at, size: PORTION.min(shift.size - at) }
            })
        },
    )
}

/// What one rank moves at once.
fn portion(pieces: &mut std::iter::Peekable<impl Iterator<Item = MoveExtent>>) -> Vec<MoveExtent> {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    while let Some(piece) = pieces.next_if(|piece| bytes + piece.size <= PORTION && taken.len() < PIECES) {
        bytes += piece.size;
        taken.push(piece);
    }
    taken
}

impl NetcdfFile {
    /// Moves data; how many bytes. Collective.
    pub(super) fn move_data(&self, shifts: &[DataShift]) -> Result<u64> {
        if shifts.is_empty() {
            return Ok(0);
        }
        self.write_magic("rearrange", BEING_MOVED)?;
        let mut pieces = move_extents(shifts).peekable();
        while pieces.peek().is_some() {
            let portions: Vec<_> = (0..self.core.comm.size()).map(|_| portion(&mut pieces)).collect();
            let mine = &portions[self.core.comm.rank()];
            // All have read before any writes.
            let read = self.core.agree("rearrange", self.read_pieces(mine))?;
            let written = read.iter().try_for_each(|(to, bytes)| {
                self.core.file.at(*to).write(bytes)?;
                Ok(())
            });
            self.core.agree("rearrange", written)?;
        }
        self.core.sync()?;
        Ok(shifts.iter().map(DataShift::bytes).sum())
    }

    fn read_pieces(&self, pieces: &[MoveExtent]) -> Result<Vec<(u64, Vec<u8>)>> {
        let read = |piece: &MoveExtent| {
            let mut bytes = vec![0; piece.size as usize];
            // Unwritten data is zero, also beyond the end of the file.
            self.core.file.at(piece.from).read(&mut bytes)?;
            Ok((piece.to, bytes))
        };
        pieces.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_from_the_end_of_the_file() {
        let variable = DataShift { from: 100, to: 300, size: PORTION + 1, count: 1, strides: (0, 0) };
        let records = DataShift { from: 10_000_000, to: 10_000_200, size: 8, count: 2, strides: (8, 24) };
        let all: Vec<MoveExtent> = move_extents(&[variable, records]).collect();
        assert_eq!(all[0], MoveExtent { from: 10_000_008, to: 10_000_224, size: 8 });
        assert_eq!(all[1], MoveExtent { from: 10_000_000, to: 10_000_200, size: 8 });
        assert_eq!(all[2], MoveExtent { from: 100 + PORTION, to: 300 + PORTION, size: 1 });
        assert_eq!(all[3], MoveExtent { from: 100, to: 300, size: PORTION });
        assert_eq!(all.len(), 4);
    }
}
