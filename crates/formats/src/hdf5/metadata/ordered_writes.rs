//! Patches: changes of a file's own description, in an order that loses nothing. Pure.
//!
//! Unreferenced data is written first. The change in place is then one sector (see `metadata_cow.rs`); a larger change is first written after the
//! new end, as a *journal*: a program that ends in between leaves the journal, and the next open completes the change.

use xxhash_rust::xxh3::xxh3_64;

use super::metadata_file::MetadataWrite;

const MAGIC: &[u8; 16] = b"aqueduct-journal";
/// Bytes of a journal's end: where it begins, how long it is, its sum, the magic.
pub(crate) const TRAILER: u64 = 8 + 8 + 8 + 16;
/// What a device writes whole or not at all.
const SECTOR: u64 = 512;

/// Changes, sorted by when they may be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OrderedWrites {
    /// Writes to unreferenced space.
    pub(crate) unreferenced: Vec<MetadataWrite>,
    /// In places that are in use.
    pub(crate) in_place: Vec<MetadataWrite>,
    /// What no reader looks at.
    pub(crate) after: Vec<MetadataWrite>,
}

impl OrderedWrites {
    /// The changes of a file that had so many bytes. A new file is in use when it has its first sector.
    pub(crate) fn new(changes: Vec<MetadataWrite>, before: u64) -> Self {
        let border = if before == 0 { SECTOR } else { before };
        let (mut fresh, mut placed) = (Vec::new(), Vec::new());
        for (offset, mut bytes) in changes {
            if offset >= border {
                fresh.push((offset, bytes));
            } else {
                let later = bytes.split_off(((border - offset) as usize).min(bytes.len()));
                placed.push((offset, bytes));
                if !later.is_empty() {
                    fresh.push((border, later));
                }
            }
        }
        Self { unreferenced: fresh, in_place: placed, after: Vec::new() }
    }

    /// Whether the change of referenced data is atomic.
    fn is_atomic(&self) -> bool {
        match self.in_place.as_slice() {
            [] => true,
            [(offset, bytes)] => offset / SECTOR == (offset + bytes.len() as u64 - 1) / SECTOR,
            _ => false,
        }
    }

    /// The phases of the write, each durable before the next; and whether there is a journal, which is after `end`.
    pub(crate) fn phases(self, end: u64) -> (Vec<Vec<MetadataWrite>>, bool) {
        let journal = (!self.is_atomic()).then(|| vec![(end, self.journal(end))]);
        let journaled = journal.is_some();
        let phases = [self.unreferenced, journal.unwrap_or_default(), self.in_place, self.after];
        (phases.into_iter().filter(|phase| !phase.is_empty()).collect(), journaled)
    }

    /// The journal, which is written at the `end` of the file before referenced data changes.
    fn journal(&self, end: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (offset, piece) in &self.in_place {
            bytes.extend_from_slice(&offset.to_le_bytes());
            bytes.extend_from_slice(&(piece.len() as u64).to_le_bytes());
            bytes.extend_from_slice(piece);
        }
        let (length, sum) = (bytes.len() as u64, xxh3_64(&bytes));
        for number in [end, length, sum] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(MAGIC);
        bytes
    }
}

/// Where a journal begins, and how long it is, by the last bytes of a file of this length.
pub(crate) fn find_journal(trailer: &[u8], file: u64) -> Option<(u64, u64)> {
    let rest = trailer.strip_suffix(MAGIC)?;
    let (numbers, []) = rest.as_chunks::<8>() else { return None };
    let [end, length, _] = <[_; 3]>::try_from(numbers).ok()?.map(u64::from_le_bytes);
    (end.checked_add(length)?.checked_add(TRAILER)? == file).then_some((end, length))
}

/// The pieces of a journal, which begins where the file ended; none if it is not whole.
pub(crate) fn decode_journal(journal: &[u8]) -> Option<Vec<MetadataWrite>> {
    let (bytes, trailer) = journal.split_at_checked(journal.len().checked_sub(TRAILER as usize)?)?;
    let sum = u64::from_le_bytes(*trailer.get(16..)?.first_chunk()?);
    if sum != xxh3_64(bytes) {
        return None;
    }
    let (mut rest, mut pieces) = (bytes, Vec::new());
    while !rest.is_empty() {
        let (offset, tail) = rest.split_first_chunk()?;
        let (length, tail) = tail.split_first_chunk()?;
        let (piece, tail) = tail.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        pieces.push((u64::from_le_bytes(*offset), piece.to_vec()));
        rest = tail;
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_comes_last() {
        let patch = OrderedWrites::new(vec![(10, vec![1; 4]), (98, vec![2; 4]), (300, vec![3])], 100);
        assert_eq!(patch.unreferenced, [(100, vec![2; 2]), (300, vec![3])]);
        assert_eq!(patch.in_place, [(10, vec![1; 4]), (98, vec![2; 2])]);
        assert!(!patch.is_atomic());
        assert!(
            OrderedWrites::new(vec![(0, vec![1; 2000])], 0).is_atomic(),
            "a new file has nothing to lose"
        );
        assert!(
            !OrderedWrites::new(vec![(500, vec![1; 20])], 9000).is_atomic(),
            "over the border of a sector"
        );
    }

    #[test]
    fn a_journal_is_found_whole_or_not() {
        let patch = OrderedWrites::new(vec![(10, vec![1; 4]), (50, vec![2; 9])], 100);
        let journal = patch.journal(100);
        let file = 100 + journal.len() as u64;
        let trailer = &journal[journal.len() - TRAILER as usize..];
        assert_eq!(find_journal(trailer, file), Some((100, journal.len() as u64 - TRAILER)));
        assert_eq!(find_journal(trailer, file + 1), None);
        assert_eq!(decode_journal(&journal), Some(patch.in_place));
        for at in 0..journal.len() - TRAILER as usize {
            let mut torn = journal.clone();
            torn[at] ^= 1;
            assert_eq!(decode_journal(&torn), None);
        }
    }
}
