//! Shutdown of the MPI transport: when MPI is finalized, when the process exits, when the last handle is dropped.

use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::{MpiOwner, MpiTransport, SHORTEST_SLEEP};
use crate::Result;
use crate::transport::Transport;
use crate::transport::mpi::abi::Abi;

/// Time to wait for messages in flight before a communicator is freed or leaked.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Time that an exiting process waits for a thread inside MPI: it may be the exiting thread itself.
const CALLER_TIMEOUT: Duration = Duration::from_millis(100);

impl<A: Abi> MpiTransport<A> {
    /// Waits until all messages have been sent and received, then frees the communicator.
    pub(crate) fn close(&self) -> Result<()> {
        // Messages without a receive are received too: their senders wait for that.
        while self.mailbox.departed_count() < self.size || !self.in_flight().is_idle() {
            self.advance()?;
            thread::sleep(self.idle_sleep());
        }
        self.release();
        self.stop_calling();
        self.mpi.free(self.comm);
        Ok(())
    }

    /// After this returns no thread calls MPI.
    pub(super) fn stop_calling(&self) {
        let _calls = self.in_flight();
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Waits a limited time for messages in flight; true if none are left.
    pub(super) fn wait_idle(&self) -> bool {
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        self.idle_polls.store(0, Ordering::Relaxed);
        while !self.in_flight().is_idle() && Instant::now() < deadline && self.advance().is_ok() {
            thread::sleep(self.idle_sleep());
        }
        self.in_flight().is_idle()
    }

    /// As [`stop_calling`](Self::stop_calling) for a process that exits, possibly from inside MPI on this thread.
    pub(super) fn stop_calling_at_exit(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let deadline = Instant::now() + CALLER_TIMEOUT;
        while matches!(self.in_flight.try_lock(), Err(TryLockError::WouldBlock)) && Instant::now() < deadline
        {
            thread::sleep(SHORTEST_SLEEP);
        }
    }
}

impl<A: Abi> Drop for MpiTransport<A> {
    fn drop(&mut self) {
        // The duplicated communicator of a host program is freed, unless MPI is finalized.
        let is_owned = self.owner == MpiOwner::Host && self.may_call();
        if !is_owned || !matches!(self.mpi.running(), Ok(Some(_))) {
            return;
        }
        self.release();
        // A communicator with messages in flight is not freed.
        if self.wait_idle() {
            self.mpi.free(self.comm);
        }
    }
}
