//! I/O servers: the same files as in every other mode, also with too little memory, and caps that hold.

#[path = "cases/all_streams.rs"]
mod all_streams;
#[path = "cases/model.rs"]
mod model;
#[path = "cases/observed_target.rs"]
mod observed_target;

use std::time::Duration;

use all_streams::{Cut, check, check_end, write};
use aqueduct_comm::{Comm, Launch};
use aqueduct_stream::{
    Durability, Error, Kind, Options, OutputMode, Reader, Role, ServerReport, Stream, Streams,
    split_io_servers, split_io_servers_per_node,
};
use aqueduct_testkit::blocking_device::BlockingDevice;
use aqueduct_testkit::rng::SeededRng;
use observed_target::{processor, stays_on};

const STEPS: u64 = 7;

/// The report of a rank.
enum RankReport {
    Computed(aqueduct_stream::OutputReport),
    Served(ServerReport),
}

/// The whole program on these ranks, of which some are servers; with the memory of a client and of a server.
fn program(
    world: &Comm,
    name: &str,
    servers: usize,
    memory: (u64, u64),
    cut: Cut,
) -> Result<RankReport, Error> {
    let reports = match split_io_servers(world, servers)? {
        Role::Server(server) => RankReport::Served(server.memory(memory.1).serve()?),
        Role::Compute(compute) => {
            let options = Options::new().replace().served_by(&compute).memory(memory.0).durable_every(3);
            RankReport::Computed(write(compute.comm(), name, &options, cut, STEPS)?)
        }
    };
    world.barrier()?;
    let reader = Reader::open(world, name)?;
    check(&reader, world.size() - servers, 0..STEPS);
    check_end(&reader, STEPS);
    Ok(reports)
}

/// A server on each node; with or without memory of the clients.
#[test]
fn a_server_per_node_writes_the_same_files() {
    for (ranks, per_node, server_only) in
        [(6, 2, false), (9, 3, true), (4, 4, true), (8, 4, false), (5, 5, true)]
    {
        let name = format!("memfs:per-node-{ranks}-{per_node}-{server_only}");
        let cut = Cut { axis: 1, uneven: true, halo: 1 };
        let program = |world: &Comm| {
            let role = split_io_servers_per_node(world)?;
            match role {
                Role::Server(server) => {
                    assert_eq!(server.clients(), per_node - 1);
                    let report = server.memory(200_000).serve()?;
                    assert!(
                        report.failures.is_empty() && report.memory_peak <= report.memory_cap,
                        "{report:?}"
                    );
                }
                Role::Compute(compute) => {
                    let options = Options::new().replace().served_by(&compute).memory(4000);
                    let options = if server_only { options.server_memory_only() } else { options };
                    let report = write(compute.comm(), &name, &options, cut, STEPS)?;
                    assert!(report.memory_peak <= report.memory_cap, "{report:?}");
                }
            }
            world.barrier()?;
            let reader = Reader::open(world, &name)?;
            check(&reader, ranks - ranks / per_node, 0..STEPS);
            check_end(&reader, STEPS);
            Ok::<_, Error>(())
        };
        Launch::threads(ranks).node_ranks(per_node).run(program).unwrap();
    }
}

#[test]
fn a_node_with_one_rank_cannot_have_a_server() {
    let program = |world: &Comm| {
        let error = split_io_servers_per_node(world).map(drop).unwrap_err();
        assert!(
            error.kind() == Kind::BadArgument && error.detail().contains("node 2 has only one rank"),
            "{error}"
        );
        Ok::<_, Error>(())
    };
    Launch::threads(5).node_ranks(2).run(program).unwrap();
}

fn check_reports(reports: Vec<RankReport>, servers: usize, context: &str) {
    let mut service = 0;
    for reports in reports {
        match reports {
            RankReport::Computed(report) => {
                assert_eq!(
                    (report.mode, report.steps),
                    (OutputMode::Servers, STEPS),
                    "{context}: {report:?}"
                );
                assert!(report.memory_peak <= report.memory_cap, "{context}: {report:?}");
                assert!(report.reason.contains("are I/O servers"), "{context}: {report:?}");
            }
            RankReport::Served(done) => {
                service += 1;
                assert!(
                    done.outputs == 1 && done.failures.is_empty() && done.bytes > 0,
                    "{context}: {done:?}"
                );
                assert!(done.memory_peak > 0 && done.memory_peak <= done.memory_cap, "{context}: {done:?}");
            }
        }
    }
    assert_eq!(service, servers, "{context}");
}

