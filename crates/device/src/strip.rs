//! Strips: equal runs of a file at equal distances, and lists of them: accesses that are described without a list of their runs.

use std::ffi::OsStr;
use std::ops::Range;

use crate::coalesce::MAX_SEGMENTS;
use crate::{Error, Kind, Operation, Result, Segment, SegmentMut, segment};

/// `count` runs of `len` bytes, the first at `offset`, each `stride` further than the one before it. An access to it has contiguous memory,
/// with the bytes in the order of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strip {
    /// Where the first run starts.
    pub offset: i64,
    /// Bytes of each run.
    pub len: u64,
    /// From the start of one run to the start of the next; may be negative, and says nothing if there is one run.
    pub stride: i64,
    /// How many runs.
    pub count: u64,
}

impl Strip {
    /// One run.
    pub fn run(offset: u64, len: u64) -> Self {
        Self { offset: offset as i64, len, stride: len as i64, count: 1 }
    }

    /// The number of data bytes.
    pub fn size(&self) -> u64 {
        self.len.saturating_mul(self.count)
    }

    /// From the lowest to after the highest offset. The strip must not be empty.
    pub fn span(&self) -> Range<i64> {
        let last = self.offset + (self.count - 1) as i64 * self.stride;
        self.offset.min(last)..self.offset.max(last) + self.len as i64
    }

    /// Takes the first `runs` runs off.
    pub fn advance(&mut self, runs: u64) {
        self.count -= runs;
        // After the last run the offset may overflow; it is not used then.
        self.offset = self.offset.wrapping_add((runs as i64).wrapping_mul(self.stride));
    }

    /// The same bytes; as one run if the runs follow one another.
    #[must_use]
    pub fn joined(self) -> Self {
        if self.count > 1 && self.stride == self.len as i64 {
            Self::run(self.offset as u64, self.size())
        } else {
            self
        }
    }

    /// The offset and length of each run; those that follow one another are one.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let strip = self.joined();
        let runs = if strip.len == 0 { 0 } else { strip.count };
        (0..runs).map(move |at| {
            (strip.offset.wrapping_add(strip.stride.wrapping_mul(at as i64)) as u64, strip.len)
        })
    }

    /// The offset of the first run that begins or ends above `i64::MAX`, the maximum file size, or begins below 0; none if all are inside.
    pub fn first_outside(&self) -> Option<u64> {
        if self.size() == 0 {
            return None;
        }
        let (offset, stride, len) = (i128::from(self.offset), i128::from(self.stride), i128::from(self.len));
        let most = i128::from(i64::MAX) - len;
        // How many runs are inside, if the first is.
        let inside = match stride {
            _ if !(0..=most).contains(&offset) => 0,
            0 => i128::MAX,
            1.. => (most - offset) / stride + 1,
            _ => offset / -stride + 1,
        };
        (inside < i128::from(self.count)).then(|| (offset + inside * stride) as u64)
    }
}

/// Takes parts off a strip, in order.
#[derive(Clone, Debug)]
pub struct StripCursor {
    strip: Strip,
    /// Bytes of its first run that are taken.
    skip: u64,
}

impl StripCursor {
    /// At the begin of a strip, whose runs are inside every file.
    pub fn new(strip: Strip) -> Self {
        let strip = strip.joined();
        Self { strip: if strip.len == 0 { Strip { count: 0, ..strip } } else { strip }, skip: 0 }
    }

    /// The offset of the next byte; none at the end.
    pub fn position(&self) -> Option<u64> {
        (self.strip.count > 0).then(|| self.strip.offset as u64 + self.skip)
    }

    /// Skips bytes; there are as many.
    pub fn skip(&mut self, bytes: u64) {
        if self.strip.count > 0 {
            let inside = self.skip + bytes;
            self.strip.advance(inside / self.strip.len);
            self.skip = inside % self.strip.len;
        }
    }

