//! Invalid arguments are errors with an explanation; no values cause a panic.

use aqueduct_file::hyperslab::Hyperslab;
use aqueduct_file::layout::{Basic, Layout, MAX_DEPTH, Member, Order, Problem, Vector};
use proptest::prelude::*;

#[test]
fn sizes_above_the_limit_are_errors() {
    let int = Layout::from(Basic::I32);
    let error = int.contiguous(1 << 61).expect_err("too large");
    assert_eq!((error.operation(), error.problem()), ("contiguous", &Problem::TooLarge));
    assert_eq!(
        error.to_string(),
        "contiguous: a size or an offset is beyond 2^63 - 1 bytes; check counts and strides, or describe less at once"
    );
    assert!(int.vector(Vector { count: 3, block: 1, stride: i64::MAX / 4 }).is_err());
    assert!(
        int.hvector(Vector { count: u64::MAX, block: 1, stride: 0 }).is_err(),
        "too much data on one spot"
    );
    assert!(int.indexed([(1, i64::MAX)]).is_err());
    assert!(int.hindexed([(1, i64::MAX)]).is_err());
    assert!(int.hindexed([(1, i64::MIN), (1, i64::MAX - 4)]).is_err());
    assert!(int.resized(1, i64::MAX).is_err());
    assert!(int.contiguous(4).and_then(|layout| layout.tiled(1 << 60)).is_err());
    assert!(int.endless(i64::MAX - 3).is_err());
    assert!(int.endless(i64::MAX - 4).is_ok_and(|pattern| pattern.size() == 4));
    // A single block has no use for its stride.
    assert!(int.vector(Vector { count: 1, block: 1, stride: i64::MAX }).is_ok());
}

#[test]
fn nesting_above_the_limit_is_an_error() {
    // Unequal parts of many runs, so that nothing is simplified away.
    const RUNS: u64 = 100;
    let many = Vector { count: RUNS, block: 1, stride: 2 };
    let mut layout = Layout::from(Basic::Byte).vector(many).expect("small");
    let error = loop {
        let members = [(0, layout.clone()), (4096, Basic::I32.into())];
        let members = members.map(|(displacement, layout)| Member { count: 1, displacement, layout });
        match Layout::structure(members).and_then(|mixed| mixed.resized(0, 4)) {
            Ok(deeper) => layout = deeper,
            Err(error) => break error,
        }
    };
    assert_eq!(error.problem(), &Problem::TooDeep);
    assert_eq!(layout.pattern().depth(), MAX_DEPTH);
    assert_eq!(layout.pattern().elements_before(u64::MAX), RUNS + u64::from(MAX_DEPTH) - 2);
}

#[test]
fn copies_outside_are_refused_with_the_place() {
    let pattern = Layout::from(Basic::I32).tiled(2).expect("small");
    let mut packed = [0; 8];
    let error = pattern.gather(&[0; 7], 0, &mut packed).expect_err("a byte short");
    assert_eq!(
        error.to_string(),
        "gather: touches offsets 0 to 8 of a memory of 7 bytes; give all of the memory, or shift the pattern into it"
    );
    assert!(pattern.gather(&[0; 7], 0, &mut packed[..7]).is_ok(), "the last byte is not asked for");
    assert!(pattern.shifted(-1).is_ok_and(|pattern| pattern.gather(&[0; 8], 0, &mut packed).is_err()));
    let error = pattern.scatter(&[0; 5], 4, &mut [0; 8]).expect_err("too many");
    assert_eq!(
        error.to_string(),
        "scatter: data bytes 4 to 9 of a pattern that has 8; ask for fewer, or tile the layout more often"
    );
    assert!(pattern.gather(&[], u64::MAX, &mut [0; 1]).is_err());
    assert!(pattern.gather(&[], 8, &mut []).is_ok(), "nothing is asked for");
}

fn wild() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(i64::MIN),
        Just(i64::MIN + 1),
        Just(i64::MAX),
        Just(i64::MAX - 8),
        (0..62_u32).prop_map(|shift| 1 << shift),
        (0..62_u32).prop_map(|shift| -(1 << shift)),
        any::<i64>(),
        -4..5_i64,
    ]
}

/// Applies one constructor with wild numbers.
fn grow(layout: &Layout, kind: u8, [a, b, c]: [i64; 3]) -> aqueduct_file::layout::Result<Layout> {
    let (count, block) = (a.unsigned_abs(), b.unsigned_abs());
    match kind {
        0 => layout.contiguous(count),
        1 => layout.vector(Vector { count, block, stride: c }),
        2 => layout.hvector(Vector { count, block, stride: c }),
        3 => layout.indexed([(block, a), (2, c), (0, b), (1, a)]),
        4 => layout.hindexed([(1, a), (block, c)]),
        5 => layout.resized(a, b),
        6 => Layout::structure([
            Member { count, displacement: b, layout: layout.clone() },
            Member { count: 1, displacement: c, layout: Basic::F64.into() },
        ]),
        _ => layout.subarray(&[count], &Hyperslab::new([c.unsigned_abs()], [block]), Order::C),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn wild_numbers_give_layouts_or_errors(
        steps in prop::collection::vec((0..8_u8, [wild(), wild(), wild()]), 1..6),
        at in wild(),
    ) {
        let mut layout = Layout::from(Basic::I32);
        for (kind, numbers) in steps {
            layout = grow(&layout, kind, numbers).unwrap_or(layout);
        }
        let n = at.unsigned_abs();
        for pattern in [Ok(layout.pattern().clone()), layout.tiled(n), layout.endless(at), layout.pattern().shifted(at)] {
            let Ok(pattern) = pattern else { continue };
            let offset = pattern.offset_of(n);
            prop_assert_eq!(offset.is_some(), n < pattern.size());
            if pattern.is_ascending() && let Some(offset) = offset {
                prop_assert_eq!(pattern.bytes_before(offset), Some(n));
            }
            let last = pattern.size().saturating_sub(1);
            prop_assert!(pattern.offset_of(last).is_none_or(|at| pattern.lowest() <= at && at < pattern.highest()));
            for first in [n, last.saturating_sub(40), 0] {
                let runs = pattern.runs(first..).take(20);
                prop_assert!(runs.clone().all(|run| pattern.lowest() <= run.offset && run.end() <= pattern.highest()));
                pattern.signature(first..).take(20).for_each(drop);
            }
            let _ = (pattern.bytes_before(at), pattern.elements_before(n), pattern.shape(), format!("{pattern:?}"));
            let _ = pattern.gather(&[0; 64], n, &mut [0; 16]);
        }
        let _ = (layout.is_monotone(), layout.is_sorted(), format!("{layout:?}"));
    }
}
