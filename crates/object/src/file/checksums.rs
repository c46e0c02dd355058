//! Checksums of the data: computed by the commit, compared by reads.

use std::ops::Range;

use aqueduct_file::Count;

use super::meta_file::{BLOCK, ChecksumUnits, CommitState, SUMS, UNIT};
use super::open_file::{OpenObjectFile, merged};
use super::scope::ObjectScope;
use crate::error::{Kind, Result};

/// The number of blocks that are read at a time.
const BATCH: u64 = 16;

/// The CRC of the committed bytes after the last whole block; it is continued with bytes that were appended.
#[derive(Clone, Copy)]
pub(super) struct CommittedTail {
    /// The committed length of the data.
    pub(super) length: u64,
    pub(super) sum: u32,
}

impl CommittedTail {
    /// The tail, if it is in this block.
    fn in_block(tail: Option<Self>, block: u64) -> Option<Self> {
        tail.filter(|tail| tail.length / BLOCK == block && !tail.length.is_multiple_of(BLOCK))
    }
}

impl OpenObjectFile {
    /// The CRCs of whole blocks of the stored data. With a tail only bytes after it are read.
    pub(super) fn compute_checksums(
        &self,
        blocks: Range<u64>,
        tail: Option<CommittedTail>,
    ) -> Result<Vec<u32>> {
        let mut sums = Vec::with_capacity((blocks.end - blocks.start) as usize);
        let mut at = blocks.start;
        if let Some(tail) = CommittedTail::in_block(tail, at).filter(|_| !blocks.is_empty()) {
            sums.push(self.continue_checksum(tail, (at + 1) * BLOCK)?);
            at += 1;
        }
        let mut buffer = vec![0; (BATCH.min(blocks.end.saturating_sub(at)) * BLOCK) as usize];
        while at < blocks.end {
            let part = &mut buffer[..(BATCH.min(blocks.end - at) * BLOCK) as usize];
            self.read_bytes(at * BLOCK, part)?;
            sums.extend(part.chunks_exact(BLOCK as usize).map(crc32c::crc32c));
            at += BATCH;
        }
        Ok(sums)
    }

    /// The CRC of the bytes of a block up to `end`: those of the tail are not read.
    fn continue_checksum(&self, tail: CommittedTail, end: u64) -> Result<u32> {
        let mut bytes = vec![0; (end - tail.length) as usize];
        self.read_bytes(tail.length, &mut bytes)?;
        Ok(crc32c::crc32c_append(tail.sum, &bytes))
    }

    /// The CRC of the bytes between the last whole block and `length`. With a tail only bytes after it are read.
    pub(super) fn compute_tail_checksum(&self, length: u64, tail: Option<CommittedTail>) -> Result<u32> {
        if let Some(tail) = CommittedTail::in_block(tail, length / BLOCK) {
            return self.continue_checksum(tail, length);
        }
        let mut bytes = vec![0; (length % BLOCK) as usize];
        self.read_bytes(length - length % BLOCK, &mut bytes)?;
        Ok(crc32c::crc32c(&bytes))
    }

    /// Reads bytes of the data; fewer are an error.
    pub(crate) fn read_bytes(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let count = self.raw_data.at(offset).read(&mut *bytes)?;
        self.check_length(offset, bytes.len(), count)
    }

    /// Fails if fewer bytes than wanted were read from `offset` on.
    pub(crate) fn check_length(&self, offset: u64, wanted: usize, count: Count) -> Result<()> {
        if count.bytes() == wanted as u64 {
            return Ok(());
        }
        let end = offset + count.bytes();
        let detail = format!("the data ends at byte {end}, expected {wanted} bytes from byte {offset} on");
        Err(self.error(Kind::Damaged, "read", detail))
    }

    /// True if all blocks of these bytes have been compared.
    fn is_verified(&self, bytes: &Range<u64>) -> bool {
        let changes = self.changes();
        let mut blocks = bytes.start / BLOCK..bytes.end.div_ceil(BLOCK);
        bytes.is_empty() || blocks.all(|block| changes.verified.get(block as usize).is_some_and(|done| *done))
    }

    /// Compares the checksums of all blocks of these bytes, once per block.
    pub(crate) fn verify(&self, bytes: Range<u64>) -> Result<()> {
        if !self.verifies() || self.is_verified(&bytes) {
            return Ok(());
        }
        self.compare(bytes.start / BLOCK..bytes.end.div_ceil(BLOCK))
    }

