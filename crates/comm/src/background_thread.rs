//! How threads wait that were started behind the back of a program: whoever wakes one keeps its core.
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

/// Whether the library started this thread in a host program.
pub(crate) fn is_background_thread() -> bool {
    IS_BACKGROUND_THREAD.get()
}

/// The manners of one thread. A policy that somebody has chosen for it is left as it is.
#[derive(Clone, Copy, Debug)]
pub struct BatchScheduling {
    is_default_policy: bool,
}

impl BatchScheduling {
    /// Of the calling thread.
    #[expect(clippy::new_without_default, reason = "it looks at the thread that calls")]
    pub fn new() -> Self {
        // SAFETY: it only looks.
        Self { is_default_policy: unsafe { libc::sched_getscheduler(0) } == libc::SCHED_OTHER }
    }

    /// Waits by `wait`. Whoever ends that goes on until its slice of time is over, unless another core is free: a thread that is told of work would otherwise
    /// take the core from the caller that has just told it. Once it works, it is woken as any other.
    pub fn wait<R>(self, wait: impl FnOnce() -> R) -> R {
        self.set_policy(libc::SCHED_BATCH);
        let outcome = wait();
        self.set_policy(libc::SCHED_OTHER);
        outcome
    }

    fn set_policy(self, policy: libc::c_int) {
        if self.is_default_policy {
            // SAFETY: an all-zero `sched_param` is the one that both policies want, and it outlives the call. Where the system refuses, nothing is
            // lost but the courtesy.
            unsafe { libc::sched_setscheduler(0, policy, &std::mem::zeroed()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: it only looks.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn a_thread_is_modest_while_it_waits_and_no_longer() {
        let ordinary = policy() == libc::SCHED_OTHER;
        let courtesy = BatchScheduling::new();
        let waiting = courtesy.wait(policy);
        assert_eq!((waiting == libc::SCHED_BATCH, policy() == libc::SCHED_OTHER), (ordinary, ordinary));
    }

    #[test]
    fn a_policy_that_was_chosen_stays() {
        let other = std::thread::spawn(|| {
            // SAFETY: as above.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &std::mem::zeroed()) };
            (BatchScheduling::new().wait(policy), policy())
        });
        assert_eq!(other.join().unwrap(), (libc::SCHED_IDLE, libc::SCHED_IDLE));
    }
}
