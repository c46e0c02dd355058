//! Interruption of long searches: work is counted, and after some of it the condition is checked under which the search ends.

use std::fmt::Debug;
use std::rc::Rc;

/// Operations on machine words between two checks: about a millisecond.
const WORK_BETWEEN_CHECKS: u64 = 1 << 20;

/// When a search is to end before it is complete.
pub trait InterruptCondition: Debug {
    /// Whether it is to end now. Called about once per millisecond of work.
    fn is_met(&self) -> bool;
}

/// Counts work and checks the condition.
#[derive(Clone, Debug, Default)]
pub struct WorkMeter {
    condition: Option<Rc<dyn InterruptCondition>>,
    work: u64,
    is_stopped: bool,
}

impl WorkMeter {
    /// With a condition; without, the work is never interrupted.
    pub fn new(condition: Option<Rc<dyn InterruptCondition>>) -> Self {
        Self { condition, ..Self::default() }
    }

    /// Counts operations on machine words. Returns whether to go on.
    #[inline]
    pub fn add(&mut self, operations: u64) -> bool {
        self.work = self.work.saturating_add(operations);
        if self.work >= WORK_BETWEEN_CHECKS {
            self.work = 0;
            self.is_stopped |= self.condition.as_ref().is_some_and(|condition| condition.is_met());
        }
        !self.is_stopped
    }

    /// Whether the condition was met.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }
}
