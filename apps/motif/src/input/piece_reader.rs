//! Reading pieces of files: together through collective views, or by rank 0 alone, which sends them on.
//!
//! The first piece of a part is read collectively. Later pieces are read ahead, by each rank for itself and while it searches the piece before: then
//! a rank needs no other one, and reading takes no time of its own if the search is slower.

use anyhow::{Context, Result, ensure};
use aqueduct::comm::Comm;
use aqueduct::file::layout::Layout;
use aqueduct::file::{File, Request, View};

use super::PieceRequest;
use super::bgzip;
use super::database::{DatabaseFile, FileFormat};

/// How the ranks get their input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputMode {
    /// Each rank reads its part.
    Together,
    /// Rank 0 reads everything and sends each rank its part.
    Master,
}

/// The bytes of a file that hold a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoredRange {
    file: usize,
    offset: u64,
    length: usize,
    /// Bytes of the contents before the piece.
    skip: usize,
}

/// Reads pieces; one call on all ranks of its communicator is a round.
pub struct PieceReader<'a> {
    comm: Comm,
    files: &'a [DatabaseFile],
    mode: InputMode,
    /// The file that is open, with its number.
    open: Option<(usize, File)>,
    raw: Vec<u8>,
    /// The piece that is being read ahead, and a buffer for the next one.
    ahead: Option<(StoredRange, Request<Vec<u8>>)>,
    spare: Vec<u8>,
    /// Bytes that this rank has read from files.
    pub bytes_read: u64,
}

impl<'a> PieceReader<'a> {
    /// For the ranks of `comm`. In mode `Together`, all ranks read the same file in a round.
    pub fn new(comm: &Comm, files: &'a [DatabaseFile], mode: InputMode) -> Self {
        let (raw, spare) = (Vec::new(), Vec::new());
        Self { comm: comm.clone(), files, mode, open: None, raw, ahead: None, spare, bytes_read: 0 }
    }

    /// The communicator of the rounds.
    pub fn comm(&self) -> &Comm {
        &self.comm
    }

    fn stored_range(&self, request: &PieceRequest) -> StoredRange {
        let (offset, length, skip) = match &self.files[request.file].format {
            FileFormat::Bgzip(index) => index.compressed_range(request.offset, request.length),
            FileFormat::Packed(index) => {
                let (offset, length) = index.stored_range(request.offset, request.length);
                (offset, length, 0)
            }
            FileFormat::Plain | FileFormat::Gzip => (request.offset, request.length, 0),
        };
        StoredRange { file: request.file, offset, length, skip }
    }

    /// Whether this piece is being read ahead.
    pub fn is_ahead(&self, request: &PieceRequest) -> bool {
        self.ahead.as_ref().is_some_and(|(range, _)| *range == self.stored_range(request))
    }

    /// Starts to read the next piece of the open file, for this rank only.
    pub fn read_ahead(&mut self, request: &PieceRequest) -> Result<()> {
        let range = self.stored_range(request);
        if let (InputMode::Together, Some((open, file))) = (self.mode, &self.open)
            && *open == range.file
        {
            let mut buffer = std::mem::take(&mut self.spare);
            buffer.resize(range.length, 0);
            self.ahead = Some((range, file.at(range.offset).start_read(buffer)?));
        }
        Ok(())
    }

    /// Reads the piece of each rank. With `all`, all ranks take part, also those without a request or with a piece that is ahead; in mode `Together`
    /// their `file` is the same. Without, the piece of this rank is ahead, or it has no request.
    pub fn read(
        &mut self,
        file: usize,
        request: Option<PieceRequest>,
        all: bool,
        out: &mut Vec<u8>,
    ) -> Result<Result<()>> {
        let ahead = self.ahead.take();
        let wanted = request.map(|request| self.stored_range(&request));
        let (ahead, other) = match (ahead, wanted) {
            (Some((range, read)), Some(wanted)) if range == wanted => (Some(read), None),
            (other, _) => (None, other),
        };
        if let Some((_, read)) = other {
            // It was read for nothing: the search needs another piece.
            let _ = read.wait();
        }
        if all {
            let none = StoredRange {
                file: wanted.map_or(file, |wanted| wanted.file),
                offset: 0,
                length: 0,
                skip: 0,
            };
            let range = wanted.filter(|_| ahead.is_none()).unwrap_or(none);
            match self.mode {
                InputMode::Together => self.read_together(range.file, range.offset, range.length)?,
                InputMode::Master => {
                    if let Err(error) = self.read_by_master(range.file, range.offset, range.length)? {
                        return Ok(Err(error));
                    }
                }
            }
        }
        let (Some(request), Some(range)) = (request, wanted) else { return Ok(Ok(())) };
        if let Some(read) = ahead {
            match read.wait() {
                Ok((mut bytes, count)) => {
                    bytes.truncate(count.bytes() as usize);
                    self.bytes_read += count.bytes();
                    self.spare = std::mem::replace(&mut self.raw, bytes);
                }
                Err(error) => return Ok(Err(error.into())),
            }
        }
        Ok(self.unpack(request, range, out))
    }

