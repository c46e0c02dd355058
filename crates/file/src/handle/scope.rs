//! Scoped non-blocking operations on borrowed buffers (like `std::thread::scope`): the scope does not end before its operations.
//!
//! `unsafe` here: a job that borrows is passed to a thread that needs `'static`. It is sound because the scope waits for the
//! last of its jobs before it returns, also when the caller panics; nothing that is borrowed for the scope can end before that.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::access::Access;
use super::collective_access::CollectiveAccess;
use super::file::File;
use super::request::{Request, RequestJob};
use crate::error::Result;
use crate::memory::{Incoming, Outgoing};
use crate::write_behind::waiting::{wait_while, within};

/// Operations on borrowed memory; see [`File::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    pending: Arc<PendingJobs>,
    /// Invariant, so that nothing shorter-lived than the scope can be lent to it.
    invariant: PhantomData<&'scope mut &'scope ()>,
    /// What lives around the scope: it may be lent to it.
    around: PhantomData<&'env mut &'env ()>,
}

#[derive(Default)]
struct PendingJobs {
    count: Mutex<usize>,
    ended: Condvar,
}

impl PendingJobs {
    fn begin(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn end(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.ended.notify_all();
    }

    fn wait(&self) {
        let lock = || self.count.lock().unwrap_or_else(PoisonError::into_inner);
        drop(wait_while(lock, &self.ended, within(None), |count| *count > 0));
    }
}

/// Waits when it is dropped, also by a panic.
struct WaitAtEnd<'a>(&'a PendingJobs);

impl Drop for WaitAtEnd<'_> {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// Counts a job as ended when it is dropped, whether it ran, panicked or was thrown away.
struct JobGuard(Arc<PendingJobs>);

impl Drop for JobGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl File {
    /// Runs `body`, in which operations can be started on borrowed memory; returns when all of them are done.
    ///
    /// ```
    /// use aqueduct_comm::Launch;
    /// use aqueduct_file::File;
    ///
    /// Launch::threads(2).run(|world| {
    ///     let file = File::create(world, "memfs:scope")?;
    ///     let grid = vec![world.rank() as f64; 1000];
    ///     file.scope(|scope| {
    ///         let (left, right) = grid.split_at(500);
    ///         let place = 8000 * world.rank() as u64;
    ///         let first = scope.write(file.at(place), left)?;
    ///         let second = scope.write(file.at(place + 4000), right)?;
    ///         // … compute, reading the grid …
    ///         assert_eq!(first.wait()?.1.bytes() + second.wait()?.1.bytes(), 8000);
    ///         Ok::<_, aqueduct_file::Error>(())
    ///     })?;
    ///     file.close()
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    #[allow(
        clippy::unused_self,
        reason = "operations of a scope belong to files, and that is where it is looked for"
    )]
    pub fn scope<'env, R>(&self, body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R) -> R {
        let pending = Arc::new(PendingJobs::default());
        let scope = Scope { pending: Arc::clone(&pending), invariant: PhantomData, around: PhantomData };
        let _wait = WaitAtEnd(&pending);
        body(&scope)
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Starts writing borrowed memory.
    pub fn write<B: Outgoing + 'scope>(&'scope self, access: Access<'_>, buffer: B) -> Result<Request<B>> {
        let (request, job) = access.write_job(buffer)?;
        access.file().submit_independent(self.lend(job)).map(|()| request)
    }

    /// Starts filling borrowed memory, which the request gives back.
    pub fn read<B: Incoming + 'scope>(&'scope self, access: Access<'_>, buffer: B) -> Result<Request<B>> {
        let (request, job) = access.read_job(buffer)?;
        access.file().submit_independent(self.lend(job)).map(|()| request)
    }

    /// Starts a collective write of borrowed memory.
    pub fn write_all<B: Outgoing + 'scope>(
        &'scope self,
        access: CollectiveAccess<'_>,
        buffer: B,
    ) -> Result<Request<B>> {
        let (request, job) = access.write_job(buffer);
        access.file().submit_collective(self.lend(job)).map(|()| request)
    }

    /// Starts a collective read into borrowed memory.
    pub fn read_all<B: Incoming + 'scope>(
        &'scope self,
        access: CollectiveAccess<'_>,
        buffer: B,
    ) -> Result<Request<B>> {
        let (request, job) = access.read_job(buffer);
        access.file().submit_collective(self.lend(job)).map(|()| request)
    }

    /// A job that the I/O thread may keep: the scope waits for it.
    fn lend(&self, job: impl FnOnce() + Send + 'scope) -> RequestJob {
        self.pending.begin();
        let end = JobGuard(Arc::clone(&self.pending));
        let job: Box<dyn FnOnce() + Send + 'scope> = Box::new(move || {
            job();
            drop(end);
        });
        // SAFETY: the two types differ in a lifetime only. What the job borrows lives until the scope ends, and the scope waits, on
        // every path, until `end` has been dropped: after the job ran or was thrown away.
        unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + 'scope>, RequestJob>(job) }
    }
}
