//! Commit: makes everything that was written visible to readers at once.

use std::ops::Range;

use aqueduct_comm::Op;
use aqueduct_comm::agreement::from_root;

use super::meta_file::{
    BLOCK, ChecksumUnits, CommitState, ENTRIES, IndexEntry, MetaArea, MetaSlot, SUMS, UNIT,
};
use super::open_file::{OpenObjectFile, WrittenObjects, merged};
use crate::error::{Kind, Result};

/// The changes of all ranks, on rank 0.
struct CommitData {
    count: u64,
    length: u64,
    /// The whole blocks that have changed, and their checksums.
    sums: Vec<(Range<u64>, Vec<u32>)>,
    entries: Vec<(u64, IndexEntry)>,
    generation: u64,
}

impl OpenObjectFile {
    /// Makes everything that all ranks have written durable, and visible to readers at once. Collective.
    pub(crate) fn commit(&self) -> Result<()> {
        if !self.mode.is_write() {
            return self.agree(
                "commit",
                Err(self.error(Kind::BadArgument, "commit", "the file was opened for reading only")),
            );
        }
        self.data.sync()?;
        if self.meta.is_none() {
            return Ok(());
        }
        let (dirty, high, generation, written, state) = {
            let changes = self.changes();
            let dirty = merged(changes.dirty.clone());
            (dirty, changes.high, changes.slot.generation, changes.written.clone(), changes.slot.state)
        };
        let changed = u64::from(!dirty.is_empty() || !written.is_empty() || state == CommitState::Changing);
        let end = dirty.iter().map(|range| range.end).max().unwrap_or(0);
        let most =
            self.map_comm_error("commit", self.comm.allreduce(Op::Max, &[changed, high, end, generation]))?;
        if most[0] == 0 {
            return Ok(());
        }
        let length = match self.size() {
            Some(size) => most[1] * size,
            None => most[2].max(self.changes().slot.length),
        };
        let filled = self.fill(length);
        let sums = self.gather_sums(&dirty, length)?;
        let sums = self.agree("commit", filled.and(sums))?;
        let entries = self.gather_entries(&written)?;
        let gathered = CommitData { count: most[1], length, sums, entries, generation: most[3] };
        let slot = if self.comm.rank() == 0 {
            self.write_state(gathered).map(|slot| slot.encode().to_vec())
        } else {
            Ok(Vec::new())
        };
        let slot = from_root(&self.comm, "commit", &self.name, slot)?;
        let slot = MetaSlot::decode(&slot)
            .map_err(|_| self.error(Kind::Communication, "commit", "rank 0 sent no valid slot"))?;
        let mut changes = self.changes();
        (changes.high, changes.slot) = (slot.count, slot);
        changes.dirty.clear();
        changes.written.clear();
        changes.verified.clear();
        Ok(())
    }

    /// Extends the data with zeros for objects at the end that no rank has written.
    fn fill(&self, length: u64) -> Result<()> {
        let found = self.raw_data.size()?;
        if found >= length {
            return Ok(());
        }
        let detail = format!(
            "the data has {found} bytes, {length} were written; another program may have truncated it"
        );
        Err(self.error(Kind::Damaged, "commit", detail))
    }

    /// The checksums of all blocks that any rank has changed: each rank reads its share once, rank 0 gathers them. The outer result is that of the
    /// communication, the inner one that of this rank.
    #[allow(clippy::type_complexity, reason = "a result of this rank inside a result of the communication")]
    fn gather_sums(&self, dirty: &[Range<u64>], length: u64) -> Result<Result<Vec<(Range<u64>, Vec<u32>)>>> {
        if !self.checksums {
            return Ok(Ok(Vec::new()));
        }
        let committed = self.changes().slot.length;
        let flat: Vec<[u64; 2]> = dirty.iter().map(|range| [range.start, range.end]).collect();
        let all = self.map_comm_error("commit", self.comm.allgather_varied(&flat))?.concat();
        let whole = length / BLOCK;
        let blocks = all.iter().map(|[start, end]| start / BLOCK..end.div_ceil(BLOCK).min(whole));
        // Blocks between the committed length and the new one are new on all ranks.
        let grown = committed / BLOCK..whole;
        let blocks = merged(blocks.chain([grown]).filter(|blocks| !blocks.is_empty()).collect());
        let mut gathered = Ok(Vec::new());
        for blocks in blocks {
            // A rank that cannot read its share takes part in the gather: the other ranks wait for it.
            let mine = self.compute_checksums(self.share(&blocks));
            let sums = mine.as_ref().map_or(&[][..], Vec::as_slice);
            let parts =
                self.map_comm_error("commit", self.comm.gather_varied(0, sums))?.unwrap_or_default().concat();
            gathered = gathered.and_then(|mut all: Vec<_>| {
                mine?;
                all.push((blocks, parts));
                Ok(all)
            });
        }
        Ok(gathered)
    }

