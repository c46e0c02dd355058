//! Executes one case: measures its time or its memory, or verifies its result.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use aqueduct::comm::{Comm, Op};
use aqueduct::device::AlignedBuffer;
use aqueduct::file::{Counters, File, OpenOptions, Whence};

use super::bench_case::BenchCase;
use super::object_case::ObjectCase;
use super::pattern::{AccessPattern, RankPosition, SHARED_PIECE};
use super::{contents, resident_memory};
use crate::timing;

/// Size in bytes of the engine's buffers while its memory is measured.
const SMALL_BUFFER: &str = "65536";

/// More operations than are done between two barriers.
const ENOUGH: u64 = 1 << 40;

/// The state that all cases share.
pub(crate) struct CaseRunner<'a> {
    pub(crate) world: &'a Comm,
    /// The name of the files without their extensions `.cached` and `.direct`.
    pub(crate) file: PathBuf,
    pub(crate) file_len: u64,
    pub(crate) buffer: AlignedBuffer,
}

impl CaseRunner<'_> {
    pub(super) fn place(&self) -> RankPosition {
        RankPosition { rank: self.world.rank() as u64, ranks: self.world.size() as u64 }
    }

    fn path(&self, case: &BenchCase) -> PathBuf {
        self.file.with_extension(if case.is_direct() { "direct" } else { "cached" })
    }

    fn open(&self, case: &BenchCase, hints: &[(&str, &str)]) -> Result<File> {
        let open =
            OpenOptions::new().read(true).write(true).hint("aqueduct_direct", case.is_direct().to_string());
        let open = hints.iter().fold(open, |open, (key, value)| open.hint(*key, *value));
        let file = open.open(self.world, self.path(case))?;
        set_view(case, self.place(), &file)?;
        Ok(file)
    }

    /// The seconds of one operation, in several repetitions, and the counters of one operation on this rank.
    pub(crate) fn time(&mut self, case: &BenchCase) -> Result<(Vec<f64>, Option<Counters>)> {
        let (world, most) = (self.world, self.file_len / (case.bytes * self.place().ranks));
        if case.access() == AccessPattern::Open {
            let path = self.path(case);
            let mut operation = || {
                OpenOptions::new().read(true).write(true).open(world, &path)?.close()?;
                Ok(())
            };
            return Ok((timing::samples(world, ENOUGH, &|| Ok(()), &mut operation)?, None));
        }
        if case.access() == AccessPattern::Objects {
            return self.time_objects(case);
        }
        let file = self.open(case, &[])?;
        let shared = matches!(case.access(), AccessPattern::Shared | AccessPattern::Ordered);
        let rewind = || {
            if shared {
                file.seek_shared(0, Whence::Start)?;
            }
            Ok(())
        };
        let most = if shared { most.max(1) } else { ENOUGH };
        let mut operation = || self.operate(case, &file);
        let samples = timing::samples(world, most, &rewind, &mut operation)?;
        let counted = self.count(case, &file)?;
        file.close()?;
        Ok((samples, Some(counted)))
    }

    fn time_objects(&mut self, case: &BenchCase) -> Result<(Vec<f64>, Option<Counters>)> {
        let (world, path) = (self.world, self.path(case));
        let mut objects =
            ObjectCase::open(world, &path, case.is_read(), &self.buffer[..case.bytes as usize])?;
        let samples = timing::samples(world, ENOUGH, &|| Ok(()), &mut || objects.operate(case.is_read()))?;
        let before = objects.counters();
        objects.operate(case.is_read())?;
        let counted = objects.counters() - before;
        objects.close()?;
        Ok((samples, Some(counted)))
    }

    /// Part of [`verify`](CaseRunner::verify), which has cleared the file and filled the buffer.
    fn verify_objects(&mut self, case: &BenchCase) -> Result<u64> {
        let (world, path, bytes) = (self.world, self.path(case), case.bytes as usize);
        let mut written = ObjectCase::open(world, &path, false, &self.buffer[..bytes])?;
        written.operate(false)?;
        written.close()?;
        if case.is_read() {
            let mut read = ObjectCase::open(world, &path, true, &vec![0; bytes])?;
            read.operate(true)?;
            ensure!(
                read.bytes() == self.buffer[..bytes],
                "rank {} did not read the data that was written",
                world.rank()
            );
            read.close()?;
        }
        let total = case.bytes * world.size() as u64;
        let sum = if world.rank() == 0 { contents::sum_of_file(&path, total, false)? } else { 0 };
        // The next case clears the file; rank 0 must have read it.
        world.barrier()?;
        Ok(sum)
    }

    /// The counters of one operation, which is not timed.
    fn count(&mut self, case: &BenchCase, file: &File) -> Result<Counters> {
        file.seek_shared(0, Whence::Start)?;
        let before = file.counters();
        self.operate(case, file)?;
        Ok(file.counters() - before)
    }

    /// Writes, or writes and reads, and checks the bytes that were read; the checksum of the file.
    pub(crate) fn verify(&mut self, case: &BenchCase) -> Result<u64> {
        let place = self.place();
        let (path, total) = (self.path(case), case.bytes * place.ranks);
        let unordered = case.access() == AccessPattern::Shared;
        if case.access() == AccessPattern::Open {
            return Ok(0);
        }
        contents::clear(&path, place.rank * case.bytes, case.bytes)?;
        self.world.barrier()?;
        contents::fill(place.rank, &mut self.buffer[..case.bytes as usize]);
        if case.access() == AccessPattern::Objects {
            return self.verify_objects(case);
        }
        let file = self.open(case, &[])?;
        let mut sum = contents::ContentSum::new(unordered);
        sum.add(&self.buffer[..case.bytes as usize]);
        self.operate(&case.as_write(), &file)?;
        self.world.barrier()?;
        if case.is_read() {
            file.seek_shared(0, Whence::Start)?;
            self.buffer[..case.bytes as usize].fill(0);
            self.operate(case, &file)?;
            let mut again = contents::ContentSum::new(unordered);
            again.add(&self.buffer[..case.bytes as usize]);
            let (sum, again) = if unordered {
                // The distribution of the pieces over the ranks is not determined.
                (self.total(sum.value)?, self.total(again.value)?)
            } else {
                (sum.value, again.value)
            };
            ensure!(sum == again, "rank {} did not read the data that was written", place.rank);
        }
        let sum = if place.rank == 0 { contents::sum_of_file(&path, total, unordered)? } else { 0 };
        file.close()?;
        Ok(sum)
    }

    /// Peak of resident memory during the first operation on a file less the memory before, in KiB, the largest of all ranks, with small buffers.
    pub(crate) fn memory(&mut self, case: &BenchCase) -> Result<u64> {
        let hints =
            ["cb_buffer_size", "ind_rd_buffer_size", "ind_wr_buffer_size"].map(|key| (key, SMALL_BUFFER));
        let file = self.open(case, &hints)?;
        self.world.barrier()?;
        let before = resident_memory::reset_peak()?;
        self.operate(case, &file)?;
        let more = resident_memory::peak_since(&before)?;
        file.close()?;
        Ok(self.world.allreduce_one(Op::Max, more)?)
    }

    fn operate(&mut self, case: &BenchCase, file: &File) -> Result<()> {
        self.operate_at(case, self.place(), file)
    }

    /// Does the access of the rank at `place`.
    pub(super) fn operate_at(&mut self, case: &BenchCase, place: RankPosition, file: &File) -> Result<()> {
        let bytes = &mut self.buffer[..case.bytes as usize];
        let start = case.access().start(place, case.bytes);
        match case.access() {
            AccessPattern::Explicit { piece: size } | AccessPattern::OwnFiles { piece: size } => {
                for (piece, at) in bytes.chunks_mut(size).zip((start..).step_by(size)) {
                    match (case.is_collective(), case.is_read()) {
                        (false, false) => file.at(at).write(&*piece)?,
                        (false, true) => file.at(at).read(piece)?,
                        (true, false) => file.at(at).all().write(&*piece)?,
                        (true, true) => file.at(at).all().read(piece)?,
                    };
                }
            }
            AccessPattern::Shared | AccessPattern::Ordered => {
                for piece in bytes.chunks_mut(SHARED_PIECE) {
                    match (case.is_collective(), case.is_read()) {
                        (false, false) => file.shared().write(&*piece)?,
                        (false, true) => file.shared().read(piece)?,
                        (true, false) => file.shared().all().write(&*piece)?,
                        (true, true) => file.shared().all().read(piece)?,
                    };
                }
            }
            _ => {
                match (case.is_collective(), case.is_read()) {
                    (false, false) => file.at(start).write(&*bytes)?,
                    (false, true) => file.at(start).read(bytes)?,
                    (true, false) => file.at(start).all().write(&*bytes)?,
                    (true, true) => file.at(start).all().read(bytes)?,
                };
            }
        }
        Ok(())
    }

    /// The wrapping sum over all ranks.
    pub(super) fn total(&self, mine: u64) -> Result<u64> {
        Ok(self.world.allgather(&[mine])?.into_iter().fold(0, u64::wrapping_add))
    }
}

/// Sets the view of the rank at `place`, and atomic mode if the pattern has it.
pub(super) fn set_view(case: &BenchCase, place: RankPosition, file: &File) -> Result<()> {
    file.set_view(&case.access().view(place, case.bytes)?)?;
    if case.access() == AccessPattern::Atomic {
        file.set_atomic(true)?;
    }
    Ok(())
}
