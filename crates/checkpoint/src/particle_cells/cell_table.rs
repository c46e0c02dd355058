//! Header and table of a cell file as bytes; no I/O.

use crate::error::Kind;
use crate::grid::CellGrid;

/// Size of the header in bytes.
pub(super) const HEADER: usize = 512;

/// Size of an entry of the table in bytes.
pub(super) const ENTRY: usize = 24;

const MAGIC: &[u8; 8] = b"AQUECELL";
const VERSION: u32 = 1;
const ORDER: u32 = 0x0102_0304;

/// The data begins at a multiple of this.
const ALIGNMENT: u64 = 4096;

/// The header of a cell file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CellHeader {
    pub(super) grid: CellGrid,
    pub(super) particles: u64,
    /// Bytes of a particle.
    pub(super) row: u64,
    /// Checksum of the table.
    pub(super) table: u32,
}

/// A cell: the number of particles before it, the number in it, and their checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CellEntry {
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) sum: u32,
}

/// A defect of a cell file, and its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CellFileFlaw {
    pub(super) kind: Kind,
    pub(super) place: u64,
    pub(super) what: String,
}

impl CellFileFlaw {
    fn new(kind: Kind, place: u64, what: impl Into<String>) -> Self {
        Self { kind, place, what: what.into() }
    }

    fn damaged(place: u64, what: impl Into<String>) -> Self {
        Self::new(Kind::Damaged, place, what)
    }
}

impl CellHeader {
    /// The offset of the data.
    pub(super) fn data(&self) -> u64 {
        data(&self.grid)
    }

    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &ORDER.to_le_bytes());
        put(16, &self.particles.to_le_bytes());
        for d in 0..3 {
            put(24 + 8 * d, &self.grid.cells()[d].to_le_bytes());
            put(48 + 8 * d, &self.grid.length()[d].to_le_bytes());
        }
        put(72, &self.row.to_le_bytes());
        put(80, &(HEADER as u64).to_le_bytes());
        put(88, &self.data().to_le_bytes());
        put(96, &self.table.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..HEADER - 4]);
        bytes[HEADER - 4..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes a header; `length`, the length of the file, bounds the sizes that are accepted.
    pub(super) fn decode(bytes: &[u8], length: u64) -> Result<Self, CellFileFlaw> {
        let Some(bytes) = bytes.first_chunk::<HEADER>() else {
            let what = format!("a cell file has at least {HEADER} bytes");
            return Err(CellFileFlaw::damaged(bytes.len() as u64, what));
        };
        let word = |at: usize| u64::from_le_bytes(bytes[at..].first_chunk().copied().unwrap_or_default());
        let half = |at: usize| u32::from_le_bytes(bytes[at..].first_chunk().copied().unwrap_or_default());
        if bytes[..] == [0; HEADER] {
            let what = "the file is incomplete: its header was never written";
            return Err(CellFileFlaw::new(Kind::Incomplete, 0, what));
        }
        if !bytes.starts_with(MAGIC) {
            return Err(CellFileFlaw::damaged(0, "not a cell file"));
        }
        if half(12) == ORDER.swap_bytes() {
            let what = "the file has the byte order of another machine, which is not supported";
            return Err(CellFileFlaw::new(Kind::UnknownVersion, 12, what));
        }
        if half(12) != ORDER {
            return Err(CellFileFlaw::damaged(12, "invalid byte-order mark"));
        }
        if half(8) != VERSION {
            let what = format!("version {} is not supported; this program reads version {VERSION}", half(8));
            return Err(CellFileFlaw::new(Kind::UnknownVersion, 8, what));
        }
        if half(HEADER - 4) != crc32c::crc32c(&bytes[..HEADER - 4]) {
            return Err(CellFileFlaw::damaged(HEADER as u64 - 4, "the checksum of the header is wrong"));
        }
        let edges = [48, 56, 64].map(|at| f64::from_bits(word(at)));
        let grid = CellGrid::new(edges, [24, 32, 40].map(word))
            .ok_or_else(|| CellFileFlaw::damaged(24, "invalid grid of cells"))?;
        let header = Self { grid, particles: word(16), row: word(72), table: half(96) };
        if word(80) != HEADER as u64 || word(88) != header.data() {
            return Err(CellFileFlaw::damaged(80, "the offset of the table or of the data is wrong"));
        }
        let end = header.row.checked_mul(header.particles).and_then(|size| size.checked_add(header.data()));
        match end {
            Some(end) if end == length => Ok(header),
            _ => Err(CellFileFlaw::damaged(
                16,
                format!(
                    "{} particles of {} bytes do not match the {length} bytes of the file",
                    header.particles, header.row
                ),
            )),
        }
    }
}

