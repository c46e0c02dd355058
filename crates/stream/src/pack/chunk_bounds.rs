//! Where data of several widths may be cut: into chunks of limited size that hold whole values. Pure.

/// Parts that follow one another, each of so many bytes in values of so many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkBounds {
    parts: Vec<(u64, u64)>,
}

impl ChunkBounds {
    /// Of parts given as bytes and bytes of a value.
    pub(crate) fn new(parts: Vec<(u64, u64)>) -> Self {
        Self { parts }
    }

    /// Bytes of all parts.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|(bytes, _)| bytes).sum()
    }

    /// Where the chunk that begins at `start` ends: as far as `capacity` reaches, but at the end of a value.
    pub(crate) fn end(&self, start: u64, capacity: u64) -> u64 {
        let limit = start + capacity.max(8);
        let mut begin = 0;
        for (bytes, width) in &self.parts {
            let end = begin + bytes;
            if end > limit {
                // What is behind this part is behind the limit too.
                return if limit > begin { begin + (limit - begin) / width * width } else { begin }
                    .max(start);
            }
            begin = end;
        }
        begin.max(start)
    }

    /// How many chunks there are.
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
    fn chunks_end_at_values_and_come_to_an_end() {
        let cuts = ChunkBounds::new(vec![(3, 1), (32, 4), (0, 8), (40, 8)]);
        for capacity in 1..90 {
            let (mut start, mut count) = (0, 0);
            while start < cuts.bytes() {
                let end = cuts.end(start, capacity);
                assert!(end > start && end - start <= capacity.max(8), "{capacity}: {start}..{end}");
                assert!(end <= 3 || end > 35 || (end - 3).is_multiple_of(4));
                assert!(end <= 35 || (end - 35).is_multiple_of(8));
                (start, count) = (end, count + 1);
            }
            assert_eq!((start, cuts.count(capacity)), (75, count));
        }
        assert_eq!(ChunkBounds::default().count(8), 0);
    }
}
