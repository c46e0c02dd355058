//! What the lowest layers cost, as ratios to the bare operations measured in the same run, the two taking turns.
//! `cargo xtask bench foundations`.

#[path = "common/table.rs"]
mod table;

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use aqueduct::comm::{Comm, Error, Launch, Op};
use aqueduct::device::{
    Device, DeviceOpenOptions, Handle, HandleExt, MemFs, Segment, SegmentMut, Ufs, Uring, syscalls,
};
use table::Table;

const MIB: usize = 1 << 20;
const BLOCKS: usize = 64;
const ROUNDS: usize = 21;

fn main() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder for the files");
    let create = DeviceOpenOptions::read_write().create(true);
    let open = |device: &dyn Device, name: &str| {
        device.open(folder.path().join(name).as_os_str(), &create).expect("a file to work on")
    };
    let mut table = Table::default();
    let options = File::options().read(true).write(true).clone();
    let ours = open(&Ufs, "contiguous");
    let bare = options.open(folder.path().join("contiguous")).expect("the same file");
    contiguous(&mut table, &bare, &*ours);
    memory(&mut table, &*MemFs::new().open("a".as_ref(), &create).expect("a file in memory"));
    adjacent(&mut table, &*open(&Ufs, "adjacent"));
    scattered(&mut table, &*open(&Uring::new(), "scattered"));
    for ranks in [2, 4] {
        exchange(&mut table, ranks);
    }
    sleeping(&mut table);
    println!("{table}");
}

fn contiguous(table: &mut Table, bare: &File, ours: &dyn Handle) {
    let mut bytes = vec![1; MIB];
    let mut other = bytes.clone();
    let write = alternate(
        |offset| bare.write_all_at(&bytes, offset).expect("pwrite"),
        |offset| ours.write_at(offset, &bytes).expect("write"),
    );
    table.ratios("ufs: 1 MiB writes / pwrite loop", write, 0.97);
    let read = alternate(
        |offset| bare.read_exact_at(&mut bytes, offset).expect("pread"),
        |offset| assert_eq!(ours.read_at(offset, &mut other).expect("read"), MIB as u64),
    );
    table.ratios("ufs: 1 MiB reads / pread loop", read, 0.97);
}

fn memory(table: &mut Table, ours: &dyn Handle) {
    let mut bytes = vec![1; MIB];
    let mut other = bytes.clone();
    let mut target = vec![2; MIB * BLOCKS];
    let write = alternate(
        |offset| target[offset as usize..][..MIB].copy_from_slice(black_box(&bytes)),
        |offset| ours.write_at(offset, black_box(&bytes)).expect("write"),
    );
    table.ratios("memfs: 1 MiB writes / memcpy", write, 0.8);
    let read = alternate(
        |offset| black_box(&mut bytes).copy_from_slice(&target[offset as usize..][..MIB]),
        |offset| assert_eq!(ours.read_at(offset, black_box(&mut other)).expect("read"), MIB as u64),
    );
    table.ratios("memfs: 1 MiB reads / memcpy", read, 0.8);
}

fn adjacent(table: &mut Table, ufs: &dyn Handle) {
    for count in [1000u64, 1025] {
        let pieces: Vec<_> = (0..count).map(|at| Segment::new(at * 100, &[3; 100])).collect();
        let calls = calls_of(|| ufs.write_all(&pieces).expect("write"));
        table.count(&format!("ufs: {count} adjacent pieces, system calls"), calls, count.div_ceil(1024));
    }
}

fn scattered(table: &mut Table, uring: &dyn Handle) {
    let pieces: Vec<_> = (0..1000).map(|at| Segment::new(at * 8192, &[3; 4096])).collect();
    let ring = if uring.capabilities().native_lists { "uring" } else { "uring (refused by the kernel)" };
    let calls = calls_of(|| uring.write_all(&pieces).expect("write"));
    table.count(&format!("{ring}: 1000 scattered 4 KiB writes, system calls"), calls, 20);
    let mut memory = vec![0; 4_096_000];
    let mut pieces: Vec<_> =
        memory.chunks_mut(4096).zip(0..).map(|(bytes, at)| SegmentMut::new(at * 8192, bytes)).collect();
    let calls = calls_of(|| assert_eq!(uring.read_full(&mut pieces).expect("read"), 4_096_000));
    table.count(&format!("{ring}: 1000 scattered 4 KiB reads, system calls"), calls, 20);
}

