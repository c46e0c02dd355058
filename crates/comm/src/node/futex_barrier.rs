//! A meeting point of the ranks of a node: everyone arrives, the last one rings, nobody spins for long.
//!
//! It lives in memory that the ranks share, threads and processes alike, and sleeps on a futex. All decisions are made in
//! one atomic word, so that a meeting either takes place for everyone or, when a rank has failed, for no one.

use rustix::thread::futex;

use crate::sync::{AtomicU32, Ordering, futex_wait, futex_wake, yield_now};
use crate::wait_context::MakeProgress;

const COUNT: u32 = 0xffff;
const GENERATION: u32 = 0x7fff_0000;
const GENERATION_STEP: u32 = 0x1_0000;
const FAILED: u32 = 0x8000_0000;

/// The most ranks that can meet.
pub(crate) const MAX_RANKS: usize = COUNT as usize;

/// Who can fail to come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailurePolicy {
    /// The first meeting of a call: a rank that failed before it keeps everyone from meeting.
    Abort,
    /// A later meeting of the same call: all are inside it and nothing of theirs can fail, so a failure elsewhere does not end it.
    /// Memory that others still copy from stays borrowed until all have met.
    Complete,
}

/// How long a waiter looks before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpinPolicy {
    /// It sleeps at once.
    None,
    /// It looks for about as long as waking a sleeper takes: only where every rank has a core of its own.
    Spin,
    /// It gives its core away a few times, to whom it waits for, before it sleeps: the same where ranks outnumber cores.
    Yield,
}

/// Ranks on a core among which giving it away soon reaches all.
const FEW: usize = 4;

impl SpinPolicy {
    /// Of one of so many ranks on so many cores, which copies much or little when it has met; in the background of a program or not.
    ///
    /// Where every rank has a core, a look is cheaper than a sleep. Where a few ranks share one, whom one waits for may need the core. A thread
    /// behind a program that computes has none: who gives it away there gets it back a whole slice of time later, who sleeps as soon as it is
    /// woken.
    pub(crate) fn choose(ranks: usize, cores: usize, bulk: bool, background: bool) -> Self {
        match ranks.div_ceil(cores) {
            _ if background => Self::None,
            1 if bulk => Self::Spin,
            1..=FEW if !bulk => Self::Yield,
            _ if bulk => Self::Yield,
            _ => Self::None,
        }
    }
}

/// About twenty microseconds.
const SPINS: u32 = 500;
/// About as long, if nobody else wants the core.
const YIELDS: u32 = 50;

/// How a rank comes to a meeting.
#[derive(Clone, Copy)]
pub(crate) struct WaitPolicy {
    pub(crate) failure_policy: FailurePolicy,
    pub(crate) spin_policy: SpinPolicy,
    /// Whether the ranks are threads of one process.
    pub(crate) flags: futex::Flags,
}

/// A rank failed or left, so this meeting never takes place.
#[derive(Debug)]
pub(crate) struct BarrierAborted {
    /// The world rank that was the first to do so.
    pub(crate) failed_rank: usize,
}

#[derive(Default)]
#[repr(C)]
pub(crate) struct FutexBarrier {
    /// `FAILED` bit, generation, number of ranks that have arrived.
    state: AtomicU32,
    /// Changes with every completed meeting and every failure: what waiters sleep on.
    wake_word: AtomicU32,
    /// One more than the world rank that failed first; 0 = none.
    failed: AtomicU32,
    /// Who sleeps, or is about to: without any, nobody has to be woken.
    sleepers: AtomicU32,
}

