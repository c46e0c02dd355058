//! The simple cases are recognised, however they were described.

use aqueduct_file::hyperslab::Hyperslab;
use aqueduct_file::layout::{Basic, Layout, Member, Order, Result, Shape, Stride, Vector};

fn double() -> Layout {
    Basic::F64.into()
}

fn vector(count: u64, block: u64, stride: i64) -> Vector {
    Vector { count, block, stride }
}

#[test]
fn equivalent_contiguous_layouts_are_recognised() -> Result<()> {
    let plain = double().contiguous(12)?;
    let ways = [
        double().contiguous(3)?.contiguous(4)?,
        double().vector(vector(4, 3, 3))?,
        double().vector(vector(1, 12, 99))?,
        double().hvector(vector(12, 1, 8))?,
        double().contiguous(2)?.indexed([(2, 0), (1, 2), (0, 77), (3, 3)])?,
        double().indexed_block(6, [0, 6])?,
        Layout::structure((0..12).map(|i| Member { count: 1, displacement: 8 * i, layout: double() }))?,
    ];
    for way in ways {
        assert_eq!(way, plain);
    }
    let marked = double().subarray(&[3, 4], &Hyperslab::whole([3, 4]), Order::Fortran)?;
    assert_eq!(marked.pattern(), plain.pattern());
    assert!(marked.is_contiguous() && plain.is_contiguous());
    assert_eq!(plain.shape(), Shape::Contiguous { offset: 0, len: 96 });
    assert_eq!(plain.tiled(1000)?.shape(), Shape::Contiguous { offset: 0, len: 96_000 });
    assert_eq!(plain.pattern().weight(), 1);
    Ok(())
}

#[test]
fn equivalent_strided_layouts_are_recognised() -> Result<()> {
    let shape = Shape::Strided { offset: 0, block: 16, stride: 40, count: 6 };
    let ways = [
        double().vector(vector(6, 2, 5))?,
        double().vector(vector(3, 2, 5))?.hvector(vector(2, 1, 120))?,
        double().contiguous(2)?.resized(0, 40)?.contiguous(6)?,
        double().contiguous(2)?.resized(-8, 40)?.contiguous(3)?.contiguous(2)?,
        double().indexed((0..6).map(|i| (2, 5 * i)))?,
        double().hindexed_block(2, (0..6).map(|i| 40 * i))?,
        double().subarray(&[6, 5], &Hyperslab::from([0..6, 0..2]), Order::C)?,
        Layout::structure((0..6).map(|i| Member { count: 2, displacement: 40 * i, layout: double() }))?,
    ];
    for way in ways {
        assert_eq!(way.shape(), shape);
    }
    let column = double().resized(0, 80)?;
    let shape = Shape::Strided { offset: 0, block: 8, stride: 80, count: 1000 };
    assert_eq!(column.tiled(1000)?.shape(), shape);
    let Shape::Strided { offset: 24, block: 8, stride: 80, .. } = column.endless(24)?.shape() else {
        panic!("a column of a file is strided");
    };
    Ok(())
}

#[test]
fn two_levels_are_nested_and_more_are_general() -> Result<()> {
    let part = Hyperslab::new([1, 2, 3], [3, 4, 5]);
    let block = double().subarray(&[8, 9, 10], &part, Order::C)?;
    let shape = Shape::Nested {
        offset: 8 * (90 + 20 + 3),
        block: 40,
        inner: Stride { stride: 80, count: 4 },
        outer: Stride { stride: 720, count: 3 },
    };
    assert_eq!(block.shape(), shape);
    assert_eq!(block.tiled(2)?.shape(), Shape::General);
    let transposed = double().vector(vector(30, 1, 50))?.hvector(vector(50, 1, 8))?;
    let shape = Shape::Nested {
        offset: 0,
        block: 8,
        inner: Stride { stride: 400, count: 30 },
        outer: Stride { stride: 8, count: 50 },
    };
    assert_eq!(transposed.shape(), shape);
    assert_eq!(double().indexed([(1, 0), (1, 2), (1, 5)])?.shape(), Shape::General);
    Ok(())
}

/// A structure without holes is one run, whatever its members are; its kinds are still distinguished.
#[test]
fn kinds_do_not_break_runs() -> Result<()> {
    let member = |displacement, basic: Basic| Member { count: 1, displacement, layout: basic.into() };
    let particle = Layout::structure([member(0, Basic::F64), member(8, Basic::I32), member(12, Basic::F32)])?;
    assert_eq!(particle.tiled(100)?.shape(), Shape::Contiguous { offset: 0, len: 1600 });
    assert_eq!(particle.tiled(100)?.signature(..).count(), 300);
    assert_eq!(particle.pattern().uniform(), None);
    // Neighbours without a gap form one run inside a structure with holes.
    let record = Layout::structure([member(0, Basic::F64), member(8, Basic::I32), member(20, Basic::I32)])?;
    assert!(record.runs(..).map(|run| (run.offset, run.len)).eq([(0, 12), (20, 4)]));
    assert_eq!(record.pattern().strips(..).count(), 2);
    Ok(())
}

#[test]
fn layouts_are_shared_between_threads() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    shared::<Layout>();
    shared::<aqueduct_file::layout::Pattern>();
}

#[test]
fn a_structure_of_structures_is_one_row_of_runs() -> Result<()> {
    let member =
        |count, displacement, layout: &Layout| Member { count, displacement, layout: layout.clone() };
    let kind = Layout::from(Basic::I32);
    let scalars = Layout::structure([member(32, 0, &kind), member(32, 256, &kind)])?;
    let nested = Layout::structure([member(96, 0, &double()), member(1, 1536, &scalars)])?;
    let flat = [member(96, 0, &double()), member(32, 1536, &kind), member(32, 1792, &kind)];
    let flat = Layout::structure(flat)?;
    assert_eq!(nested.pattern(), flat.pattern());
    assert_eq!(nested.pattern().depth(), 2);
    Ok(())
}