    /// Takes the next bytes, at most `most`: as many whole runs as lie in the range, which has the next byte; or else a part of a run.
    pub fn take(&mut self, range: &Range<u64>, most: u64) -> Option<Strip> {
        let place = self.position().filter(|_| most > 0)?;
        let Strip { len, stride, count, .. } = self.strip;
        let room = range.end - place;
        if self.skip > 0 || len > room || len > most {
            let part = (len - self.skip).min(room).min(most);
            self.skip(part);
            return Some(Strip::run(place, part));
        }
        let step = stride.unsigned_abs();
        let further = if stride > 0 { room - len } else { place - range.start };
        let runs = further.checked_div(step).map_or(count, |steps| steps.saturating_add(1));
        let runs = runs.min(count).min(most / len);
        let part = Strip { count: runs, ..self.strip };
        self.strip.advance(runs);
        Some(part)
    }
}

/// All offsets.
pub const EVERYWHERE: Range<u64> = 0..u64::MAX;

/// The number of bytes of all strips.
pub fn total(strips: &[Strip]) -> u64 {
    strips.iter().fold(0, |sum: u64, strip| sum.saturating_add(strip.size()))
}

/// Rejects strips with a run that begins or ends above `i64::MAX`, and those that have another number of bytes than their memory.
pub fn check(strips: &[Strip], memory: usize, operation: Operation, name: impl AsRef<OsStr>) -> Result<()> {
    let error = || Error::new(Kind::InvalidArgument, operation, &name);
    match strips.iter().find_map(Strip::first_outside) {
        Some(place) => Err(error().at(place)),
        None if total(strips) != memory as u64 => {
            Err(error().advise("the memory has another length than the strips"))
        }
        None => Ok(()),
    }
}

/// The first `bytes` bytes of strips; all of them if there are fewer.
pub fn front(strips: &[Strip], bytes: u64) -> Vec<Strip> {
    let (mut front, mut left) = (Vec::new(), bytes);
    for strip in strips {
        let mut cursor = StripCursor::new(*strip);
        while let Some(part) = cursor.take(&EVERYWHERE, left) {
            left -= part.size();
            front.push(part);
        }
    }
    front
}

/// What is left of strips when their first `done` bytes are transferred.
pub fn rest(strips: &[Strip], done: u64) -> Vec<Strip> {
    let (mut rest, mut skip) = (Vec::new(), done);
    for strip in strips {
        let mut cursor = StripCursor::new(*strip);
        let before = skip.min(strip.size());
        skip -= before;
        cursor.skip(before);
        rest.extend(std::iter::from_fn(|| cursor.take(&EVERYWHERE, u64::MAX)));
    }
    rest
}

/// The file offset of byte `done` of strips; the end of the last run if there is no such byte.
pub fn offset_of(strips: &[Strip], done: u64) -> u64 {
    let end = || {
        let last = strips.iter().rfind(|strip| strip.size() > 0)?.joined();
        Some((last.offset + (last.count - 1) as i64 * last.stride) as u64 + last.len)
    };
    rest(strips, done).first().map_or_else(|| end().unwrap_or(0), |strip| strip.offset as u64)
}

/// The list of the runs of strips with their memory.
pub fn segments<'a>(strips: &'a [Strip], bytes: &'a [u8]) -> impl Iterator<Item = Segment<'a>> {
    let mut rest = bytes;
    strips.iter().flat_map(Strip::runs).map(move |(offset, len)| {
        let (run, later) = rest.split_at(len as usize);
        rest = later;
        Segment::new(offset, run)
    })
}

/// The list of the runs of strips with their memory, to be read.
pub fn segments_mut<'a>(
    strips: &'a [Strip],
    bytes: &'a mut [u8],
) -> impl Iterator<Item = SegmentMut<'a>> + use<'a> {
    let mut rest = bytes;
    strips.iter().flat_map(Strip::runs).map(move |(offset, len)| {
        let (run, later) = std::mem::take(&mut rest).split_at_mut(len as usize);
        rest = later;
        SegmentMut::new(offset, run)
    })
}

