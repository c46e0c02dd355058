//! An open file without views and individual file pointers: the executors and what they share, composed.

mod conversion;
mod plain_view;
mod resources;
mod shared_pointer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use aqueduct_comm::PooledComm;
use aqueduct_device::{Handle, HandleExt, SyncScope};

use crate::collective::{CollectiveIo, CollectivePart};
use crate::context::mode::Mode;
use crate::context::{AccessScope, AgreedCapabilities, FileContext};
use crate::error::{Error, Kind, Result};
use crate::hints::{Hints, TransferDirection};
use crate::independent::IndependentIo;
use crate::memory::chunks::ReadBuffer;
use crate::memory::{Sink, Source};
use crate::plan::may_map_runs;
use crate::trace::{self, FileTrace};
use crate::view::View;
use crate::write_buffer::{BufferStatus, DrainContext, Footprint, WriteBuffer};
pub(crate) use plain_view::PlainRun;
use plain_view::PlainView;
pub(crate) use resources::FileResources;
pub(crate) use shared_pointer::SharedPointer;

/// Where an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessPosition {
    /// At an explicit offset, in etypes.
    Offset(u64),
    IndividualPointer,
    SharedPointer,
    /// At the start of a view that comes with the access.
    OwnView,
}

/// An independent access with its position resolved.
pub(crate) struct ResolvedAccess {
    pub(crate) view: Arc<View>,
    /// The first data byte.
    pub(crate) first: u64,
}

/// A rank's arguments of a collective access.
pub(crate) struct CollectiveArgs {
    pub(crate) view: Arc<View>,
    /// The first data byte; none at the shared file pointer, which is read when all ranks take part.
    pub(crate) first: Option<u64>,
    pub(crate) etypes: u64,
}

/// An open file.
pub(crate) struct OpenFile {
    pub(crate) context: Arc<FileContext>,
    pub(crate) independent: Arc<IndependentIo>,
    pub(crate) collective: CollectiveIo,
    write_buffer: OnceLock<Arc<WriteBuffer>>,
    pub(crate) shared_pointer: SharedPointer,
    /// The view of accesses that take the short path.
    pub(crate) plain_view: PlainView,
    /// True if the file's directory entry is durable.
    dir_entry_synced: AtomicBool,
}

impl OpenFile {
    pub(crate) fn new(
        name: Arc<str>,
        comm: PooledComm<FileResources>,
        handle: Arc<dyn Handle>,
        agreed: AgreedCapabilities,
        mode: Mode,
        hints: Hints,
        trace: Option<Arc<FileTrace>>,
    ) -> Self {
        let (comm, FileResources { pointer, buffers }) = comm.detach();
        Self {
            context: Arc::new(FileContext::new(name, comm, handle, agreed, mode, hints, trace)),
            independent: Arc::default(),
            collective: CollectiveIo::new(agreed.one_page_cache, buffers),
            write_buffer: OnceLock::new(),
            shared_pointer: pointer,
            plain_view: PlainView::default(),
            dir_entry_synced: AtomicBool::new(false),
        }
    }

    /// Decides whether accesses through a view take the short path: nothing but the access itself has to be done for them.
    pub(crate) fn set_plain_view(&self, view: &View) {
        let cx = &*self.context;
        let hints = cx.hints();
        let is_plain = hints.strategy.is_none()
            && !hints.sieves_writes()
            && !self.is_buffered()
            && !cx.locks_accesses()
            && !cx.mode.is_sequential();
        self.plain_view.set(is_plain.then_some(view), may_map_runs(&hints, &cx.capabilities));
    }

    /// Writes on the short path; how many bytes.
    pub(crate) fn write_plain(&self, run: PlainRun, bytes: &[u8]) -> Result<u64> {
        let range = run.start..run.start + bytes.len() as u64;
        let (cx, timer) = (&*self.context, self.context.start_run_access(TransferDirection::Write, range));
        self.independent.write_plain(cx, run.start, bytes, run.maps)?;
        timer.finish(bytes.len() as u64);
        Ok(bytes.len() as u64)
    }

