//! Sizes and bounds: the corners of the standard's rules.

use aqueduct_file::layout::{Basic, Layout, Member, Result, Run, Vector};

fn member(count: u64, displacement: i64, layout: impl Into<Layout>) -> Member {
    Member { count, displacement, layout: layout.into() }
}

/// Size, lower bound, extent, true lower bound, true extent.
fn numbers(layout: &Layout) -> (u64, i64, i64, i64, i64) {
    let (lower, true_lower) = (layout.lower_bound(), layout.true_lower_bound());
    (layout.size(), lower, layout.extent(), true_lower, layout.true_extent())
}

#[test]
fn basic_kinds() {
    for basic in Basic::ALL {
        let size = basic.size();
        assert_eq!(numbers(&basic.into()), (size, 0, size as i64, 0, size as i64), "{basic}");
        assert!(basic.alignment() <= 16 && size.is_multiple_of(basic.alignment()), "{basic}");
        assert!(basic.external32_size() <= size, "{basic}");
        let (part, count) = basic.components();
        assert_eq!((part.size() * count, part.components().1), (size, 1), "{basic}");
    }
    assert_eq!(Basic::ComplexLongDouble.size(), 32);
    assert_eq!((Basic::WideChar.size(), Basic::WideChar.external32_size()), (4, 2));
    assert_eq!(Basic::ComplexF64.to_string(), "complexf64");
}

#[test]
fn a_structure_is_padded_to_its_strictest_member() -> Result<()> {
    let padded = Layout::structure([member(1, 0, Basic::F64), member(1, 8, Basic::Char)])?;
    assert_eq!(numbers(&padded), (9, 0, 16, 0, 9));
    assert_eq!(padded.alignment(), 8);
    // The padding is no part of the type map: it is counted anew for the result.
    assert_eq!(numbers(&padded.contiguous(2)?), (18, 0, 32, 0, 25));
    assert_eq!(numbers(&padded.hindexed([(1, 0), (1, 3)])?), (18, 0, 16, 0, 12));
    assert_eq!(
        numbers(&Layout::from(Basic::I32).hvector(Vector { count: 2, block: 1, stride: 5 })?),
        (8, 0, 12, 0, 9)
    );
    Ok(())
}

#[test]
fn members_without_copies_do_not_exist() -> Result<()> {
    let marked = Layout::from(Basic::F64).resized(-100, 1000)?;
    let layout = Layout::structure([
        member(0, -500, marked.clone()),
        member(1, 40, Basic::I32),
        member(0, 4000, Basic::F64),
        member(7, -900, Layout::empty()),
    ])?;
    assert_eq!(numbers(&layout), (4, 40, 4, 40, 4));
    assert_eq!(layout.alignment(), 4);
    assert_eq!(numbers(&Layout::structure([])?), (0, 0, 0, 0, 0));
    assert_eq!(numbers(&Layout::structure([member(0, 5, marked)])?), (0, 0, 0, 0, 0));
    Ok(())
}

#[test]
fn zero_counts_and_zero_blocks_are_empty() -> Result<()> {
    let marked = Layout::from(Basic::F64).resized(-8, 32)?;
    let nothing = [
        marked.contiguous(0)?,
        marked.vector(Vector { count: 0, block: 3, stride: 9 })?,
        marked.vector(Vector { count: 3, block: 0, stride: 9 })?,
        marked.hvector(Vector { count: u64::MAX, block: 0, stride: i64::MIN })?,
        marked.indexed([])?,
        marked.indexed([(0, 7), (0, -7)])?,
        marked.hindexed_block(0, [1, 2, 3])?,
    ];
    for layout in nothing {
        assert_eq!(numbers(&layout), (0, 0, 0, 0, 0));
        assert_eq!((layout.runs(..).count(), layout.pattern().signature(..).count()), (0, 0));
        assert!(layout.is_monotone() && layout.is_contiguous() && !layout.pattern().may_overlap());
        assert_eq!(layout, Layout::empty());
        assert_eq!(layout.endless(5)?.bytes_before(100), Some(0));
    }
    let skipped = Layout::from(Basic::I32).indexed([(1, 0), (0, 500), (1, 2)])?;
    assert_eq!(numbers(&skipped), (8, 0, 12, 0, 12));
    Ok(())
}

