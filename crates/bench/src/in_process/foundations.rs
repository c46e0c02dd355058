//! Devices and collective calls against system calls and `memcpy`.

use std::cell::RefCell;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use anyhow::bail;
use aqueduct::comm::{Comm, Error, Launch, Op};
use aqueduct::device::{
    Device, DeviceOpenOptions, Handle, HandleExt, MemFs, Segment, SegmentMut, Ufs, Uring, syscalls,
};
use rustix::time::ClockId;

use crate::table::FigureTable;
use crate::timing::{alternate, best_and_median, cpu_seconds, ratios, seconds, slowest_rank};
use crate::tools::scratch_folder;

const MIB: usize = 1 << 20;
const BLOCKS: usize = 64;
const ROUNDS: usize = 21;

pub(crate) fn run(words: &[&str]) -> anyhow::Result<()> {
    if let Some(word) = words.first() {
        bail!("foundations takes no argument {word}");
    }
    let folder = scratch_folder()?;
    let create = DeviceOpenOptions::read_write().create(true);
    let open = |device: &dyn Device, name: &str| device.open(folder.path().join(name).as_os_str(), &create);
    let mut table = FigureTable::default();
    let ours = open(&Ufs, "contiguous")?;
    let bare = File::options().read(true).write(true).open(folder.path().join("contiguous"))?;
    contiguous(&mut table, &bare, &*ours);
    accesses(&mut table, folder.path())?;
    memory(&mut table, &*MemFs::new().open("a".as_ref(), &create)?);
    adjacent(&mut table, &*open(&Ufs, "adjacent")?);
    scattered(&mut table, &*open(&Uring::new(), "scattered")?);
    for ranks in [2, 4] {
        exchange(&mut table, ranks);
    }
    oversubscription(&mut table);
    table.finish();
    Ok(())
}

fn contiguous(table: &mut FigureTable, bare: &File, ours: &dyn Handle) {
    let mut bytes = vec![1; MIB];
    let mut other = bytes.clone();
    let write = compare(
        |offset| bare.write_all_at(&bytes, offset).expect("pwrite"),
        |offset| ours.write_at(offset, &bytes).expect("write"),
    );
    table.at_least("ufs: 1 MiB writes / pwrite loop", &write, 0.97);
    let read = compare(
        |offset| bare.read_exact_at(&mut bytes, offset).expect("pread"),
        |offset| assert_eq!(ours.read_at(offset, &mut other).expect("read"), MIB as u64),
    );
    table.at_least("ufs: 1 MiB reads / pread loop", &read, 0.97);
}

/// Independent accesses of a file without a view against the same system calls. The targets are 100 ns above a system call of
/// 300 ns for small accesses, and 2 % for the accesses of the study of ADIO (10 of 1 MB).
fn accesses(table: &mut FigureTable, folder: &Path) -> anyhow::Result<()> {
    let path = folder.join("accesses");
    let table = Mutex::new(table);
    let job = |world: &Comm| -> Result<(), aqueduct::Error> {
        let file = aqueduct::file::File::create(world, &path)?;
        let bare = File::options().read(true).write(true).open(&path).expect("the file exists");
        let memory = RefCell::new(vec![1; MIB]);
        bare.write_all_at(&vec![1; MIB * BLOCKS], 0).expect("pwrite");
        let add = |name: &str, size: usize, calls: u64, bare: &dyn Fn(u64), ours: &dyn Fn(u64)| {
            let times = |one: &dyn Fn(u64)| seconds(|| (0..calls).for_each(|call| one(call * size as u64)));
            let pairs =
                alternate(ROUNDS, || Ok::<_, Error>(times(bare)), || Ok(times(ours))).expect("no error");
            let nanoseconds = |seconds: f64| (seconds / calls as f64 * 1e9).round();
            let [bare, ours] = [0, 1].map(|at| {
                let times: Vec<f64> = pairs.iter().map(|pair| [pair.0, pair.1][at]).collect();
                nanoseconds(best_and_median(&times)[0])
            });
            let label = format!("file: {name} of {size} bytes, {ours} ns / system call, {bare} ns");
            table.lock().expect("one rank").at_least(
                &label,
                &ratios(&pairs),
                if size < MIB { 0.75 } else { 0.98 },
            );
        };
        for (size, calls) in [(64, 20_000), (4096, 4000), (MIB, 10)] {
            add(
                "reads",
                size,
                calls,
                &|offset| {
                    bare.read_exact_at(&mut memory.borrow_mut()[..size], offset).expect("pread");
                },
                &|offset| {
                    file.at(offset).read(&mut memory.borrow_mut()[..size]).expect("read");
                },
            );
            add(
                "writes",
                size,
                calls,
                &|offset| {
                    bare.write_all_at(&memory.borrow()[..size], offset).expect("pwrite");
                },
                &|offset| {
                    file.at(offset).write(&memory.borrow()[..size]).expect("write");
                },
            );
        }
        file.close()
    };
    Launch::threads(1).run(job)?;
    Ok(())
}

