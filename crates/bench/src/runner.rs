//! One cell, done: timed, verified, or watched for the memory it takes.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use aqueduct::comm::{Comm, Op};
use aqueduct::device::AlignedBuffer;
use aqueduct::file::{Counters, File, OpenOptions, Whence};

use crate::case::BenchCase;
use crate::objects::ObjectCase;
use crate::pattern::{AccessPattern, EXPLICIT_PIECE, RankPosition, SHARED_PIECE};
use crate::{contents, memory, timing};

/// Buffers of the engine while its other memory is measured, in bytes.
const SMALL_BUFFER: &str = "65536";

/// More operations than fit between two barriers.
const ENOUGH: u64 = 1 << 40;

/// What every cell needs.
pub(crate) struct CaseRunner<'a> {
    pub(crate) world: &'a Comm,
    /// The files are this with `.cached` and `.direct` behind.
    pub(crate) file: PathBuf,
    pub(crate) file_len: u64,
    pub(crate) buffer: AlignedBuffer,
}

impl CaseRunner<'_> {
    fn place(&self) -> RankPosition {
        RankPosition { rank: self.world.rank() as u64, ranks: self.world.size() as u64 }
    }

    fn path(&self, cell: &BenchCase) -> PathBuf {
        self.file.with_extension(if cell.direct { "direct" } else { "cached" })
    }

    fn open(&self, cell: &BenchCase, hints: &[(&str, &str)]) -> Result<File> {
        let open = OpenOptions::new().read(true).write(true).hint("aqueduct_direct", cell.direct.to_string());
        let open = hints.iter().fold(open, |open, (key, value)| open.hint(*key, *value));
        let file = open.open(self.world, self.path(cell))?;
        file.set_view(&cell.pattern.view(self.place(), cell.bytes)?)?;
        if cell.pattern == AccessPattern::Atomic {
            file.set_atomic(true)?;
        }
        Ok(file)
    }

    /// The seconds of one operation, in several repetitions, and what one of them did on this rank.
    pub(crate) fn time(&mut self, cell: &BenchCase) -> Result<(Vec<f64>, Option<Counters>)> {
        let (world, most) = (self.world, self.file_len / (cell.bytes * self.place().ranks));
        if cell.pattern == AccessPattern::Open {
            let path = self.path(cell);
            let mut operation = || {
                OpenOptions::new().read(true).write(true).open(world, &path)?.close()?;
                Ok(())
            };
            return Ok((timing::samples(world, ENOUGH, &|| Ok(()), &mut operation)?, None));
        }
        if cell.pattern == AccessPattern::Objects {
            return self.time_objects(cell);
        }
        let file = self.open(cell, &[])?;
        let shared = matches!(cell.pattern, AccessPattern::Shared | AccessPattern::Ordered);
        let rewind = || {
            if shared {
                file.seek_shared(0, Whence::Start)?;
            }
            Ok(())
        };
        let most = if shared { most.max(1) } else { ENOUGH };
        let mut operation = || self.operate(cell, &file);
        let samples = timing::samples(world, most, &rewind, &mut operation)?;
        let counted = self.count(cell, &file)?;
        file.close()?;
        Ok((samples, Some(counted)))
    }

    fn time_objects(&mut self, cell: &BenchCase) -> Result<(Vec<f64>, Option<Counters>)> {
        let (world, path) = (self.world, self.path(cell));
        let mut objects = ObjectCase::open(world, &path, cell.read, &self.buffer[..cell.bytes as usize])?;
        let samples = timing::samples(world, ENOUGH, &|| Ok(()), &mut || objects.operate(cell.read))?;
        let before = objects.counters();
        objects.operate(cell.read)?;
        let counted = objects.counters() - before;
        objects.close()?;
        Ok((samples, Some(counted)))
    }

    /// As [`verify`](CaseRunner::verify), which has cleared the file and filled the memory.
    fn verify_objects(&mut self, cell: &BenchCase) -> Result<u64> {
        let (world, path, bytes) = (self.world, self.path(cell), cell.bytes as usize);
        let mut written = ObjectCase::open(world, &path, false, &self.buffer[..bytes])?;
        written.operate(false)?;
        written.close()?;
        if cell.read {
            let mut read = ObjectCase::open(world, &path, true, &vec![0; bytes])?;
            read.operate(true)?;
            ensure!(
                read.bytes() == self.buffer[..bytes],
                "rank {} did not read what was written",
                world.rank()
            );
            read.close()?;
        }
        let total = cell.bytes * world.size() as u64;
        let sum = if world.rank() == 0 { contents::sum_of_file(&path, total, false)? } else { 0 };
        // The next cell clears the file.
        world.barrier()?;
        Ok(sum)
    }

    /// What one operation does, outside the clock.
    fn count(&mut self, cell: &BenchCase, file: &File) -> Result<Counters> {
        file.seek_shared(0, Whence::Start)?;
        let before = file.counters();
        self.operate(cell, file)?;
        Ok(file.counters() - before)
    }

    /// Checks that every byte is where it belongs; the sum of what was written or read.
    pub(crate) fn verify(&mut self, cell: &BenchCase) -> Result<u64> {
        let place = self.place();
        let (path, total) = (self.path(cell), cell.bytes * place.ranks);
        let unordered = cell.pattern == AccessPattern::Shared;
        if cell.pattern == AccessPattern::Open {
            return Ok(0);
        }
        contents::clear(&path, place.rank * cell.bytes, cell.bytes)?;
        self.world.barrier()?;
        contents::fill(place.rank, &mut self.buffer[..cell.bytes as usize]);
        if cell.pattern == AccessPattern::Objects {
            return self.verify_objects(cell);
        }
        let file = self.open(cell, &[])?;
        let mut sum = contents::ContentSum::new(unordered);
        sum.add(&self.buffer[..cell.bytes as usize]);
        self.operate(&cell.written(), &file)?;
        self.world.barrier()?;
        if cell.read {
            file.seek_shared(0, Whence::Start)?;
            self.buffer[..cell.bytes as usize].fill(0);
            self.operate(cell, &file)?;
            let mut again = contents::ContentSum::new(unordered);
            again.add(&self.buffer[..cell.bytes as usize]);
            let (sum, again) = if unordered {
                // Who gets which piece is left to chance.
                (self.total(sum.value)?, self.total(again.value)?)
            } else {
                (sum.value, again.value)
            };
            ensure!(sum == again, "rank {} did not read what was written", place.rank);
        }
        let sum = if place.rank == 0 { contents::sum_of_file(&path, total, unordered)? } else { 0 };
        file.close()?;
        Ok(sum)
    }

    /// Resident memory that the first operation on a file needs on any rank beyond what was there, in KiB, with small buffers.
    pub(crate) fn memory(&mut self, cell: &BenchCase) -> Result<u64> {
        let hints =
            ["cb_buffer_size", "ind_rd_buffer_size", "ind_wr_buffer_size"].map(|key| (key, SMALL_BUFFER));
        let file = self.open(cell, &hints)?;
        self.world.barrier()?;
        let before = memory::reset_peak()?;
        self.operate(cell, &file)?;
        let more = memory::peak_since(&before)?;
        file.close()?;
        Ok(self.world.allreduce_one(Op::Max, more)?)
    }

    fn operate(&mut self, cell: &BenchCase, file: &File) -> Result<()> {
        let bytes = &mut self.buffer[..cell.bytes as usize];
        let place = RankPosition { rank: self.world.rank() as u64, ranks: self.world.size() as u64 };
        let start = cell.pattern.start(place, cell.bytes);
        match cell.pattern {
            AccessPattern::Explicit => {
                for (piece, at) in bytes.chunks_mut(EXPLICIT_PIECE).zip((start..).step_by(EXPLICIT_PIECE)) {
                    if cell.read {
                        file.at(at).read(piece)?
                    } else {
                        file.at(at).write(&*piece)?
                    };
                }
            }
            AccessPattern::Shared | AccessPattern::Ordered => {
                for piece in bytes.chunks_mut(SHARED_PIECE) {
                    match (cell.collective, cell.read) {
                        (false, false) => file.shared().write(&*piece)?,
                        (false, true) => file.shared().read(piece)?,
                        (true, false) => file.shared().all().write(&*piece)?,
                        (true, true) => file.shared().all().read(piece)?,
                    };
                }
            }
            _ => {
                match (cell.collective, cell.read) {
                    (false, false) => file.at(start).write(&*bytes)?,
                    (false, true) => file.at(start).read(bytes)?,
                    (true, false) => file.at(start).all().write(&*bytes)?,
                    (true, true) => file.at(start).all().read(bytes)?,
                };
            }
        }
        Ok(())
    }

    /// The sum of all ranks' numbers, which may wrap.
    fn total(&self, mine: u64) -> Result<u64> {
        Ok(self.world.allgather(&[mine])?.into_iter().fold(0, u64::wrapping_add))
    }
}
