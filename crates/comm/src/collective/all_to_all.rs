//! All-to-all: each rank sends a part to each rank.

use super::CollectiveCall;
use super::gather::RankBytes;
use super::scatter::starts;
use crate::Result;
use crate::node::node_exchange::BulkRead;

impl CollectiveCall<'_> {
    /// Sends part `r` to rank `r`; returns the parts sent to this rank, in rank order. Parts may have any lengths.
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

    /// As [`all_to_all_varied`](Self::all_to_all_varied) for parts of equal length, consecutive in `send` and in `receive`.
    pub(crate) fn all_to_all_into(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        let len = send.len() / self.size();
        if len == 0 {
            return self.barrier();
        }
        self.send_off_node(|rank| &send[rank * len..(rank + 1) * len])?;
        let topology = self.topology();
        let mut reads = Vec::with_capacity(self.node_exchange().size());
        for (rank, into) in receive.chunks_exact_mut(len).enumerate() {
            if topology.node_of(rank) == self.node() {
                reads.push(BulkRead { from: topology.local_rank(rank), position: self.rank() * len, into });
            }
        }
        // Each rank starts with itself, so that not all ranks read from the same rank at once.
        reads.rotate_left(self.node_exchange().rank());
        self.node_exchange().exchange_bulk(self.id, &[send], &mut reads)?;
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
        let exchange = self.node_exchange();
        let starts = starts(parts.iter().map(|part| part.len()));
        let mut bounds = vec![[0usize; 2]; exchange.size()];
        let position = exchange.rank() * size_of::<usize>();
        let reads = bounds.iter_mut().enumerate();
        let mut reads: Vec<_> = reads
            .map(|(from, pair)| BulkRead { from, position, into: bytemuck::cast_slice_mut(pair) })
            .collect();
        exchange.exchange_bulk(self.id, &[bytemuck::cast_slice(&starts)], &mut reads)?;
        let mut items: RankBytes = bounds.iter().map(|[start, end]| vec![0; end - start]).collect();
        let reads = items.iter_mut().enumerate();
        let mut reads: Vec<_> =
            reads.map(|(from, into)| BulkRead { from, position: bounds[from][0], into }).collect();
        reads.rotate_left(exchange.rank());
        exchange.exchange_bulk(self.id, parts, &mut reads)?;
        Ok(items)
    }

    fn send_off_node<'b>(&self, part: impl Fn(usize) -> &'b [u8]) -> Result<()> {
        self.off_node_ranks().try_for_each(|rank| self.send(rank, part(rank).to_vec()))
    }

    /// The ranks of other nodes, starting after this rank, so that not all ranks send to the same rank at once.
    pub(super) fn off_node_ranks(&self) -> impl Iterator<Item = usize> {
        let (me, size) = (self.rank(), self.size());
        let ring = (1..size).map(move |step| (me + step) % size);
        ring.filter(|rank| self.topology().node_of(*rank) != self.node())
    }
}
