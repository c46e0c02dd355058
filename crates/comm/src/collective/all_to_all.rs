//! Every rank's bytes for every other.

use super::CollectiveCall;
use super::gather::RankBytes;
use super::scatter::starts;
use crate::Result;
use crate::node::node_exchange::BulkRead;

impl CollectiveCall<'_> {
    /// Part `r` goes to rank `r`; what each rank sent here comes back, in rank order. Parts may have any lengths.
    pub(crate) fn all_to_all_varied(&self, parts: &[&[u8]]) -> Result<RankBytes> {
        self.send_off_node(|rank| parts[rank])?;
        let neighbours = self.topology().neighbours(self.rank());
        let local: Vec<&[u8]> = neighbours.iter().map(|rank| parts[*rank]).collect();
        let mut all = vec![Vec::new(); self.size()];
        for (rank, item) in neighbours.iter().zip(self.node_all_to_all(&local)?) {
            all[*rank] = item;
        }
        for rank in self.off_node_ranks() {
            all[rank] = self.receive(rank)?.into_values(self.id.name())?;
        }
        Ok(all)
    }

    /// The same for parts of equal length, one after the other in `send` and in `receive`.
    pub(crate) fn all_to_all_into(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        let len = send.len() / self.size();
        if len == 0 {
            return self.barrier();
        }
        self.send_off_node(|rank| &send[rank * len..(rank + 1) * len])?;
        let topology = self.topology();
        let mut takes = Vec::with_capacity(self.node_exchange().size());
        for (rank, into) in receive.chunks_exact_mut(len).enumerate() {
            if topology.node_of(rank) == self.node() {
                takes.push(BulkRead { from: topology.local_rank(rank), position: self.rank() * len, into });
            }
        }
        // Everyone starts with itself and goes round, so that not all read the same rank at once.
        takes.rotate_left(self.node_exchange().rank());
        self.node_exchange().exchange_bulk(self.id, &[send], &mut takes)?;
        for rank in self.off_node_ranks() {
            let body = self.receive(rank)?;
            if body.bytes().len() != len {
                return Err(self.size_mismatch(rank));
            }
            receive[rank * len..(rank + 1) * len].copy_from_slice(body.bytes());
        }
        Ok(())
    }

    fn node_all_to_all(&self, parts: &[&[u8]]) -> Result<RankBytes> {
        let hub = self.node_exchange();
        let starts = starts(parts.iter().map(|part| part.len()));
        let mut bounds = vec![[0usize; 2]; hub.size()];
        let position = hub.rank() * size_of::<usize>();
        let takes = bounds.iter_mut().enumerate();
        let mut takes: Vec<_> = takes
            .map(|(from, pair)| BulkRead { from, position, into: bytemuck::cast_slice_mut(pair) })
            .collect();
        hub.exchange_bulk(self.id, &[bytemuck::cast_slice(&starts)], &mut takes)?;
        let mut items: RankBytes = bounds.iter().map(|[start, end]| vec![0; end - start]).collect();
        let takes = items.iter_mut().enumerate();
        let mut takes: Vec<_> =
            takes.map(|(from, into)| BulkRead { from, position: bounds[from][0], into }).collect();
        takes.rotate_left(hub.rank());
        hub.exchange_bulk(self.id, parts, &mut takes)?;
        Ok(items)
    }

    fn send_off_node<'b>(&self, part: impl Fn(usize) -> &'b [u8]) -> Result<()> {
        self.off_node_ranks().try_for_each(|rank| self.send(rank, part(rank).to_vec()))
    }

    /// The ranks of other nodes, beginning behind this one, so that not all send to the same rank at once.
    fn off_node_ranks(&self) -> impl Iterator<Item = usize> {
        let (me, size) = (self.rank(), self.size());
        let ring = (1..size).map(move |step| (me + step) % size);
        ring.filter(|rank| self.topology().node_of(*rank) != self.node())
    }
}
