//! Buffered files whose lower level is the memory of servers: data is held there, its caps hold, the bytes and their
//! order are the same, and no rank hangs.

use aqueduct_comm::Launch;
use aqueduct_file::{BufferOptions, BufferStatus, Capacity, File, OpenOptions, View};
use aqueduct_stream::{ComputeGroup, Error, Role, ServerReport, split_io_servers};
use aqueduct_testkit::blocking_device::BlockingDevice;
use aqueduct_testkit::contents::contents;
use aqueduct_testkit::rng::SeededRng;

const KIB: u64 = 1 << 10;

/// Runs a program on the compute ranks; returns the reports of the servers.
fn served(
    launch: &Launch,
    servers: usize,
    memory: u64,
    program: impl Fn(&ComputeGroup) -> Result<(), Error> + Send + Sync,
) -> Vec<ServerReport> {
    let status = launch.run(|world| match split_io_servers(world, servers)? {
        Role::Server(server) => server.memory(memory).serve().map(Some),
        Role::Compute(compute) => program(&compute).map(|()| None),
    });
    let services: Vec<ServerReport> = status.unwrap().into_iter().flatten().collect();
    for service in &services {
        assert!(service.memory_peak <= service.memory_cap && service.memory_cap == memory, "{service:?}");
    }
    services
}

fn open(compute: &ComputeGroup, name: &str, settings: &BufferOptions) -> Result<File, Error> {
    let file = OpenOptions::new().read(true).write(true).create(true).open(compute.comm(), name)?;
    compute.buffered(file, settings)
}

fn memory(bytes: u64) -> BufferOptions {
    BufferOptions::new(Capacity::Bytes(bytes))
}

fn status(file: &File) -> BufferStatus {
    file.buffering().expect("the file is buffered")
}

fn pattern(from: u64, len: usize) -> Vec<u8> {
    (from..).take(len).map(|at| (at % 251) as u8).collect()
}

/// The device is blocked, the memory of the rank holds an eighth of the data, and all is accepted: the rest is in the
/// memory of the server.
#[test]
fn the_memory_of_a_server_is_a_level() {
    const BYTES: usize = 500 << 10;
    let gate = BlockingDevice::register("level");
    let services = served(&Launch::threads(3), 1, 4 << 20, |compute| {
        let file = open(compute, "level:file", &memory(64 * KIB))?;
        let place = (BYTES * compute.comm().rank()) as u64;
        file.at(place).all().write(&pattern(place, BYTES))?;
        let now = status(&file);
        assert_eq!((now.accepted, now.visible, now.durable), (BYTES as u64, 0, 0));
        assert!(now.away > 400 * KIB && now.memory.peak <= 64 * KIB, "{now:?}");
        assert!(now.together.peak <= 64 * KIB, "{now:?}");
        compute.comm().barrier()?;
        gate.open();
        let mut back = vec![0; BYTES];
        file.at(place).read(&mut back)?;
        assert!(back == pattern(place, BYTES), "own writes are read");
        file.sync()?;
        let now = status(&file);
        assert_eq!((now.visible, now.durable, now.away), (BYTES as u64, BYTES as u64, 0));
        file.close()
    });
    assert!(contents("level:file") == pattern(0, 2 * BYTES));
    let service = &services[0];
    assert_eq!((service.files, service.bytes), (1, 2 * BYTES as u64));
    assert!(service.memory_peak > 800 << 10, "it held them: {service:?}");
}

/// More data than all levels hold, in pieces of all shapes, with servers on the same and on another node, with and
/// without a spill file.
fn overflow(launch: &Launch, servers: usize, name: &str, settings: &BufferOptions) {
    const RECORDS: usize = 3000;
    let slow = format!("fault=seed=3,delay=100us@0.3:memfs:{name}");
    let services = served(launch, servers, 256 * KIB, |compute| {
        let file = open(compute, &slow, settings)?;
        let (rank, ranks) = (compute.comm().rank() as u64, compute.comm().size() as u64);
        // Round-robin in units of eight bytes, collectively; then records of all sizes, some of them twice.
        file.set_view(&View::round_robin::<u64>(compute.comm())?)?;
        let numbers: Vec<u64> = (0..RECORDS as u64).map(|at| at * ranks + rank).collect();
        numbers.chunks(700).try_for_each(|part| file.at_pointer().all().write(part).map(drop))?;
        file.set_view(&View::default())?;
        let end = RECORDS as u64 * 8 * ranks;
        let mut dice = SeededRng::new(rank);
        let mut place = 0;
        while place < 300_000 {
            let len = (1 + dice.below(9000)).min(300_000 - place);
            let start = end + rank * 300_000 + place as u64;
            if dice.below(3) == 0 {
                file.at(start).write(&vec![0xEEu8; len])?;
            }
            file.at(start).write(&pattern(start, len))?;
            place += len;
        }
        let now = status(&file);
        assert!(now.memory.peak <= now.memory.cap && now.together.peak <= now.together.cap, "{now:?}");
        file.close()?;
        Ok(())
    });
    let bytes = contents(&format!("memfs:{name}"));
    let ranks = (bytes.len() as u64) / (RECORDS as u64 * 8 + 300_000);
    let (numbers, rest) = bytes.split_at(RECORDS * 8 * ranks as usize);
    let wrong = numbers.chunks(8).enumerate().find(|(at, word)| *word != (*at as u64).to_ne_bytes());
    assert_eq!(wrong, None, "{name}");
    assert!(rest == pattern(numbers.len() as u64, rest.len()), "{name}: a record is lost or late");
    let written: u64 = services.iter().map(|service| service.bytes).sum();
    assert!(services.len() == servers && written >= bytes.len() as u64, "{name}: {services:?}");
}

