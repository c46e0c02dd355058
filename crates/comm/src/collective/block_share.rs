//! Memory on offer: one rank of a node makes a block, the others attach to it, and whatever happens the offer is withdrawn.

use std::sync::Arc;

use crate::node::shared_block::SharedBlock;
use crate::transport::{BlockHandle, Transport};
use crate::{Error, Kind, Result};

/// The ticket of a rank that has nothing to offer.
const NOTHING: BlockHandle = [u64::MAX; 2];

/// One rank's side of making a common block; dropping it withdraws the offer, so it must live until all have attached.
pub(crate) struct BlockShare<'a> {
    transport: &'a Arc<dyn Transport>,
    len: usize,
    /// None where another rank makes the block.
    made: Option<Result<(Arc<SharedBlock>, BlockHandle)>>,
}

impl<'a> BlockShare<'a> {
    /// Makes a block of `len` bytes if it is this rank's turn to.
    pub(crate) fn make(wire: &'a Arc<dyn Transport>, mine: bool, len: usize) -> Self {
        Self { transport: wire, len, made: mine.then(|| wire.create_block(len)) }
    }

    /// What to tell the others.
    pub(crate) fn handle(&self) -> BlockHandle {
        match &self.made {
            Some(Ok((_, ticket))) => *ticket,
            _ => NOTHING,
        }
    }

    /// The block that was made here, else the one behind the ticket of the rank that made it.
    pub(crate) fn block(&self, theirs: BlockHandle) -> Result<Arc<SharedBlock>> {
        match &self.made {
            Some(Ok((block, _))) => Ok(Arc::clone(block)),
            None if theirs != NOTHING => self.transport.attach_block(theirs, self.len),
            failed => {
                let detail = format!("this node has no {} bytes of memory to share", self.len);
                let cause = failed.as_ref().and_then(|made| made.as_ref().err());
                let cause = cause.map_or(detail.clone(), |cause| format!("{detail}: {cause}"));
                Err(Error::new(Kind::System, "offer", cause))
            }
        }
    }
}

impl Drop for BlockShare<'_> {
    fn drop(&mut self) {
        if let Some(Ok((_, ticket))) = &self.made {
            self.transport.withdraw_block(*ticket);
        }
    }
}
