//! Where objects of variable size lie.

use super::meta_file::{ENTRIES, IndexEntry, UNIT};
use super::open_file::{OpenObjectFile, WrittenObjects};
use super::view::ObjectView;
use crate::error::{Kind, Result};

impl WrittenObjects {
    /// Where object `number` was written, if it is one of these.
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
    /// The entries of `count` objects of a view, from place `start` on.
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
            // What this rank wrote last is what it reads.
            let own = mine.iter().rev().find_map(|written| written.find(number));
            let stored = || index.get(number.checked_sub(units.start * ENTRIES)? as usize).copied();
            let entry = own.or_else(stored).unwrap_or(IndexEntry::NONE);
            if entry == IndexEntry::NONE {
                let detail =
                    format!("object {number} was never written, or by another rank and not yet committed");
                return Err(self.error(Kind::Damaged, "read", detail));
            }
            if entry.offset.checked_add(entry.length).is_none_or(|end| end > size) {
                let (offset, length) = (entry.offset, entry.length);
                let detail = format!(
                    "object {number} should have {length} bytes from {offset} on, behind the data; repair it"
                );
                return Err(self.error(Kind::Damaged, "read", detail));
            }
            Ok((number, entry))
        };
        numbers.into_iter().map(entry).collect()
    }
}
