//! What the devices cost, as ratios to the bare operation measured in the same run. `cargo bench -p aqueduct-device`.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aqueduct_device::{Device, Handle, HandleExt, MemFs, OpenOptions, Piece, PieceMut, Ufs, Uring, syscalls};

const BLOCK: usize = 1 << 20;
const BLOCKS: usize = 64;
const ROUNDS: usize = 15;

fn main() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let create = OpenOptions::read_write().create(true);
    let open =
        |device: &dyn Device, name: &str| device.open(folder.path().join(name).as_os_str(), &create).unwrap();

    let plain =
        File::options().read(true).write(true).create_new(true).open(folder.path().join("plain")).unwrap();
    against_calls(&plain, &*open(&Ufs, "plain"));
    against_copies(&*MemFs::new().open("a".as_ref(), &create).unwrap());
    count_adjacent(&*open(&Ufs, "adjacent"));
    count_scattered(&open(&Uring::new(), "scattered"));
}

fn against_calls(plain: &File, ufs: &dyn Handle) {
    let mut bytes = vec![1; BLOCK];
    let part = ratio(
        |offset| plain.write_all_at(&bytes, offset).unwrap(),
        |offset| ufs.write_at(offset, &bytes).unwrap(),
    );
    report("ufs, write of 1 MiB against pwrite", part, 0.97);
    let mut other = bytes.clone();
    let part = ratio(
        |offset| plain.read_exact_at(&mut bytes, offset).unwrap(),
        |offset| assert_eq!(ufs.read_at(offset, &mut other).unwrap(), BLOCK as u64),
    );
    report("ufs, read of 1 MiB against pread", part, 0.97);
}

fn against_copies(memory: &dyn Handle) {
    let mut bytes = vec![1; BLOCK];
    let mut target = vec![2; BLOCK * BLOCKS];
    let part = ratio(
        |offset| target[offset as usize..][..BLOCK].copy_from_slice(black_box(&bytes)),
        |offset| memory.write_at(offset, black_box(&bytes)).unwrap(),
    );
    report("memfs, write of 1 MiB against memcpy", part, 0.8);
    let mut other = bytes.clone();
    let part = ratio(
        |offset| black_box(&mut bytes).copy_from_slice(&target[offset as usize..][..BLOCK]),
        |offset| assert_eq!(memory.read_at(offset, black_box(&mut other)).unwrap(), BLOCK as u64),
    );
    report("memfs, read of 1 MiB against memcpy", part, 0.8);
}

fn count_adjacent(ufs: &dyn Handle) {
    let pieces: Vec<_> = (0..1000).map(|index| Piece::new(index * 100, &[3; 100])).collect();
    let before = syscalls();
    ufs.write_all(&pieces).unwrap();
    println!("ufs, 1000 adjacent pieces: {} system calls", syscalls() - before);
}

fn count_scattered(uring: &Arc<dyn Handle>) {
    let pieces: Vec<_> = (0..1000).map(|index| Piece::new(index * 8192, &[3; 4096])).collect();
    let before = syscalls();
    uring.write_all(&pieces).unwrap();
    let written = syscalls() - before;
    let mut memory = vec![0; 4_096_000];
    let mut pieces: Vec<_> =
        memory.chunks_mut(4096).zip(0..).map(|(bytes, index)| PieceMut::new(index * 8192, bytes)).collect();
    assert_eq!(uring.read_full(&mut pieces).unwrap(), 4_096_000);
    let read = syscalls() - before - written;
    let ring = if uring.capabilities().native_lists { "" } else { " (refused by the kernel)" };
    println!("uring{ring}, 1000 scattered extents of 4 KiB: {written} system calls to write, {read} to read");
}

/// How fast `ours` is, as a part of `bare`: the median of rounds that take turns.
fn ratio(mut bare: impl FnMut(u64), mut ours: impl FnMut(u64)) -> f64 {
    time(&mut bare);
    time(&mut ours);
    let round = |_| time(&mut bare).as_secs_f64() / time(&mut ours).as_secs_f64();
    let mut ratios: Vec<f64> = (0..ROUNDS).map(round).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ROUNDS / 2]
}

fn time(work: &mut impl FnMut(u64)) -> Duration {
    let start = Instant::now();
    (0..BLOCKS).for_each(|block| work((block * BLOCK) as u64));
    start.elapsed()
}

fn report(what: &str, part: f64, floor: f64) {
    println!("{what}: {part:.2} (to be at least {floor})");
}
