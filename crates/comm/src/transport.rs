//! The transport trait: it sends packets between the ranks of a world and provides memory shared by the ranks of a node.

pub(crate) mod background_operation;
pub(crate) mod counter_slots;
pub(crate) mod mpi;
pub(crate) mod threads;

use std::sync::Arc;

use crate::matching::mailbox::Mailbox;
use crate::matching::packet::{PacketBody, PacketHeader};
use crate::node::shared_block::SharedBlock;
use crate::run_end::RunEnd;
use crate::wait_context::WaitContext;
use crate::{Error, Kind, Result};
use counter_slots::CounterSlots;
use mpi::ThreadLevel;

/// How the ranks of a node find a block that one of them has created.
pub(crate) type BlockHandle = [u64; 2];

/// The change of a counter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CounterOp {
    Add(u64),
    Set(u64),
}

/// The transport of a rank. Ranks here are those of the world.
pub(crate) trait Transport: WaitContext {
    fn size(&self) -> usize;

    /// A description such as "threads of one process" or "Open MPI 4.1.4".
    fn describe(&self) -> String;

    /// The id of this rank in this process; 0 for an MPI process.
    fn thread_id(&self) -> u64 {
        0
    }

    /// The thread level that MPI granted; none for thread ranks.
    fn thread_level(&self) -> Option<ThreadLevel>;

    /// True if background threads may send and receive.
    fn threads_may_send(&self) -> bool;

    /// The identity of this rank's machine: equal for ranks that can share memory.
    fn machine(&self) -> u64;

    /// The mailbox of this rank.
    fn mailbox(&self) -> &Mailbox;

    /// Sends `bytes` and returns when they may be changed.
    fn send(&self, to: usize, header: PacketHeader, bytes: &[u8]) -> Result<()>;

    /// Starts sending and keeps `body` as long as needed; the number for [`is_sent`](Transport::is_sent), none if the send is complete.
    fn post(&self, to: usize, header: PacketHeader, body: PacketBody) -> Result<Option<u64>>;

    /// True if a posted body has been sent.
    fn is_sent(&self, post: u64) -> Result<bool>;

    /// Creates a block for ranks of this node. Its handle is valid until [`withdraw_block`](Transport::withdraw_block).
    fn create_block(&self, len: usize) -> Result<(Arc<SharedBlock>, BlockHandle)>;

    /// The block of a handle.
    fn attach_block(&self, handle: BlockHandle, len: usize) -> Result<Arc<SharedBlock>>;

    /// Invalidates a handle after all ranks have attached.
    fn withdraw_block(&self, handle: BlockHandle);

    /// Registers a block with a barrier of this rank: it is aborted if this rank departs or any rank fails.
    fn register_barrier(&self, block: &Arc<SharedBlock>);

    /// Records that this rank has returned from the program: it sends no more messages and takes part in no barriers except those in `last`.
    fn depart(&self, last: Option<&Arc<SharedBlock>>) -> Result<()>;

    /// Failures and work for the end of the program.
    fn run_end(&self) -> &RunEnd;

    /// True if this rank knows that another one has failed.
    fn has_induced_failure(&self) -> bool;

    /// True if this thread may create and change remote counters.
    fn may_use_counters(&self) -> bool {
        false
    }

    /// The counters that this rank holds. The first call creates the window, collectively over all ranks; none if that is not possible.
    fn counter_slots(&self) -> Option<&CounterSlots> {
        None
    }

    /// Atomically changes a counter; its previous value.
    fn fetch_and_op(&self, _slot: usize, _change: CounterOp) -> Result<u64> {
        Err(Error::new(Kind::Unsupported, "counter", "this transport has no counters"))
    }

    /// Frees MPI objects whose release is collective, before MPI is finalized. Collective.
    fn release(&self) {}

    /// Stops all calls of MPI before it is finalized.
    fn end(&self) {}

    /// As [`end`](Transport::end), without waiting for operations in progress.
    fn abandon(&self) {}

    /// Transfers packets, including those of background threads, if this thread may call MPI; true if any progressed. Never waits.
    fn progress(&self) -> bool {
        false
    }

    /// Waits, on a background thread, until everything that background threads have sent has been passed to MPI.
    fn flush_call_queue(&self) -> Result<()> {
        Ok(())
    }
}
