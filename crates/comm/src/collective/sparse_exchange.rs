//! Sparse exchange: each rank sends to few ranks, and the receivers do not know the senders.

use super::gather::RankBytes;
use super::{CollectiveCall, powers_below};
use crate::Result;

/// A message to be forwarded.
struct RoutedMessage {
    to: usize,
    from: usize,
    bytes: Vec<u8>,
}

/// Two ranks and the length, before the bytes.
const HEADER: usize = 16;

impl CollectiveCall<'_> {
    /// Sends each part to its rank; returns the parts sent to this rank, by sender. The node leaders forward parts along a hypercube: in step k
    /// by 2^k nodes if bit k of the remaining distance is set. Each leader sends ⌈log₂ nodes⌉ messages.
    pub(crate) fn route(&self, parts: &[(usize, Vec<u8>)]) -> Result<Vec<(usize, Vec<u8>)>> {
        let mine: Vec<u8> = parts.iter().flat_map(|(to, bytes)| encode(*to, self.rank(), bytes)).collect();
        let gathered = self.node_gather(Some(0), &mine)?;
        let mut outcome = Ok(());
        let mut local: RankBytes = Vec::new();
        if let Some(gathered) = gathered {
            let items = gathered.iter().filter_map(|bytes| decode(bytes)).flatten().collect();
            // A leader that received an invalid message still serves its node, with no messages.
            let arrived = self.forward_messages(items).unwrap_or_else(|error| {
                outcome = Err(error);
                Vec::new()
            });
            local = vec![Vec::new(); self.node_exchange().size()];
            for item in arrived.iter().filter(|item| self.topology().node_of(item.to) == self.node()) {
                local[self.topology().local_rank(item.to)].extend(encode(item.to, item.from, &item.bytes));
            }
        }
        let local: Vec<&[u8]> = local.iter().map(Vec::as_slice).collect();
        let received = self.node_scatter(0, &local)?;
        outcome?;
        let broken = || self.size_mismatch(self.topology().leader(self.node()));
        let mut received = decode(&received).ok_or_else(broken)?;
        received.sort_by_key(|item| item.from);
        Ok(received.into_iter().map(|item| (item.from, item.bytes)).collect())
    }

    fn forward_messages(&self, mut items: Vec<RoutedMessage>) -> Result<Vec<RoutedMessage>> {
        let (me, nodes) = (self.node(), self.topology().node_count());
        for distance in powers_below(nodes) {
            let leaves = |item: &RoutedMessage| {
                let remaining = (self.topology().node_of(item.to) + nodes - me) % nodes;
                remaining & distance != 0
            };
            let (leaving, staying): (Vec<RoutedMessage>, Vec<RoutedMessage>) =
                items.into_iter().partition(leaves);
            items = staying;
            let bytes: Vec<u8> =
                leaving.iter().flat_map(|item| encode(item.to, item.from, &item.bytes)).collect();
            self.send_to_node((me + distance) % nodes, bytes)?;
            let previous = (me + nodes - distance) % nodes;
            let body = self.receive_from_node(previous)?;
            let received =
                decode(body.bytes()).filter(|received| received.iter().all(|item| item.to < self.size()));
            items.extend(received.ok_or_else(|| self.size_mismatch(self.topology().leader(previous)))?);
        }
        Ok(items)
    }
}

fn encode(to: usize, from: usize, bytes: &[u8]) -> Vec<u8> {
    let mut item = Vec::with_capacity(HEADER + bytes.len());
    item.extend_from_slice(&(to as u32).to_le_bytes());
    item.extend_from_slice(&(from as u32).to_le_bytes());
    item.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    item.extend_from_slice(bytes);
    item
}

/// The messages in the bytes; none if the bytes are invalid.
fn decode(mut bytes: &[u8]) -> Option<Vec<RoutedMessage>> {
    let mut items = Vec::new();
    while !bytes.is_empty() {
        let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let len = usize::try_from(u64::from(word(8)) | u64::from(word(12)) << 32).ok()?;
        let (content, later) = rest.split_at_checked(len)?;
        items.push(RoutedMessage { to: word(0) as usize, from: word(4) as usize, bytes: content.to_vec() });
        bytes = later;
    }
    Some(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_decoded_and_truncated_ones_are_rejected() {
        let bytes = [encode(3, 1, b"abc"), encode(0, 2, b"")].concat();
        let items = decode(&bytes).unwrap();
        let seen: Vec<_> = items.iter().map(|item| (item.to, item.from, item.bytes.as_slice())).collect();
        assert_eq!(seen, [(3, 1, &b"abc"[..]), (0, 2, &b""[..])]);
        let whole = HEADER + 3;
        for cut in (1..bytes.len()).filter(|cut| *cut != whole) {
            assert!(decode(&bytes[..cut]).is_none(), "cut at {cut}");
        }
    }
}