#[test]
fn three_clients_and_one_server() {
    overflow(&Launch::threads(4), 1, "overflow-3-1", &memory(40 * KIB));
}

#[test]
fn six_clients_and_two_servers_on_three_nodes_with_a_spill_file() {
    let folder = tempfile::tempdir().unwrap();
    let settings = memory(40 * KIB).spill(folder.path(), Some(100 * KIB));
    overflow(&Launch::threads(8).node_ranks(3), 2, "overflow-6-2", &settings);
}

#[test]
fn a_barrier_orders_writes_through_different_servers() {
    let services = served(&Launch::threads(4), 1, 1 << 20, |compute| {
        let file = open(compute, "fault=seed=5,delay=300us@0.5:memfs:served-order", &memory(64 * KIB))?;
        for round in 0..15u64 {
            let writer = (round % 3) as usize;
            if compute.comm().rank() == writer {
                file.at(0).write(&[round as u8; 3000])?;
            }
            compute.comm().barrier()?;
            if compute.comm().rank() == (writer + 1) % 3 {
                let mut back = [255u8; 3000];
                file.at(0).read(&mut back)?;
                assert_eq!(back, [round as u8; 3000], "round {round}");
            }
            compute.comm().barrier()?;
        }
        // Dropped, not closed: everything is written nevertheless. Then another file uses the memory of the first
        // one.
        drop(file);
        let file = open(compute, "memfs:served-next", &memory(64 * KIB))?;
        file.at(0).all().write(&[1u8; 10])?;
        file.close()
    });
    assert_eq!((services[0].files, services[0].failures.len()), (2, 0));
    assert_eq!(contents("memfs:served-order"), [14; 3000]);
}

#[test]
fn a_device_error_at_the_server_is_final() {
    let services = served(&Launch::threads(3), 1, 1 << 20, |compute| {
        let name = "fault=seed=1,write=nospace@#3+:memfs:served-failure";
        let file = open(compute, name, &memory(64 * KIB))?;
        let place = 1_000_000 * compute.comm().rank() as u64;
        // Some write fails; the sync certainly does.
        let refused = (0..200).find_map(|at| file.at(place + at * 5000).write(&[1u8; 5000]).err());
        let error = file.sync().unwrap_err();
        for error in refused.iter().chain([&error]) {
            assert_eq!(error.kind(), aqueduct_file::Kind::NoSpace, "{error}");
            assert!(error.to_string().contains("are not in the file"), "{error}");
        }
        assert_eq!((status(&file).memory.held, status(&file).away), (0, 0), "nothing is held any more");
        assert!(file.close().is_err());
        Ok(())
    });
    assert_eq!(services[0].failures.len(), 2, "one for each client: {services:?}");
}

/// A rank that fails at any time ends the program with its error, and no rank waits forever.
#[test]
fn a_rank_that_fails_ends_the_program() {
    for (failing, after) in [(0, 0), (0, 5), (1, 20), (2, 0)] {
        let outcome = Launch::threads(3).run(|world| match split_io_servers(world, 1)? {
            Role::Server(_) if failing == 2 => {
                Err(Error::new(aqueduct_stream::Kind::NoSuchName, "serve", "it", "gone"))
            }
            Role::Server(server) => server.memory(256 * KIB).serve().map(drop),
            Role::Compute(compute) => {
                let file = open(&compute, &format!("memfs:lost-{failing}-{after}"), &memory(20 * KIB))?;
                for number in 0..100u64 {
                    if compute.comm().rank() == failing && number == after {
                        return Err(Error::new(aqueduct_stream::Kind::NoSuchName, "compute", "it", "gone"));
                    }
                    file.at(number * 10_000).write(&[1u8; 10_000])?;
                }
                compute.comm().barrier()?;
                Ok(file.close()?)
            }
        });
        let error = outcome.expect_err("a rank has failed").to_string();
        assert!(error.contains("gone"), "{failing} {after}: {error}");
    }
}

#[test]
fn invalid_requests_are_refused_on_all_ranks() {
    served(&Launch::threads(3), 1, 300, |compute| {
        let error = open(compute, "memfs:no-memory", &memory(64 * KIB)).unwrap_err();
        assert!(error.to_string().contains("give it more memory"), "{error}");
        Ok(())
    });
    served(&Launch::threads(3), 1, 1 << 20, |compute| {
        // The file is deleted before the server opens it.
        let file =
            OpenOptions::new().read(true).write(true).create(true).open(compute.comm(), "memfs:vanished")?;
        compute.comm().barrier()?;
        let _ = aqueduct_file::delete("memfs:vanished");
        compute.comm().barrier()?;
        match compute.buffered(file, &memory(64 * KIB)) {
            // A device that keeps open files.
            Ok(file) => file.close()?,
            Err(error) => assert_eq!(error.kind(), aqueduct_file::Kind::NoSuchFile, "{error}"),
        }
        Ok(())
    });
}
