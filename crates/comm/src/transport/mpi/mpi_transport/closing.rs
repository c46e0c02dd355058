//! The end of a transport: when MPI ends, when the process exits, when the last handle is dropped.

use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::{MpiOwner, MpiTransport, SHORTEST_SLEEP};
use crate::Result;
use crate::transport::Transport;
use crate::transport::mpi::abi::Abi;

/// How long what is still under way is looked at before a communicator is given back or left behind.
const FOR_THE_LAST: Duration = Duration::from_secs(1);

/// How long a process that exits waits for a thread that is inside MPI: it may be the one that exits.
const FOR_CALLERS: Duration = Duration::from_millis(100);

impl<A: Abi> MpiTransport<A> {
    /// Waits until everything sent has left, and everything sent here has come, then gives the communicator back.
    pub(crate) fn close(&self) -> Result<()> {
        // A message that nobody receives must be taken in all the same: its sender waits for that.
        while self.mailbox.departed_count() < self.size || !self.in_flight().is_idle() {
            self.advance()?;
            thread::sleep(self.idle_sleep());
        }
        self.release();
        self.stop_calling();
        self.mpi.free(self.comm);
        Ok(())
    }

    /// No thread calls MPI any more when this returns.
    pub(super) fn stop_calling(&self) {
        let _calls = self.in_flight();
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Lets what is still under way arrive, for a limited time; whether nothing is left.
    pub(super) fn settle(&self) -> bool {
        let deadline = Instant::now() + FOR_THE_LAST;
        self.idle_polls.store(0, Ordering::Relaxed);
        while !self.in_flight().is_idle() && Instant::now() < deadline && self.advance().is_ok() {
            thread::sleep(self.idle_sleep());
        }
        self.in_flight().is_idle()
    }

    /// The same as [`stop_calling`](Self::stop_calling) for a process that exits. MPI may be what exits, called by this very thread.
    pub(super) fn stop_calling_at_exit(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let deadline = Instant::now() + FOR_CALLERS;
        while matches!(self.in_flight.try_lock(), Err(TryLockError::WouldBlock)) && Instant::now() < deadline
        {
            thread::sleep(SHORTEST_SLEEP);
        }
    }
}

impl<A: Abi> Drop for MpiTransport<A> {
    fn drop(&mut self) {
        // Of a host's MPI we give back what we took, unless it has ended.
        let ours = self.owner == MpiOwner::Host && self.may_call();
        if !ours || !matches!(self.mpi.running(), Ok(Some(_))) {
            return;
        }
        self.release();
        // Not what something of ours is still on its way on.
        if self.settle() {
            self.mpi.free(self.comm);
        }
    }
}
