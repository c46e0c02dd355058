//! A barrier of the ranks of a node, on a futex in shared memory, for threads and for processes.
//!
//! All decisions are made in one atomic word, so that a barrier completes for all ranks or, if a rank has failed, for none.

use rustix::thread::futex;

use crate::sync::{AtomicU32, Ordering, futex_wait, futex_wake, yield_core};
use crate::wait_context::MakeProgress;

const COUNT: u32 = 0xffff;
const GENERATION: u32 = 0x7fff_0000;
const GENERATION_STEP: u32 = 0x1_0000;
const FAILED: u32 = 0x8000_0000;

/// The most ranks of a barrier.
pub(crate) const MAX_RANKS: usize = COUNT as usize;

/// The effect of a failed rank on a barrier.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailurePolicy {
    /// The first barrier of a call: it is aborted if a rank failed before it.
    Abort,
    /// A later barrier of the same call: all ranks are in the call and reach it, so a failure elsewhere does not abort it. Memory that
    /// other ranks copy from stays borrowed until it completes.
    Complete,
}

/// How long a waiting rank polls before it sleeps: first without a pause, then with a yield of its core between two polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpinPolicy {
    spins: u32,
    yields: u32,
}

/// The most ranks per core for which yielding is faster than sleeping.
const FEW: usize = 4;

/// Polls without a pause for about twenty microseconds.
const SPINS: u32 = 500;
/// Yields for about twenty microseconds, if no other thread runs on the core.
const SHORT_YIELDS: u32 = 50;
/// Yields for about a millisecond, if no other thread runs on the core.
const LONG_YIELDS: u32 = 2500;

impl SpinPolicy {
    /// The rank sleeps immediately.
    pub(crate) const NONE: Self = Self { spins: 0, yields: 0 };

    /// The policy for `ranks` ranks on `cores` cores, before a small or a bulk exchange, on a background thread or not.
    ///
    /// If every rank has a core, it polls for longer than ranks of a balanced program wait for one another. Sleeping saves nothing
    /// there, and waking is slow: a kernel in a virtual machine takes the halted core for a preempted one and starts the woken rank on
    /// the core of the rank that wakes it, where it waits for up to a tick (4 ms).
    ///
    /// If a few ranks share a core, the awaited rank may need it, so a rank yields for a short time. A background thread sleeps: after
    /// yielding to a computing program it would run again only a time slice later, after a wake-up at once.
    pub(crate) fn choose(ranks: usize, cores: usize, bulk: bool, background: bool) -> Self {
        let spins = if bulk { SPINS } else { 0 };
        match ranks.div_ceil(cores) {
            _ if background => Self::NONE,
            0 | 1 => Self { spins, yields: LONG_YIELDS },
            _ if bulk => Self { spins: 0, yields: SHORT_YIELDS },
            2..=FEW => Self { spins: 0, yields: SHORT_YIELDS },
            _ => Self::NONE,
        }
    }
}

/// How a rank waits at a barrier.
#[derive(Clone, Copy)]
pub(crate) struct WaitPolicy {
    pub(crate) failure_policy: FailurePolicy,
    pub(crate) spin_policy: SpinPolicy,
    /// Private if the ranks are threads of one process.
    pub(crate) flags: futex::Flags,
}

/// The error of a barrier that a failed or departed rank will not reach.
#[derive(Debug)]
pub(crate) struct BarrierAborted {
    /// The first world rank that failed or departed.
    pub(crate) failed_rank: usize,
}

#[derive(Default)]
#[repr(C)]
pub(crate) struct FutexBarrier {
    /// `FAILED` bit, generation, number of ranks that have arrived.
    state: AtomicU32,
    /// The futex: changes with every completed barrier and every failure.
    wake_word: AtomicU32,
    /// One more than the world rank that failed first; 0: none.
    failed: AtomicU32,
    /// The number of ranks that sleep or are about to; if 0, no wake call is needed.
    sleepers: AtomicU32,
}

