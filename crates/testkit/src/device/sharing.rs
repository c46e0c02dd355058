//! Many handles and many threads: what they see of each other, locks, durability.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use aqueduct_device::{
    DeviceOpenOptions, Handle, HandleExt, Kind, LockKind, LockScope, Operation, Segment, SyncScope,
};

use super::{Case, DeviceUnderTest, contents};
use crate::byte_pattern::pattern;

pub(super) const CASES: &[Case] = &[
    ("handles see each other's changes", handles_see_each_other),
    ("handles outlive each other", handles_outlive_each_other),
    ("disjoint writers through one handle", disjoint_one_handle),
    ("disjoint writers through many handles", disjoint_many_handles),
    ("overlapping writers leave bytes of one of them", overlapping_writers),
    ("readers beside a writer see old or new bytes", readers_beside_writer),
    ("syncing", syncing),
    ("exclusive locks exclude", exclusive_locks),
    ("shared locks share", shared_locks),
    ("locks make read-modify-write whole", locked_counter),
    ("without locks, locking says so", no_locks),
    ("capabilities make sense", capabilities),
];

/// Far longer than anything should take; only a failure waits for it.
const LONG: Duration = Duration::from_secs(30);

fn handles_see_each_other(subject: &DeviceUnderTest) {
    let (name, first) = subject.create();
    let second = subject.open(&name, &DeviceOpenOptions::read_write()).unwrap();
    let reader = subject.open(&name, &DeviceOpenOptions::read_only()).unwrap();
    first.write_at(0, b"abc").unwrap();
    assert_eq!((contents(&*second), contents(&*reader)), (b"abc".to_vec(), b"abc".to_vec()));
    second.write_at(5, b"f").unwrap();
    assert_eq!((contents(&*first), contents(&*reader)), (b"abc\0\0f".to_vec(), b"abc\0\0f".to_vec()));
    second.set_len(1).unwrap();
    assert_eq!((first.len().unwrap(), reader.len().unwrap()), (1, 1));
}

fn handles_outlive_each_other(subject: &DeviceUnderTest) {
    let (name, first) = subject.create_with(b"abc");
    let second = subject.open(&name, &DeviceOpenOptions::read_write()).unwrap();
    drop(first);
    second.write_at(3, b"d").unwrap();
    assert_eq!(contents(&*second), b"abcd");
}

fn disjoint_one_handle(subject: &DeviceUnderTest) {
    let (_, file) = subject.create();
    write_disjoint(&[Arc::clone(&file), Arc::clone(&file), Arc::clone(&file), file]);
}

fn disjoint_many_handles(subject: &DeviceUnderTest) {
    let (name, first) = subject.create();
    let mut files = vec![first];
    for rank in 1..4 {
        files.push(subject.open(&name, &DeviceOpenOptions::read_write().rank(rank)).unwrap());
    }
    write_disjoint(&files);
}

/// Each thread writes every fourth block, in lists of blocks that the others' lie between.
fn write_disjoint(files: &[Arc<dyn Handle>]) {
    const BLOCK: usize = 700;
    const ROUNDS: usize = 20;
    let ranks = files.len();
    let bytes = pattern(9, 0, ROUNDS * 4 * ranks * BLOCK);
    thread::scope(|scope| {
        for (rank, file) in files.iter().enumerate() {
            let bytes = &bytes;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let place = |step: usize| ((round * 4 + step) * ranks + rank) * BLOCK;
                    let pieces = [0, 1, 2, 3]
                        .map(|step| Segment::new(place(step) as u64, &bytes[place(step)..][..BLOCK]));
                    file.write_all(&pieces).unwrap();
                }
            });
        }
    });
    assert!(contents(&*files[0]) == bytes, "every writer's bytes are there");
}

fn overlapping_writers(subject: &DeviceUnderTest) {
    let (_, file) = subject.create();
    thread::scope(|scope| {
        for byte in 1..=4_u8 {
            let file = &file;
            scope.spawn(move || (0..10).for_each(|_| file.write_at(100, &[byte; 5000]).unwrap()));
        }
    });
    let bytes = contents(&*file);
    assert_eq!(bytes.len(), 5100);
    assert!(bytes[..100].iter().all(|&byte| byte == 0));
    assert!(bytes[100..].iter().all(|byte| (1..=4).contains(byte)));
}

fn readers_beside_writer(subject: &DeviceUnderTest) {
    let (_, file) = subject.create_with(&[1; 9_000]);
    thread::scope(|scope| {
        let writer = scope.spawn(|| (0..20).for_each(|_| file.write_at(0, &[2; 9_000]).unwrap()));
        for _ in 0..20 {
            let mut bytes = vec![0xEE; 9_000];
            assert_eq!(file.read_at(0, &mut bytes).unwrap(), 9_000);
            assert!(bytes.iter().all(|byte| [1, 2].contains(byte)));
        }
        writer.join().unwrap();
    });
    assert!(contents(&*file).iter().all(|&byte| byte == 2));
}

