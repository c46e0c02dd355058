//! Lengths: the end of the file, holes, far offsets, cutting, extending, preallocating.

use aqueduct_device::{HandleExt, Kind, Operation, Result, Segment, SegmentMut};

use super::{Case, DeviceUnderTest, contents};
use crate::byte_pattern::pattern;

pub(super) const CASES: &[Case] = &[
    ("a new file is empty", new_file),
    ("reads at and after the end return nothing", end_of_file),
    ("holes are zeros", holes),
    ("far offsets are sparse", far_offsets),
    ("offsets above the largest are refused", largest_offset),
    ("cutting", cutting),
    ("extending gives zeros", extending),
    ("truncated bytes are zero after extension", cut_and_extended),
    ("lengths above the largest are refused", largest_length),
    ("preallocating extends and never cuts", preallocating),
];

fn new_file(subject: &DeviceUnderTest) {
    let (_, file) = subject.create();
    assert_eq!(file.len().unwrap(), 0);
    assert!(file.is_empty().unwrap());
    assert_eq!(file.read_at(0, &mut [0; 10]).unwrap(), 0);
}

fn end_of_file(subject: &DeviceUnderTest) {
    let (_, file) = subject.create_with(&pattern(1, 0, 1000));
    let mut bytes = [0; 100];
    assert_eq!(file.read_at(950, &mut bytes).unwrap(), 50);
    assert_eq!(bytes[..50], pattern(1, 950, 50));
    for offset in [1000, 1001, 4096, 1 << 33] {
        assert_eq!(file.read_at(offset, &mut bytes).unwrap(), 0, "at {offset}");
    }
    assert_eq!(file.len().unwrap(), 1000, "reading never extends");
}

fn holes(subject: &DeviceUnderTest) {
    let (_, file) = subject.create_with(b"ab");
    file.write_at(200_000, b"cd").unwrap();
    assert_eq!(file.len().unwrap(), 200_002);
    let mut expected = vec![0; 200_002];
    expected[..2].copy_from_slice(b"ab");
    expected[200_000..].copy_from_slice(b"cd");
    assert!(contents(&*file) == expected);
}

fn far_offsets(subject: &DeviceUnderTest) {
    let (_, file) = subject.create();
    let places = [1 << 40, 1 << 20, (1 << 32) - 3, 1 << 36];
    for (index, &place) in places.iter().enumerate() {
        file.write_at(place, &pattern(index as u8, place, 100)).unwrap();
    }
    assert_eq!(file.len().unwrap(), (1 << 40) + 100);
    for (index, &place) in places.iter().enumerate() {
        let mut bytes = [0xEE; 120];
        let there = if index == 0 { 110 } else { 120 };
        assert_eq!(file.read_at(place - 10, &mut bytes).unwrap(), there, "at {place}");
        assert_eq!(bytes[..10], [0; 10], "before {place}");
        assert_eq!(bytes[10..110], pattern(index as u8, place, 100), "at {place}");
    }
    file.set_len(0).unwrap();
}

fn largest_offset(subject: &DeviceUnderTest) {
    let (_, file) = subject.create_with(b"abc");
    let top = i64::MAX as u64;
    for offset in [top, top + 1, u64::MAX - 1, u64::MAX] {
        let error = file.write(&[Segment::new(offset, b"xy")]).unwrap_err();
        assert_eq!(
            (error.kind(), error.operation()),
            (Kind::InvalidArgument, Operation::Write),
            "at {offset}"
        );
        assert_eq!(error.offset(), Some(offset), "the error says where");
        let error = file.read(&mut [SegmentMut::new(offset, &mut [0; 2])]).unwrap_err();
        assert_eq!(
            (error.kind(), error.operation()),
            (Kind::InvalidArgument, Operation::Read),
            "at {offset}"
        );
    }
    assert_eq!(file.read_at(top - 2, &mut [0; 2]).unwrap(), 0, "below the largest offset is just the end");
    let late = [Segment::new(0, b"A"), Segment::new(u64::MAX, b"x")];
    let error = file.write_all(&late).unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidArgument, "also where it is not the first piece");
    assert_eq!(file.len().unwrap(), 3);
}

fn cutting(subject: &DeviceUnderTest) {
    let bytes = pattern(2, 0, 200_000);
    let (_, file) = subject.create_with(&bytes);
    for len in [150_000, 131_072, 4096, 4095, 513, 1, 0] {
        file.set_len(len).unwrap();
        assert!(contents(&*file) == bytes[..len as usize], "cut to {len}");
    }
}

fn extending(subject: &DeviceUnderTest) {
    let (_, file) = subject.create_with(b"abc");
    for len in [3, 4, 600, 5000, 70_000] {
        file.set_len(len).unwrap();
        let bytes = contents(&*file);
        assert_eq!(bytes.len() as u64, len);
        assert_eq!(&bytes[..3], b"abc");
        assert!(bytes[3..].iter().all(|&byte| byte == 0), "extended to {len}");
    }
}

fn cut_and_extended(subject: &DeviceUnderTest) {
    let bytes = pattern(3, 0, 100_000);
    for keep in [0, 100, 512, 4096, 65_536, 70_001] {
        let (_, file) = subject.create_with(&bytes);
        file.set_len(keep as u64).unwrap();
        file.write_at(99_990, b"0123456789").unwrap();
        let now = contents(&*file);
        assert!(now[..keep] == bytes[..keep], "kept {keep}");
        assert!(now[keep..99_990].iter().all(|&byte| byte == 0), "zeros behind {keep}");
        assert_eq!(&now[99_990..], b"0123456789");
    }
}

fn largest_length(subject: &DeviceUnderTest) {
    let (_, file) = subject.create_with(b"abc");
    for len in [i64::MAX as u64 + 1, u64::MAX] {
        let kind = |outcome: Result<()>| outcome.unwrap_err().kind();
        assert_eq!(kind(file.set_len(len)), Kind::InvalidArgument);
        assert_eq!(kind(file.preallocate(len)), Kind::InvalidArgument);
    }
    assert_eq!(contents(&*file), b"abc");
}

fn preallocating(subject: &DeviceUnderTest) {
    let (_, file) = subject.create_with(b"abc");
    file.preallocate(2).unwrap();
    assert_eq!(contents(&*file), b"abc");
    file.preallocate(100_000).unwrap();
    let bytes = contents(&*file);
    assert_eq!((bytes.len(), &bytes[..3]), (100_000, &b"abc"[..]));
    assert!(bytes[3..].iter().all(|&byte| byte == 0));
    file.write_at(99_998, b"xyz").unwrap();
    file.preallocate(0).unwrap();
    assert_eq!(file.len().unwrap(), 100_001);
}
