//! Independent transfers: the data bytes of a window of a pattern, between contiguous memory and the device.

use std::ops::Range;

use aqueduct_device::{HandleExt, LockKind, Piece, PieceMut};

use crate::core::Core;
use crate::error::{Error, Result};
use crate::layout::Pattern;
use crate::plan::{self, Direction, Extent, Strategy};

/// Runs in one call of the device: as many as one vectored system call takes.
const BATCH: usize = 1024;

impl Core {
    /// Writes `data` to the data bytes from `first` on; the count, less only with an error.
    pub(crate) fn write_window(&self, pattern: &Pattern, first: u64, data: &[u8]) -> Result<u64> {
        let window = first..first + data.len() as u64;
        let span = span(pattern, &window);
        let strategy = self.independent(Direction::Write, pattern, &window, &span);
        // Where anyone reads, changes and writes back, everyone who writes must lock.
        let locks = self.is_atomic() || (strategy != Strategy::Sieve && self.sieves_writes());
        let _guard = if locks { self.lock("write", span, LockKind::Exclusive)? } else { None };
        match strategy {
            Strategy::Direct => self.write_list(pattern, window, data, 1),
            Strategy::Sieve => self.write_sieved(pattern, window, data),
            Strategy::List | Strategy::TwoPhase => self.write_list(pattern, window, data, BATCH),
        }
    }

    /// Fills `data` from the data bytes from `first` on; the count is less at the end of the file.
    pub(crate) fn read_window(&self, pattern: &Pattern, first: u64, data: &mut [u8]) -> Result<u64> {
        let window = first..first + data.len() as u64;
        let span = span(pattern, &window);
        let strategy = self.independent(Direction::Read, pattern, &window, &span);
        let _guard = if self.is_atomic() { self.lock("read", span, LockKind::Shared)? } else { None };
        match strategy {
            // Where a view shows a byte twice, a list could read on behind the end of the file, and so behind the count.
            Strategy::List if !pattern.is_ascending() => self.read_list(pattern, window, data, 1),
            Strategy::Direct => self.read_list(pattern, window, data, 1),
            Strategy::Sieve => self.read_sieved(pattern, window, data),
            Strategy::List | Strategy::TwoPhase => self.read_list(pattern, window, data, BATCH),
        }
    }

    fn independent(
        &self,
        direction: Direction,
        pattern: &Pattern,
        window: &Range<u64>,
        span: &Range<u64>,
    ) -> Strategy {
        let bytes = window.end - window.start;
        let span = span.end - span.start;
        let runs = if span == bytes { 1 } else { estimated_runs(pattern, window) };
        plan::independent(direction, &Extent { span, bytes, runs }, &self.hints(), &self.can)
    }

    /// Whether anyone may read, change and write back, so that everyone who writes must lock.
    pub(crate) fn sieves_writes(&self) -> bool {
        let hints = self.hints();
        hints.strategy == Some(Strategy::Sieve) || hints.sieve_write == crate::hints::Toggle::Enable
    }

    fn write_list(&self, pattern: &Pattern, window: Range<u64>, data: &[u8], batch: usize) -> Result<u64> {
        let (mut rest, mut done) = (data, 0);
        let mut runs = pattern.runs(window).peekable();
        while runs.peek().is_some() {
            let mut pieces = Vec::with_capacity(batch.min(64));
            for run in runs.by_ref().take(batch) {
                let (now, later) = rest.split_at(run.len as usize);
                pieces.push(Piece::new(run.offset as u64, now));
                rest = later;
            }
            let outcome = self.device("write", self.handle.write_all(&pieces));
            outcome.map_err(|error| error.clone().after(done + error.transferred()))?;
            done = (data.len() - rest.len()) as u64;
        }
        Ok(done)
    }

    fn read_list(&self, pattern: &Pattern, window: Range<u64>, data: &mut [u8], batch: usize) -> Result<u64> {
        let (mut rest, mut done) = (data, 0);
        let mut runs = pattern.runs(window).peekable();
        while runs.peek().is_some() {
            let mut pieces = Vec::with_capacity(batch.min(64));
            let mut wanted = 0;
            for run in runs.by_ref().take(batch) {
                let (now, later) = rest.split_at_mut(run.len as usize);
                pieces.push(PieceMut::new(run.offset as u64, now));
                wanted += run.len;
                rest = later;
            }
            let outcome = self.device("read", self.handle.read_full(&mut pieces));
            let count = outcome.map_err(|error| error.clone().after(done + error.transferred()))?;
            done += count;
            if count < wanted {
                break;
            }
        }
        Ok(done)
    }

