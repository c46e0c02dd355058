//! Whether bytes are described twice: decided where that is cheap, else "perhaps".

use super::{Kind, Tree};

/// Whether copies of the tree, `stride` apart, certainly share no byte.
///
/// Nested repetitions are looked at together, whatever their order: a matrix walked column by column repeats a wide pattern at a small stride,
/// and yet no byte comes twice.
pub(super) fn repeated_apart(child: &Tree, count: u64, stride: i64) -> bool {
    let mut levels = vec![(stride.unsigned_abs(), count)];
    let mut tree = child;
    while let Kind::Repeat { child, count, stride } = &tree.kind
        && !tree.facts.dense()
    {
        levels.push((stride.unsigned_abs(), *count));
        tree = child;
    }
    levels.sort_unstable();
    let mut span = tree.facts.high.abs_diff(tree.facts.low).into();
    tree.facts.disjoint
        && levels.into_iter().all(|(stride, count)| {
            let fits = u128::from(stride) >= span;
            span += u128::from(stride) * u128::from(count - 1);
            fits
        })
}

/// Whether these half-open spans are disjoint.
pub(super) fn spans_apart(mut spans: Vec<(i64, i64)>) -> bool {
    spans.sort_unstable();
    spans.windows(2).all(|pair| pair[0].1 <= pair[1].0)
}
