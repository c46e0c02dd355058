//! Invalid calls: each is an error that names the problem, and the communicator still works.

use aqueduct_comm::{Comm, Kind, Op};

use super::Entry;

pub(super) const CASES: &[Entry] = &[
    ("ranks that do not exist are refused", no_such_rank),
    ("lengths that do not fit are refused", lengths),
    ("floats have no bits to reduce", float_bits),
    ("different calls are noticed and named", different_calls),
    ("different roots are noticed and named", different_roots),
    ("different sizes are noticed and named", different_sizes),
    ("different reductions are noticed and named", different_reductions),
];

fn no_such_rank(world: &Comm) {
    let none = world.size();
    let errors = [
        world.send(none, 0, &[0u8]).unwrap_err(),
        world.receive::<u8>(none, 0).unwrap_err(),
        world.probe(none, 0).unwrap_err(),
        world.broadcast(none, &mut [0u8]).unwrap_err(),
        world.gather(none, &[0u8]).unwrap_err(),
        world.reduce(none, Op::Sum, &[0u8]).unwrap_err(),
        world.scatter::<u8>(none, &[]).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), Kind::InvalidArgument);
        assert!(error.to_string().contains(&format!("rank {none} does not exist")), "{error}");
    }
}

fn lengths(world: &Comm) {
    let size = world.size();
    let errors = [
        world.allgather_into(&[1u8], &mut vec![0; size + 1]).unwrap_err(),
        world.all_to_all_into(&vec![0u8; size], &mut vec![0; size + 1]).unwrap_err(),
        world.all_to_all_varied::<u8, Vec<u8>>(&vec![vec![]; size + 1]).unwrap_err(),
    ];
    assert!(errors.iter().all(|error| error.kind() == Kind::InvalidArgument));
    if size > 1 {
        assert_eq!(world.all_to_all(&vec![0u8; size + 1]).unwrap_err().kind(), Kind::InvalidArgument);
        // Only the root can detect it; the other ranks get an error too.
        let own = world.rank() == 0;
        let wanted = if own { Kind::InvalidArgument } else { Kind::Mismatch };
        assert_eq!(world.scatter(0, &vec![0u8; size + 1]).unwrap_err().kind(), wanted);
        let parts = vec![vec![0u8]; size + 1];
        assert_eq!(world.scatter_varied(0, &parts).unwrap_err().kind(), wanted);
    }
}

fn float_bits(world: &Comm) {
    assert_eq!(world.allreduce_one(Op::And, 1.0f32).unwrap_err().kind(), Kind::InvalidArgument);
}

/// Every rank must get an error that names a rank which did something else; after it, the communicator still works.
fn all_differ(world: &Comm, outcome: aqueduct_comm::Result<()>, words: [&str; 2]) {
    if world.size() == 1 {
        return;
    }
    let error = outcome.expect_err("ranks that made different calls");
    assert_eq!(error.kind(), Kind::Mismatch, "{error}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    assert_eq!(world.allreduce_one(Op::Sum, 1usize).unwrap(), world.size());
}

fn first(world: &Comm) -> bool {
    world.rank() == 0
}

fn different_calls(world: &Comm) {
    let outcome = if first(world) { world.barrier() } else { world.allgather(&[1u8]).map(|_| ()) };
    all_differ(world, outcome, ["rank 0 barrier()", "allgather(1 bytes)"]);
}

fn different_roots(world: &Comm) {
    let root = usize::from(first(world) && world.size() > 1);
    let outcome = world.broadcast(root, &mut [0u8; 4]);
    all_differ(world, outcome, ["rank 0 broadcast(root 1, 4 bytes)", "broadcast(root 0, 4 bytes)"]);
}

fn different_sizes(world: &Comm) {
    let outcome = world.allreduce(Op::Sum, &vec![0u16; 1 + usize::from(first(world))]).map(|_| ());
    all_differ(world, outcome, ["rank 0 allreduce(4 bytes", "allreduce(2 bytes"]);
}

fn different_reductions(world: &Comm) {
    let op = if first(world) { Op::Min } else { Op::Max };
    let outcome = world.allreduce_one(op, 1u8).map(|_| ());
    all_differ(world, outcome, ["rank 0 allreduce", "variant"]);
}
