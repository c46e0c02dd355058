//! The futex barrier: it completes on all ranks or on none, and a failure ends every wait.

use std::time::Duration;

use loom::thread;
use rustix::thread::futex::Flags;

use crate::barrier_file::{BarrierAborted, FailurePolicy, FutexBarrier, SpinPolicy, WaitPolicy};
use crate::check;
use crate::sync::{Arc, AtomicU32, Ordering};
use crate::wait_context::MakeProgress;

const ABORT: WaitPolicy =
    WaitPolicy { failure_policy: FailurePolicy::Abort, spin_policy: SpinPolicy::NONE, flags: Flags::PRIVATE };
const COMPLETE: WaitPolicy = WaitPolicy { failure_policy: FailurePolicy::Complete, ..ABORT };

struct NoProgress;

impl MakeProgress for NoProgress {
    fn make_progress(&self) -> Option<Duration> {
        None
    }
}

/// Writes of every rank before a barrier are read by every rank after it; `rounds` barriers of `ranks` ranks.
pub fn writes_before_a_barrier_are_read_after_it(ranks: usize, rounds: u32, preemptions: usize) {
    check(preemptions, move || {
        let barrier = Arc::new(FutexBarrier::default());
        let written: Arc<Vec<AtomicU32>> = Arc::new((0..ranks).map(|_| AtomicU32::new(0)).collect());
        let rank = |me: usize| {
            let (barrier, written) = (Arc::clone(&barrier), Arc::clone(&written));
            move || {
                for round in 1..=rounds {
                    written[me].store(round, Ordering::Relaxed);
                    barrier.arrive(ranks, ABORT, &NoProgress).expect("no rank fails");
                    assert!(written.iter().all(|written| written.load(Ordering::Relaxed) >= round));
                }
            }
        };
        let others: Vec<_> = (1..ranks).map(|me| thread::spawn(rank(me))).collect();
        rank(0)();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// Two of three ranks arrive, the third one fails instead: both waits end, and name it.
pub fn a_rank_that_fails_ends_the_waits_of_all_others() {
    check(3, || {
        let barrier = Arc::new(FutexBarrier::default());
        let arrive = |barrier: &FutexBarrier| {
            barrier.arrive(3, ABORT, &NoProgress).expect_err("one is missing").failed_rank
        };
        let (waiting, failing) = (Arc::clone(&barrier), Arc::clone(&barrier));
        let other = thread::spawn(move || arrive(&waiting));
        let failed = thread::spawn(move || failing.abort(7, Flags::PRIVATE));
        assert_eq!(arrive(&barrier), 7);
        assert_eq!(other.join().unwrap(), 7);
        failed.join().unwrap();
    });
}

/// Two ranks arrive while a third one fails concurrently: the barrier completes on both or on none.
pub fn a_concurrent_failure_aborts_the_barrier_on_all_ranks_or_none() {
    let outcomes = barrier_during_a_failure(ABORT);
    assert_eq!(outcomes, [true, true], "both outcomes are possible, and were reached");
}

/// As above with the policy `Complete`: the barrier completes.
pub fn a_concurrent_failure_does_not_abort_a_certain_barrier() {
    let outcomes = barrier_during_a_failure(COMPLETE);
    assert_eq!(outcomes, [true, false], "every barrier completes");
}

/// Whether some barriers completed, and whether some were aborted.
fn barrier_during_a_failure(manner: WaitPolicy) -> [bool; 2] {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let reached = std::sync::Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let noted = std::sync::Arc::clone(&reached);
    check(3, move || {
        let barrier = Arc::new(FutexBarrier::default());
        let (arriving, failing) = (Arc::clone(&barrier), Arc::clone(&barrier));
        let arrive = move |barrier: &FutexBarrier| match barrier.arrive(2, manner, &NoProgress) {
            Ok(()) => true,
            Err(BarrierAborted { failed_rank }) => {
                assert_eq!(failed_rank, 7);
                false
            }
        };
        let other = thread::spawn(move || arrive(&arriving));
        let failed = thread::spawn(move || failing.abort(7, Flags::PRIVATE));
        let met = arrive(&barrier);
        assert_eq!(other.join().unwrap(), met, "the barrier completed on one rank only");
        failed.join().unwrap();
        noted[usize::from(!met)].store(true, Relaxed);
    });
    reached.each_ref().map(|reached| reached.load(Relaxed))
}
