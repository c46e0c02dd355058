//! Memory for the ranks of a node, made by one of them.

use std::sync::Arc;

use super::{Collective, Target};
use crate::block::Block;
use crate::number::Op;
use crate::offer::Offer;
use crate::{Error, Kind, Result};

impl Collective<'_> {
    /// A block of `len` bytes made by the rank `leader`, at every rank that names it; none at those that name none. `held` sees it
    /// before anyone can use it. On failure, all ranks get an error of kind `System`.
    pub(crate) fn common_block(
        &self,
        leader: Option<usize>,
        len: usize,
        held: impl FnOnce(&Arc<Block>),
    ) -> Result<Option<Arc<Block>>> {
        let offer = Offer::make(&self.inner.wire, leader == Some(self.rank()), len);
        let mut tickets = vec![[0u64; 2]; self.size()];
        let ticket = offer.ticket();
        self.allgather_into(bytemuck::bytes_of(&ticket), bytemuck::cast_slice_mut(&mut tickets))?;
        let mine = leader.map(|leader| offer.block(tickets[leader])).transpose();
        if let Ok(Some(block)) = &mine {
            held(block);
        }
        let mut all_well = [u8::from(mine.is_ok())];
        self.reduce(Target::All, Op::Min, &mut all_well)?;
        match mine {
            Ok(_) if all_well == [0] => {
                let detail = "another rank could not get the memory that its node shares";
                Err(Error::new(Kind::System, self.call.name(), detail))
            }
            other => other,
        }
    }
}
