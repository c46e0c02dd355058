//! The memory side of a transfer, in chunks: contiguous memory as one chunk, other data packed into chunks that fit in the processor's
//! cache, so that no access needs a buffer of its own size.

use std::borrow::Cow;
use std::ops::Range;

use super::source::DataGenerator;
use crate::context::counters::CounterCells;
use crate::error::Result;
use crate::layout::Pattern;

/// Bytes that are packed at a time.
const CHUNK: u64 = 256 << 10;
/// Bytes that are generated at a time if they are copied to other memory: they are still in the processor's cache then.
const SMALL_CHUNK: u64 = 32 << 10;

/// The data of a write. Parts of it are counted from its first byte.
pub(crate) enum WriteData<'a> {
    /// In one piece.
    Contiguous(Cow<'a, [u8]>),
    /// Described by a layout over memory.
    Strided(&'a [u8], &'a Pattern),
    /// Generated when it is needed.
    Generated(DataGenerator<'a>),
}

/// The memory that a read fills. Parts of it are counted from its first byte.
pub(crate) enum ReadBuffer<'a> {
    /// In one piece.
    Contiguous(&'a mut [u8]),
    /// Described by a layout over memory.
    Strided(&'a mut [u8], &'a Pattern),
}

impl WriteData<'_> {
    /// No data.
    pub(crate) const EMPTY: Self = Self::Contiguous(Cow::Borrowed(&[]));

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Contiguous(bytes) => bytes.len() as u64,
            Self::Strided(_, layout) => layout.size(),
            Self::Generated(generator) => generator.size,
        }
    }

    /// Calls `take` for the chunks of a part, in order.
    pub(crate) fn for_each_chunk(
        &self,
        counters: &CounterCells,
        part: Range<u64>,
        take: impl FnMut(Range<u64>, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.in_chunks(counters, part, CHUNK, take)
    }

    /// The same if `take` copies the chunks to other memory.
    pub(crate) fn for_each_chunk_to_memory(
        &self,
        counters: &CounterCells,
        part: Range<u64>,
        take: impl FnMut(Range<u64>, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.in_chunks(
            counters,
            part,
            if matches!(self, Self::Generated(_)) { SMALL_CHUNK } else { CHUNK },
            take,
        )
    }

    fn in_chunks(
        &self,
        counters: &CounterCells,
        part: Range<u64>,
        chunk: u64,
        mut take: impl FnMut(Range<u64>, &[u8]) -> Result<()>,
    ) -> Result<()> {
        if let Self::Contiguous(bytes) = self {
            return take(part.clone(), &bytes[within(&part)]);
        }
        let mut buffer = vec![0; chunk.min(part.end - part.start) as usize];
        counters.count_buffer(buffer.len());
        for piece in chunks(part, chunk) {
            let packed = &mut buffer[..(piece.end - piece.start) as usize];
            self.copy(counters, piece.start, packed);
            take(piece, packed)?;
        }
        Ok(())
    }

    /// Copies the data from a byte on, as much as fits.
    pub(crate) fn copy(&self, counters: &CounterCells, from: u64, into: &mut [u8]) {
        counters.copied.add(into.len() as u64);
        match self {
            Self::Contiguous(bytes) => into.copy_from_slice(&bytes[from as usize..][..into.len()]),
            Self::Strided(bytes, layout) => layout.gather(bytes, from, into).expect(CHECKED),
            Self::Generated(generator) => (generator.generate)(from, into),
        }
    }

    /// A part, packed.
    pub(crate) fn packed(&self, counters: &CounterCells, part: Range<u64>) -> Cow<'_, [u8]> {
        match self {
            Self::Contiguous(bytes) => Cow::Borrowed(&bytes[within(&part)]),
            Self::Strided(..) | Self::Generated(_) => {
                let mut packed = vec![0; (part.end - part.start) as usize];
                counters.count_buffer(packed.len());
                self.copy(counters, part.start, &mut packed);
                Cow::Owned(packed)
            }
        }
    }
}

