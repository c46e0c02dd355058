//! The bytes of `<name>.steps`: see `docs/format-stream.md`. No I/O.

/// The version of the format.
pub(crate) const VERSION: u32 = 1;
/// All parts of the file begin at multiples of this number of bytes.
pub(crate) const UNIT: u64 = 512;
/// The offset of a stream that is not in a batch.
pub(crate) const ABSENT: u64 = u64::MAX;

const HEADER_MAGIC: [u8; 8] = *b"AQUESTEP";
const RECORD_MAGIC: [u8; 8] = *b"AQUERECD";
/// The offset of the entries of a record, and the bytes of one.
const ENTRIES: usize = 72;
const ENTRY: usize = 24;

/// The header of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepsHeader {
    pub(crate) id: u64,
    pub(crate) description_length: u64,
    pub(crate) description_sum: u32,
    pub(crate) streams: u32,
    pub(crate) tables: u64,
    pub(crate) tables_sum: u64,
    pub(crate) records: u64,
}

/// Why there is no valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepsHeaderError {
    /// The bytes are zeros: nothing was written there.
    Empty,
    /// Another kind of file, or a torn header.
    Damaged,
    Version(u32),
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordType {
    Step = 1,
    Closing = 2,
    End = 3,
}

/// The part of a stream in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordEntry {
    pub(crate) start: u64,
    pub(crate) items: u64,
    pub(crate) samples: u64,
}

impl RecordEntry {
    pub(crate) const NONE: Self = Self { start: ABSENT, items: 0, samples: 0 };
}

/// The record of a batch, which is complete if its checksum is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepRecord {
    pub(crate) number: u64,
    pub(crate) step: u64,
    pub(crate) record_type: RecordType,
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) sum: u64,
    pub(crate) durable: u64,
    /// One for each stream.
    pub(crate) entries: Vec<RecordEntry>,
}

/// Bytes of a record in a file of this number of streams.
pub(crate) fn record_size(streams: usize) -> usize {
    (ENTRIES + ENTRY * streams + 4).next_multiple_of(UNIT as usize)
}

impl StepsHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; UNIT as usize];
        bytes[..8].copy_from_slice(&HEADER_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let size = record_size(self.streams as usize) as u32;
        bytes[12..16].copy_from_slice(&size.to_le_bytes());
        put(&mut bytes[16..], &[self.id, self.description_length]);
        bytes[32..36].copy_from_slice(&self.description_sum.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.streams.to_le_bytes());
        put(&mut bytes[40..], &[self.tables, self.tables_sum, self.records]);
        seal(&mut bytes);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, StepsHeaderError> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(StepsHeaderError::Empty);
        }
        if bytes.len() as u64 != UNIT || bytes[..8] != HEADER_MAGIC || !is_sealed(bytes) {
            return Err(StepsHeaderError::Damaged);
        }
        let version = short(bytes, 8);
        if version != VERSION {
            return Err(StepsHeaderError::Version(version));
        }
        let header = Self {
            id: long(bytes, 16),
            description_length: long(bytes, 24),
            description_sum: short(bytes, 32),
            streams: short(bytes, 36),
            tables: long(bytes, 40),
            tables_sum: long(bytes, 48),
            records: long(bytes, 56),
        };
        let sound = header.streams <= 1 << 24
            && short(bytes, 12) as usize == record_size(header.streams as usize)
            && header.records.is_multiple_of(UNIT);
        if sound { Ok(header) } else { Err(StepsHeaderError::Damaged) }
    }
}

impl StepRecord {
    pub(crate) fn encode(&self, id: u64) -> Vec<u8> {
        let mut bytes = vec![0; record_size(self.entries.len())];
        bytes[..8].copy_from_slice(&RECORD_MAGIC);
        put(&mut bytes[8..], &[id, self.number, self.step]);
        bytes[32..36].copy_from_slice(&(self.record_type as u32).to_le_bytes());
        put(&mut bytes[40..], &[self.start, self.length, self.sum, self.durable]);
        for (entry, place) in self.entries.iter().zip(bytes[ENTRIES..].chunks_exact_mut(ENTRY)) {
            put(place, &[entry.start, entry.items, entry.samples]);
        }
        seal(&mut bytes);
        bytes
    }

