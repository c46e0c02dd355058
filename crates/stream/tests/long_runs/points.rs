//! Points in the order of a list: random lists, decompositions, modes and files of the same bytes.

use aqueduct_comm::{Comm, Launch};
use aqueduct_stream::{Error, Kind, Options, OutputMode, Reader, Stream, Streams};
use aqueduct_testkit::rng::SeededRng;

use crate::fixed_steps::MODES;

const SIZE: u64 = 60;

/// The owner of a point among ranks that hold blocks of different sizes.
fn blocks(seed: &mut SeededRng, ranks: usize) -> Vec<(u64, u64)> {
    let mut borders: Vec<u64> = (1..ranks).map(|_| seed.number() % (SIZE + 1)).collect();
    borders.extend([0, SIZE]);
    borders.sort_unstable();
    borders.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

#[test]
fn points_are_stored_in_the_order_of_the_list() {
    for number in 0..80 {
        let mut seed = SeededRng::new(number);
        let ranks = 1 + seed.below(5);
        let blocks = blocks(&mut seed, ranks);
        let list: Vec<u64> = (0..seed.below(50)).map(|_| seed.number() % SIZE).collect();
        let mode = MODES[seed.below(3)];
        let name = format!("memfs:listed-{number}");
        let program = |world: &Comm| {
            let (start, end) = blocks[world.rank()];
            let mine = list.iter().enumerate().filter(|(_, point)| (start..end).contains(*point));
            let mine: Vec<(u64, u64)> = mine.map(|(number, point)| (number as u64, *point)).rev().collect();
            let mut streams = Streams::new();
            let stream = Stream::array("sensor", [SIZE]).block([start], [end - start]).listed_points(mine);
            let key = streams.add::<u16>(stream);
            let mut output = Options::new().mode(mode).memory(1000).create(world, &name, &streams)?;
            for step in 0..3 {
                let values: Vec<u16> = (start..end).map(|point| (100 * step + point) as u16).collect();
                output.step()?.put(key, &values).commit()?;
            }
            output.finish()?;
            let reader = Reader::open(world, &name)?;
            assert_eq!(reader.points("sensor")?, list, "seed {number}");
            for stored in reader.stored_steps() {
                let expected: Vec<u16> =
                    list.iter().map(|point| (100 * stored.step + point) as u16).collect();
                assert_eq!(reader.read::<u16>("sensor", stored)?, expected, "seed {number}");
            }
            Ok::<_, Error>(())
        };
        Launch::threads(ranks).run(program).unwrap();
    }
}

#[test]
fn numbers_that_are_given_twice_or_not_at_all_are_refused() {
    for (numbers, words) in
        [([0, 1, 1, 2], "two points have the number 1"), ([0, 1, 2, 4], "has the number 4")]
    {
        let program = |world: &Comm| {
            let first = 2 * world.rank();
            let mine = (first..first + 2).map(|at| (numbers[at], at as u64));
            let mut streams = Streams::new();
            streams.add::<f64>(Stream::array("sensor", [4]).block([first as u64], [2]).listed_points(mine));
            let created = Options::new().mode(OutputMode::Blocking).create(world, "memfs:numbers", &streams);
            let error = created.map(drop).unwrap_err();
            assert!(error.kind() == Kind::BadArgument && error.detail().contains(words), "{error}");
            Ok::<_, Error>(())
        };
        Launch::threads(2).run(program).unwrap();
    }
}
