//! Each of MPI's data access functions, by its name, on thread ranks.

use std::sync::atomic::{AtomicUsize, Ordering};

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{Error, File, Kind, OpenOptions, Result, View, Whence};

const RANKS: usize = 3;
const COUNT: usize = 100;

/// Runs a program on one node and on several simulated nodes, each time on a fresh file in memory.
fn each_way(program: impl Fn(&Comm, &File) -> Result<()> + Sync) {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    for launch in [Launch::threads(RANKS), Launch::threads(RANKS).node_ranks(2), Launch::threads(1)] {
        let name = format!("memfs:access-{}", FILES.fetch_add(1, Ordering::Relaxed));
        let outcome = launch.run(|world| {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .delete_on_close(true)
                .open(world, &name)?;
            program(world, &file)?;
            file.close()
        });
        outcome.unwrap();
    }
}

fn values(rank: usize) -> Vec<i32> {
    (0..COUNT).map(|at| (rank * 1000 + at) as i32).collect()
}

/// Elements in round-robin order: rank r sees every size-th, from the r-th on.
fn round_robin(world: &Comm) -> View {
    let element = Layout::from(Basic::I32);
    let filetype = element.resized(0, 4 * world.size() as i64).unwrap();
    View::new(4 * world.rank() as u64, &element, &filetype).unwrap()
}

/// What the whole file holds after all ranks wrote [`values`] round-robin.
fn round_robin_values(size: usize) -> Vec<i32> {
    (0..COUNT * size).map(|at| values(at % size)[at / size]).collect()
}

fn whole(file: &File, count: usize) -> Vec<i32> {
    let mut all = vec![-1; count];
    file.set_view(&View::default()).unwrap();
    assert_eq!(file.at(0).all().read(&mut all).unwrap().of::<i32>(), count as u64);
    all
}

fn neighbour(world: &Comm) -> usize {
    (world.rank() + 1) % world.size()
}

#[test]
fn write_at_and_read_at() {
    each_way(|world, file| {
        let place = |rank: usize| (rank * COUNT * 4) as u64;
        assert_eq!(file.at(place(world.rank())).write(&values(world.rank()))?.of::<i32>(), COUNT as u64);
        world.barrier().unwrap();
        let mut got = vec![0; COUNT];
        file.at(place(neighbour(world))).read(&mut got)?;
        assert_eq!(got, values(neighbour(world)));
        Ok(())
    });
}

#[test]
fn write_at_all_and_read_at_all() {
    each_way(|world, file| {
        file.set_view(&round_robin(world))?;
        file.at(0).all().write(&values(world.rank()))?;
        let mut got = vec![0; COUNT];
        assert_eq!(file.at(0).all().read(&mut got)?.of::<i32>(), COUNT as u64);
        assert_eq!(got, values(world.rank()));
        assert_eq!(whole(file, COUNT * world.size()), round_robin_values(world.size()));
        Ok(())
    });
}

#[test]
fn write_and_read_move_the_individual_pointer() {
    each_way(|world, file| {
        file.set_view(&round_robin(world))?;
        for part in values(world.rank()).chunks(10) {
            file.at_pointer().write(part)?;
        }
        assert_eq!(file.position()?, COUNT as u64);
        assert_eq!(file.seek(-(COUNT as i64), Whence::Current)?, 0);
        let mut got = vec![0; COUNT];
        file.at_pointer().read(&mut got)?;
        assert_eq!(got, values(world.rank()));
        world.barrier().unwrap();
        assert_eq!(whole(file, COUNT * world.size()), round_robin_values(world.size()));
        Ok(())
    });
}

#[test]
fn write_all_and_read_all() {
    each_way(|world, file| {
        file.set_view(&round_robin(world))?;
        for part in values(world.rank()).chunks(COUNT / 4) {
            file.at_pointer().all().write(part)?;
        }
        file.seek(0, Whence::Start)?;
        let mut got = vec![0; COUNT];
        file.at_pointer().all().read(&mut got)?;
        assert_eq!(got, values(world.rank()));
        assert_eq!(whole(file, COUNT * world.size()), round_robin_values(world.size()));
        Ok(())
    });
}

#[test]
fn write_shared_and_read_shared_take_turns() {
    each_way(|world, file| {
        let element = Layout::from(Basic::I32);
        file.set_view(&View::of(0, &element).unwrap())?;
        for value in values(world.rank()) {
            file.shared().write(&[value])?;
        }
        world.barrier().unwrap();
        assert_eq!(file.position_shared()?, (COUNT * world.size()) as u64);
        file.seek_shared(0, Whence::Start)?;
        let mut mine = Vec::new();
        for _ in 0..COUNT {
            let mut one = [0];
            assert_eq!(file.shared().read(&mut one)?.of::<i32>(), 1);
            mine.push(one[0]);
        }
        let mut all = world.allgather(&mine).unwrap();
        all.sort_unstable();
        let mut expected = round_robin_values(world.size());
        expected.sort_unstable();
        assert_eq!(all, expected);
        Ok(())
    });
}