    /// Compares all data with its checksums; the ranks share the work. Collective.
    pub(crate) fn verify_all(&self) -> Result<()> {
        let (length, changed) = {
            let changes = self.changes();
            (changes.slot.length, !changes.dirty.is_empty() || changes.slot.state == CommitState::Changing)
        };
        if changed {
            let detail = "there are uncommitted changes; commit first";
            return self.agree("verify", Err(self.error(Kind::BadArgument, "verify", detail)));
        }
        if !self.checksums {
            return self.agree("verify", Ok(()));
        }
        let blocks = self.share(&(0..length.div_ceil(BLOCK)));
        self.agree("verify", self.compare(blocks))
    }

    /// Compares the checksums of bytes that were read, collectively if the access is collective.
    pub(crate) fn verify_in<S: ObjectScope>(&self, bytes: Range<u64>) -> Result<()> {
        if S::IS_COLLECTIVE { self.verify_collective(bytes) } else { self.verify(bytes) }
    }

    /// As [`verify`](Self::verify); the ranks share the work. Collective.
    pub(crate) fn verify_collective(&self, bytes: Range<u64>) -> Result<()> {
        if !self.verifies() || self.changes().all_verified {
            return Ok(());
        }
        let new = u64::from(!self.is_verified(&bytes));
        let hulls = self.map_comm_error("read", self.comm.allgather(&[[bytes.start, bytes.end, new]]))?;
        if hulls.iter().all(|[_, _, new]| *new == 0) {
            return Ok(());
        }
        let ranges = hulls.iter().map(|[start, end, _]| start / BLOCK..end.div_ceil(BLOCK));
        let union = merged(ranges.filter(|range| !range.is_empty()).collect());
        let outcome = union.iter().try_for_each(|blocks| self.compare(self.share(blocks)));
        self.agree("read", outcome)?;
        let blocks = self.changes().slot.length.div_ceil(BLOCK);
        // Every rank has computed the same union.
        self.changes().all_verified = union.iter().any(|part| part.start == 0 && part.end >= blocks);
        union.into_iter().for_each(|blocks| self.note_verified(blocks));
        Ok(())
    }

    /// This rank's share of blocks.
    pub(crate) fn share(&self, blocks: &Range<u64>) -> Range<u64> {
        let (rank, size, count) =
            (self.comm.rank() as u64, self.comm.size() as u64, blocks.end - blocks.start);
        let part = count.div_ceil(size);
        let start = (blocks.start + rank * part).min(blocks.end);
        start..(start + part).min(blocks.end)
    }

    fn note_verified(&self, blocks: Range<u64>) {
        let mut changes = self.changes();
        if changes.verified.len() < blocks.end as usize {
            changes.verified.resize(blocks.end as usize, false);
        }
        changes.verified[blocks.start as usize..blocks.end as usize].fill(true);
    }

    /// Compares the checksums of these blocks with the committed ones. The last block may be partial.
    pub(crate) fn compare(&self, blocks: Range<u64>) -> Result<()> {
        let slot = self.changes().slot.clone();
        let whole = slot.length / BLOCK;
        let bad = |block: u64| {
            let (start, end) = (block * BLOCK, ((block + 1) * BLOCK).min(slot.length));
            let detail =
                format!("the data has changed since the commit: wrong checksum of bytes {start} to {end}");
            Err(self.error(Kind::Damaged, "read", detail))
        };
        let inner = blocks.start..blocks.end.min(whole);
        if !inner.is_empty() {
            let committed = self.committed_sums(slot.sums.start, &inner)?;
            let found = self.compute_checksums(inner.clone(), None)?;
            if let Some(at) = committed.iter().zip(&found).position(|(committed, found)| committed != found) {
                return bad(inner.start + at as u64);
            }
        }
        if blocks.end > whole
            && blocks.start <= whole
            && self.compute_tail_checksum(slot.length, None)? != slot.tail
        {
            return bad(whole);
        }
        self.note_verified(blocks);
        Ok(())
    }

    fn committed_sums(&self, start: u64, blocks: &Range<u64>) -> Result<Vec<u32>> {
        let units = blocks.start / SUMS..blocks.end.div_ceil(SUMS);
        let bytes =
            self.read_meta(start + units.start * UNIT as u64, (units.end - units.start) * UNIT as u64)?;
        let sums = ChecksumUnits::decode_all(&bytes)
            .map_err(|unit| self.bad_unit("checksums", start, units.start + unit))?;
        let first = (blocks.start - units.start * SUMS) as usize;
        Ok(sums[first..first + (blocks.end - blocks.start) as usize].to_vec())
    }

    pub(super) fn bad_unit(&self, what: &str, start: u64, unit: u64) -> crate::Error {
        let place = start + unit * UNIT as u64;
        let detail = format!(
            "the {what} in the .meta are damaged, in the {UNIT} bytes from byte {place} on; repair the file"
        );
        self.error(Kind::Damaged, "read", detail)
    }
}