/// Transfers a list in calls of so many elements as a vectored system call takes, up to the first that is short.
fn in_lists<E>(
    mut list: impl Iterator<Item = E>,
    size: fn(&[E]) -> u64,
    mut transfer: impl FnMut(&mut [E]) -> Result<u64>,
) -> Result<u64> {
    let mut done = 0;
    let mut batch = Vec::new();
    loop {
        batch.clear();
        batch.extend(list.by_ref().take(MAX_SEGMENTS));
        if batch.is_empty() && done > 0 {
            return Ok(done);
        }
        let wanted = size(&batch);
        let count = transfer(&mut batch).map_err(|error| {
            let before = done + error.transferred();
            error.after(before)
        })?;
        done += count;
        if count < wanted || batch.len() < MAX_SEGMENTS {
            return Ok(done);
        }
    }
}

/// Writes strips as lists of their runs.
pub(crate) fn write_in_lists(
    strips: &[Strip],
    bytes: &[u8],
    write: impl Fn(&[Segment<'_>]) -> Result<u64>,
) -> Result<u64> {
    check(strips, bytes.len(), Operation::Write, "")?;
    in_lists(segments(strips, bytes), segment::total, |list| write(list))
}

/// Reads strips as lists of their runs.
pub(crate) fn read_in_lists(
    strips: &[Strip],
    bytes: &mut [u8],
    read: impl Fn(&mut [SegmentMut<'_>]) -> Result<u64>,
) -> Result<u64> {
    check(strips, bytes.len(), Operation::Read, "")?;
    in_lists(segments_mut(strips, bytes), segment::total_mut, read)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn strip(offset: i64, len: u64, stride: i64, count: u64) -> Strip {
        Strip { offset, len, stride, count }
    }

    fn flat(strips: &[Strip]) -> Vec<u64> {
        strips.iter().flat_map(Strip::runs).flat_map(|(offset, len)| offset..offset + len).collect()
    }

    #[test]
    fn the_first_run_outside_is_found() {
        let top = i64::MAX;
        for (wanted, strip) in [
            (None, strip(top - 1, 1, 1, 1)),
            (None, strip(top, 0, 1, 5)),
            (Some(top as u64), strip(top, 1, 1, 1)),
            (Some(-5_i64 as u64), strip(-5, 1, 1, 9)),
            (None, strip(0, 4, i64::MAX - 4, 2)),
            (Some(top as u64 - 3), strip(0, 4, i64::MAX - 3, 2)),
            (Some((-2_i64) as u64), strip(4, 1, -3, 3)),
            (None, strip(6, 1, -3, 3)),
            (Some(0), strip(0, u64::MAX, 1, u64::MAX)),
            (None, strip(7, 3, 0, u64::MAX >> 8)),
        ] {
            assert_eq!(strip.first_outside(), wanted, "{strip:?}");
        }
        let error = check(&[strip(0, 4, 8, 2)], 7, Operation::Write, "x").unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidArgument);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn parts_of_strips_are_parts_of_their_bytes(
            list in proptest::collection::vec((0_i64..5000, 0_u64..20, -30_i64..60, 0_u64..20), 0..5),
            at in 0_u64..1500,
            unit in 1_u64..100,
            most in 1_u64..60,
        ) {
            let strips: Vec<Strip> =
                list.into_iter().map(|(offset, len, stride, count)| strip(offset + 1000, len, stride, count)).collect();
            let bytes = flat(&strips);
            prop_assert_eq!(bytes.len() as u64, total(&strips));
            let cut = (at as usize).min(bytes.len());
            prop_assert_eq!(flat(&front(&strips, at)), &bytes[..cut]);
            prop_assert_eq!(flat(&rest(&strips, at)), &bytes[cut..]);
            if let Some(place) = bytes.get(cut) {
                prop_assert_eq!(offset_of(&strips, at), *place);
            }
            let mut parts = Vec::new();
            for strip in &strips {
                let mut cursor = StripCursor::new(*strip);
                while let Some(place) = cursor.position() {
                    let range = place / unit * unit..(place / unit + 1) * unit;
                    let part = cursor.take(&range, most).unwrap();
                    let span = part.span();
                    prop_assert!(part.size() > 0 && part.size() <= most);
                    prop_assert!(range.start <= span.start as u64 && span.end as u64 <= range.end);
                    parts.push(part);
                }
            }
            prop_assert_eq!(flat(&parts), bytes);
        }
    }
}