    /// Decodes the record of this number in a file of this number of streams; none if it is not one, or is torn.
    pub(crate) fn decode(bytes: &[u8], id: u64, number: u64, streams: usize) -> Option<Self> {
        let sound = bytes.len() == record_size(streams)
            && bytes[..8] == RECORD_MAGIC
            && is_sealed(bytes)
            && long(bytes, 8) == id
            && long(bytes, 16) == number;
        let of = match short(bytes.get(..72)?, 32) {
            1 => RecordType::Step,
            2 => RecordType::Closing,
            3 => RecordType::End,
            _ => return None,
        };
        let entry = |place: &[u8]| RecordEntry {
            start: long(place, 0),
            items: long(place, 8),
            samples: long(place, 16),
        };
        sound.then(|| Self {
            number,
            step: long(bytes, 24),
            record_type: of,
            start: long(bytes, 40),
            length: long(bytes, 48),
            sum: long(bytes, 56),
            durable: long(bytes, 64),
            entries: bytes[ENTRIES..].chunks_exact(ENTRY).take(streams).map(entry).collect(),
        })
    }
}

/// Appends the CRC of the bytes.
fn seal(bytes: &mut [u8]) {
    let at = bytes.len() - 4;
    let sum = crc32c::crc32c(&bytes[..at]);
    bytes[at..].copy_from_slice(&sum.to_le_bytes());
}

fn is_sealed(bytes: &[u8]) -> bool {
    let at = bytes.len() - 4;
    short(bytes, at) == crc32c::crc32c(&bytes[..at])
}

fn put(bytes: &mut [u8], longs: &[u64]) {
    for (place, long) in bytes.chunks_exact_mut(8).zip(longs) {
        place.copy_from_slice(&long.to_le_bytes());
    }
}

fn short(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(streams: usize) -> StepRecord {
        let entries =
            (0..streams as u64).map(|at| RecordEntry { start: 8 * at, items: at, samples: 1 }).collect();
        StepRecord {
            number: 3,
            step: 7,
            record_type: RecordType::Closing,
            start: 64,
            length: 80,
            sum: 5,
            durable: 2,
            entries,
        }
    }

    #[test]
    fn records_are_decoded_and_every_change_is_detected() {
        for streams in [0, 1, 18, 19] {
            let bytes = record(streams).encode(99);
            assert_eq!(bytes.len(), if streams < 19 { 512 } else { 1024 });
            assert_eq!(StepRecord::decode(&bytes, 99, 3, streams), Some(record(streams)));
            assert_eq!(StepRecord::decode(&bytes, 98, 3, streams), None, "of another file");
            assert_eq!(StepRecord::decode(&bytes, 99, 4, streams), None, "of another place");
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 4;
                assert_eq!(StepRecord::decode(&changed, 99, 3, streams), None, "byte {at}");
            }
            for length in 0..bytes.len() {
                assert_eq!(StepRecord::decode(&bytes[..length], 99, 3, streams), None);
            }
        }
    }

    #[test]
    fn headers_are_decoded_and_every_change_is_detected() {
        let header = StepsHeader {
            id: 1,
            description_length: 2,
            description_sum: 3,
            streams: 4,
            tables: 5,
            tables_sum: 6,
            records: 1024,
        };
        let bytes = header.encode();
        assert_eq!(StepsHeader::decode(&bytes), Ok(header));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(StepsHeader::decode(&changed), Err(StepsHeaderError::Damaged), "byte {at}");
        }
        let mut later = bytes.clone();
        later[8] = 2;
        seal(&mut later);
        assert_eq!(StepsHeader::decode(&later), Err(StepsHeaderError::Version(2)));
        assert_eq!(StepsHeader::decode(&[0; 512]), Err(StepsHeaderError::Empty));
        assert_eq!(StepsHeader::decode(&bytes[..100]), Err(StepsHeaderError::Damaged));
    }
}
