//! Mapped I/O: runs are copied from and to the page cache, without a system call for each of them.
//!
//! Only the rank's own bytes are touched: other ranks may be writing the bytes between them at the same time.
//!
//! `unsafe` here: pages that other ranks change too, made present just before they are touched.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_device::{MappedAccess, Mapping};

use super::IndependentIo;
use super::access_history::bytes_ahead;
use super::data_sieving::{SieveWindows, before_end};
use super::list_io::{BATCH, read_list, write_list};
use crate::context::FileContext;
use crate::error::Result;
use crate::layout::Pattern;
use crate::memory::window::MemoryWindow;
use crate::plan::THRESHOLDS;

/// Bytes of the file that are made present at a time.
const STEP: u64 = 4 << 20;

impl IndependentIo {
    pub(super) fn write_mapped(
        &self,
        cx: &FileContext,
        pattern: &Pattern,
        window: Range<u64>,
        data: &[u8],
    ) -> Result<u64> {
        self.mapping.extend_for(cx, pattern, &window, data)?;
        for (part, span) in SieveWindows::new(pattern, window.clone(), STEP) {
            let place = (part.start - window.start) as usize..;
            let bytes = &data[place.clone()][..(part.end - part.start) as usize];
            let access = MappedAccess { range: span.clone(), bytes: bytes.len() as u64, write: true };
            let stored = self.access_mapped(cx, &access, |memory| {
                // SAFETY: the mapping has these pages, writable, for the time of this call.
                let window = unsafe { MemoryWindow::new(memory, span.start, span.end - span.start) };
                window.put(pattern, part.clone(), bytes);
            });
            if !stored.map_err(|error| error.after(part.start - window.start))? {
                // A system call reports why.
                let done = part.start - window.start;
                let rest = write_list(cx, pattern, part.start..window.end, &data[place], BATCH);
                return rest
                    .map(|rest| done + rest)
                    .map_err(|error| error.clone().after(done + error.transferred()));
            }
            cx.counters.copied.add(part.end - part.start);
        }
        Ok(window.end - window.start)
    }

    pub(super) fn read_mapped(
        &self,
        cx: &FileContext,
        pattern: &Pattern,
        window: Range<u64>,
        data: &mut [u8],
    ) -> Result<u64> {
        let len = cx.device_result("read", cx.handle.len())?;
        let front = before_end(pattern, &window, len);
        for (part, span) in SieveWindows::new(pattern, front.clone(), STEP) {
            let place = (part.start - window.start) as usize..;
            let bytes = &mut data[place.clone()][..(part.end - part.start) as usize];
            let access = MappedAccess { range: span.clone(), bytes: bytes.len() as u64, write: false };
            let loaded = self.access_mapped(cx, &access, |memory| {
                // SAFETY: the mapping has these pages for the time of this call; they are only read.
                let window = unsafe { MemoryWindow::new(memory, span.start, span.end - span.start) };
                window.get(pattern, part.clone(), bytes);
            });
            if !loaded.map_err(|error| error.after(part.start - window.start))? {
                let done = part.start - window.start;
                let rest = read_list(cx, pattern, part.start..window.end, &mut data[place], BATCH);
                return rest
                    .map(|rest| done + rest)
                    .map_err(|error| error.clone().after(done + error.transferred()));
            }
            cx.counters.copied.add(part.end - part.start);
        }
        // A concurrent truncation leaves zeros up to the end of a page.
        if !front.is_empty() && cx.device_result("read", cx.handle.len())? < pattern.file_span(&front).end {
            return read_list(cx, pattern, window, data, BATCH);
        }
        Ok(front.end - window.start)
    }

    /// Prepares stores to a part of the file that extends it or fills a hole: its space is allocated at once, and its pages come in
    /// large units.
    pub(super) fn prepare_new_pages(&self, cx: &FileContext, part: &Range<u64>) {
        if cx.handle.extend_allocated(part.clone()) {
            self.mapping.settled_len.fetch_max(part.end, Ordering::Relaxed);
        }
        if let Some(mapping) = self.mapping.of(cx, part) {
            mapping.advise_new_pages(part);
        }
    }

    /// Lets `copy` access a part of the file in mapped memory; false if it has to be done by system calls.
    fn access_mapped(
        &self,
        cx: &FileContext,
        access: &MappedAccess,
        copy: impl FnOnce(*mut u8),
    ) -> Result<bool> {
        let Some(mapping) = self.mapping.of(cx, &access.range) else { return Ok(false) };
        let mut copy = Some(copy);
        let mut once = || copy.take().is_some_and(|copy| mapping.access(&access.range, access.write, copy));
        let operation = if access.write { "write" } else { "read" };
        let done = cx.device_result(operation, cx.handle.access_mapped(access, &mut once));
        if mapping.is_broken() {
            self.forget_pages(0);
        }
        done
    }