    /// The contents of the bytes that were read.
    fn unpack(&mut self, request: PieceRequest, range: StoredRange, out: &mut Vec<u8>) -> Result<()> {
        let files = self.files;
        let DatabaseFile { name, format, .. } = &files[range.file];
        let count = self.raw.len();
        ensure!(
            count == range.length,
            "{name}: cut to {} bytes while it was read",
            range.offset + count as u64
        );
        match format {
            FileFormat::Bgzip(_) => bgzip::inflate_blocks(&self.raw, range.skip, request.length, out)
                .with_context(|| format!("{name}: bytes from {} on", range.offset)),
            FileFormat::Packed(index) => index
                .unpack(&self.raw, request.offset, request.length, out)
                .with_context(|| format!("{name}: bytes from {} on", range.offset)),
            FileFormat::Plain | FileFormat::Gzip => {
                std::mem::swap(out, &mut self.raw);
                Ok(())
            }
        }
    }

    fn read_together(&mut self, file: usize, offset: u64, length: usize) -> Result<()> {
        self.switch_to(file)?;
        self.raw.resize(length, 0);
        if let Some((_, file)) = &self.open {
            // The contiguous view of this rank's piece.
            let view = View::of(offset, &Layout::bytes(1)?)?;
            let count = file.with_view(&view).all().read(&mut self.raw)?.bytes();
            self.raw.truncate(count as usize);
            self.bytes_read += count;
        }
        Ok(())
    }

    /// Rank 0 reads for all. If that fails, the others get short pieces.
    fn read_by_master(&mut self, file: usize, offset: u64, length: usize) -> Result<Result<()>> {
        let all = self.comm.gather(0, &[file as u64, offset, length as u64])?;
        let mut outcome = Ok(());
        let mut parts: Vec<Vec<u8>> = Vec::new();
        for request in all.iter().flat_map(|all| all.chunks_exact(3)) {
            let part = if outcome.is_ok() { self.read_part(request) } else { Ok(Vec::new()) };
            parts.push(part.unwrap_or_else(|error| {
                outcome = Err(error);
                Vec::new()
            }));
        }
        self.raw = self.comm.scatter_varied(0, &parts)?;
        Ok(outcome)
    }

    fn read_part(&mut self, request: &[u64]) -> Result<Vec<u8>> {
        let mut part = vec![0; request[2] as usize];
        if part.is_empty() {
            return Ok(part);
        }
        self.switch_to(request[0] as usize)?;
        if let Some((_, file)) = &self.open {
            let count = file.at(request[1]).read(&mut part)?.bytes();
            part.truncate(count as usize);
            self.bytes_read += count;
        }
        Ok(part)
    }

    /// Opens a file, collectively in mode `Together`, and closes the one before.
    fn switch_to(&mut self, file: usize) -> Result<()> {
        if self.open.as_ref().is_some_and(|(open, _)| *open == file) {
            return Ok(());
        }
        if let Some((_, open)) = self.open.take() {
            open.close()?;
        }
        let comm = if self.mode == InputMode::Together { self.comm.clone() } else { self.comm.comm_self() };
        self.open = Some((file, File::open(&comm, &self.files[file].name)?));
        Ok(())
    }

    /// Closes the open file. Collective in mode `Together`.
    pub fn finish(&mut self) -> Result<()> {
        if let Some((_, read)) = self.ahead.take() {
            // It was read for nothing: the search has stopped.
            let _ = read.wait();
        }
        let closed = self.open.take().map(|(_, file)| file.close()).transpose();
        ensure!(
            closed.is_ok(),
            "closing a sequence file: {}",
            closed.err().map_or(String::new(), |e| e.to_string())
        );
        Ok(())
    }
}
