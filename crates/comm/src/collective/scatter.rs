//! Scatter: the parts of one rank at all ranks.

use super::{CollectiveCall, packed_list};
use crate::Result;
use crate::node::node_exchange::BulkRead;

impl CollectiveCall<'_> {
    /// Part `r` of `root`'s parts at rank `r`; parts may have any lengths. Only `root` gives parts.
    pub(crate) fn scatter_varied(&self, root: usize, parts: &[&[u8]]) -> Result<Vec<u8>> {
        let topology = self.topology();
        let home = topology.node_of(root);
        if self.rank() == root {
            for (node, ranks) in topology.nodes().iter().enumerate().filter(|(node, _)| *node != home) {
                let items: Vec<&[u8]> = ranks.iter().map(|rank| parts[*rank]).collect();
                self.send_to_node(node, packed_list::encode(&items))?;
            }
        }
        if self.node() == home {
            let mut local = Vec::new();
            if self.rank() == root {
                local = topology.nodes()[home].iter().map(|rank| parts[*rank]).collect();
            }
            return self.node_scatter(topology.local_rank(root), &local);
        }
        if !self.is_leader() {
            return self.node_scatter(0, &[]);
        }
        let body = self.receive(root)?;
        let items =
            packed_list::decode(body.bytes()).filter(|items| items.len() == self.node_exchange().size());
        // A leader with an invalid message still serves its node with empty parts; only it returns the error.
        let empty = vec![&[][..]; self.node_exchange().size()];
        let mine = self.node_scatter(0, items.as_ref().unwrap_or(&empty))?;
        if items.is_none() { Err(self.size_mismatch(root)) } else { Ok(mine) }
    }

    /// Inside the node, from local rank `place`.
    pub(super) fn node_scatter(&self, place: usize, parts: &[&[u8]]) -> Result<Vec<u8>> {
        let starts = starts(parts.iter().map(|part| part.len()));
        let [start, end] = self.node_bounds(place, &starts)?;
        let mut mine = vec![0; end - start];
        let read = BulkRead { from: place, position: start, into: &mut mine };
        self.node_exchange().exchange_bulk(self.id, parts, &mut [read])?;
        Ok(mine)
    }

    /// Start and end of this rank's part in the data of local rank `place`, which publishes the starts of all parts.
    fn node_bounds(&self, place: usize, starts: &[usize]) -> Result<[usize; 2]> {
        let mut bounds = [0usize; 2];
        let position = self.node_exchange().rank() * size_of::<usize>();
        let read = BulkRead { from: place, position, into: bytemuck::cast_slice_mut(&mut bounds) };
        let mine: &[u8] = bytemuck::cast_slice(starts);
        self.node_exchange().exchange_bulk(
            self.id,
            &[if self.node_exchange().rank() == place { mine } else { &[] }],
            &mut [read],
        )?;
        Ok(bounds)
    }
}

/// The start of each of consecutive parts, and the end of the last one.
pub(super) fn starts(lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut starts = vec![0];
    let mut end = 0;
    starts.extend(lengths.map(|length| {
        end += length;
        end
    }));
    starts
}
