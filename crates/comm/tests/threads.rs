//! The conformance suite on thread ranks, on one node and on pretended several.

use aqueduct_comm::{Error, Launch};
use aqueduct_testkit::transport::conformance;

fn judge(launch: &Launch) {
    let counts = launch.run(|world| Ok::<_, Error>(conformance(world))).unwrap();
    assert!(counts.iter().all(|count| *count > 40), "{counts:?}");
}

macro_rules! sizes {
    ($($name:ident: $launch:expr;)*) => {$(
        #[test]
        fn $name() {
            judge(&$launch);
        }
    )*};
}

sizes! {
    one_rank: Launch::threads(1);
    two_ranks: Launch::threads(2);
    three_ranks: Launch::threads(3);
    four_ranks: Launch::threads(4);
    seven_ranks: Launch::threads(7);
    sixteen_ranks: Launch::threads(16);
    two_nodes_of_one: Launch::threads(2).node_ranks(1);
    two_nodes_of_two: Launch::threads(4).node_ranks(2);
    five_ranks_on_three_nodes: Launch::threads(5).node_ranks(2);
    seven_nodes_of_one: Launch::threads(7).node_ranks(1);
    sixteen_ranks_on_six_nodes: Launch::threads(16).node_ranks(3);
}
