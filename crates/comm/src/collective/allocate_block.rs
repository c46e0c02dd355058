//! Memory for the ranks of a node, made by one of them.

use std::sync::Arc;

use super::block_share::BlockShare;
use super::reduce_op::Op;
use super::{CollectiveCall, ReduceTarget};
use crate::collective_id::{CollectiveId, CollectiveKind};
use crate::node::shared_block::SharedBlock;
use crate::node::shared_region::SharedRegion;
use crate::{Comm, Error, Kind, Result};

impl CollectiveCall<'_> {
    /// A block of `len` bytes made by the rank `leader`, at every rank that names it; none at those that name none. `held` sees it
    /// before anyone can use it. On failure, all ranks get an error of kind `System`.
    pub(crate) fn allocate_block(
        &self,
        leader: Option<usize>,
        len: usize,
        held: impl FnOnce(&Arc<SharedBlock>),
    ) -> Result<Option<Arc<SharedBlock>>> {
        let offer = BlockShare::make(&self.inner.transport, leader == Some(self.rank()), len);
        let mut tickets = vec![[0u64; 2]; self.size()];
        let ticket = offer.handle();
        self.allgather_into(bytemuck::bytes_of(&ticket), bytemuck::cast_slice_mut(&mut tickets))?;
        let mine = leader.map(|leader| offer.block(tickets[leader])).transpose();
        if let Ok(Some(block)) = &mine {
            held(block);
        }
        let mut all_well = [u8::from(mine.is_ok())];
        self.reduce(ReduceTarget::All, Op::Min, &mut all_well)?;
        match mine {
            Ok(_) if all_well == [0] => {
                let detail = "another rank could not get the memory that its node shares";
                Err(Error::new(Kind::System, self.id.name(), detail))
            }
            other => other,
        }
    }
}

impl Comm {
    /// Memory of `len` bytes shared by the ranks of this communicator that are on one node (each node has its own). Collective,
    /// with the same `len` on all ranks.
    #[doc(alias = "MPI_Win_allocate_shared")]
    pub fn shared_region(&self, len: usize) -> Result<SharedRegion> {
        let topology = &self.inner.topology;
        let leader = topology.neighbours(self.rank())[0];
        let call = CollectiveCall::begin(&self.inner, CollectiveId::new(CollectiveKind::Region).size(len))?;
        let block = call.allocate_block(Some(leader), len, |_| ())?.expect("every rank has a leader");
        Ok(SharedRegion::new(block, len))
    }
}
