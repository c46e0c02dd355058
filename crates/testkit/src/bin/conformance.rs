//! The program that the MPI tests start under `mpirun`: the argument selects the test.
//!
//! `unsafe` here: the host mode is a program that has initialized MPI itself.
#![allow(unsafe_code)]
// Every program has the type that `run` wants.
#![allow(clippy::unnecessary_wraps)]

use std::ffi::{c_int, c_void};
use std::process::ExitCode;

use aqueduct_comm::{Comm, Error, Kind, Op, abi};
use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{Info, View};
use aqueduct_testkit::{file, transport};

const USAGE: &str = "conformance suite | file FOLDER | memory NAME | abort-in-memory NAME | buffered FOLDER | faults FOLDER | panic RANK | \
     error RANK | leave RANK | silent RANK | keep RANK | unreceived | twice | worker | facts | hints | large | threads | \
     traffic FOLDER | steps FOLDER | host LIBRARY";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = || arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let text = || arguments.get(1).map_or("", String::as_str);
    let outcome = match arguments.first().map(String::as_str) {
        Some("suite") => aqueduct_comm::run(suite),
        Some("file") => aqueduct_comm::run(|world| files(world, text(), &Info::new())),
        Some("memory") => aqueduct_comm::run(|world| memory(world, text())),
        Some("abort-in-memory") => aqueduct_comm::run(|world| abort_in_memory(world, text())),
        Some("buffered") => aqueduct_comm::run(|world| files(world, text(), &buffered(text()))),
        Some("faults") => aqueduct_comm::run(|world| faults(world, text())),
        Some("panic") => aqueduct_comm::run(|world| fail(world, number(), true)),
        Some("error") => aqueduct_comm::run(|world| fail(world, number(), false)),
        Some("leave") => aqueduct_comm::run(|world| leave(world, number())),
        Some("silent") => aqueduct_comm::run(|world| silent(world, number())),
        Some("keep") => aqueduct_comm::run(|world| keep(world, number())).map(drop).map(|()| Vec::new()),
        Some("unreceived") => aqueduct_comm::run(unreceived),
        Some("twice") => aqueduct_comm::run(Comm::barrier).and_then(|_| aqueduct_comm::run(Comm::barrier)),
        Some("worker") => aqueduct_comm::run(worker),
        Some("facts") => aqueduct_comm::run(facts),
        Some("hints") => aqueduct_comm::run(hints),
        Some("large") => aqueduct_comm::run(large),
        Some("threads") => aqueduct_comm::run(threads),
        Some("traffic") => aqueduct_comm::run(|world| traffic(world, text())),
        Some("steps") => aqueduct_comm::run(|world| steps(world, text())),
        Some("host") => host(text()),
        _ => {
            eprintln!("usage: {USAGE}");
            return ExitCode::FAILURE;
        }
    };
    match outcome {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

// A program of ranks returns a result, also one that cannot fail.
#[allow(clippy::unnecessary_wraps)]
fn suite(world: &Comm) -> Result<(), Error> {
    let cases = transport::conformance(world);
    if world.rank() == 0 {
        let (ranks, nodes) = (world.size(), world.node_count());
        println!("{cases} cases passed on {ranks} ranks of {nodes} nodes by {}", world.transport());
    }
    Ok(())
}

/// The file engine on files of a folder that all ranks see.
#[allow(clippy::unnecessary_wraps)]
fn files(world: &Comm, folder: &str, info: &Info) -> Result<(), Error> {
    let cases = file::conformance_with(world, &format!("ufs:{folder}/"), info);
    if world.rank() == 0 {
        println!("{cases} file cases passed on {} ranks of {} nodes", world.size(), world.node_count());
    }
    Ok(())
}

/// The file engine on files in the memory of the node.
#[allow(clippy::unnecessary_wraps)]
fn memory(world: &Comm, name: &str) -> Result<(), Error> {
    let cases = file::conformance(world, &format!("memfs=512MiB:{name}-"));
    if world.rank() == 0 {
        println!("{cases} file cases passed on {} ranks of {} nodes", world.size(), world.node_count());
    }
    Ok(())
}

/// All ranks open a file in the memory of the node, write, and end without closing it.
fn abort_in_memory(world: &Comm, name: &str) -> Result<(), Error> {
    let name = format!("memfs=1MiB:{name}");
    let file = match aqueduct_file::File::create(world, &name) {
        Ok(file) => file,
        Err(error) => panic!("{error}"),
    };
    file.at(0).all().write(&[world.rank() as u64; 100]).expect("a write");
    let busy = aqueduct_file::delete(&name).expect_err("an open file");
    println!("{:?}", busy.kind());
    std::process::abort();
}

/// The messages and bytes that each rank sends for collective writes of some patterns, the first time and when they are repeated.
fn traffic(world: &Comm, folder: &str) -> Result<(), Error> {
    for piece in [128 << 10, 4 << 10, 4] {
        let sent = match measure_traffic(world, folder, piece) {
            Ok(sent) => sent,
            Err(error) => panic!("{error}"),
        };
        if let Some(all) = world.gather(0, &sent)? {
            println!("pieces of {piece} bytes: {all:?}");
        }
    }
    Ok(())
}

fn measure_traffic(world: &Comm, folder: &str, piece: u64) -> aqueduct_file::Result<[u64; 4]> {
    let (rank, ranks) = (world.rank() as u64, world.size() as u64);
    let options = aqueduct_file::OpenOptions::new().read(true).write(true).create(true);
    let options = options.hint("romio_cb_write", "enable").hint("cb_buffer_size", "1048576");
    let options = options.hint("striping_unit", "4096").delete_on_close(true);
    let file = options.open(world, format!("ufs:{folder}/traffic-{piece}"))?;
    let filetype = Layout::bytes(piece).and_then(|bytes| bytes.resized(0, (piece * ranks) as i64));
    let filetype = filetype.expect("a layout within the limits");
    let view = View::new(rank * piece, &Layout::from(Basic::Byte), &filetype)?;
    file.set_view(&view)?;
    let data = vec![rank as u8; 128 << 10];
    // The first access of all makes the buffers; with a new view its plan is forgotten.
    file.at(0).all().write(&data)?;
    file.set_view(&view)?;
    let mut sent = [0; 4];
    for sent in sent.chunks_mut(2) {
        let before = file.counters();
        file.at(0).all().write(&data)?;
        let done = file.counters() - before;
        sent.copy_from_slice(&[done.messages, done.sent]);
    }
    file.close()?;
    Ok(sent)
}

/// Synced steps of all ranks, without an end: prints the number of each step that is durable.
fn steps(world: &Comm, folder: &str) -> Result<(), Error> {
    let file = aqueduct_file::File::create(world, format!("ufs:{folder}/steps")).expect("a file");
    for step in 0_u64.. {
        let offset = (step * world.size() as u64 + world.rank() as u64) * 4096;
        let written = file.at(offset).all().write(&vec![step as u8 + 1; 4096]);
        if written.is_err() || file.sync().is_err() {
            return Err(Error::new(Kind::Unsupported, "steps", "a write has failed"));
        }
        if world.rank() == 0 {
            println!("step {step}");
        }
    }
    Ok(())
}

/// Little memory and a spill file, so that both are used.
fn buffered(folder: &str) -> Info {
    Info::from([("aqueduct_buffer", "20KiB"), ("aqueduct_spill", folder)])
}

/// The fault matrix on files of a folder that all ranks see.
#[allow(clippy::unnecessary_wraps)]
fn faults(world: &Comm, folder: &str) -> Result<(), Error> {
    let faults = file::faults(world, &format!("ufs:{folder}/"));
    if world.rank() == 0 {
        println!("{faults} faults survived on {} ranks of {} nodes", world.size(), world.node_count());
    }
    Ok(())
}

/// Rank `who` fails while the others wait for it.
fn fail(world: &Comm, who: usize, by_panic: bool) -> Result<(), Error> {
    // The handle is dropped before the message is known: that must not hide the message.
    let dup = world.dup()?;
    if world.rank() == who {
        let message = "no input";
        assert!(!by_panic, "{message}");
        return Err(Error::new(Kind::Unsupported, "pump", message));
    }
    dup.barrier()
}

/// Rank `who` returns while the others wait for it.
fn leave(world: &Comm, who: usize) -> Result<(), Error> {
    if world.rank() == who { Ok(()) } else { world.barrier() }
}

/// Rank `who` returns while the others wait for a message of it.
fn silent(world: &Comm, who: usize) -> Result<(), Error> {
    if world.rank() == who { Ok(()) } else { world.receive::<u8>(who, 1).map(drop) }
}

/// Rank `who` returns, and its communicator with it, while the others wait in that.
fn keep(world: &Comm, who: usize) -> Result<Comm, Error> {
    let dup = world.dup()?;
    if world.rank() != who {
        dup.barrier()?;
    }
    Ok(dup)
}

/// Rank 0 sends a large message that nobody receives.
fn unreceived(world: &Comm) -> Result<(), Error> {
    if world.rank() == 0 {
        drop(world.start_send(world.size() - 1, 1, vec![1u8; 8 << 20])?);
    }
    Ok(())
}

/// A thread that MPI may not be called from waits for a message.
fn worker(world: &Comm) -> Result<(), Error> {
    let next = (world.rank() + 1) % world.size();
    world.send(next, 1, &[1u8])?;
    let receive = || world.receive::<u8>(aqueduct_comm::MessageSource::Any, 1).map(drop);
    std::thread::scope(|scope| scope.spawn(receive).join().expect("a thread that receives"))
}

#[allow(clippy::unnecessary_wraps)]
fn facts(world: &Comm) -> Result<(), Error> {
    if world.rank() == 0 {
        println!("transport: {}", world.transport());
        println!("thread level: {:?}", world.thread_level());
        println!("nodes: {}", world.node_count());
    }
    Ok(())
}

/// The hints in force for a file opened without any.
fn hints(world: &Comm) -> Result<(), aqueduct_file::Error> {
    let mode = aqueduct_file::Mode::read_write().create().delete_on_close();
    let file = aqueduct_file::OpenOptions::from(mode).hint("cb_nodes", "3").open(world, "memfs:hints")?;
    if world.rank() == 0 {
        file.info().iter().for_each(|(key, value)| println!("{key} = {value}"));
    }
    file.close()
}

/// A message and a broadcast of more than 2 GiB.
fn large(world: &Comm) -> Result<(), Error> {
    const LEN: usize = (2 << 30) + 12_345;
    let last = world.size() - 1;
    let pattern = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9) as u8;
    let check = |bytes: &[u8]| {
        assert_eq!(bytes.len(), LEN);
        let places = (0..LEN).step_by(4097).chain(LEN - 100..LEN).chain((1 << 30) - 50..(1 << 30) + 50);
        places.for_each(|at| assert_eq!(bytes[at], pattern(at), "byte {at}"));
    };
    let mut bytes = Vec::new();
    if world.rank() == 0 {
        bytes = (0..LEN).map(pattern).collect();
        world.send(last, 1, &bytes)?;
    }
    if world.rank() == last {
        bytes = world.receive::<u8>(0, 1)?.0;
        check(&bytes);
    }
    bytes.resize(LEN, 0);
    world.broadcast(last, &mut bytes)?;
    check(&bytes);
    Ok(())
}

