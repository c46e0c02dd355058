//! Boxes in file order. Pure.

use aqueduct_file::hyperslab::Hyperslab;

/// The same elements as boxes that do not interleave in an array of this shape, in file order. Boxes that form a
/// larger one are merged; those that interleave are split along their slowest dimension.
pub(crate) fn boxes_in_file_order(boxes: &[Hyperslab], shape: &[u64]) -> Vec<Hyperslab> {
    let mut boxes: Vec<Hyperslab> = boxes.iter().filter(|one| !one.is_empty()).cloned().collect();
    while join(&mut boxes) {}
    let mut ordered = Vec::with_capacity(boxes.len());
    arrange(boxes, shape, &mut ordered);
    ordered
}

/// Merges two boxes that form a larger one; false if there are none.
fn join(boxes: &mut Vec<Hyperslab>) -> bool {
    boxes.sort_by(|one, two| one.start.cmp(&two.start));
    for first in 0..boxes.len() {
        for second in first + 1..boxes.len() {
            if let Some(both) = joined(&boxes[first], &boxes[second]) {
                boxes[first] = both;
                boxes.remove(second);
                return true;
            }
        }
    }
    false
}

/// Two boxes as one: equal in all dimensions but one, in which the second begins where the first ends.
fn joined(one: &Hyperslab, two: &Hyperslab) -> Option<Hyperslab> {
    let alike = |axis: &usize| one.start[*axis] == two.start[*axis] && one.count[*axis] == two.count[*axis];
    let mut others = (0..one.start.len()).filter(|axis| !alike(axis));
    let axis = others.next()?;
    let follows = others.next().is_none() && one.start[axis] + one.count[axis] == two.start[axis];
    follows.then(|| {
        let mut both = one.clone();
        both.count[axis] += two.count[axis];
        both
    })
}

/// Sorts boxes in file order; those that interleave are split.
fn arrange(mut boxes: Vec<Hyperslab>, shape: &[u64], ordered: &mut Vec<Hyperslab>) {
    boxes.sort_by_key(|one| first(one, shape));
    let mut boxes = boxes.into_iter().peekable();
    while let Some(next) = boxes.next() {
        let mut end = last(&next, shape);
        let mut knot = vec![next];
        while let Some(other) = boxes.next_if(|other| first(other, shape) <= end) {
            end = end.max(last(&other, shape));
            knot.push(other);
        }
        if knot.len() == 1 {
            ordered.append(&mut knot);
        } else {
            arrange(knot.iter().flat_map(slices).collect(), shape, ordered);
        }
    }
}

/// A box, split along its slowest dimension. A single row is not split: rows without common elements do not
/// interleave.
fn slices(one: &Hyperslab) -> Vec<Hyperslab> {
    let rows = one.count.len() - 1;
    let Some(axis) = (0..rows).find(|axis| one.count[*axis] > 1) else { return vec![one.clone()] };
    let slice = |at: u64| {
        let mut slice = one.clone();
        slice.start[axis] += at;
        slice.count[axis] = 1;
        slice
    };
    (0..one.count[axis]).map(slice).collect()
}

fn number(position: impl Iterator<Item = u64>, shape: &[u64]) -> u64 {
    position.zip(shape).fold(0, |number, (at, size)| number * size + at)
}

fn first(one: &Hyperslab, shape: &[u64]) -> u64 {
    number(one.start.iter().copied(), shape)
}

fn last(one: &Hyperslab, shape: &[u64]) -> u64 {
    number(one.start.iter().zip(&one.count).map(|(start, size)| start + size - 1), shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_blocks_are_merged() {
        // Four columns of an 8 × 8 array, and four quarters of it.
        let columns: Vec<Hyperslab> = (0..4).map(|at| Hyperslab::new([0, 2 * at], [8, 2])).collect();
        assert_eq!(boxes_in_file_order(&columns, &[8, 8]), [Hyperslab::whole([8, 8])]);
        let quarters: Vec<Hyperslab> =
            (0..4).map(|at| Hyperslab::new([at / 2 * 4, at % 2 * 4], [4, 4])).collect();
        assert_eq!(boxes_in_file_order(&quarters, &[8, 8]), [Hyperslab::whole([8, 8])]);
        assert_eq!(boxes_in_file_order(&[Hyperslab::empty(2)], &[8, 8]), []);
    }

    #[test]
    fn boxes_that_interleave_are_split_no_further_than_needed() {
        // Two of the columns with a gap between them, and a box below both.
        let boxes =
            [Hyperslab::new([0, 0], [2, 3]), Hyperslab::new([0, 5], [2, 3]), Hyperslab::new([2, 1], [6, 4])];
        let rows = |row| [Hyperslab::new([row, 0], [1, 3]), Hyperslab::new([row, 5], [1, 3])];
        let expected = [rows(0).to_vec(), rows(1).to_vec(), vec![boxes[2].clone()]].concat();
        assert_eq!(boxes_in_file_order(&boxes, &[8, 8]), expected);
    }
}