    /// Reads on the short path; how many bytes, less at the end of the file.
    pub(crate) fn read_plain(&self, run: PlainRun, bytes: &mut [u8]) -> Result<u64> {
        let range = run.start..run.start + bytes.len() as u64;
        let (cx, timer) = (&*self.context, self.context.start_run_access(TransferDirection::Read, range));
        let count = cx.device_result("read", cx.handle.read_at(run.start, bytes))?;
        timer.finish(count);
        Ok(count)
    }

    /// Writes `data` in an independent call; how many bytes.
    pub(crate) fn write_independent(&self, access: &ResolvedAccess, data: &Source<'_>) -> Result<u64> {
        let cx = &*self.context;
        let timer = cx.start_access(TransferDirection::Write, AccessScope::Independent);
        let ResolvedAccess { view, first } = access;
        let stored = conversion::to_file(cx, view, *first, data)?;
        trace::note_places(view.pattern(), &(*first..*first + stored.len()));
        match self.accepting_buffer() {
            Some(buffer) => {
                buffer.accept(&cx.counters, view, *first, &stored, None)?;
                note_buffer(buffer);
            }
            None => self.independent.write(cx, view.pattern(), *first, &stored).map(drop)?,
        }
        timer.finish(data.size());
        Ok(data.size())
    }

    /// Fills `data` in an independent call; how many bytes, less at the end of the file.
    pub(crate) fn read_independent(&self, access: &ResolvedAccess, data: &mut Sink<'_>) -> Result<u64> {
        let cx = &*self.context;
        let timer = cx.start_access(TransferDirection::Read, AccessScope::Independent);
        let (view, first) = (&access.view, access.first);
        conversion::check_memory(cx, data)?;
        self.wait_for_overlaps(view, first, data.size())?;
        note_places(view, first, data.size());
        let count = if view.representation().is_native() {
            self.independent.read(cx, view.pattern(), first, &mut data.read_buffer())?
        } else {
            let mut packed = conversion::packed_buffer(view, data);
            let count =
                self.independent.read(cx, view.pattern(), first, &mut ReadBuffer::Contiguous(&mut packed))?;
            packed.truncate(count as usize);
            conversion::to_memory(cx, view, first, packed, data)?
        };
        timer.finish(count);
        Ok(count)
    }

    /// Writes `data` in a collective call; how many bytes. An error in place of arguments fails the call on all ranks.
    pub(crate) fn write_collective(
        &self,
        position: AccessPosition,
        args: Result<CollectiveArgs>,
        data: &Source<'_>,
    ) -> Result<u64> {
        let timer = self.context.start_access(TransferDirection::Write, AccessScope::Collective);
        let written = self.write_resolved(position, args, data);
        let written = written.map(|()| data.size()).inspect(|bytes| timer.finish(*bytes));
        self.flush_messages(TransferDirection::Write, written)
    }

    fn write_resolved(
        &self,
        position: AccessPosition,
        args: Result<CollectiveArgs>,
        data: &Source<'_>,
    ) -> Result<()> {
        let cx = &*self.context;
        let (view, first) = self.resolve_collective(position, TransferDirection::Write, args);
        if let Ok(first) = &first {
            note_places(&view, *first, data.size());
        }
        if let Some(buffer) = self.accepting_buffer() {
            // Each rank accepts its own part; that all of them could is agreed.
            let collective_seq = Some(buffer.next_collective_seq());
            let accepted = first.and_then(|first| {
                let stored = conversion::to_file(cx, &view, first, data)?;
                let accepted = buffer.accept(&cx.counters, &view, first, &stored, collective_seq);
                note_buffer(buffer);
                accepted
            });
            return cx.agree("write_all", accepted);
        }
        let stored = first.and_then(|first| Ok((first, conversion::to_file(cx, &view, first, data)?)));
        let (first, stored) = match &stored {
            Ok((first, stored)) => (*first, Ok(stored)),
            Err(error) => (0, Err(error.clone())),
        };
        let part = collective_part(position, &view, first);
        self.collective.write(cx, &self.independent, part, stored).map(drop)
    }

