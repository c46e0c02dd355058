//! The lifetime of a file: it is created (or opened), a view is set, every rank writes once, it is closed; then it is opened
//! again, and every rank reads what the next rank has written. `crates/bench/peer/lifetime.h` is the counterpart.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use aqueduct::comm::{Comm, Op};

use crate::access_pattern::{AccessPattern, RankPosition};
use crate::bench_case::{BenchCase, FileState};
use crate::case_runner::CaseRunner;
use crate::contents::{self, ContentSum};
use crate::pattern_file::PatternOpenOptions;

/// How often a file is created in one round.
const REPETITIONS: usize = 3;
/// The whole, and its parts: open, view, access, close.
const PARTS: usize = 5;

/// Brings a file of `bytes` bytes into a state.
fn prepare(state: FileState, path: &Path, bytes: u64) -> Result<()> {
    if state != FileState::Existing {
        remove(path)?;
    }
    if state != FileState::New {
        let file = std::fs::File::options().write(true).create(true).truncate(false).open(path)?;
        file.set_len(bytes)?;
    }
    if state == FileState::Existing {
        contents::clear(path, 0, bytes)?;
    }
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

impl CaseRunner<'_> {
    /// The seconds of each repetition: five of writing and five of reading, the whole and its parts, of the slowest rank.
    pub fn lifetime(&mut self, case: &BenchCase) -> Result<Vec<Vec<f64>>> {
        let path = self.file.with_extension("lifetime");
        let (world, own, bytes) = (self.world, self.place(), case.bytes as usize);
        let unordered = case.access() == AccessPattern::Shared;
        let next = RankPosition { rank: (own.rank + 1) % own.ranks, ..own };
        let sum = |bytes: &[u8]| {
            let mut sum = ContentSum::new(unordered);
            sum.add(bytes);
            sum.value
        };
        // Files of their own are opened by one rank each.
        let owns_files = matches!(case.access(), AccessPattern::OwnFiles { .. });
        let alone = world.split(owns_files.then_some(own.rank as u32), 0)?;
        let group = alone.as_ref().unwrap_or(world);
        let file_of = |place: RankPosition| {
            if owns_files { path.with_extension(format!("lifetime.{}", place.rank)) } else { path.clone() }
        };
        let prepares = owns_files || own.rank == 0;
        let file_len = case.bytes * if owns_files { 1 } else { own.ranks };
        let mut repetitions = Vec::new();
        for _ in 0..REPETITIONS {
            if prepares {
                prepare(case.family.state, &file_of(own), file_len)?;
            }
            contents::fill(own.rank, &mut self.buffer[..bytes]);
            let written = self.total(sum(&self.buffer[..bytes]))?;
            let create = PatternOpenOptions { create: true, ..PatternOpenOptions::default() };
            let mut parts = self.use_file(&case.as_write(), own, (group, &file_of(own)), &create)?;
            self.buffer[..bytes].fill(0);
            let open = PatternOpenOptions { read_only: true, ..PatternOpenOptions::default() };
            parts.extend(self.use_file(&case.as_read(), next, (group, &file_of(next)), &open)?);
            let read = self.total(sum(&self.buffer[..bytes]))?;
            ensure!(written == read, "the ranks did not read what was written");
            repetitions.push(world.allreduce(Op::Max, &parts)?);
        }
        world.barrier()?;
        if prepares {
            remove(&file_of(own))?;
        }
        Ok(repetitions)
    }

    /// Opens the file, sets the view, does one access and closes the file: the seconds of all, and of each part.
    fn use_file(
        &mut self,
        case: &BenchCase,
        place: RankPosition,
        (group, path): (&Comm, &Path),
        options: &PatternOpenOptions,
    ) -> Result<Vec<f64>> {
        self.world.barrier()?;
        let mut times = vec![Instant::now()];
        let mut file = self.interface.open(group, path, options)?;
        times.push(Instant::now());
        self.set_view(case, place, &mut *file)?;
        times.push(Instant::now());
        self.operate_at(case, place, &mut *file)?;
        times.push(Instant::now());
        file.close()?;
        self.world.barrier()?;
        times.push(Instant::now());
        let parts = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64());
        let parts: Vec<f64> =
            std::iter::once((times[PARTS - 1] - times[0]).as_secs_f64()).chain(parts).collect();
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use FileState::{Existing, Holes, New};

    #[test]
    fn files_are_brought_into_each_state() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for state in [Existing, Holes, New, New, Existing] {
            prepare(state, &path, 100_000).unwrap();
            let found = std::fs::metadata(&path).ok();
            let expected = match state {
                New => found.is_none(),
                Existing => found.is_some_and(|file| file.len() == 100_000 && file.blocks() > 0),
                _ => found.is_some_and(|file| file.len() == 100_000 && file.blocks() == 0),
            };
            assert!(expected, "{state:?}");
        }
    }
}
