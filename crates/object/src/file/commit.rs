//! Commit: makes everything that was written visible to readers at once.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;

use aqueduct_comm::agreement::{agree_with_max, from_root};

use super::checksums::CommittedTail;
use super::meta_file::{BLOCK, ChecksumUnits, CommitState, ENTRIES, MetaArea, MetaSlot, SUMS, UNIT};
use super::open_file::{OpenObjectFile, WrittenObjects, merged};
use crate::error::{Kind, Result};

/// The checksums of whole blocks that have changed.
type ChangedSums = Vec<(Range<u64>, Vec<u32>)>;

impl OpenObjectFile {
    /// Makes everything that all ranks have written durable, and visible to readers at once. Collective.
    pub(crate) fn commit(&self) -> Result<()> {
        if !self.mode.is_write() {
            return self.agree(
                "commit",
                Err(self.error(Kind::BadArgument, "commit", "the file was opened for reading only")),
            );
        }
        if self.meta.is_none() {
            return self.data.sync();
        }
        let (dirty, high, generation, written, state) = {
            let changes = self.changes();
            let dirty = merged(changes.dirty.clone());
            (dirty, changes.high, changes.slot.generation, changes.written.clone(), changes.slot.state)
        };
        let changed = u64::from(!dirty.is_empty() || !written.is_empty() || state == CommitState::Changing);
        let end = dirty.iter().map(|range| range.end).max().unwrap_or(0);
        let first = written.iter().filter_map(WrittenObjects::first).min().unwrap_or(u64::MAX);
        let start = dirty.iter().map(|range| range.start).min().unwrap_or(u64::MAX);
        // Ranks with one page cache need one sync, of rank 0, and no collective call for it.
        let finished = self.data.finish_writes();
        let is_separate = finished.as_ref().is_ok_and(|is_shared| !is_shared);
        // The lowest of all first objects and bytes as the highest of the numbers below the maximum.
        let (first, start) = (u64::MAX - first, u64::MAX - start);
        let numbers = [changed, high, end, generation, first, start, u64::from(is_separate)];
        let (_, most) = agree_with_max(&self.comm, "commit", &self.name, finished, numbers)?;
        let is_separate = most[6] != 0;
        if is_separate || most[0] == 0 {
            self.data.sync()?;
        }
        if most[0] == 0 {
            return Ok(());
        }
        let length = match self.size() {
            Some(size) => most[1] * size,
            None => most[2].max(self.changes().slot.length),
        };
        let (sums, tail) = self.changed_sums(&dirty, u64::MAX - most[5], length)?;
        let (old, slot) = self.next_slot(most[1], length, most[3] + 1);
        if self.size().is_none() {
            self.write_index(&old, &slot, u64::MAX - most[4], &written)?;
        }
        let slot = self.write_on_root("commit", || {
            if !is_separate {
                self.data.sync_alone()?;
            }
            self.write_state(slot, &old, &sums?, tail)
        })?;
        let mut changes = self.changes();
        (changes.high, changes.slot) = (slot.count, slot);
        changes.dirty.clear();
        changes.written.clear();
        changes.verified.clear();
        Ok(())
    }

    /// The number that identifies the current commit to its sorted indices. A commit without one gets one, in a new slot. Collective; without
    /// uncommitted changes.
    pub(super) fn identify_commit(&self, operation: &'static str) -> Result<u64> {
        let slot = self.changes().slot.clone();
        if slot.commit_id != 0 {
            return Ok(slot.commit_id);
        }
        let able = if self.mode.is_write() {
            Ok(())
        } else {
            let detail = "the first index of a commit is noted in the file; open it for writing";
            Err(self.error(Kind::BadArgument, operation, detail))
        };
        self.agree(operation, able)?;
        let slot = self.write_on_root(operation, || {
            let commit_id = RandomState::new().build_hasher().finish().max(1);
            let slot = MetaSlot { generation: slot.generation + 1, commit_id, ..slot };
            self.write_slot(&slot)?;
            Ok(slot)
        })?;
        let commit_id = slot.commit_id;
        self.changes().slot = slot;
        Ok(commit_id)
    }