fn memory(table: &mut FigureTable, ours: &dyn Handle) {
    let mut bytes = vec![1; MIB];
    let mut other = bytes.clone();
    let mut target = vec![2; MIB * BLOCKS];
    let write = compare(
        |offset| target[offset as usize..][..MIB].copy_from_slice(black_box(&bytes)),
        |offset| ours.write_at(offset, black_box(&bytes)).expect("write"),
    );
    table.at_least("memfs: 1 MiB writes / memcpy", &write, 0.8);
    let read = compare(
        |offset| black_box(&mut bytes).copy_from_slice(&target[offset as usize..][..MIB]),
        |offset| assert_eq!(ours.read_at(offset, black_box(&mut other)).expect("read"), MIB as u64),
    );
    table.at_least("memfs: 1 MiB reads / memcpy", &read, 0.8);
}

fn adjacent(table: &mut FigureTable, ufs: &dyn Handle) {
    for count in [1000u64, 1025] {
        let segments: Vec<_> = (0..count).map(|at| Segment::new(at * 100, &[3; 100])).collect();
        let calls = count_calls(|| ufs.write_all(&segments).expect("write"));
        table.count(&format!("ufs: {count} adjacent segments, system calls"), calls, count.div_ceil(1024));
    }
}

fn scattered(table: &mut FigureTable, uring: &dyn Handle) {
    let segments: Vec<_> = (0..1000).map(|at| Segment::new(at * 8192, &[3; 4096])).collect();
    let ring = if uring.capabilities().native_lists { "uring" } else { "uring (refused by the kernel)" };
    let calls = count_calls(|| uring.write_all(&segments).expect("write"));
    table.count(&format!("{ring}: 1000 scattered 4 KiB writes, system calls"), calls, 20);
    let mut memory = vec![0; 4_096_000];
    let mut segments: Vec<_> =
        memory.chunks_mut(4096).zip(0..).map(|(bytes, at)| SegmentMut::new(at * 8192, bytes)).collect();
    let calls = count_calls(|| assert_eq!(uring.read_full(&mut segments).expect("read"), 4_096_000));
    table.count(&format!("{ring}: 1000 scattered 4 KiB reads, system calls"), calls, 20);
}

fn count_calls(work: impl FnOnce()) -> u64 {
    let before = syscalls();
    work();
    syscalls() - before
}

/// Collective calls of 1 MiB per rank against copies of the same number of bytes by the same ranks.
fn exchange(table: &mut FigureTable, ranks: usize) {
    let results = Mutex::new((Vec::new(), Vec::new()));
    let job = |world: &Comm| -> Result<(), Error> {
        let mine = vec![world.rank() as u8; MIB];
        let mut all = vec![0; MIB * ranks];
        let gathered = compare_ranks(
            world,
            &mut all,
            |all| world.allgather_into(&mine, all),
            |all| {
                all.chunks_exact_mut(MIB).for_each(|part| part.copy_from_slice(black_box(&mine)));
            },
        )?;
        let mut part = vec![0; MIB];
        let sent = compare_ranks(
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
    table.at_least(&format!("allgather of 1 MiB per rank, {ranks} threads / memcpy"), &gathered, 0.5);
    table.at_least(&format!("all-to-all of 1 MiB per rank, {ranks} threads / memcpy"), &sent, 0.5);
}

/// The time of copies divided by that of collective calls, of the slowest rank.
fn compare_ranks(
    world: &Comm,
    memory: &mut [u8],
    mut call: impl FnMut(&mut [u8]) -> Result<(), Error>,
    mut copy: impl FnMut(&mut [u8]),
) -> Result<Vec<f64>, Error> {
    const CALLS: usize = 20;
    let memory = RefCell::new(memory);
    let rounds = alternate(
        ROUNDS,
        || {
            slowest_rank(world, || {
                (0..CALLS).for_each(|_| copy(black_box(&mut **memory.borrow_mut())));
                Ok(())
            })
        },
        || slowest_rank(world, || (0..CALLS).try_for_each(|_| call(black_box(&mut **memory.borrow_mut())))),
    )?;
    Ok(ratios(&rounds))
}

/// CPU time per small reduction and rank: many ranks on few cores must not cost more than few ranks.
fn oversubscription(table: &mut FigureTable) {
    const CALLS: usize = 1000;
    let cost = |ranks: usize| {
        let job = |world: &Comm| (0..CALLS).try_for_each(|_| world.allreduce_one(Op::Sum, 1u64).map(|_| ()));
        let before = cpu_seconds(ClockId::ProcessCPUTime);
        Launch::threads(ranks).run(job).expect("a job without faults");
        (cpu_seconds(ClockId::ProcessCPUTime) - before) / (CALLS * ranks) as f64
    };
    cost(2);
    let ratios: Vec<f64> = (0..7).map(|_| (cost(2), cost(64))).map(|(few, many)| many / few).collect();
    table.at_most("CPU per allreduce and rank, 64 thread ranks / 2", &ratios, 2.0);
}

/// The speed of `ours` as a fraction of that of `bare`.
fn compare(mut bare: impl FnMut(u64), mut ours: impl FnMut(u64)) -> Vec<f64> {
    let time =
        |work: &mut dyn FnMut(u64)| seconds(|| (0..BLOCKS).for_each(|block| work((block * MIB) as u64)));
    // The first round finds cold caches and does not count.
    time(&mut bare);
    time(&mut ours);
    let rounds = alternate(ROUNDS, || Ok::<_, Error>(time(&mut bare)), || Ok(time(&mut ours)));
    ratios(&rounds.expect("none of the two fails"))
}
