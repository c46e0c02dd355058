//! The 43 patterns.

use super::EffectiveType;

/// A pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EffectivePattern {
    /// From 0 to 42.
    pub(super) number: usize,
    pub(super) kind: EffectiveType,
    /// Bytes that are contiguous in the file; 0 for the rest of a segment.
    pub(super) chunk: u64,
    /// Bytes of a call.
    pub(super) memory: u64,
    /// Its share of the scheduled time.
    pub(super) units: u64,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The patterns in the order in which they are executed, for a largest chunk.
pub(super) fn effective_patterns(largest: u64) -> Vec<EffectivePattern> {
    // Chunk, memory and units of type 0; then the units of type 1 and those of types 2 to 4.
    let rows: [(u64, u64, u64, Option<[u64; 2]>); 9] = [
        (MIB, MIB, 0, Some([0, 0])),
        (largest, largest, 4, Some([4, 2])),
        (MIB, 2 * MIB, 4, None),
        (MIB, MIB, 4, Some([2, 2])),
        (32 * KIB, MIB, 2, Some([1, 1])),
        (KIB, MIB, 2, Some([1, 1])),
        (32 * KIB + 8, MIB + 256, 2, Some([1, 1])),
        (KIB + 8, MIB + 8 * KIB, 2, Some([1, 1])),
        (MIB + 8, MIB + 8, 2, Some([2, 2])),
    ];
    let mut all: Vec<EffectivePattern> = Vec::new();
    for kind in EffectiveType::ALL {
        for (chunk, memory, units, others) in rows {
            let (memory, units) = match (kind, others) {
                (EffectiveType::Scatter, _) => (memory, units),
                (_, None) => continue,
                (EffectiveType::Shared, Some([units, _])) | (_, Some([_, units])) => (chunk, units),
            };
            all.push(EffectivePattern { number: all.len(), kind, chunk, memory, units });
        }
        if matches!(kind, EffectiveType::Segmented | EffectiveType::SegmentedCollective) {
            all.push(EffectivePattern { number: all.len(), kind, chunk: 0, memory: 0, units: 0 });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_43_patterns_of_64_units() {
        let all = effective_patterns(8 * MIB);
        assert_eq!(all.len(), 43);
        let first = |kind| all.iter().position(|pattern| pattern.kind == kind).unwrap();
        assert_eq!(EffectiveType::ALL.map(first), [0, 9, 17, 25, 34]);
        let units = |kind| {
            all.iter().filter(|pattern| pattern.kind == kind).map(|pattern| pattern.units).sum::<u64>()
        };
        assert_eq!(EffectiveType::ALL.map(units), [22, 12, 10, 10, 10]);
        for pattern in &all {
            assert!(pattern.chunk == 0 || pattern.memory.is_multiple_of(pattern.chunk), "{pattern:?}");
            assert!(pattern.memory.is_multiple_of(8), "numbers of 8 bytes");
        }
    }
}
