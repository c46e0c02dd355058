//! Mapped transfers: runs are copied where they lie in the page cache, without a call for each of them.
//!
//! Only the rank's own bytes are touched: what lies between them belongs to others, who may be writing it at this moment.
//!
//! `unsafe` here: pages that others change too, reached just before they are touched.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use aqueduct_device::{MappedAccess, Mapping};

use crate::core::Core;
use crate::error::Result;
use crate::field::Field;
use crate::layout::Pattern;
use crate::plan::Direction;
use crate::repeats::REGION;
use crate::sieve::{Stretches, there};
use crate::streak;
use crate::transfer::{BATCH, span};

/// Bytes of the file that are made present at once.
const STEP: u64 = 4 << 20;

impl Core {
    pub(crate) fn write_mapped(&self, pattern: &Pattern, window: Range<u64>, data: &[u8]) -> Result<u64> {
        self.extend_for(pattern, &window, data)?;
        for (part, hull) in Stretches::new(pattern, window.clone(), STEP) {
            let place = (part.start - window.start) as usize..;
            let bytes = &data[place.clone()][..(part.end - part.start) as usize];
            let access = MappedAccess { range: hull.clone(), bytes: bytes.len() as u64, write: true };
            let stored = self.access_mapped(&access, |memory| {
                // SAFETY: the mapping has these pages, writable, for the time of this call.
                let field = unsafe { Field::new(memory, hull.start, hull.end - hull.start) };
                field.put(pattern, part.clone(), bytes);
            });
            if !stored.map_err(|error| error.after(part.start - window.start))? {
                // Writing tells why.
                let done = part.start - window.start;
                let rest = self.write_list(pattern, part.start..window.end, &data[place], BATCH);
                return rest
                    .map(|rest| done + rest)
                    .map_err(|error| error.clone().after(done + error.transferred()));
            }
            self.tally.copied.add(part.end - part.start);
        }
        Ok(window.end - window.start)
    }

    /// Pages behind the end of the file cannot be touched: the last byte makes it long enough, for whoever else extends it too.
    ///
    /// A file that looks long enough is not yet: file systems (ext4) show the new length before they clear what lies between the old one
    /// and what they write, and would clear what is stored there meanwhile. Extending holds the file's lock and so does each write: once
    /// the last byte is written, whoever had extended the file is done.
    fn extend_for(&self, pattern: &Pattern, window: &Range<u64>, data: &[u8]) -> Result<()> {
        let end = span(pattern, window).end;
        let len = self.device("write", self.handle.len())?;
        // Whoever has cut the file meanwhile, it is extended anew.
        let settled = self.settled.fetch_min(len, Ordering::Relaxed).min(len);
        if settled < end {
            let last = window.end - 1..window.end;
            self.write_list(pattern, last, &data[data.len() - 1..], 1).map_err(|error| error.after(0))?;
            self.settled.fetch_max(len.max(end), Ordering::Relaxed);
        }
        Ok(())
    }

    pub(crate) fn read_mapped(&self, pattern: &Pattern, window: Range<u64>, data: &mut [u8]) -> Result<u64> {
        let len = self.device("read", self.handle.len())?;
        let front = there(pattern, &window, len);
        for (part, hull) in Stretches::new(pattern, front.clone(), STEP) {
            let place = (part.start - window.start) as usize..;
            let bytes = &mut data[place.clone()][..(part.end - part.start) as usize];
            let access = MappedAccess { range: hull.clone(), bytes: bytes.len() as u64, write: false };
            let loaded = self.access_mapped(&access, |memory| {
                // SAFETY: the mapping has these pages for the time of this call; they are only read.
                let field = unsafe { Field::new(memory, hull.start, hull.end - hull.start) };
                field.get(pattern, part.clone(), bytes);
            });
            if !loaded.map_err(|error| error.after(part.start - window.start))? {
                let done = part.start - window.start;
                let rest = self.read_list(pattern, part.start..window.end, &mut data[place], BATCH);
                return rest
                    .map(|rest| done + rest)
                    .map_err(|error| error.clone().after(done + error.transferred()));
            }
            self.tally.copied.add(part.end - part.start);
        }
        // A truncation meanwhile leaves zeros up to the end of a page.
        if !front.is_empty() && self.device("read", self.handle.len())? < span(pattern, &front).end {
            return self.read_list(pattern, window, data, BATCH);
        }
        Ok(front.end - window.start)
    }

    /// Lets `copy` access a part of the file where it lies in memory; whether it took place in the file. If not, it has to be done by calls.
    fn access_mapped(&self, access: &MappedAccess, copy: impl FnOnce(*mut u8)) -> Result<bool> {
        let Some(mapping) = self.mapping(&access.range) else { return Ok(false) };
        let mut copy = Some(copy);
        let mut once = || copy.take().is_some_and(|copy| mapping.access(&access.range, access.write, copy));
        let operation = if access.write { "write" } else { "read" };
        let done = self.device(operation, self.handle.access_mapped(access, &mut once));
        if mapping.is_broken() {
            self.forget_pages(0);
        }
        done
    }

    /// Drops the mapping and what is known of pages, except that nobody extends the file below `settled` bytes: the file was truncated, or
    /// a page could not be had.
    pub(crate) fn forget_pages(&self, settled: u64) {
        *self.mapped() = None;
        self.solid.store(u64::MAX, Ordering::Relaxed);
        self.settled.fetch_min(settled, Ordering::Relaxed);
        for direction in [Direction::Read, Direction::Write] {
            self.streak(direction).end();
        }
    }

    /// A mapping that shows a part of the file: the one there is, or a new one in its place.
    fn mapping(&self, hull: &Range<u64>) -> Option<Arc<Mapping>> {
        let mut kept = self.mapped();
        if let Some(mapping) = kept.as_ref().filter(|mapping| shows(mapping, hull) && !mapping.is_broken()) {
            return Some(Arc::clone(mapping));
        }
        let start = hull.start / REGION * REGION;
        let end = start.checked_add(REGION)?.max(hull.end);
        let made = Arc::new(self.handle.map(start..end)?);
        *kept = Some(Arc::clone(&made));
        Some(made)
    }

    /// Makes a part of the file present for the next moments, and what follows it; whether it is.
    pub(crate) fn reach_ahead(&self, run: &Range<u64>, direction: Direction) -> bool {
        let write = direction == Direction::Write;
        let present = self.mapping(run).is_some_and(|mapping| {
            let ahead = || self.handle.len().ok().and_then(|len| streak::ahead(direction, run, len));
            mapping.is_leased(run, write) || ahead().is_some_and(|ahead| mapping.lease(&ahead, write))
        });
        if !present {
            self.streak(direction).end();
        }
        present
    }

    /// As [`mapping`](Core::mapping), but another part that lies in memory stays there: to map parts in turns costs more than it gains.
    pub(crate) fn mapping_beside(&self, part: &Range<u64>) -> Option<Arc<Mapping>> {
        let elsewhere = self.mapped().as_ref().is_some_and(|mapping| !shows(mapping, part));
        if elsewhere { None } else { self.mapping(part) }
    }
}

/// Whether a mapping shows a part of the file.
fn shows(mapping: &Mapping, part: &Range<u64>) -> bool {
    let range = mapping.range();
    range.start <= part.start && part.end <= range.end
}
