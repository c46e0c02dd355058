//! Encoding and decoding of `<name>.meta`; `docs/format-object.md` specifies it. No I/O.

use serde::{Deserialize, Serialize};

use crate::FileProvenance;
use crate::schema::{ByteOrder, Schema, Type};

/// The version of the format.
pub(crate) const VERSION: u32 = 1;
pub(crate) const MAGIC: [u8; 8] = *b"AQUEMETA";
/// Bytes of a slot, of a unit of the index and of a unit of the checksums.
pub(crate) const UNIT: usize = 512;
/// The offset of the unit that says who created the file.
pub(crate) const PROVENANCE: u64 = 512;
/// The offset of the description.
pub(crate) const DESCRIPTION: u64 = 8192;
/// Bytes of a block of data, which has one checksum.
pub(crate) const BLOCK: u64 = 1 << 16;
/// Checksums in a unit.
pub(crate) const SUMS: u64 = 127;
/// Index entries in a unit.
pub(crate) const ENTRIES: u64 = 31;

/// The state of the file that a slot describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitState {
    Changing = 1,
    Complete = 2,
}

/// An extendible area of the `.meta`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetaArea {
    pub(crate) start: u64,
    /// In units.
    pub(crate) room: u64,
}

/// A committed state of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetaSlot {
    pub(crate) state: CommitState,
    pub(crate) generation: u64,
    pub(crate) count: u64,
    pub(crate) length: u64,
    pub(crate) description_length: u64,
    pub(crate) description_sum: u32,
    pub(crate) tail: u32,
    pub(crate) index: MetaArea,
    pub(crate) sums: MetaArea,
    pub(crate) end: u64,
    /// Identifies this commit to its sorted indices; 0 if none was built.
    pub(crate) commit_id: u64,
}

/// The reason why a slot cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlotError {
    /// It was never written.
    Empty,
    Damaged,
    Version(u32),
}

impl MetaSlot {
    /// The offset of the slot of this generation.
    pub(crate) fn place(&self) -> u64 {
        4096 * (self.generation % 2)
    }

    pub(crate) fn encode(&self) -> [u8; UNIT] {
        let mut bytes = [0; UNIT];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.state as u32).to_le_bytes());
        let longs = [self.generation, self.count, self.length, self.description_length];
        put(&mut bytes[16..], &longs);
        bytes[48..52].copy_from_slice(&self.description_sum.to_le_bytes());
        bytes[52..56].copy_from_slice(&self.tail.to_le_bytes());
        let (index, sums) = (self.index, self.sums);
        let longs = [index.start, index.room, sums.start, sums.room, self.end, self.commit_id];
        put(&mut bytes[56..], &longs);
        seal(&mut bytes);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, SlotError> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(SlotError::Empty);
        }
        if bytes.len() < UNIT || bytes[..8] != MAGIC || !is_sealed(&bytes[..UNIT]) {
            return Err(SlotError::Damaged);
        }
        let version = short(bytes, 8);
        if version != VERSION {
            return Err(SlotError::Version(version));
        }
        let state = match short(bytes, 12) {
            1 => CommitState::Changing,
            2 => CommitState::Complete,
            _ => return Err(SlotError::Damaged),
        };
        Ok(Self {
            state,
            generation: long(bytes, 16),
            count: long(bytes, 24),
            length: long(bytes, 32),
            description_length: long(bytes, 40),
            description_sum: short(bytes, 48),
            tail: short(bytes, 52),
            index: MetaArea { start: long(bytes, 56), room: long(bytes, 64) },
            sums: MetaArea { start: long(bytes, 72), room: long(bytes, 80) },
            end: long(bytes, 88),
            commit_id: long(bytes, 96),
        })
    }
}

/// Appends the CRC of a unit.
pub(crate) fn seal(unit: &mut [u8]) {
    let sum = crc32c::crc32c(&unit[..UNIT - 4]);
    unit[UNIT - 4..UNIT].copy_from_slice(&sum.to_le_bytes());
}

/// True if the CRC of a unit is correct.
pub(crate) fn is_sealed(unit: &[u8]) -> bool {
    short(unit, UNIT - 4) == crc32c::crc32c(&unit[..UNIT - 4])
}

fn put(bytes: &mut [u8], longs: &[u64]) {
    for (place, long) in bytes.chunks_exact_mut(8).zip(longs) {
        place.copy_from_slice(&long.to_le_bytes());
    }
}

pub(crate) fn short(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

/// The offset and length of an object of variable size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl IndexEntry {
    /// The entry of an object that was not written.
    pub(crate) const NONE: Self = Self { offset: u64::MAX, length: 0 };

    /// The entries of whole units; the number of a damaged unit is the error.
    pub(crate) fn decode_all(units: &[u8]) -> Result<Vec<Self>, u64> {
        let mut entries = Vec::with_capacity(units.len() / UNIT * ENTRIES as usize);
        for (number, unit) in units.chunks_exact(UNIT).enumerate() {
            if !is_sealed(unit) {
                return Err(number as u64);
            }
            let entry = |at: u64| Self {
                offset: long(unit, 16 * at as usize),
                length: long(unit, 16 * at as usize + 8),
            };
            entries.extend((0..ENTRIES).map(entry));
        }
        Ok(entries)
    }

    /// These entries in whole units, the last one padded.
    pub(crate) fn encode_all(entries: &[Self]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((entries.len() / ENTRIES as usize + 1) * UNIT);
        for group in entries.chunks(ENTRIES as usize) {
            let mut unit = [0; UNIT];
            for at in 0..ENTRIES as usize {
                let entry = group.get(at).copied().unwrap_or(Self::NONE);
                put(&mut unit[16 * at..16 * at + 16], &[entry.offset, entry.length]);
            }
            seal(&mut unit);
            bytes.extend_from_slice(&unit);
        }
        bytes
    }
}

