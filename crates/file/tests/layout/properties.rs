//! Random layouts: everything the crate says about them, compared with the oracle.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use aqueduct_file::layout::{Basic, Layout, Pattern, Shape};
use proptest::prelude::*;

use crate::oracle::TypeMap;
use crate::spec::{Spec, file_specs, specs};

/// A specification with its layout and its type map; `None` if it is too large to be looked at.
fn built(spec: &Spec) -> Option<(Layout, TypeMap)> {
    let map = TypeMap::of(spec)?;
    Some((spec.layout().expect("small layouts are possible"), map))
}

/// Bytes in a row, joined.
fn joined(bytes: &[i64]) -> Vec<(i64, u64)> {
    bytes.chunk_by(|a, b| a + 1 == *b).map(|run| (run[0], run.len() as u64)).collect()
}

/// A window from two random numbers, sometimes beyond the end.
fn window(size: usize, cuts: [usize; 2]) -> std::ops::Range<usize> {
    let (a, b) = (cuts[0] % (size + 3), cuts[1] % (size + 3));
    a.min(b)..a.max(b)
}

fn check_bounds(layout: &Layout, map: &TypeMap) {
    assert_eq!(layout.size(), map.bytes().len() as u64, "size");
    assert_eq!((layout.lower_bound(), layout.upper_bound()), (map.lower(), map.upper()), "bounds");
    assert_eq!(layout.extent(), map.extent(), "extent");
    let (low, high) = (map.true_lower(), map.true_upper());
    assert_eq!((layout.true_lower_bound(), layout.true_extent()), (low, high - low), "true bounds");
    let alignment = map.entries.iter().map(|(_, basic)| basic.alignment()).max();
    assert_eq!(layout.alignment(), alignment.unwrap_or(1));
}

fn check_order(layout: &Layout, map: &TypeMap) {
    // Three copies: what holds between two neighbours holds between all.
    let tiled = map.tiled(3, 0);
    let (bytes, once) = (tiled.bytes(), map.bytes());
    let positive = once.iter().all(|&at| at >= 0);
    assert_eq!(layout.is_monotone(), positive && bytes.is_sorted_by(|a, b| a < b), "monotone");
    let starts: Vec<_> = tiled.entries.iter().map(|&(at, _)| at).collect();
    assert_eq!(layout.is_sorted(), positive && starts.is_sorted(), "sorted");
    let contiguous = bytes.iter().zip(0..).all(|(&at, n)| at == n) && map.extent() == once.len() as i64;
    assert_eq!(layout.is_contiguous(), contiguous, "contiguous");
    let distinct: HashSet<_> = once.iter().collect();
    if distinct.len() < once.len() {
        assert!(layout.pattern().may_overlap(), "overlap");
    }
}

fn check_pattern(pattern: &Pattern, map: &TypeMap, cuts: [usize; 2]) {
    let bytes = map.bytes();
    let window = window(bytes.len(), cuts);
    let cut = &bytes[window.start.min(bytes.len())..window.end.min(bytes.len())];
    let (first, last) = (window.start as u64, window.end as u64);
    let runs: Vec<_> = pattern.runs(first..last).map(|run| (run.offset, run.len)).collect();
    assert_eq!(runs, joined(cut), "runs");
    let strip_bytes: Vec<i64> = pattern
        .strips(first..last)
        .flat_map(|s| (0..s.count as i64).map(move |i| s.offset + i * s.stride).map(move |at| (at, s.len)))
        .flat_map(|(at, len)| at..at + len as i64)
        .collect();
    assert_eq!(strip_bytes, cut, "strips");
    assert_eq!(pattern.run_count(), joined(&bytes).len() as u64, "run count");
    assert_eq!(pattern.is_contiguous(), joined(&bytes).len() < 2);
    let span = cut.iter().min().map_or(0..0, |&low| low..cut.iter().max().unwrap_or(&low) + 1);
    assert_eq!(pattern.span(first..last), span, "span");
    for n in [0, window.start, window.end, bytes.len()] {
        assert_eq!(pattern.offset_of(n as u64), bytes.get(n).copied(), "offset of {n}");
    }
    let ascending = bytes.is_sorted_by(|a, b| a < b);
    assert_eq!(pattern.is_ascending(), ascending);
    for at in map.true_lower() - 2..map.true_upper() + 3 {
        let before = bytes.iter().filter(|&&byte| byte < at).count() as u64;
        assert_eq!(pattern.bytes_before(at), ascending.then_some(before), "bytes before {at}");
    }
}

