//! The node of each rank, computed from the machine of each rank.

/// The ranks of a communicator grouped by node. Nodes are ordered by their lowest rank, which is the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Topology {
    /// The node of each rank.
    node_of: Vec<u32>,
    /// The ranks of each node, ascending.
    nodes: Vec<Vec<usize>>,
}

impl Topology {
    /// Groups ranks with equal machines.
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

    /// The index of the rank on its node.
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

    /// True if each node has consecutive ranks, so that the order of nodes is the order of ranks.
    pub(crate) fn in_order(&self) -> bool {
        self.node_of.is_sorted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_with_equal_machines_are_one_node() {
        let topology = Topology::new([7, 3, 7, 7, 3]);
        assert_eq!(topology.nodes(), [vec![0, 2, 3], vec![1, 4]]);
        assert_eq!((topology.node_of(4), topology.local_rank(4), topology.leader(1)), (1, 1, 1));
        assert!(!topology.in_order());
        assert!(Topology::new([1, 1, 2]).in_order());
    }
}
