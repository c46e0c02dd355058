//! Which ranks share a node: pure arithmetic on the machine of each rank.

/// The ranks of a communicator grouped by node. Nodes are ordered by their lowest rank, which leads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Topology {
    /// The node of each rank.
    node_of: Vec<u32>,
    /// The ranks of each node, ascending.
    nodes: Vec<Vec<usize>>,
}

impl Topology {
    /// Groups ranks whose machines are equal.
    pub(crate) fn new<M: Eq + std::hash::Hash>(machines: impl IntoIterator<Item = M>) -> Self {
        let mut known = std::collections::HashMap::new();
        let mut nodes: Vec<Vec<usize>> = Vec::new();
        let mut node_of = Vec::new();
        for (rank, machine) in machines.into_iter().enumerate() {
            let node = *known.entry(machine).or_insert_with(|| {
                nodes.push(Vec::new());
                nodes.len() - 1
            });
            nodes[node].push(rank);
            node_of.push(node as u32);
        }
        Self { node_of, nodes }
    }

    pub(crate) fn node_of(&self, rank: usize) -> usize {
        self.node_of[rank] as usize
    }

    /// The ranks on the node of `rank`.
    pub(crate) fn neighbours(&self, rank: usize) -> &[usize] {
        &self.nodes[self.node_of(rank)]
    }

    /// The rank's place among those of its node.
    pub(crate) fn local_rank(&self, rank: usize) -> usize {
        self.neighbours(rank).binary_search(&rank).expect("a rank is on its own node")
    }

    pub(crate) fn leader(&self, node: usize) -> usize {
        self.nodes[node][0]
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn nodes(&self) -> &[Vec<usize>] {
        &self.nodes
    }

    /// Whether each node holds consecutive ranks, so that going through nodes in order is going through ranks in order.
    pub(crate) fn in_order(&self) -> bool {
        self.node_of.is_sorted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_machines_make_a_node() {
        let topology = Topology::new([7, 3, 7, 7, 3]);
        assert_eq!(topology.nodes(), [vec![0, 2, 3], vec![1, 4]]);
        assert_eq!((topology.node_of(4), topology.local_rank(4), topology.leader(1)), (1, 1, 1));
        assert!(!topology.in_order());
        assert!(Topology::new([1, 1, 2]).in_order());
    }
}
