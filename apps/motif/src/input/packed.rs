//! Packed sequence files: nucleotides with 2 or 4 bits each and an index of the sequences. `motif convert` writes them.
//!
//! | bytes | contents |
//! |---|---|
//! | 0 to 7 | `AQUESEQ1` |
//! | 8 to 11, 12 to 15 | bits of a residue: 2 or 4; kind: 0 DNA, 1 RNA |
//! | 16 to 23, 24 to 31 | the number of sequences, and of residues |
//! | 32 to 39, 40 to 47 | the offset of the index, and its length |
//! | 48 to 51, 52 to 55 | CRC-32 of the index, and of bytes 0 to 51 |
//! | 64 to the index | the residues of each sequence, beginning with a whole byte, the first residue in the lowest bits |
//! | index | for each sequence: residues (8), whether it has a header (1), bytes of the name (4), runs (4), name, runs |
//!
//! All numbers are little-endian. With 2 bits A, C, G, T are 0 to 3; with 4 bits a residue is the set of bits A 1, C 2, G 4, T 8. A run (first residue
//! and length with 8 bytes each, letter) replaces residues that have no code.
//!
//! A search sees the file as FASTA with one line for each sequence, so that it can be cut at any byte of this text.

use std::ops::Range;

use anyhow::{Context, Result, ensure};
use flate2::Crc;

use super::packed_code::{encoded_length, letters_of_byte};
use crate::query::ResidueKind;

/// The first bytes.
pub const MAGIC: &[u8; 8] = b"AQUESEQ1";
/// The bytes before the residues.
pub const HEADER_SIZE: usize = 64;
/// The largest index.
const LARGEST_INDEX: u64 = 1 << 32;
/// The bytes of an entry without name and runs, and of a run.
const ENTRY_SIZE: usize = 17;
const RUN_SIZE: usize = 17;

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedHeader {
    /// Bits of a residue: 2 or 4.
    pub bits: u32,
    /// The kind of residues.
    pub kind: ResidueKind,
    /// The number of sequences.
    pub sequences: u64,
    /// The number of residues.
    pub residues: u64,
    /// Where the index begins, after the residues.
    pub index_offset: u64,
    /// The length of the index.
    pub index_length: u64,
    /// CRC-32 of the index.
    pub index_crc: u32,
}

/// Residues that are one letter without a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LetterRun {
    /// The residues, from 0 in their sequence.
    pub residues: Range<u64>,
    /// The letter.
    pub letter: u8,
}

/// A sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedSequence {
    /// The number of residues.
    pub residues: u64,
    /// The name; none for residues before the first header.
    pub name: Option<Vec<u8>>,
    /// Letters without a code, in order.
    pub runs: Vec<LetterRun>,
}

impl PackedSequence {
    /// The bytes of the text before the residues: `>`, the name, and the end of the line.
    fn header_length(&self) -> u64 {
        self.name.as_ref().map_or(0, |name| name.len() as u64 + 2)
    }

    fn text_length(&self) -> u64 {
        self.header_length() + self.residues + 1
    }
}

/// The sequences of a packed file and their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedIndex {
    bits: u32,
    /// The kind of residues.
    pub kind: ResidueKind,
    sequences: Vec<PackedSequence>,
    /// For each sequence its offset in the text and in the file; last, the ends of both.
    places: Vec<(u64, u64)>,
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

