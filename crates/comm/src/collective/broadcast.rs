//! Broadcast: the bytes of one rank at all ranks.

use super::{CollectiveCall, powers_below};
use crate::Result;
use crate::node::node_exchange::{BulkRead, SMALL_MAX};

impl CollectiveCall<'_> {
    /// Fills `bytes` of every rank with those of `root`; all have the same length.
    pub(crate) fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        let home = self.topology().node_of(root);
        if self.node() == home {
            self.node_broadcast(self.topology().local_rank(root), bytes)?;
        }
        if self.is_leader() {
            self.broadcast_to_leaders(home, bytes)?;
        }
        if self.node() != home {
            self.node_broadcast(0, bytes)?;
        }
        Ok(())
    }

    /// Down a binomial tree of the node leaders, from that of node `home`.
    pub(super) fn broadcast_to_leaders(&self, home: usize, bytes: &mut [u8]) -> Result<()> {
        let nodes = self.topology().node_count();
        let place = (self.node() + nodes - home) % nodes;
        for distance in powers_below(nodes) {
            if place < distance {
                if place + distance < nodes {
                    self.send_to_node((place + distance + home) % nodes, bytes.to_vec())?;
                }
            } else if place < 2 * distance {
                let parent = (place - distance + home) % nodes;
                let body = self.receive_from_node(parent)?;
                if body.bytes().len() != bytes.len() {
                    return Err(self.size_mismatch(self.topology().leader(parent)));
                }
                bytes.copy_from_slice(body.bytes());
            }
        }
        Ok(())
    }

    /// Inside the node, from local rank `place`; all ranks know the length.
    pub(super) fn node_broadcast(&self, place: usize, bytes: &mut [u8]) -> Result<()> {
        let (exchange, mine) = (self.node_exchange(), self.node_exchange().rank() == place);
        if exchange.size() == 1 {
            return Ok(());
        }
        if bytes.len() <= SMALL_MAX {
            let message = if mine { bytes.to_vec() } else { Vec::new() };
            return exchange.exchange_small(self.id, &message, |rank, theirs| {
                if rank == place && theirs.len() == bytes.len() {
                    bytes.copy_from_slice(theirs);
                }
            });
        }
        if mine {
            exchange.exchange_bulk(self.id, &[bytes], &mut [])
        } else {
            exchange.exchange_bulk(self.id, &[], &mut [BulkRead { from: place, position: 0, into: bytes }])
        }
    }

    /// Inside the node, from local rank `place`; only this rank knows the length.
    pub(super) fn node_broadcast_varied(&self, place: usize, bytes: Vec<u8>) -> Result<Vec<u8>> {
        let mut len = 0;
        self.node_exchange().exchange_small(
            self.id,
            &(bytes.len() as u64).to_le_bytes(),
            |rank, theirs| {
                if rank == place {
                    len = theirs.first_chunk().map_or(0, |len| u64::from_le_bytes(*len) as usize);
                }
            },
        )?;
        let mut bytes = if self.node_exchange().rank() == place { bytes } else { vec![0; len] };
        self.node_broadcast(place, &mut bytes)?;
        Ok(bytes)
    }
}
