//! Objects between ranks that are threads; `mpi.rs` has the same under MPI.

#[path = "cases/talk.rs"]
mod talk;

use aqueduct_comm::Launch;

#[test]
fn all_calls_on_all_ranks() {
    for (ranks, per_node) in [(1, 1), (2, 2), (3, 3), (4, 2), (5, 1)] {
        Launch::threads(ranks).node_ranks(per_node).run(talk::all).unwrap();
    }
}
