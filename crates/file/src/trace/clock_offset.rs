//! The offset of the clocks of several nodes, measured by messages to and fro.
//!
//! F. Cristian, "Probabilistic clock synchronization", 1989, <https://doi.org/10.1007/BF01784024>: of several round trips the shortest one
//! bounds the error by half of its time.

use aqueduct_comm::{Comm, Op, Result};

use super::call_clock::now;
use super::rank_recorder::{FileTrace, record_offset};

/// Round trips between two nodes.
const ROUND_TRIPS: usize = 8;
const TAG: u32 = 0x7472;

/// Measures the offsets of all nodes to the first one, and records that of this rank's node. Collective; nothing is done on one node.
pub(crate) fn measure_offset(comm: &Comm, trace: Option<&FileTrace>) -> Result<()> {
    let nodes = comm.node_count();
    if nodes == 1 {
        return Ok(());
    }
    let leader = |node: usize| comm.ranks_of_node(node).first().copied().unwrap_or(0);
    let (rank, own_node) = (comm.rank(), comm.node_of(comm.rank()));
    let mut offsets = vec![0i64; nodes];
    if rank == leader(0) {
        for (node, offset) in offsets.iter_mut().enumerate().skip(1) {
            let mut shortest = u64::MAX;
            for _ in 0..ROUND_TRIPS {
                let start = now();
                comm.send(leader(node), TAG, &[start])?;
                let (times, _) = comm.receive::<u64>(leader(node), TAG)?;
                let end = now();
                if end - start < shortest {
                    shortest = end - start;
                    *offset = times.first().copied().unwrap_or(0) as i64 - (start + shortest / 2) as i64;
                }
            }
        }
    } else if rank == leader(own_node) {
        for _ in 0..ROUND_TRIPS {
            comm.receive::<u64>(leader(0), TAG)?;
            comm.send(leader(0), TAG, &[now()])?;
        }
    }
    let all = comm.allreduce(Op::Sum, &offsets)?;
    if let Some(trace) = trace {
        record_offset(trace, all[own_node]);
    }
    Ok(())
}
