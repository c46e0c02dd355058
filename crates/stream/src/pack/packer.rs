//! Packing: copies the values of a step from memory into buffers of limited size.

use std::fmt;

use aqueduct_file::layout::{LayoutError, Pattern};

use crate::pack::chunk_bounds::{ChunkBounds, LARGEST_VALUE};
use crate::pack::conversion::FloatConversion;
use crate::pack::encoder::{EncodedSizeError, StreamEncoder};
use crate::value::ValueKind;

/// Values of one stream in memory.
pub(crate) enum StreamData<'a> {
    /// Those that a pattern finds.
    Strided { memory: &'a [u8], pattern: &'a Pattern, width: u64 },
    /// Those that a pattern of the program's own finds.
    Placed { memory: &'a [u8], pattern: Pattern, width: u64 },
    /// Contiguous values that were gathered from memory.
    Gathered { bytes: Vec<u8>, width: u64 },
    /// Contiguous values.
    Contiguous { bytes: &'a [u8], width: u64 },
    /// Floating-point values that are converted.
    Converted { values: Box<StreamData<'a>>, conversion: FloatConversion },
    /// Objects that are encoded on demand.
    Encoded { encoding: Box<dyn StreamEncoder + 'a>, width: u64 },
}

/// Why values cannot be packed.
#[derive(Debug)]
pub(crate) enum PackError {
    Layout(LayoutError),
    Size(EncodedSizeError),
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layout(error) => error.fmt(f),
            Self::Size(error) => error.fmt(f),
        }
    }
}

impl From<LayoutError> for PackError {
    fn from(error: LayoutError) -> Self {
        Self::Layout(error)
    }
}

/// Bytes of values that are converted at a time: they fit the first-level cache.
const WINDOW: u64 = 4096;

impl StreamData<'_> {
    /// The same values, as `to`.
    pub(crate) fn converted(self, from: ValueKind, to: ValueKind) -> Self {
        match FloatConversion::between(from, to) {
            Some(conversion) => Self::Converted { values: Box::new(self), conversion },
            None => self,
        }
    }
}

impl StreamData<'_> {
    fn size(&self) -> u64 {
        match self {
            Self::Strided { pattern, .. } => pattern.size(),
            Self::Placed { pattern, .. } => pattern.size(),
            Self::Gathered { bytes, .. } => bytes.len() as u64,
            Self::Contiguous { bytes, .. } => bytes.len() as u64,
            Self::Converted { values, conversion } => {
                let (from, to) = conversion.widths();
                values.size() / from * to
            }
            Self::Encoded { encoding, .. } => encoding.size(),
        }
    }

    fn width(&self) -> u64 {
        match self {
            Self::Strided { width, .. }
            | Self::Placed { width, .. }
            | Self::Gathered { width, .. }
            | Self::Contiguous { width, .. }
            | Self::Encoded { width, .. } => *width,
            Self::Converted { conversion, .. } => conversion.widths().1,
        }
    }

    /// Copies the bytes from number `first` on; those before were copied before.
    fn copy(&mut self, first: u64, out: &mut [u8]) -> Result<(), PackError> {
        match self {
            Self::Strided { memory, pattern, .. } => pattern.gather(memory, first, out)?,
            Self::Placed { memory, pattern, .. } => pattern.gather(memory, first, out)?,
            Self::Gathered { bytes, .. } => out.copy_from_slice(&bytes[first as usize..][..out.len()]),
            Self::Contiguous { bytes, .. } => out.copy_from_slice(&bytes[first as usize..][..out.len()]),
            Self::Converted { values, conversion } => {
                let (from, to) = conversion.widths();
                let mut window = [0; WINDOW as usize];
                let mut source = first / to * from;
                for part in out.chunks_mut((WINDOW / from * to) as usize) {
                    let window = &mut window[..part.len() / to as usize * from as usize];
                    values.copy(source, window)?;
                    conversion.convert(window, part);
                    source += window.len() as u64;
                }
            }
            Self::Encoded { encoding, .. } => encoding.fill(out).map_err(PackError::Size)?,
        }
        Ok(())
    }
}

/// The values of a step in chunks of whole values.
pub(crate) struct Packer<'a> {
    feeds: Vec<StreamData<'a>>,
    bounds: ChunkBounds,
    /// Bytes that were copied.
    done: u64,
    /// The current stream, and the bytes of those before it.
    feed: usize,
    before: u64,
    /// Bytes of the largest chunk; at least those of a value.
    capacity: u64,
}

impl<'a> Packer<'a> {
    pub(crate) fn new(feeds: Vec<StreamData<'a>>, capacity: u64) -> Self {
        let cuts = ChunkBounds::new(feeds.iter().map(|feed| (feed.size(), feed.width())).collect());
        Self { feeds, bounds: cuts, done: 0, feed: 0, before: 0, capacity: capacity.max(LARGEST_VALUE) }
    }

