//! Scheduling of background threads: while one waits it runs under `SCHED_BATCH`, so that waking it does not preempt the caller.
//!
//! `unsafe` here: system calls that rustix lacks.
#![allow(unsafe_code)]

use std::cell::Cell;

thread_local! {
    static IS_BACKGROUND_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one that the library started in a host program: on communicators made by
/// [`Comm::from_mpi`](crate::Comm::from_mpi) it calls MPI only at thread level `MPI_THREAD_MULTIPLE`. It can always take part in
/// collective calls through shared memory; there its waits sleep at once, since the cores belong to the program.
pub fn forbid_mpi_on_thread() {
    IS_BACKGROUND_THREAD.set(true);
}

/// True if the library started this thread in a host program.
pub(crate) fn is_background_thread() -> bool {
    IS_BACKGROUND_THREAD.get()
}

/// The scheduling policy of one thread while it waits. A policy that was set explicitly is not changed.
#[derive(Clone, Copy, Debug)]
pub struct BatchScheduling {
    is_default_policy: bool,
}

impl BatchScheduling {
    /// For the calling thread.
    #[expect(clippy::new_without_default, reason = "it depends on the calling thread")]
    pub fn new() -> Self {
        // SAFETY: the call only reads the policy.
        Self { is_default_policy: unsafe { libc::sched_getscheduler(0) } == libc::SCHED_OTHER }
    }

    /// Calls `wait` under `SCHED_BATCH`. The thread that ends the wait keeps its core until its time slice is over, unless another core is free;
    /// under `SCHED_OTHER` the woken thread would preempt it. After the wait the policy is `SCHED_OTHER` again.
    pub fn wait<R>(self, wait: impl FnOnce() -> R) -> R {
        self.set_policy(libc::SCHED_BATCH);
        let outcome = wait();
        self.set_policy(libc::SCHED_OTHER);
        outcome
    }

    fn set_policy(self, policy: libc::c_int) {
        if self.is_default_policy {
            // SAFETY: both policies require an all-zero `sched_param`, and it outlives the call. A refusal by the system costs time only.
            unsafe { libc::sched_setscheduler(0, policy, &std::mem::zeroed()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: the call only reads the policy.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn the_policy_is_batch_during_the_wait_only() {
        let is_default = policy() == libc::SCHED_OTHER;
        let scheduling = BatchScheduling::new();
        let waiting = scheduling.wait(policy);
        assert_eq!((waiting == libc::SCHED_BATCH, policy() == libc::SCHED_OTHER), (is_default, is_default));
    }

    #[test]
    fn a_policy_that_was_set_explicitly_stays() {
        let other = std::thread::spawn(|| {
            // SAFETY: as above.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &std::mem::zeroed()) };
            (BatchScheduling::new().wait(policy), policy())
        });
        assert_eq!(other.join().unwrap(), (libc::SCHED_IDLE, libc::SCHED_IDLE));
    }
}
