//! The byte transport underneath: it carries packets between the ranks of a world and lends memory to the ranks of a node.

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

/// How the ranks of a node find a block that one of them offers.
pub(crate) type BlockHandle = [u64; 2];

/// What becomes of a number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CounterOp {
    Add(u64),
    Set(u64),
}

/// One rank's end of a transport. Ranks here are those of the world.
pub(crate) trait Transport: WaitContext {
    fn size(&self) -> usize;

    /// What it is, for people: "threads", "Open MPI 4.1.4".
    fn describe(&self) -> String;

    /// Tells this rank from all others of this process; a process that is a rank has no others.
    fn thread_id(&self) -> u64 {
        0
    }

    /// The thread level that MPI granted; none for threads, which know no such thing.
    fn thread_level(&self) -> Option<ThreadLevel>;

    /// Whether threads besides those that call us may send and receive.
    fn threads_may_send(&self) -> bool;

    /// An identity of the machine this rank runs on: equal for ranks that can share memory.
    fn machine(&self) -> u64;

    /// Where packets for this rank arrive.
    fn mailbox(&self) -> &Mailbox;

    /// Sends `bytes` and returns when they may be changed.
    fn send(&self, to: usize, header: PacketHeader, bytes: &[u8]) -> Result<()>;

    /// Starts sending and keeps `body` as long as needed; the number tells [`departed`](Wire::departed) which one, none = gone already.
    fn post(&self, to: usize, header: PacketHeader, body: PacketBody) -> Result<Option<u64>>;

    /// Whether a posted body has left.
    fn is_sent(&self, post: u64) -> Result<bool>;

    /// Makes a block for ranks of this node, found by its ticket until [`retire`](Wire::retire)d.
    fn create_block(&self, len: usize) -> Result<(Arc<SharedBlock>, BlockHandle)>;

    /// The block behind a ticket.
    fn attach_block(&self, ticket: BlockHandle, len: usize) -> Result<Arc<SharedBlock>>;

    /// All who want it have attached.
    fn withdraw_block(&self, ticket: BlockHandle);

    /// A hub that this rank belongs to lives in `block`: if this rank leaves or any fails, its meetings must end.
    fn register_barrier(&self, block: &Arc<SharedBlock>);

    /// This rank has returned from the program: it sends nothing more and comes to no more meetings but those in `last`.
    fn depart(&self, last: Option<&Arc<SharedBlock>>) -> Result<()>;

    /// What this rank leaves to the end of the program.
    fn run_end(&self) -> &RunEnd;

    /// Whether this rank has learned that another one is gone.
    fn has_induced_failure(&self) -> bool;

    /// Whether this thread may make and change numbers that the first rank has and all count on.
    fn may_use_counters(&self) -> bool {
        false
    }

    /// Which of those numbers this rank holds. The first call makes them, for all ranks that may count, collectively; none where
    /// that cannot be.
    fn counter_slots(&self) -> Option<&CounterSlots> {
        None
    }

    /// Changes one of them in one step, from any rank; what it was before.
    fn fetch_and_op(&self, _place: usize, _change: CounterOp) -> Result<u64> {
        Err(Error::new(Kind::Unsupported, "counter", "this transport has no counters"))
    }

    /// Gives back what all ranks have to give back together before MPI ends. Collective.
    fn release(&self) {}

    /// MPI is about to end: nothing of ours calls it from now on.
    fn end(&self) {}

    /// The same at once, whatever is under way.
    fn abandon(&self) {}

    /// Moves packets, those of background threads among them, if this thread may call MPI; whether anything moved. Never waits.
    fn progress(&self) -> bool {
        false
    }

    /// Waits, on a background thread, until everything that background threads have sent has been passed to MPI.
    fn flush_call_queue(&self) -> Result<()> {
        Ok(())
    }
}
