//! Collective access: blocking, non-blocking and split.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::file::File;
use super::request::{Count, Request};
use crate::engine::{AccessPosition, CollectiveArgs, OpenFile};
use crate::error::{Kind, Result};
use crate::hints::TransferDirection;
use crate::memory::{Incoming, Outgoing, Sink, Source};
use crate::view::View;

/// A position in a file, for a collective access.
#[derive(Clone, Copy, Debug)]
pub struct CollectiveAccess<'f> {
    pub(super) file: &'f File,
    pub(super) position: AccessPosition,
    /// In place of the file's view.
    pub(super) view: Option<&'f View>,
}

impl<'f> CollectiveAccess<'f> {
    /// Writes `data`; how much was written.
    #[doc(alias = "MPI_File_write_all")]
    #[doc(alias = "MPI_File_write_at_all")]
    #[doc(alias = "MPI_File_write_ordered")]
    pub fn write<'d>(self, data: impl Into<Source<'d>>) -> Result<Count> {
        let data = data.into();
        self.file.collective_thread.drain();
        let args = data.check_usable().and_then(|()| self.arguments(TransferDirection::Write, data.size()));
        self.file.engine.write_collective(self.position, args, &data).map(Count::new)
    }

    /// Fills `data`; how much was read, less at the end of the file.
    #[doc(alias = "MPI_File_read_all")]
    #[doc(alias = "MPI_File_read_at_all")]
    #[doc(alias = "MPI_File_read_ordered")]
    pub fn read<'d>(self, data: impl Into<Sink<'d>>) -> Result<Count> {
        let mut data = data.into();
        self.file.collective_thread.drain();
        let args = data.check_usable().and_then(|()| self.arguments(TransferDirection::Read, data.size()));
        self.file.engine.read_collective(self.position, args, &mut data).map(Count::new)
    }

    /// Starts writing a buffer, which the request owns until it is done.
    #[doc(alias = "MPI_File_iwrite_all")]
    #[doc(alias = "MPI_File_iwrite_at_all")]
    pub fn start_write<B: Outgoing + 'static>(self, buffer: B) -> Result<Request<B>> {
        let (request, job) = self.write_job(buffer);
        self.file.submit_collective(Box::new(job)).map(|()| request)
    }

    /// Starts filling a buffer, which the request owns until it is done.
    #[doc(alias = "MPI_File_iread_all")]
    #[doc(alias = "MPI_File_iread_at_all")]
    pub fn start_read<B: Incoming + 'static>(self, buffer: B) -> Result<Request<B>> {
        let (request, job) = self.read_job(buffer);
        self.file.submit_collective(Box::new(job)).map(|()| request)
    }

    pub(crate) fn write_job<B: Outgoing>(self, buffer: B) -> (Request<B>, impl FnOnce() + Send + use<B>) {
        let data = buffer.source();
        let args = data.check_usable().and_then(|()| self.arguments(TransferDirection::Write, data.size()));
        drop(data);
        let position = self.position;
        let work = move |file: &OpenFile, buffer: &mut B| {
            file.write_collective(position, args, &buffer.source()).map(Count::new)
        };
        Request::new(Arc::clone(&self.file.engine), buffer, true, work)
    }

    pub(crate) fn read_job<B: Incoming>(self, mut buffer: B) -> (Request<B>, impl FnOnce() + Send + use<B>) {
        let data = buffer.sink();
        let args = data.check_usable().and_then(|()| self.arguments(TransferDirection::Read, data.size()));
        drop(data);
        let position = self.position;
        let work = move |file: &OpenFile, buffer: &mut B| {
            file.read_collective(position, args, &mut buffer.sink()).map(Count::new)
        };
        Request::new(Arc::clone(&self.file.engine), buffer, true, work)
    }

    /// Begins a split write; until it is [ended](Split::end), no other collective operation on this file.
    #[doc(alias = "MPI_File_write_all_begin")]
    #[doc(alias = "MPI_File_write_at_all_begin")]
    #[doc(alias = "MPI_File_write_ordered_begin")]
    pub fn begin_write<B: Outgoing + 'static>(self, buffer: B) -> Result<Split<B>> {
        self.begin(|| self.start_write(buffer))
    }

    /// Begins a split read; until it is [ended](Split::end), no other collective operation on this file.
    #[doc(alias = "MPI_File_read_all_begin")]
    #[doc(alias = "MPI_File_read_at_all_begin")]
    #[doc(alias = "MPI_File_read_ordered_begin")]
    pub fn begin_read<B: Incoming + 'static>(self, buffer: B) -> Result<Split<B>> {
        self.begin(|| self.start_read(buffer))
    }

    fn begin<B: Send>(self, start: impl FnOnce() -> Result<Request<B>>) -> Result<Split<B>> {
        self.check_no_split()?;
        let request = start()?;
        self.file.split.store(true, Ordering::SeqCst);
        Ok(Split { request: Some(request), pending: Arc::clone(&self.file.split) })
    }

    pub(crate) fn file(self) -> &'f File {
        self.file
    }

    /// This rank's arguments. An error takes part in the call too, so that all ranks learn of it.
    fn arguments(self, direction: TransferDirection, bytes: u64) -> Result<CollectiveArgs> {
        self.check_no_split()?;
        let (view, etypes) = self.file.check(self.position, self.view, direction, bytes)?;
        let start = match self.position {
            AccessPosition::Offset(offset) => Some(offset),
            AccessPosition::IndividualPointer => Some(self.file.take_pointer(etypes).unwrap_or(u64::MAX)),
            AccessPosition::OwnView => Some(0),
            AccessPosition::SharedPointer => None,
        };
        let first = start.map(|start| self.file.first_byte(direction, &view, start, etypes)).transpose()?;
        Ok(CollectiveArgs { view, first, etypes })
    }

    fn check_no_split(self) -> Result<()> {
        if !self.file.split.load(Ordering::SeqCst) {
            return Ok(());
        }
        let detail = "a split collective operation is in progress on this file; end it before the next collective call";
        Err(self.file.cx().error(Kind::SplitPending, "collective access", detail))
    }
}

/// A split collective operation between its begin and its end. Dropping it ends it.
#[must_use = "a split operation is done after `end`"]
pub struct Split<B: Send> {
    request: Option<Request<B>>,
    pending: Arc<std::sync::atomic::AtomicBool>,
}

impl<B: Send> Split<B> {
    /// Waits until it is done; the buffer, and how much was transferred.
    #[doc(alias = "MPI_File_write_all_end")]
    #[doc(alias = "MPI_File_read_all_end")]
    pub fn end(mut self) -> Result<(B, Count)> {
        let request = self.request.take().expect("a split operation ends once");
        request.wait()
    }

    /// As [`end`](Self::end), but waits no longer than `longest`: none if the operation has not ended by then. It continues, and its result is lost.
    pub fn end_within(mut self, longest: Duration) -> Option<Result<(B, Count)>> {
        let request = self.request.take()?;
        if request.wait_timeout(longest) { request.take_result() } else { None }
    }
}

impl<B: Send> Drop for Split<B> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            let _ = request.wait();
        }
        self.pending.store(false, Ordering::SeqCst);
    }
}
