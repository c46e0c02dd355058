//! Files that a rank finishes and closes by itself, because the program ends: waits for other ranks are limited, and what closing reports is returned.

mod timeout;

use std::time::{Duration, Instant};

use aqueduct_comm::Launch;
use aqueduct_file::{Class, Mode, OpenOptions};
use timeout::with_timeout;

/// Long enough to see that it was waited, short enough for a test.
const LIMIT: Duration = Duration::from_millis(300);

#[test]
fn a_wait_for_a_collective_operation_without_the_other_ranks_is_limited() {
    with_timeout("a file left open", || {
        let ranks = Launch::threads(2).node_ranks(1).run(|world| {
            let mode = Mode::read_write().create().delete_on_close();
            let file = OpenOptions::from(mode).open(world, "memfs:closing-alone")?;
            if world.rank() == 0 {
                let request = file.at(0).all().start_write(vec![1u8; 1000])?;
                let split = file.at(1000).all().begin_write(vec![1u8; 1000])?;
                let start = Instant::now();
                assert!(split.end_within(LIMIT).is_none());
                let deadline = Instant::now() + LIMIT;
                assert!(file.finish_alone(deadline).is_err());
                file.close_alone()?;
                assert!(start.elapsed() >= LIMIT && start.elapsed() < 20 * LIMIT, "{:?}", start.elapsed());
                assert!(!request.is_done());
            } else {
                // Stays until the other one has given up: a rank that ends would end its wait.
                std::thread::sleep(4 * LIMIT);
                file.close_alone()?;
            }
            Ok::<_, aqueduct_file::Error>(())
        });
        assert!(ranks.is_ok(), "{ranks:?}");
    });
}

#[test]
fn closing_alone_returns_what_the_device_reports() {
    Launch::threads(2)
        .run(|world| {
            let folder = std::env::temp_dir();
            let name = format!(
                "fault=rank=1,close=quota@#1+:{}/closing-alone-{}",
                folder.display(),
                std::process::id()
            );
            let files = [
                OpenOptions::new().read(true).write(true).create(true).open(world, &name)?,
                OpenOptions::new().read(true).write(true).open(world, &name)?,
            ];
            for (number, file) in files.into_iter().enumerate() {
                file.finish_alone(Instant::now() + LIMIT)?;
                let closed = if number == 0 { file.close_alone() } else { file.close_at_exit() };
                let expected = (world.rank() == 1).then_some(Class::Quota);
                assert_eq!(closed.err().map(|error| error.class()), expected);
            }
            world.barrier().expect("all ranks are here");
            if world.rank() == 0 {
                aqueduct_file::delete(name.split_once("+:").map_or("", |(_, path)| path))?;
            }
            Ok::<_, aqueduct_file::Error>(())
        })
        .expect("all ranks succeed");
}
