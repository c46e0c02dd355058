//! Streams of every kind, on every number of ranks, in every mode: the file holds the values of the model.

#[path = "cases/all_streams.rs"]
mod all_streams;
#[path = "cases/model.rs"]
mod model;

use all_streams::{Cut, check, check_end, write};
use aqueduct_comm::Launch;
use aqueduct_stream::{Error, Options, OutputMode, Reader};

/// More than a cycle of every reduction, and a part of another one.
const STEPS: u64 = 7;

fn round(launch: &Launch, ranks: usize, name: &str, options: &Options, cut: Cut) {
    let reports = launch.clone().ranks(ranks).run(|world| write(world, name, options, cut, STEPS)).unwrap();
    for report in reports {
        assert_eq!(report.steps, STEPS);
        assert!(report.memory_peak <= report.memory_cap, "{report:?}");
    }
    // Read by another number of ranks.
    let read = |world: &aqueduct_comm::Comm| {
        let reader = Reader::open(world, name)?;
        check(&reader, ranks, 0..STEPS);
        check_end(&reader, STEPS);
        Ok::<_, Error>(())
    };
    Launch::threads(1 + ranks % 3).run(read).unwrap();
}

fn every_number_of_ranks(name: &str, options: &Options) {
    for ranks in 1..=7 {
        for (axis, uneven, halo) in [(0, false, 0), (1, true, 1), (2, false, 2)] {
            let cut = Cut { axis, uneven, halo };
            round(&Launch::threads(ranks), ranks, &format!("memfs:{name}-{ranks}-{axis}"), options, cut);
        }
        let cut = Cut { axis: 0, uneven: true, halo: 1 };
        for per_node in [1, 2, 3] {
            let launch = Launch::threads(ranks).node_ranks(per_node);
            round(&launch, ranks, &format!("memfs:{name}-{ranks}-nodes-{per_node}"), options, cut);
        }
    }
}

#[test]
fn blocking() {
    every_number_of_ranks("blocking", &Options::new().replace().mode(OutputMode::Blocking));
}

#[test]
fn thread() {
    every_number_of_ranks("thread", &Options::new().replace().mode(OutputMode::Thread));
}

#[test]
fn leaders() {
    every_number_of_ranks("leaders", &Options::new().replace().mode(OutputMode::Leaders));
    for size in [1, 2, 3] {
        let options = Options::new().replace().mode(OutputMode::Leaders).group(size);
        every_number_of_ranks(&format!("leaders-of-{size}"), &options);
    }
}

#[test]
fn auto() {
    every_number_of_ranks("auto", &Options::new().replace());
}

#[test]
fn steps_larger_than_the_memory() {
    for (buffers, memory) in [(1, 64), (2, 128), (2, 1000), (3, 5000)] {
        for mode in [OutputMode::Blocking, OutputMode::Thread, OutputMode::Leaders] {
            // Gathering needs five more buffers.
            let memory = if mode == OutputMode::Leaders {
                memory / buffers as u64 * (buffers as u64 + 5)
            } else {
                memory
            };
            let options =
                Options::new().replace().mode(mode).buffers(buffers).memory(memory).durable_every(2);
            let cut = Cut { axis: 0, uneven: true, halo: 0 };
            for ranks in [1, 2, 5] {
                let name = format!("memfs:tight-{buffers}-{memory}-{mode:?}-{ranks}");
                round(&Launch::threads(ranks), ranks, &name, &options, cut);
            }
        }
    }
}

/// All modes write the same bytes.
#[test]
fn modes_write_the_same_data() {
    let bytes = |name: &str, options: &Options| {
        let name = format!("memfs:{name}");
        let cut = Cut { axis: 1, uneven: false, halo: 0 };
        Launch::threads(3).run(|world| write(world, &name, options, cut, STEPS)).unwrap();
        let read = |world: &aqueduct_comm::Comm| {
            let file = aqueduct_file::File::open(world, &name)?;
            let mut bytes = vec![0u8; file.size()? as usize];
            file.at(0).read(&mut bytes)?;
            Ok::<_, aqueduct_file::Error>(bytes)
        };
        Launch::threads(1).run(read).unwrap().remove(0)
    };
    let blocking = bytes("same-blocking", &Options::new().replace().mode(OutputMode::Blocking));
    assert!(blocking.len() > 10000);
    let tight = Options::new().replace().mode(OutputMode::Thread).memory(600);
    assert!(blocking == bytes("same-thread", &tight));
    assert!(blocking == bytes("same-auto", &Options::new().replace()));
    assert!(blocking == bytes("same-leaders", &Options::new().replace().mode(OutputMode::Leaders).group(2)));
    assert!(blocking == bytes("same-tight", &Options::new().replace().mode(OutputMode::Leaders).memory(600)));
}
