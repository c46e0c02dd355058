//! Allocation of memory that the ranks of a node share: one rank creates it, the others attach to it.

use std::sync::Arc;

use super::block_share::BlockShare;
use super::reduce_op::Op;
use super::{CollectiveCall, ReduceTarget};
use crate::collective_id::{CollectiveId, CollectiveKind};
use crate::node::shared_block::SharedBlock;
use crate::node::shared_region::SharedRegion;
use crate::{Comm, Error, Kind, Result};

impl CollectiveCall<'_> {
    /// A block of `len` bytes created by the rank `leader`, at every rank that names this leader; none at ranks that name none. `register`
    /// is called with it before any rank uses it. On failure, all ranks get an error of kind `System`.
    pub(crate) fn allocate_block(
        &self,
        leader: Option<usize>,
        len: usize,
        register: impl FnOnce(&Arc<SharedBlock>),
    ) -> Result<Option<Arc<SharedBlock>>> {
        let share = BlockShare::make(&self.inner.transport, leader == Some(self.rank()), len);
        let mut handles = vec![[0u64; 2]; self.size()];
        let handle = share.handle();
        self.allgather_into(bytemuck::bytes_of(&handle), bytemuck::cast_slice_mut(&mut handles))?;
        let mine = leader.map(|leader| share.block(handles[leader])).transpose();
        if let Ok(Some(block)) = &mine {
            register(block);
        }
        let mut all_ok = [u8::from(mine.is_ok())];
        self.reduce(ReduceTarget::All, Op::Min, &mut all_ok)?;
        match mine {
            Ok(_) if all_ok == [0] => {
                let detail = "another rank could not allocate or map the shared memory of its node";
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