fn check_signature(pattern: &Pattern, map: &TypeMap, cuts: [usize; 2]) {
    let kinds: Vec<(usize, Basic)> = map
        .entries
        .iter()
        .enumerate()
        .flat_map(|(element, &(_, basic))| (0..basic.size()).map(move |_| (element, basic)))
        .collect();
    let window = window(kinds.len(), cuts);
    let mut touched = kinds[window.start.min(kinds.len())..window.end.min(kinds.len())].to_vec();
    touched.dedup();
    let expected: Vec<_> =
        touched.chunk_by(|a, b| a.1 == b.1).map(|same| (same[0].1, same.len() as u64)).collect();
    let signature = pattern.signature(window.start as u64..window.end as u64);
    assert_eq!(signature.map(|e| (e.basic, e.count)).collect::<Vec<_>>(), expected, "signature");
    assert_eq!(pattern.element_count(), map.entries.len() as u64);
    let external: u64 = map.entries.iter().map(|(_, basic)| basic.external32_size()).sum();
    assert_eq!(pattern.external32_size(), external);
    for n in [window.start, window.end] {
        let mut left = n as u64;
        let whole = map.entries.iter().take_while(|(_, basic)| {
            let fits = left >= basic.size();
            left = left.saturating_sub(basic.size());
            fits
        });
        assert_eq!(pattern.elements_before(n as u64), whole.count() as u64, "elements before {n}");
    }
}

fn check_copies(pattern: &Pattern, map: &TypeMap, cuts: [usize; 2]) {
    let bytes = map.bytes();
    let window = window(bytes.len(), cuts);
    let window = window.start.min(bytes.len())..window.end.min(bytes.len());
    let cut: Vec<usize> = bytes[window.clone()].iter().map(|at| (at - map.true_lower()) as usize).collect();
    let pattern = pattern.shifted(-map.true_lower()).expect("small");
    let memory: Vec<u8> = (0..map.true_upper() - map.true_lower()).map(|i| (i * 7 + i / 251) as u8).collect();
    let mut packed = vec![0; window.len()];
    pattern.gather(&memory, window.start as u64, &mut packed).expect("all of the memory is there");
    assert_eq!(packed, cut.iter().map(|&at| memory[at]).collect::<Vec<_>>(), "gather");
    let fresh: Vec<u8> = (0..packed.len()).map(|i| (i * 13 + 5) as u8).collect();
    let (mut scattered, mut expected) = (memory.clone(), memory);
    pattern.scatter(&fresh, window.start as u64, &mut scattered).expect("all of the memory is there");
    cut.iter().zip(&fresh).for_each(|(&at, &byte)| expected[at] = byte);
    assert_eq!(scattered, expected, "scatter");
    // One byte less than touched is refused before anything is copied.
    if let Some(&end) = cut.iter().max() {
        let before = scattered.clone();
        assert!(pattern.scatter(&fresh, window.start as u64, &mut scattered[..end]).is_err());
        assert_eq!(scattered, before);
    }
}