impl FutexBarrier {
    /// Arrives and waits until all `of` ranks have arrived.
    pub(crate) fn arrive(
        &self,
        of: usize,
        policy: WaitPolicy,
        progress: &dyn MakeProgress,
    ) -> Result<(), BarrierAborted> {
        let mut state = self.state.load(Ordering::Acquire);
        let (before, last) = loop {
            if policy.is_aborted_by(state) {
                return Err(self.aborted());
            }
            let last = (state & COUNT) as usize + 1 == of;
            let next = if last { next_generation(state) } else { state + 1 };
            match self.state.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break (state & GENERATION, last),
                Err(now) => state = now,
            }
        };
        if last {
            self.wake(policy.flags);
            return Ok(());
        }
        if self.spin(before, policy.spin_policy) {
            return Ok(());
        }
        self.sleep(before, policy, progress)
    }

    /// Polls for a while; true if the barrier has completed.
    fn spin(&self, before: u32, SpinPolicy { spins, yields }: SpinPolicy) -> bool {
        let is_complete = || self.state.load(Ordering::Acquire) & GENERATION != before;
        for _ in 0..spins {
            std::hint::spin_loop();
            if is_complete() {
                return true;
            }
        }
        for _ in 0..yields {
            let is_fast = yield_core();
            if is_complete() {
                return true;
            }
            if !is_fast {
                break;
            }
        }
        false
    }

    fn sleep(
        &self,
        before: u32,
        policy: WaitPolicy,
        progress: &dyn MakeProgress,
    ) -> Result<(), BarrierAborted> {
        loop {
            // The wake word is read before the state: a wake in between makes the futex return at once.
            let wake_word = self.wake_word.load(Ordering::Acquire);
            let state = self.state.load(Ordering::Acquire);
            if state & GENERATION != before {
                return Ok(());
            }
            if policy.is_aborted_by(state) {
                return Err(self.aborted());
            }
            let longest = progress.make_progress();
            // The waking rank changes the wake word first and then reads the number of sleepers; here the order is reversed: either it sees
            // this sleeper, or the futex sees the changed word.
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            futex_wait(&self.wake_word, policy.flags, wake_word, longest);
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn aborted(&self) -> BarrierAborted {
        BarrierAborted { failed_rank: (self.failed.load(Ordering::Acquire) as usize).saturating_sub(1) }
    }

    /// Aborts current and later barriers because world rank `rank` has failed or departed.
    pub(crate) fn abort(&self, rank: usize, flags: futex::Flags) {
        let _ = self.failed.compare_exchange(0, rank as u32 + 1, Ordering::AcqRel, Ordering::Acquire);
        self.state.fetch_or(FAILED, Ordering::AcqRel);
        self.wake(flags);
    }

    fn wake(&self, flags: futex::Flags) {
        self.wake_word.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) == 0 {
            return;
        }
        futex_wake(&self.wake_word, flags);
    }
}

impl WaitPolicy {
    /// True if a failure recorded in `state` aborts the barrier.
    fn is_aborted_by(self, state: u32) -> bool {
        state & FAILED != 0 && self.failure_policy == FailurePolicy::Abort
    }
}

fn next_generation(state: u32) -> u32 {
    (state & FAILED) | (state.wrapping_add(GENERATION_STEP) & GENERATION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    struct NoProgress;
    impl MakeProgress for NoProgress {
        fn make_progress(&self) -> Option<Duration> {
            None
        }
    }

    const ABORT: WaitPolicy = WaitPolicy {
        failure_policy: FailurePolicy::Abort,
        spin_policy: SpinPolicy::NONE,
        flags: futex::Flags::PRIVATE,
    };
    const COMPLETE: WaitPolicy = WaitPolicy { failure_policy: FailurePolicy::Complete, ..ABORT };

    #[test]
    fn ranks_with_a_core_poll_longer_and_background_threads_sleep() {
        let choose = |ranks, bulk| SpinPolicy::choose(ranks, 2, bulk, false);
        let yields = |yields| SpinPolicy { spins: 0, yields };
        assert_eq!(choose(2, true), SpinPolicy { spins: SPINS, yields: LONG_YIELDS });
        assert_eq!(choose(2, false), yields(LONG_YIELDS));
        assert_eq!([choose(8, true), choose(8, false)], [yields(SHORT_YIELDS); 2]);
        assert_eq!([choose(10, true), choose(10, false)], [yields(SHORT_YIELDS), SpinPolicy::NONE]);
        for (ranks, bulk) in [(1, true), (2, true), (2, false), (8, false), (10, true)] {
            assert_eq!(SpinPolicy::choose(ranks, 2, bulk, true), SpinPolicy::NONE, "on a background thread");
        }
    }

    #[test]
    fn no_rank_passes_before_all_have_arrived() {
        const RANKS: usize = 7;
        const ROUNDS: usize = 2000;
        let barrier = FutexBarrier::default();
        let arrived = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..RANKS {
                scope.spawn(|| {
                    for round in 1..=ROUNDS {
                        arrived.fetch_add(1, Ordering::SeqCst);
                        barrier.arrive(RANKS, ABORT, &NoProgress).unwrap();
                        assert!(arrived.load(Ordering::SeqCst) >= round * RANKS);
                    }
                });
            }
        });
        assert_eq!(arrived.into_inner(), RANKS * ROUNDS);
    }

    #[test]
    fn the_generation_wraps_around() {
        let barrier = FutexBarrier::default();
        for _ in 0..100_000 {
            barrier.arrive(1, ABORT, &NoProgress).unwrap();
        }
    }

    #[test]
    fn a_failure_wakes_waiting_ranks_and_aborts_later_barriers() {
        let barrier = FutexBarrier::default();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| barrier.arrive(2, ABORT, &NoProgress).is_err());
            std::thread::sleep(Duration::from_millis(20));
            barrier.abort(3, futex::Flags::PRIVATE);
            assert!(waiter.join().unwrap());
        });
        let aborted = barrier.arrive(2, ABORT, &NoProgress).unwrap_err();
        assert_eq!(aborted.failed_rank, 3);
    }

    #[test]
    fn barriers_with_the_policy_complete_ignore_a_failure() {
        let barrier = FutexBarrier::default();
        barrier.abort(3, futex::Flags::PRIVATE);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| barrier.arrive(2, COMPLETE, &NoProgress).is_ok());
            assert!(barrier.arrive(2, COMPLETE, &NoProgress).is_ok());
            assert!(other.join().unwrap());
        });
    }
}