    fn read_sieved(&self, pattern: &Pattern, window: Range<u64>, data: &mut [u8]) -> Result<u64> {
        let size = self.hints().read_buffer;
        let mut buffer = Vec::new();
        for (part, hull) in Sieve::new(pattern, window.clone(), size) {
            buffer.resize((hull.end - hull.start) as usize, 0);
            let outcome = self.device("read", self.handle.read_at(hull.start, &mut buffer));
            // What the device read is in the buffer only.
            let count = outcome.map_err(|error| error.after(part.start - window.start))?;
            let ended = hull.start + count;
            let mut at = (part.start - window.start) as usize;
            for run in pattern.runs(part) {
                let (start, end) = (run.offset as u64, (run.offset as u64 + run.len).min(ended));
                let len = end.saturating_sub(start) as usize;
                let from = (start - hull.start) as usize;
                data[at..at + len].copy_from_slice(&buffer[from..from + len]);
                at += len;
                if (len as u64) < run.len {
                    return Ok(at as u64);
                }
            }
        }
        Ok(window.end - window.start)
    }

    fn write_sieved(&self, pattern: &Pattern, window: Range<u64>, data: &[u8]) -> Result<u64> {
        let size = self.hints().write_buffer;
        let mut buffer = Vec::new();
        for (part, hull) in Sieve::new(pattern, window.clone(), size) {
            let dense = part.end - part.start == hull.end - hull.start;
            // In atomic mode the whole access is locked already.
            let lock = !self.is_atomic();
            let before = |error: Error| error.after(part.start - window.start);
            let guard = lock.then(|| self.lock("write", hull.clone(), LockKind::Exclusive));
            let _guard = guard.transpose().map_err(before)?;
            buffer.clear();
            buffer.resize((hull.end - hull.start) as usize, 0);
            if !dense {
                let outcome = self.device("write", self.handle.read_at(hull.start, &mut buffer));
                outcome.map_err(before)?;
            }
            let mut at = (part.start - window.start) as usize;
            for run in pattern.runs(part.clone()) {
                let to = (run.offset as u64 - hull.start) as usize;
                buffer[to..to + run.len as usize].copy_from_slice(&data[at..at + run.len as usize]);
                at += run.len as usize;
            }
            let outcome = self.device("write", self.handle.write_at(hull.start, &buffer));
            outcome.map_err(|error| {
                let stopped = i64::try_from(hull.start + error.transferred()).unwrap_or(i64::MAX);
                let done = pattern.bytes_before(stopped).unwrap_or(part.start).clamp(part.start, part.end);
                error.after(done - window.start)
            })?;
        }
        Ok(window.end - window.start)
    }
}

/// How many runs a window has, judged by the first of them: counting all could cost more than it saves.
fn estimated_runs(pattern: &Pattern, window: &Range<u64>) -> u64 {
    let (mut runs, mut bytes) = (0u64, 0);
    for run in pattern.runs(window.clone()).take(BATCH) {
        runs += 1;
        bytes += run.len;
    }
    let all = window.end - window.start;
    if bytes == 0 { 0 } else { (u128::from(runs) * u128::from(all) / u128::from(bytes)) as u64 }
}

/// The bytes of the file from the first to the last of a window.
pub(crate) fn span(pattern: &Pattern, window: &Range<u64>) -> Range<u64> {
    let span = pattern.span(window.clone());
    span.start as u64..span.end as u64
}

/// Cuts a window into parts whose bytes lie within a buffer's size, each with the bytes of the file from its first to its last.
struct Sieve<'a> {
    pattern: &'a Pattern,
    left: Range<u64>,
    size: u64,
}

impl<'a> Sieve<'a> {
    fn new(pattern: &'a Pattern, window: Range<u64>, size: u64) -> Self {
        Self { pattern, left: window, size: size.max(1) }
    }
}

impl Iterator for Sieve<'_> {
    type Item = (Range<u64>, Range<u64>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left.is_empty() {
            return None;
        }
        let start = self.pattern.offset_of(self.left.start)?;
        let limit = start.saturating_add(i64::try_from(self.size).unwrap_or(i64::MAX));
        let end = self
            .pattern
            .bytes_before(limit)
            .unwrap_or(self.left.end)
            .clamp(self.left.start + 1, self.left.end);
        let part = self.left.start..end;
        self.left.start = end;
        let hull = span(self.pattern, &part);
        Some((part, hull))
    }
}
