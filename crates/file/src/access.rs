//! Access: where × together or alone × read or write × wait or not. Every cell of MPI's table is one chain of words.
//!
//! | where | alone | together |
//! |---|---|---|
//! | explicit offset | `file.at(o).read(…)` | `file.at(o).all().read(…)` |
//! | individual pointer | `file.next().read(…)` | `file.next().all().read(…)` |
//! | shared pointer | `file.shared().read(…)` | `file.shared().all().read(…)`, in rank order |
//! | a view of its own | `file.through(&view).read(…)` | `file.through(&view).all().read(…)` |
//!
//! Instead of `read`: `write`; `start_read`, `start_write` do not wait; together also `begin_read`, `begin_write`, the split form.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::core::Core;
use crate::error::{Kind, Result};
use crate::file::File;
use crate::memory::{Incoming, Outgoing, Sink, Source};
use crate::perform::{
    Claim, Placed, Position, claim_and_read, claim_and_write, first_byte, name_of, read_alone, write_alone,
};
use crate::plan::Direction;
use crate::queue::Job;
use crate::request::{Count, Request};
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
        Access { file: self, position: Position::At(offset.into().0), view: None }
    }

    /// At this rank's own pointer, which moves on.
    pub fn next(&self) -> Access<'_> {
        Access { file: self, position: Position::Next, view: None }
    }

    /// At the pointer that all ranks share, which moves on.
    pub fn shared(&self) -> Access<'_> {
        Access { file: self, position: Position::Shared, view: None }
    }

    /// From the start of a view of its own, whatever view the file has; moves no pointer. Together, each rank brings its own: what lies in many places of
    /// a file is accessed as one, without the meetings of [`set_view`](File::set_view). Data is native.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// # use aqueduct_file::layout::{Basic, Layout};
    /// # use aqueduct_file::{Mode, Open, View};
    /// # Launch::threads(2).run(|world| {
    /// # let file = Open::new(Mode::read_write().create().delete_on_close()).open(world, "memfs:through")?;
    /// let turns = View::round_robin(world, &Layout::from(Basic::U8))?;
    /// file.through(&turns).all().write(&[world.rank() as u8; 3])?;
    /// let mut all = [9u8; 6];
    /// file.at(0).read(&mut all)?;
    /// assert_eq!(all, [0, 1, 0, 1, 0, 1]);
    /// # file.close()
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn through<'f>(&'f self, view: &'f View) -> Access<'f> {
        Access { file: self, position: Position::Through, view: Some(view) }
    }
}

/// A place in a file, for this rank alone.
#[derive(Clone, Copy, Debug)]
pub struct Access<'f> {
    file: &'f File,
    position: Position,
    /// Instead of the file's.
    view: Option<&'f View>,
}

/// A place in a file, for all ranks together.
#[derive(Clone, Copy, Debug)]
pub struct Together<'f> {
    file: &'f File,
    position: Position,
    /// Instead of the file's.
    view: Option<&'f View>,
}

