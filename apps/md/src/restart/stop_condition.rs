//! The end of a run before its last step, by a signal or a limit of wall time. All ranks stop after the same step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use aqueduct::comm::{Comm, Op};

/// Why a run ended before its last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// A rank received SIGTERM.
    Signal,
    /// The limit of wall time was near.
    TimeLimit,
}

/// The conditions under which a run ends early.
#[derive(Clone, Debug, Default)]
pub struct StopCondition {
    /// Set when this rank receives SIGTERM.
    pub signal: Option<Arc<AtomicBool>>,
    /// The time at which the run must have ended, by the clock of rank 0.
    pub limit: Option<SystemTime>,
}

/// The safety factor: the work after the decision to stop takes at most this many times the longest step and checkpoint so far.
const SAFETY: u32 = 2;

/// Time reserved for the end of the program.
const RESERVE: Duration = Duration::from_millis(500);

impl StopCondition {
    /// Whether to stop now; `step` and `checkpoint` are the longest durations so far. Collective.
    pub fn check(&self, world: &Comm, step: Duration, checkpoint: Duration) -> Result<Option<StopReason>> {
        if self.signal.is_none() && self.limit.is_none() {
            return Ok(None);
        }
        let asked = self.signal.as_ref().is_some_and(|signal| signal.load(Ordering::Relaxed));
        let needed = SAFETY * (step + checkpoint) + RESERVE;
        let left = |limit: SystemTime| limit.duration_since(SystemTime::now()).unwrap_or_default();
        let late = world.rank() == 0 && self.limit.is_some_and(|limit| left(limit) <= needed);
        let mine = if asked { 2_u8 } else { u8::from(late) };
        Ok(match world.allreduce_one(Op::Max, mine)? {
            0 => None,
            1 => Some(StopReason::TimeLimit),
            _ => Some(StopReason::Signal),
        })
    }
}

#[cfg(test)]
mod tests {
    use aqueduct::comm::Launch;

    use super::*;

    #[test]
    fn a_signal_on_one_rank_stops_all_ranks() {
        let reasons = Launch::threads(3).run(|world| {
            let signal = (world.rank() == 2).then(|| Arc::new(AtomicBool::new(true)));
            let condition = StopCondition { signal: signal.or(Some(Arc::default())), limit: None };
            condition.check(world, Duration::ZERO, Duration::ZERO)
        });
        assert_eq!(reasons.unwrap(), [Some(StopReason::Signal); 3]);
    }

    #[test]
    fn a_run_stops_while_there_is_time_for_a_checkpoint() {
        let reasons = |left: u64, checkpoint: u64| {
            let limit = Some(SystemTime::now() + Duration::from_secs(left));
            let condition = StopCondition { signal: None, limit };
            let check = |world: &Comm| {
                condition.check(world, Duration::from_secs(1), Duration::from_secs(checkpoint))
            };
            Launch::threads(2).run(check).unwrap()
        };
        assert_eq!(reasons(100, 10), [None; 2]);
        assert_eq!(reasons(100, 60), [Some(StopReason::TimeLimit); 2]);
        assert_eq!(reasons(0, 0), [Some(StopReason::TimeLimit); 2]);
    }
}
