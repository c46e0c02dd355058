//! Independent reads of a file that is only read: those of a sequence are made ahead.
//!
//! The hint `aqueduct_prefetch` is the limit of the memory; without it nothing is read ahead. Reads have the same view of their own at places with a
//! constant distance, or continue in the view of the file. What was read ahead is dropped when the program waits for others
//! ([`File::sync`]), and where accesses take locks nothing is read ahead.

use std::cell::OnceCell;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::access::Access;
use super::file::File;
use super::prefetcher::{PrefetchStats, PrefetchedValues, Prefetcher, SequenceRead, is_worth_prefetching};
use super::request::Count;
use crate::context::FileContext;
use crate::engine::{AccessPosition, ResolvedAccess};
use crate::error::Result;
use crate::hints::TransferDirection;
use crate::layout::Layout;
use crate::memory::Sink;
use crate::view::View;

/// Reads that differ in their places only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ReadKind {
    /// Through views of their own with this etype and filetype, and this number of bytes. Their places are displacements.
    OwnView(Layout, Layout, u64),
    /// Of this number of bytes, in the view of the file. Their places are etypes.
    FileView(u64),
}

/// A read that is made ahead.
enum NextRead {
    Through(View),
    At(u64),
}

/// The prefetcher of a file that is opened with the hint.
pub(super) fn prefetcher_for(cx: &FileContext) -> Option<Box<Mutex<Prefetcher<ReadKind>>>> {
    let cap = cx.hints().prefetch;
    let is_only_read = cx.mode.is_read() && !cx.mode.is_write() && !cx.mode.is_sequential();
    (cap > 0 && is_only_read).then(|| Box::new(Mutex::new(Prefetcher::new(cap))))
}

impl File {
    /// Statistics of reading ahead, which the hint `aqueduct_prefetch` enables for files that are only read.
    pub fn prefetch_stats(&self) -> PrefetchStats {
        self.prefetcher.as_deref().map_or_else(PrefetchStats::default, |prefetcher| lock(prefetcher).stats())
    }

    /// The limit of the memory for reading ahead: the hint `aqueduct_prefetch`, 0 without it and in a file that is not only read.
    pub fn prefetch_cap(&self) -> u64 {
        self.prefetch_stats().cap
    }

    /// Drops what was read ahead.
    pub(super) fn drop_prefetched(&self) {
        self.prefetcher.iter().for_each(|prefetcher| lock(prefetcher).clear());
    }

    /// The prefetcher, if it is to be used for an access.
    pub(super) fn prefetcher_of(&self, position: AccessPosition) -> Option<&Mutex<Prefetcher<ReadKind>>> {
        let is_usable = || position != AccessPosition::SharedPointer && !self.cx().locks_accesses();
        self.prefetcher.as_deref().filter(|_| is_usable())
    }
}

impl Access<'_> {
    /// Reads into contiguous memory: what was read ahead, or from the file. Starts the reads that are expected next.
    pub(super) fn read_prefetched(
        self,
        prefetcher: &Mutex<Prefetcher<ReadKind>>,
        data: &mut Sink<'_>,
    ) -> Result<Count> {
        let (file, bytes) = (self.file(), data.size());
        let (access, start) = self.resolve_with_start(TransferDirection::Read, bytes)?;
        let read_now = |data: &mut Sink<'_>| file.engine.read_independent(&access, data);
        if bytes == 0 || !access.view.representation().is_native() {
            return read_now(data).map(Count::new);
        }
        let read = sequence_read(self.own_view(), &access, start, bytes);
        let early = lock(prefetcher).take(&read);
        let mut goes_on = early.is_some();
        let early = early.and_then(PrefetchedValues::wait);
        if let (Some(early), Some(memory)) = (&early, data.as_contiguous()) {
            memory.copy_from_slice(early);
        } else {
            let began = Instant::now();
            let count = read_now(data)?;
            if count < bytes {
                return Ok(Count::new(count));
            }
            goes_on |= is_worth_prefetching(bytes, began.elapsed());
        }
        let mut prefetcher = lock(prefetcher);
        if goes_on {
            let length = OnceCell::new();
            let find = |place| {
                let (next, end) = next_read(file, &access, &read.kind, place)?;
                let length = length.get_or_init(|| file.cx().file_length("read").unwrap_or(0));
                (end <= *length).then_some((bytes, next))
            };
            prefetcher.request_next(&file.cx().comm, &read, find, |next, memory| match next {
                NextRead::Through(view) => file.with_view(&view).start_read(memory),
                NextRead::At(start) => file.at(start).start_read(memory),
            });
        } else {
            prefetcher.note(&read);
        }
        Ok(Count::new(bytes))
    }
}

fn sequence_read(
    own: Option<&View>,
    access: &ResolvedAccess,
    start: u64,
    bytes: u64,
) -> SequenceRead<ReadKind> {
    match own {
        Some(view) => {
            let kind = ReadKind::OwnView(view.etype().clone(), view.filetype().clone(), bytes);
            SequenceRead { kind, place: view.displacement(), unit: bytes }
        }
        None => {
            let unit = bytes / access.view.etype().size().max(1);
            SequenceRead { kind: ReadKind::FileView(bytes), place: start, unit }
        }
    }
}

/// The read at a place, and where it ends in the file.
fn next_read(file: &File, access: &ResolvedAccess, kind: &ReadKind, place: u64) -> Option<(NextRead, u64)> {
    match kind {
        ReadKind::OwnView(etype, filetype, bytes) => {
            let view = View::new(place, etype, filetype).ok()?;
            let end = view.pattern().file_span(&(0..*bytes)).end;
            Some((NextRead::Through(view), end))
        }
        ReadKind::FileView(bytes) => {
            let view = &access.view;
            let etypes = bytes / view.etype().size().max(1);
            let first = file.first_byte(TransferDirection::Read, view, place, etypes).ok()?;
            let end = view.pattern().file_span(&(first..first.checked_add(*bytes)?)).end;
            Some((NextRead::At(place), end))
        }
    }
}

fn lock(prefetcher: &Mutex<Prefetcher<ReadKind>>) -> MutexGuard<'_, Prefetcher<ReadKind>> {
    prefetcher.lock().unwrap_or_else(PoisonError::into_inner)
}
