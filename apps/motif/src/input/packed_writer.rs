//! Writing of packed sequence files.

use std::fs::{self, File};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::fasta::{FastaEvents, FastaParser, LineState, append_normal};
use super::packed::{HEADER_SIZE, LetterRun, PackedHeader, PackedSequence, index_checksum, write_entry};
use super::packed_code::code_of;
use crate::query::ResidueKind;

/// The largest index. It is kept until the residues are written.
const LARGEST_INDEX: usize = 1 << 30;

/// Writes a packed file beside its name, and renames it when it is complete.
pub struct PackedWriter {
    path: PathBuf,
    temporary: PathBuf,
    parser: FastaParser,
    sink: PackedSink,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedSummary {
    /// The number of sequences.
    pub sequences: u64,
    /// The number of residues.
    pub residues: u64,
    /// The bytes of the file.
    pub bytes: u64,
}

struct PackedSink {
    out: BufWriter<File>,
    bits: u32,
    kind: ResidueKind,
    index: Vec<u8>,
    open: Option<PackedSequence>,
    /// The codes of the last byte of the open sequence, and how many bits of it are used.
    byte: u8,
    used: u32,
    sequences: u64,
    residues: u64,
    bytes: u64,
    letters: Vec<u8>,
    failure: Option<anyhow::Error>,
}

impl PackedWriter {
    /// Creates the file.
    pub fn create(path: &Path, bits: u32, kind: ResidueKind) -> Result<Self> {
        ensure!(kind.has_strands(), "only DNA and RNA have a packed form, with 2 or 4 bits for a residue");
        ensure!([2, 4].contains(&bits), "a residue has 2 or 4 bits");
        let name = path.file_name().context("a file name is needed")?;
        let temporary = path.with_file_name(format!(".{}.{}", name.display(), std::process::id()));
        let file = File::create(&temporary).with_context(|| format!("creating {}", temporary.display()))?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        out.write_all(&[0; HEADER_SIZE])?;
        let sink = PackedSink {
            out,
            bits,
            kind,
            index: Vec::new(),
            open: None,
            byte: 0,
            used: 0,
            sequences: 0,
            residues: 0,
            bytes: HEADER_SIZE as u64,
            letters: Vec::new(),
            failure: None,
        };
        Ok(Self { path: path.to_owned(), temporary, parser: FastaParser::new(LineState::Start), sink })
    }

    /// Adds a piece of FASTA text.
    pub fn feed(&mut self, piece: &[u8]) -> Result<()> {
        self.parser.parse(piece, &mut self.sink);
        self.sink.failure.take().map_or(Ok(()), Err)
    }

    /// The end of an input file. The next one begins a new line.
    pub fn end_of_file(&mut self) -> Result<()> {
        self.parser.finish(&mut self.sink);
        self.parser = FastaParser::new(LineState::Start);
        let ended = self.sink.end_sequence();
        self.sink.keep(ended);
        self.sink.failure.take().map_or(Ok(()), Err)
    }

    /// Writes the index and the header, and gives the file its name.
    pub fn finish(mut self) -> Result<PackedSummary> {
        let sink = &mut self.sink;
        sink.end_sequence()?;
        sink.out.write_all(&sink.index)?;
        let header = PackedHeader {
            bits: sink.bits,
            kind: sink.kind,
            sequences: sink.sequences,
            residues: sink.residues,
            index_offset: sink.bytes,
            index_length: sink.index.len() as u64,
            index_crc: index_checksum(&sink.index),
        };
        sink.out.seek(SeekFrom::Start(0))?;
        sink.out.write_all(&header.to_bytes())?;
        sink.out.flush()?;
        sink.out.get_ref().sync_all().with_context(|| format!("writing {}", self.temporary.display()))?;
        fs::rename(&self.temporary, &self.path)
            .with_context(|| format!("creating {}", self.path.display()))?;
        let bytes = sink.bytes + sink.index.len() as u64;
        Ok(PackedSummary { sequences: header.sequences, residues: header.residues, bytes })
    }
}

impl Drop for PackedWriter {
    /// Removes what was not finished.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.temporary);
    }
}

impl PackedSink {
    fn end_sequence(&mut self) -> Result<()> {
        if self.used > 0 {
            self.out.write_all(&[self.byte])?;
            self.bytes += 1;
            (self.byte, self.used) = (0, 0);
        }
        if let Some(sequence) = self.open.take() {
            self.sequences += 1;
            self.residues += sequence.residues;
            write_entry(&sequence, &mut self.index);
            ensure!(self.index.len() <= LARGEST_INDEX, "the index is larger than {LARGEST_INDEX} bytes");
        }
        Ok(())
    }

    fn add(&mut self, letters: &[u8]) -> Result<()> {
        // Residues before a header are a sequence without a name; in a later file it is empty.
        let name = (self.sequences > 0).then(Vec::new);
        let sequence = self.open.get_or_insert_with(|| PackedSequence { name, ..PackedSequence::default() });
        let first = letters.first().filter(|letter| sequence.residues == 0 && matches!(letter, b'>' | b';'));
        ensure!(first.is_none(), "a sequence begins with a character of headers and comments");
        for letter in letters {
            let code = code_of(*letter, self.bits);
            if code.is_none() {
                let at = sequence.residues;
                match sequence.runs.last_mut().filter(|run| run.letter == *letter && run.residues.end == at) {
                    Some(run) => run.residues.end += 1,
                    None => sequence.runs.push(LetterRun { residues: at..at + 1, letter: *letter }),
                }
            }
            self.byte |= code.unwrap_or(0) << self.used;
            self.used += self.bits;
            sequence.residues += 1;
            if self.used == 8 {
                self.out.write_all(&[self.byte])?;
                self.bytes += 1;
                (self.byte, self.used) = (0, 0);
            }
        }
        let memory = sequence.runs.len() * size_of::<LetterRun>();
        ensure!(
            memory <= LARGEST_INDEX,
            "too many letters other than A, C, G and T for 2 bits; use --bits 4"
        );
        Ok(())
    }

    fn keep(&mut self, outcome: Result<()>) {
        if let Err(error) = outcome {
            self.failure.get_or_insert(error);
        }
    }
}

impl FastaEvents for PackedSink {
    fn header_begins(&mut self, _: usize) -> bool {
        let ended = self.end_sequence();
        self.keep(ended);
        true
    }

    fn header_ended(&mut self, name: &[u8]) {
        let name = name.iter().map(|byte| if byte.is_ascii_control() { b'?' } else { *byte }).collect();
        self.open = Some(PackedSequence { name: Some(name), ..PackedSequence::default() });
    }

    fn residues(&mut self, letters: &[u8]) {
        let mut normal = std::mem::take(&mut self.letters);
        normal.clear();
        append_normal(letters, self.kind, &mut normal);
        let added = self.add(&normal);
        self.letters = normal;
        self.keep(added);
    }
}