fn calls_of(work: impl FnOnce()) -> u64 {
    let before = syscalls();
    work();
    syscalls() - before
}

/// Collective calls of 1 MiB per rank against the same ranks copying the same number of bytes by themselves.
fn exchange(table: &mut Table, ranks: usize) {
    let results = Mutex::new((Vec::new(), Vec::new()));
    let job = |world: &Comm| -> Result<(), Error> {
        let mine = vec![world.rank() as u8; MIB];
        let mut all = vec![0; MIB * ranks];
        let gathered = rounds(
            world,
            &mut all,
            |all| world.allgather_into(&mine, all),
            |all| {
                all.chunks_exact_mut(MIB).for_each(|part| part.copy_from_slice(black_box(&mine)));
            },
        )?;
        let mut part = vec![0; MIB];
        let sent = rounds(
            world,
            &mut part,
            |part| world.all_to_all_into(&mine, part),
            |part| {
                part.copy_from_slice(black_box(&mine));
            },
        )?;
        if world.rank() == 0 {
            *results.lock().expect("no rank panics here") = (gathered, sent);
        }
        Ok(())
    };
    Launch::threads(ranks).run(job).expect("a job without faults");
    let (gathered, sent) = results.into_inner().expect("no rank panics here");
    table.ratios(&format!("allgather of 1 MiB per rank, {ranks} threads / memcpy"), gathered, 0.5);
    table.ratios(&format!("all-to-all of 1 MiB per rank, {ranks} threads / memcpy"), sent, 0.5);
}

/// The ratios of the slowest rank's times, copying by itself and calling in turn.
fn rounds(
    world: &Comm,
    memory: &mut [u8],
    mut call: impl FnMut(&mut [u8]) -> Result<(), Error>,
    mut copy: impl FnMut(&mut [u8]),
) -> Result<Vec<f64>, Error> {
    const CALLS: usize = 20;
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        world.barrier()?;
        let start = Instant::now();
        (0..CALLS).for_each(|_| copy(black_box(memory)));
        let bare = world.allreduce_one(Op::Max, start.elapsed().as_secs_f64())?;
        world.barrier()?;
        let start = Instant::now();
        (0..CALLS).try_for_each(|_| call(black_box(memory)))?;
        let ours = world.allreduce_one(Op::Max, start.elapsed().as_secs_f64())?;
        ratios.push(bare / ours);
    }
    Ok(ratios)
}

/// Processor time per small reduction and rank: many ranks on few cores must not cost more than few.
fn sleeping(table: &mut Table) {
    const CALLS: usize = 1000;
    let cost = |ranks: usize| {
        let job = |world: &Comm| (0..CALLS).try_for_each(|_| world.allreduce_one(Op::Sum, 1u64).map(|_| ()));
        let before = processor_time();
        Launch::threads(ranks).run(job).expect("a job without faults");
        processor_time().saturating_sub(before).as_secs_f64() / (CALLS * ranks) as f64
    };
    cost(2);
    let ratios: Vec<f64> = (0..7)
        .map(|_| {
            let few = cost(2);
            cost(64) / few
        })
        .collect();
    table.at_most("CPU per allreduce and rank, 64 thread ranks / 2", ratios, 2.0);
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How fast `ours` is, as parts of `bare`, from rounds that take turns.
fn alternate(mut bare: impl FnMut(u64), mut ours: impl FnMut(u64)) -> Vec<f64> {
    time(&mut bare);
    time(&mut ours);
    (0..ROUNDS).map(|_| time(&mut bare).as_secs_f64() / time(&mut ours).as_secs_f64()).collect()
}

fn time(work: &mut impl FnMut(u64)) -> Duration {
    let start = Instant::now();
    (0..BLOCKS).for_each(|block| work((block * MIB) as u64));
    start.elapsed()
}
