//! Reading pieces of files: together through collective views, or by rank 0 alone, which sends them on.

use anyhow::{Context, Result, ensure};
use aqueduct::comm::Comm;
use aqueduct::file::layout::Layout;
use aqueduct::file::{File, View};

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

/// Reads pieces; one call on all ranks of its communicator is a round.
#[derive(Debug)]
pub struct PieceReader<'a> {
    comm: Comm,
    files: &'a [DatabaseFile],
    mode: InputMode,
    /// The file that is open, with its number.
    open: Option<(usize, File)>,
    raw: Vec<u8>,
    /// Bytes that this rank has read from files.
    pub bytes_read: u64,
}

impl<'a> PieceReader<'a> {
    /// For the ranks of `comm`. In mode `Together`, all ranks read the same file in a round.
    pub fn new(comm: &Comm, files: &'a [DatabaseFile], mode: InputMode) -> Self {
        Self { comm: comm.clone(), files, mode, open: None, raw: Vec::new(), bytes_read: 0 }
    }

    /// The communicator of the rounds.
    pub fn comm(&self) -> &Comm {
        &self.comm
    }

    /// Reads the piece of each rank, `file` being the same on all ranks in mode `Together`. Collective; ranks without a request take part.
    pub fn read(
        &mut self,
        file: usize,
        request: Option<PieceRequest>,
        out: &mut Vec<u8>,
    ) -> Result<Result<()>> {
        let (offset, length, skip) = match request.map(|request| (request, &self.files[request.file].format))
        {
            None => (0, 0, 0),
            Some((request, FileFormat::Bgzip(index))) => {
                index.compressed_range(request.offset, request.length)
            }
            Some((request, _)) => (request.offset, request.length, 0),
        };
        let file = request.map_or(file, |request| request.file);
        match self.mode {
            InputMode::Together => self.read_together(file, offset, length)?,
            InputMode::Master => {
                if let Err(error) = self.read_by_master(file, offset, length)? {
                    return Ok(Err(error));
                }
            }
        }
        let Some(request) = request else { return Ok(Ok(())) };
        if self.raw.len() < length {
            let name = &self.files[file].name;
            let error =
                anyhow::anyhow!("{name}: cut to {} bytes while it was read", offset + self.raw.len() as u64);
            return Ok(Err(error));
        }
        Ok(match self.files[file].format {
            FileFormat::Bgzip(_) => bgzip::inflate_blocks(&self.raw, skip, request.length, out)
                .with_context(|| format!("{}: bytes from {offset} on", self.files[file].name)),
            _ => {
                std::mem::swap(out, &mut self.raw);
                Ok(())
            }
        })
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
        let closed = self.open.take().map(|(_, file)| file.close()).transpose();
        ensure!(
            closed.is_ok(),
            "closing a sequence file: {}",
            closed.err().map_or(String::new(), |e| e.to_string())
        );
        Ok(())
    }
}