/// The standard's own example of markers: `{(lb, -3), (int, 0), (ub, 6)}`, twice.
#[test]
fn marks_outlive_nesting() -> Result<()> {
    let marked = Layout::from(Basic::I32).resized(-3, 9)?;
    assert_eq!(numbers(&marked), (4, -3, 9, 0, 4));
    let twice = marked.contiguous(2)?;
    assert_eq!(numbers(&twice), (8, -3, 18, 0, 13));
    assert!(twice.runs(..).eq([Run { offset: 0, len: 4 }, Run { offset: 9, len: 4 }]));
    // Only marked members decide the bounds of a structure.
    let mixture = Layout::structure([member(1, 0, marked.clone()), member(1, 40, Basic::F64)])?;
    assert_eq!(numbers(&mixture), (12, -3, 9, 0, 48));
    // Markers alone are something: no data, but bounds.
    let markers = Layout::empty().resized(-4, 16)?;
    assert_eq!(numbers(&markers.contiguous(3)?), (0, -4, 48, 0, 0));
    // Bounds that are set anew replace the marks.
    assert_eq!(numbers(&mixture.resized(8, 8)?), (12, 8, 8, 0, 48));
    Ok(())
}

#[test]
fn negative_strides_displacements_and_extents() -> Result<()> {
    let back = Layout::from(Basic::I32).vector(Vector { count: 3, block: 1, stride: -2 })?;
    assert_eq!(numbers(&back), (12, -16, 20, -16, 20));
    assert!(back.runs(..).map(|run| run.offset).eq([0, -8, -16]));
    assert!(!back.is_monotone() && !back.is_sorted() && !back.pattern().may_overlap());
    let shrinking = Layout::from(Basic::I32).resized(0, -8)?;
    assert_eq!(numbers(&shrinking.contiguous(3)?), (12, -16, 8, -16, 20));
    assert!(shrinking.tiled(3)?.runs(..).map(|run| run.offset).eq([0, -8, -16]));
    assert!(shrinking.endless(0)?.size() > 1 << 60);
    Ok(())
}

#[test]
fn file_types_are_monotone_or_at_least_sorted() -> Result<()> {
    let int = Layout::from(Basic::I32);
    let order = |layout: &Layout| (layout.is_monotone(), layout.is_sorted());
    assert_eq!(order(&int.indexed([(1, 0), (2, 4)])?), (true, true));
    assert_eq!(order(&int.indexed([(1, 4), (2, 0)])?), (false, false));
    assert_eq!(order(&int.indexed([(1, -1), (2, 0)])?), (false, false), "a negative offset");
    assert_eq!(order(&int.hindexed([(1, 0), (1, 2)])?), (false, true), "overlapping elements");
    assert_eq!(order(&int.contiguous(4)?.resized(0, 8)?), (false, false), "copies go back into one another");
    assert_eq!(order(&int.resized(0, 2)?), (false, true), "copies overlap");
    assert_eq!(order(&int.resized(-4, 8)?), (true, true), "bounds may be negative");
    Ok(())
}

#[test]
fn overlap_is_found_and_transposes_are_known_to_have_none() -> Result<()> {
    let byte = Layout::from(Basic::Byte);
    let column = byte.vector(Vector { count: 30, block: 1, stride: 50 })?;
    let transposed = column.hvector(Vector { count: 50, block: 1, stride: 1 })?;
    assert!(!transposed.pattern().may_overlap());
    assert!(column.hvector(Vector { count: 51, block: 1, stride: 1 })?.pattern().may_overlap());
    assert!(byte.hvector(Vector { count: 2, block: 1, stride: 0 })?.pattern().may_overlap());
    assert!(!byte.indexed([(3, 9), (3, 0), (3, 3)])?.pattern().may_overlap());
    assert!(byte.indexed([(3, 9), (3, 0), (3, 2)])?.pattern().may_overlap());
    Ok(())
}
