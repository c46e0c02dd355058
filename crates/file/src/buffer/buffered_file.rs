//! A file that is buffered: turning it on, looking at it, and making everything durable.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use aqueduct_device::SyncScope;

use super::{Buffer, Buffered, Buffering, Drainer, Reservoir};
use crate::core::Core;
use crate::desk::Desk;
use crate::error::{Kind, Result};
use crate::file::File;
use crate::verbose;

impl File {
    /// The same file, buffered from now on: a write is copied and returns, and a thread of this rank writes the copy while the program computes. All
    /// access methods stay as they are; `docs/buffering.md` has the promises. Collective, with the same settings on all ranks. A file that is buffered
    /// already, or open for reading only, stays as it is.
    ///
    /// ```
    /// use aqueduct_file::{Buffered, Capacity, Mode, Open};
    ///
    /// # aqueduct_comm::Launch::threads(2).run(|world| {
    /// let file = Open::new(Mode::read_write().create().delete_on_close()).open(world, "memfs:buffered")?;
    /// let file = file.buffered(&Buffered::new(Capacity::Bytes(1 << 20)))?;
    /// let mut snapshot = vec![world.rank() as f64; 1000];
    /// file.at(8000 * world.rank() as u64).all().write(&snapshot)?;
    /// // The array is the program's again.
    /// snapshot.fill(-1.0);
    /// // `sync` waits until everything is in the file, and durable if the device is persistent, which memory is not.
    /// file.sync()?;
    /// let told = file.buffering().expect("it is buffered");
    /// assert_eq!((told.accepted, told.visible, told.durable), (8000, 8000, 0));
    /// # file.close()
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn buffered(self, settings: &Buffered) -> Result<Self> {
        self.buffered_through(settings, None)
    }

    /// As [`buffered`](Self::buffered), with a level between the memory of the ranks and the file. Collective; all ranks bring one, or none does.
    pub fn buffered_through(
        mut self,
        settings: &Buffered,
        reservoir: Option<Arc<dyn Reservoir>>,
    ) -> Result<Self> {
        self.settle();
        if self.core.buffer.get().is_some() || !self.core.mode.is_write() {
            return Ok(self);
        }
        let buffer = Buffer::new(&self.core.name, &self.core.comm, settings, reservoir);
        let buffer = self.core.talk("buffered", buffer)?;
        let _ = self.core.buffer.set(buffer);
        let started = Drainer::start(&self.core).map_err(|source| self.no_thread(&source));
        self.drainer = Some(self.core.agree("buffered", started)?);
        Ok(self)
    }

    /// How far this rank's writes have come, and what holding them takes; none for a file that is not buffered.
    pub fn buffering(&self) -> Option<Buffering> {
        self.core.buffer.get().map(Buffer::report)
    }

    /// Makes what is buffered durable before the file is closed. Collective, where the file is buffered.
    pub(crate) fn finish(&self) -> Result<()> {
        if self.core.buffer.get().is_none() {
            return Ok(());
        }
        let written =
            if self.core.mode.is_delete_on_close() { self.core.flush() } else { self.durable("close") };
        if verbose::is_on() && self.core.comm.rank() == 0 {
            // In one piece: other processes write to the same stream.
            let line = |told| format!("aqueduct: {}: {told}\n", self.core.name);
            self.buffering()
                .map(line)
                .iter()
                .for_each(|line| _ = std::io::stderr().write_all(line.as_bytes()));
        }
        self.core.agree("close", written)
    }

    /// Finishes what this rank has begun and accepted, without the other ranks: for a program that ends and has not closed the file. A collective operation
    /// under way is waited for until the deadline; what is buffered is made durable. [`close_alone`](Self::close_alone) follows.
    pub fn finish_alone(&self, deadline: Instant) -> Result<()> {
        if !self.is_idle_by(deadline) {
            let detail = "an operation was under way, and other ranks have not taken part; \
                          wait for requests and close files before the program ends";
            return Err(self.core.error(Kind::Communication, "close", detail));
        }
        match self.core.buffer.get() {
            None => Ok(()),
            Some(_) if self.core.mode.is_delete_on_close() => self.core.flush(),
            Some(_) => self.durable("close"),
        }
    }

    /// Waits until nothing is under way on this rank; what needs other ranks is waited for until the deadline.
    fn is_idle_by(&self, deadline: Instant) -> bool {
        let left = || deadline.saturating_duration_since(Instant::now());
        // Accesses of this rank alone take as long as the medium does, unless another rank serves their pointer.
        if self.core.shared.is_served() {
            if !self.independent.drain_within(left()) {
                return false;
            }
        } else {
            self.independent.drain();
        }
        self.collective.drain_within(left())
    }

    /// Closes the file on this rank alone, after [`finish_alone`](Self::finish_alone): for a program that ends and has not closed it. What closing
    /// reports is returned. A file on which something is still under way is left as it is: a wait for its threads might never end.
    pub fn close_alone(self) -> Result<()> {
        let (resources, closed) = self.close_handle();
        drop(resources);
        closed
    }

    /// The same for a process that exits: what needs other ranks to be given back is not.
    pub fn close_at_exit(self) -> Result<()> {
        let (resources, closed) = self.close_handle();
        std::mem::forget(resources);
        closed
    }

    fn close_handle(self) -> (Option<Desk>, Result<()>) {
        if !self.independent.drain_within(Duration::ZERO) || !self.collective.drain_within(Duration::ZERO) {
            std::mem::forget(self);
            return (None, Ok(()));
        }
        let core = Arc::clone(&self.core);
        drop(self);
        let (resources, closed) = Arc::into_inner(core).map(Core::into_desk).unzip();
        (resources, closed.unwrap_or(Ok(())))
    }

    /// Waits until no rank needs anything of this file from another one any more, but no longer than until the deadline: for a program that ends and has not
    /// closed it. Collective.
    pub fn wait_for_users(&self, deadline: Instant) -> Result<()> {
        if !self.core.shared.is_served() {
            return Ok(());
        }
        let (core, (sender, outcome)) = (Arc::clone(&self.core), std::sync::mpsc::channel());
        // On the thread of collective operations: behind one that never ends this one does not begin, and does not disturb it.
        self.submit_together(Box::new(move || {
            let _ = sender.send(core.talk("close", core.comm.barrier()));
        }))?;
        if !self.collective.drain_within(deadline.saturating_duration_since(Instant::now())) {
            let detail = "other ranks have not come to the end of the program in time";
            return Err(self.core.error(Kind::Communication, "close", detail));
        }
        outcome.try_recv().unwrap_or(Ok(()))
    }

    /// Makes what this rank has written durable.
    pub(crate) fn durable(&self, operation: &'static str) -> Result<()> {
        self.core.buffer.get().map_or(Ok(()), |buffer| buffer.flush_to_sync(&*self.core.handle))?;
        let visible = self.buffering().map(|told| told.visible);
        self.core.buffer.get().map_or(Ok(()), Buffer::sync_reservoir)?;
        let entered = &self.core.entered;
        let scope = if entered.load(Ordering::Relaxed) { SyncScope::Data } else { SyncScope::Entry };
        self.core.device(operation, self.core.handle.sync(scope))?;
        entered.store(true, Ordering::Relaxed);
        let persistent = visible.filter(|_| self.core.persistent);
        if let (Some(buffer), Some(visible)) = (self.core.buffer.get(), persistent) {
            buffer.synced(visible);
        }
        Ok(())
    }
}
