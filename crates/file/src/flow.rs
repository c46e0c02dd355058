//! Data between memory and the file, handed over in order: as it lies, where it lies in one piece; else packed, a piece at a time that the
//! processor's cache holds, so that no access needs memory of its own size.

use std::borrow::Cow;
use std::ops::Range;

use crate::counters::Tally;
use crate::error::Result;
use crate::layout::Pattern;
use crate::memory::Maker;

/// Bytes that are packed at once.
const CHUNK: u64 = 256 << 10;
/// Bytes that are made at once where they go on to memory: the processor has them at hand when they are copied.
const SMALL_CHUNK: u64 = 32 << 10;

/// Data on its way to the file. Parts of it are counted from its first byte.
pub(crate) enum Outflow<'a> {
    /// In one piece.
    Straight(Cow<'a, [u8]>),
    /// Laid out in memory that holds all of it.
    LaidOut(&'a [u8], &'a Pattern),
    /// Not in memory yet.
    Made(Maker<'a>),
}

/// Room for data from the file. Parts of it are counted from its first byte.
pub(crate) enum Inflow<'a> {
    /// In one piece.
    Straight(&'a mut [u8]),
    /// Laid out in memory that holds all of it.
    LaidOut(&'a mut [u8], &'a Pattern),
}

impl Outflow<'_> {
    /// No data.
    pub(crate) const NOTHING: Self = Self::Straight(Cow::Borrowed(&[]));

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Straight(bytes) => bytes.len() as u64,
            Self::LaidOut(_, layout) => layout.size(),
            Self::Made(maker) => maker.size,
        }
    }

    /// Hands a part over, in order, in as few pieces as may be.
    pub(crate) fn each(
        &self,
        tally: &Tally,
        part: Range<u64>,
        take: impl FnMut(Range<u64>, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.in_pieces(tally, part, CHUNK, take)
    }

    /// Hands a part over to whoever copies it to other memory, in order.
    pub(crate) fn each_to_memory(
        &self,
        tally: &Tally,
        part: Range<u64>,
        take: impl FnMut(Range<u64>, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.in_pieces(tally, part, if matches!(self, Self::Made(_)) { SMALL_CHUNK } else { CHUNK }, take)
    }

    fn in_pieces(
        &self,
        tally: &Tally,
        part: Range<u64>,
        chunk: u64,
        mut take: impl FnMut(Range<u64>, &[u8]) -> Result<()>,
    ) -> Result<()> {
        if let Self::Straight(bytes) = self {
            return take(part.clone(), &bytes[within(&part)]);
        }
        let mut buffer = vec![0; chunk.min(part.end - part.start) as usize];
        tally.buffer(buffer.len());
        for piece in pieces(part, chunk) {
            let packed = &mut buffer[..(piece.end - piece.start) as usize];
            self.copy(tally, piece.start, packed);
            take(piece, packed)?;
        }
        Ok(())
    }

    /// Copies what begins at a byte, as much as there is room for.
    pub(crate) fn copy(&self, tally: &Tally, from: u64, into: &mut [u8]) {
        tally.copied.add(into.len() as u64);
        match self {
            Self::Straight(bytes) => into.copy_from_slice(&bytes[from as usize..][..into.len()]),
            Self::LaidOut(bytes, layout) => layout.gather(bytes, from, into).expect(CHECKED),
            Self::Made(maker) => (maker.make)(from, into),
        }
    }

    /// A part in one piece.
    pub(crate) fn packed(&self, tally: &Tally, part: Range<u64>) -> Cow<'_, [u8]> {
        match self {
            Self::Straight(bytes) => Cow::Borrowed(&bytes[within(&part)]),
            Self::LaidOut(..) | Self::Made(_) => {
                let mut packed = vec![0; (part.end - part.start) as usize];
                tally.buffer(packed.len());
                self.copy(tally, part.start, &mut packed);
                Cow::Owned(packed)
            }
        }
    }
}

