//! The counters of files: system calls, buffers, locks, messages.

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{Counters, File, OpenOptions, Result, Source, View};

const RUNS: usize = 100_000;

fn on(ranks: usize, program: impl Fn(&Comm) -> Result<()> + Send + Sync) {
    Launch::threads(ranks).run(program).unwrap();
}

fn scratch(hints: &[(&str, &str)]) -> OpenOptions {
    let open = OpenOptions::new().read(true).write(true).create(true).delete_on_close(true);
    hints.iter().fold(open, |open, (key, value)| open.hint(*key, *value))
}

/// A name in a folder of its own, as `ufs` knows it.
fn place() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("ufs:{}", folder.path().join("a").display());
    (folder, name)
}

/// What `access` counts.
fn counted(file: &File, access: impl FnOnce() -> Result<()>) -> Result<Counters> {
    let before = file.counters();
    access()?;
    Ok(file.counters() - before)
}

#[test]
fn fine_grained_accesses_take_few_system_calls() {
    let (_folder, name) = place();
    on(2, |world| {
        let file = scratch(&[]).open(world, &name)?;
        file.set_view(&View::round_robin::<i32>(world)?)?;
        let data = vec![world.rank() as i32; RUNS];
        let mut back = vec![0i32; RUNS];
        // Where pages can be mapped, which is so wherever tests run, no way takes a call per run.
        let write = counted(&file, || file.at(0).write(&data).map(drop))?;
        let read = counted(&file, || file.at(0).read(&mut back).map(drop))?;
        assert!(write.system_calls < 20 && read.system_calls < 20, "{write:?} {read:?}");
        assert_eq!((write.writes, write.written, read.reads), (1, 4 * RUNS as u64, 1));
        assert_eq!(back, data);
        file.close()
    });
}

#[test]
fn a_hint_disables_mapped_access() {
    let (_folder, name) = place();
    on(1, |world| {
        let file = scratch(&[("aqueduct_map", "false")]).open(world, &name)?;
        let sparse = Layout::from(Basic::U8).resized(0, 1000).unwrap();
        file.set_view(&View::new(0, &Layout::from(Basic::U8), &sparse)?)?;
        let write = counted(&file, || file.at(0).write(&[1u8; 100]).map(drop))?;
        assert_eq!((write.system_calls, write.copied), (100, 0), "{write:?}");
        file.close()
    });
}

#[test]
fn repeated_sieving_reuses_its_buffer() {
    let (_folder, name) = place();
    on(1, |world| {
        let file = scratch(&[("aqueduct_map", "false"), ("romio_ds_read", "enable")]).open(world, &name)?;
        file.at(0).write(&vec![7u8; 1 << 20])?;
        let sparse = Layout::from(Basic::U8).resized(0, 16).unwrap();
        file.set_view(&View::new(0, &Layout::from(Basic::U8), &sparse)?)?;
        let mut back = vec![0u8; 1 << 15];
        let first = counted(&file, || file.at(0).read(&mut back).map(drop))?;
        let second = counted(&file, || file.at(0).read(&mut back).map(drop))?;
        assert!(first.allocated > 1 << 18 && first.system_calls == 1, "{first:?}");
        assert_eq!((second.allocated, second.system_calls), (0, 1), "{second:?}");
        assert_eq!(back, vec![7; 1 << 15]);
        file.close()
    });
}

#[test]
fn a_file_extended_by_set_size_is_written_like_a_new_one() {
    const PIECE: u64 = 64 << 10;
    for length in [0, 128 * PIECE] {
        let (_folder, name) = place();
        on(2, |world| {
            let file = scratch(&[]).open(world, &name)?;
            file.set_size(length)?;
            file.set_view(&View::round_robin_of(world, &Layout::bytes(PIECE).unwrap())?)?;
            let data = vec![1u8; 64 * PIECE as usize];
            let first = counted(&file, || file.at(0).all().write(&data).map(drop))?;
            // Put together in buffers, and written by one rank.
            assert!(first.allocated > 0 && first.copied == 64 * PIECE, "length {length}: {first:?}");
            assert_eq!(first.system_calls > 0, world.rank() == 0, "length {length}: {first:?}");
            file.close()
        });
    }
}

