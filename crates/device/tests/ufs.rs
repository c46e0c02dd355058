//! Files of the operating system: system calls counted, bad input, full disks, locks, unbuffered access.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aqueduct_device::{
    AlignedBuffer, Device, DeviceOpenOptions, Handle, HandleExt, Kind, LockKind, Operation, Result, Segment,
    SegmentMut, SyncScope, Ufs, syscalls,
};

fn create(path: &Path) -> Arc<dyn Handle> {
    Ufs.open(path.as_os_str(), &DeviceOpenOptions::read_write().create(true)).unwrap()
}

fn kind<T>(result: Result<T>) -> Option<Kind> {
    result.err().map(|error| error.kind())
}

/// How many system calls `work` made.
fn calls(work: impl FnOnce()) -> u64 {
    let before = syscalls();
    work();
    syscalls() - before
}

#[test]
fn adjacent_segments_take_one_call_per_1024() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(&folder.path().join("a"));
    let bytes: Vec<u8> = (0..3000_u32).map(|number| number as u8).collect();
    let segments: Vec<_> =
        bytes.chunks(1).zip(0..).map(|(bytes, offset)| Segment::new(offset, bytes)).collect();
    assert_eq!(calls(|| assert_eq!(file.write(&segments[..1000]).unwrap(), 1000)), 1);
    assert_eq!(calls(|| assert_eq!(file.write(&segments).unwrap(), 3000)), 3);

    let mut back = vec![0; 3000];
    let mut segments: Vec<_> =
        back.chunks_mut(1).zip(0..).map(|(bytes, offset)| SegmentMut::new(offset, bytes)).collect();
    assert_eq!(calls(|| assert_eq!(file.read(&mut segments).unwrap(), 3000)), 3);
    assert_eq!(back, bytes);
}

#[test]
fn a_single_piece_is_one_call() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(&folder.path().join("a"));
    let mut bytes = vec![1; 1 << 20];
    assert_eq!(calls(|| file.write_at(0, &bytes).unwrap()), 1);
    assert_eq!(calls(|| assert_eq!(file.read_at(0, &mut bytes).unwrap(), 1 << 20)), 1);
    assert_eq!(
        calls(|| assert_eq!(file.write(&[Segment::new(0, b""), Segment::new(9, b"")]).unwrap(), 0)),
        0
    );
}

#[test]
fn reads_stop_exactly_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(&folder.path().join("a"));
    file.write_at(0, b"0123456789").unwrap();
    let (mut a, mut b, mut c) = ([0; 4], [0; 8], [7; 4]);
    let mut segments = [SegmentMut::new(4, &mut a), SegmentMut::new(8, &mut b), SegmentMut::new(0, &mut c)];
    assert_eq!(file.read(&mut segments).unwrap(), 6);
    assert_eq!((&a, &b[..2], c), (b"4567", &b"89"[..], [7; 4]));
    assert_eq!(file.read_at(10, &mut a).unwrap(), 0);
    assert_eq!(file.read_at(1 << 40, &mut a).unwrap(), 0);
}

#[test]
fn invalid_names_and_modes_are_errors_with_an_explanation() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &OsStr, options: &DeviceOpenOptions| Ufs.open(name, options);
    let missing = folder.path().join("missing");
    let error = open(missing.as_os_str(), &DeviceOpenOptions::read_write()).err().unwrap();
    assert_eq!((error.kind(), error.operation()), (Kind::NotFound, Operation::Open));
    assert_eq!(error.name(), missing.to_str().unwrap());
    assert_eq!(kind(Ufs.delete(missing.as_os_str())), Some(Kind::NotFound));

    for options in [DeviceOpenOptions::read_only(), DeviceOpenOptions::read_write().create(true)] {
        assert_eq!(kind(open(folder.path().as_os_str(), &options)), Some(Kind::NotAFile), "a directory");
    }
    assert_eq!(kind(Ufs.delete(folder.path().as_os_str())), Some(Kind::NotAFile));
    assert_eq!(kind(open("".as_ref(), &DeviceOpenOptions::read_only())), Some(Kind::InvalidName));
    assert_eq!(kind(open("a\0b".as_ref(), &DeviceOpenOptions::read_only())), Some(Kind::InvalidName));
    let long = OsString::from("x".repeat(300));
    assert_eq!(kind(open(&long, &DeviceOpenOptions::read_only())), Some(Kind::InvalidName));

    let path = folder.path().join("a");
    create(&path);
    let exclusive = DeviceOpenOptions::read_write().create(true).exclusive(true);
    assert_eq!(kind(open(path.as_os_str(), &exclusive)), Some(Kind::AlreadyExists));
    assert_eq!(
        kind(open(path.join("b").as_os_str(), &exclusive)),
        Some(Kind::NotAFile),
        "a file as a folder"
    );
    // The one file that refuses writers even if they are root.
    assert_eq!(
        kind(open("/sys/kernel/uevent_seqnum".as_ref(), &DeviceOpenOptions::read_write())),
        Some(Kind::PermissionDenied)
    );
}