impl PackedHeader {
    /// As bytes.
    pub fn to_bytes(self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&self.bits.to_le_bytes());
        bytes[12..16].copy_from_slice(&u32::from(self.kind == ResidueKind::Rna).to_le_bytes());
        for (at, word) in
            [self.sequences, self.residues, self.index_offset, self.index_length].iter().enumerate()
        {
            bytes[16 + 8 * at..24 + 8 * at].copy_from_slice(&word.to_le_bytes());
        }
        bytes[48..52].copy_from_slice(&self.index_crc.to_le_bytes());
        let sum = crc(&bytes[..52]);
        bytes[52..56].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// From bytes, for a file of this length.
    pub fn parse(bytes: &[u8], file_length: u64) -> Result<Self> {
        let mut reader = IndexReader(bytes.get(8..HEADER_SIZE).context("the header is cut")?);
        let (bits, kind) = (reader.u32()?, reader.u32()?);
        let header = Self {
            bits,
            kind: if kind == 1 { ResidueKind::Rna } else { ResidueKind::Dna },
            sequences: reader.u64()?,
            residues: reader.u64()?,
            index_offset: reader.u64()?,
            index_length: reader.u64()?,
            index_crc: reader.u32()?,
        };
        ensure!(reader.u32()? == crc(&bytes[..52]), "the header is damaged: its checksum is wrong");
        ensure!(
            [2, 4].contains(&bits) && kind < 2,
            "an unknown code of residues; use a newer version of motif"
        );
        let end = header.index_offset.checked_add(header.index_length);
        let fits = end == Some(file_length) && header.index_offset >= HEADER_SIZE as u64;
        ensure!(
            fits && header.index_length <= LARGEST_INDEX,
            "the file is cut or was not written to its end"
        );
        Ok(header)
    }
}

/// Takes numbers from bytes.
struct IndexReader<'a>(&'a [u8]);

impl<'a> IndexReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).context("the index of the sequences is cut")?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into()?))
    }
}

/// Adds the entry of a sequence to an index.
pub fn write_entry(sequence: &PackedSequence, index: &mut Vec<u8>) {
    let name = sequence.name.as_deref().unwrap_or_default();
    index.extend(sequence.residues.to_le_bytes());
    index.push(u8::from(sequence.name.is_some()));
    index.extend((name.len() as u32).to_le_bytes());
    index.extend((sequence.runs.len() as u32).to_le_bytes());
    index.extend(name);
    for run in &sequence.runs {
        index.extend(run.residues.start.to_le_bytes());
        index.extend((run.residues.end - run.residues.start).to_le_bytes());
        index.push(run.letter);
    }
}

/// The checksum of an index.
pub fn index_checksum(index: &[u8]) -> u32 {
    crc(index)
}

impl PackedIndex {
    /// From the bytes of the index.
    pub fn parse(header: &PackedHeader, index: &[u8]) -> Result<Self> {
        ensure!(crc(index) == header.index_crc, "the index is damaged: its checksum is wrong");
        let mut reader = IndexReader(index);
        ensure!(
            header.sequences <= (index.len() / ENTRY_SIZE) as u64,
            "the index has fewer sequences than the header"
        );
        let (mut sequences, mut places) = (Vec::with_capacity(header.sequences as usize), Vec::new());
        let (mut text, mut stored) = (0u64, HEADER_SIZE as u64);
        for number in 0..header.sequences {
            let sequence = Self::parse_entry(&mut reader, number == 0)?;
            places.push((text, stored));
            ensure!(sequence.residues <= 1 << 48, "a sequence is longer than the file");
            text += sequence.text_length();
            stored += encoded_length(sequence.residues, header.bits);
            ensure!(stored <= header.index_offset, "the sequences are longer than the file");
            sequences.push(sequence);
        }
        places.push((text, stored));
        Ok(Self { bits: header.bits, kind: header.kind, sequences, places })
    }

    fn parse_entry(reader: &mut IndexReader<'_>, is_first: bool) -> Result<PackedSequence> {
        let (residues, has_header) = (reader.u64()?, reader.take(1)?[0] != 0);
        let (name, count) = (reader.u32()? as usize, reader.u32()? as usize);
        ensure!(has_header || (is_first && name == 0), "a sequence has no header");
        let name = reader.take(name)?.to_vec();
        ensure!(!name.iter().any(u8::is_ascii_control), "a name has control characters");
        let mut entries = IndexReader(reader.take(count.checked_mul(RUN_SIZE).context("too many runs")?)?);
        let mut runs: Vec<LetterRun> = Vec::with_capacity(count);
        for _ in 0..count {
            let (start, length, letter) = (entries.u64()?, entries.u64()?, entries.take(1)?[0]);
            let end = start.checked_add(length).filter(|end| *end <= residues);
            let ordered = runs.last().is_none_or(|last| last.residues.end <= start);
            let end = end
                .filter(|_| ordered && letter > b' ')
                .context("a run of letters does not fit its sequence")?;
            runs.push(LetterRun { residues: start..end, letter });
        }
        Ok(PackedSequence { residues, name: has_header.then_some(name), runs })
    }