    fn gather_entries(&self, written: &[WrittenObjects]) -> Result<Vec<(u64, IndexEntry)>> {
        if self.size().is_some() {
            return Ok(Vec::new());
        }
        let entries = written.iter().flat_map(WrittenObjects::entries);
        let flat: Vec<[u64; 3]> =
            entries.map(|(number, entry)| [number, entry.offset, entry.length]).collect();
        let all = self.map_comm_error("commit", self.comm.gather_varied(0, &flat))?.unwrap_or_default();
        let entry = |[number, offset, length]: [u64; 3]| (number, IndexEntry { offset, length });
        Ok(all.concat().into_iter().map(entry).collect())
    }

    /// Rank 0: writes the index and the checksums, then the slot.
    fn write_state(&self, gathered: CommitData) -> Result<MetaSlot> {
        let Some(meta) = &self.meta else { return Ok(self.changes().slot.clone()) };
        let old = self.changes().slot.clone();
        let mut slot =
            MetaSlot { state: CommitState::Complete, generation: gathered.generation + 1, ..old.clone() };
        (slot.count, slot.length) = (gathered.count, gathered.length);
        if self.checksums {
            let units = (slot.length / BLOCK).div_ceil(SUMS);
            (slot.sums, slot.end) =
                self.grow_area(old.sums, (old.length / BLOCK).div_ceil(SUMS), units, slot.end)?;
            self.write_sums(&slot, &old, &gathered.sums)?;
            slot.tail = self.compute_tail_checksum(slot.length)?;
        }
        if self.size().is_none() {
            let units = slot.count.div_ceil(ENTRIES);
            (slot.index, slot.end) =
                self.grow_area(old.index, old.count.div_ceil(ENTRIES), units, slot.end)?;
            self.write_entries(&slot, &old, gathered.entries)?;
        }
        meta.sync()?;
        self.write_slot(&slot)?;
        Ok(slot)
    }

    /// Space for so many units: in place if it is large enough, else twice as much at the end, with a copy of the units in use.
    fn grow_area(&self, area: MetaArea, used: u64, units: u64, end: u64) -> Result<(MetaArea, u64)> {
        let Some(meta) = self.meta.as_ref().filter(|_| units > area.room) else { return Ok((area, end)) };
        let larger = MetaArea { start: end, room: units.max(2 * area.room).max(8) };
        if used > 0 {
            let bytes = self.read_meta(area.start, used * UNIT as u64)?;
            meta.at(larger.start).write(&bytes)?;
        }
        Ok((larger, larger.start + larger.room * UNIT as u64))
    }

    fn write_sums(&self, slot: &MetaSlot, old: &MetaSlot, sums: &[(Range<u64>, Vec<u32>)]) -> Result<()> {
        let Some(meta) = &self.meta else { return Ok(()) };
        for (blocks, sums) in sums {
            let units = blocks.start / SUMS..blocks.end.div_ceil(SUMS);
            let place = slot.sums.start + units.start * UNIT as u64;
            // Units in use are read first: their other checksums are kept.
            let used = (old.length / BLOCK).div_ceil(SUMS).min(units.end).saturating_sub(units.start);
            let kept = if used == 0 { Vec::new() } else { self.read_meta(place, used * UNIT as u64)? };
            let mut all =
                ChecksumUnits::decode_all(&kept).map_err(|unit| self.bad_unit("checksums", place, unit))?;
            let first = (blocks.start - units.start * SUMS) as usize;
            all.resize(all.len().max(first + sums.len()), 0);
            all[first..first + sums.len()].copy_from_slice(sums);
            meta.at(place).write(&ChecksumUnits::encode_all(&all))?;
        }
        Ok(())
    }

    fn write_entries(&self, slot: &MetaSlot, old: &MetaSlot, entries: Vec<(u64, IndexEntry)>) -> Result<()> {
        let Some(meta) = &self.meta else { return Ok(()) };
        let numbers =
            entries.iter().map(|(number, _)| *number).chain((old.count < slot.count).then_some(old.count));
        let Some(first) = numbers.min().map(|first| first / ENTRIES) else { return Ok(()) };
        let place = slot.index.start + first * UNIT as u64;
        let used = old.count.div_ceil(ENTRIES).saturating_sub(first);
        let kept = if used == 0 { Vec::new() } else { self.read_meta(place, used * UNIT as u64)? };
        let mut all = IndexEntry::decode_all(&kept).map_err(|unit| self.bad_unit("index", place, unit))?;
        all.resize(all.len().max((slot.count - first * ENTRIES) as usize), IndexEntry::NONE);
        for (number, entry) in entries {
            all[(number - first * ENTRIES) as usize] = entry;
        }
        meta.at(place).write(&IndexEntry::encode_all(&all))?;
        Ok(())
    }
}
