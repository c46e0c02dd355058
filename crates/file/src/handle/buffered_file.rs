//! Buffered files: enabling the write buffer, its status, and finishing it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aqueduct_comm::PooledComm;
use aqueduct_report::{Report, ReportSource, is_enabled};

use super::file::File;
use crate::engine::{FileResources, OpenFile};
use crate::error::{Kind, Result};
use crate::hints::BufferOptions;
use crate::write_buffer::{BufferStatus, DrainTarget, DrainThread, WriteBuffer};

impl File {
    /// The same file, buffered from now on: a write is copied and returns, and a thread of this rank writes the copy while the program computes. All
    /// access methods stay as they are; `docs/buffering.md` has the guarantees. Collective, with the same settings on all ranks. A file that is buffered
    /// already, or open for reading only, stays as it is.
    ///
    /// ```
    /// use aqueduct_file::{BufferOptions, Capacity, File};
    ///
    /// # aqueduct_comm::Launch::threads(2).run(|world| {
    /// let file = File::create(world, "memfs:buffered")?;
    /// let file = file.buffered(&BufferOptions::new(Capacity::Bytes(1 << 20)))?;
    /// let mut snapshot = vec![world.rank() as f64; 1000];
    /// file.at(8000 * world.rank() as u64).all().write(&snapshot)?;
    /// // The array is the program's again.
    /// snapshot.fill(-1.0);
    /// // `sync` waits until everything is in the file, and durable if the device is persistent, which memory is not.
    /// file.sync()?;
    /// let status = file.buffering().expect("it is buffered");
    /// assert_eq!((status.accepted, status.visible, status.durable), (8000, 8000, 0));
    /// # file.close()
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn buffered(self, settings: &BufferOptions) -> Result<Self> {
        self.buffered_through(settings, None)
    }

    /// As [`buffered`](Self::buffered), with a level between the memory of the ranks and the file. Collective; all ranks pass a drain target, or none does.
    pub fn buffered_through(
        mut self,
        settings: &BufferOptions,
        reservoir: Option<Arc<dyn DrainTarget>>,
    ) -> Result<Self> {
        self.wait_idle();
        if self.engine.is_buffered() || !self.cx().mode.is_write() {
            return Ok(self);
        }
        let buffer = WriteBuffer::new(&self.cx().name, &self.cx().comm, settings, reservoir);
        let buffer = self.cx().comm_result("buffered", buffer)?;
        let shared = self.engine.set_write_buffer(buffer);
        self.engine.set_plain_view(&self.view());
        let started = DrainThread::start(shared).map_err(|source| self.no_thread(&source));
        self.drain_thread = Some(self.cx().agree("buffered", started)?);
        Ok(self)
    }

    /// The progress of this rank's buffered writes, and the memory that they use; none for a file that is not buffered.
    pub fn buffering(&self) -> Option<BufferStatus> {
        self.engine.buffer_status()
    }

    /// Makes what is buffered durable before the file is closed. Collective, where the file is buffered.
    pub(crate) fn finish_buffer(&self) -> Result<()> {
        if !self.engine.is_buffered() {
            return Ok(());
        }
        let written = self.flush_or_sync();
        if is_enabled() && self.cx().comm.rank() == 0 {
            let report = Report::new(ReportSource::File).file(&self.cx().name);
            self.buffering().iter().for_each(|status| report.emit(status));
        }
        self.cx().agree("close", written)
    }

    /// Finishes the operations and the buffered writes of this rank, without the other ranks: for a program that ends and has not closed the file. A
    /// collective operation in progress is waited for until the deadline; buffered data is made durable. [`close_alone`](Self::close_alone) follows.
    pub fn finish_alone(&self, deadline: Instant) -> Result<()> {
        if !self.is_idle_by(deadline) {
            let detail = "an operation is in progress, in which other ranks have not taken part; \
                          wait for requests and close files before the program ends";
            return Err(self.cx().error(Kind::Communication, "close", detail));
        }
        if self.engine.is_buffered() { self.flush_or_sync() } else { Ok(()) }
    }

    /// Waits until no operation of this rank is in progress; operations that need other ranks are waited for until the deadline.
    fn is_idle_by(&self, deadline: Instant) -> bool {
        let left = || deadline.saturating_duration_since(Instant::now());
        // Independent accesses take as long as the medium does, unless another rank serves their shared file pointer.
        if self.engine.shared_pointer.is_served() {
            if !self.independent_thread.drain_within(Some(left())) {
                return false;
            }
        } else {
            self.independent_thread.drain();
        }
        self.collective_thread.drain_within(Some(left()))
    }

    /// Closes the file on this rank alone, after [`finish_alone`](Self::finish_alone): for a program that ends and has not closed it. Returns what the
    /// device reports. A file with an operation in progress is left as it is: a wait for its threads might never end.
    pub fn close_alone(self) -> Result<()> {
        let (resources, closed) = self.close_handle();
        drop(resources);
        closed
    }

    /// As [`close_alone`](Self::close_alone) for a process that exits: resources that need other ranks to be freed are not freed.
    pub fn close_at_exit(self) -> Result<()> {
        let (resources, closed) = self.close_handle();
        std::mem::forget(resources);
        closed
    }

    fn close_handle(self) -> (Option<PooledComm<FileResources>>, Result<()>) {
        let is_idle = self.independent_thread.drain_within(Some(Duration::ZERO))
            && self.collective_thread.drain_within(Some(Duration::ZERO));
        if !is_idle {
            std::mem::forget(self);
            return (None, Ok(()));
        }
        let engine = Arc::clone(&self.engine);
        drop(self);
        Arc::into_inner(engine).map_or((None, Ok(())), OpenFile::into_resources)
    }

    /// Waits until no rank needs the shared file pointer of another one any more, but no longer than until the deadline: for a program that ends and has
    /// not closed the file. Collective.
    pub fn wait_for_users(&self, deadline: Instant) -> Result<()> {
        if !self.engine.shared_pointer.is_served() {
            return Ok(());
        }
        let (engine, (sender, outcome)) = (Arc::clone(&self.engine), std::sync::mpsc::channel());
        // On the thread of collective operations: it starts after those in progress, and does not disturb them.
        self.submit_collective(Box::new(move || {
            let cx = &engine.context;
            let _ = sender.send(cx.comm_result("close", cx.comm.barrier()));
        }))?;
        if !self.collective_thread.drain_within(Some(deadline.saturating_duration_since(Instant::now()))) {
            let detail = "other ranks have not reached the end of the program in time";
            return Err(self.cx().error(Kind::Communication, "close", detail));
        }
        outcome.try_recv().unwrap_or(Ok(()))
    }

    /// Writes what is buffered to the file, and makes it durable unless the file is deleted on close.
    fn flush_or_sync(&self) -> Result<()> {
        let delete = self.cx().mode.is_delete_on_close();
        if delete { self.engine.flush() } else { self.engine.make_durable("close") }
    }
}
