//! Parts of arrays: fixed cases, among them the example of the MPI standard.

use aqueduct_file::hyperslab::Hyperslab;
use aqueduct_file::layout::{Basic, Distributed, Distribution, Layout, Order, Problem, Run, Shape, Stride};

use crate::oracle::owner;

fn runs(layout: &Layout) -> Vec<(i64, u64)> {
    layout.runs(..).map(|Run { offset, len }| (offset, len)).collect()
}

fn distributed(size: u64, distribution: Distribution, processes: u64) -> Distributed {
    Distributed { size, distribution, processes }
}

#[test]
fn a_subarray_in_both_orders() {
    let part = Hyperslab::from([1..3, 2..5]);
    let c = Layout::from(Basic::I32).subarray(&[4, 6], &part, Order::C).expect("inside");
    assert_eq!(runs(&c), [(32, 12), (56, 12)]);
    let fortran = Layout::from(Basic::I32).subarray(&[4, 6], &part, Order::Fortran).expect("inside");
    assert_eq!(runs(&fortran), [(36, 8), (52, 8), (68, 8)]);
    for layout in [c, fortran] {
        assert_eq!((layout.lower_bound(), layout.extent(), layout.size()), (0, 96, 24));
    }
}

#[test]
fn parts_without_elements_keep_the_bounds_of_the_array() {
    let empty = Hyperslab::new([4], [0]);
    let layout = Layout::from(Basic::I32).subarray(&[4], &empty, Order::C).expect("inside");
    assert_eq!((layout.size(), layout.extent(), layout.shape()), (0, 16, Shape::Empty));
    // Three blocks of two cover five elements: the fourth process has none.
    let layout = Layout::from(Basic::I32).darray(3, &[distributed(5, Distribution::Block, 4)], Order::C);
    let layout = layout.expect("possible");
    assert_eq!((layout.size(), layout.extent()), (0, 20));
    let scalar =
        Layout::from(Basic::F64).subarray(&[], &Hyperslab::default(), Order::C).expect("one element");
    assert_eq!((scalar.size(), scalar.extent()), (8, 8));
}

/// `FILEARRAY(100, 200, 300)` distributed `(CYCLIC(10), *, BLOCK)` onto `PROCESSES(2, 3)`, as the standard shows `MPI_Type_create_darray`.
#[test]
fn the_hpf_example_of_the_standard() {
    let dimensions = [
        distributed(100, Distribution::CyclicOf(10), 2),
        distributed(200, Distribution::Whole, 1),
        distributed(300, Distribution::Block, 3),
    ];
    let mut seen = vec![0_u8; 100 * 200 * 300];
    for rank in 0..6 {
        let mine = Layout::from(Basic::Byte).darray(rank, &dimensions, Order::Fortran).expect("possible");
        assert_eq!((mine.size(), mine.extent()), (1_000_000, 6_000_000));
        assert!(mine.is_monotone());
        for run in mine.runs(..) {
            for at in run.offset..run.end() {
                let index = [at as u64 % 100, at as u64 / 100 % 200, at as u64 / 20_000];
                assert_eq!(owner(&index, &dimensions), rank);
                seen[at as usize] += 1;
            }
        }
    }
    assert!(seen.iter().all(|&times| times == 1), "every element belongs to one process");
    let first = Layout::from(Basic::Byte).darray(0, &dimensions, Order::Fortran).expect("possible");
    let row = Shape::Strided { offset: 0, block: 10, stride: 20, count: 100_000 };
    assert_eq!(first.shape(), row, "five blocks in each column, column after column: one row of blocks");
}