impl<'f> Access<'f> {
    /// Together with all other ranks: a collective operation. At the shared pointer, in rank order.
    #[doc(alias = "ordered")]
    pub fn all(self) -> Together<'f> {
        Together { file: self.file, position: self.position, view: self.view }
    }

    /// Writes `data`; how much was written.
    #[doc(alias = "MPI_File_write")]
    #[doc(alias = "MPI_File_write_at")]
    #[doc(alias = "MPI_File_write_shared")]
    pub fn write<'d>(self, data: impl Into<Source<'d>>) -> Result<Count> {
        let data = data.into();
        let placed = data.accepted().and_then(|()| self.place(Direction::Write, data.size()))?;
        write_alone(&self.file.core, &placed, &data)
    }

    /// Fills `data`; how much was read, less at the end of the file.
    #[doc(alias = "MPI_File_read")]
    #[doc(alias = "MPI_File_read_at")]
    #[doc(alias = "MPI_File_read_shared")]
    pub fn read<'d>(self, data: impl Into<Sink<'d>>) -> Result<Count> {
        let mut data = data.into();
        let placed = data.accepted().and_then(|()| self.place(Direction::Read, data.size()))?;
        read_alone(&self.file.core, &placed, &mut data)
    }

    /// Starts writing a buffer, which the request keeps meanwhile.
    #[doc(alias = "MPI_File_iwrite")]
    #[doc(alias = "MPI_File_iwrite_at")]
    #[doc(alias = "MPI_File_iwrite_shared")]
    pub fn start_write<B: Outgoing + 'static>(self, buffer: B) -> Result<Request<B>> {
        let (request, job) = self.write_job(buffer)?;
        self.file.submit_alone(Box::new(job)).map(|()| request)
    }

    /// Starts filling a buffer, which the request keeps meanwhile.
    #[doc(alias = "MPI_File_iread")]
    #[doc(alias = "MPI_File_iread_at")]
    #[doc(alias = "MPI_File_iread_shared")]
    pub fn start_read<B: Incoming + 'static>(self, buffer: B) -> Result<Request<B>> {
        let (request, job) = self.read_job(buffer)?;
        self.file.submit_alone(Box::new(job)).map(|()| request)
    }

    pub(crate) fn write_job<B: Outgoing>(
        self,
        buffer: B,
    ) -> Result<(Request<B>, impl FnOnce() + Send + use<B>)> {
        let data = buffer.source();
        let placed = data.accepted().and_then(|()| self.place(Direction::Write, data.size()))?;
        drop(data);
        let work = move |core: &Core, buffer: &mut B| write_alone(core, &placed, &buffer.source());
        Ok(Request::new(Arc::clone(&self.file.core), buffer, false, work))
    }

    pub(crate) fn read_job<B: Incoming>(
        self,
        mut buffer: B,
    ) -> Result<(Request<B>, impl FnOnce() + Send + use<B>)> {
        let data = buffer.sink();
        let placed = data.accepted().and_then(|()| self.place(Direction::Read, data.size()))?;
        drop(data);
        let work = move |core: &Core, buffer: &mut B| read_alone(core, &placed, &mut buffer.sink());
        Ok(Request::new(Arc::clone(&self.file.core), buffer, false, work))
    }

    pub(crate) fn file(self) -> &'f File {
        self.file
    }

    fn place(self, direction: Direction, bytes: u64) -> Result<Placed> {
        let (view, etypes) = self.file.check(self.position, self.view, direction, bytes)?;
        let start = match self.position {
            Position::At(offset) => offset,
            Position::Through => 0,
            Position::Next => self.file.take_pointer(etypes).unwrap_or(u64::MAX),
            Position::Shared => self.file.core.advance_shared(name_of(direction), etypes)?,
        };
        let first = self.file.first_byte(direction, &view, start, etypes)?;
        Ok(Placed { view, first })
    }
}

impl<'f> Together<'f> {
    /// Writes `data`; how much was written.
    #[doc(alias = "MPI_File_write_all")]
    #[doc(alias = "MPI_File_write_at_all")]
    #[doc(alias = "MPI_File_write_ordered")]
    pub fn write<'d>(self, data: impl Into<Source<'d>>) -> Result<Count> {
        let data = data.into();
        self.file.collective.drain();
        let claim = data.accepted().and_then(|()| self.claim(Direction::Write, data.size()));
        claim_and_write(&self.file.core, self.position, claim, &data)
    }

    /// Fills `data`; how much was read, less at the end of the file.
    #[doc(alias = "MPI_File_read_all")]
    #[doc(alias = "MPI_File_read_at_all")]
    #[doc(alias = "MPI_File_read_ordered")]
    pub fn read<'d>(self, data: impl Into<Sink<'d>>) -> Result<Count> {
        let mut data = data.into();
        self.file.collective.drain();
        let claim = data.accepted().and_then(|()| self.claim(Direction::Read, data.size()));
        claim_and_read(&self.file.core, self.position, claim, &mut data)
    }

    /// Starts writing a buffer, which the request keeps meanwhile.
    #[doc(alias = "MPI_File_iwrite_all")]
    #[doc(alias = "MPI_File_iwrite_at_all")]
    pub fn start_write<B: Outgoing + 'static>(self, buffer: B) -> Result<Request<B>> {
        let (request, job) = self.write_job(buffer);
        self.file.submit_together(Box::new(job)).map(|()| request)
    }

    /// Starts filling a buffer, which the request keeps meanwhile.
    #[doc(alias = "MPI_File_iread_all")]
    #[doc(alias = "MPI_File_iread_at_all")]
    pub fn start_read<B: Incoming + 'static>(self, buffer: B) -> Result<Request<B>> {
        let (request, job) = self.read_job(buffer);
        self.file.submit_together(Box::new(job)).map(|()| request)
    }

    pub(crate) fn write_job<B: Outgoing>(self, buffer: B) -> (Request<B>, impl FnOnce() + Send + use<B>) {
        let data = buffer.source();
        let claim = data.accepted().and_then(|()| self.claim(Direction::Write, data.size()));
        drop(data);
        let position = self.position;
        let work =
            move |core: &Core, buffer: &mut B| claim_and_write(core, position, claim, &buffer.source());
        Request::new(Arc::clone(&self.file.core), buffer, true, work)
    }

    pub(crate) fn read_job<B: Incoming>(self, mut buffer: B) -> (Request<B>, impl FnOnce() + Send + use<B>) {
        let data = buffer.sink();
        let claim = data.accepted().and_then(|()| self.claim(Direction::Read, data.size()));
        drop(data);
        let position = self.position;
        let work =
            move |core: &Core, buffer: &mut B| claim_and_read(core, position, claim, &mut buffer.sink());
        Request::new(Arc::clone(&self.file.core), buffer, true, work)
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
        self.no_split()?;
        let request = start()?;
        self.file.split.store(true, Ordering::SeqCst);
        Ok(Split { request: Some(request), pending: Arc::clone(&self.file.split) })
    }

    pub(crate) fn file(self) -> &'f File {
        self.file
    }

    /// What this rank brings; an error is brought too, so that all ranks learn of it.
    fn claim(self, direction: Direction, bytes: u64) -> Result<Claim> {
        self.no_split()?;
        let (view, etypes) = self.file.check(self.position, self.view, direction, bytes)?;
        let start = match self.position {
            Position::At(offset) => offset,
            Position::Next => self.file.take_pointer(etypes).unwrap_or(u64::MAX),
            // The shared pointer is known when all ranks have come.
            Position::Through | Position::Shared => 0,
        };
        if self.position != Position::Shared {
            self.file.first_byte(direction, &view, start, etypes)?;
        }
        Ok(Claim { view, start, etypes })
    }

    fn no_split(self) -> Result<()> {
        if !self.file.split.load(Ordering::SeqCst) {
            return Ok(());
        }
        let detail = "a split operation is under way on this file; end it before the next collective one";
        Err(self.file.core.error(Kind::SplitPending, "collective access", detail))
    }
}

