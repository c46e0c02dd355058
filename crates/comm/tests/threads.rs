//! The conformance suite on thread ranks, on one node and on several simulated nodes.

use aqueduct_comm::{Error, Kind, Launch};
use aqueduct_testkit::transport::conformance;

fn check(launch: &Launch) {
    let counts = launch.run(|world| Ok::<_, Error>(conformance(world))).unwrap();
    assert!(counts.iter().all(|count| *count > 40), "{counts:?}");
}

macro_rules! sizes {
    ($($name:ident: $launch:expr;)*) => {$(
        #[test]
        fn $name() {
            check(&$launch);
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

/// Deferred work gets whether the program of its rank succeeded; false if it returned an error or panicked.
#[test]
fn deferred_work_is_done_at_the_end_of_every_program() {
    for (ending, expected) in [("success", true), ("error", false), ("panic", false)] {
        let (sender, receiver) = std::sync::mpsc::channel();
        let run = Launch::threads(2).run(|world| {
            let sender = sender.clone();
            world.defer_to_end(move |succeeded| sender.send(succeeded).unwrap());
            match ending {
                "error" => Err(Error::new(Kind::InvalidArgument, "test", "it fails")),
                "panic" => panic!("it fails"),
                _ => Ok(()),
            }
        });
        assert_eq!(run.is_ok(), expected, "{ending}");
        assert_eq!(receiver.try_iter().collect::<Vec<bool>>(), [expected; 2], "{ending}");
    }
}