#[test]
fn any_number_of_clients_and_servers() {
    for (ranks, servers) in [(2, 1), (3, 1), (4, 1), (4, 2), (7, 2), (8, 2), (7, 3)] {
        for (axis, uneven, halo) in [(0, false, 0), (1, true, 1), (2, false, 2)] {
            for per_node in [ranks, 4, 2, 1] {
                let name = format!("memfs:served-{ranks}-{servers}-{axis}-{per_node}");
                let cut = Cut { axis, uneven, halo };
                let launch = Launch::threads(ranks).node_ranks(per_node);
                let reports =
                    launch.run(|world| program(world, &name, servers, (1 << 20, 1 << 20), cut)).unwrap();
                check_reports(reports, servers, &name);
            }
        }
    }
}

/// 3 + 1 and 6 + 2 ranks with steps many times larger than the memory of clients and servers.
#[test]
fn steps_larger_than_the_memory_stay_below_the_caps() {
    for (ranks, servers) in [(4, 1), (8, 2)] {
        for memory in [(300, 4000), (300, 100_000), (2000, 6000), (20_000, 4000)] {
            for per_node in [ranks, 2] {
                let name = format!("memfs:overflow-{ranks}-{}-{}-{per_node}", memory.0, memory.1);
                let cut = Cut { axis: 0, uneven: true, halo: 0 };
                let launch = Launch::threads(ranks).node_ranks(per_node);
                let reports = launch.run(|world| program(world, &name, servers, memory, cut)).unwrap();
                check_reports(reports, servers, &name);
            }
        }
    }
}

/// Two outputs at once, of different kinds, and none.
#[test]
fn several_outputs() {
    let run = |world: &Comm| {
        match split_io_servers(world, 2)? {
            Role::Server(server) => {
                let service = server.serve()?;
                assert_eq!((service.outputs, service.failures.len()), (2, 0), "{service:?}");
            }
            Role::Compute(compute) => {
                let (rank, ranks) = (compute.comm().rank() as u64, compute.comm().size() as u64);
                let mut streams = Streams::new();
                let key = streams.add::<u64>(Stream::array("a", [ranks]).block([rank], [1]));
                let options = Options::new().replace().served_by(&compute).mode(OutputMode::Servers);
                let mut first = options.create(compute.comm(), "memfs:first", &streams)?;
                let mut second = options.create(compute.comm(), "memfs:second", &streams)?;
                for step in 0..20 {
                    first.step()?.put(key, &[step * 10 + rank]).commit()?;
                    second.step()?.put(key, &[step * 20 + rank]).commit()?;
                }
                second.finish()?;
                first.finish()?;
            }
        }
        world.barrier()?;
        for (name, factor) in [("memfs:first", 10), ("memfs:second", 20)] {
            let reader = Reader::open(world, name)?;
            let found = reader.read::<u64>("a", reader.step(19).expect("complete"))?;
            assert_eq!(found, (0..4).map(|rank| 19 * factor + rank).collect::<Vec<u64>>());
        }
        // A run without outputs.
        if let Role::Server(server) = split_io_servers(world, 1)? {
            assert_eq!(server.serve()?.outputs, 0);
        }
        Ok::<_, Error>(())
    };
    Launch::threads(6).run(run).unwrap();
}