    /// Bytes of all values.
    pub(crate) fn size(&self) -> u64 {
        self.bounds.bytes()
    }

    /// The number of chunks.
    pub(crate) fn chunks(&self) -> u64 {
        self.bounds.count(self.capacity)
    }

    /// Bytes of the next chunk; 0 after the last.
    pub(crate) fn next_length(&self) -> usize {
        (self.bounds.end(self.done, self.capacity) - self.done) as usize
    }

    /// Copies the next chunk to the front of `buffer`, which grows if needed; returns its length, 0 after the last.
    pub(crate) fn fill(&mut self, buffer: &mut Vec<u8>) -> Result<usize, PackError> {
        let length = self.next_length();
        if buffer.len() < length {
            buffer.reserve_exact(length - buffer.len());
            buffer.resize(length, 0);
        }
        self.fill_slice(&mut buffer[..length])?;
        Ok(length)
    }

    /// Copies the next chunk, which has the length of `chunk`.
    pub(crate) fn fill_slice(&mut self, chunk: &mut [u8]) -> Result<(), PackError> {
        let mut rest = chunk;
        while let (Some(feed), false) = (self.feeds.get_mut(self.feed), rest.is_empty()) {
            let first = self.done - self.before;
            let bytes = (feed.size() - first).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(bytes as usize);
            feed.copy(first, now)?;
            rest = later;
            self.done += bytes;
            if first + bytes == feed.size() {
                self.before += feed.size();
                self.feed += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_file::layout::Layout;

    use super::*;

    #[test]
    fn values_are_converted_in_chunks_of_every_capacity() {
        let wide: Vec<f64> = (0..1500).map(|at| f64::from(at) / 7.0).collect();
        let narrow: Vec<f32> = wide.iter().map(|value| *value as f32).collect();
        let pattern = Layout::bytes(8).unwrap().resized(0, 16).unwrap().tiled(750).unwrap();
        for capacity in [8, 12, 100, 4096, 5000, 1 << 20] {
            let memory = bytemuck::cast_slice(&wide);
            let feeds = vec![
                StreamData::Contiguous { bytes: memory, width: 8 }.converted(ValueKind::F64, ValueKind::F32),
                StreamData::Strided { memory, pattern: &pattern, width: 8 }
                    .converted(ValueKind::F64, ValueKind::F32),
                StreamData::Contiguous { bytes: bytemuck::cast_slice(&narrow), width: 4 }
                    .converted(ValueKind::F32, ValueKind::F64),
            ];
            let (mut packing, mut buffer, mut all) = (Packer::new(feeds, capacity), Vec::new(), Vec::new());
            while let length @ 1.. = packing.fill(&mut buffer).unwrap() {
                all.extend_from_slice(&buffer[..length]);
            }
            let second: Vec<f32> = narrow.iter().step_by(2).copied().collect();
            let wider: Vec<f64> = narrow.iter().map(|value| f64::from(*value)).collect();
            let parts: [&[u8]; 3] =
                [bytemuck::cast_slice(&narrow), bytemuck::cast_slice(&second), bytemuck::cast_slice(&wider)];
            assert!(all == parts.concat(), "{capacity}");
        }
    }

    #[test]
    fn chunks_of_every_capacity_hold_whole_values() {
        let memory: Vec<u8> = (0..96).collect();
        let pattern = Layout::bytes(4).unwrap().resized(0, 12).unwrap().tiled(8).unwrap();
        let feeds = || {
            vec![
                StreamData::Contiguous { bytes: &memory[..3], width: 1 },
                StreamData::Strided { memory: &memory, pattern: &pattern, width: 4 },
                StreamData::Contiguous { bytes: &[], width: 8 },
                StreamData::Contiguous { bytes: &memory[40..80], width: 8 },
            ]
        };
        let sampled = (0..8).flat_map(|at| memory[12 * at..12 * at + 4].to_vec());
        let expected: Vec<u8> = (0..3).chain(sampled).chain(40..80).collect();
        for capacity in 16..90 {
            let mut packing = Packer::new(feeds(), capacity);
            assert_eq!(packing.size(), expected.len() as u64);
            let (mut all, mut buffer, mut chunks) = (Vec::new(), Vec::new(), 0);
            loop {
                let length = packing.fill(&mut buffer).unwrap();
                if length == 0 {
                    break;
                }
                assert!(length as u64 <= capacity && buffer.capacity() as u64 <= capacity);
                // After 3 bytes and 8 values of 4 bytes, the values of 8 bytes begin.
                let end = all.len() + length;
                assert!(end <= 3 || end > 35 || (end - 3).is_multiple_of(4));
                assert!(end <= 35 || (end - 35).is_multiple_of(8));
                all.extend_from_slice(&buffer[..length]);
                chunks += 1;
            }
            assert_eq!(all, expected, "capacity {capacity}");
            assert_eq!(packing.chunks(), chunks);
        }
    }
}
