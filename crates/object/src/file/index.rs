//! The index: the offsets and lengths of objects of variable size.

use std::ops::Range;

use super::meta_file::{ENTRIES, IndexEntry, MetaSlot, UNIT};
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

    /// The lowest number of these objects.
    pub(super) fn first(&self) -> Option<u64> {
        if self.ends.is_empty() { None } else { self.view.number(self.start) }
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

    /// Writes the index entries of the objects that all ranks have written, the lowest of which is object `first`. The ranks share the units of the index:
    /// each gets the entries of its units from the others. Collective.
    pub(super) fn write_index(
        &self,
        old: &MetaSlot,
        slot: &MetaSlot,
        first: u64,
        written: &[WrittenObjects],
    ) -> Result<()> {
        let is_moved = slot.index.start != old.index.start;
        // New objects that no rank has written get an entry too.
        let first = if slot.count > old.count { first.min(old.count) } else { first };
        let first_unit = if is_moved { 0 } else { first / ENTRIES };
        let last_unit = slot.count.div_ceil(ENTRIES);
        let units = first_unit.min(last_unit)..last_unit;
        let received = self.distribute_entries(&units, written)?;
        let mine = self.share(&units);
        let written = if mine.is_empty() { Ok(()) } else { self.write_units(old, slot, mine, &received) };
        self.agree("commit", written)
    }

    /// Sends the entry of each object to the rank that writes its unit; the entries of this rank's units: number, offset, length.
    fn distribute_entries(&self, units: &Range<u64>, written: &[WrittenObjects]) -> Result<Vec<[u64; 3]>> {
        let share = (units.end - units.start).div_ceil(self.comm.size() as u64).max(1);
        let mut parts: Vec<Vec<[u64; 3]>> = vec![Vec::new(); self.comm.size()];
        for (number, entry) in written.iter().flat_map(WrittenObjects::entries) {
            let owner = (number / ENTRIES).saturating_sub(units.start) / share;
            if let Some(part) = parts.get_mut(owner as usize) {
                part.push([number, entry.offset, entry.length]);
            }
        }
        let received = self.comm.all_to_all_varied::<[u64; 3], _>(&parts);
        // In rank order: of several entries of an object the last one counts.
        Ok(self.map_comm_error("commit", received)?.concat())
    }

    /// Writes these units: entries that were committed, overwritten by the received ones.
    fn write_units(
        &self,
        old: &MetaSlot,
        slot: &MetaSlot,
        units: Range<u64>,
        received: &[[u64; 3]],
    ) -> Result<()> {
        let Some(meta) = &self.meta else { return Ok(()) };
        let kept = old.count.div_ceil(ENTRIES).min(units.end).saturating_sub(units.start);
        let place = old.index.start + units.start * UNIT as u64;
        let bytes = if kept == 0 { Vec::new() } else { self.read_meta(place, kept * UNIT as u64)? };
        let mut entries =
            IndexEntry::decode_all(&bytes).map_err(|unit| self.bad_unit("index", place, unit))?;
        entries.resize(((units.end - units.start) * ENTRIES) as usize, IndexEntry::NONE);
        for [number, offset, length] in received {
            let entry = IndexEntry { offset: *offset, length: *length };
            if let Some(place) = number.checked_sub(units.start * ENTRIES)
                && let Some(old) = entries.get_mut(place as usize)
            {
                *old = entry;
            }
        }
        meta.at(slot.index.start + units.start * UNIT as u64).write(&IndexEntry::encode_all(&entries))?;
        meta.sync()
    }
}
