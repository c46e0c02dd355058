//! The short path: an independent contiguous access without view, buffer or atomic mode is one system call, without allocations and locks.

use std::alloc::{GlobalAlloc, Layout as MemoryLayout, System};
use std::cell::Cell;
use std::path::Path;

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{Error, File, Kind, OpenOptions, View, Whence};

/// Counts the allocations of each thread.
struct CountingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all calls go to the system's allocator.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: MemoryLayout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: MemoryLayout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ACCESSES: u64 = 500;

fn open(world: &Comm, path: &Path) -> Result<File, Error> {
    OpenOptions::new().read(true).write(true).create(true).open(world, path)
}

/// Runs a program on one rank and on three, each with a new file.
fn on_ranks(program: impl Fn(&Comm, &Path) -> Result<(), Error> + Sync) {
    for ranks in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        Launch::threads(ranks).run(|world| program(world, &path)).unwrap();
    }
}

/// What a rank's accesses have cost: system calls, copied bytes, locks, allocations.
fn cost(file: &File, accesses: impl FnOnce()) -> [u64; 4] {
    let (before, allocated) = (file.counters(), ALLOCATIONS.get());
    accesses();
    let done = file.counters() - before;
    [done.system_calls, done.copied, done.locks, ALLOCATIONS.get() - allocated]
}

#[test]
fn an_access_is_one_system_call_without_allocations_and_locks() {
    on_ranks(|world, path| {
        let file = open(world, path)?;
        let size = |at: u64| [1, 64, 4096, 20_000][at as usize % 4];
        let start = |at: u64| (at * world.size() as u64 + world.rank() as u64) * 20_000;
        let mut memory = vec![7u8; 20_000];
        // The first write allocates the history of writes.
        file.at(start(0)).write(&memory)?;
        let written = cost(&file, || {
            for at in 1..=ACCESSES {
                assert_eq!(file.at(start(at)).write(&memory[..size(at)]).unwrap().bytes(), size(at) as u64);
            }
        });
        assert_eq!(written, [ACCESSES, 0, 0, 0], "writes at new places");
        let read = cost(&file, || {
            for at in 1..=ACCESSES {
                let count = file.at(start(at)).read(&mut memory[..size(at)]).unwrap().bytes();
                assert_eq!(count, size(at) as u64);
            }
        });
        assert_eq!(read, [ACCESSES, 0, 0, 0], "reads");
        world.barrier().unwrap();
        let shared = cost(&file, || {
            for _ in 0..ACCESSES {
                assert_eq!(file.shared().read(&mut memory[..64]).unwrap().bytes(), 64);
            }
        });
        assert_eq!(shared, [ACCESSES, 0, 0, 0], "reads at the shared pointer");
        file.close()
    });
}

#[test]
fn one_rank_takes_no_lock_in_atomic_mode_and_several_take_one_per_access() {
    on_ranks(|world, path| {
        let file = open(world, path)?;
        file.set_atomic(true)?;
        let at = 1000 * world.rank() as u64;
        let [calls, _, locks, _] = cost(&file, || {
            for _ in 0..3 {
                file.at(at).write(&[1u8; 1000]).unwrap();
                file.at(at).read(&mut [0u8; 1000]).unwrap();
            }
        });
        assert_eq!((calls, locks), (6, if world.size() > 1 { 6 } else { 0 }));
        file.close()
    });
}

#[test]
fn views_of_contiguous_elements_take_the_short_path_and_pointers_move_on() {
    on_ranks(|world, path| {
        let file = open(world, path)?;
        let element = Layout::from(Basic::F64);
        file.set_view(&View::new(24 + 4096 * world.rank() as u64, &element, &element)?)?;
        let values: Vec<f64> = (0..100).map(|at| f64::from(at) + 1000.0 * world.rank() as f64).collect();
        let [calls, _, _, allocations] = cost(&file, || {
            file.at(0).write(&values[..1]).unwrap();
        });
        assert!(calls == 1 && allocations <= 1, "the history of writes is the only allocation");
        let rest = cost(&file, || {
            file.seek(1, Whence::Start).unwrap();
            file.at_pointer().write(&values[1..40]).unwrap();
            file.at_pointer().write(&values[40..]).unwrap();
        });
        assert_eq!(rest, [2, 0, 0, 0]);
        assert_eq!(file.position()?, 100);
        let mut back = vec![0.0f64; 100];
        file.seek(0, Whence::Start)?;
        assert_eq!(file.at_pointer().read(&mut back)?.of::<f64>(), 100);
        assert_eq!(back, values);
        // Beyond the end of the file nothing is read, and the pointer moves as MPI says.
        let length = file.size()?;
        let beyond = (length - 24) / 8 + 10;
        assert_eq!(file.at(beyond).read(&mut back)?.bytes(), 0);
        file.sync()?;
        file.close()
    });
}

#[test]
fn errors_are_those_of_the_long_path() {
    on_ranks(|world, path| {
        let file = open(world, path)?;
        let kind = |outcome: Result<aqueduct_file::Count, Error>| outcome.map(drop).unwrap_err().kind();
        let element = Layout::from(Basic::F64);
        file.set_view(&View::new(0, &element, &element)?)?;
        assert_eq!(kind(file.at(0).write(&[1u8; 9])), Kind::BadCount);
        assert_eq!(kind(file.at(u64::MAX / 8).write(&[1u8; 8])), Kind::BadArgument);
        assert_eq!(kind(file.at((i64::MAX as u64 - 7) / 8).read(&mut [1u8; 16])), Kind::BadArgument);
        assert_eq!(file.at(1 << 60).write(&[] as &[u8])?.bytes(), 0);
        file.close()?;
        let reader = File::open(world, path)?;
        assert_eq!(kind(reader.at(0).write(&[1u8; 8])), Kind::ReadOnly);
        reader.close()?;
        let writer = OpenOptions::new().write(true).open(world, path)?;
        assert_eq!(kind(writer.at(0).read(&mut [1u8; 8])), Kind::WriteOnly);
        writer.close()
    });
}

#[test]
fn buffers_atomic_mode_and_hints_leave_the_short_path() {
    on_ranks(|world, path| {
        let (at, expected) = (8 * world.rank() as u64, [world.rank() as u8; 8]);
        let mut back = [0u8; 8];
        for hint in
            [("aqueduct_buffer", "1MiB"), ("aqueduct_strategy", "sieve"), ("romio_ds_write", "enable")]
        {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .hint(hint.0, hint.1)
                .open(world, path)?;
            file.at(at).write(&expected)?;
            file.at(at).read(&mut back)?;
            assert_eq!(back, expected, "{hint:?}");
            file.set_atomic(true)?;
            file.at(at).write(&expected)?;
            file.set_atomic(false)?;
            file.at(at).read(&mut back)?;
            assert_eq!(back, expected, "{hint:?}");
            file.close()?;
        }
        Ok(())
    });
}
