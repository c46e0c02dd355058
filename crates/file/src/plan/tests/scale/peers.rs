//! What the MPI libraries' own MPI-IO needs for the same writes, by their algorithms: formulas, with the assumptions that favour them. Their sources
//! are described in `docs/scale.md`.

use super::pattern::{Kind, total};

const BUFFER: u64 = 4 << 20;

/// ROMIO: one aggregator per node. Every rank holds the first and last offset of all (16 B), counts and displacements to all (16 B); its own
/// flattened list (16 B a segment) and that of what it sends (16 B a segment). An aggregator holds the lists of all segments in
/// its domain besides (16 B each).
pub(crate) fn romio_memory(kind: Kind, ranks: usize, per_node: usize) -> u64 {
    let (ranks, nodes) = (ranks as u64, ranks.div_ceil(per_node) as u64);
    let domain = kind.segments() * ranks / nodes;
    32 * ranks + 32 * kind.segments() + 16 * domain
}

/// ROMIO: two allgathers, two allreduces, an alltoall of counts and one per round, each in as many messages as a tree has levels, the fewest that
/// any algorithm needs; a list to each aggregator that it has something for, and its data, one message to each of them per round.
pub(crate) fn romio_messages(kind: Kind, ranks: usize, per_node: usize) -> u64 {
    let (count, nodes) = (ranks as u64, ranks.div_ceil(per_node) as u64);
    let rounds = rounds(ranks, per_node);
    let (aggregators, windows) = match kind {
        Kind::Contiguous => (1, rounds),
        // A block of planes reaches through as many domains as its planes do.
        Kind::Blocks => {
            let domains = nodes.div_ceil(1 << u64::from(count.ilog2()).div_ceil(3));
            (domains, domains * rounds)
        }
        Kind::RoundRobin(_) => (nodes.min(kind.segments()), (nodes * rounds).min(kind.segments())),
    };
    (5 + rounds) * u64::from(count.ilog2()) + aggregators + windows
}

/// ROMIO: bytes of offsets and counts that reach every rank: two allgathers (8 B of each rank) and the alltoalls (4 B of each).
pub(crate) fn romio_numbers(ranks: usize, per_node: usize) -> u64 {
    (16 + 4 * (1 + rounds(ranks, per_node))) * ranks as u64
}

fn rounds(ranks: usize, per_node: usize) -> u64 {
    total(ranks).div_ceil(ranks.div_ceil(per_node) as u64).div_ceil(BUFFER)
}

/// OMPIO: `set_view` keeps a square of 4-byte numbers; a write gathers the segments of an aggregator's ranks at all of them (16 B each).
pub(crate) fn ompio_memory(kind: Kind, ranks: usize, per_node: usize) -> u64 {
    let (ranks, per_node) = (ranks as u64, per_node.min(ranks) as u64);
    4 * ranks * ranks + 16 * kind.segments() * per_node
}