    /// Drops the mapping and what is known of pages, except that no rank extends the file below `settled_len` bytes: the file was truncated,
    /// or a page could not be mapped.
    pub(crate) fn forget_pages(&self, settled_len: u64) {
        self.mapping.forget(settled_len);
        self.history.end_sequence();
    }

    /// Makes the pages of a run and of the bytes after it present for a short time; false if that is not possible.
    pub(super) fn lease_ahead(&self, cx: &FileContext, run: &Range<u64>) -> bool {
        let present = self.mapping.of(cx, run).is_some_and(|mapping| {
            let ahead = || cx.handle.len().ok().and_then(|len| bytes_ahead(run, len));
            mapping.is_leased(run, true) || ahead().is_some_and(|ahead| mapping.lease(&ahead, true))
        });
        if !present {
            self.history.end_sequence();
        }
        present
    }
}

/// The mapped part of a file, and what is known of its pages.
pub(super) struct FileMapping {
    current: Mutex<Option<Arc<Mapping>>>,
    /// An offset at which the file was found to have no hole.
    known_allocated_at: AtomicU64,
    /// File length up to which no concurrent extension is in progress.
    settled_len: AtomicU64,
}

impl Default for FileMapping {
    fn default() -> Self {
        Self {
            current: Mutex::new(None),
            known_allocated_at: AtomicU64::new(u64::MAX),
            settled_len: AtomicU64::new(0),
        }
    }
}

impl FileMapping {
    /// A mapping of a part of the file: the current one, or a new one in its place.
    fn of(&self, cx: &FileContext, range: &Range<u64>) -> Option<Arc<Mapping>> {
        let mut current = self.lock();
        if let Some(mapping) =
            current.as_ref().filter(|mapping| shows(mapping, range) && !mapping.is_broken())
        {
            return Some(Arc::clone(mapping));
        }
        let start = range.start / THRESHOLDS.region * THRESHOLDS.region;
        let end = start.checked_add(THRESHOLDS.region)?.max(range.end);
        let made = Arc::new(cx.handle.map(start..end)?);
        *current = Some(Arc::clone(&made));
        Some(made)
    }

    /// As [`of`](Self::of), but a mapping of another part is kept: mapping parts in turn costs more than it gains.
    pub(super) fn of_free(&self, cx: &FileContext, part: &Range<u64>) -> Option<Arc<Mapping>> {
        let elsewhere = self.lock().as_ref().is_some_and(|mapping| !shows(mapping, part));
        if elsewhere { None } else { self.of(cx, part) }
    }

    /// True if a write to a part of the file allocates its pages. The middle stands for the whole: in a file that was given its length first
    /// it is a hole, elsewhere it is not.
    pub(super) fn makes_pages(&self, cx: &FileContext, part: &Range<u64>) -> bool {
        let middle = part.start.midpoint(part.end);
        let extends = cx.handle.len().is_ok_and(|len| len < part.end);
        let is_hole =
            || self.known_allocated_at.load(Ordering::Relaxed) != middle && cx.handle.is_hole(middle);
        let makes_pages = extends || is_hole();
        if !makes_pages {
            self.known_allocated_at.store(middle, Ordering::Relaxed);
        }
        makes_pages
    }

    /// Extends the file by writing the last byte: pages after the end of the file cannot be touched.
    ///
    /// A file that looks long enough may not be: file systems (ext4) show the new length before they clear the bytes between the old one
    /// and what they write, and would clear bytes that are stored there meanwhile. An extension holds the inode lock, and so does each
    /// write: once the last byte is written, any concurrent extension has finished.
    fn extend_for(
        &self,
        cx: &FileContext,
        pattern: &Pattern,
        window: &Range<u64>,
        data: &[u8],
    ) -> Result<()> {
        let end = pattern.file_span(window).end;
        let len = cx.device_result("write", cx.handle.len())?;
        // If the file was truncated meanwhile, it is extended again.
        let settled_len = self.settled_len.fetch_min(len, Ordering::Relaxed).min(len);
        if settled_len < end {
            let last = window.end - 1..window.end;
            write_list(cx, pattern, last, &data[data.len() - 1..], 1).map_err(|error| error.after(0))?;
            self.settled_len.fetch_max(len.max(end), Ordering::Relaxed);
        }
        Ok(())
    }

    fn forget(&self, settled_len: u64) {
        *self.lock() = None;
        self.known_allocated_at.store(u64::MAX, Ordering::Relaxed);
        self.settled_len.fetch_min(settled_len, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Mapping>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True if a mapping includes a part of the file.
fn shows(mapping: &Mapping, part: &Range<u64>) -> bool {
    let range = mapping.range();
    range.start <= part.start && part.end <= range.end
}
