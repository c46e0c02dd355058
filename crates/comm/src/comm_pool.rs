//! A pool of communicators for objects with a short life, such as an open file. Making a communicator takes collective calls and
//! memory, so that the parent communicator keeps released ones for the next use.

use std::any::Any;
use std::ops::Deref;

use crate::agreement::first_differing_ranks;
use crate::{Comm, Result};

/// The number of idle communicators of a type that a parent keeps.
const MAX_IDLE: usize = 4;

/// A communicator of the same ranks as its parent with separate messages and collective calls, as [`Comm::dup`] makes it, that can be
/// reused after its [release](PooledComm::release). `T` is memory that was made on the communicator and is reused with it.
///
/// ```
/// use aqueduct_comm::{Launch, PooledComm};
///
/// Launch::threads(3).run(|world| {
///     let comm: PooledComm = PooledComm::acquire(world)?;
///     let id = comm.context_id();
///     comm.barrier()?;
///     comm.release();
///     let reused: PooledComm = PooledComm::acquire(world)?;
///     assert_eq!(reused.context_id(), id);
///     Ok::<(), aqueduct_comm::Error>(())
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Debug)]
pub struct PooledComm<T = ()> {
    comm: Comm,
    parent: Comm,
    /// What was made on the communicator.
    pub attached: T,
}

/// A released communicator.
struct IdleComm<T>(Comm, T);

impl PooledComm {
    /// An idle communicator, if all ranks have the same one, or a new one. Collective; one collective call if it is reused.
    pub fn acquire(parent: &Comm) -> Result<Self> {
        let idle = Self::take_idle(parent);
        let id = idle.as_ref().map_or(0, |comm| comm.context_id());
        let [differing] = first_differing_ranks(parent, [Some(id)])?;
        match idle {
            Some(idle) if differing.is_none() => Ok(idle),
            // A communicator that some rank does not have is left to a later use.
            Some(idle) => {
                idle.release();
                Self::create(parent, |_| Ok(()))
            }
            None => Self::create(parent, |_| Ok(())),
        }
    }

    /// Attaches what was made on the communicator, to be reused with it.
    pub fn attach<T>(self, attached: T) -> PooledComm<T> {
        PooledComm { comm: self.comm, parent: self.parent, attached }
    }
}

impl<T: Any + Send> PooledComm<T> {
    /// A new communicator, and what `attach` makes on it. Collective.
    pub fn create(parent: &Comm, attach: impl FnOnce(&Comm) -> Result<T>) -> Result<Self> {
        let comm = parent.dup()?;
        let attached = attach(&comm)?;
        Ok(Self { comm, parent: parent.clone(), attached })
    }

    /// The communicator that this rank released last. It may be used only if all ranks took the one with the same
    /// [context id](Comm::context_id); if not, each rank releases it again. Not collective.
    pub fn take_idle(parent: &Comm) -> Option<Self> {
        let IdleComm(comm, attached) = parent.cache_take()?;
        Some(Self { comm, parent: parent.clone(), attached })
    }

    /// The communicator this one was made from.
    pub fn parent(&self) -> &Comm {
        &self.parent
    }

    /// The communicator and what is attached to it.
    pub fn detach(self) -> (PooledComm, T) {
        (PooledComm { comm: self.comm, parent: self.parent, attached: () }, self.attached)
    }

    /// Leaves the communicator to the next use. Only after collective calls that succeeded on all ranks: the next use continues in their
    /// sequence.
    pub fn release(self) {
        self.parent.cache_put(IdleComm(self.comm, self.attached), MAX_IDLE);
    }
}

impl<T> Deref for PooledComm<T> {
    type Target = Comm;

    fn deref(&self) -> &Comm {
        &self.comm
    }
}
