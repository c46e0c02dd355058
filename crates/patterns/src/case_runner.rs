//! Executes one case: measures its time or its memory, or verifies its result.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use aqueduct::comm::{Comm, Op};
use aqueduct::device::AlignedBuffer;
use aqueduct::file::Counters;

use crate::access_pattern::{AccessPattern, RankPosition, SHARED_PIECE};
use crate::bench_case::{BenchCase, Coordination};
use crate::file_interface::FileInterface;
use crate::object_case::ObjectCase;
use crate::pattern_file::{FilePosition, PatternFile, PatternOpenOptions};
use crate::{contents, resident_memory, timing};

/// Size in bytes of the engine's buffers while its memory is measured.
const SMALL_BUFFER: &str = "65536";

/// More operations than are done between two barriers.
const ENOUGH: u64 = 1 << 40;

/// Executes cases on the ranks of a job through one interface.
pub struct CaseRunner<'a> {
    pub(crate) world: &'a Comm,
    pub(crate) interface: FileInterface,
    /// The name of the files without their extensions `.cached` and `.direct`.
    pub(crate) file: PathBuf,
    /// Bytes of the files for each rank.
    room: u64,
    pub(crate) buffer: AlignedBuffer,
    hints: Vec<(String, String)>,
}

impl std::fmt::Debug for CaseRunner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaseRunner")
            .field("interface", &self.interface)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl<'a> CaseRunner<'a> {
    /// For cases of up to `largest` bytes per rank in the files `file.cached` and `file.direct`, which must exist and be as long.
    pub fn new(world: &'a Comm, interface: FileInterface, file: &Path, largest: u64) -> Result<Self> {
        let mut buffer = AlignedBuffer::new(largest as usize);
        // Touches the memory before anything is measured.
        contents::fill(world.rank() as u64, &mut buffer);
        Ok(Self { world, interface, file: file.to_owned(), room: largest, buffer, hints: Vec::new() })
    }

    /// The files have so many bytes for each rank: more accesses fit between two resets of the shared file pointer.
    #[must_use]
    pub fn room(mut self, bytes: u64) -> Self {
        self.room = bytes;
        self
    }

    /// Opens files with hints.
    #[must_use]
    pub fn hints(mut self, hints: &[(String, String)]) -> Self {
        self.hints = hints.to_vec();
        self
    }

    pub(crate) fn place(&self) -> RankPosition {
        RankPosition { rank: self.world.rank() as u64, ranks: self.world.size() as u64 }
    }

    fn path(&self, case: &BenchCase) -> PathBuf {
        self.file.with_extension(if case.is_direct() { "direct" } else { "cached" })
    }

    fn open(&self, case: &BenchCase, hints: &[(&str, &str)]) -> Result<Box<dyn PatternFile>> {
        let hints = hints.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let hints = self.hints.iter().cloned().chain(hints).collect();
        let options = PatternOpenOptions { direct: case.is_direct(), hints, ..PatternOpenOptions::default() };
        let mut file = self.interface.open(self.world, &self.path(case), &options)?;
        self.set_view(case, self.place(), &mut *file)?;
        Ok(file)
    }

    #[expect(clippy::unused_self, reason = "a step of executing a case")]
    /// Sets the view of the rank at `place`, and atomic mode if the pattern has it.
    pub(crate) fn set_view(
        &self,
        case: &BenchCase,
        place: RankPosition,
        file: &mut dyn PatternFile,
    ) -> Result<()> {
        file.set_view(&case.access().view_tree(place, case.bytes))?;
        if case.access() == AccessPattern::Atomic {
            file.set_atomic()?;
        }
        Ok(())
    }

    /// The seconds of one operation, in several repetitions, and the counters of one operation on this rank.
    pub fn time(&mut self, case: &BenchCase) -> Result<(Vec<f64>, Option<Counters>)> {
        let (world, most) = (self.world, self.room / case.bytes);
        if case.access() == AccessPattern::Open {
            let (path, interface) = (self.path(case), self.interface.clone());
            let options = PatternOpenOptions::default();
            let mut operation = || interface.open(world, &path, &options)?.close();
            return Ok((timing::samples(world, ENOUGH, &|| Ok(()), &mut operation)?, None));
        }
        if case.access() == AccessPattern::Objects && self.interface.has_objects() {
            return self.time_objects(case);
        }
        let file = RefCell::new(self.open(case, &[])?);
        let shared = matches!(case.access(), AccessPattern::Shared | AccessPattern::Ordered);
        let rewind = || if shared { file.borrow_mut().rewind_shared() } else { Ok(()) };
        let most = if shared { most.max(1) } else { ENOUGH };
        let mut operation = || self.operate(case, &mut **file.borrow_mut());
        let samples = timing::samples(world, most, &rewind, &mut operation)?;
        let mut file = file.into_inner();
        let counted = self.count(case, &mut *file)?;
        file.close()?;
        Ok((samples, counted))
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
    fn count(&mut self, case: &BenchCase, file: &mut dyn PatternFile) -> Result<Option<Counters>> {
        let Some(before) = file.counters() else { return Ok(None) };
        file.rewind_shared()?;
        self.operate(case, file)?;
        Ok(file.counters().map(|after| after - before))
    }

    /// Writes, or writes and reads, and checks the bytes that were read; the checksum of the file.
    pub fn verify(&mut self, case: &BenchCase) -> Result<u64> {
        let place = self.place();
        let (path, total) = (self.path(case), case.bytes * place.ranks);
        let unordered = case.access() == AccessPattern::Shared;
        if case.access() == AccessPattern::Open {
            return Ok(0);
        }
        contents::clear(&path, place.rank * case.bytes, case.bytes)?;
        self.world.barrier()?;
        contents::fill(place.rank, &mut self.buffer[..case.bytes as usize]);
        if case.access() == AccessPattern::Objects && self.interface.has_objects() {
            return self.verify_objects(case);
        }
        let mut file = self.open(case, &[])?;
        let mut sum = contents::ContentSum::new(unordered);
        sum.add(&self.buffer[..case.bytes as usize]);
        self.operate(&case.as_write(), &mut *file)?;
        self.world.barrier()?;
        if case.is_read() {
            if matches!(case.access(), AccessPattern::Shared | AccessPattern::Ordered) {
                file.rewind_shared()?;
            }
            self.buffer[..case.bytes as usize].fill(0);
            self.operate(case, &mut *file)?;
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
    pub fn memory(&mut self, case: &BenchCase) -> Result<u64> {
        let hints =
            ["cb_buffer_size", "ind_rd_buffer_size", "ind_wr_buffer_size"].map(|key| (key, SMALL_BUFFER));
        let mut file = self.open(case, &hints)?;
        self.world.barrier()?;
        let before = resident_memory::reset_peak()?;
        self.operate(case, &mut *file)?;
        let more = resident_memory::peak_since(&before)?;
        file.close()?;
        Ok(self.world.allreduce_one(Op::Max, more)?)
    }

    fn operate(&mut self, case: &BenchCase, file: &mut dyn PatternFile) -> Result<()> {
        self.operate_at(case, self.place(), file)
    }

    /// Does the access of the rank at `place`.
    pub(crate) fn operate_at(
        &mut self,
        case: &BenchCase,
        place: RankPosition,
        file: &mut dyn PatternFile,
    ) -> Result<()> {
        let bytes = &mut self.buffer[..case.bytes as usize];
        let start = case.access().start(place, case.bytes);
        match case.access() {
            AccessPattern::Explicit { piece: size } | AccessPattern::OwnFiles { piece: size } => {
                for (piece, at) in bytes.chunks_mut(size).zip((start..).step_by(size)) {
                    transfer(case, file, FilePosition::Offset(at), piece)?;
                }
            }
            AccessPattern::Shared | AccessPattern::Ordered => {
                for piece in bytes.chunks_mut(SHARED_PIECE) {
                    transfer(case, file, FilePosition::Shared, piece)?;
                }
            }
            _ => transfer(case, file, FilePosition::Offset(start), bytes)?,
        }
        Ok(())
    }

    /// The wrapping sum over all ranks.
    pub(crate) fn total(&self, mine: u64) -> Result<u64> {
        Ok(self.world.allgather(&[mine])?.into_iter().fold(0, u64::wrapping_add))
    }
}

/// One access.
fn transfer(
    case: &BenchCase,
    file: &mut dyn PatternFile,
    position: FilePosition,
    bytes: &mut [u8],
) -> Result<()> {
    let coordination: Coordination = case.family.coordination;
    if case.is_read() {
        file.read(position, coordination, bytes)
    } else {
        file.write(position, coordination, bytes)
    }
}
