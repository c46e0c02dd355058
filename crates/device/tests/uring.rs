//! Files through `io_uring`: system calls counted, short completions, errors, threads, and a kernel that refuses.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use aqueduct_device::{
    AlignedBuffer, Device, DeviceOpenOptions, Handle, HandleExt, Kind, Segment, SegmentMut, Uring, syscalls,
};

fn create(device: &Uring, path: &Path) -> Arc<dyn Handle> {
    device.open(path.as_os_str(), &DeviceOpenOptions::read_write().create(true)).unwrap()
}

/// Bytes that depend on their offset.
fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|index| (index % 251) as u8 ^ (index / 4096) as u8).collect()
}

/// How many system calls `work` made.
fn calls(work: impl FnOnce()) -> u64 {
    let before = syscalls();
    work();
    syscalls() - before
}

/// Whether this machine lets us use `io_uring`; where not, the tests still check the same bytes.
fn is_ring(file: &dyn Handle) -> bool {
    file.capabilities().native_lists
}

#[test]
fn a_thousand_scattered_extents_take_few_calls() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(&Uring::new(), &folder.path().join("a"));
    let bytes = pattern(4_096_000);
    let places = |index: usize| ((index * 7919) % 1000) as u64 * 12_288;
    let segments: Vec<_> =
        bytes.chunks(4096).enumerate().map(|(index, bytes)| Segment::new(places(index), bytes)).collect();
    let written = calls(|| assert_eq!(file.write(&segments).unwrap(), 4_096_000));
    let mut back = vec![0; 4_096_000];
    let mut segments: Vec<_> = back
        .chunks_mut(4096)
        .enumerate()
        .map(|(index, bytes)| SegmentMut::new(places(index), bytes))
        .collect();
    let read = calls(|| assert_eq!(file.read(&mut segments).unwrap(), 4_096_000));
    assert!(back == bytes);
    println!("1000 extents of 4 KiB: {written} calls to write, {read} to read");
    if is_ring(&*file) {
        assert!(written <= 20 && read <= 20, "{written} and {read} calls");
    }
}

#[test]
fn runs_of_small_pieces_are_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(&Uring::new(), &folder.path().join("a"));
    let bytes = pattern(100_000);
    let place = |index: u64| index * 10 + index / 100 * 5000;
    let segments: Vec<_> =
        bytes.chunks(10).zip(0..).map(|(bytes, index)| Segment::new(place(index), bytes)).collect();
    assert_eq!(file.write(&segments).unwrap(), 100_000);
    let mut back = vec![0; 100_000];
    let mut segments: Vec<_> =
        back.chunks_mut(10).zip(0..).map(|(bytes, index)| SegmentMut::new(place(index), bytes)).collect();
    assert_eq!(file.read(&mut segments).unwrap(), 100_000);
    assert!(back == bytes);
}

#[test]
fn the_count_is_the_prefix_before_the_end_of_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(&Uring::new(), &folder.path().join("a"));
    file.write_at(0, b"0123456789").unwrap();
    let (mut a, mut b, mut c) = ([0; 4], [0; 8], [0; 4]);
    let mut segments = [SegmentMut::new(4, &mut a), SegmentMut::new(6, &mut b), SegmentMut::new(0, &mut c)];
    assert_eq!(file.read(&mut segments).unwrap(), 8);
    assert_eq!((&a, &b[..4]), (b"4567", &b"6789"[..]));
    let mut segments = [SegmentMut::new(99, &mut a), SegmentMut::new(0, &mut b)];
    assert_eq!(file.read(&mut segments).unwrap(), 0);
    assert_eq!(file.write(&[Segment::new(50, b""), Segment::new(60, b"")]).unwrap(), 0);
    assert_eq!(file.len().unwrap(), 10);
}

#[test]
fn errors_come_with_kind_place_and_count() {
    let full = Uring::new().open("/dev/full".as_ref(), &DeviceOpenOptions::write_only()).unwrap();
    let error = full.write(&[Segment::new(8, b"abcd"), Segment::new(100, b"efgh")]).unwrap_err();
    assert_eq!((error.kind(), error.offset(), error.transferred()), (Kind::NoSpace, Some(8), 0));
    let folder = tempfile::tempdir().unwrap();
    let file = create(&Uring::new(), &folder.path().join("a"));
    let far = i64::MAX as u64 - 4;
    let error = file
        .write(&[Segment::new(8, b"abcd"), Segment::new(far, b"efgh"), Segment::new(0, b"x")])
        .unwrap_err();
    assert!(matches!(error.kind(), Kind::NoSpace | Kind::InvalidArgument), "{error}");
    assert_eq!((error.offset(), error.transferred()), (Some(far), 4));
    let error = file.write(&[Segment::new(8, b"abcd"), Segment::new(u64::MAX, b"e")]).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (Kind::InvalidArgument, Some(u64::MAX)));
    let writer =
        Uring::new().open(folder.path().join("a").as_os_str(), &DeviceOpenOptions::write_only()).unwrap();
    let (mut a, mut b) = ([0], [0]);
    let error = writer.read(&mut [SegmentMut::new(0, &mut a), SegmentMut::new(5, &mut b)]).unwrap_err();
    assert_eq!(error.kind(), Kind::PermissionDenied);
}

