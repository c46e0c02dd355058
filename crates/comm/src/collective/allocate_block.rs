//! Memory for the ranks of a node, made by one of them.

use std::sync::Arc;

use super::{CollectiveCall, ReduceTarget};
use crate::block_share::BlockShare;
use crate::reduction::Op;
use crate::shared_block::SharedBlock;
use crate::{Error, Kind, Result};

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
