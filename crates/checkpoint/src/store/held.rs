//! Generations that this program reads: they are not removed meanwhile.

use std::sync::{Arc, Mutex, PoisonError};

/// The numbers of the generations that are open, each as often as it is.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldGenerations(Arc<Mutex<Vec<u64>>>);

/// A generation that is open, until this is dropped.
#[derive(Debug)]
pub(super) struct GenerationHold {
    held: HeldGenerations,
    number: u64,
}

impl HeldGenerations {
    pub(super) fn hold(&self, number: u64) -> GenerationHold {
        self.locked(|held| held.push(number));
        GenerationHold { held: self.clone(), number }
    }

    /// Does something while no generation is opened or closed.
    pub(super) fn locked<T>(&self, work: impl FnOnce(&mut Vec<u64>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for GenerationHold {
    fn drop(&mut self) {
        self.held.locked(|held| {
            if let Some(at) = held.iter().position(|number| *number == self.number) {
                held.swap_remove(at);
            }
        });
    }
}
