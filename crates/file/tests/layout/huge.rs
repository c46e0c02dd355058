//! Layouts that no machine could flatten: creating, tiling and seeking them works at all only because nothing is enumerated.

use aqueduct_file::layout::{Basic, Layout, Result, Run, Vector};

/// 10^15 blocks; a list of them would take 16 petabytes.
const BLOCKS: u64 = 1_000_000_000_000_000;

#[test]
fn memory_does_not_depend_on_counts() -> Result<()> {
    let nested = |count| {
        let record = Layout::from(Basic::F32).indexed([(1, 0), (2, 3), (1, 7)])?.resized(0, 40)?;
        let rows = record.vector(Vector { count, block: 2, stride: 3 })?;
        rows.hvector(Vector { count: 3, block: 1, stride: 500_000_000_000_000_000 })
    };
    let (small, large) = (nested(10)?, nested(1_000_000_000_000_000)?);
    assert_eq!(small.pattern().weight(), large.pattern().weight());
    assert_eq!(small.pattern().depth(), large.pattern().depth());
    assert!(large.pattern().weight() < 20, "{}", large.pattern().weight());
    assert_eq!(large.pattern().run_count(), 2 * 3 * 3 * BLOCKS);
    assert!(format!("{large:?}").len() < 150, "{large:?}");
    Ok(())
}

#[test]
fn a_long_vector_is_sought_by_division() -> Result<()> {
    let vector = Layout::from(Basic::I32).vector(Vector { count: BLOCKS, block: 1, stride: 3 })?;
    assert_eq!((vector.size(), vector.extent()), (4 * BLOCKS, 12 * BLOCKS as i64 - 8));
    assert!(vector.is_monotone());
    let middle = 2 * BLOCKS + 2;
    let mut runs = vector.runs(middle..);
    assert_eq!(runs.next(), Some(Run { offset: 6 * BLOCKS as i64 + 2, len: 2 }));
    assert_eq!(runs.next(), Some(Run { offset: 6 * BLOCKS as i64 + 12, len: 4 }));
    for n in [0, 1, middle, 4 * BLOCKS - 1] {
        let offset = vector.pattern().offset_of(n).expect("inside");
        assert_eq!(vector.pattern().bytes_before(offset), Some(n));
        assert_eq!(vector.pattern().bytes_before(offset + 1), Some(n + 1));
    }
    // The end of a strip that long is found without walking it.
    assert_eq!(vector.pattern().strips(4 * BLOCKS - 10..).count(), 2);
    let endless = vector.endless(1 << 20)?;
    assert!(endless.size() > 1 << 61);
    assert_eq!(endless.offset_of(4 * BLOCKS), Some((1 << 20) + vector.extent()));
    Ok(())
}

#[test]
fn element_types_of_long_layouts_are_found_without_enumeration() -> Result<()> {
    let vector = Layout::from(Basic::ComplexF32).vector(Vector { count: BLOCKS, block: 1, stride: -3 })?;
    let signature: Vec<_> = vector.pattern().signature(8..).map(|e| (e.basic, e.count)).collect();
    assert_eq!(signature, [(Basic::ComplexF32, BLOCKS - 1)]);
    assert_eq!(vector.pattern().elements_before(8 * BLOCKS - 1), BLOCKS - 1);
    Ok(())
}

/// Lists cost memory for their entries, and no more when they are repeated; a seek bisects.
#[test]
fn long_lists_are_shared() -> Result<()> {
    let places: Vec<i64> = (0..100_000).map(|i| i * 3 + i % 2).collect();
    let list = Layout::from(Basic::F64).indexed_block(1, places.iter().copied())?;
    let tiled = list.tiled(1_000_000_000)?;
    assert!(tiled.weight() <= list.pattern().weight() + 1);
    let n = 8 * (100_000 * 123_456_789 + 77_777);
    let place = 123_456_789 * list.extent() + 8 * places[77_777];
    assert_eq!(tiled.offset_of(n), Some(place));
    assert_eq!(tiled.bytes_before(place), Some(n));
    assert_eq!(tiled.runs(n..).next(), Some(Run { offset: place, len: 8 }));
    Ok(())
}