/// Encoding of checksums in units.
pub(crate) struct ChecksumUnits;

impl ChecksumUnits {
    /// The checksums of whole units; the number of a damaged unit is the error.
    pub(crate) fn decode_all(units: &[u8]) -> Result<Vec<u32>, u64> {
        let mut sums = Vec::with_capacity(units.len() / 4);
        for (number, unit) in units.chunks_exact(UNIT).enumerate() {
            if !is_sealed(unit) {
                return Err(number as u64);
            }
            sums.extend((0..SUMS as usize).map(|at| short(unit, 4 * at)));
        }
        Ok(sums)
    }

    pub(crate) fn encode_all(sums: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((sums.len() / SUMS as usize + 1) * UNIT);
        for group in sums.chunks(SUMS as usize) {
            let mut unit = [0; UNIT];
            unit.chunks_exact_mut(4)
                .zip(group)
                .for_each(|(place, sum)| place.copy_from_slice(&sum.to_le_bytes()));
            seal(&mut unit);
            bytes.extend_from_slice(&unit);
        }
        bytes
    }
}

/// Who created the file, as a unit: the length of the text, and the text in JSON. None if it does not fit.
pub(crate) fn encode_provenance(provenance: &FileProvenance) -> Option<[u8; UNIT]> {
    let text = serde_json::to_vec(provenance).ok()?;
    let mut unit = [0; UNIT];
    unit[4..UNIT - 4].get_mut(..text.len())?.copy_from_slice(&text);
    unit[..4].copy_from_slice(&u32::try_from(text.len()).ok()?.to_le_bytes());
    seal(&mut unit);
    Some(unit)
}

/// Who created the file; none if the unit was never written or is damaged.
pub(crate) fn decode_provenance(unit: &[u8]) -> Option<FileProvenance> {
    let text = unit.get(4..UNIT - 4)?.get(..short(unit, 0) as usize).filter(|_| is_sealed(unit))?;
    serde_json::from_slice(text).ok()
}

/// The description of the objects, in JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ObjectFileMetadata {
    format: String,
    version: u32,
    #[serde(rename = "type")]
    name: String,
    schema: Type,
    hash: String,
    pub(crate) byte_order: ByteOrder,
    object_size: Option<u64>,
    dtype: Option<String>,
    pub(crate) checksums: bool,
}

impl ObjectFileMetadata {
    pub(crate) fn new(schema: &Schema, byte_order: ByteOrder, checksums: bool) -> Self {
        Self {
            format: "aqueduct-object".to_owned(),
            version: VERSION,
            name: schema.name(),
            schema: schema.root().clone(),
            hash: format!("{:016x}", schema.hash()),
            byte_order,
            object_size: schema.size(),
            dtype: schema.dtype(byte_order).ok(),
            checksums,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // The maps in it have string keys, so that encoding as JSON does not fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Decodes and checks the description and its schema.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, Schema), String> {
        let found: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if found.format != "aqueduct-object" {
            return Err(format!("the format is {:?}", found.format));
        }
        let schema = Schema::new(found.schema.clone());
        schema.check()?;
        let hash = format!("{:016x}", schema.hash());
        if found.hash != hash || found.object_size != schema.size() {
            return Err("the hash or the object size does not match the schema".to_owned());
        }
        Ok((found, schema))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_survive_and_damage_is_noticed() {
        let slot = MetaSlot {
            state: CommitState::Complete,
            generation: 7,
            count: 1,
            length: 2,
            description_length: 3,
            description_sum: 4,
            tail: 5,
            index: MetaArea { start: 6, room: 7 },
            sums: MetaArea { start: 8, room: 9 },
            end: 10,
            commit_id: 11,
        };
        let bytes = slot.encode();
        assert_eq!(MetaSlot::decode(&bytes), Ok(slot.clone()));
        assert_eq!(slot.place(), 4096);
        for bit in 0..8 * UNIT {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(MetaSlot::decode(&flipped).is_err(), "bit {bit}");
        }
        assert_eq!(MetaSlot::decode(&[0; UNIT]), Err(SlotError::Empty));
    }

    #[test]
    fn a_damaged_or_missing_provenance_is_none() {
        let written = FileProvenance { program: "md".into(), version: "0.1.0".into(), ranks: 4, time: 7 };
        let unit = encode_provenance(&written).unwrap();
        assert_eq!(decode_provenance(&unit), Some(written.clone()));
        for at in 0..UNIT {
            let mut damaged = unit;
            damaged[at] ^= 1;
            assert_eq!(decode_provenance(&damaged), None, "byte {at}");
        }
        assert_eq!((decode_provenance(&[0; UNIT]), decode_provenance(&unit[..100])), (None, None));
        assert_eq!(encode_provenance(&FileProvenance { program: "p".repeat(UNIT), ..written }), None);
    }

    #[test]
    fn units_survive() {
        let entries: Vec<IndexEntry> = (0..40).map(|at| IndexEntry { offset: at, length: 2 * at }).collect();
        let units = IndexEntry::encode_all(&entries);
        assert_eq!(units.len(), 2 * UNIT);
        let back = IndexEntry::decode_all(&units).unwrap();
        assert_eq!((&back[..40], back[40]), (&entries[..], IndexEntry::NONE));
        let sums: Vec<u32> = (0..200).collect();
        let mut units = ChecksumUnits::encode_all(&sums);
        assert_eq!(ChecksumUnits::decode_all(&units).unwrap()[..200], sums);
        units[600] ^= 1;
        assert_eq!(ChecksumUnits::decode_all(&units), Err(1));
    }
}
