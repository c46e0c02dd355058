//! Lines: talk of its own for something short-lived, such as an open file. Making a communicator takes meetings and new memory, so that one
//! that is done with is left beside the communicator it was made from, for the next.

use std::ops::Deref;

use crate::{Comm, Result};

/// So many are kept beside a communicator.
const MAX_IDLE: usize = 4;

/// A communicator of the same ranks as another, whose messages and collective calls never meet those of that one: as [`Comm::dup`] makes it, but
/// used again and again.
///
/// ```
/// use aqueduct_comm::{Launch, PooledComm};
///
/// Launch::threads(3).run(|world| {
///     let comm = PooledComm::acquire(world)?;
///     let id = comm.context_id();
///     comm.barrier()?;
///     comm.release();
///     assert_eq!(PooledComm::acquire(world)?.context_id(), id, "the same one again");
///     Ok::<(), aqueduct_comm::Error>(())
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Debug)]
pub struct PooledComm {
    comm: Comm,
    parent: Comm,
}

/// One that waits for its next use.
struct IdleComm(Comm);

impl PooledComm {
    /// One that was left, if all ranks have it, or a new one. Collective; one meeting for one that was left.
    pub fn acquire(beside: &Comm) -> Result<Self> {
        let left = beside.cache_take::<IdleComm>().map(|left| left.0);
        let number = left.as_ref().map_or(0, Comm::context_id);
        let all =
            beside.allreduce_with(&[[number, number]], |[least, most], [other_least, other_most]| {
                *least = (*least).min(*other_least);
                *most = (*most).max(*other_most);
            })?;
        let same = all[0][0] == all[0][1];
        let comm = match left {
            Some(line) if same => line,
            // What one rank has, and another has not, is for a later time.
            Some(line) => {
                beside.cache_put(IdleComm(line), MAX_IDLE);
                beside.dup()?
            }
            None => beside.dup()?,
        };
        Ok(Self { comm, parent: beside.clone() })
    }

    /// What it was made from.
    pub fn parent(&self) -> &Comm {
        &self.parent
    }

    /// Leaves it to the next one who takes one. Only after collective calls that have succeeded on all ranks: the next one goes on where they ended.
    pub fn release(self) {
        self.parent.cache_put(IdleComm(self.comm), MAX_IDLE);
    }
}

impl Deref for PooledComm {
    type Target = Comm;

    fn deref(&self) -> &Comm {
        &self.comm
    }
}