    /// The length of the text.
    pub fn length(&self) -> u64 {
        self.places.last().map_or(0, |(text, _)| *text)
    }

    /// The sequences with text in this range, and for each the range in its own text.
    fn overlapping(&self, offset: u64, length: usize) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        let end = (offset + length as u64).min(self.length());
        let first = self.places.partition_point(|(text, _)| *text <= offset).saturating_sub(1);
        let bounds = (first..self.sequences.len()).map(|at| (at, self.places[at].0, self.places[at + 1].0));
        bounds
            .take_while(move |(_, from, _)| *from < end)
            .map(move |(at, from, to)| (at, offset.max(from) - from..end.min(to) - from))
    }

    /// The residues of a sequence in a range of its text.
    fn residues_in(&self, sequence: usize, text: &Range<u64>) -> Range<u64> {
        let PackedSequence { residues, .. } = self.sequences[sequence];
        let header = self.sequences[sequence].header_length();
        let place = |at: u64| at.saturating_sub(header).min(residues);
        place(text.start)..place(text.end)
    }

    /// The bytes of the file with the residues of a part of the text: offset and length.
    pub fn stored_range(&self, offset: u64, length: usize) -> (u64, usize) {
        let per_byte = u64::from(8 / self.bits);
        let mut bytes: Option<Range<u64>> = None;
        for (sequence, text) in self.overlapping(offset, length) {
            let residues = self.residues_in(sequence, &text);
            if !residues.is_empty() {
                let first = self.places[sequence].1 + residues.start / per_byte;
                let end = self.places[sequence].1 + residues.end.div_ceil(per_byte);
                bytes = Some(bytes.map_or(first, |bytes| bytes.start)..end);
            }
        }
        bytes.map_or((HEADER_SIZE as u64, 0), |bytes| (bytes.start, (bytes.end - bytes.start) as usize))
    }

    /// Writes a part of the text to `out`, from the bytes of [`stored_range`](Self::stored_range).
    pub fn unpack(&self, stored: &[u8], offset: u64, length: usize, out: &mut Vec<u8>) -> Result<()> {
        let (first_byte, count) = self.stored_range(offset, length);
        ensure!(stored.len() == count, "{} bytes instead of {count} were read", stored.len());
        let per_byte = u64::from(8 / self.bits);
        out.clear();
        out.reserve(length);
        for (number, text) in self.overlapping(offset, length) {
            let sequence = &self.sequences[number];
            if let Some(name) = &sequence.name {
                let header = [&b">"[..], name, b"\n"].concat();
                let end = (text.end as usize).min(header.len());
                out.extend_from_slice(&header[(text.start as usize).min(end)..end]);
            }
            let residues = self.residues_in(number, &text);
            if !residues.is_empty() {
                let start = (self.places[number].1 + residues.start / per_byte - first_byte) as usize;
                let end = (self.places[number].1 + residues.end.div_ceil(per_byte) - first_byte) as usize;
                let from = out.len();
                unpack_residues(&stored[start..end], self.bits, &residues, out);
                overwrite(&sequence.runs, &residues, &mut out[from..]);
            }
            if text.end == sequence.text_length() {
                out.push(b'\n');
            }
        }
        Ok(())
    }
}

/// Appends residues; the first one is in the first byte.
fn unpack_residues(bytes: &[u8], bits: u32, residues: &Range<u64>, out: &mut Vec<u8>) {
    let per_byte = 8 / bits as usize;
    let (from, skip) = (out.len(), (residues.start % per_byte as u64) as usize);
    for byte in bytes {
        out.extend_from_slice(&letters_of_byte(*byte, bits)[..per_byte]);
    }
    out.drain(from..from + skip);
    out.truncate(from + (residues.end - residues.start) as usize);
}

fn overwrite(runs: &[LetterRun], residues: &Range<u64>, letters: &mut [u8]) {
    let first = runs.partition_point(|run| run.residues.end <= residues.start);
    for run in runs[first..].iter().take_while(|run| run.residues.start < residues.end) {
        let start = run.residues.start.max(residues.start) - residues.start;
        let end = run.residues.end.min(residues.end) - residues.start;
        letters[start as usize..end as usize].fill(run.letter);
    }
}