#[test]
fn distributions_of_a_line() {
    let share = |distribution, rank| {
        let layout = Layout::from(Basic::Byte).darray(rank, &[distributed(10, distribution, 2)], Order::C);
        runs(&layout.expect("possible"))
    };
    assert_eq!(share(Distribution::Block, 1), [(5, 5)]);
    assert_eq!(share(Distribution::BlockOf(6), 1), [(6, 4)]);
    assert_eq!(share(Distribution::Cyclic, 1), [(1, 1), (3, 1), (5, 1), (7, 1), (9, 1)]);
    assert_eq!(share(Distribution::CyclicOf(3), 0), [(0, 3), (6, 3)]);
    assert_eq!(share(Distribution::CyclicOf(3), 1), [(3, 3), (9, 1)]);
    assert_eq!(share(Distribution::CyclicOf(100), 1), []);
}

#[test]
fn whole_turns_are_one_row_of_blocks() {
    let dimensions = [distributed(18, Distribution::CyclicOf(2), 3)];
    let mine = Layout::from(Basic::F32).darray(2, &dimensions, Order::C).expect("possible");
    assert_eq!(mine.shape(), Shape::Strided { offset: 16, block: 8, stride: 24, count: 3 });
    let alone = [distributed(12, Distribution::CyclicOf(5), 1)];
    let all = Layout::from(Basic::F32).darray(0, &alone, Order::C).expect("possible");
    assert_eq!(all.shape(), Shape::Contiguous { offset: 0, len: 48 });
    let blocks = [
        distributed(8, Distribution::Block, 2),
        distributed(8, Distribution::Block, 2),
        distributed(8, Distribution::Block, 2),
    ];
    let corner = Layout::from(Basic::F64).darray(7, &blocks, Order::C).expect("possible");
    let nested = Shape::Nested {
        offset: (4 * 64 + 4 * 8 + 4) * 8,
        block: 32,
        inner: Stride { stride: 64, count: 4 },
        outer: Stride { stride: 512, count: 4 },
    };
    assert_eq!(corner.shape(), nested);
}

#[test]
fn impossible_parts_are_refused() {
    let byte = Layout::from(Basic::Byte);
    let problem = |dimensions: &[Distributed], rank| {
        byte.darray(rank, dimensions, Order::C).map_err(|error| error.problem().clone()).err()
    };
    let outside = byte.subarray(&[4], &Hyperslab::new([3], [2]), Order::C);
    assert_eq!(
        outside.expect_err("outside").to_string(),
        "subarray: dimension 0 has 4 elements, not 2 from 3 on; choose start + subsize <= size"
    );
    assert!(byte.subarray(&[4], &Hyperslab::new([u64::MAX], [1]), Order::C).is_err());
    let mismatch = byte.subarray(&[4, 4], &Hyperslab::new([0], [1]), Order::C).expect_err("one dimension");
    assert_eq!(mismatch.problem(), &Problem::DimensionMismatch { dimensions: [2, 1, 1] });
    let two = distributed(10, Distribution::Block, 2);
    assert_eq!(problem(&[two, two], 4), Some(Problem::NoSuchRank { rank: 4, processes: 4 }));
    let none = distributed(10, Distribution::Block, 0);
    assert_eq!(problem(&[two, none], 0), Some(Problem::NoProcesses { dimension: 1 }));
    let whole = distributed(10, Distribution::Whole, 2);
    assert_eq!(problem(&[whole], 0), Some(Problem::NotDistributed { dimension: 0, processes: 2 }));
    let short = Some(Problem::BlockTooShort { dimension: 0, block: 4, least: 5 });
    assert_eq!(problem(&[distributed(10, Distribution::BlockOf(4), 2)], 0), short);
    let zero = Some(Problem::BlockTooShort { dimension: 0, block: 0, least: 1 });
    assert_eq!(problem(&[distributed(10, Distribution::CyclicOf(0), 2)], 0), zero);
    assert_eq!(problem(&[distributed(1, Distribution::Block, u64::MAX), two], 0), Some(Problem::TooLarge));
    assert_eq!(
        problem(
            &[distributed(1 << 40, Distribution::Block, 1), distributed(1 << 40, Distribution::Block, 1)],
            0
        ),
        Some(Problem::TooLarge)
    );
}
