//! The data of a node's ranks for one window of the file, merged into one message with a description of a few words.

use std::ops::Range;

use crate::layout::Strip;

/// The strips of several ranks as few strips, and where the bytes of each rank lie in the message, which holds the strips' bytes one
/// after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeMessage {
    /// The strips of the message, in this order; offsets are those of the file.
    pub(crate) strips: Vec<Strip>,
    /// For each rank its strips, in its order; offsets are those of the message.
    pub(crate) places: Vec<Vec<Strip>>,
}

impl NodeMessage {
    /// Merges the strips of each of several ranks, all of which lie in `window`.
    pub(crate) fn of(parts: &[Vec<Strip>], window: &Range<u64>) -> Self {
        let message = Self::merge(parts);
        if message.bytes() <= window.end - window.start {
            return message;
        }
        // Ranks access the same bytes with different strides: they are merged run by run.
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
    pub(crate) fn bytes(&self) -> u64 {
        self.strips.iter().map(Strip::size).sum()
    }

    fn merge(parts: &[Vec<Strip>]) -> Self {
        let mut members: Vec<MergedStrip> = Vec::with_capacity(parts.iter().map(Vec::len).sum());
        for (rank, strips) in parts.iter().enumerate() {
            let of =
                |(at, strip): (usize, &Strip)| MergedStrip { whole: normal(strip), rank, at, part: *strip };
            members.extend(strips.iter().enumerate().map(of));
        }
        join(&mut members, |strip| strip.count > 1);
        // Rows that touch are one run, and may touch what comes before and after.
        for member in &mut members {
            if member.whole.count > 1 && member.whole.stride == member.whole.len as i64 {
                member.whole = Strip { len: member.whole.size(), stride: 0, count: 1, ..member.whole };
            }
        }
        join(&mut members, |strip| strip.count == 1);
        Self::lay_out(members, parts)
    }

    /// Gives every strip its place in the message, in the order of the file.
    fn lay_out(mut members: Vec<MergedStrip>, parts: &[Vec<Strip>]) -> Self {
        members.sort_unstable_by_key(|member| key(&member.whole));
        let mut places: Vec<Vec<Strip>> = parts.to_vec();
        let (mut strips, mut base, mut end): (Vec<Strip>, i64, i64) = (Vec::new(), 0, 0);
        for MergedStrip { whole, rank, at, part } in members {
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
struct MergedStrip {
    whole: Strip,
    rank: usize,
    at: usize,
    part: Strip,
}

/// The stride of a single run has no meaning.
fn normal(strip: &Strip) -> Strip {
    Strip { stride: if strip.count == 1 { 0 } else { strip.stride }, ..*strip }
}

fn key(strip: &Strip) -> (i64, u64, i64, u64) {
    (strip.offset, strip.count, strip.stride, strip.len)
}

/// Joins strips of equally many runs, equally far apart, whose runs touch or overlap.
fn join(members: &mut [MergedStrip], which: impl Fn(&Strip) -> bool) {
    members.sort_unstable_by_key(|member| {
        let strip = &member.whole;
        (!which(strip), strip.count, strip.stride, strip.offset, strip.len)
    });
    let chosen = members.iter().take_while(|member| which(&member.whole)).count();
    let mut start = 0;
    while start < chosen {
        let first = members[start].whole;
        let (mut end, mut len) = (start, first.len);
        while let Some(next) = members[end..chosen].first().map(|member| member.whole) {
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
        members[start..end].iter_mut().for_each(|member| member.whole = Strip { len, ..first });
        start = end;
    }
}

/// For each message of a round, the step in which it is sent and its position in the node's message buffer of so many bytes.
pub(crate) fn assign_steps(sizes: impl IntoIterator<Item = u64>, room: u64) -> Vec<(u64, u64)> {
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
pub(crate) fn merge_ranges(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
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
pub(crate) fn runs_of(strip: &Strip) -> impl Iterator<Item = Range<u64>> + use<> {
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
    fn strips_side_by_side_are_one_strip() {
        // Two ranks have 4 bytes of every 16, side by side: together they have 8 of every 16.
        let message =
            NodeMessage::of(&[vec![strip(1004, 4, 16, 100)], vec![strip(1000, 4, 16, 100)]], &(1000..2600));
        assert_eq!(message.strips, [strip(1000, 8, 16, 100)]);
        assert_eq!(message.places[0], [strip(4, 4, 8, 100)]);
    }

    #[test]
    fn messages_that_do_not_fit_are_sent_in_later_steps() {
        assert_eq!(assign_steps([60, 30, 20, 90], 100), [(0, 0), (0, 60), (1, 0), (2, 0)]);
    }

    #[test]
    fn ranges_unite() {
        assert_eq!(merge_ranges(vec![5..7, 0..2, 2..3, 6..9, 4..4]), [0..3, 5..9]);
    }

    #[test]
    fn rows_that_touch_are_one_run_with_what_is_around_them() {
        let parts = [vec![strip(10, 4, 8, 5)], vec![strip(14, 4, 8, 5)], vec![strip(50, 7, 0, 1)]];
        let message = NodeMessage::of(&parts, &(0..100));
        assert_eq!(message.strips, [strip(10, 47, 0, 1)]);
        assert_eq!(message.places[1], [strip(4, 4, 8, 5)]);
        assert_eq!(message.places[2], [strip(40, 7, 0, 1)]);
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
        let message = NodeMessage::of(&parts, &(160..160 + 64 * 1024));
        assert_eq!(message.strips, [strip(160, 96, row, 64), strip(1024, 160, row, 63)]);
        assert_eq!(message.bytes(), 64 * 63 * 4 + 24 * 4);
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
        /// A message filled by the places and emptied by the strips moves every byte of every rank to its offset.
        #[test]
        fn every_byte_of_a_message_has_the_offset_of_its_rank(parts in proptest::collection::vec(any_strips(), 0..6)) {
            let end = parts.iter().flatten().map(|strip| strip.span().end).max().unwrap_or(0) as u64;
            let message = NodeMessage::of(&parts, &(0..end));
            prop_assert!(message.bytes() <= end);
            // Each byte of the message remembers for which offset of the file it was put in.
            let mut buffer = vec![None; message.bytes() as usize];
            for (strips, places) in parts.iter().zip(&message.places) {
                let from: Vec<_> = strips.iter().flat_map(runs_of).collect();
                let to: Vec<_> = places.iter().flat_map(runs_of).collect();
                prop_assert_eq!(from.len(), to.len());
                for (from, to) in from.into_iter().zip(to) {
                    prop_assert_eq!(from.end - from.start, to.end - to.start);
                    for (offset, at) in from.zip(to) {
                        prop_assert!(buffer[at as usize].is_none_or(|known| known == offset));
                        buffer[at as usize] = Some(offset);
                    }
                }
            }
            let out = message.strips.iter().flat_map(runs_of).flatten();
            prop_assert!(out.map(Some).eq(buffer));
        }

        #[test]
        fn messages_never_overlap_in_the_buffer(sizes in proptest::collection::vec(0u64..100, 0..20)) {
            let places = assign_steps(sizes.iter().copied(), 100);
            for ((size, (step, at)), next) in sizes.iter().zip(&places).zip(places.iter().skip(1)) {
                prop_assert!(at + size <= 100);
                prop_assert!(*next == (*step, at + size) || *next == (step + 1, 0));
            }
        }
    }
}