impl ReadBuffer<'_> {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Contiguous(bytes) => bytes.len() as u64,
            Self::Strided(_, layout) => layout.size(),
        }
    }

    /// Calls `fill` for the chunks of a part, in order, until a chunk is not filled to its end; how many bytes were filled.
    pub(crate) fn for_each_chunk(
        &mut self,
        counters: &CounterCells,
        part: Range<u64>,
        mut fill: impl FnMut(Range<u64>, &mut [u8]) -> Result<u64>,
    ) -> Result<u64> {
        let (bytes, layout) = match self {
            Self::Contiguous(bytes) => return fill(part.clone(), &mut bytes[within(&part)]),
            Self::Strided(bytes, layout) => (bytes, layout),
        };
        let mut buffer = vec![0; CHUNK.min(part.end - part.start) as usize];
        counters.count_buffer(buffer.len());
        let mut filled = 0;
        for piece in chunks(part, CHUNK) {
            let packed = &mut buffer[..(piece.end - piece.start) as usize];
            let count = fill(piece.clone(), packed)?;
            layout.scatter(&packed[..count as usize], piece.start, bytes).expect(CHECKED);
            counters.copied.add(count);
            filled += count;
            if count < piece.end - piece.start {
                break;
            }
        }
        Ok(filled)
    }

    /// Calls `fill` once for all of a part.
    pub(crate) fn fill_whole(
        &mut self,
        counters: &CounterCells,
        part: Range<u64>,
        fill: impl FnOnce(&mut [u8]),
    ) {
        match self {
            Self::Contiguous(bytes) => fill(&mut bytes[within(&part)]),
            Self::Strided(bytes, layout) => {
                let mut packed = vec![0; (part.end - part.start) as usize];
                counters.count_buffer(packed.len());
                counters.copied.add(packed.len() as u64);
                fill(&mut packed);
                layout.scatter(&packed, part.start, bytes).expect(CHECKED);
            }
        }
    }
}

const CHECKED: &str = "a layout is checked against its memory before data is copied";

fn within(part: &Range<u64>) -> Range<usize> {
    part.start as usize..part.end as usize
}

fn chunks(part: Range<u64>, chunk: u64) -> impl Iterator<Item = Range<u64>> {
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
    fn strided_data_is_handed_over_in_chunks_and_in_order() {
        let (layout, counters) = (sparse(), CounterCells::default());
        let memory: Vec<u8> = (0..CHUNK * 4).map(|at| (at % 251) as u8).collect();
        let mut packed = vec![0; layout.size() as usize];
        layout.gather(&memory, 0, &mut packed).unwrap();
        let data = WriteData::Strided(&memory, &layout);
        let (mut seen, mut calls) = (Vec::new(), 0);
        data.for_each_chunk(&counters, 3..data.len(), |part, bytes| {
            assert_eq!(part.end - part.start, bytes.len() as u64);
            assert_eq!(part.start, 3 + seen.len() as u64);
            seen.extend_from_slice(bytes);
            calls += 1;
            Ok(())
        })
        .unwrap();
        assert!(seen == packed[3..] && calls == 2, "{calls} chunks");
        assert_eq!(&data.packed(&counters, 5..9)[..], &packed[5..9]);
        assert!(counters.read().allocated <= CHUNK + 4);

        let mut back = vec![0; memory.len()];
        let mut buffer = ReadBuffer::Strided(&mut back, &layout);
        let until = CHUNK + 10;
        let fill = |part: Range<u64>, bytes: &mut [u8]| {
            let count = part.end.min(until) - part.start;
            bytes[..count as usize].copy_from_slice(&packed[within(&(part.start..part.start + count))]);
            Ok(count)
        };
        assert_eq!(buffer.for_each_chunk(&counters, 0..packed.len() as u64, fill).unwrap(), until);
        let mut again = vec![0; packed.len()];
        layout.gather(&back, 0, &mut again).unwrap();
        assert!(again[..until as usize] == packed[..until as usize]);
        assert!(again[until as usize..].iter().all(|byte| *byte == 0));
    }
}