/// The offset of the data, after the table of these cells.
pub(super) fn data(grid: &CellGrid) -> u64 {
    (HEADER as u64 + grid.count() * ENTRY as u64).next_multiple_of(ALIGNMENT)
}

/// Encodes the table of all cells; `held` are the cells with particles, ascending.
pub(super) fn encode(grid: &CellGrid, held: impl Iterator<Item = (u64, u64, u32)>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(grid.count() as usize * ENTRY);
    let mut put = |first: u64, count: u64, sum: u32| {
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes.extend_from_slice(&u64::from(sum).to_le_bytes());
    };
    let (mut cell, mut before) = (0, 0);
    for (held, count, sum) in held {
        (cell..held).for_each(|_| put(before, 0, 0));
        put(before, count, sum);
        (cell, before) = (held + 1, before + count);
    }
    (cell..grid.count()).for_each(|_| put(before, 0, 0));
    bytes
}

/// Checks a table against the header: its checksum, and that the cells are adjacent.
pub(super) fn check(header: &CellHeader, table: &[u8]) -> Result<(), CellFileFlaw> {
    if crc32c::crc32c(table) != header.table {
        return Err(CellFileFlaw::damaged(HEADER as u64, "the checksum of the table is wrong"));
    }
    let mut before = 0_u64;
    for (cell, place) in cells(table).zip((HEADER as u64..).step_by(ENTRY)) {
        if cell.first != before {
            return Err(CellFileFlaw::damaged(place, "a cell does not begin at the end of the previous one"));
        }
        let after = before.checked_add(cell.count);
        before = after.ok_or_else(|| CellFileFlaw::damaged(place, "the number of particles overflows"))?;
    }
    if before == header.particles {
        return Ok(());
    }
    let what = format!("the cells hold {before} particles, but the header says {}", header.particles);
    Err(CellFileFlaw::damaged(HEADER as u64, what))
}

/// The entries of a table.
pub(super) fn cells(table: &[u8]) -> impl Iterator<Item = CellEntry> + '_ {
    table.chunks_exact(ENTRY).map(|entry| {
        let word = |at: usize| u64::from_le_bytes(entry[at..].first_chunk().copied().unwrap_or_default());
        CellEntry { first: word(0), count: word(8), sum: word(16) as u32 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_table_survive_encoding_and_decoding() {
        let grid = CellGrid::new([1.0, 2.0, 3.0], [3, 2, 1]).unwrap();
        let table = encode(&grid, [(1, 5, 77), (4, 2, 88)].into_iter());
        let header = CellHeader { grid, particles: 7, row: 120, table: crc32c::crc32c(&table) };
        assert_eq!(CellHeader::decode(&header.encode(), 4096 + 7 * 120), Ok(header.clone()));
        assert_eq!(check(&header, &table), Ok(()));
        let counts: Vec<(u64, u64)> = cells(&table).map(|cell| (cell.first, cell.count)).collect();
        assert_eq!(counts, [(0, 0), (0, 5), (5, 0), (5, 0), (5, 2), (7, 0)]);
    }

    #[test]
    fn errors_name_the_offset() {
        let grid = CellGrid::new([1.0; 3], [2, 1, 1]).unwrap();
        let table = encode(&grid, [(0, 5, 77)].into_iter());
        let header = CellHeader { grid, particles: 5, row: 120, table: crc32c::crc32c(&table) };
        let bytes = header.encode();
        let length = 4096 + 600;
        assert_eq!(CellHeader::decode(&bytes[..100], 100).unwrap_err().place, 100);
        assert!(CellHeader::decode(&[0; HEADER], length).unwrap_err().kind == Kind::Incomplete);
        assert_eq!(CellHeader::decode(&bytes, length - 1).unwrap_err().place, 16);
        for (at, found) in [(0, 0), (8, 8), (12, 12), (16, 508), (200, 508)] {
            let mut broken = bytes;
            broken[at] ^= 1;
            assert_eq!(CellHeader::decode(&broken, length).unwrap_err().place, found);
        }
        let kind = |at: usize, value: u32| {
            let mut other = bytes;
            other[at..at + 4].copy_from_slice(&value.to_le_bytes());
            CellHeader::decode(&other, length).unwrap_err().kind
        };
        assert_eq!(kind(8, VERSION + 1), Kind::UnknownVersion);
        assert_eq!((kind(12, ORDER.swap_bytes()), kind(12, 7)), (Kind::UnknownVersion, Kind::Damaged));
        let mut broken = table.clone();
        broken[30] ^= 1;
        assert!(check(&header, &broken).is_err());
        let lying = CellHeader { table: crc32c::crc32c(&broken), ..header };
        assert!(check(&lying, &broken).is_err());
    }
}
