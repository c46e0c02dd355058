//! Inclusive and exclusive scans (prefix reductions).

use super::reduce_op::{Number, Op};
use super::{CollectiveCall, powers_below};
use crate::Result;
use crate::node::node_exchange::{BulkRead, SMALL_MAX};

/// Long values are scanned in pieces of about this many bytes, to limit the temporary memory.
const PIECE: usize = 64 * 1024;

impl CollectiveCall<'_> {
    /// The reduction of the values of all lower ranks; none at rank 0.
    pub(crate) fn scan_below<T: Number>(&self, op: Op, values: &[T]) -> Result<Option<Vec<T>>> {
        let topology = self.topology();
        if topology.node_count() == 1 {
            return self.node_scan_below(op, values);
        }
        if !topology.in_order() {
            return self.scan_over(op, values, self.rank(), self.size(), |rank| rank);
        }
        let inside = self.node_scan_below(op, values)?;
        let mut total = values.to_vec();
        self.node_reduce(Some(0), &|into: &mut [T], with: &[T]| T::fold(op, into, with), &mut total)?;
        let mut before = None;
        if self.is_leader() {
            let leader = |node| topology.leader(node);
            before = self.scan_over(op, &total, self.node(), topology.node_count(), leader)?;
        }
        if self.node() == 0 {
            return Ok(inside);
        }
        let mut before = before.unwrap_or(total);
        self.node_broadcast(0, bytemuck::cast_slice_mut(&mut before))?;
        if let Some(inside) = inside {
            T::fold(op, &mut before, &inside);
        }
        Ok(Some(before))
    }

    /// By messages between `count` ranks, of which this is number `me`: the reduction over those before it, in ⌈log₂ count⌉ steps.
    fn scan_over<T: Number>(
        &self,
        op: Op,
        values: &[T],
        me: usize,
        count: usize,
        rank_of: impl Fn(usize) -> usize,
    ) -> Result<Option<Vec<T>>> {
        let mut upto = values.to_vec();
        let mut below: Option<Vec<T>> = None;
        for distance in powers_below(count) {
            if me + distance < count {
                self.send(rank_of(me + distance), upto.clone())?;
            }
            if me < distance {
                continue;
            }
            let mut theirs = values.to_vec();
            self.receive_values(rank_of(me - distance), &mut theirs)?;
            let joined = |right: &[T]| {
                let mut left = theirs.clone();
                T::fold(op, &mut left, right);
                left
            };
            upto = joined(&upto);
            below = Some(below.map_or_else(|| theirs.clone(), |below| joined(&below)));
        }
        Ok(below)
    }

    /// Inside the node.
    fn node_scan_below<T: Number>(&self, op: Op, values: &[T]) -> Result<Option<Vec<T>>> {
        let exchange = self.node_exchange();
        let mut below: Vec<T> = Vec::with_capacity(if exchange.rank() > 0 { values.len() } else { 0 });
        if size_of_val(values) <= SMALL_MAX {
            exchange.exchange_small(self.id, bytemuck::cast_slice(values), |rank, bytes| {
                if rank < exchange.rank() {
                    add(op, &mut below, &bytemuck::pod_collect_to_vec(bytes));
                }
            })?;
            return Ok((exchange.rank() > 0).then_some(below));
        }
        for piece in values.chunks((PIECE / size_of::<T>()).max(1)) {
            let mut lower = vec![T::zeroed(); piece.len() * exchange.rank()];
            let reads = lower.chunks_exact_mut(piece.len()).enumerate();
            let mut reads: Vec<_> = reads
                .map(|(from, into)| BulkRead { from, position: 0, into: bytemuck::cast_slice_mut(into) })
                .collect();
            exchange.exchange_bulk(self.id, &[bytemuck::cast_slice(piece)], &mut reads)?;
            let mut sum = Vec::new();
            lower.chunks_exact(piece.len()).for_each(|values| add(op, &mut sum, values));
            below.extend(sum);
        }
        Ok((exchange.rank() > 0).then_some(below))
    }
}

/// `sum = sum op values`; an empty sum has no values yet.
fn add<T: Number>(op: Op, sum: &mut Vec<T>, values: &[T]) {
    if sum.is_empty() {
        sum.extend_from_slice(values);
    } else {
        T::fold(op, sum, values);
    }
}