#[test]
fn strided_memory_needs_no_buffer_of_its_size() {
    let (_folder, name) = place();
    on(3, |world| {
        let file = scratch(&[]).open(world, &name)?;
        let number = Layout::from(Basic::F64).resized(0, 24).unwrap();
        let count = 1 << 20;
        let memory = vec![world.rank() as u8; 24 * count as usize];
        let ways = [View::of(0, &Layout::of::<f64>())?, View::round_robin::<f64>(world)?];
        for view in &ways {
            file.set_view(view)?;
            let source = || Source::laid_out(&memory, &number, count);
            let alone =
                counted(&file, || file.at(world.rank() as u64 * count).write(source().unwrap()).map(drop))?;
            let apart = counted(&file, || file.at(0).all().write(source().unwrap()).map(drop))?;
            for seen in [alone, apart] {
                assert!(seen.allocated <= 1 << 20, "{seen:?}");
            }
        }
        file.close()
    });
}

#[test]
fn locks_are_counted_and_so_are_waits_for_them() {
    let (_folder, name) = place();
    on(2, |world| {
        let file = scratch(&[]).open(world, &name)?;
        file.set_atomic(true)?;
        let access = || (0..200).try_for_each(|_| file.at(0).write(&vec![1u8; 100_000]).map(drop));
        let seen = counted(&file, access)?;
        assert_eq!(seen.locks, 200);
        assert!(seen.lock_waits <= 200);
        file.set_atomic(false)?;
        let seen = counted(&file, || file.at(0).write(&[1u8]).map(drop))?;
        assert_eq!((seen.locks, seen.lock_waits), (0, 0));
        file.close()
    });
}

#[test]
fn aggregation_buffers_are_reused_by_the_next_file() {
    const PIECE: usize = 64 << 10;
    let (_folder, name) = place();
    on(3, |world| {
        for file in 0..3 {
            let open = scratch(&[]).open(world, &name)?;
            open.set_view(&View::round_robin_of(
                world,
                &Layout::from(Basic::U8).contiguous(PIECE as u64).unwrap(),
            )?)?;
            let data = vec![(world.rank() + 1) as u8; 40 * PIECE];
            let write = counted(&open, || open.at(0).all().write(&data).map(drop))?;
            assert_eq!(write.copied, data.len() as u64, "each rank copies its own");
            // One rank writes them, all in one piece where that is the shape.
            assert_eq!(write.system_calls > 0, world.rank() == 0, "{write:?}");
            assert_eq!(write.allocated < PIECE as u64, file > 0, "{write:?} of file {file}");
            let mut back = vec![0u8; data.len()];
            open.at(0).all().read(&mut back)?;
            assert!(back == data);
            open.close()?;
        }
        Ok(())
    });
}

#[test]
fn traffic_of_an_earlier_file_is_not_counted() {
    on(4, |world| {
        for _ in 0..3 {
            let file = scratch(&[]).open(world, "memfs:talk")?;
            assert_eq!((file.counters().messages, file.counters().sent), (0, 0));
            file.close()?;
        }
        Ok(())
    });
}

#[test]
fn a_trace_has_the_strategies_and_their_estimates() {
    let (folder, name) = place();
    let trace = folder.path().join("ops.csv");
    on(2, |world| {
        let file = scratch(&[]).open(world, format!("trace={}:{name}", trace.display()))?;
        file.set_view(&View::round_robin::<i32>(world)?)?;
        (0..3).try_for_each(|_| file.at(0).write(&[1i32; 100]).map(drop))?;
        file.at(0).all().write(&[1i32; 100])?;
        file.close()
    });
    let text = std::fs::read_to_string(trace).unwrap();
    for rank in 0..2 {
        let remarks: Vec<&str> =
            text.lines().filter(|line| line.starts_with(&format!("{rank},Annotate,"))).collect();
        // Once for each kind of access that is done in a new way.
        assert!((2..=6).contains(&remarks.len()), "{text}");
        let reported = |what: &str| {
            let start = format!("\"{what} of 400 bytes, about 100 runs over 796");
            remarks.iter().any(|remark| remark.contains(&start))
        };
        assert!(reported("write") && reported("write_all"), "{text}");
    }
}