    /// Rank 0 writes a slot, which all ranks get. Collective.
    fn write_on_root(
        &self,
        operation: &'static str,
        write: impl FnOnce() -> Result<MetaSlot>,
    ) -> Result<MetaSlot> {
        let mine = self.comm.rank() == 0;
        let slot = if mine { write().map(|slot| slot.encode().to_vec()) } else { Ok(Vec::new()) };
        let slot = from_root(&self.comm, operation, &self.name, slot)?;
        MetaSlot::decode(&slot)
            .map_err(|_| self.error(Kind::Communication, operation, "rank 0 sent no valid slot"))
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

    /// The checksums of all blocks that any rank has changed, on rank 0, and the committed tail if all changes are after it, from byte `start` on. The
    /// outer result is the same on all ranks.
    fn changed_sums(
        &self,
        dirty: &[Range<u64>],
        start: u64,
        length: u64,
    ) -> Result<(Result<ChangedSums>, Option<CommittedTail>)> {
        let (committed, sum) = {
            let slot = &self.changes().slot;
            (slot.length, slot.tail)
        };
        let is_appended = start >= committed;
        let is_extended = is_appended && length >= committed;
        let tail = is_extended.then_some(CommittedTail { length: committed, sum });
        let grown = committed / BLOCK..length / BLOCK;
        if is_appended && grown.end <= grown.start + 1 {
            // One block is rank 0's share anyway: nothing is gathered, and an error reaches the other ranks with the slot.
            let mine = self.comm.rank() == 0;
            let filled = if mine { self.fill(length) } else { Ok(()) };
            let blocks = if mine { grown } else { 0..0 };
            return Ok((filled.and_then(|()| self.sums_of_root(blocks, tail)), tail));
        }
        let filled = self.fill(length);
        let sums = self.gather_sums(if is_appended { None } else { Some(dirty) }, length, tail)?;
        Ok((Ok(self.agree("commit", filled.and(sums))?), tail))
    }

    /// The checksums of these blocks, computed by this rank alone.
    fn sums_of_root(&self, blocks: Range<u64>, tail: Option<CommittedTail>) -> Result<ChangedSums> {
        if !self.checksums || blocks.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![(blocks.clone(), self.compute_checksums(blocks, tail)?)])
    }

    /// The checksums of all blocks that any rank has changed: each rank reads its share once, rank 0 gathers them. The outer result is that of the
    /// communication, the inner one that of this rank.
    fn gather_sums(
        &self,
        dirty: Option<&[Range<u64>]>,
        length: u64,
        tail: Option<CommittedTail>,
    ) -> Result<Result<ChangedSums>> {
        if !self.checksums {
            return Ok(Ok(Vec::new()));
        }
        let committed = self.changes().slot.length;
        let all = match dirty {
            // All changes are after the committed data: in blocks that are new on all ranks.
            None => Vec::new(),
            Some(dirty) => {
                let flat: Vec<[u64; 2]> = dirty.iter().map(|range| [range.start, range.end]).collect();
                self.map_comm_error("commit", self.comm.allgather_varied(&flat))?.concat()
            }
        };
        let whole = length / BLOCK;
        let blocks = all.iter().map(|[start, end]| start / BLOCK..end.div_ceil(BLOCK).min(whole));
        // Blocks between the committed length and the new one are new on all ranks.
        let grown = committed / BLOCK..whole;
        let blocks = merged(blocks.chain([grown]).filter(|blocks| !blocks.is_empty()).collect());
        let mut gathered = Ok(Vec::new());
        for blocks in blocks {
            // A rank that cannot read its share takes part in the gather: the other ranks wait for it.
            let mine = self.compute_checksums(self.share(&blocks), tail);
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

    /// The current slot, and the next one without its checksum: the same areas on all ranks.
    fn next_slot(&self, count: u64, length: u64, generation: u64) -> (MetaSlot, MetaSlot) {
        let old = self.changes().slot.clone();
        let state = CommitState::Complete;
        let mut slot = MetaSlot { state, generation, count, length, commit_id: 0, ..old.clone() };
        if self.checksums {
            (slot.sums, slot.end) = grown(old.sums, (length / BLOCK).div_ceil(SUMS), slot.end);
        }
        if self.size().is_none() {
            (slot.index, slot.end) = grown(old.index, count.div_ceil(ENTRIES), slot.end);
        }
        (old, slot)
    }

    /// Rank 0: writes the checksums, then the slot.
    fn write_state(
        &self,
        mut slot: MetaSlot,
        old: &MetaSlot,
        sums: &ChangedSums,
        tail: Option<CommittedTail>,
    ) -> Result<MetaSlot> {
        let Some(meta) = &self.meta else { return Ok(self.changes().slot.clone()) };
        if self.checksums {
            let used = (old.length / BLOCK).div_ceil(SUMS);
            if slot.sums.start != old.sums.start && used > 0 {
                let bytes = self.read_meta(old.sums.start, used * UNIT as u64)?;
                meta.at(slot.sums.start).write(&bytes)?;
            }
            self.write_sums(&slot, old, sums)?;
            slot.tail = self.compute_tail_checksum(slot.length, tail)?;
        }
        // The index was synced by the ranks that wrote it.
        if !sums.is_empty() || slot.sums.start != old.sums.start {
            meta.sync()?;
        }
        self.write_slot(&slot)?;
        Ok(slot)
    }

    fn write_sums(&self, slot: &MetaSlot, old: &MetaSlot, sums: &ChangedSums) -> Result<()> {
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
}

/// Space for so many units: in place if it is large enough, else twice as much at the end.
fn grown(area: MetaArea, units: u64, end: u64) -> (MetaArea, u64) {
    if units <= area.room {
        return (area, end);
    }
    let larger = MetaArea { start: end, room: units.max(2 * area.room).max(8) };
    (larger, larger.start + larger.room * UNIT as u64)
}