impl FutexBarrier {
    /// Arrives and waits until all `of` ranks have.
    pub(crate) fn arrive(
        &self,
        of: usize,
        manner: WaitPolicy,
        nap: &dyn MakeProgress,
    ) -> Result<(), BarrierAborted> {
        let mut state = self.state.load(Ordering::Acquire);
        let (before, last) = loop {
            if manner.is_aborted_by(state) {
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
            self.wake(manner.flags);
            return Ok(());
        }
        if self.spin(before, manner.spin_policy) {
            return Ok(());
        }
        self.sleep(before, manner, nap)
    }

    /// Looks for a while whether the meeting takes place.
    fn spin(&self, before: u32, patience: SpinPolicy) -> bool {
        let (looks, between): (u32, fn()) = match patience {
            SpinPolicy::None => return false,
            SpinPolicy::Spin => (SPINS, std::hint::spin_loop),
            SpinPolicy::Yield => (YIELDS, yield_now),
        };
        (0..looks).any(|_| {
            between();
            self.state.load(Ordering::Acquire) & GENERATION != before
        })
    }

    fn sleep(&self, before: u32, manner: WaitPolicy, nap: &dyn MakeProgress) -> Result<(), BarrierAborted> {
        loop {
            // The bell is read before the state: a ring in between makes the futex return at once.
            let bell = self.wake_word.load(Ordering::Acquire);
            let state = self.state.load(Ordering::Acquire);
            if state & GENERATION != before {
                return Ok(());
            }
            if manner.is_aborted_by(state) {
                return Err(self.aborted());
            }
            let longest = nap.make_progress();
            // Whoever rings changes the bell first and then looks for sleepers; here it is the other way round: either the ringer sees
            // this sleeper, or the futex sees the bell changed.
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            futex_wait(&self.wake_word, manner.flags, bell, longest);
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn aborted(&self) -> BarrierAborted {
        BarrierAborted { failed_rank: (self.failed.load(Ordering::Acquire) as usize).saturating_sub(1) }
    }

    /// World rank `rank` has failed or left: meetings that are not complete never will be.
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
    /// Whether a failure seen in `state` ends the meeting.
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

    struct Asleep;
    impl MakeProgress for Asleep {
        fn make_progress(&self) -> Option<Duration> {
            None
        }
    }

    const OPEN: WaitPolicy = WaitPolicy {
        failure_policy: FailurePolicy::Abort,
        spin_policy: SpinPolicy::None,
        flags: futex::Flags::PRIVATE,
    };
    const CERTAIN: WaitPolicy = WaitPolicy { failure_policy: FailurePolicy::Complete, ..OPEN };

    #[test]
    fn who_has_a_core_looks_and_who_has_none_sleeps() {
        let alone = |ranks, bulk| SpinPolicy::choose(ranks, 2, bulk, false);
        assert_eq!([alone(2, true), alone(2, false)], [SpinPolicy::Spin, SpinPolicy::Yield]);
        assert_eq!([alone(8, true), alone(8, false)], [SpinPolicy::Yield; 2]);
        assert_eq!([alone(10, true), alone(10, false)], [SpinPolicy::Yield, SpinPolicy::None]);
        for (ranks, bulk) in [(1, true), (2, true), (2, false), (8, false), (10, true)] {
            assert_eq!(
                SpinPolicy::choose(ranks, 2, bulk, true),
                SpinPolicy::None,
                "behind a program that computes"
            );
        }
    }

    #[test]
    fn nobody_leaves_before_all_have_come() {
        const RANKS: usize = 7;
        const ROUNDS: usize = 2000;
        let place = FutexBarrier::default();
        let arrived = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..RANKS {
                scope.spawn(|| {
                    for round in 1..=ROUNDS {
                        arrived.fetch_add(1, Ordering::SeqCst);
                        place.arrive(RANKS, OPEN, &Asleep).unwrap();
                        assert!(arrived.load(Ordering::SeqCst) >= round * RANKS);
                    }
                });
            }
        });
        assert_eq!(arrived.into_inner(), RANKS * ROUNDS);
    }

    #[test]
    fn the_generation_wraps() {
        let place = FutexBarrier::default();
        for _ in 0..100_000 {
            place.arrive(1, OPEN, &Asleep).unwrap();
        }
    }

    #[test]
    fn a_failure_wakes_waiters_and_stays() {
        let place = FutexBarrier::default();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| place.arrive(2, OPEN, &Asleep).is_err());
            std::thread::sleep(Duration::from_millis(20));
            place.abort(3, futex::Flags::PRIVATE);
            assert!(waiter.join().unwrap());
        });
        let never_met = place.arrive(2, OPEN, &Asleep).unwrap_err();
        assert_eq!(never_met.failed_rank, 3);
    }

    #[test]
    fn certain_meetings_outlive_a_failure() {
        let place = FutexBarrier::default();
        place.abort(3, futex::Flags::PRIVATE);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| place.arrive(2, CERTAIN, &Asleep).is_ok());
            assert!(place.arrive(2, CERTAIN, &Asleep).is_ok());
            assert!(other.join().unwrap());
        });
    }
}