#[test]
fn threads_share_a_handle() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(&Uring::new(), &folder.path().join("a"));
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let file = &file;
            scope.spawn(move || {
                let bytes = vec![thread as u8 + 1; 1000];
                let place = |index: u64| (index * 4 + thread) * 1000;
                for _ in 0..5 {
                    let segments: Vec<_> = (0..300).map(|index| Segment::new(place(index), &bytes)).collect();
                    assert_eq!(file.write(&segments).unwrap(), 300_000);
                    let mut back = vec![0; 300_000];
                    let mut segments: Vec<_> = back
                        .chunks_mut(1000)
                        .zip(0..)
                        .map(|(b, index)| SegmentMut::new(place(index), b))
                        .collect();
                    assert_eq!(file.read(&mut segments).unwrap(), 300_000);
                    assert!(back.iter().all(|&byte| u64::from(byte) == thread + 1));
                }
            });
        }
    });
    assert_eq!(file.len().unwrap(), 1_200_000);
}

#[test]
fn unbuffered_lists_mix_aligned_and_unaligned_runs() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("a");
    let options = DeviceOpenOptions::read_write().create(true).direct(true);
    let file = Uring::new().open(path.as_os_str(), &options).unwrap();
    let mut memory = AlignedBuffer::new(40_960);
    memory.copy_from_slice(&pattern(40_960));
    let segments = [
        Segment::new(0, &memory[..8192]),
        Segment::new(16_384, &memory[1..4097]),
        Segment::new(24_577, &memory[8192..12_288]),
        Segment::new(32_768, &memory[12_288..20_480]),
        Segment::new(50_000, &memory[..100]),
    ];
    assert_eq!(file.write(&segments).unwrap(), 8192 + 4096 + 4096 + 8192 + 100);
    let stored = std::fs::read(&path).unwrap();
    for segment in &segments {
        assert_eq!(&stored[segment.offset as usize..][..segment.bytes.len()], segment.bytes);
    }
    let mut back = AlignedBuffer::new(16_384);
    let (a, b) = back.split_at_mut(8192);
    // The second segment is aligned and ends behind the end of the file, which is not.
    let mut segments = [SegmentMut::new(0, a), SegmentMut::new(49_152, b)];
    assert_eq!(file.read(&mut segments).unwrap(), 8192 + 948);
    assert_eq!(&back[8192 + 848..8192 + 948], &memory[..100]);
}

#[test]
fn a_refused_ring_works_as_ufs() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(&Uring::refused(), &folder.path().join("a"));
    assert!(!is_ring(&*file));
    let made = calls(|| {
        file.write_all(&[Segment::new(0, b"ab"), Segment::new(10, b"cd"), Segment::new(20, b"ef")]).unwrap();
    });
    assert_eq!(made, 3);
    let (mut a, mut b) = ([0; 2], [0; 2]);
    assert_eq!(file.read_full(&mut [SegmentMut::new(20, &mut a), SegmentMut::new(10, &mut b)]).unwrap(), 4);
    assert_eq!((&a, &b), (b"ef", b"cd"));
}

/// Opens through two devices and prints the result; run by the tests below in separate processes.
#[test]
fn open_and_print() {
    let folder = tempfile::tempdir().unwrap();
    for device in [Uring::new(), Uring::new()] {
        let file = create(&device, &folder.path().join("a"));
        file.write_all(&[Segment::new(0, b"ab"), Segment::new(10, b"cd")]).unwrap();
        let mut back = [0; 12];
        assert_eq!(file.read_at(0, &mut back).unwrap(), 12);
        assert_eq!(&back, b"ab\0\0\0\0\0\0\0\0cd");
        println!("ring: {}", is_ring(&*file));
    }
}

fn tell(command: &mut Command) -> (String, String) {
    let output =
        command.args(["--exact", "open_and_print", "--nocapture", "--test-threads=1"]).output().unwrap();
    assert!(output.status.success());
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_environment_can_disable_it_and_that_is_reported_once() {
    let (output, said) = tell(Command::new(std::env::current_exe().unwrap()).env("AQUEDUCT_URING", "off"));
    assert_eq!(output.matches("ring: false").count(), 2, "{output}");
    assert_eq!(said.matches("no io_uring").count(), 1, "{said}");
    assert!(said.contains("AQUEDUCT_URING") && said.contains("ufs"), "{said}");
}
