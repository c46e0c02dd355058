//! All-to-all of uneven parts of several arrays, into memory of the caller: one exchange for all arrays.

use super::CollectiveCall;
use crate::matching::packet::Plain;
use crate::node::node_exchange::BulkRead;
use crate::{Error, Kind, Result};

/// An array whose parts all ranks exchange: [`Comm::all_to_all_varied_into`](crate::Comm::all_to_all_varied_into).
#[derive(Debug)]
pub struct ExchangedArray<'a, T> {
    /// The values that this rank sends: those for rank 0, those for rank 1, …
    pub send: &'a [T],
    /// The number of values for each rank.
    pub send_counts: &'a [usize],
    /// The values that this rank receives: those of rank 0, those of rank 1, …
    pub receive: &'a mut [T],
    /// The number of values of each rank.
    pub receive_counts: &'a [usize],
}

/// The same in bytes.
pub(crate) struct ExchangedBytes<'a> {
    pub(crate) send: &'a [u8],
    pub(crate) send_lengths: Vec<usize>,
    pub(crate) receive: &'a mut [u8],
    pub(crate) receive_lengths: Vec<usize>,
}

impl<T: Plain> ExchangedArray<'_, T> {
    /// Fails if its counts do not suit its values and this number of ranks.
    pub(crate) fn check(&self, ranks: usize) -> Result<()> {
        let sides = [
            ("sends", self.send.len(), self.send_counts),
            ("receives", self.receive.len(), self.receive_counts),
        ];
        for (verb, values, counts) in sides {
            let sum = counts.iter().try_fold(0usize, |sum, count| sum.checked_add(*count));
            if counts.len() != ranks || sum != Some(values) {
                let detail = format!(
                    "an array {verb} {values} values in {} parts of {counts:?} values; give a count for each of {ranks} ranks, {values} in all",
                    counts.len()
                );
                return Err(Error::new(Kind::InvalidArgument, "all_to_all_varied_into", detail));
            }
        }
        Ok(())
    }

    pub(crate) fn bytes(&mut self) -> ExchangedBytes<'_> {
        let lengths = |counts: &[usize]| counts.iter().map(|count| count * size_of::<T>()).collect();
        ExchangedBytes {
            send: bytemuck::cast_slice(self.send),
            send_lengths: lengths(self.send_counts),
            receive_lengths: lengths(self.receive_counts),
            receive: bytemuck::cast_slice_mut(self.receive),
        }
    }
}

impl ExchangedBytes<'_> {
    /// The bytes for a rank.
    fn part(&self, rank: usize) -> &[u8] {
        let start: usize = self.send_lengths[..rank].iter().sum();
        &self.send[start..start + self.send_lengths[rank]]
    }
}

/// The memory for the parts of one array, by sender.
fn split<'b>(mut memory: &'b mut [u8], lengths: &[usize]) -> Vec<&'b mut [u8]> {
    let mut parts = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (part, rest) = memory.split_at_mut(*length);
        parts.push(part);
        memory = rest;
    }
    parts
}

impl CollectiveCall<'_> {
    /// Exchanges the parts of all arrays: one message for each rank of another node, one bulk exchange inside the node.
    pub(crate) fn all_to_all_arrays(&self, arrays: &mut [ExchangedBytes<'_>]) -> Result<()> {
        for rank in self.off_node_ranks() {
            let parts: Vec<&[u8]> = arrays.iter().map(|array| array.part(rank)).collect();
            self.send(rank, parts.concat())?;
        }
        let bounds = self.exchange_bounds(arrays)?;
        let sends: Vec<&[u8]> = arrays.iter().map(|array| array.send).collect();
        let mut wrong = None;
        let neighbours = self.topology().neighbours(self.rank());
        let mut places: Vec<Vec<&mut [u8]>> = Vec::with_capacity(arrays.len());
        for array in arrays.iter_mut() {
            places.push(split(array.receive, &array.receive_lengths));
        }
        let mut reads = Vec::with_capacity(sends.len() * neighbours.len());
        for (number, places) in places.iter_mut().enumerate() {
            for (from, rank) in neighbours.iter().enumerate() {
                let [start, end] = bounds[from * sends.len() + number];
                let into = std::mem::take(&mut places[*rank]);
                // All ranks take part in the exchange before one of them fails.
                if end - start == into.len() {
                    reads.push(BulkRead { from, position: start, into });
                } else {
                    wrong = wrong.or(Some(*rank));
                }
            }
        }
        // Each rank starts with another one, so that not all ranks read from the same rank at once.
        let first = self.node_exchange().rank().min(reads.len());
        reads.rotate_left(first);
        self.node_exchange().exchange_bulk(self.id, &sends, &mut reads)?;
        for rank in self.off_node_ranks() {
            let body = self.receive(rank)?;
            let expected: usize = places.iter().map(|places| places[rank].len()).sum();
            if body.bytes().len() != expected {
                wrong = wrong.or(Some(rank));
                continue;
            }
            let mut rest = body.bytes();
            for places in &mut places {
                let (now, later) = rest.split_at(places[rank].len());
                places[rank].copy_from_slice(now);
                rest = later;
            }
        }
        wrong.map_or(Ok(()), |rank| Err(self.size_mismatch(rank)))
    }

    /// Where the parts for this rank lie among the bytes that each rank of its node sends: for each rank, for each array,
    /// start and end.
    fn exchange_bounds(&self, arrays: &[ExchangedBytes<'_>]) -> Result<Vec<[usize; 2]>> {
        let exchange = self.node_exchange();
        let neighbours = self.topology().neighbours(self.rank());
        let mut table = vec![[0usize; 2]; neighbours.len() * arrays.len()];
        let mut before = 0;
        for (number, array) in arrays.iter().enumerate() {
            let mut start = before;
            for (rank, length) in array.send_lengths.iter().enumerate() {
                if let Some(place) = neighbours.iter().position(|neighbour| *neighbour == rank) {
                    table[place * arrays.len() + number] = [start, start + length];
                }
                start += length;
            }
            before += array.send.len();
        }
        let mut bounds = vec![[0usize; 2]; neighbours.len() * arrays.len()];
        let position = exchange.rank() * arrays.len() * size_of::<[usize; 2]>();
        let rows = bounds.chunks_mut(arrays.len().max(1)).enumerate();
        let mut reads: Vec<_> = rows
            .map(|(from, row)| BulkRead { from, position, into: bytemuck::cast_slice_mut(row) })
            .collect();
        exchange.exchange_bulk(self.id, &[bytemuck::cast_slice(&table)], &mut reads)?;
        Ok(bounds)
    }
}
