//! Processors for I/O threads: those to which no rank of the node is bound.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use aqueduct_comm::Comm;

use crate::write::thread_affinity;

/// The processors of a node, each with its core: the lowest processor of the core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeProcessors(BTreeMap<usize, usize>);

impl NodeProcessors {
    /// Those of this machine.
    fn read() -> Self {
        let folder = "/sys/devices/system/cpu";
        let online = fs::read_to_string(format!("{folder}/online")).unwrap_or_default();
        let core = |cpu: usize| {
            let siblings = fs::read_to_string(format!("{folder}/cpu{cpu}/topology/thread_siblings_list"));
            siblings.ok().and_then(|list| processors_of(&list).first().copied()).unwrap_or(cpu)
        };
        Self(processors_of(&online).into_iter().map(|cpu| (cpu, core(cpu))).collect())
    }

    /// The processor for the I/O thread of rank number `me` of those of a node, whose ranks may run on these processors.
    /// None if no rank is bound: then the system places all threads. Idle cores come first, then the sibling of the rank's
    /// own processor, then other siblings.
    pub(crate) fn for_io_thread(&self, ranks: &[Vec<usize>], me: usize) -> Option<usize> {
        let is_bound = |set: &&Vec<usize>| !set.is_empty() && set.len() < self.0.len();
        let busy: BTreeSet<usize> = ranks.iter().filter(is_bound).flatten().copied().collect();
        if busy.is_empty() {
            return None;
        }
        let core = |cpu: &usize| self.0.get(cpu).copied().unwrap_or(*cpu);
        let busy_cores: BTreeSet<usize> = busy.iter().map(core).collect();
        let own_cores: BTreeSet<usize> = ranks.get(me)?.iter().map(core).collect();
        let free: Vec<usize> = self.0.keys().copied().filter(|cpu| !busy.contains(cpu)).collect();
        let idle: Vec<usize> = free.iter().copied().filter(|cpu| !busy_cores.contains(&core(cpu))).collect();
        let sibling = || free.iter().copied().find(|cpu| own_cores.contains(&core(cpu)));
        let nth = |cpus: &[usize]| cpus.get(me % cpus.len().max(1)).copied();
        nth(&idle).or_else(sibling).or_else(|| nth(&free))
    }
}

/// The processors of a list such as `0-3,8`.
fn processors_of(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<usize>().ok()?, last.trim().parse::<usize>().ok()?);
        Some(first..=last.min(first.saturating_add(1 << 16)))
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// The processor for the I/O thread of this rank; none if no rank of its node is bound, or all processors are in use.
/// Collective.
pub(crate) fn find(comm: &Comm) -> aqueduct_comm::Result<Vec<usize>> {
    let mine: Vec<u64> = thread_affinity::allowed().into_iter().map(|cpu| cpu as u64).collect();
    let all = comm.allgather_varied(&mine)?;
    let node = comm.ranks_of_node(comm.node_of(comm.rank()));
    let sets: Vec<Vec<usize>> =
        node.iter().map(|rank| all[*rank].iter().map(|cpu| *cpu as usize).collect()).collect();
    let me = node.iter().position(|rank| *rank == comm.rank()).unwrap_or(0);
    let chosen = NodeProcessors::read().for_io_thread(&sets, me);
    // A control group may keep this process from the processor.
    Ok(chosen.filter(|cpu| thread_affinity::can_bind(*cpu)).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four cores of two processors each: 0 and 4, 1 and 5, …
    fn siblings() -> NodeProcessors {
        NodeProcessors((0..8).map(|cpu| (cpu, cpu % 4)).collect())
    }

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(processors_of("0-2,7,9-10\n"), [0, 1, 2, 7, 9, 10]);
        assert!(processors_of("").is_empty() && processors_of("x-1,-").is_empty());
        assert!(!NodeProcessors::read().0.is_empty());
    }

    #[test]
    fn idle_cores_come_before_siblings() {
        let node = siblings();
        let find = |ranks: &[Vec<usize>]| -> Vec<Option<usize>> {
            (0..ranks.len()).map(|me| node.for_io_thread(ranks, me)).collect()
        };
        // Cores 2 and 3 are idle, with both of their processors.
        assert_eq!(find(&[vec![0], vec![1], vec![4]]), [Some(2), Some(3), Some(6)]);
        // All cores have a rank: each thread runs beside its own rank.
        assert_eq!(find(&[vec![0], vec![1], vec![2], vec![3]]), [Some(4), Some(5), Some(6), Some(7)]);
        // Ranks on both processors of all cores but one.
        let ranks: Vec<Vec<usize>> = (0..7).map(|cpu| vec![cpu]).collect();
        assert_eq!(find(&ranks), vec![Some(7); 7]);
        let all: Vec<Vec<usize>> = (0..8).map(|cpu| vec![cpu]).collect();
        assert_eq!(find(&all), vec![None; 8]);
        // No rank is bound.
        assert_eq!(find(&[(0..8).collect(), (0..8).collect()]), [None, None]);
    }
}