#[test]
fn write_ordered_and_read_ordered_go_by_rank() {
    each_way(|world, file| {
        let element = Layout::from(Basic::I32);
        file.set_view(&View::of(0, &element).unwrap())?;
        // Each rank its own count.
        let mine = vec![world.rank() as i32; 10 + world.rank()];
        file.shared().all().write(&mine)?;
        file.shared().all().write(&mine)?;
        let once: Vec<i32> = (0..world.size()).flat_map(|rank| vec![rank as i32; 10 + rank]).collect();
        file.seek_shared(0, Whence::Start)?;
        let mut got = vec![-1; mine.len()];
        file.shared().all().read(&mut got)?;
        assert_eq!(got, mine);
        assert_eq!(whole(file, 2 * once.len()), [once.clone(), once].concat());
        Ok(())
    });
}

#[test]
fn iwrite_at_and_iread_at() {
    each_way(|world, file| {
        let place = |part: usize| ((world.rank() * 10 + part) * 40) as u64;
        let parts: Vec<Vec<i32>> = values(world.rank()).chunks(10).map(<[i32]>::to_vec).collect();
        let writes: Vec<_> = parts
            .iter()
            .enumerate()
            .map(|(at, part)| file.at(place(at)).start_write(part.clone()).unwrap())
            .collect();
        for ((buffer, count), part) in aqueduct_file::wait_all(writes)?.iter().zip(&parts) {
            assert_eq!((buffer, count.bytes()), (part, 40));
        }
        let reads: Vec<_> =
            (0..10).map(|at| file.at(place(at)).start_read(vec![0i32; 10]).unwrap()).collect();
        let got = aqueduct_file::wait_all(reads)?;
        assert!(got.iter().map(|(buffer, _)| buffer).eq(&parts));
        Ok(())
    });
}

#[test]
fn iwrite_and_iread_advance_at_once() {
    each_way(|world, file| {
        file.set_view(&round_robin(world))?;
        let mut writes = Vec::new();
        for part in values(world.rank()).chunks(10) {
            writes.push(file.at_pointer().start_write(part.to_vec())?);
        }
        assert_eq!(file.position()?, COUNT as u64);
        while let Some((_, outcome)) = aqueduct_file::wait_any(&mut writes) {
            assert_eq!(outcome?.1.bytes(), 40);
        }
        file.seek(0, Whence::Start)?;
        let (got, _) = file.at_pointer().start_read(vec![0i32; COUNT])?.wait()?;
        assert_eq!(got, values(world.rank()));
        world.barrier().unwrap();
        assert_eq!(whole(file, COUNT * world.size()), round_robin_values(world.size()));
        Ok(())
    });
}

#[test]
fn iwrite_shared_and_iread_shared() {
    each_way(|world, file| {
        let element = Layout::from(Basic::I32);
        file.set_view(&View::of(0, &element).unwrap())?;
        let (_, count) = file.shared().start_write(values(world.rank()))?.wait()?;
        assert_eq!(count.of::<i32>(), COUNT as u64);
        world.barrier().unwrap();
        file.seek_shared(0, Whence::Start)?;
        let (got, _) = file.shared().start_read(vec![0i32; COUNT])?.wait()?;
        assert!((0..world.size()).any(|rank| got == values(rank)));
        Ok(())
    });
}

#[test]
fn iwrite_at_all_and_iread_at_all() {
    each_way(|world, file| {
        file.set_view(&round_robin(world))?;
        let halves: Vec<Vec<i32>> = values(world.rank()).chunks(COUNT / 2).map(<[i32]>::to_vec).collect();
        let first = file.at(0).all().start_write(halves[0].clone())?;
        let second = file.at(COUNT as u64 / 2).all().start_write(halves[1].clone())?;
        second.wait()?;
        first.wait()?;
        let (got, _) = file.at(0).all().start_read(vec![0i32; COUNT])?.wait()?;
        assert_eq!(got, values(world.rank()));
        assert_eq!(whole(file, COUNT * world.size()), round_robin_values(world.size()));
        Ok(())
    });
}

#[test]
fn iwrite_all_and_iread_all() {
    each_way(|world, file| {
        file.set_view(&round_robin(world))?;
        let mut writes = Vec::new();
        for part in values(world.rank()).chunks(COUNT / 5) {
            writes.push(file.at_pointer().all().start_write(part.to_vec())?);
        }
        while !writes.is_empty() {
            aqueduct_file::wait_some(&mut writes).into_iter().for_each(|outcome| drop(outcome.unwrap()));
        }
        file.seek(0, Whence::Start)?;
        let (got, _) = file.at_pointer().all().start_read(vec![0i32; COUNT])?.wait()?;
        assert_eq!(got, values(world.rank()));
        Ok(())
    });
}

#[test]
fn write_at_all_begin_and_end() {
    each_way(|world, file| {
        file.set_view(&round_robin(world))?;
        let split = file.at(0).all().begin_write(values(world.rank()))?;
        let refused = file.at(0).all().begin_write(vec![0i32]).err().unwrap();
        assert_eq!(refused.kind(), Kind::SplitPending);
        let (_, count) = split.end()?;
        assert_eq!(count.of::<i32>(), COUNT as u64);
        let (got, _) = file.at(0).all().begin_read(vec![0i32; COUNT])?.end()?;
        assert_eq!(got, values(world.rank()));
        Ok(())
    });
}