/// Accepted, visible and durable steps are reported only when they are.
#[test]
fn reported_progress_is_correct() {
    let gate = BlockingDevice::register("served-truth");
    let run = |world: &Comm| {
        let compute = match split_io_servers(world, 1)? {
            Role::Server(server) => return server.serve().map(drop),
            Role::Compute(compute) => compute,
        };
        let rank = compute.comm().rank() as u64;
        let mut streams = Streams::new();
        let rows = streams.add::<f64>(Stream::array("rows", [2, 1000]).block([rank, 0], [1, 1000]));
        let options = Options::new().replace().served_by(&compute);
        gate.open();
        let mut output = options.create(compute.comm(), "served-truth:run", &streams)?;
        compute.comm().barrier()?;
        gate.shut();
        let receipt = output.step()?.put(rows, &[1.0; 1000]).commit()?;
        assert_eq!(receipt.state()?, Durability::Accepted, "nothing has come through");
        compute.comm().barrier()?;
        gate.open();
        receipt.wait_visible()?;
        assert_eq!(receipt.state()?, Durability::Visible);
        let seen = Reader::open(compute.comm(), "served-truth:run")?;
        assert!(seen.step(0).is_some() && !seen.is_finished());
        output.flush()?;
        assert_eq!(receipt.state()?, Durability::Durable);
        let later = output.step()?.put(rows, &[2.0; 1000]).commit()?;
        assert_eq!((output.progress().accepted, output.progress().durable), (2, 1));
        let report = output.finish()?;
        assert!(report.writing > Duration::ZERO, "{report:?}");
        assert_eq!(later.state()?, Durability::Durable);
        Ok::<_, Error>(())
    };
    Launch::threads(3).run(run).unwrap();
}

/// A server writes the steps of all clients before it ends, also of an output without `finish`.
#[test]
fn the_committed_steps_of_a_dropped_output_are_written() {
    let run = |world: &Comm| {
        match split_io_servers(world, 1)? {
            Role::Server(server) => {
                let service = server.serve()?;
                assert_eq!((service.batches, service.failures.len()), (5, 1), "{service:?}");
            }
            Role::Compute(compute) => {
                let rank = compute.comm().rank() as u64;
                let mut streams = Streams::new();
                let rows = streams.add::<f64>(Stream::array("rows", [2, 1000]).block([rank, 0], [1, 1000]));
                let options = Options::new().replace().served_by(&compute);
                let mut output =
                    options.create(compute.comm(), "throttle=2MB/s:memfs:served-dropped", &streams)?;
                let mut receipts = Vec::new();
                for step in 0..5 {
                    receipts.push(output.step()?.put(rows, &[f64::from(step); 1000]).commit()?);
                }
                drop(output);
                assert_eq!(receipts[4].state()?, Durability::Visible, "the drop waits for it");
            }
        }
        world.barrier()?;
        let reader = Reader::open(world, "memfs:served-dropped")?;
        assert!(!reader.is_finished());
        for step in 0..5 {
            let stored = reader.step(step).expect("it was committed");
            assert_eq!(reader.read::<f64>("rows", stored)?, vec![step as f64; 2000]);
        }
        Ok::<_, Error>(())
    };
    Launch::threads(3).run(run).unwrap();
}

#[test]
fn invalid_requests_are_refused_on_all_ranks() {
    let run = |world: &Comm| {
        for servers in [0, 3] {
            let error = split_io_servers(world, servers).map(drop).unwrap_err();
            assert!(error.to_string().contains("give 1 to 2"), "{error}");
        }
        let different = split_io_servers(world, 1 + usize::from(world.rank() == 0)).map(drop).unwrap_err();
        assert!(different.to_string().contains("number of servers differs"), "{different}");
        let alone =
            Options::new().replace().mode(OutputMode::Servers).create(world, "memfs:alone", &Streams::new());
        assert!(alone.map(drop).unwrap_err().to_string().contains("call split_io_servers"));
        match split_io_servers(world, 1)? {
            // Too little memory for three clients.
            Role::Server(server) => _ = server.memory(200).serve()?,
            Role::Compute(compute) => {
                let options = Options::new().replace().served_by(&compute);
                let error =
                    options.create(compute.comm(), "memfs:poor", &Streams::new()).map(drop).unwrap_err();
                assert!(error.to_string().contains("give it more memory"), "{error}");
            }
        }
        Ok::<_, Error>(())
    };
    Launch::threads(4).run(run).unwrap();
}

