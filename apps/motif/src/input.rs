//! Sequence files: formats, blocks of bgzip, reading in pieces, and FASTA as a stream of residues.

pub mod bgzip;
pub mod contents;
pub mod database;
pub mod fasta;
pub mod packed;
mod packed_code;
pub mod packed_writer;
pub mod piece_reader;

/// A part of a file, in bytes of its uncompressed contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceRequest {
    /// The number of the file.
    pub file: usize,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: usize,
}
