//! Allgather: the bytes of each rank at all ranks.

use super::gather::{RankBytes, place_by_rank};
use super::{CollectiveCall, packed_list, powers_below};
use crate::Result;
use crate::node::node_exchange::{BulkRead, SMALL_MAX};

impl CollectiveCall<'_> {
    /// The bytes of all ranks, of any lengths, at every rank.
    pub(crate) fn allgather_varied(&self, mine: &[u8]) -> Result<RankBytes> {
        let topology = self.topology();
        if topology.node_count() == 1 {
            return Ok(self.node_gather(None, mine)?.unwrap_or_default());
        }
        let mut packed = Vec::new();
        if let Some(items) = self.node_gather(Some(0), mine)? {
            packed = packed_list::encode(&self.leaders_allgather(packed_list::encode(&items))?);
        }
        let packed = self.node_broadcast_varied(0, packed)?;
        let broken = || self.size_mismatch(topology.leader(self.node()));
        let nodes = packed_list::decode(&packed).filter(|nodes| nodes.len() == topology.node_count());
        let mut all = vec![Vec::new(); self.size()];
        for (ranks, items) in topology.nodes().iter().zip(nodes.ok_or_else(broken)?) {
            let items = packed_list::decode(items).filter(|items| items.len() == ranks.len());
            place_by_rank(&mut all, ranks, &items.ok_or_else(broken)?);
        }
        Ok(all)
    }

    /// `out` = the bytes of all ranks, concatenated; all ranks give the same number of bytes.
    pub(crate) fn allgather_into(&self, mine: &[u8], out: &mut [u8]) -> Result<()> {
        let len = mine.len();
        if len == 0 {
            return self.barrier();
        }
        if self.topology().node_count() > 1 {
            for (rank, item) in self.allgather_varied(mine)?.iter().enumerate() {
                let into = &mut out[rank * len..(rank + 1) * len];
                if item.len() != len {
                    return Err(self.size_mismatch(rank));
                }
                into.copy_from_slice(item);
            }
            return Ok(());
        }
        if len <= SMALL_MAX {
            return self.node_exchange().exchange_small(self.id, mine, |rank, theirs| {
                out[rank * len..(rank + 1) * len].copy_from_slice(theirs);
            });
        }
        let reads = out.chunks_exact_mut(len).enumerate();
        let mut reads: Vec<_> = reads.map(|(from, into)| BulkRead { from, position: 0, into }).collect();
        // Each rank starts with itself, so that not all ranks read from the same rank at once.
        reads.rotate_left(self.node_exchange().rank());
        self.node_exchange().exchange_bulk(self.id, &[mine], &mut reads)
    }

    /// Between node leaders: the packed bytes of each node, in ⌈log₂ nodes⌉ steps (Bruck's algorithm).
    fn leaders_allgather(&self, mine: Vec<u8>) -> Result<RankBytes> {
        let (me, nodes) = (self.node(), self.topology().node_count());
        // The bytes of the nodes me, me + 1, … modulo `nodes`.
        let mut known = vec![mine];
        for distance in powers_below(nodes) {
            let some = &known[..distance.min(nodes - distance)];
            self.send_to_node((me + nodes - distance) % nodes, packed_list::encode(some))?;
            let next = (me + distance) % nodes;
            let body = self.receive_from_node(next)?;
            let items = packed_list::decode(body.bytes()).filter(|items| items.len() == some.len());
            let items = items.ok_or_else(|| self.size_mismatch(self.topology().leader(next)))?;
            known.extend(items.iter().map(|item| item.to_vec()));
        }
        known.rotate_right(me);
        Ok(known)
    }
}
