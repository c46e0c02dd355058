//! Every rank's bytes for all.

use super::gather::{Gathered, fill};
use super::{Collective, list, powers_below};
use crate::Result;
use crate::hub::{TELLABLE, Take};

impl Collective<'_> {
    /// The bytes of all ranks, of any lengths, at every rank.
    pub(crate) fn allgather_varied(&self, mine: &[u8]) -> Result<Gathered> {
        let topology = self.topology();
        if topology.count() == 1 {
            return Ok(self.node_gather(None, mine)?.unwrap_or_default());
        }
        let mut packed = Vec::new();
        if let Some(items) = self.node_gather(Some(0), mine)? {
            packed = list::encode(&self.leaders_allgather(list::encode(&items))?);
        }
        let packed = self.node_broadcast_varied(0, packed)?;
        let broken = || self.broken(topology.leader(self.node()));
        let nodes = list::decode(&packed).filter(|nodes| nodes.len() == topology.count());
        let mut all = vec![Vec::new(); self.size()];
        for (ranks, items) in topology.nodes().iter().zip(nodes.ok_or_else(broken)?) {
            let items = list::decode(items).filter(|items| items.len() == ranks.len());
            fill(&mut all, ranks, &items.ok_or_else(broken)?);
        }
        Ok(all)
    }

    /// `out` = the bytes of all ranks one after the other; all give equally many.
    pub(crate) fn allgather_into(&self, mine: &[u8], out: &mut [u8]) -> Result<()> {
        let len = mine.len();
        if len == 0 {
            return self.barrier();
        }
        if self.topology().count() > 1 {
            for (rank, item) in self.allgather_varied(mine)?.iter().enumerate() {
                let into = &mut out[rank * len..(rank + 1) * len];
                if item.len() != len {
                    return Err(self.broken(rank));
                }
                into.copy_from_slice(item);
            }
            return Ok(());
        }
        if len <= TELLABLE {
            return self.hub().tell(self.call, mine, |rank, theirs| {
                out[rank * len..(rank + 1) * len].copy_from_slice(theirs);
            });
        }
        let takes = out.chunks_exact_mut(len).enumerate();
        let mut takes: Vec<_> = takes.map(|(from, into)| Take { from, position: 0, into }).collect();
        // Everyone starts with itself and goes round, so that not all read the same rank at once.
        takes.rotate_left(self.hub().rank());
        self.hub().share(self.call, &[mine], &mut takes)
    }

    /// Among node leaders: the packed bytes of each node, in ⌈log₂ nodes⌉ steps of doubling amounts.
    fn leaders_allgather(&self, mine: Vec<u8>) -> Result<Gathered> {
        let (me, nodes) = (self.node(), self.topology().count());
        // What is known: the nodes me, me + 1, … in a ring.
        let mut known = vec![mine];
        for distance in powers_below(nodes) {
            let some = &known[..distance.min(nodes - distance)];
            self.send_to_node((me + nodes - distance) % nodes, list::encode(some))?;
            let next = (me + distance) % nodes;
            let body = self.receive_from_node(next)?;
            let items = list::decode(body.bytes()).filter(|items| items.len() == some.len());
            let items = items.ok_or_else(|| self.broken(self.topology().leader(next)))?;
            known.extend(items.iter().map(|item| item.to_vec()));
        }
        known.rotate_right(me);
        Ok(known)
    }
}
