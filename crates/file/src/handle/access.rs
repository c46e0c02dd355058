//! Access: position × independent or collective × read or write × blocking or not. Every access routine of MPI is one chain of methods.
//!
//! | position | independent | collective |
//! |---|---|---|
//! | explicit offset | `file.at(o).read(…)` | `file.at(o).all().read(…)` |
//! | individual pointer | `file.at_pointer().read(…)` | `file.at_pointer().all().read(…)` |
//! | shared pointer | `file.shared().read(…)` | `file.shared().all().read(…)`, in rank order |
//! | a view of its own | `file.with_view(&view).read(…)` | `file.with_view(&view).all().read(…)` |
//!
//! Instead of `read`: `write`; `start_read`, `start_write` do not wait; collective also `begin_read`, `begin_write`, the split form.

use std::sync::Arc;

pub use super::collective_access::{CollectiveAccess, Split};
use super::file::File;
use super::request::{Count, Request, RequestJob};
use crate::engine::{AccessPosition, OpenFile, PlainRun, ResolvedAccess, first_byte, operation_name};
use crate::error::{Error, Kind, Result};
use crate::hints::TransferDirection;
use crate::memory::{Incoming, Outgoing, Sink, Source};
use crate::view::View;

/// A number of etypes of the view: what offsets are counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Etypes(pub u64);

impl From<u64> for Etypes {
    fn from(count: u64) -> Self {
        Self(count)
    }
}

impl File {
    /// At an explicit offset, which moves no pointer.
    pub fn at(&self, offset: impl Into<Etypes>) -> Access<'_> {
        Access { file: self, position: AccessPosition::Offset(offset.into().0), view: None }
    }

    /// At this rank's own pointer, which moves on.
    pub fn at_pointer(&self) -> Access<'_> {
        Access { file: self, position: AccessPosition::IndividualPointer, view: None }
    }

    /// At the pointer that all ranks share, which moves on.
    pub fn shared(&self) -> Access<'_> {
        Access { file: self, position: AccessPosition::SharedPointer, view: None }
    }

    /// From the start of a view of its own, whatever view the file has; moves no pointer. In a collective access each rank gives its own: data in
    /// many places of a file is accessed at once, without the collective calls of [`set_view`](File::set_view). Data is native.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// # use aqueduct_file::layout::{Basic, Layout};
    /// # use aqueduct_file::{File, View};
    /// # Launch::threads(2).run(|world| {
    /// # let file = File::create(world, "memfs:through")?;
    /// let view = View::round_robin::<u8>(world)?;
    /// file.with_view(&view).all().write(&[world.rank() as u8; 3])?;
    /// let mut all = [9u8; 6];
    /// file.at(0).read(&mut all)?;
    /// assert_eq!(all, [0, 1, 0, 1, 0, 1]);
    /// # file.close()
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn with_view<'f>(&'f self, view: &'f View) -> Access<'f> {
        Access { file: self, position: AccessPosition::OwnView, view: Some(view) }
    }
}

/// A position in a file, for an independent access.
#[derive(Clone, Copy, Debug)]
pub struct Access<'f> {
    file: &'f File,
    position: AccessPosition,
    /// In place of the file's view.
    view: Option<&'f View>,
}