fn check_shape(pattern: &Pattern, map: &TypeMap) {
    let row = |offset: i64, block: u64, stride: i64, count: u64| {
        (0..count as i64).flat_map(move |i| offset + i * stride..offset + i * stride + block as i64)
    };
    let bytes = map.bytes();
    match pattern.shape() {
        Shape::Empty => assert!(bytes.is_empty()),
        Shape::Contiguous { offset, len } => assert!(row(offset, len, 0, 1).eq(bytes)),
        Shape::Strided { offset, block, stride, count } => {
            assert!(row(offset, block, stride, count).eq(bytes));
        }
        Shape::Nested { offset, block, inner, outer } => {
            let rows = (0..outer.count as i64)
                .flat_map(|i| row(offset + i * outer.stride, block, inner.stride, inner.count));
            assert!(rows.eq(bytes));
        }
        Shape::General => assert!(joined(&bytes).len() > 1, "one run is never general"),
    }
}

fn check(spec: &Spec, cuts: [usize; 2], count: u64) {
    let Some((layout, map)) = built(spec) else { return };
    check_bounds(&layout, &map);
    check_order(&layout, &map);
    check_signature(layout.pattern(), &map, cuts);
    let tiled_map = map.tiled(count, 0);
    let tiled = layout.tiled(count).expect("small");
    for (pattern, map) in [(layout.pattern(), &map), (&tiled, &tiled_map)] {
        check_pattern(pattern, map, cuts);
        check_copies(pattern, map, cuts);
        check_shape(pattern, map);
    }
    check_signature(&tiled, &tiled_map, cuts);
}

/// Equal specifications give equal layouts with equal hashes, of bounded text.
fn check_identity(spec: &Spec) {
    let Ok(layout) = spec.layout() else { return };
    let again = spec.layout().expect("it was possible before");
    let state = RandomState::new();
    assert_eq!(layout, again);
    assert_eq!(state.hash_one(&layout), state.hash_one(&again));
    assert_eq!(format!("{layout:?}"), format!("{again:?}"));
}

/// The endless pattern is the same as many copies, as far as one can compare.
fn check_endless(spec: &Spec, cuts: [usize; 2], displacement: i64) {
    let Some((layout, map)) = built(spec) else { return };
    let endless = layout.endless(displacement).expect("small");
    let map = map.tiled(4, displacement);
    let bytes = map.bytes();
    let window = window(bytes.len(), cuts);
    let window = window.start.min(bytes.len())..window.end.min(bytes.len());
    let runs: Vec<_> =
        endless.runs(window.start as u64..window.end as u64).map(|run| (run.offset, run.len)).collect();
    assert_eq!(runs, joined(&bytes[window]));
    if layout.is_monotone() && layout.size() > 0 {
        for at in displacement - 2..displacement + 3 * layout.extent() {
            let before = bytes.iter().filter(|&&byte| byte < at).count() as u64;
            assert_eq!(endless.bytes_before(at), Some(before), "bytes before {at}");
        }
        assert_eq!(endless.bytes_before(i64::MAX), Some(endless.size()));
        let last = endless.offset_of(endless.size() - 1).expect("the last byte");
        assert_eq!(endless.bytes_before(last), Some(endless.size() - 1));
        assert_eq!(endless.offset_of(endless.size()), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_is_as_the_standard_defines_it(
        spec in specs(1),
        cuts in any::<[usize; 2]>(),
        count in 0..4_u64,
    ) {
        check(&spec, cuts, count);
        check_identity(&spec);
    }

    #[test]
    fn aligned_layouts_are_as_the_standard_defines_them(
        spec in specs(16),
        cuts in any::<[usize; 2]>(),
        count in 0..4_u64,
    ) {
        check(&spec, cuts, count);
    }

    #[test]
    fn file_types_are_as_the_standard_defines_them(
        spec in file_specs(),
        cuts in any::<[usize; 2]>(),
        count in 0..4_u64,
        displacement in 0..1000_i64,
    ) {
        check(&spec, cuts, count);
        check_endless(&spec, cuts, displacement);
    }

    #[test]
    fn endless_is_many(spec in specs(4), cuts in any::<[usize; 2]>(), displacement in -50..50_i64) {
        check_endless(&spec, cuts, displacement);
    }
}
