//! Bundles: what the ranks of a node have for one window of the file, merged so that one of them sends it in one message with a
//! description of a few words.

use std::ops::Range;

use crate::layout::Strip;

/// The strips of several ranks as few strips, and where the bytes of each rank lie in the message, which holds the strips' bytes one
/// after the other.
///
/// ```
/// use aqueduct_file::layout::Strip;
/// use aqueduct_file::plan::Bundle;
///
/// // Two ranks have 4 bytes of every 16, side by side: together they have 8 of every 16.
/// let strip = |offset| vec![Strip { offset, len: 4, stride: 16, count: 100 }];
/// let bundle = Bundle::of(&[strip(1004), strip(1000)], &(1000..2600));
/// assert_eq!(bundle.strips, [Strip { offset: 1000, len: 8, stride: 16, count: 100 }]);
/// assert_eq!(bundle.places[0], [Strip { offset: 4, len: 4, stride: 8, count: 100 }]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// What the message holds, in this order; offsets are those of the file.
    pub strips: Vec<Strip>,
    /// For each rank its strips, in its order; offsets are those of the message.
    pub places: Vec<Vec<Strip>>,
}

impl Bundle {
    /// Merges the strips of each of several ranks, all of which lie in `window`.
    pub fn of(parts: &[Vec<Strip>], window: &Range<u64>) -> Self {
        let bundle = Self::merge(parts);
        if bundle.bytes() <= window.end - window.start {
            return bundle;
        }
        // Ranks write or read the same bytes in different ways: run by run they can be told from one another.
        let single = |strip: &Strip| {
            let Strip { offset, len, stride, count } = *strip;
            (0..count as i64).map(move |run| Strip {
                offset: offset + run * stride,
                len,
                stride: 0,
                count: 1,
            })
        };
        let runs: Vec<Vec<Strip>> =
            parts.iter().map(|strips| strips.iter().flat_map(single).collect()).collect();
        Self::merge(&runs)
    }

    /// Bytes of the message.
    pub fn bytes(&self) -> u64 {
        self.strips.iter().map(Strip::size).sum()
    }

    fn merge(parts: &[Vec<Strip>]) -> Self {
        let mut threads: Vec<Thread> = Vec::with_capacity(parts.iter().map(Vec::len).sum());
        for (rank, strips) in parts.iter().enumerate() {
            let of = |(at, strip): (usize, &Strip)| Thread { whole: normal(strip), rank, at, part: *strip };
            threads.extend(strips.iter().enumerate().map(of));
        }
        join(&mut threads, |strip| strip.count > 1);
        // Rows that touch are one run, and may touch what comes before and behind.
        for thread in &mut threads {
            if thread.whole.count > 1 && thread.whole.stride == thread.whole.len as i64 {
                thread.whole = Strip { len: thread.whole.size(), stride: 0, count: 1, ..thread.whole };
            }
        }
        join(&mut threads, |strip| strip.count == 1);
        Self::lay_out(threads, parts)
    }

    /// Gives every strip its place in the message, in the order of the file.
    fn lay_out(mut threads: Vec<Thread>, parts: &[Vec<Strip>]) -> Self {
        threads.sort_unstable_by_key(|thread| key(&thread.whole));
        let mut places: Vec<Vec<Strip>> = parts.to_vec();
        let (mut strips, mut base, mut end): (Vec<Strip>, i64, i64) = (Vec::new(), 0, 0);
        for Thread { whole, rank, at, part } in threads {
            if strips.last() != Some(&whole) {
                (base, end) = (end, end + whole.size() as i64);
                strips.push(whole);
            }
            let stride = if whole.count > 1 { whole.len as i64 } else { part.stride };
            places[rank][at] = Strip { offset: base + part.offset - whole.offset, stride, ..part };
        }
        Self { strips, places }
    }
}

/// A strip of a rank and the merged one that it is part of.
struct Thread {
    whole: Strip,
    rank: usize,
    at: usize,
    part: Strip,
}

/// The stride of a single run says nothing.
fn normal(strip: &Strip) -> Strip {
    Strip { stride: if strip.count == 1 { 0 } else { strip.stride }, ..*strip }
}

fn key(strip: &Strip) -> (i64, u64, i64, u64) {
    (strip.offset, strip.count, strip.stride, strip.len)
}

/// Joins strips of equally many runs, equally far apart, whose runs touch or overlap.
fn join(threads: &mut [Thread], which: impl Fn(&Strip) -> bool) {
    threads.sort_unstable_by_key(|thread| {
        let strip = &thread.whole;
        (!which(strip), strip.count, strip.stride, strip.offset, strip.len)
    });
    let chosen = threads.iter().take_while(|thread| which(&thread.whole)).count();
    let mut start = 0;
    while start < chosen {
        let first = threads[start].whole;
        let (mut end, mut len) = (start, first.len);
        while let Some(next) = threads[end..chosen].first().map(|thread| thread.whole) {
            if (next.count, next.stride) != (first.count, first.stride) {
                break;
            }
            let distance = (next.offset - first.offset) as u64;
            let longer = len.max(distance + next.len);
            if distance > len || (first.count > 1 && longer > first.stride.unsigned_abs()) {
                break;
            }
            (end, len) = (end + 1, longer);
        }
        // A strip whose own runs overlap joins nothing.
        end = end.max(start + 1);
        threads[start..end].iter_mut().for_each(|thread| thread.whole = Strip { len, ..first });
        start = end;
    }
}

