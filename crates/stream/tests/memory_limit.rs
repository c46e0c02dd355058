//! The caps of outputs, servers and buffered files follow the memory limit of a control group. Skipped with a notice
//! if none can be created.

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{BufferOptions, Capacity, OpenOptions, available_memory};
use aqueduct_stream::{Error, Options, OutputMode, Role, Stream, Streams, split_io_servers};
use aqueduct_testkit::control_group::LimitedGroup;

const LIMIT: u64 = 256 << 20;
const CHILD: &str = "AQUEDUCT_TEST_MEMORY_LIMIT_CHILD";

/// The caps of an output, of a server and of a buffered file, on two ranks each.
fn caps() -> [u64; 3] {
    let output = Launch::threads(2).run(|world| {
        let (rank, mut streams) = (world.rank() as u64, Streams::new());
        let key = streams.add::<u64>(Stream::array("level", [2]).block([rank], [1]));
        let mut output =
            Options::new().mode(OutputMode::Thread).replace().create(world, "memfs:capped", &streams)?;
        output.step()?.put(key, &[rank]).commit()?;
        Ok::<_, Error>(output.finish()?.memory_cap)
    });
    let server = Launch::threads(2).run(|world| {
        Ok::<_, Error>(match split_io_servers(world, 1)? {
            Role::Server(server) => server.serve()?.memory_cap,
            Role::Compute(_) => 0,
        })
    });
    let buffered = Launch::threads(2).run(|world: &Comm| {
        let mode = aqueduct_file::Mode::read_write().create();
        let open = OpenOptions::from(mode).buffered(&BufferOptions::new(Capacity::Share(50)));
        let file = open.open(world, "memfs:buffered")?;
        let cap = file.buffering().expect("it is buffered").together.cap;
        file.close()?;
        Ok::<_, aqueduct_file::Error>(cap)
    });
    let most = |caps: Vec<u64>| caps.into_iter().max().unwrap();
    [most(output.unwrap()), most(server.unwrap()), most(buffered.unwrap())]
}

#[test]
fn caps_follow_the_limit_of_a_control_group() {
    let shares = [LIMIT / 8 / 2, LIMIT / 2 / 2, LIMIT / 2];
    let caps = caps();
    if std::env::var_os(CHILD).is_some() {
        assert!(available_memory() <= LIMIT);
        let within = caps.iter().zip(shares).all(|(cap, share)| *cap > 0 && *cap <= share);
        assert!(within, "{caps:?}, not more than {shares:?}");
        return;
    }
    let Some(group) = LimitedGroup::new(LIMIT) else { return };
    let above = caps.iter().zip(shares).all(|(cap, share)| *cap > share);
    assert!(above, "outside of the group: {caps:?}, more than {shares:?}");
    let child = group.run_test("caps_follow_the_limit_of_a_control_group", CHILD);
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
}