fn syncing(subject: &DeviceUnderTest) {
    let (name, file) = subject.create_with(b"abc");
    file.sync(SyncScope::Data).unwrap();
    file.sync(SyncScope::Entry).unwrap();
    file.write_at(1, b"B").unwrap();
    // A hint, whatever it says.
    for range in [0..3, 1..1, 2..u64::MAX, u64::MAX - 1..u64::MAX] {
        file.start_writeback(range);
    }
    file.sync(SyncScope::Data).unwrap();
    assert_eq!(contents(&*file), b"aBc");
    drop(file);
    let reader = subject.open(&name, &DeviceOpenOptions::read_only()).unwrap();
    reader.sync(SyncScope::Entry).unwrap();
    assert_eq!(contents(&*reader), b"aBc");
}

fn has_locks(file: &dyn Handle) -> bool {
    file.capabilities().locks > LockScope::None
}

/// Takes a lock in a thread of its own; a message comes when it is held, and it is released at once.
fn lock_elsewhere(file: &Arc<dyn Handle>, start: u64, kind: LockKind) -> Receiver<()> {
    let (held, receiver) = channel();
    let file = Arc::clone(file);
    thread::spawn(move || {
        let guard = file.lock(start..start + 10, kind);
        if guard.is_ok() {
            held.send(()).ok();
        }
    });
    receiver
}

fn exclusive_locks(subject: &DeviceUnderTest) {
    let (name, first) = subject.create();
    if !has_locks(&*first) {
        return;
    }
    let second = subject.open(&name, &DeviceOpenOptions::read_write()).unwrap();
    for (file, holder, waiter) in [
        (&second, LockKind::Exclusive, LockKind::Exclusive),
        (&second, LockKind::Exclusive, LockKind::Shared),
        (&second, LockKind::Shared, LockKind::Exclusive),
        (&first, LockKind::Exclusive, LockKind::Exclusive),
    ] {
        let guard = first.lock(100..110, holder).unwrap();
        let free = lock_elsewhere(file, 110, waiter);
        free.recv_timeout(LONG).expect("a range beside the locked one is free");
        let blocked = lock_elsewhere(file, 105, waiter);
        let early = blocked.recv_timeout(Duration::from_millis(30));
        assert!(early.is_err(), "{waiter:?} got in beside {holder:?}");
        drop(guard);
        blocked.recv_timeout(LONG).expect("a released range is free");
    }
}

fn shared_locks(subject: &DeviceUnderTest) {
    let (name, first) = subject.create();
    if !has_locks(&*first) {
        return;
    }
    let second = subject.open(&name, &DeviceOpenOptions::read_write()).unwrap();
    let _guard = first.lock(0..10, LockKind::Shared).unwrap();
    lock_elsewhere(&second, 5, LockKind::Shared).recv_timeout(LONG).expect("readers of two handles share");
    lock_elsewhere(&first, 5, LockKind::Shared).recv_timeout(LONG).expect("readers of one handle share");
}

fn locked_counter(subject: &DeviceUnderTest) {
    let (name, file) = subject.create_with(&[0; 8]);
    if !has_locks(&*file) {
        return;
    }
    thread::scope(|scope| {
        for rank in 0..4 {
            let own = subject.open(&name, &DeviceOpenOptions::read_write().rank(rank)).unwrap();
            scope.spawn(move || {
                for _ in 0..25 {
                    let _guard = own.lock(0..8, LockKind::Exclusive).unwrap();
                    let mut bytes = [0; 8];
                    own.read_at(0, &mut bytes).unwrap();
                    own.write_at(0, &(u64::from_le_bytes(bytes) + 1).to_le_bytes()).unwrap();
                }
            });
        }
    });
    assert_eq!(contents(&*file), 100_u64.to_le_bytes());
}

fn no_locks(subject: &DeviceUnderTest) {
    let (_, file) = subject.create();
    if has_locks(&*file) {
        return;
    }
    let error = file.lock(0..1, LockKind::Shared).err().expect("there are no locks");
    assert_eq!((error.kind(), error.operation()), (Kind::Unsupported, Operation::Lock));
}

fn capabilities(subject: &DeviceUnderTest) {
    let (_, file) = subject.create();
    let capabilities = file.capabilities();
    assert!(capabilities.alignment.is_power_of_two(), "{capabilities:?}");
    assert!(capabilities.block > 0 && capabilities.concurrency > 0, "{capabilities:?}");
    assert_eq!(file.capabilities(), capabilities, "they do not change");
}
