//! Sharing of a block of memory: one rank of a node creates it, the others attach to it by its handle.

use std::sync::Arc;

use crate::node::shared_block::SharedBlock;
use crate::transport::{BlockHandle, Transport};
use crate::{Error, Kind, Result};

/// The handle of a rank that has created no block.
const NOTHING: BlockHandle = [u64::MAX; 2];

/// One rank's side of the creation of a shared block. Dropping it invalidates the handle, so it must live until all ranks have attached.
pub(crate) struct BlockShare<'a> {
    transport: &'a Arc<dyn Transport>,
    len: usize,
    /// None if another rank creates the block.
    made: Option<Result<(Arc<SharedBlock>, BlockHandle)>>,
}

impl<'a> BlockShare<'a> {
    /// Creates a block of `len` bytes if `mine` is true.
    pub(crate) fn make(transport: &'a Arc<dyn Transport>, mine: bool, len: usize) -> Self {
        Self { transport, len, made: mine.then(|| transport.create_block(len)) }
    }

    /// The handle for the other ranks.
    pub(crate) fn handle(&self) -> BlockHandle {
        match &self.made {
            Some(Ok((_, handle))) => *handle,
            _ => NOTHING,
        }
    }

    /// The block that was created here, or the one that `theirs` refers to.
    pub(crate) fn block(&self, theirs: BlockHandle) -> Result<Arc<SharedBlock>> {
        match &self.made {
            Some(Ok((block, _))) => Ok(Arc::clone(block)),
            None if theirs != NOTHING => self.transport.attach_block(theirs, self.len),
            failed => {
                let detail = format!("this node cannot allocate {} bytes of shared memory", self.len);
                let cause = failed.as_ref().and_then(|made| made.as_ref().err());
                let cause = cause.map_or(detail.clone(), |cause| format!("{detail}: {cause}"));
                Err(Error::new(Kind::System, "shared_region", cause))
            }
        }
    }
}

impl Drop for BlockShare<'_> {
    fn drop(&mut self) {
        if let Some(Ok((_, handle))) = &self.made {
            self.transport.withdraw_block(*handle);
        }
    }
}
