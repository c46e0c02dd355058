//! Gather: the bytes of each rank at one rank.

use super::{CollectiveCall, packed_list};
use crate::Result;
use crate::node::node_exchange::{BulkRead, SMALL_MAX};

/// The bytes of each rank, in rank order.
pub(crate) type RankBytes = Vec<Vec<u8>>;

impl CollectiveCall<'_> {
    /// The bytes of all ranks, of any lengths, at `root`; nothing elsewhere.
    pub(crate) fn gather_varied(&self, root: usize, mine: &[u8]) -> Result<Option<RankBytes>> {
        let topology = self.topology();
        if topology.node_count() == 1 {
            return self.node_gather(Some(topology.local_rank(root)), mine);
        }
        let gathered = self.node_gather(Some(0), mine)?;
        if let Some(items) = &gathered
            && self.rank() != root
        {
            self.send(root, packed_list::encode(items))?;
        }
        if self.rank() != root {
            return Ok(None);
        }
        let mut all = vec![Vec::new(); self.size()];
        for (node, ranks) in topology.nodes().iter().enumerate() {
            let leader = topology.leader(node);
            match &gathered {
                Some(items) if leader == root => place_by_rank(&mut all, ranks, items),
                _ => {
                    let body = self.receive(leader)?;
                    let items = packed_list::decode(body.bytes()).filter(|items| items.len() == ranks.len());
                    place_by_rank(&mut all, ranks, &items.ok_or_else(|| self.size_mismatch(leader))?);
                }
            }
        }
        Ok(Some(all))
    }

    /// Copies the bytes of all ranks into the buffers of `root`; the number of bytes of each rank. A buffer of another length is not changed.
    pub(crate) fn gather_into(&self, root: usize, mine: &[u8], into: &mut [&mut [u8]]) -> Result<Vec<usize>> {
        if self.topology().node_count() == 1 {
            return self.node_gather_into(self.topology().local_rank(root), mine, into);
        }
        let items = self.gather_varied(root, mine)?.unwrap_or_default();
        for (item, into) in items.iter().zip(into).filter(|(item, into)| item.len() == into.len()) {
            into.copy_from_slice(item);
        }
        Ok(items.iter().map(Vec::len).collect())
    }

    fn node_gather_into(&self, place: usize, mine: &[u8], into: &mut [&mut [u8]]) -> Result<Vec<usize>> {
        let exchange = self.node_exchange();
        let mut lengths = Vec::with_capacity(exchange.size());
        exchange.exchange_small(self.id, &(mine.len() as u64).to_le_bytes(), |_, theirs| {
            let length = theirs.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
            lengths.push(length as usize);
        })?;
        let wanted = if exchange.rank() == place { into } else { &mut [] };
        let reads = wanted.iter_mut().enumerate().filter(|(from, into)| lengths[*from] == into.len());
        let mut reads: Vec<_> = reads.map(|(from, into)| BulkRead { from, position: 0, into }).collect();
        exchange.exchange_bulk(self.id, &[mine], &mut reads)?;
        Ok(if exchange.rank() == place { lengths } else { Vec::new() })
    }

    /// Inside the node: the bytes of its ranks at local rank `place` (none: at all of them).
    pub(super) fn node_gather(&self, place: Option<usize>, mine: &[u8]) -> Result<Option<RankBytes>> {
        let exchange = self.node_exchange();
        // Short contributions are sent with their length; if all are short, one exchange is enough.
        let mut message = (mine.len() as u64).to_le_bytes().to_vec();
        let short = mine.len() <= SMALL_MAX - message.len();
        message.extend_from_slice(if short { mine } else { &[] });
        let mut items: RankBytes = Vec::with_capacity(exchange.size());
        let mut all_short = true;
        let wanted = place.is_none_or(|place| place == exchange.rank());
        exchange.exchange_small(self.id, &message, |_, theirs| {
            let (len, inline) = theirs.split_first_chunk().unwrap_or((&[0; 8], &[]));
            let len = u64::from_le_bytes(*len) as usize;
            all_short &= inline.len() == len;
            if wanted {
                items.push(if inline.len() == len { inline.to_vec() } else { vec![0; len] });
            }
        })?;
        if !all_short {
            let reads = items.iter_mut().enumerate();
            let mut reads: Vec<_> =
                reads.map(|(from, item)| BulkRead { from, position: 0, into: item.as_mut_slice() }).collect();
            exchange.exchange_bulk(self.id, &[mine], &mut reads)?;
        }
        Ok(wanted.then_some(items))
    }
}

/// Stores the items of a node's ranks by rank.
pub(super) fn place_by_rank<B: AsRef<[u8]>>(all: &mut [Vec<u8>], ranks: &[usize], items: &[B]) {
    for (rank, item) in ranks.iter().zip(items) {
        all[*rank] = item.as_ref().to_vec();
    }
}