#[test]
fn a_pipe_is_refused_without_waiting_for_its_other_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for options in
        [DeviceOpenOptions::read_only(), DeviceOpenOptions::write_only(), DeviceOpenOptions::read_write()]
    {
        assert_eq!(kind(Ufs.open(path.as_os_str(), &options)), Some(Kind::NotAFile));
    }
}

#[test]
fn the_open_mode_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let writer = Ufs.open(path.as_os_str(), &DeviceOpenOptions::write_only().create(true)).unwrap();
    assert_eq!(kind(writer.read_at(0, &mut [0])), Some(Kind::PermissionDenied));
    let reader = Ufs.open(path.as_os_str(), &DeviceOpenOptions::read_only()).unwrap();
    assert_eq!(kind(reader.write_at(0, b"x")), Some(Kind::PermissionDenied));
    assert_eq!(kind(reader.set_len(1)), Some(Kind::PermissionDenied));
    assert_eq!(kind(reader.preallocate(1)), Some(Kind::PermissionDenied));
    reader.sync(SyncScope::Data).unwrap();
}

#[test]
fn names_need_not_be_utf8() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(OsStr::from_bytes(b"a\xff:\xfe"));
    create(&path).write_at(0, b"x").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"x");
    Ufs.delete(path.as_os_str()).unwrap();
    assert!(!path.exists());
}

#[test]
fn huge_offsets_are_errors_with_the_offset() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(&folder.path().join("a"));
    for offset in [i64::MAX as u64, u64::MAX - 3, u64::MAX] {
        let error = file.write_at(offset, b"abcd").unwrap_err();
        assert_eq!((error.kind(), error.offset()), (Kind::InvalidArgument, Some(offset)));
        assert_eq!(kind(file.read_at(offset, &mut [0; 4])), Some(Kind::InvalidArgument));
    }
    // Legal, but more than file systems hold: whatever they say, it is an error and nothing was written.
    let error = file.write_at(i64::MAX as u64 - 4, b"abcd").unwrap_err();
    assert!(matches!(error.kind(), Kind::NoSpace | Kind::InvalidArgument), "{error}");
    assert_eq!((error.transferred(), file.len().unwrap()), (0, 0));
    assert_eq!(kind(file.set_len(u64::MAX)), Some(Kind::InvalidArgument));
    assert_eq!(kind(file.preallocate(u64::MAX)), Some(Kind::InvalidArgument));
}

#[test]
fn a_full_device_says_no_space() {
    let file = Ufs.open("/dev/full".as_ref(), &DeviceOpenOptions::write_only()).unwrap();
    let error = file.write_at(8, b"abcd").unwrap_err();
    assert_eq!((error.kind(), error.transferred(), error.offset()), (Kind::NoSpace, 0, Some(8)));
}

/// A file system in memory, where the test may mount one.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount(kind: &str, options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let command = ["-t", kind, "-o", options, "none"];
        let status = std::process::Command::new("mount").args(command).arg(folder.path()).status();
        if status.is_ok_and(|status| status.success()) {
            return Some(Self(folder));
        }
        eprintln!("no right to mount a {kind}: not tested here");
        None
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_disk_that_fills_up_counts_exactly() {
    let Some(disk) = Disk::mount("tmpfs", "size=1m") else { return };
    let file = create(&disk.0.path().join("a"));
    let bytes = vec![5; 300 << 10];
    let segments: Vec<_> = (0..5).map(|index| Segment::new(index * (400 << 10), &bytes)).collect();
    let error = file.write(&segments).unwrap_err();
    assert_eq!(error.kind(), Kind::NoSpace);
    let (whole, part) = (error.transferred() / (300 << 10), error.transferred() % (300 << 10));
    assert_eq!(error.offset(), Some(whole * (400 << 10) + part));
    assert_eq!(file.len().unwrap(), error.offset().unwrap());
    let mut back = vec![0; 300 << 10];
    assert_eq!(file.read_at(whole * (400 << 10), &mut back).unwrap(), part);
    assert!(back[..part as usize].iter().all(|&byte| byte == 5));
    assert_eq!(kind(file.preallocate(100 << 20)), Some(Kind::NoSpace));
}

#[test]
fn space_can_be_reserved() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let file = create(&path);
    file.preallocate(0).unwrap();
    file.preallocate(1 << 20).unwrap();
    assert_eq!(file.len().unwrap(), 1 << 20);
    if file.capabilities().preallocate {
        assert!(path.metadata().unwrap().blocks() * 512 >= 1 << 20);
    }
    file.preallocate(10).unwrap();
    assert_eq!(file.len().unwrap(), 1 << 20, "preallocating less never cuts");
}