impl File {
    /// The view, and how many etypes `bytes` are, if the file allows the access.
    fn check(
        &self,
        position: Position,
        own: Option<&View>,
        direction: Direction,
        bytes: u64,
    ) -> Result<(Arc<View>, u64)> {
        let call = name_of(direction);
        self.core.sound(call)?;
        match direction {
            Direction::Write => self.may_write(call)?,
            Direction::Read if !self.core.mode.is_read() => {
                return Err(self.core.error(Kind::WriteOnly, call, "the file was opened for writing only"));
            }
            Direction::Read => {}
        }
        if self.core.mode.is_sequential() && position != Position::Shared {
            let detail = "a file opened in sequential mode is accessed through the shared pointer only";
            return Err(self.core.error(Kind::Unsupported, call, detail));
        }
        let view = match own {
            Some(view) => Arc::new(self.usable(view, direction)?.clone()),
            None => self.view(),
        };
        let etype = view.etype().size();
        if !bytes.is_multiple_of(etype) {
            let detail = format!("{bytes} bytes of memory are no whole number of etypes of {etype} bytes");
            return Err(self.core.error(Kind::BadCount, call, detail));
        }
        Ok((view, bytes / etype))
    }

    /// A view that is given with an access. All ranks must convert or none; here nobody has compared that.
    fn usable<'v>(&self, view: &'v View, direction: Direction) -> Result<&'v View> {
        if !view.representation().is_native() {
            let detail = "data through a view of its own is native; set the view for another representation";
            return Err(self.core.error(Kind::Unsupported, name_of(direction), detail));
        }
        if direction == Direction::Write && !view.is_writable() {
            let detail = "the filetype holds a byte twice, which is for reading only";
            return Err(self.core.error(Kind::BadLayout, name_of(direction), detail));
        }
        Ok(view)
    }

    fn first_byte(&self, direction: Direction, view: &View, start: u64, etypes: u64) -> Result<u64> {
        first_byte(&self.core, direction, view, start, etypes)
    }

    pub(crate) fn submit_alone(&self, job: Job) -> Result<()> {
        self.independent.submit(job).map_err(|source| self.no_thread(&source))
    }

    pub(crate) fn submit_together(&self, job: Job) -> Result<()> {
        let job = if self.core.comm.serves_threads() {
            job
        } else {
            // A thread of ours may not talk to MPI: those of the program move its packets.
            let operation = self.core.talk("start", self.core.comm.background_operation())?;
            Box::new(move || operation.perform(job))
        };
        self.collective.submit(job).map_err(|source| self.no_thread(&source))
    }

    pub(crate) fn no_thread(&self, source: &std::io::Error) -> crate::Error {
        let detail = format!("no thread could be started for it: {source}; use the blocking form");
        self.core.error(Kind::Io, "start", detail)
    }
}

/// A collective operation between its begin and its end. Dropping it ends it.
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

    /// The same, but waits no longer than this: none if it is not done by then. It goes on, and its result is lost.
    pub fn end_within(mut self, longest: Duration) -> Option<Result<(B, Count)>> {
        let request = self.request.take()?;
        if request.settle(longest) { request.take_result() } else { None }
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