#[test]
fn write_all_begin_and_end() {
    each_way(|world, file| {
        file.set_view(&round_robin(world))?;
        file.at_pointer().all().begin_write(values(world.rank()))?.end()?;
        file.seek(0, Whence::Start)?;
        let (got, _) = file.at_pointer().all().begin_read(vec![0i32; COUNT])?.end()?;
        assert_eq!(got, values(world.rank()));
        Ok(())
    });
}

#[test]
fn write_ordered_begin_and_end() {
    each_way(|world, file| {
        let element = Layout::from(Basic::I32);
        file.set_view(&View::of(0, &element).unwrap())?;
        file.shared().all().begin_write(values(world.rank()))?.end()?;
        file.seek_shared(0, Whence::Start)?;
        let (got, _) = file.shared().all().begin_read(vec![0i32; COUNT])?.end()?;
        assert_eq!(got, values(world.rank()));
        let all: Vec<i32> = (0..world.size()).flat_map(values).collect();
        assert_eq!(whole(file, all.len()), all);
        Ok(())
    });
}

#[test]
fn reads_count_exactly_at_the_end_of_the_file() {
    each_way(|world, file| {
        file.set_view(&round_robin(world))?;
        file.at(0).all().write(&values(world.rank()))?;
        let mut got = vec![-7; COUNT + 20];
        for outcome in [file.at(0).all().read(&mut got)?, file.at(0).read(&mut got)?] {
            assert_eq!(outcome.of::<i32>(), COUNT as u64);
        }
        assert_eq!(got[COUNT..], [-7; 20]);
        assert_eq!(file.at(COUNT as u64 + 5).read(&mut got)?.bytes(), 0);
        let (_, count) = file.at(COUNT as u64 - 3).start_read(vec![0i32; 10])?.wait()?;
        assert_eq!(count.of::<i32>(), 3);
        world.barrier().unwrap();
        Ok(())
    });
}

#[test]
fn fine_grained_reads_are_sieved() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("sieved");
    let outcome = Launch::threads(1).run(|world| {
        const MANY: usize = 1_000_000;
        let file = OpenOptions::new().read(true).write(true).create(true).open(world, &name)?;
        file.at(0).write(&(0..2 * MANY as u32).collect::<Vec<_>>())?;
        let element = Layout::from(Basic::U32);
        file.set_view(&View::new(4, &element, &element.resized(0, 8).unwrap())?)?;
        let mut odd = vec![0u32; MANY];
        let before = aqueduct_device::syscalls();
        assert_eq!(file.at(0).read(&mut odd)?.of::<u32>(), MANY as u64);
        let calls = aqueduct_device::syscalls() - before;
        assert!(odd.iter().enumerate().all(|(at, number)| *number as usize == 2 * at + 1));
        assert!(calls <= 3, "{calls} system calls for {MANY} runs");
        file.close()
    });
    outcome.unwrap();
}

#[test]
fn the_same_error_reaches_every_rank() {
    each_way(|world, file| {
        let element = Layout::from(Basic::I32);
        file.set_view(&View::of(0, &element).unwrap())?;
        // Only the last rank's memory is not a multiple of the etype size.
        let odd = world.rank() + 1 == world.size();
        let data = vec![1u8; if odd { 5 } else { 8 }];
        for error in [
            file.at(0).all().write(&data).unwrap_err(),
            file.shared().all().write(&data).unwrap_err(),
            file.at_pointer().all().start_write(data.clone())?.wait().unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::BadCount, "{error}");
            assert_eq!(error.rank(), (!odd).then_some(world.size() - 1), "{error}");
        }
        Ok::<_, Error>(())
    });
}

#[test]
fn ordered_accesses_follow_earlier_and_precede_later_shared_accesses_of_each_rank() {
    const TURNS: u64 = 300;
    let share = |turn: u64, rank: u64| (turn * 7 + rank * 3) % 5;
    each_way(|world, file| {
        let (rank, ranks) = (world.rank() as u64, world.size() as u64);
        let mut end = 0;
        for turn in 0..TURNS {
            let alone: Vec<u64> =
                (0..(turn + rank) % 3).map(|_| file.reserve_shared(1)).collect::<Result<_>>()?;
            let start = file.reserve_ordered(share(turn, rank))?;
            let first = start - (0..rank).map(|before| share(turn, before)).sum::<u64>();
            assert!(
                alone.iter().all(|at| (end..first).contains(at)),
                "turn {turn}: {alone:?} of {end}..{first}"
            );
            let taken: u64 = (0..ranks).map(|rank| (turn + rank) % 3).sum();
            assert_eq!(first, end + taken, "turn {turn}");
            end = first + (0..ranks).map(|rank| share(turn, rank)).sum::<u64>();
        }
        assert_eq!(file.seek_shared(0, Whence::Current)?, end);
        Ok(())
    });
}
