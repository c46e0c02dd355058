//! The index: the offsets and lengths of objects of variable size.

use super::meta_file::{ENTRIES, IndexEntry, UNIT};
use super::open_file::{OpenObjectFile, WrittenObjects};
use super::view::ObjectView;
use crate::error::{Kind, Result};

impl WrittenObjects {
    /// The entry of object `number`, if it is one of these.
    fn find(&self, number: u64) -> Option<IndexEntry> {
        let at = self.view.place(number)?.checked_sub(self.start)? as usize;
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(IndexEntry { offset: self.offset + start, length: end - start })
    }

    /// Every object with its entry.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, IndexEntry)> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let places = (self.start..).zip(starts.zip(&self.ends));
        places.filter_map(|(place, (start, end))| {
            Some((self.view.number(place)?, IndexEntry { offset: self.offset + start, length: end - start }))
        })
    }
}

impl OpenObjectFile {
    /// The entries of `count` objects of a view, from its object `start` on.
    pub(crate) fn entries(
        &self,
        view: &ObjectView,
        start: u64,
        count: u64,
    ) -> Result<Vec<(u64, IndexEntry)>> {
        let numbers: Vec<u64> = (start..start + count).map_while(|place| view.number(place)).collect();
        let (slot, mine) = {
            let changes = self.changes();
            (changes.slot.clone(), changes.written.clone())
        };
        let committed: Vec<u64> = numbers.iter().copied().filter(|number| *number < slot.count).collect();
        let units = match (committed.first(), committed.last()) {
            (Some(first), Some(last)) => first / ENTRIES..last / ENTRIES + 1,
            _ => 0..0,
        };
        let length = (units.end - units.start) * UNIT as u64;
        let bytes = if length == 0 {
            Vec::new()
        } else {
            self.read_meta(slot.index.start + units.start * UNIT as u64, length)?
        };
        let index = IndexEntry::decode_all(&bytes)
            .map_err(|unit| self.bad_unit("index", slot.index.start, units.start + unit))?;
        let size = self.raw_data.size()?;
        let entry = |number: u64| {
            // A rank reads what it wrote last.
            let own = mine.iter().rev().find_map(|written| written.find(number));
            let stored = || index.get(number.checked_sub(units.start * ENTRIES)? as usize).copied();
            let entry = own.or_else(stored).unwrap_or(IndexEntry::NONE);
            if entry == IndexEntry::NONE {
                let detail = format!(
                    "object {number} was not written, or was written by another rank and not committed yet"
                );
                return Err(self.error(Kind::Damaged, "read", detail));
            }
            if entry.offset.checked_add(entry.length).is_none_or(|end| end > size) {
                let (offset, length) = (entry.offset, entry.length);
                let detail = format!(
                    "the index gives object {number} {length} bytes from byte {offset} on, after the end of the data; repair the file"
                );
                return Err(self.error(Kind::Damaged, "read", detail));
            }
            Ok((number, entry))
        };
        numbers.into_iter().map(entry).collect()
    }
}
