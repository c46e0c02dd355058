//! The bounds of chunks of limited size that hold whole values. Pure.

/// Bytes of the largest value: a chunk has one at least.
pub(crate) const LARGEST_VALUE: u64 = 16;

/// Parts that follow one another, with their bytes and the width of their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkBounds {
    parts: Vec<(u64, u64)>,
}

impl ChunkBounds {
    /// From the bytes and the width of each part.
    pub(crate) fn new(parts: Vec<(u64, u64)>) -> Self {
        Self { parts }
    }

    /// Bytes of all parts.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|(bytes, _)| bytes).sum()
    }

    /// The end of the chunk that begins at `start`: at most `capacity` bytes, at the end of a value.
    pub(crate) fn end(&self, start: u64, capacity: u64) -> u64 {
        let limit = start + capacity.max(LARGEST_VALUE);
        let mut begin = 0;
        for (bytes, width) in &self.parts {
            let end = begin + bytes;
            if end > limit {
                // The parts after this one are beyond the limit too.
                return if limit > begin { begin + (limit - begin) / width * width } else { begin }
                    .max(start);
            }
            begin = end;
        }
        begin.max(start)
    }

    /// The number of chunks.
    pub(crate) fn count(&self, capacity: u64) -> u64 {
        let (mut start, mut count, all) = (0, 0, self.bytes());
        while start < all {
            start = self.end(start, capacity);
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_end_at_values_and_cover_everything() {
        let cuts = ChunkBounds::new(vec![(3, 1), (32, 4), (0, 8), (40, 8)]);
        for capacity in 1..90 {
            let (mut start, mut count) = (0, 0);
            while start < cuts.bytes() {
                let end = cuts.end(start, capacity);
                assert!(
                    end > start && end - start <= capacity.max(LARGEST_VALUE),
                    "{capacity}: {start}..{end}"
                );
                assert!(end <= 3 || end > 35 || (end - 3).is_multiple_of(4));
                assert!(end <= 35 || (end - 35).is_multiple_of(8));
                (start, count) = (end, count + 1);
            }
            assert_eq!((start, cuts.count(capacity)), (75, count));
        }
        assert_eq!(ChunkBounds::default().count(8), 0);
    }
}