    /// Fills `data` in a collective call; how many bytes, less at the end of the file.
    pub(crate) fn read_collective(
        &self,
        position: AccessPosition,
        args: Result<CollectiveArgs>,
        data: &mut Sink<'_>,
    ) -> Result<u64> {
        let timer = self.context.start_access(TransferDirection::Read, AccessScope::Collective);
        let read = self.read_resolved(position, args, data).inspect(|bytes| timer.finish(*bytes));
        self.flush_messages(TransferDirection::Read, read)
    }

    fn read_resolved(
        &self,
        position: AccessPosition,
        args: Result<CollectiveArgs>,
        data: &mut Sink<'_>,
    ) -> Result<u64> {
        let cx = &*self.context;
        let checked = conversion::check_memory(cx, data);
        let (view, first) = self.resolve_collective(position, TransferDirection::Read, args);
        let first = first.and_then(|first| checked.map(|()| first));
        if let Ok(first) = &first {
            note_places(&view, *first, data.size());
        }
        let first = first.and_then(|first| self.wait_for_overlaps(&view, first, data.size()).map(|()| first));
        let (first, failed) = first.map_or_else(|error| (0, Some(error)), |first| (first, None));
        let part = collective_part(position, &view, first);
        if view.representation().is_native() && failed.is_none() {
            return self.collective.read(cx, &self.independent, part, Ok(&mut data.read_buffer()));
        }
        let mut packed = if failed.is_none() { conversion::packed_buffer(&view, data) } else { Vec::new() };
        let buffer = &mut ReadBuffer::Contiguous(&mut packed);
        let count = self.collective.read(cx, &self.independent, part, failed.map_or(Ok(buffer), Err))?;
        packed.truncate(count as usize);
        // All ranks get here, and have the same representation; its conversion may fail on any of them.
        cx.agree("read_all", conversion::to_memory(cx, &view, first, packed, data))
    }

    /// The view and the first data byte of a rank's part, when all ranks take part.
    fn resolve_collective(
        &self,
        position: AccessPosition,
        direction: TransferDirection,
        args: Result<CollectiveArgs>,
    ) -> (Arc<View>, Result<u64>) {
        let cx = &*self.context;
        let advance = |etypes| self.shared_pointer.advance_ordered(cx, operation_name(direction), etypes);
        match args {
            Ok(CollectiveArgs { view, first: Some(first), .. }) => (view, Ok(first)),
            Ok(CollectiveArgs { view, first: None, etypes }) => {
                let first = advance(etypes).and_then(|start| first_byte(cx, direction, &view, start, etypes));
                (view, first)
            }
            Err(error) => {
                // The other ranks add up the parts of all ranks: this one is empty.
                let counted = if position == AccessPosition::SharedPointer { advance(0) } else { Ok(0) };
                (Arc::new(View::default()), counted.and(Err(error)))
            }
        }
    }

    /// A background operation ends when MPI has all messages that other ranks wait for.
    fn flush_messages(&self, direction: TransferDirection, outcome: Result<u64>) -> Result<u64> {
        let cx = &*self.context;
        let flushed = cx.comm_result(operation_name(direction), cx.comm.flush_background());
        outcome.and_then(|count| flushed.map(|()| count))
    }

    /// Waits until pending writes that overlap a read are in the file.
    fn wait_for_overlaps(&self, view: &View, first: u64, bytes: u64) -> Result<()> {
        let stored = bytes / view.etype().size() * view.stored();
        let Some(buffer) = self.write_buffer.get().filter(|_| stored > 0) else { return Ok(()) };
        let footprint = Footprint::of(view, &(first..first + stored));
        let length = self.context.file_length("read")?;
        // A write that extends the file makes a read across its end longer.
        let extends = footprint.span.end > length;
        buffer.wait_for_overlaps(&if extends { footprint.onwards() } else { footprint })
    }

    /// Buffers writes from now on. Fails if the file is buffered already, which the caller has checked.
    pub(crate) fn set_write_buffer(&self, buffer: WriteBuffer) -> DrainContext {
        let buffer = Arc::clone(self.write_buffer.get_or_init(|| Arc::new(buffer)));
        DrainContext {
            context: Arc::clone(&self.context),
            independent: Arc::clone(&self.independent),
            buffer,
        }
    }

    pub(crate) fn is_buffered(&self) -> bool {
        self.write_buffer.get().is_some()
    }

