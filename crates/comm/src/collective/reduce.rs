//! Reduce and allreduce: the values of all ranks combined element by element.

use std::ops::Range;

use super::reduce_op::{Number, Op};
use super::{CollectiveCall, powers_below};
use crate::Result;
use crate::matching::packet::Plain;
use crate::node::node_exchange::{BulkRead, SMALL_MAX};

/// The ranks that get the result of a reduction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReduceTarget {
    /// One rank; the values of the others are unspecified afterwards.
    Rank(usize),
    /// All ranks, with identical bits.
    All,
}

impl CollectiveCall<'_> {
    /// `values[i]` = the reduction of `values[i]` over all ranks, at `target`.
    pub(crate) fn reduce<T: Number>(&self, target: ReduceTarget, op: Op, values: &mut [T]) -> Result<()> {
        self.reduce_with(target, &|into: &mut [T], with: &[T]| T::fold(op, into, with), values)
    }

    /// As [`reduce`](Self::reduce) with any associative `fold` of the values of one rank into those of another.
    pub(crate) fn reduce_with<T: Plain>(
        &self,
        target: ReduceTarget,
        fold: &impl Fn(&mut [T], &[T]),
        values: &mut [T],
    ) -> Result<()> {
        let topology = self.topology();
        if topology.node_count() == 1 {
            let place = match target {
                ReduceTarget::Rank(root) => Some(topology.local_rank(root)),
                ReduceTarget::All => None,
            };
            return self.node_reduce(place, fold, values);
        }
        self.node_reduce(Some(0), fold, values)?;
        if self.is_leader() {
            self.leaders_reduce(fold, values)?;
        }
        match target {
            ReduceTarget::All => self.broadcast(topology.leader(0), bytemuck::cast_slice_mut(values)),
            ReduceTarget::Rank(root) => self.forward_result(topology.leader(0), root, values),
        }
    }

    /// Sends the result from rank `from` to rank `to`.
    fn forward_result<T: Plain>(&self, from: usize, to: usize, values: &mut [T]) -> Result<()> {
        if from == to {
            return Ok(());
        }
        if self.rank() == from {
            self.send(to, values.to_vec())?;
        }
        if self.rank() == to {
            self.receive_values(from, values)?;
        }
        Ok(())
    }

    /// Up a binomial tree of the node leaders to the first one; the values of lower nodes are the left operands.
    fn leaders_reduce<T: Plain>(&self, fold: &impl Fn(&mut [T], &[T]), values: &mut [T]) -> Result<()> {
        let (me, nodes) = (self.node(), self.topology().node_count());
        let mut theirs = values.to_vec();
        for distance in powers_below(nodes) {
            if me & distance != 0 {
                return self.send_to_node(me - distance, values.to_vec());
            }
            if me + distance < nodes {
                self.receive_values(self.topology().leader(me + distance), &mut theirs)?;
                fold(values, &theirs);
            }
        }
        Ok(())
    }

    pub(super) fn receive_values<T: Plain>(&self, from: usize, values: &mut [T]) -> Result<()> {
        let theirs = self.receive(from)?.into_values::<T>(self.id.name())?;
        if theirs.len() != values.len() {
            return Err(self.size_mismatch(from));
        }
        values.copy_from_slice(&theirs);
        Ok(())
    }

    /// Inside the node, at local rank `place` (none: at all of them), in rank order.
    pub(super) fn node_reduce<T: Plain>(
        &self,
        place: Option<usize>,
        fold: &impl Fn(&mut [T], &[T]),
        values: &mut [T],
    ) -> Result<()> {
        if size_of_val(values) > SMALL_MAX {
            return self.node_reduce_long(place, fold, values);
        }
        let mine = values.to_vec();
        let mut theirs = values.to_vec();
        self.node_exchange().exchange_small(self.id, bytemuck::cast_slice(&mine), |rank, bytes| {
            let into = if rank == 0 { &mut *values } else { &mut theirs[..] };
            bytemuck::cast_slice_mut(into).copy_from_slice(bytes);
            if rank > 0 {
                fold(values, &theirs);
            }
        })
    }

    /// Each rank reduces its share of the elements, then the shares are gathered.
    fn node_reduce_long<T: Plain>(
        &self,
        place: Option<usize>,
        fold: &impl Fn(&mut [T], &[T]),
        values: &mut [T],
    ) -> Result<()> {
        let (exchange, len) = (self.node_exchange(), values.len());
        let share = |rank: usize| share_of(len, rank, exchange.size());
        let position = share(exchange.rank()).start * size_of::<T>();
        let width = share(exchange.rank()).len();
        let mut columns = vec![T::zeroed(); width * exchange.size()];
        let mut reads = Vec::with_capacity(exchange.size());
        if width > 0 {
            for (from, column) in columns.chunks_exact_mut(width).enumerate() {
                reads.push(BulkRead { from, position, into: bytemuck::cast_slice_mut(column) });
            }
        }
        exchange.exchange_bulk(self.id, &[bytemuck::cast_slice(values)], &mut reads)?;
        let (sum, others) = columns.split_at_mut(width);
        if width > 0 {
            others.chunks_exact(width).for_each(|column| fold(sum, column));
        }
        let mut reads = Vec::new();
        if place.is_none_or(|place| place == exchange.rank()) {
            let mut rest = &mut values[..];
            for from in 0..exchange.size() {
                let (part, later) = rest.split_at_mut(share(from).len());
                reads.push(BulkRead { from, position: 0, into: bytemuck::cast_slice_mut(part) });
                rest = later;
            }
        }
        exchange.exchange_bulk(self.id, &[bytemuck::cast_slice(sum)], &mut reads)
    }
}

/// The block of `len` elements of `rank` of `size`, distributed evenly.
fn share_of(len: usize, rank: usize, size: usize) -> Range<usize> {
    let bound = |rank: usize| rank * (len / size) + rank.min(len % size);
    bound(rank)..bound(rank + 1)
}

#[cfg(test)]
mod tests {
    use super::share_of;

    #[test]
    fn shares_cover_everything_once() {
        for (len, size) in [(0, 3), (2, 5), (10, 4), (7, 7), (100, 1)] {
            let all: Vec<usize> = (0..size).flat_map(|rank| share_of(len, rank, size)).collect();
            assert_eq!(all, (0..len).collect::<Vec<_>>());
        }
    }
}
