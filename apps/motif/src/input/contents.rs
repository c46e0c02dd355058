//! The contents of a file from its start to its end, in any format, read by one rank.

use std::io::{self, BufReader, Read};

use anyhow::{Context, Result};
use aqueduct::comm::Comm;
use aqueduct::file::File;
use flate2::read::MultiGzDecoder;

use super::PieceRequest;
use super::database::{DatabaseFile, FileFormat};
use super::piece_reader::{InputMode, PieceReader};

/// The bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// A file as a stream of the bytes that are stored.
pub(crate) struct FileStream {
    file: File,
    /// Bytes that were read.
    pub(crate) bytes: u64,
}

impl FileStream {
    /// Opens a file for this rank.
    pub(crate) fn open(world: &Comm, name: &str) -> Result<Self> {
        Ok(Self { file: File::open(&world.comm_self(), name)?, bytes: 0 })
    }

    pub(crate) fn close(self) -> Result<()> {
        Ok(self.file.close()?)
    }
}

impl Read for FileStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.file.at(self.bytes).read(&mut *out).map_err(io::Error::other)?.bytes();
        self.bytes += count;
        Ok(count as usize)
    }
}

/// Calls `found` with the pieces of the contents.
pub fn read_contents(
    world: &Comm,
    file: &DatabaseFile,
    mut found: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut piece = Vec::new();
    if file.format == FileFormat::Gzip {
        let stream = FileStream::open(world, &file.name)?;
        let mut decoder = MultiGzDecoder::new(BufReader::with_capacity(1 << 18, stream));
        piece.resize(PIECE as usize, 0);
        loop {
            let count = decoder.read(&mut piece).with_context(|| format!("{}: inflating", file.name))?;
            if count == 0 {
                return decoder.into_inner().into_inner().close();
            }
            found(&piece[..count])?;
        }
    }
    let mut reader = PieceReader::new(&world.comm_self(), std::slice::from_ref(file), InputMode::Together);
    let mut offset = 0;
    while offset < file.length {
        let length = (file.length - offset).min(PIECE);
        let request = PieceRequest { file: 0, offset, length: length as usize };
        reader.read(0, Some(request), true, &mut piece)??;
        found(&piece)?;
        offset += length;
    }
    reader.finish()
}