/// Room in a node's message buffer: in which step each message of a round is sent, and where it lies in the buffer meanwhile.
///
/// ```
/// assert_eq!(aqueduct_file::plan::allot([60, 30, 20, 90], 100), [(0, 0), (0, 60), (1, 0), (2, 0)]);
/// ```
pub fn allot(sizes: impl IntoIterator<Item = u64>, room: u64) -> Vec<(u64, u64)> {
    let (mut step, mut end) = (0, 0);
    let mut place = |size: u64| {
        if end > 0 && end + size > room {
            (step, end) = (step + 1, 0);
        }
        let at = end;
        end += size;
        (step, at)
    };
    sizes.into_iter().map(&mut place).collect()
}

/// Sorted ranges without overlaps or seams.
pub fn union(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// The runs of a strip of the file.
pub fn runs_of(strip: &Strip) -> impl Iterator<Item = Range<u64>> + use<> {
    let Strip { offset, len, stride, count } = *strip;
    (0..count as i64).map(move |run| {
        let start = (offset + run * stride) as u64;
        start..start + len
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn strip(offset: i64, len: u64, stride: i64, count: u64) -> Strip {
        Strip { offset, len, stride, count }
    }

    #[test]
    fn ranges_unite() {
        assert_eq!(union(vec![5..7, 0..2, 2..3, 6..9, 4..4]), [0..3, 5..9]);
    }

    #[test]
    fn rows_that_touch_are_one_run_with_what_is_around_them() {
        let parts = [vec![strip(10, 4, 8, 5)], vec![strip(14, 4, 8, 5)], vec![strip(50, 7, 0, 1)]];
        let bundle = Bundle::of(&parts, &(0..100));
        assert_eq!(bundle.strips, [strip(10, 47, 0, 1)]);
        assert_eq!(bundle.places[1], [strip(4, 4, 8, 5)]);
        assert_eq!(bundle.places[2], [strip(40, 7, 0, 1)]);
    }

    #[test]
    fn dealt_out_pieces_of_a_cut_window_stay_a_few_strips() {
        // 64 of 256 ranks that deal out 4 bytes each; the window begins in the middle of this node's part of a row.
        let row = 1024;
        let of = |rank: i64| {
            let first = if rank < 40 { row } else { 0 };
            vec![strip(first + 4 * rank, 4, row, if rank < 40 { 63 } else { 64 })]
        };
        let parts: Vec<Vec<Strip>> = (0..64).map(of).collect();
        let bundle = Bundle::of(&parts, &(160..160 + 64 * 1024));
        assert_eq!(bundle.strips, [strip(160, 96, row, 64), strip(1024, 160, row, 63)]);
        assert_eq!(bundle.bytes(), 64 * 63 * 4 + 24 * 4);
    }

    fn any_strips() -> impl Strategy<Value = Vec<Strip>> {
        let one = (0i64..6, 1u64..5, 0i64..5, 1u64..5);
        proptest::collection::vec(one, 0..4).prop_map(|drawn| {
            let mut at = 0;
            let build = |(gap, len, wide, count): (i64, u64, i64, u64)| {
                let strip = strip(at + gap, len, len as i64 + wide, count);
                at = strip.span().end;
                strip
            };
            drawn.into_iter().map(build).collect()
        })
    }

    proptest! {
        /// A message filled by the places and emptied by the strips brings every byte of every rank where it belongs.
        #[test]
        fn what_ranks_put_in_comes_out_at_its_offset(parts in proptest::collection::vec(any_strips(), 0..6)) {
            let end = parts.iter().flatten().map(|strip| strip.span().end).max().unwrap_or(0) as u64;
            let bundle = Bundle::of(&parts, &(0..end));
            prop_assert!(bundle.bytes() <= end);
            // Each byte of the message remembers for which offset of the file it was put in.
            let mut message = vec![None; bundle.bytes() as usize];
            for (strips, places) in parts.iter().zip(&bundle.places) {
                let from: Vec<_> = strips.iter().flat_map(runs_of).collect();
                let to: Vec<_> = places.iter().flat_map(runs_of).collect();
                prop_assert_eq!(from.len(), to.len());
                for (from, to) in from.into_iter().zip(to) {
                    prop_assert_eq!(from.end - from.start, to.end - to.start);
                    for (offset, at) in from.zip(to) {
                        prop_assert!(message[at as usize].is_none_or(|known| known == offset));
                        message[at as usize] = Some(offset);
                    }
                }
            }
            let out = bundle.strips.iter().flat_map(runs_of).flatten();
            prop_assert!(out.map(Some).eq(message));
        }

        #[test]
        fn messages_never_overlap_in_the_buffer(sizes in proptest::collection::vec(0u64..100, 0..20)) {
            let places = allot(sizes.iter().copied(), 100);
            for ((size, (step, at)), next) in sizes.iter().zip(&places).zip(places.iter().skip(1)) {
                prop_assert!(at + size <= 100);
                prop_assert!(*next == (*step, at + size) || *next == (step + 1, 0));
            }
        }
    }
}
