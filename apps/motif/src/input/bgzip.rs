//! Files of bgzip (BGZF): gzip members of at most 64 KiB, each with its compressed size, so that parts can be read. The index `.gzi` has the offsets
//! of the blocks; without it the headers of the blocks are read one after the other.
//!
//! [SAM format specification](https://samtools.github.io/hts-specs/SAMv1.pdf), section 4.1.

use std::io::Read;

use anyhow::{Result, bail, ensure};
use flate2::read::{DeflateDecoder, GzDecoder};

/// The bytes of a block header up to its compressed size, as bgzip writes it.
pub const HEADER_SIZE: usize = 18;
/// The largest uncompressed block.
const LARGEST_BLOCK: u64 = 1 << 16;
/// The most blocks: 4 TiB of contents.
const MOST_BLOCKS: u64 = 1 << 26;

/// Whether a file begins like one of gzip.
pub fn is_gzip(start: &[u8]) -> bool {
    start.starts_with(&[0x1f, 0x8b, 8])
}

/// The size of the compressed block that begins with these bytes, if it is one of bgzip.
pub fn block_size(header: &[u8]) -> Option<u64> {
    let header = header.get(..HEADER_SIZE)?;
    let is_bgzip = is_gzip(header) && header[3] & 4 != 0 && header[10..12] == [6, 0];
    let sized = header[12..16] == [b'B', b'C', 2, 0];
    (is_bgzip && sized).then(|| u64::from(u16::from_le_bytes([header[16], header[17]])) + 1)
}

/// Where the blocks begin, compressed and uncompressed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockIndex {
    /// For each block the offset in the file and in the contents; last, the ends of both.
    pub offsets: Vec<(u64, u64)>,
}

impl BlockIndex {
    /// Parses an index `.gzi` for a file of this length whose last block has `last_size` bytes of contents.
    pub fn parse(bytes: &[u8], file_length: u64, last_size: impl Fn(u64) -> Result<u64>) -> Result<Self> {
        let word = |at: usize| {
            bytes.get(at..at + 8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
        };
        let count = word(0).unwrap_or(u64::MAX);
        ensure!(
            count < MOST_BLOCKS && bytes.len() as u64 == 8 + 16 * count,
            "the index has {} bytes, not those of {count} blocks; make it anew with bgzip --reindex",
            bytes.len()
        );
        let pairs =
            (0..count as usize).map(|at| (word(8 + 16 * at).unwrap_or(0), word(16 + 16 * at).unwrap_or(0)));
        let mut offsets: Vec<(u64, u64)> = std::iter::once((0, 0)).chain(pairs).collect();
        let ordered = offsets.windows(2).all(|pair| {
            pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1 && pair[1].1 - pair[0].1 <= LARGEST_BLOCK
        });
        let last = *offsets.last().unwrap_or(&(0, 0));
        ensure!(
            ordered && last.0 < file_length,
            "the offsets of the index do not fit the file; make it anew with bgzip --reindex"
        );
        offsets.push((file_length, last.1 + last_size(last.0)?));
        Ok(Self { offsets })
    }

    /// Reads the headers of all blocks: `read` returns up to so many bytes from an offset.
    pub fn build(file_length: u64, mut read: impl FnMut(u64, usize) -> Result<Vec<u8>>) -> Result<Self> {
        let (mut at, mut contents) = (0, 0);
        let mut offsets = Vec::new();
        while at < file_length {
            let header = read(at, HEADER_SIZE)?;
            let Some(size) = block_size(&header) else {
                bail!("there is no bgzip block at byte {at}; the file is damaged");
            };
            ensure!(
                size as usize > HEADER_SIZE + 8 && at + size <= file_length,
                "the bgzip block at byte {at} is cut"
            );
            let tail = read(at + size - 4, 4)?;
            let length =
                tail.try_into().map_or(u64::MAX, |tail: [u8; 4]| u64::from(u32::from_le_bytes(tail)));
            ensure!(length <= LARGEST_BLOCK, "the bgzip block at byte {at} is damaged: {length} bytes");
            offsets.push((at, contents));
            (at, contents) = (at + size, contents + length);
        }
        offsets.push((file_length, contents));
        Ok(Self { offsets })
    }

    /// The length of the contents.
    pub fn length(&self) -> u64 {
        self.offsets.last().map_or(0, |(_, contents)| *contents)
    }

    /// The part of the file with these bytes of the contents, and how many bytes of contents before them it has.
    pub fn compressed_range(&self, offset: u64, length: usize) -> (u64, usize, usize) {
        let first = self.offsets.partition_point(|(_, contents)| *contents <= offset).saturating_sub(1);
        let end = offset + length as u64;
        let last = self.offsets.partition_point(|(_, contents)| *contents < end).max(first + 1);
        let (start, contents) = self.offsets[first];
        let stop = self.offsets[last.min(self.offsets.len() - 1)].0;
        (start, (stop - start) as usize, (offset - contents) as usize)
    }
}

/// Inflates whole blocks; returns `length` bytes after the first `skip`.
pub fn inflate_blocks(compressed: &[u8], skip: usize, length: usize, out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    let (mut at, mut skip) = (0, skip);
    let mut block = Vec::with_capacity(LARGEST_BLOCK as usize);
    while at < compressed.len() && out.len() < length {
        let Some(size) = block_size(&compressed[at..]).map(|size| size as usize) else {
            bail!("no bgzip block where the index has one; make it anew with bgzip --reindex");
        };
        let Some(body) = compressed.get(at + HEADER_SIZE..at + size).filter(|body| body.len() > 8) else {
            bail!("a bgzip block is cut");
        };
        let (body, tail) = body.split_at(body.len() - 8);
        block.clear();
        DeflateDecoder::new(body).take(LARGEST_BLOCK + 1).read_to_end(&mut block)?;
        let mut crc = flate2::Crc::new();
        crc.update(&block);
        let expected = (crc.sum().to_le_bytes(), (block.len() as u32).to_le_bytes());
        ensure!((&expected.0[..], &expected.1[..]) == tail.split_at(4), "a bgzip block has a wrong checksum");
        let useful = block.get(skip.min(block.len())..).unwrap_or_default();
        skip -= skip.min(block.len());
        out.extend_from_slice(&useful[..useful.len().min(length - out.len())]);
        at += size;
    }
    ensure!(out.len() == length, "the bgzip blocks have fewer bytes than the index says; make it anew");
    Ok(())
}

/// The length of the contents of one gzip member, which must be short.
pub fn member_length(compressed: &[u8]) -> Result<u64> {
    let mut out = Vec::new();
    GzDecoder::new(compressed).take(LARGEST_BLOCK + 1).read_to_end(&mut out)?;
    Ok(out.len() as u64)
}
