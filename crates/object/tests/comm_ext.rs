//! Messages of objects between thread ranks; `mpi.rs` runs the same cases under MPI.

#[path = "cases/comm_ext.rs"]
mod comm_ext;

use aqueduct_comm::Launch;

#[test]
fn all_calls_on_all_ranks() {
    for (ranks, per_node) in [(1, 1), (2, 2), (3, 3), (4, 2), (5, 1)] {
        Launch::threads(ranks).node_ranks(per_node).run(comm_ext::all).unwrap();
    }
}