#[test]
fn file_systems_without_fallocate_and_o_direct_are_supported() {
    let Some(disk) = Disk::mount("ramfs", "mode=700") else { return };
    let options = DeviceOpenOptions::read_write().create(true).direct(true);
    let file = Ufs.open(disk.0.path().join("a").as_os_str(), &options).unwrap();
    assert_eq!(file.capabilities().alignment, 1, "ramfs has no unbuffered side");
    file.write_at(0, b"abc").unwrap();
    file.preallocate(10_000).unwrap();
    assert_eq!(file.len().unwrap(), 10_000, "extended, if not reserved");
    file.preallocate(1).unwrap();
    assert_eq!(file.len().unwrap(), 10_000);
    let mut back = [0; 4];
    assert_eq!(file.read_at(0, &mut back).unwrap(), 4);
    assert_eq!(&back, b"abc\0");
}

#[test]
fn syncing_the_entry_needs_the_entry() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let file = create(&path);
    file.write_at(0, b"x").unwrap();
    file.sync(SyncScope::Data).unwrap();
    file.sync(SyncScope::Entry).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(kind(file.sync(SyncScope::Entry)), Some(Kind::NotFound));
    file.sync(SyncScope::Data).unwrap();
}

#[test]
fn handles_of_one_process_exclude_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let (first, second) = (create(&path), create(&path));
    let held = first.lock(0..10, LockKind::Exclusive).unwrap();
    drop(second.lock(10..20, LockKind::Exclusive).unwrap());
    let entered = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _held = second.lock(5..15, LockKind::Exclusive).unwrap();
            entered.store(true, Ordering::SeqCst);
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(!entered.load(Ordering::SeqCst));
        drop(held);
    });
    assert!(entered.load(Ordering::SeqCst));
    drop(first.lock(0..u64::MAX, LockKind::Exclusive).unwrap());
    drop(first.lock(5..5, LockKind::Exclusive).unwrap());
}

#[test]
fn locks_follow_the_open_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    create(&path);
    let reader = Ufs.open(path.as_os_str(), &DeviceOpenOptions::read_only()).unwrap();
    assert_eq!(kind(reader.lock(0..1, LockKind::Exclusive).map(drop)), Some(Kind::PermissionDenied));
    drop(reader.lock(0..1, LockKind::Shared).unwrap());
    let writer = Ufs.open(path.as_os_str(), &DeviceOpenOptions::write_only()).unwrap();
    drop(writer.lock(0..1, LockKind::Shared).unwrap());
}

#[test]
fn unbuffered_access_takes_any_alignment() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("a");
    let options = DeviceOpenOptions::read_write().create(true).direct(true);
    let file = Ufs.open(path.as_os_str(), &options).unwrap();
    let mut expected = vec![0_u8; 2 << 20];
    let mut source = AlignedBuffer::new(2 << 20);
    source.iter_mut().zip(0_u32..).for_each(|(byte, index)| *byte = (index % 251) as u8 + 1);
    for (offset, size, shift) in [
        (0, 8192, 0),
        (4096, 4096, 1),
        (1, 1, 0),
        (4095, 4098, 3),
        (10_000, 1_500_000, 7),
        (1_048_576, 1_000_000, 0),
        (2_000_000, 1, 5),
    ] {
        let bytes = &source[shift..shift + size];
        file.write_at(offset as u64, bytes).unwrap();
        expected[offset..offset + size].copy_from_slice(bytes);
    }
    let len = file.len().unwrap() as usize;
    assert_eq!(len, 2_048_576);
    let mut back = AlignedBuffer::new(2 << 20);
    for (offset, size, shift) in [(0, 2 << 20, 0), (1, 5000, 1), (4096, 8192, 0), (2_040_000, 10_000, 0)] {
        let size = size.min(back.len() - shift);
        let count = file.read_at(offset as u64, &mut back[shift..shift + size]).unwrap() as usize;
        assert_eq!(count, size.min(len - offset));
        assert_eq!(&back[shift..shift + count], &expected[offset..offset + count]);
    }
    assert_eq!(std::fs::read(&path).unwrap(), &expected[..len], "both sides are coherent");
}

#[test]
fn unbuffered_lists_are_gathered() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = DeviceOpenOptions::read_write().create(true).direct(true);
    let file = Ufs.open(folder.path().join("a").as_os_str(), &options).unwrap();
    let bytes: Vec<u8> = (0..100_000_u32).map(|index| (index % 251) as u8).collect();
    let segments: Vec<_> =
        bytes.chunks(777).zip(0..).map(|(bytes, index)| Segment::new(3000 + index * 777, bytes)).collect();
    let made = calls(|| assert_eq!(file.write(&segments).unwrap(), 100_000));
    assert!(made <= 3, "an edge, the blocks, an edge: {made}");
    let mut back = vec![0; 100_000];
    let mut segments: Vec<_> = back
        .chunks_mut(999)
        .zip(0..)
        .map(|(bytes, index)| SegmentMut::new(3000 + index * 999, bytes))
        .collect();
    assert_eq!(file.read(&mut segments).unwrap(), 100_000);
    assert_eq!(back, bytes);
}
