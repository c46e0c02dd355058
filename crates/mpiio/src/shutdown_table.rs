//! The shutdown states of the processes of a node, in shared memory.
//!
//! A launcher kills all processes as soon as one has exited without `MPI_Finalize`. Such a process waits for those of its
//! node that still write.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use aqueduct_comm::{Comm, SharedRegion};

/// The shutdown state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum ShutdownState {
    Running = 0,
    Writing = 1,
    Done = 2,
}

/// The state of each process of a communicator on this node, one word per rank.
pub(crate) struct ShutdownTable {
    region: SharedRegion,
    rank: usize,
    others: Vec<usize>,
}

static TABLES: Mutex<Vec<Weak<ShutdownTable>>> = Mutex::new(Vec::new());

impl ShutdownTable {
    /// Collective.
    pub(crate) fn new(comm: &Comm) -> aqueduct_comm::Result<Arc<Self>> {
        let region = comm.shared_region(comm.size() * size_of::<u64>())?;
        let (rank, node) = (comm.rank(), comm.ranks_of_node(comm.node_of(comm.rank())));
        let others = node.iter().copied().filter(|other| *other != rank).collect();
        let table = Arc::new(Self { region, rank, others });
        let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|table| table.strong_count() > 0);
        tables.push(Arc::downgrade(&table));
        Ok(table)
    }

    fn word(&self, rank: usize) -> Option<&AtomicU64> {
        self.region.atomic(rank * size_of::<u64>()).ok()
    }

    pub(crate) fn publish(&self, state: ShutdownState) {
        self.word(self.rank).into_iter().for_each(|word| word.store(state as u64, Ordering::SeqCst));
    }

    /// True if any other process of the node is in this state.
    pub(crate) fn has_other_in(&self, state: ShutdownState) -> bool {
        let mut others = self.others.iter().filter_map(|other| self.word(*other));
        others.any(|word| word.load(Ordering::SeqCst) == state as u64)
    }
}

/// The tables of all communicators with open files.
pub(crate) fn all() -> Vec<Arc<ShutdownTable>> {
    TABLES.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
}
