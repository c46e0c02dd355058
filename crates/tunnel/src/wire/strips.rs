//! Lists of byte ranges of a file, as strips: offset, length, stride, count.
//!
//! Encoded as the number of strips and, for each, the offset minus the end of the strip before, the length, the stride minus the length,
//! and the count. Round-robin pieces of 4 bytes over megabytes take about 12 bytes.

use aqueduct_device::Strip;

use super::bytes::{ByteReader, WireDecodeError, put_number, put_signed};
use super::frame::LONGEST_PAYLOAD;

/// The most strips of a frame.
pub const MOST_STRIPS: usize = 16 << 10;

/// The end of the last run.
fn end(strip: &Strip) -> u64 {
    (last(strip) as u64).wrapping_add(strip.len)
}

/// The offset of the last run.
fn last(strip: &Strip) -> i64 {
    strip.offset.wrapping_add(strip.stride.wrapping_mul(strip.count as i64 - 1))
}

/// Collects runs into strips.
#[derive(Debug, Default)]
pub struct StripCollector {
    strips: Vec<Strip>,
    bytes: u64,
}

impl StripCollector {
    /// Bytes of all runs.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if a run of any length can be added without exceeding the limit of a frame.
    pub fn has_room(&self) -> bool {
        self.strips.len() < MOST_STRIPS && self.bytes < LONGEST_PAYLOAD as u64
    }

    /// How many bytes a run may have.
    pub fn room(&self) -> u64 {
        LONGEST_PAYLOAD as u64 - self.bytes
    }

    /// Adds a strip that is not empty.
    pub fn add(&mut self, strip: Strip) {
        self.bytes += strip.size();
        if let Some(before) = self.strips.last_mut().filter(|before| before.len == strip.len) {
            let stride = strip.offset.wrapping_sub(last(before));
            let continues = |part: &Strip| part.count == 1 || part.stride == stride;
            if continues(before) && continues(&strip) {
                (before.stride, before.count) = (stride, before.count + strip.count);
                return;
            }
        }
        let stride = if strip.count == 1 { strip.len as i64 } else { strip.stride };
        self.strips.push(Strip { stride, ..strip });
    }

    /// The strips.
    pub fn strips(&self) -> &[Strip] {
        &self.strips
    }
}

/// Appends strips.
pub fn put_strips(out: &mut Vec<u8>, strips: &[Strip]) {
    put_number(out, strips.len() as u64);
    let mut before = 0;
    for strip in strips {
        put_signed(out, strip.offset.wrapping_sub(before as i64));
        put_number(out, strip.len);
        put_signed(out, strip.stride.wrapping_sub(strip.len as i64));
        put_number(out, strip.count);
        before = end(strip);
    }
}

/// Reads strips; all of them together have at most as many bytes as a payload.
pub fn read_strips(reader: &mut ByteReader<'_>) -> Result<Vec<Strip>, WireDecodeError> {
    let count = reader.number_up_to(MOST_STRIPS as u64)? as usize;
    // Each takes four bytes at least.
    let mut strips = Vec::with_capacity(count.min(reader.left() / 4));
    let (mut before, mut bytes) = (0_u64, 0_u64);
    for _ in 0..count {
        let offset = before.wrapping_add_signed(reader.signed()?);
        let len = reader.number()?;
        let stride = reader.signed()?.wrapping_add(len as i64);
        let strip = Strip { offset: offset as i64, len, stride, count: reader.number()? };
        if strip.size() == 0 || strip.first_outside().is_some() {
            return Err(reader.error("a strip is empty or outside of every file"));
        }
        let total = strip.len.checked_mul(strip.count).and_then(|more| bytes.checked_add(more));
        bytes = total
            .filter(|total| *total <= LONGEST_PAYLOAD as u64)
            .ok_or_else(|| reader.error("strips have too many bytes"))?;
        before = end(&strip);
        strips.push(strip);
    }
    Ok(strips)
}

#[cfg(test)]
mod tests {
    use aqueduct_device::strip::total;
    use proptest::prelude::*;

    use super::*;

    fn collect(runs: &[(u64, u64)]) -> StripCollector {
        let mut collector = StripCollector::default();
        runs.iter().for_each(|(offset, len)| collector.add(Strip::run(*offset, *len)));
        collector
    }

    fn encoded(strips: &[Strip]) -> Vec<u8> {
        let mut out = Vec::new();
        put_strips(&mut out, strips);
        out
    }

    #[test]
    fn round_robin_pieces_take_few_bytes() {
        let runs: Vec<(u64, u64)> = (0..65_536).map(|at| (4096 + at * 8, 4)).collect();
        let collector = collect(&runs);
        assert_eq!(collector.strips(), [Strip { offset: 4096, len: 4, stride: 8, count: 65_536 }]);
        let bytes = encoded(collector.strips());
        assert_eq!(bytes, [1, 0x80, 0x40, 4, 8, 0x80, 0x80, 4]);
        assert_eq!(read_strips(&mut ByteReader::new(&bytes)).unwrap(), collector.strips());
    }

    #[test]
    fn strips_outside_of_every_file_are_refused() {
        let top = i64::MAX;
        for strip in [
            Strip { offset: top, len: 1, stride: 1, count: 1 },
            Strip { offset: -1, len: 1, stride: 1, count: 1 },
            Strip { offset: 0, len: 1, stride: i64::MAX, count: 3 },
            Strip { offset: 0, len: 1, stride: -1, count: 2 },
            Strip { offset: 0, len: 0, stride: 0, count: 1 },
            Strip { offset: 0, len: 1, stride: 1, count: 0 },
            Strip { offset: 0, len: 1 << 40, stride: 1 << 40, count: 1 << 30 },
            Strip { offset: 0, len: LONGEST_PAYLOAD as u64, stride: 1 << 30, count: 2 },
        ] {
            let mut out = vec![1];
            put_signed(&mut out, strip.offset);
            put_number(&mut out, strip.len);
            put_signed(&mut out, strip.stride.wrapping_sub(strip.len as i64));
            put_number(&mut out, strip.count);
            assert!(read_strips(&mut ByteReader::new(&out)).is_err(), "{strip:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn lists_survive_encoding(runs in proptest::collection::vec((0_u64..1 << 20, 1_u64..600), 0..200)) {
            let collector = collect(&runs);
            // Strips are collected as their runs are.
            let mut again = StripCollector::default();
            collector.strips().iter().for_each(|strip| again.add(*strip));
            prop_assert_eq!(again.strips(), collector.strips());
            let bytes = encoded(collector.strips());
            let back = read_strips(&mut ByteReader::new(&bytes)).unwrap();
            prop_assert_eq!(&back, collector.strips());
            let flat = |runs: &mut dyn Iterator<Item = (u64, u64)>| -> Vec<u64> { runs.flat_map(|(at, len)| at..at + len).collect() };
            let expected = flat(&mut runs.iter().copied());
            prop_assert_eq!(flat(&mut back.iter().flat_map(Strip::runs)), expected);
            prop_assert_eq!(total(&back), collector.bytes());
        }
    }
}
