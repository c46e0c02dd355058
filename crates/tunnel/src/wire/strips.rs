//! Lists of byte ranges of a file, as strips: offset, length, stride, count.
//!
//! Encoded as the number of strips and, for each, the offset minus the end of the strip before, the length, the stride minus the length,
//! and the count. Round-robin pieces of 4 bytes over megabytes take about 12 bytes.

use super::bytes::{ByteReader, WireDecodeError, put_number, put_signed};
use super::frame::LONGEST_PAYLOAD;

/// The most strips of a frame.
pub const MOST_STRIPS: usize = 16 << 10;

/// Equal runs at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireStrip {
    /// The offset of the first run.
    pub offset: u64,
    /// Bytes of a run.
    pub len: u64,
    /// From the offset of a run to that of the next one; the length if there is one run.
    pub stride: i64,
    /// The number of runs.
    pub count: u64,
}

impl WireStrip {
    /// One run.
    pub fn run(offset: u64, len: u64) -> Self {
        Self { offset, len, stride: len as i64, count: 1 }
    }

    /// Bytes of all runs.
    pub fn bytes(&self) -> u64 {
        self.len * self.count
    }

    /// The offset of the last run.
    fn last(&self) -> u64 {
        self.offset.wrapping_add_signed(self.stride.wrapping_mul(self.count as i64 - 1))
    }

    fn end(&self) -> u64 {
        self.last() + self.len
    }

    /// The offset and length of each run; adjacent runs are one.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (strip, joined) = (*self, self.stride == self.len as i64);
        let (count, len) = if joined { (1, strip.bytes()) } else { (strip.count, strip.len) };
        (0..count)
            .map(move |at| (strip.offset.wrapping_add_signed(strip.stride.wrapping_mul(at as i64)), len))
    }

    fn is_valid(&self) -> bool {
        let most = i64::MAX as u64;
        let steps = i64::try_from(self.count).ok().and_then(|count| self.stride.checked_mul(count - 1));
        let last = steps.and_then(|steps| self.offset.checked_add_signed(steps));
        let fits = |offset: u64| offset.checked_add(self.len).is_some_and(|end| end <= most);
        self.len > 0 && self.count > 0 && fits(self.offset) && last.is_some_and(fits)
    }
}

/// Collects runs into strips.
#[derive(Debug, Default)]
pub struct StripCollector {
    strips: Vec<WireStrip>,
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

    /// Adds a run that is not empty.
    pub fn add(&mut self, offset: u64, len: u64) {
        self.bytes += len;
        if let Some(last) = self.strips.last_mut().filter(|last| last.len == len) {
            let stride = offset.wrapping_sub(last.last()) as i64;
            if last.count == 1 || stride == last.stride {
                (last.stride, last.count) = (stride, last.count + 1);
                return;
            }
        }
        self.strips.push(WireStrip::run(offset, len));
    }

    /// The strips.
    pub fn strips(&self) -> &[WireStrip] {
        &self.strips
    }
}

/// Appends strips.
pub fn put_strips(out: &mut Vec<u8>, strips: &[WireStrip]) {
    put_number(out, strips.len() as u64);
    let mut end = 0;
    for strip in strips {
        put_signed(out, strip.offset.wrapping_sub(end) as i64);
        put_number(out, strip.len);
        put_signed(out, strip.stride.wrapping_sub(strip.len as i64));
        put_number(out, strip.count);
        end = strip.end();
    }
}

/// Reads strips; all of them together have at most as many bytes as a payload.
pub fn read_strips(reader: &mut ByteReader<'_>) -> Result<Vec<WireStrip>, WireDecodeError> {
    let count = reader.number_up_to(MOST_STRIPS as u64)? as usize;
    // Each takes four bytes at least.
    let mut strips = Vec::with_capacity(count.min(reader.left() / 4));
    let (mut end, mut bytes) = (0_u64, 0_u64);
    for _ in 0..count {
        let offset = end.wrapping_add_signed(reader.signed()?);
        let len = reader.number()?;
        let stride = reader.signed()?.wrapping_add(len as i64);
        let strip = WireStrip { offset, len, stride, count: reader.number()? };
        if !strip.is_valid() {
            return Err(reader.error("a strip is empty or outside of every file"));
        }
        let total = strip.len.checked_mul(strip.count).and_then(|more| bytes.checked_add(more));
        bytes = total
            .filter(|total| *total <= LONGEST_PAYLOAD as u64)
            .ok_or_else(|| reader.error("strips have too many bytes"))?;
        end = strip.end();
        strips.push(strip);
    }
    Ok(strips)
}

/// Bytes of all strips.
pub fn total(strips: &[WireStrip]) -> u64 {
    strips.iter().map(WireStrip::bytes).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn collect(runs: &[(u64, u64)]) -> StripCollector {
        let mut collector = StripCollector::default();
        runs.iter().for_each(|(offset, len)| collector.add(*offset, *len));
        collector
    }

    fn encoded(strips: &[WireStrip]) -> Vec<u8> {
        let mut out = Vec::new();
        put_strips(&mut out, strips);
        out
    }

    #[test]
    fn round_robin_pieces_take_few_bytes() {
        let runs: Vec<(u64, u64)> = (0..65_536).map(|at| (4096 + at * 8, 4)).collect();
        let collector = collect(&runs);
        assert_eq!(collector.strips(), [WireStrip { offset: 4096, len: 4, stride: 8, count: 65_536 }]);
        let bytes = encoded(collector.strips());
        assert_eq!(bytes, [1, 0x80, 0x40, 4, 8, 0x80, 0x80, 4]);
        assert_eq!(read_strips(&mut ByteReader::new(&bytes)).unwrap(), collector.strips());
    }

    #[test]
    fn strips_outside_of_every_file_are_refused() {
        let top = i64::MAX as u64;
        for strip in [
            WireStrip { offset: top, len: 1, stride: 1, count: 1 },
            WireStrip { offset: 0, len: 1, stride: i64::MAX, count: 3 },
            WireStrip { offset: 0, len: 1, stride: -1, count: 2 },
            WireStrip { offset: 0, len: 0, stride: 0, count: 1 },
            WireStrip { offset: 0, len: 1, stride: 1, count: 0 },
            WireStrip { offset: 0, len: 1 << 40, stride: 1 << 40, count: 1 << 30 },
            WireStrip { offset: 0, len: LONGEST_PAYLOAD as u64, stride: 1 << 30, count: 2 },
        ] {
            let mut out = vec![1];
            put_signed(&mut out, strip.offset as i64);
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
            let bytes = encoded(collector.strips());
            let back = read_strips(&mut ByteReader::new(&bytes)).unwrap();
            prop_assert_eq!(&back, collector.strips());
            let flat = |runs: &mut dyn Iterator<Item = (u64, u64)>| -> Vec<u64> { runs.flat_map(|(at, len)| at..at + len).collect() };
            let expected = flat(&mut runs.iter().copied());
            prop_assert_eq!(flat(&mut back.iter().flat_map(WireStrip::runs)), expected);
            prop_assert_eq!(total(&back), collector.bytes());
        }
    }
}