    /// The progress of buffered writes; none for a file that is not buffered.
    pub(crate) fn buffer_status(&self) -> Option<BufferStatus> {
        self.write_buffer.get().map(|buffer| buffer.status())
    }

    /// The buffer that accepts writes. Atomic writes are visible to all ranks at once, so that none accepts them.
    fn accepting_buffer(&self) -> Option<&WriteBuffer> {
        self.write_buffer.get().filter(|_| !self.context.is_atomic()).map(|buffer| &**buffer)
    }

    /// Waits until everything that this rank has buffered is in the file.
    pub(crate) fn flush(&self) -> Result<()> {
        self.write_buffer.get().map_or(Ok(()), |buffer| buffer.flush())
    }

    /// The length of the file, with all pending writes of this node.
    pub(crate) fn length(&self) -> Result<u64> {
        let all = &Footprint::EVERYTHING;
        self.write_buffer.get().map_or(Ok(()), |buffer| buffer.wait_for_overlaps(all))?;
        self.context.file_length("size")
    }

    /// Makes everything that this rank has written durable.
    pub(crate) fn make_durable(&self, operation: &'static str) -> Result<()> {
        let (cx, buffer) = (&*self.context, self.write_buffer.get());
        buffer.map_or(Ok(()), |buffer| buffer.flush_to_sync(&*cx.handle))?;
        let visible = self.buffer_status().map(|status| status.visible);
        buffer.map_or(Ok(()), |buffer| buffer.sync_target())?;
        let is_synced = self.dir_entry_synced.load(Ordering::Relaxed);
        let scope = if is_synced { SyncScope::Data } else { SyncScope::Entry };
        cx.device_result(operation, cx.handle.sync(scope))?;
        self.dir_entry_synced.store(true, Ordering::Relaxed);
        if let (Some(buffer), Some(visible)) = (buffer, visible.filter(|_| cx.persistent)) {
            buffer.mark_durable(visible);
        }
        Ok(())
    }

    /// Closes the device handle; the communicator with what the next file can use.
    pub(crate) fn into_resources(self) -> (Option<PooledComm<FileResources>>, Result<()>) {
        let Self { context, independent, collective, shared_pointer: pointer, .. } = self;
        // The file is unmapped before it is closed.
        drop(independent);
        // The drain thread, which shares the context, has ended.
        let Some(context) = Arc::into_inner(context) else { return (None, Ok(())) };
        let closed = context.handle.close();
        let closed = closed.map_err(|error| Error::device("close", &context.name, error));
        let resources = FileResources { pointer, buffers: collective.into_buffers() };
        (Some(context.comm.attach(resources)), closed)
    }
}

/// Records the bytes of the file that an access is about.
fn note_places(view: &View, first: u64, bytes: u64) {
    let stored = bytes / view.etype().size().max(1) * view.stored();
    trace::note_places(view.pattern(), &(first..first + stored));
}

/// Records the state of a write buffer.
fn note_buffer(buffer: &WriteBuffer) {
    trace::note_buffer(|| {
        let BufferStatus { accepted, visible, durable, together, .. } = buffer.status();
        ([accepted, visible, durable], [together.held, together.cap])
    });
}

fn collective_part(position: AccessPosition, view: &View, first: u64) -> CollectivePart<'_> {
    let has_own_view = position == AccessPosition::OwnView;
    CollectivePart { pattern: view.pattern(), first, has_own_view }
}

/// The first data byte of `etypes` from `start` on, if all of them lie within the maximum file size.
pub(crate) fn first_byte(
    cx: &FileContext,
    direction: TransferDirection,
    view: &View,
    start: u64,
    etypes: u64,
) -> Result<u64> {
    let last = start.checked_add(etypes);
    if last.is_none_or(|last| etypes > 0 && view.byte_offset(last).is_none()) {
        let detail =
            format!("{etypes} etypes from offset {start} on exceed the maximum file size (2^63-1 bytes)");
        return Err(cx.error(Kind::BadArgument, operation_name(direction), detail));
    }
    Ok(start.saturating_mul(view.stored()))
}

pub(crate) fn operation_name(direction: TransferDirection) -> &'static str {
    match direction {
        TransferDirection::Read => "read",
        TransferDirection::Write => "write",
    }
}