/// Several threads of each rank communicate at once, each on its own communicator and tag.
fn threads(world: &Comm) -> Result<(), Error> {
    let comms = (0..3).map(|_| world.dup()).collect::<Result<Vec<_>, _>>()?;
    let outcomes: Vec<Result<(), Error>> = std::thread::scope(|scope| {
        let talk = |comm: Comm| move || chatter(&comm);
        let threads: Vec<_> = comms.into_iter().map(|comm| scope.spawn(talk(comm))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that communicates")).collect()
    });
    outcomes.into_iter().collect()
}

fn chatter(comm: &Comm) -> Result<(), Error> {
    let (next, previous) = ((comm.rank() + 1) % comm.size(), (comm.rank() + comm.size() - 1) % comm.size());
    for round in 0..100u64 {
        let sending = comm.start_send(next, 1, vec![round; 3_000])?;
        assert_eq!(comm.receive::<u64>(previous, 1)?.0, vec![round; 3_000]);
        sending.wait()?;
        assert_eq!(comm.allreduce_one(Op::Sum, round)?, round * comm.size() as u64);
    }
    Ok(())
}

/// A host program that has initialized MPI passes its world, and a part of it.
fn host(library: &str) -> Result<Vec<()>, Error> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    type Init = unsafe extern "C" fn(*mut c_int, *mut c_void) -> c_int;
    type Finalize = unsafe extern "C" fn() -> c_int;
    let broken = |source| Error::new(Kind::NoMpi, "host", library).with_source(source);
    // SAFETY: an MPI library, used as its standard says; its world is valid between init and finalize.
    unsafe {
        let mpi = Library::open(Some(library), RTLD_NOW | RTLD_GLOBAL).map_err(broken)?;
        let too_early = Comm::from_mpi(0).map(|_| ()).expect_err("MPI has not been started");
        assert_eq!(too_early.kind(), Kind::Mpi, "{too_early}");
        let init = *mpi.get::<Init>(b"MPI_Init").map_err(broken)?;
        assert_eq!(init(std::ptr::null_mut(), std::ptr::null_mut()), 0);
        let open_mpi = mpi.get::<*const c_void>(b"ompi_mpi_comm_world");
        let raw = match open_mpi {
            Ok(object) => object.as_raw_ptr() as usize,
            Err(_) => world_constant(library),
        };
        let world = Comm::from_mpi(raw)?;
        suite(&world)?;
        give_up_with_traffic(Comm::from_mpi(raw)?)?;
        let again = Comm::from_mpi(raw)?;
        assert_eq!(again.allreduce_one(Op::Sum, 1usize)?, world.size());
        let counter = again.remote_counter(3)?.expect("MPI_Init lets one thread call");
        assert_eq!((counter.swap(3)?, world.remote_counter(4)?.is_some()), (3, true));
        drop(world);
        // Communicators that exist when MPI is finalized are freed, and do not call it afterwards.
        aqueduct_comm::prepare_finalize();
        assert_eq!(counter.add(1).map_err(|error| error.kind()), Err(Kind::Mpi));
        assert_eq!((*mpi.get::<Finalize>(b"MPI_Finalize").map_err(broken)?)(), 0);
        drop((again, counter));
    }
    Ok(Vec::new())
}

/// A large message is under way when both sides drop their handles; MPI goes on to move it as soon as it is called again.
fn give_up_with_traffic(comm: Comm) -> Result<(), Error> {
    let others = (comm.rank() + 1) % comm.size();
    drop(comm.start_send(others, 1, vec![7u8; 32 << 20])?);
    for _ in 0..20 {
        comm.try_probe(others, 1)?;
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    drop(comm);
    Ok(())
}

fn world_constant(library: &str) -> usize {
    let mpi_abi = if library.contains("abi") { abi::MpiAbi::Standard } else { abi::MpiAbi::Mpich };
    let facts = abi::facts(mpi_abi);
    let world = facts.iter().find(|fact| fact.expression.contains("MPI_COMM_WORLD"));
    world.expect("the world is a fact").value as usize
}
