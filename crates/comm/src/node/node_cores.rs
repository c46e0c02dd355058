//! The cores that the ranks of a node may use together.
//!
//! A launcher may bind each rank to cores of its own (`mpirun` of Open MPI does so by default). Such a rank
//! may use one core, and still does not compete with the others: what counts is the union of the cores of
//! all ranks. Each rank adds its own to a set in the shared memory of the node.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::thread::{CpuSet, sched_getaffinity};

/// A set of cores in shared memory; all-zero is empty. Numbers above 511 count as lower ones, so that the
/// cores of a larger machine may be underestimated.
#[derive(Default)]
#[repr(C)]
pub(crate) struct NodeCores {
    words: [AtomicU64; 8],
}

/// The most cores of any node's ranks that this process knows of.
static MOST: AtomicUsize = AtomicUsize::new(0);

impl NodeCores {
    /// Adds the cores that this process may use.
    pub(crate) fn add_own(&self) {
        if let Ok(own) = sched_getaffinity(None) {
            self.add((0..CpuSet::MAX_CPU).filter(|core| own.is_set(*core)));
        }
    }

    fn add(&self, cores: impl Iterator<Item = usize>) {
        for core in cores {
            self.words[core / 64 % 8].fetch_or(1 << (core % 64), Ordering::Relaxed);
        }
    }

    fn count(&self) -> usize {
        self.words.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }

    /// The cores of `ranks` ranks: those of this process if they are enough, otherwise those of all ranks
    /// that have joined.
    pub(crate) fn of_ranks(&self, ranks: usize) -> usize {
        let own = own_cores();
        if ranks <= own {
            return own;
        }
        let all = own.max(self.count());
        if all > MOST.load(Ordering::Relaxed) {
            MOST.fetch_max(all, Ordering::Relaxed);
        }
        all
    }
}

/// The cores that this process may use.
fn own_cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// The cores of this process's node, as far as it knows them: its own, and those of ranks that share memory with it.
pub(crate) fn known_cores() -> usize {
    own_cores().max(MOST.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cores_of_bound_ranks_are_counted_together() {
        let cores = NodeCores::default();
        assert_eq!(cores.count(), 0);
        for core in [0, 5, 63, 64, 511, 5] {
            cores.add([core].into_iter());
        }
        assert_eq!(cores.count(), 5);
        cores.add([512].into_iter());
        assert_eq!(cores.count(), 5, "counts as core 0");
    }

    #[test]
    fn own_cores_are_enough_or_those_of_all_ranks_count() {
        let cores = NodeCores::default();
        let own = own_cores();
        assert_eq!(cores.of_ranks(1), own);
        cores.add(0..own + 3);
        assert_eq!(cores.of_ranks(own), own);
        assert_eq!((cores.of_ranks(own + 1), known_cores()), (own + 3, own + 3));
    }
}