impl<'f> Access<'f> {
    /// A collective access. At the shared pointer, in rank order.
    #[doc(alias = "ordered")]
    pub fn all(self) -> CollectiveAccess<'f> {
        CollectiveAccess { file: self.file, position: self.position, view: self.view }
    }

    /// Writes `data`; how much was written.
    #[doc(alias = "MPI_File_write")]
    #[doc(alias = "MPI_File_write_at")]
    #[doc(alias = "MPI_File_write_shared")]
    pub fn write<'d>(self, data: impl Into<Source<'d>>) -> Result<Count> {
        let data = data.into();
        if let Some(bytes) = data.as_contiguous()
            && let Some(run) = self.plain_run(TransferDirection::Write, bytes.len() as u64)?
        {
            return self.file.engine.write_plain(run, bytes).map(Count::new);
        }
        let resolved =
            data.check_usable().and_then(|()| self.resolve(TransferDirection::Write, data.size()))?;
        self.file.engine.write_independent(&resolved, &data).map(Count::new)
    }

    /// Fills `data`; how much was read, less at the end of the file.
    #[doc(alias = "MPI_File_read")]
    #[doc(alias = "MPI_File_read_at")]
    #[doc(alias = "MPI_File_read_shared")]
    pub fn read<'d>(self, data: impl Into<Sink<'d>>) -> Result<Count> {
        let mut data = data.into();
        if let Some(prefetcher) = self.file.prefetcher_of(self.position)
            && data.as_contiguous().is_some()
        {
            return self.read_prefetched(prefetcher, &mut data);
        }
        self.read_unprefetched(data)
    }

    /// As [`read`](Self::read), but never ahead: for layers that know which reads are not one of a sequence.
    #[doc(hidden)]
    pub fn read_unprefetched<'d>(self, data: impl Into<Sink<'d>>) -> Result<Count> {
        let mut data = data.into();
        if let Some(bytes) = data.as_contiguous()
            && let Some(run) = self.plain_run(TransferDirection::Read, bytes.len() as u64)?
        {
            return self.file.engine.read_plain(run, bytes).map(Count::new);
        }
        let resolved =
            data.check_usable().and_then(|()| self.resolve(TransferDirection::Read, data.size()))?;
        self.file.engine.read_independent(&resolved, &mut data).map(Count::new)
    }

    /// Starts writing a buffer, which the request owns until it is done.
    #[doc(alias = "MPI_File_iwrite")]
    #[doc(alias = "MPI_File_iwrite_at")]
    #[doc(alias = "MPI_File_iwrite_shared")]
    pub fn start_write<B: Outgoing + 'static>(self, buffer: B) -> Result<Request<B>> {
        let (request, job) = self.write_job(buffer)?;
        self.file.submit_independent(Box::new(job)).map(|()| request)
    }

    /// Starts filling a buffer, which the request owns until it is done.
    #[doc(alias = "MPI_File_iread")]
    #[doc(alias = "MPI_File_iread_at")]
    #[doc(alias = "MPI_File_iread_shared")]
    pub fn start_read<B: Incoming + 'static>(self, buffer: B) -> Result<Request<B>> {
        let (request, job) = self.read_job(buffer)?;
        self.file.submit_independent(Box::new(job)).map(|()| request)
    }

    pub(crate) fn write_job<B: Outgoing>(
        self,
        buffer: B,
    ) -> Result<(Request<B>, impl FnOnce() + Send + use<B>)> {
        let data = buffer.source();
        let resolved =
            data.check_usable().and_then(|()| self.resolve(TransferDirection::Write, data.size()))?;
        drop(data);
        let work = move |file: &OpenFile, buffer: &mut B| {
            file.write_independent(&resolved, &buffer.source()).map(Count::new)
        };
        Ok(Request::new(Arc::clone(&self.file.engine), buffer, false, work))
    }

    pub(crate) fn read_job<B: Incoming>(
        self,
        mut buffer: B,
    ) -> Result<(Request<B>, impl FnOnce() + Send + use<B>)> {
        let data = buffer.sink();
        let resolved =
            data.check_usable().and_then(|()| self.resolve(TransferDirection::Read, data.size()))?;
        drop(data);
        let work = move |file: &OpenFile, buffer: &mut B| {
            file.read_independent(&resolved, &mut buffer.sink()).map(Count::new)
        };
        Ok(Request::new(Arc::clone(&self.file.engine), buffer, false, work))
    }

    pub(crate) fn file(self) -> &'f File {
        self.file
    }

    /// The access on the short path; none if it does not take it. Where the access is not allowed, the long path says why.
    fn plain_run(self, direction: TransferDirection, bytes: u64) -> Result<Option<PlainRun>> {
        let (engine, cx) = (&self.file.engine, self.file.cx());
        let allowed = match direction {
            TransferDirection::Read => cx.mode.is_read(),
            TransferDirection::Write => cx.mode.is_write(),
        };
        let plain = engine.plain_view.get().filter(|_| allowed && self.view.is_none());
        let Some((plain, etypes)) = plain.and_then(|plain| Some((plain, plain.etypes(bytes)?))) else {
            return Ok(None);
        };
        cx.check_not_poisoned(operation_name(direction))?;
        let start = self.start(direction, etypes)?;
        match plain.run(start, bytes) {
            Some(run) => Ok(Some(run)),
            // This fails, except for an access of no bytes, which moves no pointer.
            None => self.file.first_byte(direction, &self.file.view(), start, etypes).map(|_| None),
        }
    }

    /// The etype at which the access begins. Pointers move on.
    fn start(self, direction: TransferDirection, etypes: u64) -> Result<u64> {
        Ok(match self.position {
            AccessPosition::Offset(offset) => offset,
            AccessPosition::OwnView => 0,
            AccessPosition::IndividualPointer => self.file.take_pointer(etypes).unwrap_or(u64::MAX),
            AccessPosition::SharedPointer => {
                let pointer = &self.file.engine.shared_pointer;
                pointer.advance(self.file.cx(), operation_name(direction), etypes)?
            }
        })
    }

    fn resolve(self, direction: TransferDirection, bytes: u64) -> Result<ResolvedAccess> {
        self.resolve_with_start(direction, bytes).map(|(resolved, _)| resolved)
    }

    /// The access, and the etype at which it begins.
    pub(super) fn resolve_with_start(
        self,
        direction: TransferDirection,
        bytes: u64,
    ) -> Result<(ResolvedAccess, u64)> {
        let (view, etypes) = self.file.check(self.position, self.view, direction, bytes)?;
        let start = self.start(direction, etypes)?;
        let first = self.file.first_byte(direction, &view, start, etypes)?;
        Ok((ResolvedAccess { view, first }, start))
    }

    /// The view that comes with the access.
    pub(super) fn own_view(self) -> Option<&'f View> {
        self.view
    }
}