#[test]
fn a_server_thread_is_bound_to_its_processor() {
    let cpu = processor();
    let run = |world: &Comm| match split_io_servers(world, 1)? {
        Role::Server(server) => {
            let service = server.pin([cpu]).serve_into(|_, _, _| Ok(stays_on(cpu)))?;
            assert_eq!((service.batches, service.failures.len()), (1, 0), "{service:?}");
            Ok::<_, Error>(())
        }
        Role::Compute(compute) => {
            let mut streams = Streams::new();
            let key = streams.add::<u64>(Stream::array("a", [10]).block([0], [10]));
            let mut output =
                Options::new().replace().served_by(&compute).create(compute.comm(), "pinned", &streams)?;
            output.step()?.put(key, &[1; 10]).commit()?;
            output.finish().map(drop)
        }
    };
    Launch::threads(2).run(run).unwrap();
}

/// One run with random parameters and delays: no step is lost or duplicated, and the caps hold.
fn seeded(world: &Comm, servers: usize, number: u64) -> Result<(), Error> {
    let mut seed = SeededRng::new(number);
    let (values, steps) = (1 + seed.number() % 60, seed.number() % 8);
    let (buffers, memory) = (1 + seed.below(3), 400 + seed.number() % 2000);
    let reserve = 4000 + seed.number() % 20_000;
    let name = format!("memfs:seeded-{number}");
    let mut delays = SeededRng::new(number ^ (world.rank() as u64) << 40);
    match split_io_servers(world, servers)? {
        Role::Server(server) => {
            let service = server.memory(reserve).serve()?;
            assert!(service.memory_peak <= reserve && service.failures.is_empty(), "{service:?}");
            assert_eq!(service.batches, steps);
        }
        Role::Compute(compute) => {
            let (rank, size) = (compute.comm().rank() as u64, compute.comm().size() as u64);
            let mut streams = Streams::new();
            let array = Stream::array("a", [size, values]).block([rank, 0], [1, values]);
            let key = streams.add::<u64>(array);
            let options = Options::new().replace().served_by(&compute).buffers(buffers).memory(memory);
            let mut output = options.create(compute.comm(), &name, &streams)?;
            for step in 0..steps {
                std::thread::sleep(Duration::from_micros(delays.number() % 100));
                let mut data: Vec<u64> = (0..values).map(|at| step * 1000 + rank * 100 + at).collect();
                output.step()?.put(key, &data).commit()?;
                // The program changes its array.
                data.fill(u64::MAX);
            }
            let report = output.finish()?;
            assert!(report.memory_peak <= report.memory_cap && report.memory_cap <= memory, "{report:?}");
        }
    }
    world.barrier()?;
    if world.rank() > 0 {
        return Ok(());
    }
    let reader = Reader::open(&world.comm_self(), &name)?;
    assert!(reader.is_finished() && reader.stored_steps().len() as u64 == steps);
    for step in 0..steps {
        let found = reader.read::<u64>("a", reader.step(step).expect("complete"))?;
        let row = |rank: u64| (0..values).map(move |at| step * 1000 + rank * 100 + at);
        let expected = (0..(world.size() - servers) as u64).flat_map(row);
        assert!(expected.eq(found), "step {step}");
    }
    Ok(())
}

/// Several runs on ranks that are launched once: their number, the number of servers and of nodes are chosen by the
/// first seed.
fn launched(numbers: std::ops::Range<u64>) {
    let mut seed = SeededRng::new(numbers.start);
    let servers = 1 + seed.below(2);
    let ranks = 2 * servers + seed.below(4);
    let launch = Launch::threads(ranks).node_ranks(1 + seed.below(ranks));
    let run = |world: &Comm| {
        numbers.clone().try_for_each(|number| {
            seeded(world, servers, number)
                .inspect_err(|error| eprintln!("seed {number} of {numbers:?}: {error}"))
        })
    };
    launch.run(run).unwrap_or_else(|error| panic!("seeds {numbers:?}: {error}"));
}

/// Runs on the same ranks: `AQUEDUCT_SEED` is the first seed.
const TOGETHER: u64 = 20;

#[test]
fn a_thousand_seeded_runs_with_random_delays() {
    let first: Option<u64> = std::env::var("AQUEDUCT_SEED").ok().and_then(|seed| seed.parse().ok());
    match first {
        Some(seed) => launched(seed..seed + TOGETHER),
        None => (0..1000).step_by(TOGETHER as usize).for_each(|first| launched(first..first + TOGETHER)),
    }
}
