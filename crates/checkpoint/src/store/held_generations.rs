//! Generations that this process has open, in any of its stores. They are not removed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// The numbers of the open generations of a folder, once per reader.
#[derive(Clone, Debug)]
pub(super) struct HeldGenerations(Arc<Mutex<Vec<u64>>>);

/// The open generations of each folder of which this process has stores.
type HeldByFolder = HashMap<PathBuf, Weak<Mutex<Vec<u64>>>>;

static FOLDERS: LazyLock<Mutex<HeldByFolder>> = LazyLock::new(Mutex::default);

/// Keeps a generation open until it is dropped.
#[derive(Debug)]
pub(super) struct GenerationHold {
    held: HeldGenerations,
    number: u64,
}

impl HeldGenerations {
    /// The open generations of a folder, shared by all stores of this process that have it open.
    pub(super) fn of(folder: &Path) -> Self {
        let path = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        folders.retain(|_, held| held.strong_count() > 0);
        if let Some(held) = folders.get(&path).and_then(Weak::upgrade) {
            return Self(held);
        }
        let held = Arc::default();
        folders.insert(path, Arc::downgrade(&held));
        Self(held)
    }

    pub(super) fn hold(&self, number: u64) -> GenerationHold {
        self.locked(|held| held.push(number));
        GenerationHold { held: self.clone(), number }
    }

    /// Runs `work` while no generation is opened or closed.
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
