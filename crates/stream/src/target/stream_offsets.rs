//! The places of streams in a batch. Pure.

/// Streams begin at multiples of this, so that their values are aligned in mapped memory.
const ALIGNMENT: u64 = 8;

/// The start of each stream of a batch, relative to the start of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamOffsets {
    /// One for each stream of the batch.
    pub starts: Vec<u64>,
    /// The size of the batch, up to the start of the next one.
    pub length: u64,
}

impl StreamOffsets {
    /// Streams of these sizes in bytes, one after the other; none if the sum exceeds `u64`.
    pub fn new(sizes: impl IntoIterator<Item = u64>) -> Option<Self> {
        let mut arrangement = Self { starts: Vec::new(), length: 0 };
        for size in sizes {
            arrangement.starts.push(arrangement.length);
            let end = arrangement.length.checked_add(size)?;
            arrangement.length = end.checked_next_multiple_of(ALIGNMENT)?;
        }
        Some(arrangement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_aligned_and_do_not_overlap() {
        let arrangement = StreamOffsets::new([3, 16, 0, 9]).unwrap();
        assert_eq!(arrangement, StreamOffsets { starts: vec![0, 8, 24, 24], length: 40 });
        assert_eq!(StreamOffsets::new([]).unwrap().length, 0);
        assert_eq!(StreamOffsets::new([u64::MAX - 3]), None);
    }
}
