//! Whether leaders write for their groups, from which step on: told by the program, looked up by whoever writes.

use std::sync::{Mutex, PoisonError};

/// All changes, so that steps on their way are written as it was when they were handed over: on all ranks alike, however far each has come.
#[derive(Debug, Default)]
pub(crate) struct AggregationSchedule(Mutex<Vec<(u64, bool)>>);

impl AggregationSchedule {
    /// From this step on; no earlier than what was said before.
    pub(crate) fn set_from_step(&self, step: u64, gather: bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((step, gather));
    }

    /// Whether leaders write this step. Not, if nothing was said.
    pub(crate) fn is_aggregated(&self, step: u64) -> bool {
        let turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.iter().rev().find(|(from, _)| *from <= step).is_some_and(|(_, gather)| *gather)
    }
}

#[cfg(test)]
mod tests {
    use super::AggregationSchedule;

    #[test]
    fn steps_keep_what_was_said_when_they_were_handed_over() {
        let helm = AggregationSchedule::default();
        assert!(!helm.is_aggregated(0));
        helm.set_from_step(3, true);
        helm.set_from_step(5, false);
        helm.set_from_step(5, true);
        helm.set_from_step(9, false);
        let said: Vec<bool> = (0..11).map(|step| helm.is_aggregated(step)).collect();
        assert_eq!(said, [false, false, false, true, true, true, true, true, true, false, false]);
    }
}
