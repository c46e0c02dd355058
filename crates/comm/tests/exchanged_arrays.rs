//! All-to-all of uneven parts of several arrays, into memory of the caller: the parts of the model over any nodes.

use aqueduct_comm::{Comm, Error, ExchangedArray, Kind, Launch, Result};
use aqueduct_testkit::rng::SeededRng;

/// Exchanges two arrays at once: the parts, and the parts in twice the number.
fn check_arrays(comm: &Comm, mine: &[Vec<u64>], expected: &[Vec<u64>]) -> Result<()> {
    let counts =
        |parts: &[Vec<u64>], times: usize| parts.iter().map(|part| times * part.len()).collect::<Vec<_>>();
    let twice = |parts: &[Vec<u64>]| parts.iter().flat_map(|part| part.repeat(2)).collect::<Vec<_>>();
    let (send, wide) = (mine.concat(), twice(mine));
    let (mut received, mut wide_received) =
        (vec![u64::MAX; expected.concat().len()], vec![u64::MAX; twice(expected).len()]);
    let arrays = [(&send, &mut received, 1), (&wide, &mut wide_received, 2)];
    let counts: Vec<_> =
        arrays.iter().map(|(_, _, times)| (counts(mine, *times), counts(expected, *times))).collect();
    let arrays =
        arrays.into_iter().zip(&counts).map(|((send, receive, _), (send_counts, receive_counts))| {
            ExchangedArray { send, send_counts, receive, receive_counts }
        });
    comm.all_to_all_varied_into(&mut arrays.collect::<Vec<_>>())?;
    assert_eq!((received, wide_received), (expected.concat(), twice(expected)));
    Ok(())
}

/// The values that a rank sends to another one: up to 40, or 10,000 of them.
fn part(seed: u64, from: usize, to: usize) -> Vec<u64> {
    let mut random = SeededRng::new(seed * 10_000 + (from * 100 + to) as u64);
    let most = if random.below(6) == 0 { 10_000 } else { 40 };
    (0..random.below(most) as u64).map(|at| at * 1000 + (from * 100 + to) as u64).collect()
}

#[test]
fn parts_of_any_lengths_arrive_over_any_nodes() {
    for (ranks, per_node) in [(1, 1), (4, 4), (7, 1), (7, 2), (6, 3), (5, 5)] {
        let program = |world: &Comm| {
            for seed in 0..6 {
                let me = world.rank();
                let mine: Vec<_> = (0..ranks).map(|to| part(seed, me, to)).collect();
                let expected: Vec<_> = (0..ranks).map(|from| part(seed, from, me)).collect();
                check_arrays(world, &mine, &expected)?;
            }
            world.all_to_all_varied_into::<u8>(&mut [])
        };
        Launch::threads(ranks).node_ranks(per_node).run(program).unwrap();
    }
}

/// A part of another length than its receiver expects is an error of the receiver, and no rank waits for ever.
#[test]
fn a_part_of_another_length_fails_the_exchange_of_its_receiver() {
    for nodes in [3, 1] {
        let program = |world: &Comm| {
            let (send, mut receive) = ([world.rank() as u8; 3], [9u8; 4]);
            let extra = usize::from(world.rank() == 1);
            let receive_counts = [1, 1, 1 + extra];
            let array = ExchangedArray {
                send: &send,
                send_counts: &[1; 3],
                receive: &mut receive[..3 + extra],
                receive_counts: &receive_counts,
            };
            let outcome = world.all_to_all_varied_into(&mut [array]);
            assert_eq!(outcome.is_err(), world.rank() == 1, "{outcome:?}");
            if let Err(error) = outcome {
                assert!(error.kind() == Kind::Mismatch && error.to_string().contains("rank 2"), "{error}");
            }
            Ok::<_, Error>(())
        };
        Launch::threads(3).node_ranks(nodes).run(program).unwrap();
    }
}