impl Inflow<'_> {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Straight(bytes) => bytes.len() as u64,
            Self::LaidOut(_, layout) => layout.size(),
        }
    }

    /// Has a part filled, in order, in as few pieces as may be, until a piece is not filled to its end; how many bytes were filled.
    pub(crate) fn each(
        &mut self,
        tally: &Tally,
        part: Range<u64>,
        mut fill: impl FnMut(Range<u64>, &mut [u8]) -> Result<u64>,
    ) -> Result<u64> {
        let (bytes, layout) = match self {
            Self::Straight(bytes) => return fill(part.clone(), &mut bytes[within(&part)]),
            Self::LaidOut(bytes, layout) => (bytes, layout),
        };
        let mut buffer = vec![0; CHUNK.min(part.end - part.start) as usize];
        tally.buffer(buffer.len());
        let mut filled = 0;
        for piece in pieces(part, CHUNK) {
            let packed = &mut buffer[..(piece.end - piece.start) as usize];
            let count = fill(piece.clone(), packed)?;
            layout.scatter(&packed[..count as usize], piece.start, bytes).expect(CHECKED);
            tally.copied.add(count);
            filled += count;
            if count < piece.end - piece.start {
                break;
            }
        }
        Ok(filled)
    }

    /// Has a part filled in one piece, to its end.
    pub(crate) fn whole(&mut self, tally: &Tally, part: Range<u64>, fill: impl FnOnce(&mut [u8])) {
        match self {
            Self::Straight(bytes) => fill(&mut bytes[within(&part)]),
            Self::LaidOut(bytes, layout) => {
                let mut packed = vec![0; (part.end - part.start) as usize];
                tally.buffer(packed.len());
                tally.copied.add(packed.len() as u64);
                fill(&mut packed);
                layout.scatter(&packed, part.start, bytes).expect(CHECKED);
            }
        }
    }
}

const CHECKED: &str = "a layout is checked against its memory before data flows";

fn within(part: &Range<u64>) -> Range<usize> {
    part.start as usize..part.end as usize
}

fn pieces(part: Range<u64>, chunk: u64) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = part;
    (start..end).step_by(chunk as usize).map(move |at| at..(at + chunk).min(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Basic, Layout};

    /// Every second of many 16-bit numbers.
    fn sparse() -> Pattern {
        let number = Layout::from(Basic::I16).resized(0, 4).unwrap();
        number.tiled(CHUNK).unwrap()
    }

    #[test]
    fn laid_out_data_flows_in_pieces_and_in_order() {
        let (layout, tally) = (sparse(), Tally::default());
        let memory: Vec<u8> = (0..CHUNK * 4).map(|at| (at % 251) as u8).collect();
        let mut packed = vec![0; layout.size() as usize];
        layout.gather(&memory, 0, &mut packed).unwrap();
        let flow = Outflow::LaidOut(&memory, &layout);
        let (mut seen, mut calls) = (Vec::new(), 0);
        flow.each(&tally, 3..flow.len(), |part, bytes| {
            assert_eq!(part.end - part.start, bytes.len() as u64);
            assert_eq!(part.start, 3 + seen.len() as u64);
            seen.extend_from_slice(bytes);
            calls += 1;
            Ok(())
        })
        .unwrap();
        assert!(seen == packed[3..] && calls == 2, "{calls} pieces");
        assert_eq!(&flow.packed(&tally, 5..9)[..], &packed[5..9]);
        assert!(tally.read().allocated <= CHUNK + 4);

        let mut back = vec![0; memory.len()];
        let mut flow = Inflow::LaidOut(&mut back, &layout);
        let until = CHUNK + 10;
        let fill = |part: Range<u64>, bytes: &mut [u8]| {
            let count = part.end.min(until) - part.start;
            bytes[..count as usize].copy_from_slice(&packed[within(&(part.start..part.start + count))]);
            Ok(count)
        };
        assert_eq!(flow.each(&tally, 0..packed.len() as u64, fill).unwrap(), until);
        let mut again = vec![0; packed.len()];
        layout.gather(&back, 0, &mut again).unwrap();
        assert!(again[..until as usize] == packed[..until as usize]);
        assert!(again[until as usize..].iter().all(|byte| *byte == 0));
    }
}
