//! Rows of a cell file, gathered in pieces and checksummed while they are in the processor's cache.

use std::cell::RefCell;

use super::particle_order::{CellRun, ParticleOrder};

/// Buffer size in bytes for rows that are gathered only for their checksum.
const PIECE: u64 = 256 << 10;

/// The rows of a rank as they are in memory, and their order in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParticleRows<'a> {
    pub(crate) bytes: &'a [u8],
    /// Bytes of a row.
    pub(crate) row: u64,
    pub(crate) order: &'a ParticleOrder,
}

/// The checksums of a rank's cells, computed while their bytes are written.
pub(super) struct CellChecksums<'a> {
    rows: ParticleRows<'a>,
    /// The end of each cell in the rank's bytes.
    ends: Vec<u64>,
    partial: RefCell<Vec<PartialChecksum>>,
}

/// The part of a cell that has been checksummed.
#[derive(Clone, Copy)]
struct PartialChecksum {
    /// The end of the part in the rank's bytes; none once bytes were requested out of order.
    until: Option<u64>,
    sum: u32,
}

impl<'a> CellChecksums<'a> {
    pub(super) fn new(rows: ParticleRows<'a>) -> Self {
        let mut end = 0;
        let ends: Vec<u64> = rows
            .order
            .runs
            .iter()
            .map(|run: &CellRun| {
                end += run.count * rows.row;
                end
            })
            .collect();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let seen =
            starts.take(ends.len()).map(|start| PartialChecksum { until: Some(start), sum: 0 }).collect();
        Self { rows, ends, partial: RefCell::new(seen) }
    }

    /// Fills `out` with the bytes from `from` on, and adds them to the checksums.
    pub(super) fn fill(&self, from: u64, out: &mut [u8]) {
        self.rows.order.gather(self.rows.bytes, self.rows.row as usize, from, out);
        let (mut at, mut rest) = (from, &*out);
        let mut seen = self.partial.borrow_mut();
        let mut cell = self.ends.partition_point(|end| *end <= from);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min((self.ends[cell] - at) as usize));
            seen[cell].add(at, now);
            (at, rest, cell) = (at + now.len() as u64, later, cell + 1);
        }
    }

    /// The checksums. A cell whose bytes were requested out of order is gathered once more.
    pub(super) fn finish(&self) -> Vec<u32> {
        let seen = self.partial.borrow();
        let mut start = 0;
        let mut buffer = Vec::new();
        let sum = |(seen, end): (&PartialChecksum, &u64)| {
            let cell = std::mem::replace(&mut start, *end)..*end;
            if seen.until == Some(cell.end) {
                return seen.sum;
            }
            let mut sum = 0;
            for at in cell.clone().step_by(PIECE as usize) {
                buffer.resize(PIECE.min(cell.end - at) as usize, 0);
                self.rows.order.gather(self.rows.bytes, self.rows.row as usize, at, &mut buffer);
                sum = crc32c::crc32c_append(sum, &buffer);
            }
            sum
        };
        seen.iter().zip(&self.ends).map(sum).collect()
    }
}

impl PartialChecksum {
    fn add(&mut self, at: u64, bytes: &[u8]) {
        if self.until == Some(at) {
            self.until = Some(at + bytes.len() as u64);
            self.sum = crc32c::crc32c_append(self.sum, bytes);
        } else {
            self.until = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CellGrid, Molecule};

    #[test]
    fn checksums_do_not_depend_on_the_pieces_requested() {
        let grid = CellGrid::new([10.0, 1.0, 1.0], [10, 1, 1]).unwrap();
        let places = [9.5, 0.5, 3.0, 3.0, 10.0, 0.6, 3.1].into_iter().zip(0..);
        let molecules: Vec<Molecule> =
            places.map(|(x, id)| Molecule::new(id, [x, 0.5, 0.5], [0.0; 3])).collect();
        let order = ParticleOrder::of(&grid, &molecules).unwrap();
        let rows = ParticleRows { bytes: bytemuck::cast_slice(&molecules), row: 120, order: &order };
        let mut ordered: Vec<u8> = vec![0; rows.bytes.len()];
        order.gather(rows.bytes, 120, 0, &mut ordered);
        let wanted = [0..240, 240..600, 600..840].map(|cell| crc32c::crc32c(&ordered[cell]));
        let whole = [0..800, 800..840];
        let backwards = [480..840, 0..480];
        let twice = [0..500, 300..840];
        let missing = [0..300, 300..301];
        for pieces in [&whole[..], &backwards, &twice, &missing] {
            let sums = CellChecksums::new(rows);
            for piece in pieces {
                let mut out = vec![0; (piece.end - piece.start) as usize];
                sums.fill(piece.start, &mut out);
                assert_eq!(out, ordered[piece.start as usize..piece.end as usize]);
            }
            assert_eq!(sums.finish(), wanted, "{pieces:?}");
        }
    }
}