impl File {
    /// The view, and how many etypes `bytes` are, if the file allows the access.
    pub(super) fn check(
        &self,
        position: AccessPosition,
        own: Option<&View>,
        direction: TransferDirection,
        bytes: u64,
    ) -> Result<(Arc<View>, u64)> {
        let call = operation_name(direction);
        self.cx().check_not_poisoned(call)?;
        match direction {
            TransferDirection::Write => self.check_writable(call)?,
            TransferDirection::Read if !self.cx().mode.is_read() => {
                return Err(self.cx().error(Kind::WriteOnly, call, "the file was opened for writing only"));
            }
            TransferDirection::Read => {}
        }
        if self.cx().mode.is_sequential() && position != AccessPosition::SharedPointer {
            let detail = "a file opened in sequential mode is accessed through the shared pointer only";
            return Err(self.cx().error(Kind::Unsupported, call, detail));
        }
        let view = match own {
            Some(view) => Arc::new(self.check_own_view(view, direction)?.clone()),
            None => self.view(),
        };
        let etype = view.etype().size();
        if !bytes.is_multiple_of(etype) {
            let detail =
                format!("{bytes} bytes of memory are not a multiple of the etype size, {etype} bytes");
            return Err(self.cx().error(Kind::BadCount, call, detail));
        }
        Ok((view, bytes / etype))
    }

    /// A view that is given with an access. All ranks must convert or none, which is not compared here: data is native.
    fn check_own_view<'v>(&self, view: &'v View, direction: TransferDirection) -> Result<&'v View> {
        if !view.representation().is_native() {
            let detail = "data through a view of its own is native; set the view for another representation";
            return Err(self.cx().error(Kind::Unsupported, operation_name(direction), detail));
        }
        if direction == TransferDirection::Write && !view.is_writable() {
            let detail = "the filetype holds a byte twice, which is for reading only";
            return Err(self.cx().error(Kind::BadLayout, operation_name(direction), detail));
        }
        Ok(view)
    }

    pub(super) fn first_byte(
        &self,
        direction: TransferDirection,
        view: &View,
        start: u64,
        etypes: u64,
    ) -> Result<u64> {
        first_byte(self.cx(), direction, view, start, etypes)
    }

    pub(crate) fn submit_independent(&self, job: RequestJob) -> Result<()> {
        self.independent_thread.submit(move |_| job()).map_err(|source| self.no_thread(&source))
    }

    pub(crate) fn submit_collective(&self, job: RequestJob) -> Result<()> {
        let job = if self.cx().comm.allows_background_collectives() {
            job
        } else {
            // The I/O thread may not call MPI: threads of the program send and receive its messages.
            let operation = self.cx().comm_result("start", self.cx().comm.background_operation())?;
            Box::new(move || operation.perform(job))
        };
        self.collective_thread.submit(move |_| job()).map_err(|source| self.no_thread(&source))
    }

    pub(crate) fn no_thread(&self, source: &std::io::Error) -> Error {
        let detail = format!("no I/O thread could be started: {source}; use the blocking form");
        self.cx().error(Kind::Io, "start", detail)
    }
}
