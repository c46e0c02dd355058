//! Whether leaders write for their groups, from which step on: told by the program, looked up by whoever writes.

use std::sync::{Mutex, PoisonError};

/// All changes, so that steps on their way are written as it was when they were handed over: on all ranks alike, however far each has come.
#[derive(Debug, Default)]
pub(crate) struct Helm(Mutex<Vec<(u64, bool)>>);

impl Helm {
    /// From this step on; no earlier than what was said before.
    pub(crate) fn turn(&self, step: u64, gather: bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((step, gather));
    }

    /// Whether leaders write this step. Not, if nothing was said.
    pub(crate) fn gathers(&self, step: u64) -> bool {
        let turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.iter().rev().find(|(from, _)| *from <= step).is_some_and(|(_, gather)| *gather)
    }
}

#[cfg(test)]
mod tests {
    use super::Helm;

    #[test]
    fn steps_keep_what_was_said_when_they_were_handed_over() {
        let helm = Helm::default();
        assert!(!helm.gathers(0));
        helm.turn(3, true);
        helm.turn(5, false);
        helm.turn(5, true);
        helm.turn(9, false);
        let said: Vec<bool> = (0..11).map(|step| helm.gathers(step)).collect();
        assert_eq!(said, [false, false, false, true, true, true, true, true, true, false, false]);
    }
}
